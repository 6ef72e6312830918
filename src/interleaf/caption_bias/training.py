"""The five models of H12c: thresholds from data, features by likelihood-ratio tests, and how well they predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from scipy.special import bdtr, chdtrc, chdtri

from interleaf.caption_bias.features import FEATURES, GRADE, GRADES, MEASURES, POSITION, POSITIONS, CaptionFeature
from interleaf.caption_bias.logistic_model import ODDS, PROBABILITY, CaptionModel, FeatureWeight, Fit
from interleaf.caption_bias.shown_results import P_VALUE, SEGMENTS, DesignMatrix, Patterns, ShownResults
from interleaf.errors import DataError, join_names
from interleaf.execution.passes import Groups, MergeableSums
from interleaf.kernels.arrays import Array
from interleaf.kernels.buckets import BUCKETS
from interleaf.kernels.jit import kernel
from interleaf.stats.compare import estimate, significance

QUARTILES, BEST, NONE = RULES = ("quartiles", "best", "none")
VALUES = 1024  # values per measure; larger ones count as the last
CANDIDATES = 32
MIN_SHARE = 0.1  # smallest share of the results that have a tuned feature
SWEEPS = 5
GAIN = 1e-6  # smaller gains of log-likelihood are rounding errors
TINY = 1e-300  # a variance of 0 means that all queries agree exactly
BASELINE, HIGHLIGHTING, DOCUMENT_WISE, PAIRWISE, COMBINED = MODELS = (
    "baseline", "highlighting", "document-wise", "pairwise", "combined",
)  # fmt: skip
NOT_SIGNIFICANT = "not significant: p = {:.2g}"
BETWEEN_QUERIES = "not significant between queries: p = {:.2g}"


class MeasureCounts(MergeableSums):
    """`counts[measure, value, position, grade, clicked]` of results."""

    merged = ("counts",)

    def __init__(self) -> None:
        self.counts = np.zeros((len(MEASURES), VALUES, len(POSITIONS), len(GRADES), 2), np.int64)

    def add(self, measures: Array, codes: Array, clicked: Array) -> None:
        _add(measures, codes, clicked, self.counts)

    @cached_property
    def _down_to(self) -> Array:
        """Counts of results with a smaller value."""
        return np.concatenate([np.zeros_like(self.counts[:, :1]), np.cumsum(self.counts, axis=1)], axis=1)

    def quantiles(self, feature: CaptionFeature, shares: Sequence[float] | Array) -> list[int]:
        """Quantiles of the results; for a tuned `max`, of those with at least `min`."""
        least = feature.min if feature.tuned == "max" else 0
        below = self._down_to[MEASURES.index(feature.measure), least:].sum(axis=(1, 2, 3))
        places = np.searchsorted(below[1:] - below[0], np.array(shares) * (below[-1] - below[0]))
        return [least + place for place in places.tolist()]

    def patterns(self, features: Sequence[CaptionFeature]) -> Patterns:
        """The patterns of position, grade and these features, which all belong to one measure."""
        ends = {bound for one in features for bound in (min(one.min, VALUES), min(one.max + 1, VALUES))}
        bounds = np.array(sorted({0, *ends, VALUES}))
        counts = np.diff(self._down_to[MEASURES.index(features[0].measure), bounds], axis=0)
        has = np.stack([(bounds[:-1] >= one.min) & (bounds[:-1] <= one.max) for one in features], axis=1)
        part, position, grade = np.nonzero(counts.sum(axis=-1))
        codes = np.concatenate([np.stack([position, grade], axis=1), has[part]], axis=1).astype(np.int8)
        return Patterns.group(codes, counts.sum(axis=-1)[part, position, grade], counts[part, position, grade, 1])


@kernel
def _add(measures: Array, codes: Array, clicked: Array, counts: Array) -> None:
    for row in range(len(measures)):
        position, grade, click = codes[row, POSITION], codes[row, GRADE], int(clicked[row])
        for measure in range(measures.shape[1]):
            value = min(max(measures[row, measure], 0), VALUES - 1)
            counts[measure, value, position, grade, click] += 1


def tune_thresholds(features: Sequence[CaptionFeature], table: MeasureCounts, rule: str) -> tuple[CaptionFeature, ...]:
    """The features with thresholds by a rule: `quartiles`, `best`, or `none`, which leaves them as they are."""
    if rule not in RULES:
        raise DataError(f"thresholds cannot be tuned by {rule!r}; give {join_names(RULES)}")
    if rule == NONE:
        return tuple(features)
    if rule == QUARTILES:
        return tuple(_at_quartile(feature, table) if feature.tuned else feature for feature in features)
    tuned_features = list(features)
    for measure in dict.fromkeys(feature.measure for feature in features if feature.tuned):
        places = [place for place, one in enumerate(tuned_features) if one.measure == measure and one.tuned]
        for place, feature in zip(places, _best([tuned_features[place] for place in places], table), strict=True):
            tuned_features[place] = feature
    return tuple(tuned_features)


def _at_quartile(feature: CaptionFeature, table: MeasureCounts) -> CaptionFeature:
    return feature.at(*table.quantiles(feature, [0.25 if feature.tuned == "max" else 0.75]))


def _best(features: list[CaptionFeature], table: MeasureCounts) -> list[CaptionFeature]:
    """Tune the thresholds on one measure: each in turn maximises the likelihood, until none changes."""
    likelihood = cache(lambda *tried: _likelihood(tried, table))
    best = [_at_quartile(feature, table) for feature in features]
    height = likelihood(*best)
    for _ in range(SWEEPS):
        before = list(best)
        for place, feature in enumerate(best):
            # Low thresholds below the median, high ones above it, none in the outer tenths.
            low, high = (MIN_SHARE, 0.5) if feature.tuned == "max" else (0.5, 1 - MIN_SHARE)
            for value in sorted(set(table.quantiles(feature, np.linspace(low, high, CANDIDATES)))):
                tried = [*best[:place], feature.at(value), *best[place + 1 :]]
                reached = likelihood(*tried)
                if reached > height + GAIN:
                    best, height = tried, reached
        if best == before:
            break
    return best if height > -np.inf else features


def _likelihood(features: Sequence[CaptionFeature], table: MeasureCounts) -> float:
    """The likelihood of position, relevance and the features that can have a weight; -inf without any."""
    patterns = table.patterns(features)
    if not 0 < patterns.clicks.sum() < patterns.rows.sum():
        return -np.inf
    design = DesignMatrix(patterns, tuple(feature.name for feature in features))
    useless = design.useless()
    useful = [name for name in design.names if name not in useless]
    return design.only(useful).fit().log_likelihood if useful else -np.inf


@dataclass(frozen=True)
class DiagnosisSettings:
    """The settings of a diagnosis.

    `tune` sets thresholds by `quartiles`, by the `best` fit, or leaves those of `features` (`none`). `held_out` is the
    share of units to test the models on. `weights` is the kind of click weights that the verdict uses. `flag` is the
    attribute and value of enhanced navigational pages. `page` is an impression to explain.
    """

    features: Sequence[CaptionFeature] = FEATURES
    tune: str = BEST
    held_out: float = 0.3
    weights: str = PROBABILITY
    confidence: float = 0.95
    flag: tuple[str, str] | None = None
    page: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            raise DataError(f"held_out is {self.held_out!r}; give a share of the units from 0 to below 1")
        if self.weights not in (ODDS, PROBABILITY):
            raise DataError(f"clicks cannot be weighted by {self.weights!r}; give {join_names((ODDS, PROBABILITY))}")
        significance(self.confidence)  # raises an error if it is invalid

    def training(self, bucket: Array) -> Array:
        """Which buckets the models are fitted to; the others are held out."""
        return bucket < round(BUCKETS * (1 - self.held_out))


def features_of(name: str, features: Sequence[CaptionFeature]) -> list[str]:
    """The features that a model starts from."""
    by_model = {
        BASELINE: [],
        HIGHLIGHTING: [one for one in features if one.is_highlighting],
        DOCUMENT_WISE: [one for one in features if not one.neighbour],
        PAIRWISE: [one for one in features if one.neighbour],
        COMBINED: list(features),
    }
    return [one.name for one in by_model[name]]


def train(patterns: Patterns, features: Sequence[CaptionFeature]) -> dict[str, CaptionModel]:
    """All five models, by name."""
    rows, clicks = int(patterns.rows.sum()), int(patterns.clicks.sum())
    if not rows:
        raise DataError("all units of the log are held out, so none is left to learn from; give more, or held_out=0")
    if not 0 < clicks < rows:
        counts = f"{rows:,} results, {clicks:,} of them clicked"
        raise DataError(f"clicks cannot be learned from {counts}; give a log with clicks and with results not clicked")
    return {name: train_one(name, patterns, features) for name in MODELS}


def confirm_features(
    models: Mapping[str, CaptionModel], patterns: Patterns, covariances: Mapping[str, Array | None]
) -> dict[str, CaptionModel]:
    """The models without features that are not significant by the covariance between queries, if that is known."""
    confirmed = dict(models)
    for name, covariance in covariances.items():
        if covariance is not None:
            model = models[name]
            weak = _eliminate([one.name for one in model.weights], np.array(model.parameters), covariance)
            reasons = {one: BETWEEN_QUERIES.format(float(chdtrc(1, chi))) for one, chi in weak.items()}
            if weak:
                confirmed[name] = train_one(name, patterns, model.features, {**model.dropped, **reasons})
    return confirmed


def train_one(
    name: str, patterns: Patterns, features: Sequence[CaptionFeature], left_out: Mapping[str, str] | None = None
) -> CaptionModel:
    """One of the five models with selected features; `left_out` gives reasons to leave some out from the start."""
    names = [one for one in features_of(name, features) if one not in (left_out or {})]
    whole = DesignMatrix(patterns, tuple(feature.name for feature in features)).only(names)
    design, chosen, tests, dropped = _select(whole)
    dropped |= left_out or {}
    patterns, start = design.patterns, design.start
    weights = tuple(
        FeatureWeight(
            one,
            float(chosen.weights[column]),
            # A weight that only a penalty makes finite has no standard error.
            None if chosen.diverging[column] else float(np.sqrt(chosen.covariance[column, column])),
            *tests[one],
        )
        for column, one in enumerate(design.names, start)
    )
    rows = patterns.rows.sum()
    own = np.zeros(len(GRADES))
    for level, weight in zip(design.grades, [0.0, *chosen.weights[len(design.positions) : start]], strict=True):
        own[list(level)] = weight
    return CaptionModel(
        name=name,
        features=tuple(features),
        position_levels=[list(level) for level in design.positions],
        grade_levels=[list(level) for level in design.grades],
        parameters=chosen.weights.tolist(),
        covariance=chosen.covariance.tolist(),
        weights=weights,
        means=(patterns.rows @ design.matrix[:, start:] / rows).tolist(),
        unseen=float(patterns.rows @ own[patterns.codes[:, GRADE]] / rows),
        rows=int(rows),
        clicks=int(patterns.clicks.sum()),
        patterns=len(patterns.rows),
        log_likelihood=chosen.log_likelihood,
        dropped=dropped,
        separated=chosen.is_separated,
    )


def _select(design: DesignMatrix) -> tuple[DesignMatrix, Fit, dict[str, tuple[float, float]], dict[str, str]]:
    """The design with the selected features, its fit, the test of each, and why the others were left out."""
    dropped = design.useless()
    design = design.only([name for name in design.names if name not in dropped])
    first = design.fit()
    weak = _eliminate(design.names, first.weights, first.covariance, first.diverging)
    dropped |= {name: NOT_SIGNIFICANT.format(float(chdtrc(1, chi))) for name, chi in weak.items()}
    design = design.only([name for name in design.names if name not in weak])
    while True:
        chosen = design.fit()
        tests = {name: _test(design, chosen, name) for name in design.names}
        least = max(tests, key=lambda name: tests[name][1], default="")
        if not least or tests[least][1] < P_VALUE:
            return design, chosen, tests, dropped
        dropped[least] = NOT_SIGNIFICANT.format(tests[least][1])
        design = design.only([name for name in design.names if name != least])


def _eliminate(
    names: Sequence[str], weights: Array, covariance: Array, penalized: Array | None = None
) -> dict[str, float]:
    """Features to remove, one by one, by the quadratic approximation around the fit, each with its chi-square.

    The approximation is invalid for weights that only a penalty makes finite (`penalized`): refitting tests these.
    """
    start = len(weights) - len(names)
    inside = [column for column in range(start, len(weights)) if penalized is None or not penalized[column]]
    out: dict[str, float] = {}
    while inside:
        chi = [weights[column] ** 2 / max(covariance[column, column], TINY) for column in inside]
        if min(chi) >= float(chdtri(1, P_VALUE)):
            break
        column = inside.pop(int(np.argmin(chi)))
        out[names[column - start]] = float(min(chi))
        weights, covariance = _without(weights, covariance, column)
    return out


def _without(weights: Array, covariance: Array, column: int) -> tuple[Array, Array]:
    """The best weights and their covariance with one column fixed at 0, by the quadratic approximation."""
    slope = covariance[:, column] / max(covariance[column, column], TINY)
    return weights - slope * weights[column], covariance - np.outer(slope, covariance[column])


def _test(design: DesignMatrix, chosen: Fit, name: str) -> tuple[float, float]:
    """The likelihood-ratio test of the fit with and without a feature: chi-square and p-value."""
    column = design.start + design.names.index(name)
    start = np.delete(_without(chosen.weights, chosen.covariance, column)[0], column)
    without = design.only([one for one in design.names if one != name]).fit(start)
    chi = max(0.0, 2 * (chosen.log_likelihood - without.log_likelihood))
    return chi, float(chdtrc(1, chi))


@dataclass(frozen=True)
class ModelPerplexity:
    """The perplexity of a model on the held-out results of a segment; None if there are none.

    `p_value` tests the difference from the baseline, `from_best` that from the best model.
    """

    segment: str
    model: str
    results: int
    perplexity: float | None
    p_value: float | None
    from_best: float | None


class Losses(MergeableSums):
    """Losses in bits of held-out results, `sums[segment, model, bucket]`."""

    merged = ("_sums", "_counts")

    def __init__(self, models: Mapping[str, CaptionModel], relevance: bool) -> None:
        self._models, self._relevance = models, relevance
        self._sums = np.zeros((len(SEGMENTS), len(models), BUCKETS))
        self._counts = np.zeros((len(SEGMENTS), BUCKETS), np.int64)

    def add(self, results: ShownResults, codes: Array, held_out: Array, segments: Mapping[str, Array]) -> None:
        """Add the results that the mask `held_out` selects."""
        rows = np.flatnonzero(held_out)
        clicked, bucket = results.clicked[rows], results.bucket[rows]
        members = [segments[name][results.page[rows]] for name in SEGMENTS]
        for segment, member in enumerate(members):
            self._counts[segment] += np.bincount(bucket[member], minlength=BUCKETS)
        for number, model in enumerate(self._models.values()):
            chances = model.chances(codes[rows], self._relevance)
            losses = -np.log2(np.maximum(np.where(clicked, chances, 1 - chances), 1e-300))
            for segment, member in enumerate(members):
                self._sums[segment, number] += np.bincount(bucket[member], losses[member], BUCKETS)

    def perplexities(self) -> tuple[ModelPerplexity, ...]:
        perplexities = []
        for segment, name in enumerate(SEGMENTS):
            counts, sums = self._counts[segment], self._sums[segment]
            total = int(counts.sum())
            best = int(np.argmin(sums.sum(axis=1)))
            for number, model in enumerate(self._models):
                value = float(2 ** (sums[number].sum() / total)) if total else None
                tests = [
                    None if number == other else estimate(sums[number] - sums[other], counts).p_value
                    for other in (0, best)
                ]
                perplexities.append(ModelPerplexity(name, model, total, value, *tests))
        return tuple(perplexities)


@dataclass(frozen=True)
class Preference:
    """How often a model and the judges prefer the same result; `p_value` is of a two-sided sign test."""

    model: str
    correct: int
    none: int
    incorrect: int
    p_value: float | None


class Preferences(MergeableSums):
    """Clicks by query and document: their number, their units, the grade, and the sums of attraction by model."""

    merged = ("_clicks",)

    def __init__(self, models: Mapping[str, CaptionModel]) -> None:
        self._models = models
        self._clicks = Groups(2, ["sum", "min", "max", "max", *["sum"] * len(models)])

    def add(self, results: ShownResults, codes: Array) -> None:
        rows = np.flatnonzero(results.clicked & (results.grades >= 0))
        unit = results.decoded.unit[results.page[rows]]
        columns = [
            results.queries[results.page[rows]], results.documents[rows], np.ones(len(rows)), unit, unit,
            results.grades[rows].astype(np.int64), *(model.attraction(codes[rows]) for model in self._models.values()),
        ]  # fmt: skip
        self._clicks.add(columns)

    def compare(self) -> tuple[Preference, ...]:
        """The preferences of the models on every pair that the judges grade differently."""
        whole = self._clicks.columns
        better, worse = _pairs(*whole[:6])
        preferences = []
        for number, name in enumerate(self._models):
            attraction = whole[6 + number] / whole[2]
            gap = attraction[worse] - attraction[better]  # above 0: the worse result has the more attractive caption
            gap[np.abs(gap) < 1e-9] = 0
            correct, incorrect = int((gap > 0).sum()), int((gap < 0).sum())
            total = correct + incorrect
            p_value = min(1.0, 2 * float(bdtr(min(correct, incorrect), total, 0.5))) if total else None
            preferences.append(Preference(name, correct, int((gap == 0).sum()), incorrect, p_value))
        return tuple(preferences)


def _pairs(
    query: Array, document: Array, clicks: Array, min_unit: Array, max_unit: Array, grade: Array
) -> tuple[Array, Array]:
    """The better and the worse judged of each query's two most clicked results, if different units clicked them."""
    order = np.lexsort((document, -clicks, query))
    starts = np.flatnonzero(np.r_[True, np.diff(query[order].astype(np.uint64)) != 0]) if len(order) else order
    starts = starts[np.diff(np.r_[starts, len(order)]) > 1]
    one, other = order[starts], order[starts + 1]
    same_person = (min_unit[one] == max_unit[other]) & (max_unit[one] == min_unit[other])
    differ = (grade[one] != grade[other]) & ~same_person
    one, other = one[differ], other[differ]
    is_better = grade[one] > grade[other]
    return np.where(is_better, one, other), np.where(is_better, other, one)
