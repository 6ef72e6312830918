"""The results of an experiment that chooses the best of many rankers, epoch by epoch, and the plans that follow."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from interleaf.experiment import Experiment
from interleaf.experiment.choose import last_known
from interleaf.experiment.epochs import EpochPlan, RankerExit, plan_epoch
from interleaf.kernels.arrays import Array
from interleaf.kernels.buckets import BUCKETS, buckets
from interleaf.stats.elimination import (
    WORSE,
    Against,
    Comparisons,
    LeaderSums,
    PairMeans,
    find_leader,
    find_leaving,
    find_nearly_leaving,
)
from interleaf.tally.choice_sums import (
    CLICKED,
    EPOCH,
    FIRST,
    LISTS,
    LOST,
    RANKER,
    SECOND,
    SIZE,
    SUM,
    UNIT,
    WON,
    ChoiceSums,
)
from interleaf.tally.score_sums import ONE


class ChoiceHistory:
    """The cells of sums in the order of epochs, read up to an epoch; rankers are numbered as in `rankers`.

    Sums grow with each epoch that is read. Those of all rankers against the leader are kept until another one leads.
    """

    def __init__(self, sums: ChoiceSums, rankers: Sequence[str], confidence: float) -> None:
        numbers, rows, size = number_rankers(sums, rankers), sums.cells.rows, len(rankers)
        is_first = _find_first(rows, len(sums.names))
        order = np.argsort(rows[:, EPOCH], kind="stable")
        rows = rows[order]
        self.rankers, self.confidence, self._known = tuple(rankers), confidence, 0
        self._epochs, self._buckets = rows[:, EPOCH], buckets(rows[:, UNIT].view(np.uint64))
        self._is_first = is_first[order]
        self._pairs = numbers[rows[:, FIRST : SECOND + 1]]
        self._scores = np.rint(rows[:, SUM] / np.maximum(rows[:, CLICKED], 1)) / ONE
        self.means = PairMeans(*np.zeros((4, size, size)))
        sides = self._pairs.ravel()
        self._rows = np.argsort(sides, kind="stable") // 2  # of each ranker, in the order of epochs
        self._ends = np.cumsum(np.bincount(sides, minlength=size))
        self._set_leader(-1)

    @property
    def epochs(self) -> list[int]:
        """The epochs with results."""
        return [int(epoch) for epoch in np.unique(self._epochs)]

    def read_until(self, epoch: int) -> None:
        """Read the results until the end of an epoch, which must not be before the last one."""
        end = int(np.searchsorted(self._epochs, epoch, "right"))
        rows = slice(self._known, end)
        first, second = self._pairs[rows].T
        self.means.add(first, second, self._scores[rows])
        self.means.add(second, first, -self._scores[rows])
        self._known = max(end, self._known)

    def compare(self, leader: int) -> Comparisons:
        """All other rankers against one, by what was read."""
        changed: Array = np.arange(len(self.rankers))
        if leader == self._leader:
            changed = self._read_against_leader()
        else:
            self._set_leader(leader)
            self._read_against_leader()
        if len(changed):
            self._comparisons.update(self._sums, changed[changed != leader].tolist())
        return self._comparisons

    def leader_sums(self, leader: int) -> LeaderSums:
        """The sums of all rankers against one, of what was read."""
        self.compare(leader)
        return self._sums

    def _set_leader(self, leader: int) -> None:
        size = len(self.rankers)
        sums, counts = np.zeros((BUCKETS, size)), np.zeros((BUCKETS, size), np.int64)
        self._leader, self._read = leader, 0
        self._sums = LeaderSums(sums, counts, np.zeros(size, np.int64))
        self._comparisons = Comparisons(size, self.confidence)

    def _read_against_leader(self) -> Array:
        """Add results that were read since the last call to the sums of the leader; returns the rankers in them."""
        leader = self._leader
        every = self._rows[self._ends[leader - 1] if leader else 0 : self._ends[leader]]
        end = int(np.searchsorted(every, self._known))
        rows, self._read = every[self._read : end], end
        first, second = self._pairs[rows].T
        other, sign = np.where(first == leader, second, first), np.where(first == leader, -1, 1)
        np.add.at(self._sums.sums, (self._buckets[rows], other), sign * self._scores[rows])
        np.add.at(self._sums.counts, (self._buckets[rows], other), 1)
        np.add.at(self._sums.units, other, self._is_first[rows])
        return np.unique(other)


def _find_first(rows: Array, names: int) -> Array:
    """Whether a cell is the first one of its unit and pair; cells are in the order of units, then of epochs."""
    pair = rows[:, FIRST] * names + rows[:, SECOND]
    order = np.lexsort((pair, rows[:, UNIT]))
    is_first = np.ones(len(rows), np.int64)
    same = (rows[order[1:], UNIT] == rows[order[:-1], UNIT]) & (pair[order[1:]] == pair[order[:-1]])
    is_first[order[1:][same]] = 0
    return is_first


class ChoiceStep(NamedTuple):
    """What the results until an epoch say: who left so far, who is left, who leads, and the others against the leader.

    `against` includes those that leave with this step.
    """

    epoch: int
    exits: tuple[RankerExit, ...]
    left: list[int]
    leader: int
    against: list[Against]

    @property
    def nearly(self) -> list[tuple[int, int]]:
        """Pairs of the leader and a ranker that has nearly left."""
        return [(self.leader, ranker) for ranker in find_nearly_leaving(self.against) if ranker in self.left]


def next_step(history: ChoiceHistory, epoch: int, exits: Sequence[RankerExit], margin: float) -> ChoiceStep:
    """The step of one more epoch, after those who left before."""
    history.read_until(epoch)
    rankers, left = history.rankers, list_left(history.rankers, exits)
    leader = find_leader(history.means, left)
    worse = sum(one.code == WORSE for one in exits)
    against = history.compare(leader).correct([one for one in left if one != leader], worse)
    leaving = find_leaving(against, margin)
    new = [RankerExit(rankers[one.ranker], one.code, rankers[leader], epoch, one.bound) for one in leaving]
    out = {one.ranker for one in leaving}
    return ChoiceStep(epoch, (*exits, *new), [one for one in left if one not in out], leader, against)


def list_left(rankers: Sequence[str], exits: Sequence[RankerExit]) -> list[int]:
    """The numbers of the rankers that have not left."""
    gone = {one.ranker for one in exits}
    return [place for place, ranker in enumerate(rankers) if ranker not in gone]


def walk(history: ChoiceHistory, margin: float, last: int | None = None) -> list[ChoiceStep]:
    """The steps of all epochs with results, until the epoch `last`."""
    steps: list[ChoiceStep] = []
    for epoch in history.epochs:
        if last is None or epoch <= last:
            steps.append(next_step(history, epoch, steps[-1].exits if steps else (), margin))
    return steps


def plan_from_results(
    experiment: Experiment, version: int, epoch: int, sums: ChoiceSums, gone: Sequence[RankerExit] = ()
) -> EpochPlan:
    """The plan of an epoch from the sums of the primary metric; results after the last known epoch are not used.

    `gone` are rankers removed by earlier plans. They follow from the sums, unless units were sampled since then; they
    never return.
    """
    known = last_known(experiment, epoch)
    steps = walk(ChoiceHistory(sums, experiment.rankers, experiment.confidence), experiment.margin, known)
    names = {one.ranker for one in gone}
    exits = (*gone, *(one for one in (steps[-1].exits if steps else ()) if one.ranker not in names))
    nearly = [
        pair for pair in (steps[-1].nearly if steps else ()) if not names & {experiment.rankers[one] for one in pair}
    ]
    wins, results = count_wins(sums, experiment.rankers, known), digest(sums, experiment.rankers, known)
    return plan_epoch(experiment, version, epoch, wins, exits, known, results, nearly)


def count_wins(sums: ChoiceSums, rankers: Sequence[str], last: int) -> Array:
    """The impressions that ranker i won against j, `[i, j]`, until an epoch; [i, i]: those that showed i alone."""
    numbers, wins = number_rankers(sums, rankers), np.zeros((len(rankers), len(rankers)), np.int64)
    rows = sums.wins.rows[sums.wins.rows[:, 0] <= last]
    first, second = numbers[rows[:, FIRST - 1]], numbers[rows[:, SECOND - 1]]
    np.add.at(wins, (first, second), rows[:, WON])
    np.add.at(wins, (second, first), rows[:, LOST])
    shown = sums.shown.rows
    alone = shown[(shown[:, 0] <= last) & (shown[:, SIZE] == 1)]
    np.add.at(wins, (numbers[alone[:, RANKER]],) * 2, alone[:, LISTS])
    return wins


def digest(sums: ChoiceSums, rankers: Sequence[str], last: int) -> str:
    """A digest of the sums until an epoch."""
    numbers, state = number_rankers(sums, rankers), blake2b(digest_size=16)
    tables = ((sums.cells, EPOCH, (FIRST, SECOND)), (sums.wins, 0, (1, 2)), (sums.shown, 0, (RANKER,)))
    for table, epoch, columns in tables:
        rows = table.rows[table.rows[:, epoch] <= last]
        for column in columns:
            rows[:, column] = numbers[rows[:, column]]
        state.update(rows.tobytes())
    return state.hexdigest()


def number_rankers(sums: ChoiceSums, rankers: Sequence[str]) -> Array:
    """The number of each name of the sums among these rankers."""
    places = {ranker: place for place, ranker in enumerate(rankers)}
    return np.array([places[name] for name in sums.names], np.int64)
