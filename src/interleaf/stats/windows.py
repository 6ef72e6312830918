"""How often a preference is wrong after some time of data: C12's Algorithm 4, which keeps queries in their sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.stats.resampling import TOLERANCE

REPEATS = 100


class Timed(NamedTuple):
    """Values and when they were observed; nan does not count."""

    times: Array
    values: Array


class Window(NamedTuple):
    """Of all windows of so many steps, the share that prefers the second ranker, and the share that prefers neither."""

    steps: int
    wrong: float
    undecided: float


def windows(scores: Timed, span: tuple[float, float], step: float, lengths: Sequence[int]) -> list[Window]:
    """Slide windows over paired scores, where the first ranker should win: [t, t + length) for every step t of a span.

    >>> windows(Timed(np.arange(4), np.array([1.0, -1, 1, 1])), span=(0, 4), step=1, lengths=[1, 2])
    [Window(steps=1, wrong=0.25, undecided=0.0), Window(steps=2, wrong=0.0, undecided=0.66...)]
    """
    sums, _ = _steps(scores, span, step)
    return [_window(length, [_sliding(sums, length)], np.nanmax(np.abs(scores.values))) for length in lengths]


def bucket_windows(
    first: Timed,
    second: Timed,
    queries: int,
    span: tuple[float, float],
    step: float,
    lengths: Sequence[int],
    generator: np.random.Generator,
    repeats: int = REPEATS,
) -> list[Window]:
    """The same for two buckets, the larger mean winning, each thinned out to so many queries, those of the interleaved
    bucket, again and again.
    """
    for bucket in (first, second):
        if len(bucket.times) < queries:
            raise DataError(f"a bucket has {len(bucket.times)} queries, not the {queries} it should be thinned out to")
    found: list[list[Array]] = [[] for _ in lengths]
    for _ in range(repeats):
        thinned = [_steps(_thinned(bucket, queries, generator), span, step) for bucket in (first, second)]
        for differences, length in zip(found, lengths, strict=True):
            (one, ones), (other, others) = ([_sliding(part, length) for part in bucket] for bucket in thinned)
            both = (ones > 0) & (others > 0)
            means = one / np.maximum(ones, 1) - other / np.maximum(others, 1)
            differences.append(np.where(both, means, 0.0))
    largest = max(float(np.nanmax(np.abs(bucket.values))) for bucket in (first, second))
    return [_window(length, differences, largest) for length, differences in zip(lengths, found, strict=True)]


def _thinned(bucket: Timed, queries: int, generator: np.random.Generator) -> Timed:
    kept = generator.permutation(len(bucket.times))[:queries]
    return Timed(bucket.times[kept], bucket.values[kept])


def _steps(scores: Timed, span: tuple[float, float], step: float) -> tuple[Array, Array]:
    """The sum of the values of each step, and how many count."""
    start, stop = span
    counts = int(np.ceil((stop - start) / step))
    number = np.floor((scores.times - start) / step).astype(np.int64)
    if len(number) and (number.min() < 0 or number.max() >= counts):
        raise DataError(f"some values were observed outside the span from {start} to {stop}")
    there = ~np.isnan(scores.values)
    sums = np.bincount(number[there], scores.values[there], minlength=counts)
    return sums, np.bincount(number[there], minlength=counts).astype(np.float64)


def _sliding(values: Array, length: int) -> Array:
    """The sums of all windows of so many steps."""
    if not 1 <= length <= len(values):
        raise DataError(f"a window of {length} steps does not fit into {len(values)}; give 1 to {len(values)}")
    total = np.concatenate([[0.0], np.cumsum(values)])
    sums: Array = total[length:] - total[:-length]
    return sums


def _window(length: int, differences: Sequence[Array], largest: float) -> Window:
    found = np.concatenate(differences)
    wrong, undecided = found < -TOLERANCE * largest, np.abs(found) <= TOLERANCE * largest
    return Window(length, float(wrong.mean()), float(undecided.mean()))
