"""Old lists as the new rankers see them, and how they were examined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from interleaf import buckets
from interleaf.counterfactual.click_model import Cells, Looked
from interleaf.counterfactual.history import MOST_LOG_WEIGHT
from interleaf.counterfactual.old_log import NEVER_SHOWN, NOT_RANKED, Old, OldTask, Reader, Rows
from interleaf.counterfactual.outcomes import Scorer, log_chances
from interleaf.counterfactual.rankings import Ranked
from interleaf.counterfactual.robust import impressions_of
from interleaf.engines.passes import Passes, S
from interleaf.methods.arrays import Array
from interleaf.tally.seen import Sample


class Held(NamedTuple):
    """Old impressions of one method that the new rankers have rankings for.

    `rows.query` counts the queries of the new rankings; `entries` are the documents there; `pages` is how long the new
    rankers' list would be, `possible` whether it could be the old one; and the logs of the weights.
    """

    method: str
    rows: Rows
    entries: Array
    pages: Array
    possible: Array
    log_weight: Array
    log_joint: Array

    @property
    def usable(self) -> Array:
        """Whether the new rankers could show the list."""
        return np.asarray(self.log_weight > -np.inf)


@dataclass(frozen=True, eq=False)
class View:
    """How the new rankers see old lists, of which the longest has so many documents."""

    new: Ranked
    scorer: Scorer
    longest: int

    def of(self, old: Old, dropped: Counter[str]) -> Held:
        """What can be used of old impressions; what cannot is counted."""
        names = np.array([self.new.queries.get(name, -1) for name in old.queries], np.int64)
        rows = old.rows._replace(query=names[old.rows.query])
        dropped[NOT_RANKED] += int((rows.query < 0).sum())
        held = self._weighed(old.method, rows.only(rows.query >= 0))
        wrong = held.log_weight > MOST_LOG_WEIGHT
        dropped[NEVER_SHOWN] += int(wrong.sum())
        return Held(held.method, held.rows.only(~wrong), *(values[~wrong] for values in held[2:]))

    def _weighed(self, method: str, rows: Rows) -> Held:
        rows = rows._replace(**{name: self._fitted(getattr(rows, name)) for name in ("documents", "clicks", "teams")})
        inside = np.arange(self.longest) < rows.counts[:, None]
        entries = np.where(inside, self.new.find(rows.query, rows.documents), -1)
        cut = (rows.union > 0) & (rows.counts < rows.union)
        # A list that ended for want of documents does not say how long the page might be: take the longest list's.
        pages = np.where(cut, rows.counts, self.longest)
        lengths = np.minimum(pages, self.new.union[rows.query])
        possible = ((entries >= 0) | ~inside).all(axis=1) & (rows.counts == lengths)
        log_weight, log_joint = np.full((2, len(rows.query)), -np.inf)
        some = impressions_of(self.new, rows.query[possible], np.maximum(entries[possible], 0), rows.teams[possible])
        of_list, of_joint = log_chances(self.scorer.chosen, some, rows.counts[possible])
        log_weight[possible] = of_list - rows.log_chance[possible]
        log_joint[possible] = of_joint - rows.log_joint[possible]
        return Held(method, rows, entries, pages, possible, log_weight, log_joint)

    def _fitted(self, values: Array) -> Array:
        """As wide as the longest list."""
        missing = max(0, self.longest - values.shape[1])
        return np.pad(values[:, : self.longest], ((0, 0), (0, missing)))


class Kept:
    """Old lists that are held in memory; `dropped` are what could not be used of their log."""

    def __init__(self, lists: Iterable[Old], view: View, dropped: Counter[str]) -> None:
        self._dropped = Counter(dropped)
        self._lists = [view.of(old, self._dropped) for old in lists]

    def summed(self, empty: S, add: Callable[[S, Held], None]) -> S:
        """Sums over all lists."""
        for held in self._lists:
            add(empty, held)
        empty.dropped += self._dropped
        return empty


class Reread:
    """Old lists that executors read again for every sum."""

    def __init__(self, passes: Passes[OldTask], view: View) -> None:
        self._passes, self._view = passes, view

    def summed(self, empty: S, add: Callable[[S, Held], None]) -> S:
        """Sums over all lists."""
        return self._passes.summed(empty, partial(_add_batch, self._view, add))


def _add_batch(
    view: View, add: Callable[[S, Held], None], sums: S, batch: pa.RecordBatch, task: OldTask, repeated: Array
) -> None:
    for old in Reader(batch, task, repeated, sums.dropped):
        add(sums, view.of(old, sums.dropped))


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
