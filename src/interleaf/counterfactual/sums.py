"""Weighted outcomes by bucket, and what lists that the log could not show may add to them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from interleaf import buckets
from interleaf.buckets import BUCKETS
from interleaf.compiled import kernel
from interleaf.counterfactual.click_model import Lists
from interleaf.counterfactual.lists import GROUPS, Held
from interleaf.counterfactual.outcomes import Scorer
from interleaf.counterfactual.rankings import Ranked
from interleaf.counterfactual.robust import Foreseen, Robust, impressions_of
from interleaf.errors import DataError
from interleaf.methods.arrays import Array, Impression
from interleaf.stats import compare
from interleaf.stats.compare import Estimate


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


SAME = 1e-9  # weights that differ from 1 by less are those of the old lists themselves
NO_BOUND = (
    "the old lists cover only a part of the new rankers' lists, and a score by this method has no useful bound for the "
    "rest; give a method with bounded scores, such as team_draft"
)
ABOVE_ONE = "weights average more than 1, which they cannot: check the logged probabilities of the old lists"


def supported(sums: Weighted, confidence: float) -> Estimate:
    """The share of the new rankers' lists that the old design could show: the mean weight, which chance moves."""
    (found,) = compare.estimates(sums.weights[:, None], sums.impressions[:, None], confidence)
    if found.value is not None and abs(found.value - 1) < SAME:
        found = replace(found, interval=(1.0, 1.0), reason="")
    return found


def is_same(sums: Weighted) -> bool:
    """Whether every weight is 1, as for the old rankers themselves: then no list is out of reach."""
    mean = sums.described.mean
    return mean is not None and abs(mean - 1) < SAME and abs(sums.largest - 1) < SAME


def bounded(outcomes: Array, sums: Weighted, bound: float | None, confidence: float) -> tuple[Estimate, ...]:
    """The mean of w o for each column of `outcomes[bucket, pair]`, in an interval for whatever other lists would do.

    `bound` is the largest score of a list; None where there is none.
    """
    counts, weights = sums.impressions[:, None], sums.weights[:, None]
    plain = compare.estimates(outcomes, counts, confidence)
    if is_same(sums):
        return plain
    if bound is None:
        return tuple(without_interval(one, NO_BOUND) for one in plain)
    above, below = (compare.estimates(bound * weights + sign * outcomes, counts, confidence) for sign in (1, -1))
    return tuple(_joined(*sides, bound) for sides in zip(plain, above, below, strict=True))


def without_interval(found: Estimate, reason: str) -> Estimate:
    """The value alone."""
    return replace(found, error=None, interval=None, p_value=None, reason=found.reason or reason)


def _joined(plain: Estimate, above: Estimate, below: Estimate, bound: float) -> Estimate:
    """From one-sided limits to an interval, and to the p-value of the side that is further from 0."""
    for side in (above, below):
        if side.interval is None and side.value:  # without any value the limit is 0, and needs no error
            return without_interval(plain, side.reason)
    low, high = _limit(above) - bound, bound - _limit(below)
    if low > high:
        return without_interval(plain, ABOVE_ONE)
    p_value = min(1.0, 2 * min(_tail(above, bound), _tail(below, bound)))
    value = min(max(low, plain.value or 0.0), high)  # outside only where weights happen to average far above 1
    return replace(plain, value=value, interval=(low, high), p_value=p_value, reason="")


def _limit(side: Estimate) -> float:
    return 0.0 if side.interval is None else max(0.0, side.interval[0])


def _tail(side: Estimate, bound: float) -> float:
    """How likely a mean is so far above the bound by chance, if it is not above it."""
    from scipy.special import stdtr

    if side.value is None or side.error is None or side.effective_units is None:
        return 1.0
    return float(stdtr(side.effective_units - 1, (bound - side.value) / side.error))


UNWEIGHTED, WEIGHTED, CLIPPED, JOINT = WEIGHTINGS = ("unweighted", "weighted", "clipped", "joint")


class Weighings:
    """Sums of each weighting by name, and of the doubly robust estimate, if there is one."""

    def __init__(self, columns: int, foreseen: Foreseen | None) -> None:
        self.sums = {name: Weighted(columns) for name in WEIGHTINGS}
        self.foreseen = foreseen
        self.dropped: Counter[str] = Counter()

    def merge(self, other: Weighings) -> None:
        """Add those of other lists."""
        for name, sums in self.sums.items():
            sums.merge(other.sums[name])
        if self.foreseen is not None and other.foreseen is not None:
            self.foreseen.merge(other.foreseen)
        self.dropped += other.dropped


@dataclass(frozen=True, eq=False)
class Weigher:
    """What the sums need to know; `group_of` numbers the groups of units, `key` draws the new rankers' lists."""

    new: Ranked
    scorer: Scorer
    robust: Robust | None
    has_joint: bool
    group_of: Array
    clip: float
    key: Any

    def empty(self) -> Weighings:
        """Sums of nothing yet."""
        return Weighings(self.scorer.columns, self.robust.empty() if self.robust is not None else None)

    def add(self, found: Weighings, held: Held) -> None:
        """Add old lists."""
        rows, some, bucket = held.rows, held.possible, buckets.buckets(held.rows.unit)
        entries, weights = np.maximum(held.entries, 0), np.exp(held.log_weight)
        lists = impressions_of(self.new, rows.query, entries, rows.teams)
        outcomes = np.zeros((len(bucket), self.scorer.columns))
        possible = Impression(*(values[some] for values in lists))
        outcomes[some] = self.scorer(possible, rows.counts[some], rows.clicks[some])
        kept = np.minimum(weights, self.clip)
        found.sums[UNWEIGHTED].add(bucket, held.usable.astype(np.float64), outcomes)
        found.sums[WEIGHTED].add(bucket, weights, outcomes)
        found.sums[CLIPPED].add(bucket, kept, outcomes, weights - kept)
        if self.has_joint:
            found.sums[JOINT].add(bucket, np.exp(held.log_joint), self.scorer.observed(lists, rows.clicks))
        if self.robust is not None and found.foreseen is not None:
            groups = self.group_of[bucket % GROUPS]
            self.robust.mend(found.foreseen, Lists(lists, entries, rows.counts, groups), weights, outcomes)
            self.robust.foresee(found.foreseen, rows, held.pages, groups, self.key)
