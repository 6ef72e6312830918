"""What there is in an old log: its queries, by whom its lists were composed, and its own rankers' rankings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import numpy as np
import pyarrow as pa

from interleaf.methods.arrays import Array
from interleaf.refine.reuse.borrowed import Borrowed
from interleaf.refine.reuse.old import Old, OldTask, Reader


class Survey:
    """`longest[query]` is the length of its longest list, `methods[method]` how many impressions it composed.

    `kept` has all impressions, if they are to be kept: None otherwise.
    """

    def __init__(self, rankers: Collection[str], keep: bool) -> None:
        self.longest: dict[str, int] = {}
        self.methods: Counter[str] = Counter()
        self.borrowed = Borrowed(rankers)
        self.kept: list[Old] | None = [] if keep else None
        self.dropped: Counter[str] = Counter()

    def read(self, batch: pa.RecordBatch, task: OldTask, repeated: Array) -> None:
        """Count a batch of the log in."""
        reader = Reader(batch, task, repeated, self.dropped)
        for old in reader:
            longest = np.zeros(len(old.queries), np.int64)
            np.maximum.at(longest, old.rows.query, old.rows.counts)
            self._stretch({old.queries[query]: int(longest[query]) for query in np.flatnonzero(longest).tolist()})
            self.methods[old.method] += len(old.rows.query)
            if self.kept is not None:
                self.kept.append(old)
        self.borrowed.merge(reader.borrowed)

    def merge(self, other: Survey) -> None:
        """Count that of the next part of a log in."""
        self._stretch(other.longest)
        self.methods.update(other.methods)
        self.borrowed.merge(other.borrowed)
        self.dropped += other.dropped

    def _stretch(self, longest: dict[str, int]) -> None:
        for query, length in longest.items():
            self.longest[query] = max(length, self.longest.get(query, 0))
