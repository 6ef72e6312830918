"""Scores of an experiment with and without caption weights, clustered by unit (H12c, section 3.4).

A click gives the credit of the method, multiplied by the weight of the click:

    score = sum over clicks of weight * (credit of A - credit of B) / sum over credited clicks of weight

so 1 means that all credit went to A and -1 that all went to B; the paper reports .5 + .5 * score. Team draft gives a
click to the owner, and ignores clicks above the first rank where the rankings differ. The probabilistic score divides a
click by the posterior of the owner at each rank, as if probabilistic interleaving had composed the list.

The weights are also estimates. The influence of bucket b on a score R is therefore

    (S_b - R N_b) / N + (dR/dw)' covariance g_b,     g_b the gradient of the log-likelihood in its results,

and standard errors are those of these influences, so they include the uncertainty of the weights. If weights vary more
between queries than between results, the difference of the variances is added.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from interleaf.caption_bias.logistic_model import ODDS, PROBABILITY, CaptionModel, probability
from interleaf.caption_bias.shown_results import ShownResults
from interleaf.decode import Decoded
from interleaf.decode.scoring import Scoring, drop_unscorable
from interleaf.errors import DataError, MethodError, join_names
from interleaf.execution.passes import MergeableSums
from interleaf.interleaving import batch
from interleaf.kernels.arrays import Array, Impression, pairs
from interleaf.kernels.buckets import BUCKETS, buckets
from interleaf.kernels.jit import kernel
from interleaf.log.drop_reasons import DropReason, text_of
from interleaf.log.schema import INTERLEAVED
from interleaf.methods.registry import METHODS, ResolvedMethod, resolve
from interleaf.methods.schemes import Scheme, scheme_of
from interleaf.stats.compare import Estimate, estimate
from interleaf.tally.bucket_sums import reordered_columns

MIN_QUERIES = 10
PLAIN = "plain"
KINDS = (PLAIN, ODDS, PROBABILITY)
CLICK, DEDUPED = "click", "click_deduped"
_OWNERS: dict[str, str] = {DropReason.NO_TEAMS: "no owners of results are logged"}


class Gradients(MergeableSums):
    """The gradient of the log-likelihood on a model's training results, by `units[bucket]` and `queries[bucket]`."""

    merged = ("units", "queries")

    def __init__(self, model: CaptionModel) -> None:
        self._model = model
        self.units, self.queries = np.zeros((2, BUCKETS, len(model.parameters)))

    def add(self, results: ShownResults, codes: Array, training: Array) -> None:
        """Add the results that the mask `training` selects."""
        rows = np.flatnonzero(training)
        residuals = results.clicked[rows] - self._model.chances(codes[rows])
        columns, query = self._model.columns(codes[rows]), buckets(results.queries)[results.page[rows]]
        _spread(columns, residuals, results.bucket[rows], self.units)
        _spread(columns, residuals, query, self.queries)

    def covariance(self) -> Array | None:
        """The covariance of the weights between queries; None if there are too few queries."""
        number = int((self.queries != 0).any(axis=1).sum())
        if number < MIN_QUERIES:
            return None
        shifts = self.queries @ np.array(self._model.covariance)
        return np.asarray(shifts.T @ shifts * (number / (number - 1)))


@kernel
def _spread(columns: Array, residuals: Array, bucket: Array, gradients: Array) -> None:
    for row in range(len(columns)):
        for column in range(columns.shape[1]):
            gradients[bucket[row], column] += columns[row, column] * residuals[row]


def estimate_from_influence(
    value: float, influence: Array, counts: Array, extra: float = 0.0, confidence: float = 0.95
) -> Estimate:
    """An estimate from the influences of buckets, which sum to 0; `extra` is a variance to add.

    A bucket without clicks is merged into the one before it.

    >>> score = estimate_from_influence(0.3125, np.array([2, -0.25, -2.25, 0.5]) / 16, np.array([4, 4, 4, 0]))
    >>> score.value, score.buckets
    (0.3125, 3)
    """
    there = counts > 0
    if not there.any():
        return estimate(np.zeros(1), np.zeros(1), confidence)
    place = np.maximum(np.cumsum(there) - 1, 0)
    counts, influence = counts[there], np.bincount(place, influence)
    one = estimate(value * counts + counts.sum() * influence, counts, confidence)
    if extra <= 0 or one.value is None or one.error is None or one.interval is None or one.effective_units is None:
        return one
    error = float(np.hypot(one.error, np.sqrt(extra)))
    radius = (one.interval[1] - one.value) * error / one.error
    p_value = float(2 * stdtr(one.effective_units - 1, -abs(one.value) / error))
    return replace(one, error=error, interval=(one.value - radius, one.value + radius), p_value=p_value)


@dataclass(frozen=True)
class Rescored:
    """A pair of rankers, scored by one method: without weights, with each kind of weights, and the change by each."""

    first: str
    second: str
    method: str
    impressions: int
    clicks: int
    plain: Estimate
    weighted: dict[str, Estimate]
    change: dict[str, Estimate]


class ScoreKey(NamedTuple):
    """Impressions with the same key are scored together."""

    experiment: str
    version: int
    rankers: tuple[str, ...]
    composed: str


