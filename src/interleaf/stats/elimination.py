"""Which of many rankers leads, and which others can leave, from sums of each pair by user bucket over all epochs.

In an epoch, chance decides which rankers a unit sees. The score of a unit in an epoch for a pair is the mean score of
its impressions with an event. The estimate of a pair is the mean over all units and epochs, so an epoch counts by the
number of its units:

    D_ij = sum_b S_ijb / sum_b N_ijb

over buckets b of units, with the sum S of the scores of units in epochs, and their number N. The error is computed by
leaving out one bucket at a time. A bucket has its units in all epochs, because the same units come again.

The leader is the ranker with the highest Copeland score: the number of other rankers that it beats, minus the number of
those that beat it. A pair with fewer than 10 scores counts in part, so that nobody leads by luck. A ranker leaves

* as `worse`, if its interval against the leader is below 0, or
* as `no_gain`, if that interval is below the margin: it is not better than the leader by what matters.

All intervals are anytime intervals. The leader is chosen from the data, so they hold for all pairs of the rankers at
the start together: by Holm's correction for the first reason, by Bonferroni's for the second. The error is never less
than if four units with the opposite score had been missed by chance, so a ranker that loses every list can leave, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.stats import compare, sequence
from interleaf.stats.compare import Estimate, Interval, significance
from interleaf.stats.multiplicity import holm_levels
from interleaf.stats.sequence import Anytime

WORSE, NO_GAIN = "worse", "no_gain"
UNSEEN = 4  # units with other scores that may be missing by chance
NEAR = 100  # more units, with which a ranker would leave
ENOUGH = 10  # scores of units in epochs with which a pair counts fully for the leader


class PairMeans(NamedTuple):
    """`sums[i, j]` of the scores of i over j, which is -`sums[j, i]`, and `counts[i, j]` of units in epochs.

    `means` are the estimates, 0 for pairs that were never compared. `beaten` is 1 where i beats j and -1 where j beats
    i, and less for pairs with fewer than `ENOUGH` scores.
    """

    sums: Array
    counts: Array
    means: Array
    beaten: Array

    @classmethod
    def of(cls, sums: Array, counts: Array) -> PairMeans:
        """The means of sums."""
        means = compare.quotient(sums, counts)
        return cls(sums, counts, means, np.sign(means) * np.minimum(counts / ENOUGH, 1.0))

    def add(self, first: Array, second: Array, scores: Array) -> None:
        """Add scores of rankers over others; the means of these pairs are computed again."""
        np.add.at(self.sums, (first, second), scores)
        np.add.at(self.counts, (first, second), 1)
        changed = PairMeans.of(self.sums[first, second], self.counts[first, second])
        self.means[first, second], self.beaten[first, second] = changed.means, changed.beaten


class LeaderSums(NamedTuple):
    """Sums of the leader's pairs: `sums[bucket, i]` of i over the leader, `counts[bucket, i]`, and distinct `units[i]`.

    The column of the leader is empty.
    """

    sums: Array
    counts: Array
    units: Array


class JointComparison(NamedTuple):
    """A ranker against the leader: the estimate, its units, and the interval by Bonferroni's correction.

    The interval holds for all pairs of the rankers at the start together. The p-value is not corrected.
    """

    ranker: int
    estimate: Estimate
    units: int
    joint: Anytime


class Against(NamedTuple):
    """A ranker against the leader: the estimate, the intervals by Holm's and by Bonferroni's correction, and the units.

    What could not be computed is None.
    """

    ranker: int
    estimate: float | None
    interval: Interval | None
    joint: Interval | None
    units: int


class Leaving(NamedTuple):
    """A ranker that can leave: why, and the upper end of its interval against the leader."""

    ranker: int
    code: str
    bound: float


def find_leader(pairs: PairMeans, left: Sequence[int]) -> int:
    """The ranker with the highest Copeland score among those left; of several, the one with the largest mean estimate.

    >>> sums = np.array([[0, 2, 2], [-2, 0, 12], [-2, -12, 0]])
    >>> find_leader(PairMeans.of(sums, np.full((3, 3), 20)), [0, 1, 2])
    0
    """
    means, beaten = pairs.means, pairs.beaten
    if len(left) < len(means):
        means, beaten = means[np.ix_(left, left)], beaten[np.ix_(left, left)]
    beaten, size = beaten.sum(axis=1).round(9), means.sum(axis=1)
    return int(left[max(range(len(left)), key=lambda place: (beaten[place], size[place], -place))])


def compare_jointly(sums: LeaderSums, others: Sequence[int], rankers: int, confidence: float) -> list[JointComparison]:
    """These rankers against the leader; `rankers` is the number of all at the start."""
    units = np.maximum(sums.units[list(others)], 1)
    plain = compare.estimates(sums.sums[:, others], sums.counts[:, others], confidence)
    estimates = _with_cautious_errors(plain, units.tolist(), confidence)
    level = significance(confidence) / count_pairs(rankers)
    anytimes = sequence.anytimes(estimates, units, None, 1 - level)
    numbers = sums.units[list(others)].tolist()
    return [JointComparison(*one) for one in zip(others, estimates, numbers, anytimes, strict=True)]


def count_pairs(rankers: int) -> int:
    """The number of pairs of so many rankers."""
    return rankers * (rankers - 1) // 2


class Comparisons:
    """All other rankers against one leader. Where results come, only their rankers are compared again.

    `rankers` is the number of all rankers at the start.
    """

    def __init__(self, rankers: int, confidence: float) -> None:
        self._rankers, self._confidence = rankers, confidence
        self._compared: dict[int, JointComparison] = {}
        self._intervals: dict[int, tuple[float, Interval | None]] = {}  # the last ones by Holm, each with its level

    def update(self, sums: LeaderSums, changed: Sequence[int]) -> None:
        """Compare these rankers with the leader by new sums."""
        self._sums = sums
        changed = changed if len(changed) > 1 else [*changed] * 2  # numpy adds up a single column in another order
        for one in compare_jointly(sums, changed, self._rankers, self._confidence):
            self._compared[one.ranker] = one
            self._intervals.pop(one.ranker, None)

    def of(self, others: Sequence[int]) -> list[JointComparison]:
        """These rankers against the leader."""
        return [self._compared[one] for one in others]

    def correct(self, others: Sequence[int], worse: int) -> list[Against]:
        """The others that are left, with intervals by Holm's correction, too.

        `worse` is how many rankers left as worse: their hypotheses are rejected already.
        """
        compared, alpha = self.of(others), significance(self._confidence)
        if len(others) == 1:
            compared = compare_jointly(self._sums, others, self._rankers, self._confidence)
            self._intervals.clear()
        levels = holm_levels([one.joint.p_value for one in compared], alpha, count_pairs(self._rankers) - worse)
        old: dict[float, list[JointComparison]] = {}
        for one, level in zip(compared, levels, strict=True):
            if self._intervals.get(one.ranker, (None,))[0] != level:
                old.setdefault(level, []).append(one)
        for level, some in old.items():  # few levels differ
            units = np.array([max(one.units, 1) for one in some])
            anytimes = sequence.anytimes([one.estimate for one in some], units, None, 1 - level)
            for one, anytime in zip(some, anytimes, strict=True):
                self._intervals[one.ranker] = level, anytime.interval
        return [
            Against(one.ranker, one.estimate.value, self._intervals[one.ranker][1], one.joint.interval, one.units)
            for one in compared
        ]


def _with_cautious_errors(estimates: Sequence[Estimate], units: Sequence[int], confidence: float) -> list[Estimate]:
    """The estimates with errors as large as if `UNSEEN` of the units had the opposite score, 1 or more.

    If all scores are alike, they show no variance; but a few units with other scores may be missing by chance.
    """
    cautious, errors = list(estimates), dict[int, float]()
    for place, (one, number) in enumerate(zip(estimates, units, strict=True)):
        if one.value is not None and one.effective_units is not None and one.effective_units >= 2:
            effective, size = number * one.effective_units / one.buckets, abs(one.value)
            error = math.sqrt(UNSEEN) * (size + max(size, 1.0)) / (effective + 1)
            if error > (one.error or 0.0):
                errors[place] = error
    some = [estimates[place] for place in errors]
    sizes = [one.effective_units or 0.0 for one in some]
    for place, one in zip(errors, compare.with_errors(some, [*errors.values()], sizes, confidence), strict=True):
        cautious[place] = one
    return cautious


def find_leaving(against: Sequence[Against], margin: float) -> list[Leaving]:
    """The rankers that can leave."""
    leaving = []
    for one in against:
        if one.interval is not None and one.interval[1] < 0:
            leaving.append(Leaving(one.ranker, WORSE, one.interval[1]))
        elif one.joint is not None and one.joint[1] < margin:
            leaving.append(Leaving(one.ranker, NO_GAIN, one.joint[1]))
    return leaving


def find_nearly_leaving(against: Sequence[Against]) -> list[int]:
    """The rankers that have not left, but would leave as worse with up to `NEAR` more units; nearest first.

    The half-width of an interval falls with the square root of the number of units.

    >>> rows = [("wide", (-0.9, 0.3)), ("near", (-0.8, 0.05)), ("left", (-0.5, -0.1)), ("no worse", (-0.1, 0.3))]
    >>> [
    ...     rows[one][0]
    ...     for one in find_nearly_leaving(
    ...         [Against(place, sum(span) / 2, span, span, 300) for place, (_, span) in enumerate(rows)]
    ...     )
    ... ]
    ['near']
    """
    near = []
    for one in against:
        if one.interval is not None and one.estimate is not None and one.estimate < 0 <= one.interval[1]:
            more = (((one.interval[1] - one.estimate) / one.estimate) ** 2 - 1) * one.units
            if more <= NEAR:
                near.append((more, one.ranker))
    return [ranker for _, ranker in sorted(near)]


def estimate_regret(gaps: Array, shown: Array) -> tuple[float, float] | None:
    """The regret of the traffic, and of equal shares: the sum over lists of the mean gap of their rankers.

    `gaps[i]` is by how much the leader is preferred to i, NaN if they were never compared; `shown[i]` counts lists, in
    parts if several rankers share a list. Rankers with an unknown gap are left out of both. None if nobody is known.

    >>> estimate_regret(np.array([0.0, 0.1, 0.5]), np.array([80.0, 10.0, 10.0]))
    (6.0, 20.0)
    """
    is_compared = ~np.isnan(gaps)
    if is_compared.sum() < 2 or not shown[is_compared].any():
        return None
    return float(gaps[is_compared] @ shown[is_compared]), float(gaps[is_compared].mean() * shown[is_compared].sum())
