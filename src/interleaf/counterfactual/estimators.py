"""Weighted means by bucket of users, and the doubly robust estimate with its jackknife.

    DR = mean over impressions of  f(L') + min(w, sqrt n) (o - f(L))

L is the old list, o its score and w its weight. L' is a random list of the new rankers in its place. f is the score
that the click model expects of a list. If the model is right, the second term is 0 on average. If the old lists cover
the new ones, the second term removes the error of the model. Weights are truncated at the square root of n (Ionides
2008), which limits the variance; the bound vanishes as n grows.

Standard errors are a jackknife over groups of units that also fits the model again. The log has no clicks on documents
that it never shows, so intervals are widened by the largest change that such clicks could make.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtr

from interleaf.counterfactual.click_model import ClickCells, RankedLists, add_foreseen, add_slack, fit
from interleaf.counterfactual.list_outcomes import Scorer
from interleaf.counterfactual.new_rankings import GROUPS, NewRankings, WeighedLists, impressions_of
from interleaf.counterfactual.old_log import OldRows
from interleaf.errors import DataError
from interleaf.execution.passes import MergeableSums
from interleaf.interleaving import batch
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array, Impression
from interleaf.kernels.buckets import BUCKETS
from interleaf.kernels.jit import kernel
from interleaf.methods.registry import ResolvedMethod
from interleaf.simulate.people import streams, words_of
from interleaf.stable_codes import Code
from interleaf.stats import compare
from interleaf.stats.compare import Estimate

MIN_DRAWN = 100_000  # random lists of the new rankers, at least one for each old list; fewer would add noise
CHUNK = 65_536


class ModelSums(MergeableSums):
    """Sums by model, group of units and column: of expected scores, `foreseen`, and of their corrections, `mended`.

    `known` of the `places` in new lists hold a document that the log shows. `slack[pair]` is how much the other places
    may raise and lower the preference.
    """

    merged = ("foreseen", "mended", "slack", "places", "known")

    def __init__(self, models: int, groups: int, columns: int, pairs: int) -> None:
        self.foreseen, self.mended = np.zeros((2, models, groups, columns))
        self.slack = np.zeros((pairs, 2))
        self.places = self.known = 0


class DoublyRobust:
    """The doubly robust estimate. Its model is fitted to all old impressions first; then they are added in chunks.

    `cells` are the views and clicks of the old lists, `positions` the largest length of a list, and `counts[group]` the
    impressions of each group of units.
    """

    def __init__(self, scorer: Scorer, ranked: NewRankings, cells: ClickCells, counts: Array, positions: int) -> None:
        self._scorer, self._ranked = scorer, ranked
        shown = np.bincount(cells.entry, cells.shown, len(ranked.ranks))
        self.models = fit(cells, features(ranked, shown), positions, len(counts))
        self.clip, self._shown = math.sqrt(counts.sum()), shown > 0
        self._counts = counts.astype(np.float64)
        self._repeats = max(1, math.ceil(MIN_DRAWN / counts.sum()))

    def empty(self) -> ModelSums:
        pairs = self._scorer.rankers * (self._scorer.rankers - 1) // 2
        return ModelSums(self.models.attention.shape[1], len(self._counts), self._scorer.columns, pairs)

    def mend(self, sums: ModelSums, lists: RankedLists, weights: Array, outcomes: Array) -> None:
        """Add old lists that the new rankers could have shown, and their scores."""
        add_foreseen(self._scorer, lists, np.minimum(weights, self.clip), outcomes, self.models, sums.mended)

    def foresee(self, sums: ModelSums, rows: OldRows, pages: Array, groups: Array, key: Any) -> None:
        """Add random lists of the new rankers for each old list, drawn with the key and the old impression."""
        repeats, words = self._repeats, words_of(key)
        size = max(1, CHUNK // repeats)
        for start in range(0, len(pages), size):
            some = np.arange(start, min(start + size, len(pages))).repeat(repeats)
            keys = streams(words, rows.identity[some] + np.arange(len(some), dtype=np.uint64) % np.uint64(repeats))
            lists = draw_lists(self._scorer.chosen, self._ranked, rows.query[some], pages[some], keys)
            self.foresee_lists(sums, lists._replace(groups=groups[some]), 1 / repeats)

    def foresee_lists(self, sums: ModelSums, lists: RankedLists, each: float) -> None:
        """Add lists of the new rankers, each with the weight `each`."""
        inside = np.arange(lists.entries.shape[1]) < lists.counts[:, None]
        sums.places += int(inside.sum())
        sums.known += int(self._shown[lists.entries][inside].sum())
        add_slack(self._scorer, lists, ~self._shown, each, self.models, sums.slack)
        ones, nothing = np.full(len(inside), -each), np.zeros((len(inside), self._scorer.columns))
        add_foreseen(self._scorer, lists, ones, nothing, self.models, sums.foreseen)

    def estimates(self, sums: ModelSums, mended: bool, confidence: float) -> tuple[Estimate, ...]:
        """One estimate per pair: of the click model alone, or doubly robust (`mended`)."""
        whole = sums.foreseen + sums.mended if mended else sums.foreseen
        estimates = jackknife(self._scorer.by_pair(whole), self._counts, confidence)
        slack = sums.slack / self._counts.sum()
        return tuple(widen(one, *limits) for one, limits in zip(estimates, slack.tolist(), strict=True))


def draw_lists(chosen: ResolvedMethod, ranked: NewRankings, queries: Array, lengths: Array, keys: Array) -> RankedLists:
    """A random list of the new rankers for each row, of at most `lengths[row]` documents; all are in group 0."""
    k, longest = int(lengths.max(initial=1)), int(ranked.lengths.max(initial=1))
    settings = chosen.method.kernels.settings((longest,), chosen.parameters, False)
    shown, teams, counts = batch.compose(chosen, ranked.encoded, settings, queries, keys, k)
    counts = np.minimum(counts, lengths)
    entries = np.where(np.arange(k) < counts[:, None], ranked.starts[queries][:, None] + shown, 0)
    return RankedLists(impressions_of(ranked, queries, entries, teams), entries, counts, np.zeros_like(counts))


def jackknife(sums: Array, counts: Array, confidence: float) -> tuple[Estimate, ...]:
    """Means of `sums[model, group, column]` over `counts[group]`; model m > 0 is fitted without group m - 1.

    se^2 = (G - 1) / G * sum over groups g of (theta_(g) - mean theta_(g))^2,   t interval with G - 1 degrees
    """
    total, groups = counts.sum(), int((counts > 0).sum())
    values = sums[0].sum(axis=0) / total
    alone, stuck = NoEstimate.ONE_GROUP, NoEstimate.NO_CHANGE
    about = float(groups), groups, alone.text, alone
    estimates = [Estimate(value, None, None, None, *about) for value in values.tolist()]
    if groups < 2:
        return tuple(estimates)
    left = np.array([np.delete(sums[g + 1], g, 0).sum(axis=0) / (total - counts[g]) for g in np.flatnonzero(counts)])
    errors = np.sqrt((groups - 1) / groups * ((left - left.mean(axis=0)) ** 2).sum(axis=0))
    return tuple(
        compare.with_error(one, error, groups, confidence)
        if error > 1e-12
        else replace(one, reason=stuck.text, code=stuck)
        for one, error in zip(estimates, errors.tolist(), strict=True)
    )


def widen(estimate: Estimate, raised: float, lowered: float) -> Estimate:
    """Widen the interval of an estimate whose value may be higher by `raised` or lower by `lowered`.

    The p-value is that of the possible value nearest to 0.
    """
    value, error, interval, units = estimate.value, estimate.error, estimate.interval, estimate.effective_units
    if value is None or error is None or interval is None or units is None:
        return estimate
    nearest = max(value - lowered, 0.0) - min(value + raised, 0.0)
    p_value = min(1.0, 2 * float(stdtr(units - 1, -nearest / error)))
    return replace(estimate, interval=(interval[0] - lowered, interval[1] + raised), p_value=p_value)


ALIKE = 1e-9  # a smaller variation of a feature is rounding error


def features(ranked: NewRankings, shown: Array) -> Array:
    """Standardised features of entries: the log rank by each new ranker, and the log share of the query's places.

    `shown[entry]` is how often the entry was shown.
    """
    query = np.repeat(np.arange(len(ranked.union)), ranked.union)
    ranks = np.where(ranked.ranks > 0, ranked.ranks, ranked.lengths[query] + 1)
    places = np.bincount(query, shown, len(ranked.union))
    logs = np.log(np.column_stack([ranks, (shown + 0.5) / (places[query] + 1)]))
    spread = logs.std(axis=0)
    return np.asarray((logs - logs.mean(axis=0)) / np.where(spread > ALIKE, spread, 1.0))


class WeightedSums:
    """Sums of w o by bucket and column, of w by bucket, and statistics of the weights.

    Each sum is stored with its rounding error (Knuth's two-sum), so that weights of 1e17 can cancel out exactly.

    >>> sums = WeightedSums(1)
    >>> sums.add(np.zeros(3, np.int64), np.array([1e17, 1.0, 1e17]), np.array([[1.0], [0.5], [-1.0]]))
    >>> float(sums.outcomes.sum())
    0.5
    """

    def __init__(self, columns: int, buckets: int = BUCKETS) -> None:
        self._high, self._low = np.zeros((2, buckets, columns + 1))
        self._squares = np.zeros(2)
        self.impressions = np.zeros(buckets)
        self.usable, self.largest, self.lost = 0, 0.0, 0.0

    def add(self, buckets: Array, weights: Array, outcomes: Array, clip: float = np.inf) -> None:
        """Add impressions with weights of at most `clip`."""
        if not np.isfinite(weights).all():
            raise DataError("a weight is not a finite number; its list is one that the old method would never show")
        whole, weights = weights, np.minimum(weights, clip)
        self.lost += float((whole - weights).sum())
        values = np.concatenate([weights[:, None] * outcomes, weights[:, None]], axis=1)
        add_by_bucket(buckets, values, self._high, self._low)
        add_by_bucket(np.zeros(len(weights), np.int64), weights[:, None] ** 2, *self._squares.reshape(2, 1, 1))
        self.impressions += np.bincount(buckets, minlength=len(self.impressions))
        self.usable += int(np.count_nonzero(weights))
        self.largest = max(self.largest, float(weights.max(initial=0.0)))

    def merge(self, other: WeightedSums) -> None:
        add_by_bucket(np.arange(len(self.impressions)), other._high, self._high, self._low)
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
    def statistics(self) -> WeightStatistics:
        count, total = int(self.impressions.sum()), float(self.weights.sum())
        square = float(self._squares.sum())
        return WeightStatistics(
            impressions=count,
            usable=self.usable / count if count else None,
            effective=total**2 / square if square > 0 else 0.0,
            mean=total / count if count else None,
            largest=self.largest,
            largest_share=self.largest / total if total > 0 else None,
            clipped=self.lost / (total + self.lost) if self.lost > 0 else 0.0,
        )


class NoEstimate(Code):
    """Why an estimate of old impressions has no value or no interval."""

    NO_OWNERS = "no_owners", "the owners that were drawn are not logged, or of fewer or more rankers"
    NO_LIST = "no_list", "no old list is one that the new rankers could show"
    SHOWN_ONLY = "shown_only", "describes only the lists that the log showed"
    BIASED = "biased", "biased: not an estimate of the new rankers' preference"
    CLIPPED = "clipped", "biased: clipping took weight away"
    NO_BOUND = (
        "no_bound",
        "the old lists cover only a part of the new rankers' lists, and a score by this method has no useful bound for "
        "the rest; give a method with bounded scores, such as team_draft",
    )
    ABOVE_ONE = (
        "weights_above_one",
        "weights average more than 1, which they cannot: check the logged probabilities of the old lists",
    )
    OTHER_SCHEME = (
        "other_scheme",
        "what a click model expects is known for schemes binary and click, not for normalized",
    )
    NO_CLICK = "no_click", "no click: a click model has nothing to learn from"
    ALL_UNSEEN = "all_unseen", "the log shows none of the documents that the new rankers would"
    FEW_LISTS = "few_lists", "the log's methods show few lists: nothing tests the click model on others"
    ONE_GROUP = "one_group", "all units are in one group, so no error can be computed"
    NO_CHANGE = "no_change", "leaving out units changes nothing, so no error can be computed"


@dataclass(frozen=True)
class WeightStatistics:
    """Weights of old impressions: the share above 0, the effective sample size (sum w)^2 / sum w^2, the mean, the
    largest, its share of the sum, and the share that was clipped. None without impressions or weights."""

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


SAME = 1e-9  # weights within this distance of 1 count as 1: the new rankers are the old ones


def estimate_support(sums: WeightedSums, confidence: float) -> Estimate:
    """The share of the new rankers' lists that the old methods could show: the mean weight, with its interval."""
    (share,) = compare.estimates(sums.weights[:, None], sums.impressions[:, None], confidence)
    is_whole = share.value is not None and abs(share.value - 1) < SAME
    return replace(share, interval=(1.0, 1.0), reason="", code="") if is_whole else share


def is_same(sums: WeightedSums) -> bool:
    """Whether every weight is 1, as for the old rankers themselves: then the log covers all lists."""
    mean = sums.statistics.mean
    return mean is not None and abs(mean - 1) < SAME and abs(sums.largest - 1) < SAME


def bound_estimates(
    outcomes: Array, sums: WeightedSums, bound: float | None, confidence: float
) -> tuple[Estimate, ...]:
    """The mean of w o for each column of `outcomes[bucket, pair]`; its interval allows any score of uncovered lists.

    `bound` is the largest score of a list, or None.
    """
    counts, weights = sums.impressions[:, None], sums.weights[:, None]
    plain = compare.estimates(outcomes, counts, confidence)
    if is_same(sums):
        return plain
    if bound is None:
        return tuple(without_interval(one, NoEstimate.NO_BOUND) for one in plain)
    above, below = (compare.estimates(bound * weights + sign * outcomes, counts, confidence) for sign in (1, -1))
    return tuple(_join_sides(*sides, bound) for sides in zip(plain, above, below, strict=True))


def without_interval(estimate: Estimate, why: NoEstimate) -> Estimate:
    """The estimate without its interval and p-value; if it had a reason, it keeps that one."""
    reason, code = (estimate.reason, estimate.code) if estimate.reason else (why.text, why)
    return replace(estimate, error=None, interval=None, p_value=None, reason=reason, code=code)


def _join_sides(plain: Estimate, above: Estimate, below: Estimate, bound: float) -> Estimate:
    """Join one-sided limits to an interval, with the p-value of the side that is further from 0."""
    for side in (above, below):
        if side.interval is None and side.value:  # without data the limit is 0, and has no error
            missing = replace(plain, error=None, interval=None, p_value=None)
            return missing if plain.reason else replace(missing, reason=side.reason, code=side.code)
    limits = [0.0 if side.interval is None else max(0.0, side.interval[0]) for side in (above, below)]
    low, high = limits[0] - bound, bound - limits[1]
    if low > high:
        return without_interval(plain, NoEstimate.ABOVE_ONE)
    p_value = min(1.0, 2 * min(_tail(above, bound), _tail(below, bound)))
    value = min(max(low, plain.value or 0.0), high)  # outside only if weights average far above 1 by accident
    return replace(plain, value=value, interval=(low, high), p_value=p_value, reason="", code="")


def _tail(side: Estimate, bound: float) -> float:
    """The one-sided p-value of a mean above the bound."""
    if side.value is None or side.error is None or side.effective_units is None:
        return 1.0
    return float(stdtr(side.effective_units - 1, (bound - side.value) / side.error))


UNWEIGHTED, WEIGHTED, CLIPPED, JOINT = WEIGHTINGS = ("unweighted", "weighted", "clipped", "joint")


class WeightingSums(MergeableSums):
    """Sums of each weighting by name, and of the doubly robust estimate, if there is one."""

    merged = ("sums", "foreseen", "dropped")

    def __init__(self, columns: int, foreseen: ModelSums | None) -> None:
        self.sums = {name: WeightedSums(columns) for name in WEIGHTINGS}
        self.foreseen = foreseen
        self.dropped: Counter[str] = Counter()


@dataclass(frozen=True, eq=False)
class Weigher:
    """Adds old lists to sums; `group_of` numbers the groups of units, `key` is that of the new rankers' lists."""

    new: NewRankings
    scorer: Scorer
    robust: DoublyRobust | None
    has_joint: bool
    group_of: Array
    clip: float
    key: Any

    def add(self, weighings: WeightingSums, old: WeighedLists) -> None:
        rows, some, bucket = old.rows, old.possible, buckets.buckets(old.rows.unit)
        entries, weights = np.maximum(old.entries, 0), np.exp(old.log_weight)
        lists = impressions_of(self.new, rows.query, entries, rows.teams)
        outcomes = np.zeros((len(bucket), self.scorer.columns))
        possible = Impression(*(values[some] for values in lists))
        outcomes[some] = self.scorer(possible, rows.counts[some], rows.clicks[some])
        weighings.sums[UNWEIGHTED].add(bucket, old.usable.astype(np.float64), outcomes)
        weighings.sums[WEIGHTED].add(bucket, weights, outcomes)
        weighings.sums[CLIPPED].add(bucket, weights, outcomes, self.clip)
        if self.has_joint:
            weighings.sums[JOINT].add(bucket, np.exp(old.log_joint), self.scorer.score_by_owners(lists, rows.clicks))
        if self.robust is not None and weighings.foreseen is not None:
            groups = self.group_of[bucket % GROUPS]
            self.robust.mend(weighings.foreseen, RankedLists(lists, entries, rows.counts, groups), weights, outcomes)
            self.robust.foresee(weighings.foreseen, rows, old.pages, groups, self.key)
