"""Two buckets by an absolute metric: did it move as C12 expects, by how much, and significantly so?

Errors are clustered by user, because a user's queries resemble each other: the metric is a mean over queries, and
`stats.compare.difference` takes it by user. A median m is such a mean, too, to first order, that of

    m + (1[x > m] + 1[x = m] / 2 - 1/2) / f,    1 / f = (Q(.5 + h) - Q(.5 - h)) / 2h

with quantiles Q at the distance h = 1.96 clustered errors of the share below (Woodruff's interval). C12 resamples
queries, which takes a user's for independent; on arXiv it averages by user first, which is `per_user`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interleaf.errors import DataError, listed
from interleaf.methods.arrays import Array
from interleaf.metrics.absolute import MEAN, Metric, Pages, by_user, value
from interleaf.stats.compare import Estimate, difference, jackknife

LEVEL = 0.05
DIVISORS = ("smaller", "second")


@dataclass(frozen=True)
class Comparison:
    """A metric of a better and a worse ranker; differences are positive where it moved as C12 expects.

    `relative` is the difference as a share of the worse ranker's value; None where there is nothing to divide by.
    """

    metric: Metric
    better: float | None
    worse: float | None
    difference: Estimate
    relative: float | None

    @property
    def is_significant(self) -> bool:
        """Whether the difference is significant, in whichever direction."""
        return self.difference.p_value is not None and self.difference.p_value < LEVEL


def relative_difference(one: float, other: float, divisor: str = "smaller") -> float | None:
    """C12's relative difference (one - other) / min(one, other); or divided by the `second`, if that is wanted.

    C12 speaks of the inferior ranking function and prints min(a, b). Where a metric rises as quality drops, these are
    not the same; its Table VI divides by the metric of the inferior function, which there is the second: only so do
    E over B and B over A together make E over A. None where the divisor is 0.

    >>> relative_difference(0.6, 0.5), relative_difference(0.5, 0.6), relative_difference(0.5, 0.6, "second")
    (0.2, -0.2, -0.1666...)
    """
    if divisor not in DIVISORS:
        raise DataError(f"cannot divide by {divisor!r}; give {listed(DIVISORS)}")
    by = other if divisor == "second" else min(one, other)
    return (one - other) / by if by else None


def compare(metric: Metric, better: Pages, worse: Pages, per_user: bool = False) -> Comparison:
    """Two buckets, that of the better ranker first: per query, or with the metric of every user first."""
    one, other = (value(metric, pages, per_user) for pages in (better, worse))
    if one is None or other is None:
        reason = f"a bucket has no {metric.over} to take {metric.title} over"
        return Comparison(metric, one, other, Estimate(None, None, None, None, None, 0, reason), None)
    units, numbers = np.unique(np.concatenate([better.units, worse.units]), return_inverse=True)
    arms = [
        _by_unit(metric, pages, own, len(units), per_user)
        for pages, own in ((better, numbers[: len(better)]), (worse, numbers[len(better) :]))
    ]
    found = difference(*arms[1], *arms[0]) if metric.rises else difference(*arms[0], *arms[1])
    relative = relative_difference(one, other, "second")
    return Comparison(metric, one, other, found, -relative if relative and metric.rises else relative)


def _by_unit(metric: Metric, pages: Pages, numbers: Array, units: int, per_user: bool) -> tuple[Array, Array]:
    """Sums and counts of the values that make up the metric, by unit."""
    values = metric.values(pages)
    if per_user:
        users, means = by_user(values, numbers, metric.statistic)
        sums, counts = np.zeros(units), np.zeros(units)
        sums[users], counts[users] = means, 1
        return sums, counts
    counted = ~np.isnan(values)
    if metric.statistic != MEAN and counted.any():
        values = _linear(values, numbers, units, counted)
    return _sums(values[counted], numbers[counted], units)


def _linear(values: Array, numbers: Array, units: int, counted: Array) -> Array:
    """What a median is the mean of, to first order."""
    median = np.median(values[counted])
    above = (values > median) + (values == median) / 2
    error = jackknife(*_sums(above[counted], numbers[counted], units)).errors[0]
    reach = min(1.96 * error, 0.5)
    low, high = np.quantile(values[counted], [0.5 - reach, 0.5 + reach])
    linear: Array = median + (above - 0.5) * ((high - low) / (2 * reach) if reach else 0.0)
    return linear


def _sums(values: Array, numbers: Array, units: int) -> tuple[Array, Array]:
    return np.bincount(numbers, values, units), np.bincount(numbers, minlength=units)
