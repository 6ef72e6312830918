"""H11's comparisons of two rankers: all rankers rank once, then any pair can be compared on any queries.

A row of its Table 3 is a `JudgingRule`: the method that composes the lists, and the one that credits the clicks. Rules
with the same lists have the same clicks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from scipy.stats import binomtest

from interleaf import plots
from interleaf.clicks import TABLES, Cascade, find_cascade, scale_of
from interleaf.errors import DataError
from interleaf.interleaving import batch
from interleaf.kernels.arrays import Array
from interleaf.methods.registry import resolve
from interleaf.methods.schemes import TOLERANCE, scheme_of
from interleaf.simulate.data import Judged
from interleaf.simulate.people import streams, words_of
from interleaf.simulate.rankers import generator_of, rank, scores_of
from interleaf.simulate.run import Stage, ndcg_by_query
from interleaf.studies.study import Cell, Table

BALANCED, DRAFTED, PROBABILISTIC = "balanced(depth=lowest)", "team_draft(fill=fair)", "probabilistic(tau=3)"


@dataclass(frozen=True)
class JudgingRule:
    """How lists are composed and clicks credited; with `cut`, ranks below the shown list are ignored.

    `published` is the paper's accuracy of the method, for all variants.
    """

    label: str
    lists: str
    judge: str
    cut: bool = False
    published: float | None = None


# Rules with the same lists are neighbours. Ranks below the cut only matter for BI (clicked) and DC: team draft needs no
# ranks, and C12's depth is never below the list. PI's observed owners are teams like those of team draft.
RULES = (
    JudgingRule("PI-MA", PROBABILISTIC, PROBABILISTIC, published=91.4),
    JudgingRule("PI", PROBABILISTIC, DRAFTED),
    JudgingRule("TD", DRAFTED, DRAFTED, published=89.8),
    JudgingRule("BI (lowest)", BALANCED, BALANCED, published=88.1),
    JudgingRule("BI (clicked)", BALANCED, "balanced(depth=clicked)", published=88.1),
    JudgingRule("BI (clicked), cut", BALANCED, "balanced(depth=clicked)", cut=True, published=88.1),
    JudgingRule("DC", BALANCED, "document_constraint(constraints=1)", published=85.7),
    JudgingRule("DC, cut", BALANCED, "document_constraint(constraints=1)", cut=True, published=85.7),
)
RULES_BY_LISTS = [tuple(rules) for _, rules in groupby(RULES, key=lambda rule: rule.lists)]
SCHEME = scheme_of("binary")


class FeatureRankings:
    """Every ranker's ranking of every query: `orders[ranker, row]` are documents, the best of each query first.

    `ndcg[query, ranker]` is without cut, as in the paper; `scale` is the number of grades.
    """

    def __init__(self, data: Judged, features: Sequence[int], k: int, key: Any) -> None:
        self.data, self.k, self.features, self.scale = data, k, tuple(features), scale_of(data.max_grade)
        sizes = np.diff(data.offsets)
        self._inside = np.arange(sizes.max()) < sizes[:, None]
        self.orders = np.empty((len(features), len(data.grades)), np.int32)
        self.ndcg = np.empty((len(data), len(features)))
        for ranker, feature in enumerate(features):
            ranking = rank(data, [scores_of(data, int(feature))], (key, int(feature)))
            self.ndcg[:, ranker] = ndcg_by_query(data, ranking, None)[:, 0]
            self.orders[ranker] = ranking[:, 0][self._inside]

    def of_pair(self, pair: tuple[int, int]) -> Array:
        """`[query, ranker, rank]`: the rankings of two rankers, padded with -1."""
        rankings = np.full((len(self.data), 2, self._inside.shape[1]), -1, np.int32)
        for side, ranker in enumerate(pair):
            rankings[:, side][self._inside] = self.orders[ranker]
        return rankings

    def clickable(self, model: Cascade) -> Array:
        """The queries with a document that can be clicked; impressions of the others never count."""
        can = np.array([float(probability) > 0 for probability in model.click])
        return np.flatnonzero(np.add.reduceat(can[self.data.grades], self.data.offsets[:-1]) > 0)


class Meeting:
    """Two rankers on lists of one method, scored by one or more rules; positive outcomes are for the first ranker."""

    def __init__(
        self, rankings: FeatureRankings, pair: tuple[int, int], rules: Sequence[JudgingRule], model: Cascade
    ) -> None:
        self.rules, self._model = rules, model
        self._stage = Stage(rankings.data, rankings.of_pair(pair), resolve(rules[0].lists), rankings.k)
        self._settings = self._stage.settings(np.zeros(1, np.int64))

    def outcomes(self, queries: Array, numbers: Array, key: Any) -> tuple[Array, Array]:
        """`[rule, impression]` for numbered impressions of queries, and which of these have a click."""
        lists = self._stage.compose(queries, streams(words_of((key, "lists")), numbers), self._settings)
        shown, grades = self._stage.look_up(queries, lists)
        clicks = self._model.sample_batch(grades, lists.counts, streams(words_of((key, "clicks")), numbers))
        outcomes = np.empty((len(self.rules), len(queries)))
        for number, rule in enumerate(self.rules):
            judged = shown
            if rule.cut:  # as if no ranker had ranked below the list
                ranks = np.where(shown.ranks > self._stage.k, 0, shown.ranks).astype(np.int16)
                lengths = np.minimum(shown.lengths, self._stage.k).astype(np.int32)
                judged = shown._replace(ranks=ranks, lengths=lengths)
            outcomes[number] = batch.preferences(resolve(rule.judge), SCHEME, judged, lists.counts, clicks, 1)[:, 0, 1]
        return outcomes, np.asarray(clicks.any(axis=1))


def perfect(grades: int) -> Cascade:
    """Clicks rise with the grade and nobody stops; for a number of grades that no table has, they rise linearly."""
    tables = {table.grades for table in TABLES if table.name == "perfect"}
    return find_cascade("perfect" if grades in tables else "perfect_linear", grades=grades)


def realistic(grades: int) -> Cascade:
    """H11's noisy people; for a number of grades that no table has, by the rule of the tables.

    Clicks go from .05 to .8 by equal factors, stops from 0 to .8 by equal steps (unverified).
    """
    if grades in {table.grades for table in TABLES if table.name == "realistic"}:
        return find_cascade("realistic", grades=grades)
    levels = [grade / (grades - 1) for grade in range(grades)]
    return Cascade([round(0.05 * 16**level, 12) for level in levels], [round(0.8 * level, 12) for level in levels])


CLICKS = {"perfect": perfect, "realistic": realistic}
CHUNK = 16_384
RARE = 1_000  # max impressions per click; if more are needed, no comparison can converge
SETTLED = 0.95
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class StudyPair:
    """Two rankers by their numbers, the better one first, and why they were chosen."""

    number: int
    rankers: tuple[int, int]
    why: tuple[str, ...]


@dataclass(frozen=True)
class Converged:
    """`right[rule, point]`: how many repeats prefer the better ranker after each number of clicked queries."""

    pair: StudyPair
    clicks: str
    points: tuple[int, ...]
    repeats: int
    right: Array


def converge(
    rankings: FeatureRankings, pair: StudyPair, clicks: str, repeats: int, samples: int, key: Any
) -> Converged:
    """Follow one pair under all rules."""
    points = tuple(step * 10**power for power in range(9) for step in (1, 2, 5) if step * 10**power <= samples)
    names = tuple(rankings.features[ranker] for ranker in pair.rankers)
    model = CLICKS[clicks](rankings.scale)
    right = []
    for rules in RULES_BY_LISTS:
        meeting = Meeting(rankings, pair.rankers, rules, model)
        stream = Stream(meeting, rankings.clickable(model), (key, clicks, *names, rules[0].lists))
        counts = np.zeros((len(rules), len(points)), np.int64)
        for _ in range(repeats):
            counts += np.cumsum(stream.take(samples), axis=1)[:, np.array(points) - 1] > TOLERANCE
        right.append(counts)
    return Converged(pair, clicks, points, repeats, np.concatenate(right))


class Stream:
    """An endless stream of outcomes of impressions with a click, on random queries.

    Impressions are independent, so each next n of them are a repeat.
    """

    def __init__(self, meeting: Meeting, queries: Array, key: Any) -> None:
        self._meeting, self._queries, self._key, self._chunks = meeting, queries, key, 0
        self._waiting = np.empty((len(meeting.rules), 0))

    def take(self, samples: int) -> Array:
        """The next outcomes, `[rule, sample]`."""
        max_chunks = self._chunks + RARE * (samples // CHUNK + 1)
        while self._waiting.shape[1] < samples:
            if not len(self._queries) or self._chunks > max_chunks:
                raise DataError("hardly a list gets a click, so no comparison can converge; give queries with grades")
            places = generator_of((self._key, "queries", self._chunks)).integers(0, len(self._queries), CHUNK)
            numbers = np.arange(self._chunks * CHUNK, (self._chunks + 1) * CHUNK)
            outcomes, clicked = self._meeting.outcomes(self._queries[places], numbers, self._key)
            self._waiting = np.concatenate([self._waiting, outcomes[:, clicked]], axis=1)
            self._chunks += 1
        first, self._waiting = np.split(self._waiting, [samples], axis=1)
        return first


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % score interval of a share.

    >>> wilson(8, 10)
    (0.4901..., 0.9433...)
    """
    interval = binomtest(successes, trials).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def settled_at(curves: Converged, row: int) -> int | None:
    """The first point from which on the share of right repeats stays at 95 % or above; None if there is none."""
    below = np.flatnonzero(curves.right[row] < SETTLED * curves.repeats)
    after = 0 if not len(below) else int(below[-1]) + 1
    return curves.points[after] if after < len(curves.points) else None


