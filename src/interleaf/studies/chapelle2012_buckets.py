"""C12's published numbers, and simulated experiments: pairs of rankers of known order, and A/B arms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.decode import Counting, Decoded, Decoding
from interleaf.errors import DataError
from interleaf.interleaving import batch
from interleaf.kernels.arrays import Array, Impression
from interleaf.log.schema import INTERLEAVED
from interleaf.methods.registry import resolve
from interleaf.methods.schemes import scheme_of
from interleaf.metrics import judged
from interleaf.metrics.absolute import QueryPages
from interleaf.simulate.data import Judged, shuffle
from interleaf.simulate.people import People
from interleaf.simulate.rankers import Ranker, rank, scores_of, shuffle_top, swap_top
from interleaf.simulate.run import ndcg
from interleaf.simulate.world import World

ARXIV = (("E_A", "B_A"), ("B_A", "A_A"), ("E_A", "A_A"), ("E_A", "D_A"), ("D_A", "C_A"), ("E_A", "C_A"))
YAHOO = (("B_Y", "A_Y"), ("C_Y", "A_Y"), ("D_Y", "A_Y"), ("C_Y", "B_Y"), ("D_Y", "B_Y"), ("D_Y", "C_Y"))

Row = tuple[float, ...]


class PublishedMetric(NamedTuple):
    """Differences of the six pairs in per cent (Tables VI and VIII; for interleaving Delta_AB, Tables II and VIII).

    `verdicts` count pairs weakly right and wrong, significantly right and wrong (Tables VII and IX); `correlation` is
    that with DCG@5 (Table VIII).
    """

    differences: Row
    verdicts: tuple[int, int, int, int]
    correlation: float | None = None


YAHOO_DCG: Row = (0.27, 0.50, 0.65, 0.23, 0.38, 0.16)
METRICS_OF: dict[str, dict[str, PublishedMetric]] = {
    "arXiv": {
        "abandonment": PublishedMetric((6.22, 0.14, 6.35, -3.56, 2.61, -0.86), (4, 2, 2, 0)),
        "reformulation": PublishedMetric((3.86, 1.30, 5.12, 0.82, -0.84, -0.01), (4, 2, 0, 0)),
        "session_queries": PublishedMetric((1.90, 1.86, 3.73, -0.70, -3.90, -4.62), (3, 3, 0, 0)),
        "clicks": PublishedMetric((28.26, 4.16, 33.59, -5.17, 3.49, -1.86), (4, 2, 2, 0)),
        "clicks_at_1": PublishedMetric((36.01, -2.93, 32.02, -11.77, 35.65, 19.68), (4, 2, 4, 0)),
        "skipped": PublishedMetric((2.28, 3.00, 5.22, -2.38, 12.51, 10.43), (5, 1, 2, 0)),
        "max_reciprocal_rank": PublishedMetric((6.48, 0.48, 6.99, -3.80, 14.69, 10.33), (5, 1, 3, 0)),
        "mean_reciprocal_rank": PublishedMetric((3.67, 0.51, 4.20, -4.86, 18.45, 12.69), (5, 1, 2, 0)),
        "first_click": PublishedMetric((-3.33, 6.25, 3.12, 0.00, 12.50, 12.50), (4, 1, 0, 0)),
        "last_click": PublishedMetric((4.59, -5.22, -0.87, 24.04, -18.11, 1.57), (3, 3, 1, 0)),
        "balanced": PublishedMetric((4.32, 2.54, 5.38, 1.74, 3.06, 3.83), (6, 0, 6, 0)),
        "team_draft": PublishedMetric((5.23, 3.52, 12.92, 2.05, 1.96, 4.92), (6, 0, 4, 0)),
    },
    "Yahoo": {
        "abandonment": PublishedMetric((-0.214, 0.084, 0.228, 0.298, 0.441, 0.144), (5, 1, 5, 1), 0.16),
        "clicks": PublishedMetric((-0.365, -0.033, -0.097, 0.334, 0.269, -0.064), (2, 4, 2, 3), -0.11),
        "clicks_at_1": PublishedMetric((0.049, 0.245, 0.844, 0.196, 0.795, 0.597), (6, 0, 5, 0), 0.43),
        "skipped": PublishedMetric((-0.039, 0.140, 0.465, 0.180, 0.504, 0.326), (5, 1, 5, 0), 0.38),
        "max_reciprocal_rank": PublishedMetric((-0.069, 0.155, 0.527, 0.224, 0.596, 0.371), (5, 1, 5, 0), 0.35),
        "mean_reciprocal_rank": PublishedMetric((-0.014, 0.178, 0.599, 0.192, 0.613, 0.420), (5, 1, 5, 0), 0.40),
        "first_click": PublishedMetric((0.646, 0.245, 0.381, -0.403, -0.266, 0.137), (4, 2, 3, 1), 0.28),
        "last_click": PublishedMetric((-0.725, -0.282, -0.233, 0.446, 0.496, 0.050), (3, 3, 2, 3), -0.23),
        "balanced": PublishedMetric((0.160, 0.543, 0.559, 0.504, 0.537, 0.035), (6, 0, 6, 0), 0.69),
    },
}
# Table III: correlation with a judged metric, and mean and deviation of the bootstrapped one.
CORRELATIONS = {
    ("Bing", "team_draft", "NDCG@5"): (0.882, 0.864, 0.048),
    ("Bing", "team_draft", "MAP"): (0.689, 0.669, 0.104),
    ("Yahoo", "balanced", "DCG@5"): (0.696, 0.417, 0.419),
}
# Table X: how many queries with Clicks@1 are worth one query with balanced interleaving, on Yahoo.
DATA_RATIOS: Row = (379.1, 193.1, 17.8, 270.7, 18.9, 0.69)
CLICKS_A_JUDGEMENT = 10  # clicked queries that are worth one judged query, with NDCG@5 on Bing
# Tables XI and XII: z-scores over those of the binary scheme, and their median. Bing has five other pairs.
SCHEMES: dict[tuple[str, str], dict[str, tuple[Row, float]]] = {
    ("arXiv", "balanced"): {
        "binary": ((1.00, 1.00, 1.00, 1.00, 1.00, 1.00), 1.00),
        "click": ((1.14, 0.99, 1.25, 1.11, 1.00, 1.04), 1.08),
        "normalized": ((1.06, 0.89, 1.18, 1.23, 1.14, 0.83), 1.10),
        "binary_direct": ((0.64, 0.87, 1.10, 0.95, 1.19, 1.09), 1.02),
        "click_direct": ((0.41, 0.85, 0.69, 1.01, 1.40, 1.14), 0.93),
        "normalized_direct": ((0.83, 0.86, 1.18, 1.20, 1.23, 0.96), 1.07),
    },
    ("Yahoo", "balanced"): {
        "binary": ((1.00, 1.00, 1.00, 1.00, 1.00, 1.00), 1.00),
        "click": ((0.89, 1.00, 0.98, 1.01, 1.00, 1.15), 1.00),
        "normalized": ((1.14, 1.05, 1.05, 0.96, 0.99, 0.97), 1.02),
        "binary_direct": ((0.76, 1.03, 0.99, 1.10, 1.06, 0.85), 1.01),
        "click_direct": ((0.38, 0.98, 0.95, 1.18, 1.09, 1.13), 1.035),
        "normalized_direct": ((0.95, 1.05, 1.06, 1.05, 1.05, 0.98), 1.05),
    },
    ("arXiv", "team_draft"): {
        "binary": ((1.00, 1.00, 1.00, 1.00, 1.00, 1.00), 1.00),
        "click": ((1.25, 0.78, 0.84, 0.71, 0.36, 0.91), 0.81),
        "normalized": ((0.98, 0.90, 1.04, 1.23, 0.75, 0.95), 0.97),
        "binary_deduped": ((1.24, 1.04, 0.97, 1.40, 1.42, 1.18), 1.21),
        "click_deduped": ((1.38, 0.81, 0.83, 1.00, 0.58, 1.02), 0.91),
        "normalized_deduped": ((1.34, 0.99, 1.03, 1.44, 1.22, 1.19), 1.21),
    },
    ("Bing", "team_draft"): {
        "binary": ((1.00, 1.00, 1.00, 1.00, 1.00), 1.00),
        "click": ((1.04, 1.05, 1.07, 1.05, 1.00), 1.05),
        "normalized": ((1.00, 0.97, 0.98, 0.97, 1.01), 0.98),
        "binary_deduped": ((1.35, 1.60, 1.55, 1.52, 2.86), 1.55),
        "click_deduped": ((1.18, 1.55, 1.54, 1.33, 3.12), 1.54),
        "normalized_deduped": ((1.48, 1.58, 1.57, 1.50, 2.87), 1.57),
    },
}
# Table XIII: Normalized Click-Direct over sessions, by the largest number of seconds between queries, on Yahoo.
TIMEOUTS: dict[int, tuple[Row, float]] = {
    0: ((0.95, 1.05, 1.06, 1.05, 1.05, 0.98), 1.05),
    10: ((0.94, 1.05, 1.06, 1.05, 1.06, 0.99), 1.05),
    20: ((0.95, 1.06, 1.08, 1.06, 1.06, 1.02), 1.06),
    50: ((1.02, 1.08, 1.08, 1.05, 1.05, 1.06), 1.055),
    100: ((1.10, 1.09, 1.09, 1.00, 1.02, 1.03), 1.06),
    200: ((1.17, 1.09, 1.10, 0.96, 0.99, 1.00), 1.045),
    500: ((1.32, 1.07, 1.06, 0.88, 0.90, 0.81), 0.98),
}


CHANGED = {"D_Y": 0.0, "C_Y": 0.1, "B_Y": 0.2, "A_Y": 0.3}  # shares of the queries
CUT = 10
METRICS = ("NDCG@5", "DCG@5", "MAP")
# Pairs of rankers like those of an engine, whose published numbers are printed next to ours.
ENGINES = {"arXiv": ARXIV, "Yahoo": YAHOO}


def rankers_of(data: Judged, seed: int) -> dict[str, Array]:
    """The scores of every ranker, without ties, so that two rankers differ only where they should."""
    features = data.varying_features().tolist()
    if len(features) < 2:
        raise DataError(f"{data.name} has {len(features)} features that vary; the study needs a good and a weaker one")
    alone = [break_ties(data, feature, (seed, feature)) for feature in features]
    best = np.argsort(-ndcg(data, rank(data, alone, seed), CUT), kind="stable")
    good, weaker = alone[best[0]], alone[best[len(best) // 2]]
    little = swap_top(good, 2, (seed, "near"))(data)
    order = shuffle(len(data), ("changed", seed))
    near = {name: good.copy() for name in CHANGED}
    for name, share in CHANGED.items():
        for rows in map(data.rows, order[: round(share * len(data))]):
            near[name][rows] = little[rows]
    return {
        "E_A": good,
        "B_A": weaker,
        "A_A": shuffle_top(weaker, seed=seed)(data),
        "D_A": swap_top(good, 2, seed)(data),
        "C_A": swap_top(good, 4, seed)(data),
        **near,
    }


def break_ties(data: Judged, ranker: Ranker, key: object) -> Array:
    """Scores that give the same ranking without ties: minus the rank of each document."""
    ranking, scores = rank(data, [scores_of(data, ranker)], key)[:, 0], np.empty(len(data.grades))
    inside = ranking >= 0
    rows = (data.offsets[:-1, None] + ranking)[inside]
    scores[rows] = -np.broadcast_to(np.arange(ranking.shape[1]), ranking.shape)[inside].astype(np.float64)
    return scores


def judge(data: Judged, rankers: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
    """NDCG@5, DCG@5 and average precision of every query, by metric and ranker."""
    qrels = {
        query: {str(place): int(grade) for place, grade in enumerate(data.grades[data.rows(number)])}
        for number, query in enumerate(data.queries)
    }
    relevant = max(1, data.max_grade - 1)  # C12's upper two levels, of any number of levels
    values: dict[str, dict[str, Array]] = {metric: {} for metric in METRICS}
    for name, scores in rankers.items():
        tops = rank(data, [scores], name)[:, 0, :CUT].tolist()
        names = [[str(place) for place in top if place >= 0] for top in tops]
        rankings = dict(zip(data.queries, names, strict=True))
        ndcg, dcg = judged.ndcg(qrels, rankings, 5), judged.dcg(qrels, rankings, 5)
        precision = judged.average_precision(qrels, rankings, CUT, relevant)
        for metric, by_query in zip(METRICS, (ndcg, dcg, precision), strict=True):
            values[metric][name] = np.array(list(by_query.values()))
    return values


METHODS = ("balanced", "team_draft")
K = 10


@dataclass(frozen=True, eq=False)
class Impressions:
    """Logged impressions of two rankers, whose lists a method composed; scores are positive for the first ranker.

    By row: the arms, the users and their clicks, and the shown lists as credit needs them.
    """

    method: str
    arms: Array
    pages: QueryPages
    shown: Impression
    counts: Array

    def of(self, arm: str) -> Impressions:
        """The impressions of one arm."""
        some = np.flatnonzero(self.arms == arm)
        pages = QueryPages(*(getattr(self.pages, column.name)[some] for column in fields(QueryPages)))
        shown = Impression(*(values[some] for values in self.shown))
        return Impressions(self.method, self.arms[some], pages, shown, self.counts[some])

    @cached_property
    def binary(self) -> Array:
        """The binary score of every impression, 0 without a click."""
        return self._preferences("binary")

    def scores(self, scheme: str) -> Array:
        """The scores of impressions with a click; the others have no preference."""
        return self._preferences(scheme)[self.pages.any_click]

    def credit(self, scheme: str) -> Array:
        """`[impression, 3]`: the clicks of the better ranker, of the worse one, and of both together."""
        return np.column_stack(batch.credit_known(*self._clicks(scheme)))

    def _preferences(self, scheme: str) -> Array:
        return np.asarray(batch.preferences(*self._clicks(scheme))[:, 0, 1])

    def _clicks(self, scheme: str) -> Any:
        """The arguments of batch functions."""
        return resolve(self.method), scheme_of(scheme), self.shown, self.counts, self.pages.clicked, 1


@dataclass(frozen=True, eq=False)
class PairTraffic:
    """The traffic of a pair of rankers, the better one first: interleaved lists, and each ranker's own lists."""

    pair: tuple[str, str]
    interleaved: Mapping[str, Impressions]
    better: QueryPages
    worse: QueryPages

    def __str__(self) -> str:
        return " > ".join(self.pair)


