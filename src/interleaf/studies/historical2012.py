"""H12h, figure 2: accuracy of comparisons from old impressions, by number of impressions.

A repeat draws a query, a source pair and a target pair of single-feature rankers. People with perfect clicks see lists
of the source pair. The estimators of `counterfactual` then compare the target pair, and their answer is checked against
its NDCG on that query. The study adds two things to the paper: how far each estimate is from live impressions of the
target pair, with its effective sample size; and the doubly robust estimator, also in other worlds
(`historical2012_robust`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from interleaf import plots
from interleaf.clicks import Cascade, find_cascade
from interleaf.counterfactual.estimators import WeightedSums, WeightStatistics
from interleaf.counterfactual.list_outcomes import CLIP, draft_outcomes, log_chances, scorer_of
from interleaf.errors import DataError
from interleaf.kernels.arrays import Array, Impression
from interleaf.methods.registry import resolve
from interleaf.simulate.data import Judged
from interleaf.simulate.people import streams, words_of
from interleaf.simulate.rankers import generator_of, rank, scores_of
from interleaf.simulate.run import Stage, ndcg_by_query
from interleaf.studies import historical2012_robust as beyond
from interleaf.studies.datasets import find
from interleaf.studies.historical2012_robust import FIRST, MODEL, ROBUST, WORLDS
from interleaf.studies.study import Answer, Cell, Finding, PrintedTables, Study, StudyRun, Table, falling, near

NAME, TITLE = "historical2012", "Hofmann, Whiteson and de Rijke (2012): old clicks for new rankers"
PROBABILISTIC, TEAM_DRAFT = resolve("probabilistic(tau=3)"), resolve("team_draft(fill=fair)")
K, CHUNK = 10, 8192
WEIGHTED = ("TD", "PI+IS", "PI+IS clipped", "PI+MA", "PI+IS+MA", "PI+IS+MA clipped")
ESTIMATORS = (*WEIGHTED, MODEL, ROBUST)
LIVE = "live impressions"
PUBLISHED = {"TD": "7.4", "PI+IS": "between TD and PI+MA, erratic", "PI+MA": "65.4", "PI+IS+MA": "70.4, still rising"}
DRAWN = ("PI+MA", "PI+IS+MA", "PI+IS+MA, self-normalised", "PI+IS+MA clipped, self-normalised", ROBUST, "always 0")
SIZES = (0, 2, 10, 100)  # the smallest effective sample size of each row of the last table

ROUNDING = 1e-12  # outcomes and sums below it are rounding errors of 0
SCORER = scorer_of(str(PROBABILISTIC), "binary", 2)

# An estimator, its weights and outcomes `[row, pair]`, and its largest weight.
Weighing = tuple[str, Array, Array, float]
Weigh = Callable[[Impression, Impression, Array, Array], Iterator[Weighing]]
_ACCURACY = ("Accuracy after the last impression", "truth untied", "estimator")
_LEVELS, _NO_RISE = {"PI+IS+MA": 70.4, "PI+MA": 65.4, "TD": 7.4}, "less than two standard errors counts as no rise"


@dataclass(frozen=True)
class HistoricalScale:
    """Number of repeats, of old impressions in each, and of live impressions that estimates are compared with."""

    repeats: int
    impressions: int
    live: int = 10_000
    beyond: int = 100  # repeats in each of the other worlds

    @property
    def points(self) -> tuple[int, ...]:
        """The numbers of impressions at which estimates are computed: 10, 20, 50, 100, ..."""
        steps = [step * 10**power for power in range(1, 12) for step in (1, 2, 5)]
        return (*[point for point in steps if point < self.impressions], self.impressions)


SCALES = {"quick": HistoricalScale(600, 10_000), "paper": HistoricalScale(500, 500_000, beyond=0)}


def rises(tables: PrintedTables, estimator: str, expected: bool) -> Answer:
    """Whether an estimator's accuracy rose significantly after the first thousand impressions, or did not."""
    row, title = f"{estimator}, after the last over after 1,000", "Differences of accuracy"
    points, error = (tables.number(title, column, of=row) for column in ("points", "standard error"))
    return f"{points:+.1f} points, standard error {error:.1f}", (points > 2 * error) == expected


