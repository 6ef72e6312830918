"""What the store said a moment ago: requests do not ask it each, nor all of them again when the moment is over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from interleaf.errors import StoreError

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
SECONDS = 1.0  # that an answer is believed
EARLY = 0.5  # after so many seconds, whoever needs it has it asked for again, and does not wait for that
MAX_WAIT = 1.0  # seconds for the store, where the last answer will do
OUTAGE_SECONDS = 3600.0  # that the last answer will do while the store is away
MOST = 10_000  # different ones


class _Kept(NamedTuple, Generic[Value]):
    since: float
    value: Value


class Remembered(Generic[Key, Value]):
    """Answers by key, each believed for a second; however many want one that is not there, the store is asked once."""

    def __init__(self, ask: Callable[[Key], Value], watch: Callable[[], float] = time.monotonic) -> None:
        self._ask, self._watch = ask, watch
        self._kept: dict[Key, _Kept[Value]] = {}
        self._asked: dict[Key, asyncio.Task[Value]] = {}
        self._forgotten = -1.0

    def at_once(self, key: Key) -> _Kept[Value] | None:
        """An answer that is still believed."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        age = self._watch() - kept.since
        if age >= EARLY:
            if age >= SECONDS:
                return None
            self._asking(key)
        return kept

    async def get(self, key: Key) -> Value:
        """The answer; what the store raises is raised, and not remembered."""
        kept = self.at_once(key)
        return kept.value if kept is not None else await asyncio.shield(self._asking(key))

    async def get_or_last(self, key: Key) -> Value:
        """The answer, or the last one if the store does not answer in time; then `StoreError` if there is none."""
        try:
            return await asyncio.wait_for(self.get(key), MAX_WAIT)
        except (StoreError, TimeoutError) as error:
            kept = self._kept.get(key)
            if kept is not None and self._watch() - kept.since < OUTAGE_SECONDS:
                return kept.value
            raise StoreError(str(error) or f"the store is away: it did not answer within {MAX_WAIT:g} s") from None

    def put(self, key: Key, value: Value) -> None:
        """What was just read or changed by somebody else."""
        self._keep(key, value, self._watch())

    def forget(self) -> None:
        """Believe nothing any more, nor what is being asked for now."""
        self._kept.clear()
        self._asked.clear()
        self._forgotten = self._watch()

    def _asking(self, key: Key) -> asyncio.Task[Value]:
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = asyncio.get_running_loop().create_task(self._answer(key))
            asked.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may be that nobody waits
        return asked

    async def _answer(self, key: Key) -> Value:
        since = self._watch()
        try:
            value = await asyncio.to_thread(self._ask, key)
        finally:
            if self._asked.get(key) is asyncio.current_task():
                del self._asked[key]
        self._keep(key, value, since)
        return value

    def _keep(self, key: Key, value: Value, since: float) -> None:
        """Unless something newer is known."""
        kept = self._kept.get(key)
        if since <= self._forgotten or (kept is not None and kept.since > since):
            return
        if len(self._kept) >= MOST:
            self._kept.clear()
        self._kept[key] = _Kept(since, value)
