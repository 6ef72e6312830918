"""Means and medians of bootstrap samples of any size, at a cost that does not grow with what is sampled, where it can.

Values that are nan are drawn like all others, and then do not count: a metric over clicked queries is resampled by
queries.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from interleaf.errors import DataError
from interleaf.methods.arrays import Array

_ROOM = 2**21  # numbers held at a time
TOLERANCE = 1e-12  # of the largest value: means that are equal on paper may differ in their last digits


def resampled_means(values: Array, size: int, repeats: int, generator: np.random.Generator) -> Array:
    """The means of `repeats` samples of so many values, drawn with replacement; nan where none of a sample counts.

    Where there are few distinct values, how often each is drawn is: a multinomial.

    >>> resampled_means(np.array([1.0, 1.0]), 5, 2, np.random.default_rng(1))
    array([1., 1.])
    """
    check_sample(values, size)
    distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    if len(distinct) < size:
        shares = np.append(counts, len(values) - counts.sum()) / len(values)
        parts = [_drawn_counts(distinct, shares, size, part, generator) for part in _parts(repeats, len(shares))]
    else:
        parts = [_drawn_rows(values, size, part, generator) for part in _parts(repeats, size)]
    means = np.concatenate(parts)
    means[np.abs(means) <= TOLERANCE * np.abs(distinct).max(initial=0)] = 0
    return means


def _drawn_counts(distinct: Array, shares: Array, size: int, repeats: int, generator: np.random.Generator) -> Array:
    counts = generator.multinomial(size, shares, repeats)[:, :-1]
    return _divided(counts @ distinct, counts.sum(axis=1))


def _drawn_rows(values: Array, size: int, repeats: int, generator: np.random.Generator) -> Array:
    drawn = generator.choice(values, (repeats, size))
    return _divided(np.nansum(drawn, axis=1), (~np.isnan(drawn)).sum(axis=1))


def resampled_medians(values: Array, size: int, repeats: int, generator: np.random.Generator) -> Array:
    """The medians of such samples, without drawing them; nan where none of a sample counts.

    The m-th smallest of n uniform numbers is Beta(m, n + 1 - m), and the smallest of the r above it splits what is left
    as Beta(1, r). Looked up among the sorted values, they are order statistics of a sample of these.

    >>> resampled_medians(np.array([3.0, 3.0, np.nan]), 9, 2, np.random.default_rng(1))
    array([3., 3.])
    """
    check_sample(values, size)
    ordered = np.sort(values[~np.isnan(values)])
    counted = generator.binomial(size, len(ordered) / len(values), repeats)
    medians = np.full(repeats, np.nan)
    some = np.flatnonzero(counted)
    if not len(some):
        return medians
    lower = (counted[some] + 1) // 2
    low = generator.beta(lower, counted[some] + 1 - lower)
    above = np.maximum(counted[some] - lower, 1)  # of a single value none is above, and the lower one is the median
    high = np.where(counted[some] % 2, low, low + (1 - low) * generator.beta(1, above))
    places = np.minimum(np.stack([low, high]) * len(ordered), len(ordered) - 1).astype(np.int64)
    medians[some] = ordered[places].mean(axis=0)
    return medians


STATISTICS: dict[str, Callable[[Array, int, int, np.random.Generator], Array]] = {
    "mean": resampled_means,
    "median": resampled_medians,
}


def check_sample(values: Array, size: int) -> None:
    """Whether so many can be drawn from these."""
    if not len(values):
        raise DataError("there is nothing to resample; give at least one score")
    if size < 1:
        raise DataError(f"a sample cannot have the size {size}; give a whole number from 1 up")


def _parts(repeats: int, width: int) -> list[int]:
    """Repeats in parts that fit into the room."""
    part = max(1, min(repeats, _ROOM // width))
    return [min(part, repeats - start) for start in range(0, repeats, part)]


def _divided(sums: Array, counts: Array) -> Array:
    means: Array = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return means
