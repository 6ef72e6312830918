"""The mean score of a pair with its jackknife error and t interval, and the difference of two arms.

    D = sum S / sum N,   se^2 = sum_b ((S_b - D N_b) / (N - N_b))^2,   D +- t se with n_eff - 1 degrees of freedom,
    n_eff = (sum N_b)^2 / sum N_b^2

over buckets b with sums S_b and counts N_b. The error is computed by leaving out one bucket at a time. So the test is
valid even if a few people make most of the visits: from 30 people up, about 5 % of results are false positives; tests
that treat impressions as independent reach 50 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.stats.sums import ROUNDING, Interval, columns, deviate, quotient, significance

EMPTY = "no impression with an event"
ONE_BUCKET = "all impressions come from one unit, or from units in one bucket, so chance cannot be estimated"
ALIKE = "all lists have the same preference, so there is no variance to estimate chance from"
FEW = "fewer than two effective units: one bucket holds nearly all impressions"


@dataclass(frozen=True)
class Estimate:
    """A mean, its standard error between buckets, interval and two-sided p-value; if one is None, `reason` says why.

    `effective_units` is the number of equally large buckets that would vary as much; below 20, the interval is rough.
    """

    value: float | None
    error: float | None
    interval: Interval | None
    p_value: float | None
    effective_units: float | None
    buckets: int
    reason: str = ""

    @property
    def deviate(self) -> float | None:
        """The normal deviate with the p-value of this estimate, with its sign."""
        if self.value is None or self.error is None or self.effective_units is None:
            return None
        return float(deviate(self.value / self.error, self.effective_units - 1))


class Jackknife(NamedTuple):
    """By column: means, standard errors, effective units, buckets with data; and each bucket's part of the error."""

    values: Array
    errors: Array
    effective: Array
    buckets: Array
    deviations: Array


def jackknife(sums: Array, counts: Array) -> Jackknife:
    """The ratio of summed columns, with errors by leaving out one bucket at a time; zeros for empty columns."""
    sums, counts = columns(sums, counts)
    total = counts.sum(axis=0)
    values = quotient(sums.sum(axis=0), total)
    residuals = sums - values * counts
    residuals[np.abs(residuals) <= ROUNDING * (np.abs(sums) + np.abs(values) * counts)] = 0.0
    deviations = quotient(residuals, total - counts)
    effective = quotient(total**2, (counts**2).sum(axis=0))
    return Jackknife(values, np.sqrt((deviations**2).sum(axis=0)), effective, (counts > 0).sum(axis=0), deviations)


def estimate(sums: Array, counts: Array, confidence: float = 0.95) -> Estimate:
    """The estimate of one pair, from `sums[bucket]` and `counts[bucket]`.

    >>> found = estimate(np.array([3, 1, -1, 2]), np.array([4, 4, 4, 4]))
    >>> found.value, found.effective_units
    (0.3125, 4.0)
    >>> found.interval
    (-0.47, 1.10)
    >>> estimate(np.array([3]), np.array([4])).reason
    'all impressions come from one unit, or from units in one bucket, so chance cannot be estimated'
    """
    return estimates(np.asarray(sums).reshape(-1, 1), np.asarray(counts).reshape(-1, 1), confidence)[0]


def estimates(sums: Array, counts: Array, confidence: float = 0.95) -> tuple[Estimate, ...]:
    """Estimates of many pairs, or of many points in time: one per column of `sums[bucket, column]`."""
    return _conclude(jackknife(sums, counts), confidence)


def with_error(found: Estimate, error: float, effective: float, confidence: float = 0.95) -> Estimate:
    """The estimate with another error and another number of effective units."""
    values, errors, units = (np.array([number], np.float64) for number in (found.value, error, effective))
    return _conclude(Jackknife(values, errors, units, np.array([found.buckets]), np.zeros((0, 1))), confidence)[0]


def difference(
    sums_1: Array,
    counts_1: Array,
    sums_2: Array,
    counts_2: Array,
    confidence: float = 0.95,
    names: tuple[str, str] = ("first", "second"),
) -> Estimate:
    """The mean of the first arm minus the mean of the second; a bucket may hold people of both arms.

    The error is computed by leaving a bucket out of both arms; the degrees of freedom are Welch's.

    >>> difference(np.array([4, 0, 3]), np.array([4, 0, 4]), np.array([0, 1, 1]), np.array([0, 4, 4])).value
    0.625
    """
    first, second = jackknife(sums_1, counts_1), jackknife(sums_2, counts_2)
    if first.deviations.shape != second.deviations.shape or first.deviations.shape[1] != 1:
        raise DataError(
            f"arms of {len(first.deviations)} and {len(second.deviations)} buckets cannot be compared; "
            "give sums[bucket] of both over the same buckets, 0 where an arm has nothing"
        )
    values = first.values - second.values
    buckets = ((np.asarray(counts_1) > 0) | (np.asarray(counts_2) > 0)).sum(keepdims=True)
    arms = dict(zip(names, (first, second), strict=True))
    for name, arm in arms.items():
        if not arm.buckets[0]:
            return Estimate(None, None, None, None, None, int(buckets[0]), f"the {name} arm is empty")
    few = [f"the {name} arm has fewer than two effective units" for name, arm in arms.items() if arm.effective[0] < 2]
    # That a few units are alike does not show that all are.
    alike = [
        f"all units of the {name} arm are alike, so chance cannot be estimated"
        for name, arm in arms.items()
        if values[0] and not arm.errors[0]
    ]
    if few or alike:
        return Estimate(float(values[0]), None, None, None, None, int(buckets[0]), (few + alike)[0])
    deviations = first.deviations - second.deviations
    deviations[np.abs(deviations) <= ROUNDING * np.abs(first.deviations)] = 0.0
    shares = sum(quotient(arm.errors**4, arm.effective - 1) for arm in (first, second))
    effective = 1 + quotient((first.errors**2 + second.errors**2) ** 2, np.asarray(shares))
    joint = Jackknife(values, np.sqrt((deviations**2).sum(axis=0)), effective, buckets, deviations)
    return _conclude(joint, confidence)[0]


def _conclude(found: Jackknife, confidence: float) -> tuple[Estimate, ...]:
    """Estimates of all columns, with intervals and p-values, or with the reason why there are none."""
    from scipy.special import stdtr, stdtrit

    problems = [found.buckets == 0, found.buckets == 1, found.errors == 0, found.effective < 2]
    reasons = np.select(problems, [EMPTY, ONE_BUCKET, ALIKE, FEW], "").tolist()
    degrees = np.where(np.any(problems, axis=0), 1.0, found.effective - 1)
    radius = stdtrit(degrees, 1 - significance(confidence) / 2) * found.errors
    p_values = 2 * stdtr(degrees, -np.abs(quotient(found.values, found.errors)))
    low, high = found.values - radius, found.values + radius
    return tuple(
        Estimate(
            value=float(found.values[column]) if found.buckets[column] else None,
            error=None if reason else float(found.errors[column]),
            interval=None if reason else (float(low[column]), float(high[column])),
            p_value=None if reason else min(1.0, float(p_values[column])),
            effective_units=float(found.effective[column]) if found.buckets[column] else None,
            buckets=int(found.buckets[column]),
            reason=reason,
        )
        for column, reason in enumerate(reasons)
    )