FINDINGS = (
    Finding(
        "PI+IS+MA is right more often than PI+MA, that than PI+IS, that than TD", "70.4, 65.4, between, 7.4 %",
        falling, (*_ACCURACY, ("PI+IS+MA", "PI+MA", "PI+IS", "TD")),
    ),
    Finding(
        "the levels of PI+IS+MA, PI+MA and TD", "70.4, 65.4, 7.4 %", near, (*_ACCURACY, _LEVELS, 2.0),
        "other sets and fewer impressions; the paper has 500,000",
    ),
    Finding("PI+MA is flat after 1,000 impressions", "yes", rises, ("PI+MA", False)),
    Finding("PI+IS+MA still rises then", "yes", rises, ("PI+IS+MA", True), _NO_RISE),
)  # fmt: skip


class WeightedEstimate(NamedTuple):
    """The first target ranker over the second: the mean of w o, self-normalised, and its sign (0: undecided).

    An estimate is 0 without usable impressions. `weights` is None for a click model.
    """

    value: float
    normalized: float
    decision: int
    weights: WeightStatistics | None = None


@dataclass(frozen=True)
class Repeat:
    """The sign of the target's NDCG difference, and each estimator at each point (live ones at their end)."""

    truth: int
    estimates: Mapping[str, Sequence[WeightedEstimate]]


def study(task: StudyRun) -> Study:
    """Run the protocol on a set, or on synthetic queries."""
    size, folds = SCALES[task.scale], find(task.folder, task.seed)
    worlds = {FIRST: size.repeats} | dict.fromkeys(WORLDS if size.beyond else (), size.beyond)
    task.total = sum(worlds.values())
    repeats, untied = {}, {}
    for world, count in worlds.items():
        repeats[world] = _run_world(task, folds.whole, size, *world, count)
        untied[world] = [repeat for repeat in repeats[world] if repeat.truth]
        if not untied[FIRST]:
            problem = "all target pairs have the same NDCG; give queries with relevant documents"
            raise DataError(f"{folds.described}: {problem}")
    right = {world: {name: _right(some, name) for name in ESTIMATORS} for world, some in untied.items()}
    errors = {world: _differences_from_live(some) for world, some in repeats.items()}
    accuracy = {name: values.mean(axis=0) for name, values in right[FIRST].items()}
    distance = {name: np.median(np.abs(v), axis=0) for name, v in _differences_from_live(untied[FIRST]).items()}
    paper = _accuracies(repeats[FIRST], untied[FIRST]), _curve(accuracy, size), _differences(untied[FIRST], size)
    weights = _errors(untied[FIRST], distance, size), _by_size(untied[FIRST])
    tables = (*paper, *weights, *beyond.tables(right, errors, size.points))
    charts = {
        "accuracy": _chart(accuracy, size, "accuracy", "Accuracy against NDCG, undecided is wrong"),
        "error": _chart({name: distance[name] for name in DRAWN}, size, "distance", "Distance from the live estimate"),
    }
    return Study(NAME, TITLE, folds.described, task.scale, tables, charts, _notes(repeats[FIRST], untied[FIRST], size))


def _run_world(
    task: StudyRun, data: Judged, size: HistoricalScale, clicks: str, distance: str, repeats: int
) -> list[Repeat]:
    """All repeats; each has its own key, so results do not depend on threads."""
    features, people = data.varying_features(), find_cascade(clicks, grades=max(2, data.max_grade + 1))
    if len(features) < 3:
        raise DataError(f"{data.name} has {len(features)} features that vary; a pair of rankers and a new one need 3")
    cells = [(clicks, distance, number) for number in range(repeats)]
    return task.compute(
        cells, lambda *cell: run_once(data, features, people, size, (task.seed, cell[2]), distance), parallel=True
    )


