"""Resampled buckets, shared by all pairs, and their percentile intervals.

    means = resample(sums, counts)      [resample, pair], of buckets with Poisson weights
    intervals(means)                    each pair's percentile interval

`multiplicity.max_t` and `strengths` use the same resamples. The cost does not grow with the log.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.stats.compare import EMPTY, ONE_BUCKET, Interval, columns, product, significance

RESAMPLES = 10_000  # C12's K
CHUNK = 1024  # resamples at a time
_SHARES = [sum(math.exp(-1) / math.factorial(times) for times in range(most + 1)) for most in range(12)]
# Poisson(1) in units of 1/65,536, indexed by 16 random bits: many times faster than drawing Poisson numbers.
POISSON = np.searchsorted(_SHARES, (np.arange(2**16) + 0.5) / 2**16).astype(np.uint8)


@dataclass(frozen=True)
class Percentiles:
    """A bootstrap percentile interval; if it is None, `reason` says why."""

    interval: Interval | None
    reason: str = ""


def poisson_weights(buckets: int, resamples: int, generator: np.random.Generator) -> Array:
    """How often each bucket is drawn, `[resample, bucket]`: independent Poisson(1) numbers, not all 0 in a resample."""
    weights: Array = POISSON[generator.integers(0, len(POISSON), (resamples, buckets), np.uint16)]
    while buckets and (nothing := ~weights.any(axis=1)).any():
        weights[nothing] = POISSON[generator.integers(0, len(POISSON), (int(nothing.sum()), buckets), np.uint16)]
    return weights


def resample(sums: Array, counts: Array, resamples: int = RESAMPLES, seed: int = 0) -> Array:
    """Means of all pairs, `[resample, pair]`, of buckets drawn with replacement; all pairs share `counts[bucket]`.

    Without any impression, the result has no rows.

    >>> resample(np.array([1.0, 1.0]), np.array([2, 2]), resamples=3)
    array([[0.5],
           [0.5],
           [0.5]])
    """
    if np.ndim(counts) != 1:
        raise DataError(f"counts of shape {np.shape(counts)} cannot be shared by all pairs; give counts[bucket]")
    _check(resamples)
    there = np.asarray(counts) != 0
    sums, numbers = (part[there] for part in columns(sums, counts))
    means = np.empty((resamples if len(sums) else 0, sums.shape[1]))
    both = np.hstack([sums, numbers[:, :1]])  # the weights are read once
    for place, some in enumerate(_weights(len(sums), len(means), seed)):
        totals = product(some, both)
        means[place * CHUNK : (place + 1) * CHUNK] = totals[:, :-1] / totals[:, -1:]
    return means


@lru_cache(maxsize=2)
def _weights(buckets: int, resamples: int, seed: int) -> list[Array]:
    """Weights in chunks, cached, so that a report made every second does not draw them again."""
    generator = np.random.default_rng(seed)
    sizes = [min(CHUNK, resamples - start) for start in range(0, resamples, CHUNK)]
    return [poisson_weights(buckets, size, generator) for size in sizes]


def intervals(means: Array, confidence: float = 0.95) -> tuple[Interval, ...]:
    """The percentile interval of each column of `means[resample, column]`, by C12's rule.

    It is from the floor(alpha K / 2)-th smallest mean (at least the first) to the ceil(alpha K / 2)-th largest.

    >>> intervals(np.arange(1, 101.0)[:, None], confidence=0.9)
    ((5.0, 96.0),)
    """
    resamples = len(means)
    _check(resamples)
    share = round(significance(confidence) * resamples / 2, 9)
    low, high = max(math.floor(share), 1) - 1, resamples - max(math.ceil(share), 1)
    ordered = np.partition(np.ascontiguousarray(means.T), [low, high], axis=1)
    return tuple((float(row[low]), float(row[high])) for row in ordered)


def percentiles(
    sums: Array, counts: Array, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Percentiles:
    """The interval of one pair, from `sums[bucket]` and `counts[bucket]`.

    >>> low, high = percentiles(np.array([3, 1, -1, 2]), np.array([4, 4, 4, 4])).interval
    >>> -0.25 <= low < 0.3125 < high <= 0.75
    True
    """
    there = int(np.count_nonzero(counts))
    if there < 2:
        return Percentiles(None, ONE_BUCKET if there else EMPTY)
    means = resample(np.asarray(sums).reshape(-1, 1), counts, resamples, seed)
    return Percentiles(intervals(means, confidence)[0])


def _check(resamples: int) -> None:
    if resamples < 1:
        raise DataError(f"an interval cannot come from {resamples} resamples; give at least 1, such as {RESAMPLES:,}")