def tables(results: Sequence[Converged]) -> list[Table]:
    """For each kind of people: the clicked queries that each method needs, or its share of right repeats at the end."""
    title = (
        f"Clicked queries until {SETTLED:.0%} of repeats are right, for good ({{}} clicks); where that is never, the "
        "share at the end with Wilson's 95 % interval"
    )
    tables = []
    for clicks in CLICKS:
        some = [curves for curves in results if curves.clicks == clicks]
        rows: list[tuple[Cell, ...]] = [
            (one.pair.number, *[_describe(one, row) for row in range(len(RULES))]) for one in some
        ]
        tables.append(Table(clicks, title.format(clicks), ("pair", *[rule.label for rule in RULES]), tuple(rows)))
    return tables


def _describe(curves: Converged, row: int) -> str:
    point, right = settled_at(curves, row), int(curves.right[row, -1])
    if point is not None:
        return f"{point:,}"
    low, high = wilson(right, curves.repeats)
    return f"never: {right / curves.repeats:.0%} [{low:.0%}, {high:.0%}]"


def pair_table(rankings: FeatureRankings, pairs: Sequence[StudyPair]) -> Table:
    """Table 4, and the distribution of each pair's NDCG differences over queries."""
    rows: list[tuple[Cell, ...]] = []
    for pair in pairs:
        one, other = pair.rankers
        means, by_query = rankings.ndcg.mean(axis=0), rankings.ndcg[:, one] - rankings.ndcg[:, other]
        shares = [f"{(by_query > TOLERANCE).mean():.0%}", f"{(by_query < -TOLERANCE).mean():.0%}"]
        quantiles = [f"{value:+.2f}" for value in np.quantile(by_query, QUANTILES)]
        features = f"{rankings.features[one]} over {rankings.features[other]}"
        ndcg = f"{means[one]:.3f} / {means[other]:.3f}"
        rows.append((pair.number, features, ndcg, f"{means[one] - means[other]:.3f}", *shares, *quantiles,
                     "; ".join(pair.why)))  # fmt: skip
    quantile_columns = [f"{quantile:.0%} quantile" for quantile in QUANTILES]
    columns = ("pair", "features", "NDCG", "gap", "queries better", "worse", *quantile_columns, "chosen as")
    title = "Table 4: the pairs that are followed, and the differences of their NDCG over queries"
    return Table("pairs", title, columns, tuple(rows))


def charts(results: Sequence[Converged]) -> dict[str, Any]:
    """Figures 6 to 11: a chart for each pair, with a panel for each kind of people."""
    x, y = "queries with a click", "share right"
    points: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for curves in results:
        for row, rule in enumerate(RULES):
            for point, right in zip(curves.points, curves.right[row].tolist(), strict=True):
                low, high = wilson(right, curves.repeats)
                line = {x: point, y: right / curves.repeats, "low": low, "high": high}
                points[curves.pair.number].append({**line, "method": rule.label, "clicks": curves.clicks})
    title = "Pair {}: share of repeats that prefer the better ranker, with Wilson's 95 % interval"
    return {
        f"pair-{number}": plots.lines(rows, x, y, "method", title.format(number), facet="clicks", band=("low", "high"))
        for number, rows in points.items()
    }
