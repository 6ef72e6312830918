"""Other statistics in the literature: Delta, sign test, sign flips, z-score (C12)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.stats.compare import ROUNDING, Figure, product

FEW_BUCKETS = 13  # up to this number all flips are tried: 4,096, because the first sign can stay
FLIPS = 9_999
CHUNK = 1024  # flips at a time


@dataclass(frozen=True)
class ZScore:
    """mean / deviation * sqrt(n), and `per_query` without the sqrt(n); if they are None, `reason` says why."""

    value: float | None
    per_query: float | None
    reason: str = ""


def delta(wins: int, losses: int, ties: int) -> Figure:
    """C12's Delta_AB = (wins + ties / 2) / (wins + losses + ties) - 1/2, half the mean of signs.

    >>> delta(wins=6, losses=2, ties=2)
    Figure(value=0.2, reason='')
    """
    _check(wins=wins, losses=losses, ties=ties)
    if wins + losses + ties == 0:
        return Figure(None, "no impression with an event")
    return Figure((wins - losses) / (2 * (wins + losses + ties)))


def sign_test(wins: int, losses: int) -> Figure:
    """The two-sided exact binomial test that wins and losses are equally likely; ties are left out.

    >>> sign_test(9, 1).value
    0.021484375
    """
    _check(wins=wins, losses=losses)
    if wins + losses == 0:
        return Figure(None, "nothing was won or lost")
    from scipy.special import betainc

    # P(X <= fewer) of a binomial, as a beta integral: accurate for ten wins and for a billion.
    fewer, more = min(wins, losses), max(wins, losses)
    return Figure(min(1.0, 2 * float(betainc(more, fewer + 1, 0.5))))


def z_score(total: float, squares: float, count: int) -> ZScore:
    """C12's z from the sum of scores, the sum of their squares and their number; the variance is divided by n.

    It treats impressions as independent, which is wrong for impressions of one user. Use it to compare with published
    numbers.

    >>> z_score(total=2, squares=4, count=4).value
    1.1547005
    """
    if count < 1:
        return ZScore(None, None, "no impression with an event")
    mean = total / count
    variance = squares / count - mean**2
    if variance <= ROUNDING * squares / count:
        return ZScore(None, None, "all scores are the same")
    per_query = mean / math.sqrt(variance)
    return ZScore(per_query * math.sqrt(count), per_query)


def sign_flips(sums: Array, flips: int = FLIPS, seed: int = 0) -> tuple[Figure, ...]:
    """For each pair of `sums[bucket, pair]`: how often random signs of the buckets give a sum at least as large.

    With few buckets, all signs are tried; otherwise p = (1 + those as large) / (1 + flips). All pairs share the signs.
    The test assumes that without a preference a bucket's sum has a symmetric distribution around 0.

    >>> sign_flips(np.array([[3], [1], [2], [2]]))[0].value  # 2 of 16 give a sum as large: no sign flipped, or all
    0.125
    """
    sums = np.asarray(sums, np.float64)
    if sums.ndim != 2 or not np.isfinite(sums).all() or flips < 1:
        raise DataError(f"cannot flip sums of shape {sums.shape} {flips} times; give finite sums[bucket, pair]")
    sums = sums[(sums != 0).any(axis=1)]
    least = np.abs(sums.sum(axis=0)) - ROUNDING * np.abs(sums).sum(axis=0)
    exact = len(sums) <= FEW_BUCKETS
    tried = 0 if exact else 1  # with random flips, the observed signs count as one of them
    large = np.full(sums.shape[1], tried)
    for signs in [_all_signs(len(sums))] if exact else _random_signs(len(sums), flips, seed):
        large += (np.abs(product(signs, sums)) >= least).sum(axis=0)
        tried += len(signs)
    some = (sums != 0).any(axis=0)
    return tuple(
        Figure(float(p_value)) if there else Figure(None, "no bucket prefers either")
        for p_value, there in zip(large / tried, some, strict=True)
    )


def _all_signs(buckets: int) -> Array:
    """All signs with the first one fixed, because flipping all signs does not change the size of a sum."""
    patterns = np.arange(2 ** max(buckets - 1, 0))
    bits = (patterns[:, None] >> np.arange(max(buckets - 1, 0))) & 1
    return np.hstack([np.ones((len(bits), min(buckets, 1)), np.int8), 1 - 2 * bits])


@lru_cache(maxsize=2)
def _random_signs(buckets: int, flips: int, seed: int) -> list[Array]:
    """Signs in chunks, cached, so that a report made every second does not draw them again."""
    generator = np.random.default_rng(seed)
    sizes = [min(CHUNK, flips - start) for start in range(0, flips, CHUNK)]
    return [1 - 2 * generator.integers(0, 2, (size, buckets), np.int8) for size in sizes]


def _check(**counts: int) -> None:
    for name, count in counts.items():
        if count < 0:
            raise DataError(f"{name} is {count}; give a count of at least 0")