def run_once(
    data: Judged, features: Array, people: Cascade, size: HistoricalScale, key: tuple[int, int], distance: str = "far"
) -> Repeat:
    """Draw a query and two pairs, and estimate the second from impressions of the first."""
    chance = generator_of((NAME, *key, "world"))
    query = data.select([int(chance.integers(len(data)))])
    first_pair = chance.choice(features, 2, replace=False).tolist()
    pairs = [first_pair, beyond.targets(chance, features, first_pair, distance)]
    ranked = sorted({feature for pair in pairs for feature in pair})
    rankings = rank(query, [scores_of(query, feature) for feature in ranked], (NAME, *key))
    source, target = (np.ascontiguousarray(rankings[:, [ranked.index(f) for f in pair]]) for pair in pairs)
    first, second = ndcg_by_query(query, target, None)[0]
    live, points = Stage(query, target, PROBABILISTIC, K), size.points
    old, drafts = Stage(query, source, PROBABILISTIC, K), Stage(query, source, TEAM_DRAFT, K)
    words = [words_of((NAME, *key, "old", part)) for part in ("lists", "clicks")]
    by_model = beyond.robust_track(old, live, people, points, *words)
    return Repeat(
        int(np.sign(np.round(first - second, 12))),
        _track(old, live, people, points, (*key, "old"), reweight)
        | {name: [estimate_by_model(value) for value in values] for name, values in by_model.items()}
        | _track(drafts, live, people, points, (*key, "drafts"), weigh_drafts)
        | _track(live, live, people, (size.live,), (*key, "live"), shown_live),
    )


def reweight(
    source: Impression, target: Impression, counts: Array, clicks: Array, clip: float = CLIP
) -> Iterator[Weighing]:
    """PI+MA, PI+IS and PI+IS+MA, and the clipped forms of the weighted ones."""
    of_source, of_target = (log_chances(PROBABILISTIC, lists, counts) for lists in (source, target))
    of_list, of_owned = (np.exp(new - old) for old, new in zip(of_source, of_target, strict=True))
    marginal, observed = SCORER(target, counts, clicks), SCORER.score_by_owners(source, clicks)
    yield "PI+MA", np.ones(len(counts)), marginal, np.inf
    for limit, suffix in ((np.inf, ""), (clip, " clipped")):
        yield f"PI+IS{suffix}", of_owned, observed, limit
        yield f"PI+IS+MA{suffix}", of_list, marginal, limit


def weigh_drafts(_: Impression, target: Impression, counts: Array, clicks: Array) -> Iterator[Weighing]:
    """TD: the lists that the target rankers could have drafted; all others contribute nothing."""
    outcomes, usable = draft_outcomes(target, counts, clicks)
    yield "TD", usable.astype(np.float64), outcomes, np.inf


def shown_live(_: Impression, target: Impression, counts: Array, clicks: Array) -> Iterator[Weighing]:
    """Lists that were drawn for the target rankers themselves."""
    yield LIVE, np.ones(len(counts)), SCORER(target, counts, clicks), np.inf


def add_weighing(sums: WeightedSums, weights: Array, outcomes: Array, clip: float) -> None:
    """Add w o and w |o| of these lists."""
    outcomes = np.where(np.abs(outcomes) <= ROUNDING, 0.0, outcomes)
    columns = np.concatenate([outcomes, np.abs(outcomes)], axis=1)
    sums.add(np.zeros(len(weights), np.int64), weights, columns, clip)


def estimate_of(sums: WeightedSums) -> WeightedEstimate:
    """The estimate from the sums of `add_weighing`; self-normalising changes no sign."""
    (outcome, size), weight = sums.outcomes[0].tolist(), float(sums.weights[0])
    count = sums.impressions[0]
    return WeightedEstimate(
        outcome / count if count else 0.0,
        outcome / weight if weight > 0 else 0.0,
        int(np.sign(outcome)) if abs(outcome) > ROUNDING * size else 0,
        sums.statistics,
    )


def estimate_by_model(value: float) -> WeightedEstimate:
    """The estimate of a click model."""
    value = 0.0 if abs(value) <= ROUNDING else value
    return WeightedEstimate(value, value, int(np.sign(value)))


