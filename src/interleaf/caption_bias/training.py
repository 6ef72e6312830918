"""The five models of H12c: thresholds from data, features by likelihood-ratio tests, and how well they predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interleaf.caption_bias.click_patterns import P_VALUE, Design, Patterns
from interleaf.caption_bias.features import FEATURES, FIRST, GRADE, GRADES, MEASURES, POSITION, POSITIONS, Feature
from interleaf.caption_bias.logistic_model import ODDS, PROBABILITY, Model, Weight
from interleaf.caption_bias.shown_results import SEGMENTS, Results
from interleaf.errors import DataError, listed
from interleaf.execution.passes import Groups
from interleaf.kernels.arrays import Array
from interleaf.kernels.buckets import BUCKETS
from interleaf.kernels.jit import kernel
from interleaf.stats.compare import estimate
from interleaf.stats.logistic import Fit
from interleaf.stats.sums import significance

QUARTILES, BEST, NONE = RULES = ("quartiles", "best", "none")
VALUES = 1024  # larger values count as the last
CANDIDATES = 32
MIN_SHARE = 0.1  # a share of the results that have a tuned feature
SWEEPS = 5
GAIN = 1e-6  # in log-likelihood: less is rounding


class Table:
    """`counts[measure, value, position, grade, clicked]` of results."""

    def __init__(self) -> None:
        self.counts = np.zeros((len(MEASURES), VALUES, len(POSITIONS), len(GRADES), 2), np.int64)

    def add(self, measures: Array, codes: Array, clicked: Array) -> None:
        """Count results in."""
        _add(measures, codes, clicked, self.counts)

    def merge(self, other: Table) -> None:
        """Count other results in."""
        self.counts += other.counts

    @cached_property
    def _down_to(self) -> Array:
        """Counts of results with a value below each."""
        return np.concatenate([np.zeros_like(self.counts[:, :1]), np.cumsum(self.counts, axis=1)], axis=1)

    def quantile(self, feature: Feature, share: float) -> int:
        """The value at a share of the results; for a tuned `most`, of those that have at least `least`."""
        least = feature.least if feature.tuned == "most" else 0
        below = self._down_to[MEASURES.index(feature.measure), least:].sum(axis=(1, 2, 3))
        return least + int(np.searchsorted(below[1:] - below[0], share * (below[-1] - below[0])))

    def patterns(self, features: Sequence[Feature]) -> Patterns:
        """The results by position, grade, and which of these features of one measure they have."""
        ends = {bound for one in features for bound in (min(one.least, VALUES), min(one.most + 1, VALUES))}
        bounds = np.array(sorted({0, *ends, VALUES}))
        counts = np.diff(self._down_to[MEASURES.index(features[0].measure), bounds], axis=0)
        has = np.stack([(bounds[:-1] >= one.least) & (bounds[:-1] <= one.most) for one in features], axis=1)
        part, position, grade = np.nonzero(counts.sum(axis=-1))
        codes = np.concatenate([np.stack([position, grade], axis=1), has[part]], axis=1).astype(np.int8)
        return Patterns(codes, counts.sum(axis=-1)[part, position, grade], counts[part, position, grade, 1])


@kernel
def _add(measures: Array, codes: Array, clicked: Array, counts: Array) -> None:
    for row in range(len(measures)):
        position, grade, click = codes[row, POSITION], codes[row, GRADE], int(clicked[row])
        for measure in range(measures.shape[1]):
            value = min(max(measures[row, measure], 0), VALUES - 1)
            counts[measure, value, position, grade, click] += 1


def tuned(features: Sequence[Feature], table: Table, rule: str) -> tuple[Feature, ...]:
    """The features with thresholds by a rule: `quartiles`, `best`, or `none`, which leaves them as they are."""
    if rule not in RULES:
        raise DataError(f"thresholds cannot be tuned by {rule!r}; give {listed(RULES)}")
    if rule == NONE:
        return tuple(features)
    if rule == QUARTILES:
        return tuple(_at_quartile(feature, table) if feature.tuned else feature for feature in features)
    found = list(features)
    for measure in dict.fromkeys(feature.measure for feature in features if feature.tuned):
        places = [place for place, one in enumerate(found) if one.measure == measure and one.tuned]
        for place, feature in zip(places, _best([found[place] for place in places], table), strict=True):
            found[place] = feature
    return tuple(found)


def _at_quartile(feature: Feature, table: Table) -> Feature:
    share = 0.25 if feature.tuned == "most" else 0.75
    return feature.at(table.quantile(feature, share))


def _best(features: list[Feature], table: Table) -> list[Feature]:
    """Thresholds on one measure, each in turn moved to where the likelihood of all is highest, until none moves."""
    best = [_at_quartile(feature, table) for feature in features]
    height = _likelihood(best, table)
    for _ in range(SWEEPS):
        before = list(best)
        for place, feature in enumerate(best):
            for value in _candidates(feature, table):
                tried = [*best[:place], feature.at(value), *best[place + 1 :]]
                reached = _likelihood(tried, table)
                if reached > height + GAIN:
                    best, height = tried, reached
        if best == before:
            break
    return best if height > -np.inf else features


def _candidates(feature: Feature, table: Table) -> list[int]:
    """Low thresholds are looked for below the median, high ones above it; few results would follow chance."""
    low, high = (MIN_SHARE, 0.5) if feature.tuned == "most" else (0.5, 1 - MIN_SHARE)
    return sorted({table.quantile(feature, share) for share in np.linspace(low, high, CANDIDATES)})


def _likelihood(features: list[Feature], table: Table) -> float:
    """Of position, relevance and those of the features that can have a weight; none where there is none such."""
    patterns = table.patterns(features)
    if not 0 < patterns.clicks.sum() < patterns.rows.sum():
        return -np.inf
    design = Design(patterns, tuple(feature.name for feature in features))
    useless = design.useless()
    useful = [name for name in design.names if name not in useless]
    return design.only(useful).fit().log_likelihood if useful else -np.inf


@dataclass(frozen=True)
class Settings:
    """How a log is diagnosed.

    `tune`: thresholds by `quartiles`, the `best` fit, or `none`, as `features` says. `held_out`: the share of units
    whose clicks the models must foretell. `weights`: which kind the verdict rests on. `flag`: the attribute and value
    of enhanced navigational pages. `page`: an impression to explain.
    """

    features: Sequence[Feature] = FEATURES
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
            raise DataError(f"clicks cannot be weighted by {self.weights!r}; give {listed((ODDS, PROBABILITY))}")
        significance(self.confidence)  # refuses what is none

    def training(self, bucket: Array) -> Array:
        """Which buckets teach; the others are held out."""
        return bucket < round(BUCKETS * (1 - self.held_out))


TINY = 1e-300  # a variance of 0 would be that of a feature whose queries agree to the last digit
BASELINE, HIGHLIGHTING, DOCUMENT_WISE, PAIRWISE, COMBINED = MODELS = (
    "baseline", "highlighting", "document-wise", "pairwise", "combined",
)  # fmt: skip
NOT_SIGNIFICANT = "not significant: p = {:.2g}"
BETWEEN_QUERIES = "not significant between queries: p = {:.2g}"


def features_of(name: str, features: Sequence[Feature]) -> list[str]:
    """The features that a model starts from."""
    found = {
        BASELINE: [],
        HIGHLIGHTING: [one for one in features if one.is_highlighting],
        DOCUMENT_WISE: [one for one in features if not one.neighbour],
        PAIRWISE: [one for one in features if one.neighbour],
        COMBINED: list(features),
    }
    return [one.name for one in found[name]]


def train(patterns: Patterns, features: Sequence[Feature]) -> dict[str, Model]:
    """All five models, by name."""
    rows, clicks = int(patterns.rows.sum()), int(patterns.clicks.sum())
    if not rows:
        raise DataError("all units of the log are held out, so none is left to learn from; give more, or held_out=0")
    if not 0 < clicks < rows:
        seen = f"{rows:,} results, {clicks:,} of them clicked"
        raise DataError(f"clicks cannot be learned from {seen}; give a log with clicks and with results not clicked")
    return {name: train_one(name, patterns, features) for name in MODELS}


def confirmed(models: Mapping[str, Model], patterns: Patterns, between: Mapping[str, Array]) -> dict[str, Model]:
    """The models without features that are not significant by their covariance between queries, where that is known."""
    from scipy.special import chdtrc

    found = dict(models)
    for name in between:
        model = models[name]
        names = [one.name for one in model.weights]
        weak = _eliminated(names, np.array(model.parameters), between[name])
        reasons = {one: BETWEEN_QUERIES.format(float(chdtrc(1, chi))) for one, chi in weak.items()}
        if weak:
            found[name] = train_one(name, patterns, model.features, {**model.dropped, **reasons})
    return found


def train_one(
    name: str, patterns: Patterns, features: Sequence[Feature], left_out: Mapping[str, str] | None = None
) -> Model:
    """One of the five models, its features selected; some may be left out from the start, for a reason."""
    names = [one for one in features_of(name, features) if one not in (left_out or {})]
    whole = Design(patterns, tuple(feature.name for feature in features)).only(names)
    design, chosen, tests, dropped = _select(whole)
    dropped |= left_out or {}
    patterns, start = design.patterns, design.start
    weights = tuple(
        Weight(one, float(chosen.weights[start + place]), _error(chosen, start + place), *tests[one])
        for place, one in enumerate(design.names)
    )
    rows = patterns.rows.sum()
    own = np.zeros(len(GRADES))
    for level, weight in zip(design.grades, [0.0, *chosen.weights[len(design.positions) : start]], strict=True):
        own[list(level)] = weight
    return Model(
        name=name,
        features=tuple(features),
        position_levels=[list(level) for level in design.positions],
        grade_levels=[list(level) for level in design.grades],
        parameters=chosen.weights.tolist(),
        covariance=chosen.covariance.tolist(),
        weights=weights,
        means=(patterns.rows @ patterns.codes[:, FIRST:] / rows).tolist(),
        unseen=float(patterns.rows @ own[patterns.codes[:, GRADE]] / rows),
        rows=int(rows),
        clicks=int(patterns.clicks.sum()),
        patterns=len(patterns),
        log_likelihood=chosen.log_likelihood,
        dropped=dropped,
        separated=chosen.separated,
    )


def _error(chosen: Fit, column: int) -> float | None:
    """The standard error of a weight; that of one that only a penalty holds could not be believed."""
    return None if chosen.held[column] else float(np.sqrt(chosen.covariance[column, column]))


def _select(design: Design) -> tuple[Design, Fit, dict[str, tuple[float, float]], dict[str, str]]:
    """The design with the features that stay, its fit, the test of each, and why the others left."""
    from scipy.special import chdtrc

    dropped = design.useless()
    design = design.only([name for name in design.names if name not in dropped])
    first = design.fit()
    weak = _eliminated(design.names, first.weights, first.covariance, first.held)
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


def _eliminated(names: Sequence[str], weights: Array, covariance: Array, held: Array | None = None) -> dict[str, float]:
    """Features that leave one by one on the quadratic form around the fit, each with its chi-square.

    That says nothing of weights that a penalty holds (`held`): those stay, for a test by fits.
    """
    from scipy.special import chdtri

    start = len(weights) - len(names)
    inside = [column for column in range(start, len(weights)) if held is None or not held[column]]
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
    """The best weights, and their covariance, where that of a column is held at 0, on the quadratic form."""
    slope = covariance[:, column] / max(covariance[column, column], TINY)
    return weights - slope * weights[column], covariance - np.outer(slope, covariance[column])


def _test(design: Design, chosen: Fit, name: str) -> tuple[float, float]:
    """The likelihood-ratio test of the fit with and without a feature: chi-square and p-value."""
    from scipy.special import chdtrc

    column = design.start + design.names.index(name)
    start = np.delete(_without(chosen.weights, chosen.covariance, column)[0], column)
    without = design.only([one for one in design.names if one != name]).fit(start)
    chi = max(0.0, 2 * (chosen.log_likelihood - without.log_likelihood))
    return chi, float(chdtrc(1, chi))


@dataclass(frozen=True)
class Perplexity:
    """The perplexity of a model on the held-out results of a segment; None: there are none.

    `p_value`: how often chance alone would tell it as far from the baseline, `from_best` from the best model.
    """

    segment: str
    model: str
    results: int
    perplexity: float | None
    p_value: float | None
    from_best: float | None


class Losses:
    """Losses in bits of held-out results, `sums[segment, model, bucket]`."""

    def __init__(self, models: Mapping[str, Model], relevance: bool) -> None:
        self._models, self._relevance = models, relevance
        self._sums = np.zeros((len(SEGMENTS), len(models), BUCKETS))
        self._counts = np.zeros((len(SEGMENTS), BUCKETS), np.int64)

    def add(self, results: Results, codes: Array, held_out: Array, segments: Mapping[str, Array]) -> None:
        """Count results in, those that a mask holds out."""
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

    def merge(self, other: Losses) -> None:
        """Count the losses of other results in."""
        self._sums += other._sums
        self._counts += other._counts

    def perplexities(self) -> tuple[Perplexity, ...]:
        """By segment and model, in their order."""
        found = []
        for segment, name in enumerate(SEGMENTS):
            counts, sums = self._counts[segment], self._sums[segment]
            total = int(counts.sum())
            best = int(np.argmin(sums.sum(axis=1)))
            for number, model in enumerate(self._models):
                value = float(2 ** (sums[number].sum() / total)) if total else None
                tests = [_test_difference(sums[number] - sums[other], counts, number == other) for other in (0, best)]
                found.append(Perplexity(name, model, total, value, *tests))
        return tuple(found)


def _test_difference(difference: Array, counts: Array, same: bool) -> float | None:
    return None if same else estimate(difference, counts).p_value


@dataclass(frozen=True)
class Preference:
    """How often a model's preference is that of the judges; `p_value` of a two-sided sign test against a coin."""

    model: str
    correct: int
    none: int
    incorrect: int
    p_value: float | None


