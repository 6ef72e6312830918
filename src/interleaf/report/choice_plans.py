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
    LeaderSums,
    PairMeans,
    compare_with_leader,
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
    """The cells of sums in the order of epochs, read up to an epoch; rankers are numbered as in `rankers`."""

    def __init__(self, sums: ChoiceSums, rankers: Sequence[str]) -> None:
        numbers = number_rankers(sums, rankers)
        rows = sums.cells.rows
        rows = rows[np.argsort(rows[:, EPOCH], kind="stable")]
        self.rankers, self._known = tuple(rankers), 0
        self._epochs = rows[:, EPOCH]
        self._units, self._buckets = rows[:, UNIT].view(np.uint64), buckets(rows[:, UNIT].view(np.uint64))
        self._pairs = numbers[rows[:, FIRST : SECOND + 1]]
        self._scores = np.rint(rows[:, SUM] / np.maximum(rows[:, CLICKED], 1))
        self.means = PairMeans(*np.zeros((2, len(rankers), len(rankers))))

    @property
    def epochs(self) -> list[int]:
        """The epochs with results."""
        return [int(epoch) for epoch in np.unique(self._epochs)]

    def read_until(self, epoch: int) -> None:
        """Read the results until the end of an epoch, which must not be before the last one."""
        end = int(np.searchsorted(self._epochs, epoch, "right"))
        rows = slice(self._known, end)
        first, second = self._pairs[rows].T
        for one, other, sign in ((first, second, 1), (second, first, -1)):
            np.add.at(self.means.sums, (one, other), sign * self._scores[rows] / ONE)
            np.add.at(self.means.counts, (one, other), 1)
        self._known = max(end, self._known)

    def leader_sums(self, leader: int) -> LeaderSums:
        """The sums of all rankers against one, of what was read."""
        first, second = self._pairs[: self._known].T
        rows = np.flatnonzero((first == leader) | (second == leader))
        other = np.where(first[rows] == leader, second[rows], first[rows])
        sign = np.where(first[rows] == leader, -1, 1)
        size = len(self.rankers)
        cells = self._buckets[rows] * size + other
        sums = np.bincount(cells, sign * self._scores[rows], BUCKETS * size) / ONE
        counts = np.bincount(cells, minlength=BUCKETS * size)
        seen = np.unique(np.stack([self._units[rows], other.astype(np.uint64)], axis=1), axis=0)
        units = np.bincount(seen[:, 1].astype(np.int64), minlength=size)
        return LeaderSums(sums.reshape(BUCKETS, size), counts.reshape(BUCKETS, size), units)


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


def next_step(
    history: ChoiceHistory, epoch: int, exits: Sequence[RankerExit], confidence: float, margin: float
) -> ChoiceStep:
    """The step of one more epoch, after those who left before."""
    history.read_until(epoch)
    rankers, gone = history.rankers, {one.ranker for one in exits}
    left = [place for place, ranker in enumerate(rankers) if ranker not in gone]
    leader = find_leader(history.means, left)
    worse = sum(one.code == WORSE for one in exits)
    against = compare_with_leader(history.leader_sums(leader), left, leader, len(rankers), worse, confidence)
    leaving = find_leaving(against, leader, margin)
    new = [RankerExit(rankers[one.ranker], one.code, rankers[leader], epoch, one.bound) for one in leaving]
    out = {one.ranker for one in leaving}
    return ChoiceStep(epoch, (*exits, *new), [one for one in left if one not in out], leader, against)


def walk(
    sums: ChoiceSums, rankers: Sequence[str], confidence: float, margin: float, last: int | None = None
) -> list[ChoiceStep]:
    """The steps of all epochs with results, until the epoch `last`."""
    history = ChoiceHistory(sums, rankers)
    steps: list[ChoiceStep] = []
    for epoch in history.epochs:
        if last is None or epoch <= last:
            steps.append(next_step(history, epoch, steps[-1].exits if steps else (), confidence, margin))
    return steps


def plan_from_results(
    experiment: Experiment, version: int, epoch: int, sums: ChoiceSums, gone: Sequence[RankerExit] = ()
) -> EpochPlan:
    """The plan of an epoch from the sums of the primary metric; results after the last known epoch are not used.

    `gone` are rankers removed by earlier plans. They follow from the sums, unless units were sampled since then; they
    never return.
    """
    known = last_known(experiment, epoch)
    steps = walk(sums, experiment.rankers, experiment.confidence, experiment.margin, known)
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
