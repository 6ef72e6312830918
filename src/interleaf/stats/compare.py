"""The mean score of a pair with its jackknife error and t interval, and the difference of two arms.

    D = sum S / sum N,   se^2 = sum_b ((S_b - D N_b) / (N - N_b))^2,   D +- t se with n_eff - 1 degrees of freedom,
    n_eff = (sum N_b)^2 / sum N_b^2

over buckets b with sums S_b and counts N_b. The error is computed by leaving out one bucket at a time. So the test is
valid even if a few people make most of the visits: from 30 people up, about 5 % of results are false positives; tests
that treat impressions as independent reach 50 %.

Shares are tested against their expected value: slots of a team at a position, first picks, the size of a holdout.

    t = (p - e) / sqrt(e (1 - e) deff / T),   deff = se^2 / (p (1 - p) / T), at least 1

with p = hits / T, e the expected share, and se the jackknife error of p between buckets (Rao and Scott 1981). A user
who repeats a query gets the same random draw, and deff corrects for it; without it, many healthy experiments would
fail. If p is 0 or 1, p (1 - p) is 0, and each bucket counts as one draw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.stable_codes import Code

ROUNDING = 1e-12  # sums that should be zero may differ from it by rounding
ROWS = 128  # rows at a time; with 1,024 buckets they take a megabyte, which fits into the CPU's cache
MAX_EXPONENT = 700.0  # the largest exponent that a float can hold
MIN_EXPECTED = 5  # expected effective hits and misses; with fewer, the distribution is too skewed for this test


class NoError(Code):
    """Why a mean has no error."""

    EMPTY = "empty", "no impression with an event"
    ONE_BUCKET = (
        "one_bucket",
        "all impressions come from one unit, or from units in one bucket, so chance cannot be estimated",
    )
    ALIKE = "alike", "all lists have the same preference, so there is no variance to estimate chance from"
    FEW = "few_units", "fewer than two effective units: one bucket holds nearly all impressions"


EMPTY, ONE_BUCKET, ALIKE = NoError.EMPTY.text, NoError.ONE_BUCKET.text, NoError.ALIKE.text


@dataclass(frozen=True)
class Estimate:
    """A mean, its standard error between buckets, interval and two-sided p-value; if one is None, `reason` says why.

    `code` is the stable code of the reason, but for differences of arms. `effective_units` is the number of equally
    large buckets that would vary as much; below 20, the interval is rough.
    """

    value: float | None
    error: float | None
    interval: Interval | None
    p_value: float | None
    effective_units: float | None
    buckets: int
    reason: str = ""
    code: str = ""

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

    >>> ours = estimate(np.array([3, 1, -1, 2]), np.array([4, 4, 4, 4]))
    >>> ours.value, ours.effective_units
    (0.3125, 4.0)
    >>> ours.interval
    (-0.47, 1.10)
    >>> estimate(np.array([3]), np.array([4])).reason
    'all impressions come from one unit, or from units in one bucket, so chance cannot be estimated'
    """
    return estimates(np.asarray(sums).reshape(-1, 1), np.asarray(counts).reshape(-1, 1), confidence)[0]


def estimates(sums: Array, counts: Array, confidence: float = 0.95) -> tuple[Estimate, ...]:
    """Estimates of many pairs, or of many points in time: one per column of `sums[bucket, column]`."""
    return _conclude(jackknife(sums, counts), confidence)


def with_error(estimate: Estimate, error: float, effective: float, confidence: float = 0.95) -> Estimate:
    """The estimate with another error and another number of effective units."""
    return with_errors([estimate], [error], [effective], confidence)[0]


def with_errors(
    estimates: Sequence[Estimate], errors: Sequence[float], effective: Sequence[float], confidence: float = 0.95
) -> tuple[Estimate, ...]:
    """The same for many estimates."""
    values = np.array([one.value for one in estimates], np.float64)
    numbers, units = np.array(errors, np.float64), np.array(effective, np.float64)
    buckets = np.array([one.buckets for one in estimates])
    return _conclude(Jackknife(values, numbers, units, buckets, np.zeros((0, len(values)))), confidence)


