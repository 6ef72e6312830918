"""Tests whether a share has its expected value: slots of a team at a position, first picks, the size of a holdout.

    t = (p - e) / sqrt(e (1 - e) deff / T),   deff = se^2 / (p (1 - p) / T), at least 1

with p = hits / T, e the expected share, and se the jackknife error of p between buckets (Rao and Scott 1981). A user
who repeats a query gets the same random draw, and deff corrects for it; without it, many healthy experiments would
fail. If p is 0 or 1, p (1 - p) is 0, and each bucket counts as one draw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.stats.compare import ONE_BUCKET, columns, jackknife, quotient

MIN_EXPECTED = 5  # expected effective hits and misses; with fewer, the distribution is too skewed for this test


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