def _track(
    shows: Stage, target: Stage, people: Cascade, points: Sequence[int], key: tuple[Any, ...], weigh: Weigh
) -> dict[str, list[WeightedEstimate]]:
    """The estimates at each point, from lists of one pair, clicks on them, and the ranks by both pairs."""
    start, settings = 0, shows.settings(np.zeros(1, np.int64))
    lists_of, clicks_of = words_of((NAME, *key, "lists")), words_of((NAME, *key, "clicks"))
    sums: dict[str, WeightedSums] = defaultdict(lambda: WeightedSums(2, buckets=1))
    estimates: dict[str, list[WeightedEstimate]] = defaultdict(list)
    for point in points:
        while start < point:
            numbers = np.arange(start, min(start + CHUNK, point))
            queries = np.zeros(len(numbers), np.int64)
            lists = shows.compose(queries, streams(lists_of, numbers), settings)
            impressions, grades = shows.look_up(queries, lists)
            clicks = people.sample_batch(grades, lists.counts, streams(clicks_of, numbers))
            by_target = target.look_up(queries, lists)[0]
            for name, weights, outcomes, clip in weigh(impressions, by_target, lists.counts, clicks):
                add_weighing(sums[name], weights, outcomes, clip)
            start += len(numbers)
        for name, one in sums.items():
            estimates[name].append(estimate_of(one))
    return dict(estimates)


def _decisions(repeats: Sequence[Repeat], name: str) -> Array:
    """`[repeat, point]`: 1, -1, or 0 for an undecided comparison."""
    return np.array([[one.decision for one in repeat.estimates[name]] for repeat in repeats])


def _right(repeats: Sequence[Repeat], name: str) -> Array:
    """`[repeat, point]`: whether the comparison has the sign of the truth."""
    return np.asarray(_decisions(repeats, name) == np.array([[repeat.truth] for repeat in repeats]))


def _percent(values: Array) -> Cell:
    return f"{100 * values.mean():.1f}" if len(values) else None