def difference(
    sums_1: Array,
    counts_1: Array,
    sums_2: Array,
    counts_2: Array,
    confidence: float = 0.95,
    names: tuple[str, str] = ("first", "second"),
    cautious: bool = False,
) -> Estimate:
    """The mean of the first arm minus the mean of the second; a bucket may hold people of both arms.

    The error is computed by leaving a bucket out of both arms; the degrees of freedom are Welch's. A small arm that
    lacks the rare large values of a skewed metric has a mean and an error that are too small. So if it is `cautious`,
    the error is at least that of two arms of the same kind of people, in shares N_1 and N_2 of all impressions,

        se^2 = c (1 / N_1 + 1 / N_2),   c = sum r_b^2 / (N_1 + N_2),   r_b = S_b - D N_b of each arm

    and an arm whose people are all alike has the error of one impression that differs by 1.

    >>> difference(np.array([4, 0, 3]), np.array([4, 0, 4]), np.array([0, 1, 1]), np.array([0, 4, 4])).value
    0.625
    """
    estimates = differences(sums_1, counts_1, sums_2, counts_2, confidence, names, cautious)
    if len(estimates) != 1:
        raise DataError(f"there are {len(estimates)} columns; give sums[bucket] and counts[bucket], or use differences")
    return estimates[0]


def differences(
    sums_1: Array,
    counts_1: Array,
    sums_2: Array,
    counts_2: Array,
    confidence: float = 0.95,
    names: tuple[str, str] = ("first", "second"),
    cautious: bool = False,
) -> tuple[Estimate, ...]:
    """The same for many differences: one per column of `sums[bucket, column]`."""
    first, second = jackknife(sums_1, counts_1), jackknife(sums_2, counts_2)
    if first.deviations.shape != second.deviations.shape:
        problem = f"arms of {len(first.deviations)} and {len(second.deviations)} buckets cannot be compared"
        raise DataError(f"{problem}; give sums[bucket] of both over the same buckets, 0 where an arm has nothing")
    arms, sizes = (first, second), (columns(sums_1, counts_1)[1], columns(sums_2, counts_2)[1])
    deviations = first.deviations - second.deviations
    deviations[np.abs(deviations) <= ROUNDING * np.abs(first.deviations)] = 0.0
    errors, own = np.sqrt((deviations**2).sum(axis=0)), [first.errors, second.errors]
    if cautious:
        least = [quotient(arm.errors == 0, counts.sum(axis=0)) for arm, counts in zip(arms, sizes, strict=True)]
        own = [arm.errors + one for arm, one in zip(arms, least, strict=True)]
        errors = np.maximum(np.hypot(errors, np.hypot(*least)), _pooled_errors(arms, sizes))
    shares = sum(quotient(one**4, arm.effective - 1) for arm, one in zip(arms, own, strict=True))
    effective = 1 + quotient((own[0] ** 2 + own[1] ** 2) ** 2, np.asarray(shares))
    buckets = ((sizes[0] > 0) | (sizes[1] > 0)).sum(axis=0)
    joint = Jackknife(first.values - second.values, errors, effective, buckets, deviations)
    arm_of_name, estimates = dict(zip(names, arms, strict=True)), enumerate(_conclude(joint, confidence))
    return tuple(_without_error(one, arm_of_name, column, cautious) or one for column, one in estimates)


def _pooled_errors(arms: Sequence[Jackknife], sizes: Sequence[Array]) -> Array:
    """The errors of differences between arms of the same kind of people; buckets of any number of people give them."""
    squares, weights, inverse = (np.zeros(len(arms[0].values)) for _ in range(3))
    for arm, counts in zip(arms, sizes, strict=True):
        total = counts.sum(axis=0)
        squares += ((arm.deviations * (total - counts)) ** 2).sum(axis=0)
        weights += total
        inverse += quotient(np.ones(1), total)
    return np.asarray(np.sqrt(quotient(squares, weights) * inverse))