class Preferences:
    """Clicks by query and document while a log is read: how many, whose, the grade, and the mean weights."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = models
        self._clicks = Groups(2, ["sum", "min", "max", "max", *["sum"] * len(models)])

    def add(self, results: Results, codes: Array) -> None:
        """Count clicks in."""
        rows = np.flatnonzero(results.clicked & (results.grades >= 0))
        unit = results.decoded.unit[results.page[rows]]
        columns = [
            results.queries[results.page[rows]], results.documents[rows], np.ones(len(rows)), unit, unit,
            results.grades[rows].astype(np.int64), *(model.attraction(codes[rows]) for model in self._models.values()),
        ]  # fmt: skip
        self._clicks.add(columns)

    def merge(self, other: Preferences) -> None:
        """Count other clicks in."""
        self._clicks.merge(other._clicks)

    def found(self) -> tuple[Preference, ...]:
        """What the models say of every pair that judges tell apart."""
        whole = self._clicks.columns
        better, worse = _pairs(*whole[:6])
        found = []
        for number, name in enumerate(self._models):
            attraction = whole[6 + number] / whole[2]
            gap = attraction[worse] - attraction[better]  # above 0: the worse one was clicked for its looks
            gap[np.abs(gap) < 1e-9] = 0
            correct, incorrect = int((gap > 0).sum()), int((gap < 0).sum())
            found.append(Preference(name, correct, int((gap == 0).sum()), incorrect, _sign_test(correct, incorrect)))
        return tuple(found)


def _pairs(
    query: Array, document: Array, clicks: Array, least_unit: Array, most_unit: Array, grade: Array
) -> tuple[Array, Array]:
    """The places of the better and the worse judged of each query's two most clicked, clicked by different people."""
    order = np.lexsort((document, -clicks, query))
    starts = np.flatnonzero(np.r_[True, np.diff(query[order].astype(np.uint64)) != 0]) if len(order) else order
    starts = starts[np.diff(np.r_[starts, len(order)]) > 1]
    one, other = order[starts], order[starts + 1]
    same_person = (least_unit[one] == most_unit[other]) & (most_unit[one] == least_unit[other])
    told = (grade[one] != grade[other]) & ~same_person
    one, other = one[told], other[told]
    is_better = grade[one] > grade[other]
    return np.where(is_better, one, other), np.where(is_better, other, one)


def _sign_test(correct: int, incorrect: int) -> float | None:
    from scipy.special import bdtr

    total = correct + incorrect
    return min(1.0, 2 * float(bdtr(min(correct, incorrect), total, 0.5))) if total else None