def traffic_of(
    data: Judged, rankers: Mapping[str, Array], pair: tuple[str, str], people: People, seed: int
) -> PairTraffic:
    """A third of the people sees each ranker's own lists, a third interleaved ones; each method has the same people."""
    both, third = {name: rankers[name] for name in pair}, dict.fromkeys(pair, 1 / 3)
    impressions = {}
    for method in METHODS:
        world = World(data, both, people, method, K, seed, arms=third, experiment=" > ".join(pair))
        impressions[method] = impressions_of(world.batches(threads=1), method, K)
    interleaved = {method: every.of(INTERLEAVED) for method, every in impressions.items()}
    better, worse = (impressions[METHODS[0]].of(ranker).pages for ranker in pair)
    return PairTraffic(pair, interleaved, better, worse)


def impressions_of(batches: Iterable[pa.RecordBatch], method: str, k: int) -> Impressions:
    """Record batches of the native log, whose impressions show up to k documents, as arrays in the log's order."""
    parts, places, before = [], [], 0
    for rows in batches:
        some = list(Decoding(rows, Counting()))
        parts += some
        places += [before + part.rows for part in some]
        before += rows.num_rows
    order = np.argsort(np.concatenate(places))

    def column(of: Callable[[Decoded], Array], missing: int | None = None) -> Array:
        """The values of all parts; with `missing`, the last axis is filled up to k positions."""
        values = [of(part) for part in parts]
        if missing is not None:
            rooms = [[(0, 0)] * (array.ndim - 1) + [(0, k - array.shape[-1])] for array in values]
            values = [np.pad(*padded, constant_values=missing) for padded in zip(values, rooms, strict=True)]
        return np.concatenate(values)[order]

    shown = Impression.of(
        column(lambda part: part.impressions.ranks, 0),
        column(lambda part: part.impressions.teams, -1),
        column(lambda part: part.impressions.lengths),
        column(lambda part: part.impressions.union),
        column(lambda part: part.impressions.choices, 0),
    )
    first, last = column(lambda part: part.clicks.first), column(lambda part: part.clicks.last)
    pages = QueryPages(
        column(lambda part: part.is_clicked, 0),
        np.where(first < 0, np.nan, first),
        np.where(last < 0, np.nan, last),
        column(lambda part: part.unit),
        column(lambda part: part.time) / 1e6,
    )
    arms = column(lambda part: np.repeat(part.design.arm, len(part.rows)))
    return Impressions(method, arms, pages, shown, column(lambda part: part.counts))