class _ScoreSums:
    """By kind of weight: sums and weights by bucket, and their derivatives by the model's parameters."""

    def __init__(self, rankers: int, parameters: int) -> None:
        self.pairs = rankers * (rankers - 1) // 2
        self.impressions, self.clicks = 0, 0
        self.dropped: Counter[str] = Counter()
        self.scores = np.zeros((len(KINDS), BUCKETS, self.pairs))
        self.weights = np.zeros((len(KINDS), BUCKETS))
        self.score_slopes = np.zeros((len(KINDS), self.pairs, parameters))
        self.weight_slopes = np.zeros((len(KINDS), parameters))

    def merge(self, other: _ScoreSums, order: Sequence[int]) -> None:
        """Add other sums; their ranker `order[i]` is ranker i here."""
        self.impressions += other.impressions
        self.clicks += other.clicks
        self.dropped += other.dropped
        self.scores += reordered_columns(other.scores, order, linear=False)
        self.weights += other.weights
        self.score_slopes += reordered_columns(other.score_slopes.swapaxes(1, 2), order, linear=False).swapaxes(1, 2)
        self.weight_slopes += other.weight_slopes


class WeightedScores:
    """Sums of scores while a log is read, by the method of the lists and by the posterior of another method."""

    def __init__(
        self, model: CaptionModel, scoring: Scoring, trained_here: bool, posterior: str = "probabilistic"
    ) -> None:
        self._model, self._trained_here = model, trained_here
        self._method, self._posterior = scoring.method, resolve(posterior)
        self._weights = np.array(list(scoring.counting.weights.values()))
        self._sums: defaultdict[ScoreKey, dict[str, _ScoreSums]] = defaultdict(dict)
        self._orders: dict[frozenset[str], tuple[str, ...]] = {}
        self._gradients = Gradients(model)

    def add(self, results: ShownResults, codes: Array, training: Array) -> None:
        """Add results; the model was fitted to those that the mask `training` selects."""
        self._gradients.add(results, codes, training)
        design = results.decoded.design
        if design.arm != INTERLEAVED:
            return
        composed = resolve(design.method).text
        rankers = self._orders.setdefault(frozenset(design.rankers), design.rankers)
        entry = ScoreKey(design.experiment, design.version, rankers, composed)
        for chosen in self._methods(composed):
            sums = self._sums[entry].setdefault(chosen.text, _ScoreSums(len(rankers), len(self._model.parameters)))
            self._score(results, codes, chosen, [design.rankers.index(name) for name in rankers], sums)

    def merge(self, other: WeightedScores) -> None:
        self._gradients.merge(other._gradients)
        for entry, by_method in other._sums.items():
            rankers = self._orders.setdefault(frozenset(entry.rankers), entry.rankers)
            order = [entry.rankers.index(name) for name in rankers]
            mine = self._sums[entry._replace(rankers=rankers)]
            for method, sums in by_method.items():
                mine.setdefault(method, _ScoreSums(len(rankers), len(self._model.parameters))).merge(sums, order)

    def _methods(self, composed: str) -> list[ResolvedMethod]:
        """The requested method; else the method of the lists and that of the posterior."""
        first = resolve(self._method or composed)
        if not first.method.additive:
            names = join_names([name for name, method in METHODS.items() if method.additive])
            problem = f"{first} cannot credit each click alone, so clicks cannot have weights"
            raise MethodError(f"{problem}; score by {names}")
        same = self._method is not None or first.method is self._posterior.method
        return [first] if same else [first, self._posterior]

    def _score(
        self, results: ShownResults, codes: Array, chosen: ResolvedMethod, order: list[int], sums: _ScoreSums
    ) -> None:
        scheme = scheme_for(chosen, results.decoded)
        before = Counter(results.decoded.dropped)
        decoded = drop_unscorable(results.decoded, chosen, scheme)
        sums.dropped += decoded.dropped - before
        if not len(decoded.rows):
            return
        worth = np.tensordot(self._weights, decoded.clicks.clicks.astype(np.float64), 1)  # kinds of events add up
        page, place = np.nonzero(worth)
        amount = worth[page, place]
        credits = credit_alone(decoded, chosen, scheme, page, place)[:, order] * amount[:, None]
        first, second = pairs(credits.shape[1])
        differences, credited = credits[:, first] - credits[:, second], np.abs(credits).any(axis=1) * np.abs(amount)
        starts = np.cumsum(results.counts) - results.counts
        rows = starts[np.searchsorted(results.decoded.rows, decoded.rows[page])] + place
        sums.impressions += len(decoded.rows)
        sums.clicks += int((credited > 0).sum())
        for kind, name in enumerate(KINDS):
            weight, slope = _weigh_clicks(self._model, codes[rows], name)
            for pair in range(sums.pairs):
                part = weight * differences[:, pair]
                sums.scores[kind, :, pair] += np.bincount(results.bucket[rows], part, BUCKETS)
                sums.score_slopes[kind, pair] += part @ slope
            sums.weights[kind] += np.bincount(results.bucket[rows], weight * credited, BUCKETS)
            sums.weight_slopes[kind] += (weight * credited) @ slope

    def rescore(self, confidence: float = 0.95) -> tuple[Rescored, ...]:
        """Every pair of the latest version of the one experiment, by every method."""
        names = sorted({entry.experiment for entry in self._sums})
        if len(names) > 1:
            raise DataError(f"the log holds {len(names)} experiments; name one of them: {join_names(names[:20])}")
        if not names:
            return ()
        entry = max(self._sums, key=lambda one: (one.version, self._size(one), one))
        first, second = pairs(len(entry.rankers))
        return tuple(
            self._rescore(entry.rankers[one], entry.rankers[other], method, sums, pair, confidence)
            for pair, (one, other) in enumerate(zip(first.tolist(), second.tolist(), strict=True))
            for method, sums in self._sums[entry].items()
        )

    @property
    def others(self) -> int:
        """Impressions of another version, method or set of rankers than the one that is scored."""
        sizes = sorted((entry.version, self._size(entry)) for entry in self._sums)
        return sum(size for _, size in sizes[:-1])

    def _size(self, entry: ScoreKey) -> int:
        return max(sums.impressions for sums in self._sums[entry].values())

    def _rescore(
        self, first: str, second: str, method: str, sums: _ScoreSums, pair: int, confidence: float
    ) -> Rescored:
        estimates, change = {}, {}
        for kind, name in enumerate(KINDS):
            value, influence, extra = self._influence(sums, kind, pair)
            estimates[name] = estimate_from_influence(value, influence, sums.weights[kind], extra, confidence)
            if name == PLAIN:
                plain_value, plain_influence = value, influence
            else:
                rest, rest_influence = plain_value - value, plain_influence - influence
                change[name] = estimate_from_influence(rest, rest_influence, sums.weights[0], extra, confidence)
        if not sums.impressions and sums.dropped:
            words = ", ".join(_OWNERS.get(reason, text_of(reason)) for reason in sums.dropped)
            reason = f"no impression can be scored by {method} ({words})"
            estimates = {name: replace(one, reason=reason) for name, one in estimates.items()}
        plain = estimates.pop(PLAIN)
        return Rescored(first, second, method, sums.impressions, sums.clicks, plain, estimates, change)

    def _influence(self, sums: _ScoreSums, kind: int, pair: int) -> tuple[float, Array, float]:
        """A score, the influence of each bucket on it, and the variance to add for a model from another log."""
        total = sums.weights[kind].sum()
        if total <= 0:
            return 0.0, np.zeros(BUCKETS), 0.0
        value = float(sums.scores[kind, :, pair].sum() / total)
        influence = (sums.scores[kind, :, pair] - value * sums.weights[kind]) / total
        slope = (sums.score_slopes[kind, pair] - value * sums.weight_slopes[kind]) / total
        covariance = np.array(self._model.covariance)
        if self._trained_here:
            between = self._gradients.covariance()
            excess = 0.0 if between is None else max(0.0, float(slope @ (between - covariance) @ slope))
            return value, influence + self._gradients.units @ (covariance @ slope), excess
        return value, influence, float(slope @ covariance @ slope)