def _without_error(one: Estimate, arms: Mapping[str, Jackknife], column: int, cautious: bool) -> Estimate | None:
    """The difference of a column without its error, if chance cannot be estimated; None if it can."""
    for name, arm in arms.items():
        if not arm.buckets[column]:
            return Estimate(None, None, None, None, None, one.buckets, f"the {name} arm is empty")
    reasons = [
        f"the {name} arm has fewer than two effective units" for name, arm in arms.items() if arm.effective[column] < 2
    ]
    # That a few units are alike does not show that all are.
    reasons += [
        f"all units of the {name} arm are alike, so chance cannot be estimated"
        for name, arm in arms.items()
        if one.value and not arm.errors[column] and not cautious
    ]
    return Estimate(one.value, None, None, None, None, one.buckets, reasons[0]) if reasons else None


def _conclude(result: Jackknife, confidence: float) -> tuple[Estimate, ...]:
    """Estimates of all columns, with intervals and p-values, or with the reason why there are none."""
    from scipy.special import stdtr, stdtrit

    problems = [result.buckets == 0, result.buckets == 1, result.errors == 0, result.effective < 2]
    codes = np.select(problems, [*map(str, NoError)], "").tolist()
    degrees = np.where(np.any(problems, axis=0), 1.0, result.effective - 1)
    radius = stdtrit(degrees, 1 - significance(confidence) / 2) * result.errors
    p_values = 2 * stdtr(degrees, -np.abs(quotient(result.values, result.errors)))
    low, high = result.values - radius, result.values + radius
    return tuple(
        Estimate(
            value=float(result.values[column]) if result.buckets[column] else None,
            error=None if code else float(result.errors[column]),
            interval=None if code else (float(low[column]), float(high[column])),
            p_value=None if code else min(1.0, float(p_values[column])),
            effective_units=float(result.effective[column]) if result.buckets[column] else None,
            buckets=int(result.buckets[column]),
            reason=NoError(code).text if code else "",
            code=code,
        )
        for column, code in enumerate(codes)
    )


Interval = tuple[float, float]


@dataclass(frozen=True)
class Figure:
    """A computed number; if `value` is None, `reason` says why."""

    value: float | None
    reason: str = ""


def columns(sums: Array, counts: Array) -> tuple[Array, Array]:
    """Sums and counts as floats `[bucket, column]`; rounding errors become 0.

    >>> columns(np.array([1, -2]), np.array([2, 3]))[0].shape
    (2, 1)
    """
    sums, counts = np.asarray(sums, np.float64), np.asarray(counts, np.float64)
    table = sums[:, None] if sums.ndim == 1 else sums
    wide = counts[:, None] if counts.ndim == 1 else counts
    if table.ndim != 2 or wide.ndim != 2 or len(wide) != len(table) or wide.shape[1] not in (1, table.shape[1]):
        problem = f"sums of shape {sums.shape} do not fit counts of shape {counts.shape}"
        raise DataError(f"{problem}; give sums[bucket] or sums[bucket, column], and counts for the same buckets")
    if not (np.isfinite(table).all() and np.isfinite(wide).all() and (wide >= 0).all()):
        raise DataError("sums and counts must be finite numbers, and counts at least 0")
    wide = np.broadcast_to(wide, table.shape)
    cleaned = np.where(np.abs(table) <= ROUNDING * wide, 0.0, table)
    uncounted = np.flatnonzero(((wide == 0) & (cleaned != 0)).any(axis=1))
    if len(uncounted):
        raise DataError(f"bucket {uncounted[0]} has a sum but counts no impression; give its count")
    return cleaned, wide


def product(small: Array, table: Array) -> Array:
    """`small @ table`, where `small` is a large matrix of small integers; only a few rows are floats at a time."""
    products = np.empty((len(small), table.shape[1]))
    for start in range(0, len(small), ROWS):
        products[start : start + ROWS] = small[start : start + ROWS].astype(np.float64) @ table
    return products


