"""How old lists were looked at: all counts that an estimate needs of them, before any weight."""

from __future__ import annotations

from collections import Counter

import numpy as np

from interleaf import buckets
from interleaf.methods.arrays import Array
from interleaf.refine.reuse.held import Held
from interleaf.refine.reuse.model import Cells, Looked
from interleaf.tally.seen import Sample

GROUPS = 20  # of units, for the jackknife
ROOM = 2**20  # units that are told one by one; of more, a sample is


class Looks:
    """Counts of impressions and units: `clicked` ones have an event, usable ones a list that new rankers could show.

    `unowned` impressions are usable, but their owners are not logged, or of fewer or more rankers.
    """

    def __init__(self, queries: int, positions: int, rankers: int) -> None:
        self._rankers, self._looked = rankers, Looked(positions, GROUPS)
        self.methods: Counter[str] = Counter()
        self.impressions = self.clicked = self.unowned = 0
        self._by_group = np.zeros(GROUPS, np.int64)
        self.pilot = np.zeros(buckets.BUCKETS, np.int64)  # usable and clicked impressions, by bucket
        self._queries = np.zeros(queries, np.bool_)
        self._units, self._clicking, self._piloting = Sample(ROOM), Sample(ROOM), Sample(ROOM)
        self.dropped: Counter[str] = Counter()

    def add(self, held: Held) -> None:
        """Count lists in."""
        rows, bucket = held.rows, buckets.buckets(held.rows.unit)
        clicked = rows.clicks.any(axis=1)
        pilot = clicked & held.usable
        owned = (rows.rankers == self._rankers) & ~np.isnan(held.log_joint)
        self._looked.add(held.entries, rows.clicks, bucket % GROUPS)
        self.methods[held.method] += len(bucket)
        self.impressions += len(bucket)
        self.clicked += int(clicked.sum())
        self.unowned += int((held.possible & ~owned).sum())
        self._by_group += np.bincount(bucket % GROUPS, minlength=GROUPS)
        self.pilot += np.bincount(bucket[pilot], minlength=buckets.BUCKETS)
        self._queries[rows.query] = True
        for sample, some in ((self._units, slice(None)), (self._clicking, clicked), (self._piloting, pilot)):
            sample.add(rows.unit[some])

    def merge(self, other: Looks) -> None:
        """Count other lists in."""
        self._looked.merge(other._looked)
        self.methods.update(other.methods)
        self.impressions += other.impressions
        self.clicked += other.clicked
        self.unowned += other.unowned
        self._by_group += other._by_group
        self.pilot += other.pilot
        self._queries |= other._queries
        self._units.merge(other._units)
        self._clicking.merge(other._clicking)
        self._piloting.merge(other._piloting)
        self.dropped += other.dropped

    @property
    def queries(self) -> int:
        """Queries of these lists."""
        return int(self._queries.sum())

    @property
    def units(self) -> int:
        """Units, estimated where there are more than a million; and so below."""
        return _number(self._units)

    @property
    def clicking_units(self) -> int:
        """Units with an event."""
        return _number(self._clicking)

    @property
    def pilot_units(self) -> int:
        """Units with an event on a usable list."""
        return _number(self._piloting)

    @property
    def group_of(self) -> Array:
        """The number of each group of units among those that there are; -1 for the others."""
        there = self._by_group > 0
        return np.where(there, np.cumsum(there) - 1, -1)

    @property
    def counts(self) -> Array:
        """The impressions of each group that there is."""
        return self._by_group[self._by_group > 0]

    @property
    def cells(self) -> Cells:
        """What the click model learns from."""
        found = self._looked.cells
        return found._replace(group=self.group_of[found.group])


def _number(units: Sample) -> int:
    return units.size << units.level
