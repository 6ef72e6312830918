"""Weighted outcomes added up by bucket, without losing the small beside the large."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interleaf.buckets import BUCKETS
from interleaf.compiled import kernel
from interleaf.errors import DataError
from interleaf.methods.arrays import Array


class Weighted:
    """Sums of w o by bucket and column, of w by bucket, and what is to be known of the weights.

    Every sum is kept with what rounding took from it (Knuth's two-sum), so that a weight of 1e17 on both sides leaves
    what the others say.

    >>> sums = Weighted(1)
    >>> sums.add(np.zeros(3, np.int64), np.array([1e17, 1.0, 1e17]), np.array([[1.0], [0.5], [-1.0]]))
    >>> float(sums.outcomes.sum())
    0.5
    """

    def __init__(self, columns: int) -> None:
        self._high, self._low = np.zeros((2, BUCKETS, columns + 1))
        self._squares = np.zeros(2)
        self.impressions = np.zeros(BUCKETS)
        self.usable, self.largest, self.lost = 0, 0.0, 0.0

    def add(self, buckets: Array, weights: Array, outcomes: Array, lost: Array | None = None) -> None:
        """Add impressions; `lost` is what clipping took from their weights."""
        if not np.isfinite(weights).all():
            raise DataError("a weight is not a finite number; its list is one that the old method would never show")
        values = np.concatenate([weights[:, None] * outcomes, weights[:, None]], axis=1)
        add_by_bucket(buckets, values, self._high, self._low)
        add_by_bucket(np.zeros(len(weights), np.int64), weights[:, None] ** 2, *self._squares.reshape(2, 1, 1))
        self.impressions += np.bincount(buckets, minlength=BUCKETS)
        self.usable += int(np.count_nonzero(weights))
        self.largest = max(self.largest, float(weights.max(initial=0.0)))
        self.lost += 0.0 if lost is None else float(lost.sum())

    def merge(self, other: Weighted) -> None:
        """Add the sums of other impressions."""
        add_by_bucket(np.arange(BUCKETS), other._high, self._high, self._low)
        self._low += other._low
        add_by_bucket(np.zeros(1, np.int64), other._squares[:1, None], *self._squares.reshape(2, 1, 1))
        self._squares[1] += other._squares[1]
        self.impressions += other.impressions
        self.usable += other.usable
        self.largest = max(self.largest, other.largest)
        self.lost += other.lost

    @property
    def outcomes(self) -> Array:
        """The sum of w o, `[bucket, column]`."""
        return np.asarray((self._high + self._low)[:, :-1])

    @property
    def weights(self) -> Array:
        """The sum of w, `[bucket]`."""
        return np.asarray((self._high + self._low)[:, -1])

    @property
    def described(self) -> Weights:
        """What there is to know of the weights."""
        count, total = int(self.impressions.sum()), float(self.weights.sum())
        square = float(self._squares.sum())
        return Weights(
            impressions=count,
            usable=self.usable / count if count else None,
            effective=total**2 / square if square > 0 else 0.0,
            mean=total / count if count else None,
            largest=self.largest,
            largest_share=self.largest / total if total > 0 else None,
            clipped=self.lost / (total + self.lost) if self.lost > 0 else 0.0,
        )


@dataclass(frozen=True)
class Weights:
    """Weights of old impressions: the share above 0, (sum w)^2 / sum w^2, mean, largest, its share of the sum, and the
    share of all weight that clipping took away; None without an impression, or without any weight."""

    impressions: int
    usable: float | None
    effective: float
    mean: float | None
    largest: float
    largest_share: float | None
    clipped: float


@kernel
def add_by_bucket(buckets: Array, values: Array, high: Array, low: Array) -> None:
    """Add `values[row, column]` to the sums `high + low` of their buckets."""
    for row in range(len(buckets)):
        bucket = buckets[row]
        for column in range(values.shape[1]):
            value, before = values[row, column], high[bucket, column]
            after = before + value
            back = after - before
            low[bucket, column] += (before - (after - back)) + (value - back)
            high[bucket, column] = after