def quotient(above: Array, below: Array) -> Array:
    """The quotient, or 0 if the denominator is 0."""
    shape = np.broadcast_shapes(np.shape(above), np.shape(below))
    return np.divide(above, below, out=np.zeros(shape), where=np.broadcast_to(below, shape) != 0)


def significance(confidence: float) -> float:
    """alpha = 1 - confidence.

    >>> significance(0.95)
    0.05
    """
    if not 0 < confidence < 1:
        raise DataError(f"confidence is {confidence!r}; give a number between 0 and 1, such as 0.95")
    return round(1 - confidence, 15)  # 1 - 0.95 is slightly more than 0.05, and ranks are rounded up


def deviate(statistic: Array | float, degrees: Array | float) -> Array:
    """The normal deviate with the same p-value as this t-statistic, with its sign.

    >>> round(float(deviate(2.262, 9)), 2)  # the 97.5 % point of t with 9 degrees of freedom
    1.96
    """
    shrunk = np.sqrt(degrees * np.log1p(np.square(statistic) / degrees))
    deviates: Array = np.sign(statistic) * shrunk * (8 * np.asarray(degrees) + 1) / (8 * np.asarray(degrees) + 3)
    return deviates


def statistic(deviates: Array | float, degrees: Array | float) -> Array:
    """The inverse of `deviate`, for normal deviates of at least 0; infinite if the result is too large for a float.

    >>> round(float(statistic(1.96, 9)), 2)
    2.26
    """
    stretched = deviates * (8 * np.asarray(degrees) + 3) / (8 * np.asarray(degrees) + 1)
    exponent = np.square(stretched) / degrees
    root: Array = np.sqrt(degrees * np.expm1(np.minimum(exponent, MAX_EXPONENT)))
    return np.where(exponent < MAX_EXPONENT, root, np.inf)


@dataclass(frozen=True)
class Share:
    """A share, the expected share, and the two-sided p-value; if one is None, `reason` says why."""

    share: float | None
    expected: float
    p_value: float | None
    reason: str = ""


def share_tests(hits: Array, totals: Array, expected: Array | float) -> tuple[Share, ...]:
    """Test many shares, one per column of `hits[bucket, cell]`; totals and expected shares may be shared.

    >>> [share.p_value for share in share_tests(np.array([[2, 0]] * 100), np.full(100, 4), expected=0.5)]
    [1.0, 0.0...]
    """
    from scipy.special import stdtr

    hits, totals = columns(hits, totals)
    wanted = np.broadcast_to(np.asarray(expected, np.float64), hits.shape[1])
    if not ((wanted > 0) & (wanted < 1)).all() or (hits < 0).any() or (hits > totals).any():
        raise DataError(f"hits must be between 0 and totals, and an expected share between 0 and 1, not {expected!r}")
    result, total = jackknife(hits, totals), totals.sum(axis=0)
    within = result.values * (1 - result.values)
    alike = quotient(np.ones_like(total), result.effective)  # each bucket counts as one draw
    spread = np.where(within > 0, quotient(result.errors**2, within), alike)  # deff / T
    deviation = np.sqrt(wanted * (1 - wanted) * np.maximum(spread, quotient(np.ones_like(total), total)))
    statistics = np.abs(quotient(result.values - wanted, deviation))
    p_values = 2 * stdtr(np.maximum(result.effective - 1, 1.0), -statistics)
    cells = np.stack([result.values, wanted, p_values, result.buckets, result.effective], axis=1).tolist()
    tests = []
    for share, aim, p_value, buckets, effective in cells:
        rarer, reason = min(aim, 1 - aim), ""
        if buckets < 2:
            reason = ONE_BUCKET if buckets else "nothing was counted"
        elif effective * rarer < MIN_EXPECTED:
            needed = math.ceil(MIN_EXPECTED / rarer)
            reason = f"too few units: this test needs {needed:,} effective units, and there are {effective:,.1f}"
        tests.append(Share(share if buckets else None, aim, None if reason else min(1.0, p_value), reason))
    return tuple(tests)
