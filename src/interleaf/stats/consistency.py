"""How sure a preference is after n' queries, and how much data that saves: C12's Algorithm 3, its Table X and Figure 7.

A preference is that for the first of two rankers, if a mean is positive (paired scores: interleaving, or differences of
a judged metric), or that of its bucket is larger than the other's. The listing of Algorithm 3 is lost; after the text:
draw n' observations with replacement, decide, and do so many times. For a sample that prefers neither, a coin decides:
it counts half. (C12 leaves such samples out for judged queries, and does not say for clicks. Left out, two throws of a
coin would be surer than three.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from interleaf.errors import DataError, listed
from interleaf.methods.arrays import Array
from interleaf.stats.resampling import STATISTICS, TOLERANCE, resampled_means

REPEATS = 1_000
FARTHEST = 100  # times what was observed: a sample that large says more about the bootstrap than about the data


class Curve(NamedTuple):
    """Of so many repeats at each size: how many prefer the first ranker, and how many the second."""

    sizes: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    repeats: int

    @property
    def probability(self) -> list[float]:
        """P(the first is preferred | n'), ties by a coin."""
        pairs = zip(self.first, self.second, strict=True)
        return [0.5 + (one - other) / (2 * self.repeats) for one, other in pairs]

    @property
    def untied(self) -> list[float | None]:
        """The same of the samples that prefer either; None where none does."""
        pairs = zip(self.first, self.second, strict=True)
        return [one / (one + other) if one + other else None for one, other in pairs]


class Equivalent(NamedTuple):
    """What `size` observations of one kind are worth: they prefer the first with this probability, as do `needed` of
    the other kind; or None, with the reason.
    """

    size: int
    probability: float | None
    needed: int | None
    reason: str | None = None

    @property
    def ratio(self) -> float | None:
        """n' / n'': how many of the one kind do the work of one of the other."""
        return None if self.needed is None else self.size / self.needed


def consistency(scores: Array, sizes: Sequence[int], generator: np.random.Generator, repeats: int = REPEATS) -> Curve:
    """Algorithm 3 for paired scores, positive for the first ranker.

    >>> consistency(np.array([1, 1, -1, 0]), [1, 50], np.random.default_rng(1), repeats=10_000).probability
    [0.62..., 0.98...]
    """
    values = np.asarray(scores, np.float64)
    return _curve(sizes, repeats, [resampled_means(values, size, repeats, generator) for size in sizes])


def bucket_consistency(
    first: Array,
    second: Array,
    sizes: Sequence[int],
    generator: np.random.Generator,
    repeats: int = REPEATS,
    statistic: str = "mean",
) -> Curve:
    """Algorithm 3 for two buckets, n' from each; the larger mean or median is preferred.

    Values are one a query, nan where it does not count. Give them negated, if less is better.
    """
    if statistic not in STATISTICS:
        raise DataError(f"cannot resample by {statistic!r}; give {listed(STATISTICS)}")
    resampled, differences = STATISTICS[statistic], []
    for size in sizes:
        one, other = (resampled(values, size, repeats, generator) for values in (first, second))
        difference = one - other
        difference[np.abs(difference) <= TOLERANCE * np.maximum(np.abs(one), np.abs(other))] = 0
        differences.append(difference)
    return _curve(sizes, repeats, differences)


def _curve(sizes: Sequence[int], repeats: int, differences: Sequence[Array]) -> Curve:
    first = tuple(int((found > 0).sum()) for found in differences)
    return Curve(tuple(sizes), first, tuple(int((found < 0).sum()) for found in differences), repeats)


def needed(scores: Array, probability: float, generator: np.random.Generator, repeats: int = REPEATS) -> int | None:
    """The smallest n'' with which paired scores prefer the first ranker with this probability, by bisection.

    None if a hundred times the observed scores are not enough.

    >>> needed(np.array([1, 1, 1, -1]), 0.8, np.random.default_rng(1), repeats=10_000)
    3
    """

    def reaches(size: int) -> bool:
        return consistency(scores, [size], generator, repeats).probability[0] >= probability

    most, low, high = FARTHEST * len(scores), 0, 1
    while not reaches(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def equivalents(
    sizes: Sequence[int],
    probabilities: Sequence[float | None],
    scores: Array,
    generator: np.random.Generator,
    repeats: int = REPEATS,
) -> list[Equivalent]:
    """For each point of a curve, how many of these paired scores are as sure: C12's data ratio and value of a click.

    Nothing is as sure as what no longer errs, and nothing is needed to be no better than a coin, as far as three
    standard errors of so many repeats can tell: take other sizes then.
    """
    found = []
    for size, probability in zip(sizes, probabilities, strict=True):
        reason = _unusable(probability, 1.5 / math.sqrt(repeats))
        count = None if probability is None or reason else needed(scores, probability, generator, repeats)
        if reason is None and count is None:
            reason = f"not even {FARTHEST} times the observed scores are that sure"
        found.append(Equivalent(size, probability, count, reason))
    return found


def _unusable(probability: float | None, margin: float) -> str | None:
    if probability is None:
        return "no sample prefers either ranker"
    if probability <= 0.5 + margin:
        return "no better than a coin"
    return "no sample errs" if probability == 1 else None
