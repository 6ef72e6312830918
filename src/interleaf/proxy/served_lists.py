"""Remembers the lists of the last minutes: further pages, repeated searches and events belong to one of them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MAX_LISTS = 20_000  # keys of lists
KEEP_SECONDS = 1800.0  # a further page, or an event, belongs to a list that is not older
REPEAT_SECONDS = 60.0  # the same search of the same user within this time is the same impression


@dataclass
class ServedList:
    """A list that was shown; `documents` are those of all pages so far, each of `size` results."""

    impression: str
    documents: list[str]
    size: int
    at: float


class ServedLists:
    """Lists by user and search, by impression, and by the query id of UBI; the oldest are forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lists: OrderedDict[bytes | str, ServedList] = OrderedDict()

    def add(self, keys: list[bytes | str], served: ServedList) -> bool:
        """Store a list under these keys; returns True."""
        for key in keys:
            self._lists.pop(key, None)
            self._lists[key] = served
        while len(self._lists) > MAX_LISTS:
            self._lists.popitem(last=False)
        return True

    def extend(self, keys: list[bytes | str], served: ServedList, documents: list[str]) -> bool:
        """Remember a list by more keys, and with the documents of a further page; False if it has them already."""
        self.add(keys, served)
        is_longer = len(documents) > len(served.documents)
        if is_longer:
            served.documents = documents
        return is_longer

    def find(self, key: bytes | str) -> ServedList | None:
        """The list with this key, if it is not too old."""
        served = self._lists.get(key)
        return served if served is not None and self._clock() - served.at < KEEP_SECONDS else None

    def new(self, impression: str, documents: list[str], size: int) -> ServedList:
        """A list that is shown now."""
        return ServedList(impression, documents, size, self._clock())

    def is_repeat(self, served: ServedList, first: int, documents: list[str]) -> bool:
        """Whether a page was shown a moment ago, with the same documents."""
        shown = served.documents[first : first + len(documents)]
        return shown == documents and self._clock() - served.at < REPEAT_SECONDS

    def is_continued(self, served: ServedList, first: int, documents: list[str]) -> bool:
        """Whether these documents are the list so far, and a page that begins in it or behind it."""
        known = len(served.documents)
        return first <= known < len(documents) and documents[:known] == served.documents
