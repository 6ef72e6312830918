"""The sums of a version's impressions for one metric: counted by the code that reads logs, kept, and added up."""

from __future__ import annotations

import json
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa

from interleaf.engines.book import Book
from interleaf.engines.work import Task, repeats, work
from interleaf.errors import DataError
from interleaf.tally import Tally, stored
from interleaf.tally.seen import Sample
from interleaf.tally.segments import MAX_SEGMENTS

UNSPLIT = "segments: more than can be reported on; none is"


class Sums:
    """Tallies of impressions with all that could not be used, and a sample of their ids: they add up.

    Values of attributes come from strangers: where they are too many to split by, nothing is split any more.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._book, self._sample = Book(task), Sample()
        self._is_split = True
        self.impressions = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Count impressions in."""
        self.impressions += batch.num_rows
        repeats(batch, self._sample)
        try:
            book = self._counted(batch, self._task)
        except DataError:
            if not self._task.by:
                raise
            self._is_split = False
            book = self._counted(batch, replace(self._task, by=()))
        self._take(book)

    def merge(self, other: Sums) -> None:
        """Count others in, which are not kept as they were."""
        self.impressions += other.impressions
        self._sample.merge(other._sample)
        self._is_split &= other._is_split
        self._take(other._book)

    def copy(self) -> Sums:
        """The same, to be merged."""
        return deepcopy(self)

    def close(self) -> Tally | None:
        """The tally of all; None where nothing could be used."""
        if not any(tally.impressions for tally in self._book.tallies):
            return None
        tally = self._book.close()
        tally.sample = self._sample
        if not self._is_split:
            tally.facts[UNSPLIT] = 1
        return tally

    def to_bytes(self) -> bytes:
        """The stored form: a line of JSON, the sample, and the tallies one after the other."""
        tallies = [stored.to_bytes(tally) for tally in self._book.tallies]
        sample = self._sample.hashes.tobytes()
        head = {
            "impressions": self.impressions,
            "dropped": self._book.dropped,
            "events": self._book.events,
            "level": self._sample.level,
            "is_split": self._is_split,
            "sizes": [len(part) for part in (sample, *tallies)],
        }
        return b"".join((json.dumps(head).encode(), b"\n", sample, *tallies))

    @classmethod
    def of_bytes(cls, data: bytes, task: Task) -> Sums:
        """What `to_bytes` made."""
        line, _, rest = bytes(data).partition(b"\n")
        head = json.loads(line)
        ends = np.cumsum(head["sizes"]).tolist()
        if len(rest) != ends[-1]:
            raise DataError(f"kept sums hold {len(rest)} bytes where {ends[-1]} should be; the store is damaged")
        sums = cls(task)
        sums.impressions, sums._is_split = head["impressions"], head["is_split"]
        sums._book.dropped, sums._book.events = Counter(head["dropped"]), Counter(head["events"])
        sums._sample.raise_to(head["level"])
        sums._sample.add(np.frombuffer(rest[: ends[0]], np.uint64))
        for start, end in pairwise(ends):
            sums._book.take(stored.from_bytes(rest[start:end], Tally, "kept sums"))
        return sums

    def _counted(self, batch: pa.RecordBatch, task: Task) -> Book:
        book = Book(task)
        for worked in work(batch, task):
            book.add(worked)
        return book

    def _take(self, book: Book) -> None:
        both = [*self._book.tallies, *book.tallies]
        segments = set(chain.from_iterable(tally.segments for tally in both))
        self._is_split &= len(segments) <= MAX_SEGMENTS
        if not self._is_split:
            for tally in both:
                tally.segments.clear()
                tally.evidence.firsts.clear()
        self._book.merge(book)