def centre_score(score: float) -> float:
    """A score from -1 to 1 as the paper reports it: .5 means no preference.

    >>> centre_score(0.0062)
    0.5031
    """
    return 0.5 + 0.5 * score


def scheme_for(chosen: ResolvedMethod, decoded: Decoded) -> Scheme:
    """The scheme that counts clicks; it ignores a shared prefix if the method offers that and ranks are logged."""
    offered = chosen.method.schemes_for(len(decoded.design.rankers))
    return scheme_of(DEDUPED if DEDUPED in offered and decoded.has["ranks"].any() else CLICK)


def credit_alone(decoded: Decoded, chosen: ResolvedMethod, scheme: Scheme, page: Array, place: Array) -> Array:
    """The credit of each click alone, `[click, ranker]`."""
    alone = np.zeros((len(page), decoded.impressions.ranks.shape[2]), np.bool_)
    alone[np.arange(len(page)), place] = True
    some = Impression(*(values[page] for values in decoded.impressions))
    if not len(page):
        return np.zeros((0, decoded.impressions.ranks.shape[1]))
    return batch.credit_known(chosen, scheme, some, decoded.counts[page], alone, threads=1)[0]


def _weigh_clicks(model: CaptionModel, codes: Array, kind: str) -> tuple[Array, Array]:
    """The weight of each click, and the derivative of its log by parameter."""
    columns = model.columns(codes).astype(np.float64)
    if kind == PLAIN:
        return np.ones(len(codes)), np.zeros_like(columns)
    own = slice(columns.shape[1] - len(model.weights), None)
    alike = columns.copy()  # as if every caption were the mean caption
    alike[:, own] = model.means
    if kind == ODDS:
        columns[:, : own.start] = 0
        return model.click_weights(codes, ODDS), -columns
    context = model.context(codes)
    without, within = (1 - probability(context + part) for part in (model.mean, model.attraction(codes)))
    return model.click_weights(codes, PROBABILITY), without[:, None] * alike - within[:, None] * columns