def _accuracies(repeats: Sequence[Repeat], untied: Sequence[Repeat]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in (*ESTIMATORS, LIVE):
        right, decided = _right(untied, name)[:, -1], _decisions(untied, name)[:, -1] != 0
        ours = _percent(_right(repeats, name)[:, -1]), _percent(right), _percent(~decided), _percent(right[decided])
        rows.append((name, PUBLISHED.get(name), *ours))
    columns = ("estimator", "published", "equal signs", "truth untied", "of these undecided", "right if decided")
    return Table("accuracy", "Accuracy after the last impression, in per cent", columns, tuple(rows))


def _curve(accuracy: Mapping[str, Array], size: HistoricalScale) -> Table:
    rows = tuple((name, *[f"{100 * value:.1f}" for value in values]) for name, values in accuracy.items())
    columns = ("estimator", *[f"{point:,}" for point in size.points])
    return Table("curve", "Accuracy by old impressions, truth untied, undecided counted as wrong", columns, rows)


def _differences(untied: Sequence[Repeat], size: HistoricalScale) -> Table:
    """Paired over repeats, because all estimators have the same ones."""
    joint, marginal, both = (_right(untied, name).astype(float) for name in ("PI+IS", "PI+MA", "PI+IS+MA"))
    early = size.points.index(1000)
    gains = {
        "PI+IS+MA over PI+MA": both[:, -1] - marginal[:, -1],
        "PI+IS+MA over PI+IS": both[:, -1] - joint[:, -1],
        "PI+MA, after the last over after 1,000": marginal[:, -1] - marginal[:, early],
        "PI+IS+MA, after the last over after 1,000": both[:, -1] - both[:, early],
    }
    error = 100 / np.sqrt(len(untied))
    rows = [(name, f"{100 * gain.mean():+.1f}", f"{error * gain.std():.1f}") for name, gain in gains.items()]
    columns = ("of", "points", "standard error")
    return Table("differences", "Differences of accuracy, truth untied", columns, tuple(rows))


def _differences_from_live(repeats: Sequence[Repeat]) -> dict[str, Array]:
    """Estimate minus the live one, `[repeat, point]`; weighted estimates also self-normalised."""
    live = np.array([[repeat.estimates[LIVE][-1].value] for repeat in repeats])
    values: dict[str, Any] = {}
    for name in ESTIMATORS:
        values[name] = [[one.value for one in repeat.estimates[name]] for repeat in repeats]
        if "IS" in name:
            normalized = [[one.normalized for one in repeat.estimates[name]] for repeat in repeats]
            values[f"{name}, self-normalised"] = normalized
    values["always 0"] = np.zeros_like(values["TD"])
    return {name: np.array(by_repeat) - live for name, by_repeat in values.items()}


def _errors(untied: Sequence[Repeat], distance: Mapping[str, Array], size: HistoricalScale) -> Table:
    at = [size.points.index(point) for point in (10, 100, 1000)] + [len(size.points) - 1]
    rows: list[tuple[Cell, ...]] = []
    for name, values in distance.items():
        last = [one.weights for repeat in untied for one in repeat.estimates.get(name, ())[-1:] if one.weights]
        cells: list[Cell] = [None] * 4
        if last:
            effective, mean = (np.median([getattr(one, name) for one in last]) for name in ("effective", "mean"))
            cells = [f"{effective:,.1f}", f"{mean:.2g}", f"{max(one.largest for one in last):.2g}"]
            cells.append(_percent(np.array([one.clipped for one in last])))
        rows.append((name, *[f"{values[point]:.3f}" for point in at], *cells))
    columns = "effective sample size", "mean weight", "largest weight", "clipped mass, %"
    title = "Median distance from the live estimate by old impressions; weights after the last one"
    return Table("error", title, ("estimator", *[f"{size.points[p]:,}" for p in at], *columns), tuple(rows))


def _by_size(untied: Sequence[Repeat]) -> Table:
    """When to trust a weighted estimate: accuracy by the effective sample size of PI+IS+MA."""
    weights = [repeat.estimates["PI+IS+MA"][-1].weights for repeat in untied]
    sizes = np.array([one.effective for one in weights if one is not None])
    rows: list[tuple[Cell, ...]] = []
    for low, high in zip(SIZES, (*SIZES[1:], np.inf), strict=True):
        inside = (sizes >= low) & (sizes < high)
        rights = [_percent(_right(untied, name)[inside, -1]) for name in ("PI+MA", "PI+IS+MA", LIVE)]
        rows.append((f"{low} to {high}" if high < np.inf else f"{low} and more", int(inside.sum()), *rights))
    columns = ("effective sample size", "repeats", "PI+MA", "PI+IS+MA", LIVE)
    return Table("size", "Accuracy by the effective sample size of PI+IS+MA, truth untied", columns, tuple(rows))


def _chart(values: Mapping[str, Array], size: HistoricalScale, what: str, title: str) -> dict[str, Any]:
    rows = [
        {"old impressions": point, what: value, "estimator": name}
        for name, by_point in values.items()
        for point, value in zip(size.points, by_point.tolist(), strict=True)
    ]
    return plots.lines(rows, "old impressions", what, "estimator", title)


def _notes(repeats: Sequence[Repeat], untied: Sequence[Repeat], size: HistoricalScale) -> list[str]:
    return [
        f"{size.repeats} repeats of {size.impressions:,} old and {size.live:,} live impressions, k = {K}; clicks: "
        "perfect, linear in the grade; rankers are single features; ties: an order of its own for each ranker; truth: "
        f"NDCG without cut on the query, tied in {len(repeats) - len(untied)} repeats.",
        "Undecided comparisons count as wrong, as in the paper; under `equal signs`, which is over all repeats, an "
        "undecided comparison is right where the truth is tied.",
        f"Clipped: weights above {CLIP:g} count as {CLIP:g}. Self-normalising changes no decision, only the estimate. "
        "Effective sample size and mean weight: medians over repeats; clipped mass: mean; largest weight: of all.",
    ]
