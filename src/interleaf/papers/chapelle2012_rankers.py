"""Rankers whose order is known by construction, in the two kinds that C12 had, and what judges say of them.

arXiv's differ much: E_A is the best single feature and B_A the middle one, by NDCG@10; A_A is B_A with its top 11 in
random order; D_A is E_A with two of its top 5 swapped for two of ranks 7 to 11, C_A with four. Those of Yahoo and Bing
differ little, because most queries have the same results: D_Y is E_A, and C_Y, B_Y and A_Y have two documents swapped
in a tenth, two tenths and three tenths of the queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.metrics import judged
from interleaf.papers.chapelle2012_published import ARXIV, YAHOO
from interleaf.simulate.data import Judged, shuffled
from interleaf.simulate.degrade import shuffled_top, swapped
from interleaf.simulate.rankers import Ranker, rank, scores_of
from interleaf.simulate.truth import ndcg

CHANGED = {"D_Y": 0.0, "C_Y": 0.1, "B_Y": 0.2, "A_Y": 0.3}  # shares of the queries
CUT = 10
METRICS = ("NDCG@5", "DCG@5", "MAP")


@dataclass(frozen=True)
class Kind:
    """Pairs of rankers like those of an engine; its figures stand beside ours, and Bing's where it has none."""

    engine: str
    pairs: tuple[tuple[str, str], ...]


KINDS = (Kind("arXiv", ARXIV), Kind("Yahoo", YAHOO))


def rankers_of(data: Judged, seed: int) -> dict[str, Array]:
    """The scores of every ranker, without ties: two rankers differ where they are meant to, and nowhere else."""
    features = data.varying_features().tolist()
    if len(features) < 2:
        raise DataError(f"{data.name} has {len(features)} features that vary; the study needs a good and a weaker one")
    alone = [settled(data, feature, (seed, feature)) for feature in features]
    best = np.argsort(-ndcg(data, rank(data, alone, seed), CUT), kind="stable")
    good, weaker = alone[best[0]], alone[best[len(best) // 2]]
    little = swapped(good, 2, (seed, "near"))(data)
    order = shuffled(len(data), ("changed", seed))
    near = {name: _in_some(data, order[: round(share * len(data))], little, good) for name, share in CHANGED.items()}
    return {
        "E_A": good,
        "B_A": weaker,
        "A_A": shuffled_top(weaker, seed=seed)(data),
        "D_A": swapped(good, 2, seed)(data),
        "C_A": swapped(good, 4, seed)(data),
        **near,
    }


def settled(data: Judged, ranker: Ranker, key: object) -> Array:
    """A ranker's scores with ties broken for good: less the ranks they lead to."""
    ranking, scores = rank(data, [scores_of(data, ranker)], key)[:, 0], np.empty(len(data.grades))
    inside = ranking >= 0
    rows = (data.offsets[:-1, None] + ranking)[inside]
    scores[rows] = -np.broadcast_to(np.arange(ranking.shape[1]), ranking.shape)[inside].astype(np.float64)
    return scores


def _in_some(data: Judged, queries: list[int], there: Array, elsewhere: Array) -> Array:
    """The scores of one ranker in some queries, and of another one in all others."""
    mixed = elsewhere.copy()
    for query in queries:
        mixed[data.rows(query)] = there[data.rows(query)]
    return mixed


def judge(data: Judged, rankers: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
    """NDCG@5, DCG@5 and average precision of every query, by metric and ranker."""
    qrels = {
        query: {str(place): int(grade) for place, grade in enumerate(data.grades[data.rows(number)])}
        for number, query in enumerate(data.queries)
    }
    relevant = max(1, data.most_grade - 1)  # C12's upper two levels, of however many there are
    found: dict[str, dict[str, Array]] = {metric: {} for metric in METRICS}
    for name, scores in rankers.items():
        tops = rank(data, [scores], name)[:, 0, :CUT].tolist()
        rankings = {
            query: [str(place) for place in top if place >= 0] for query, top in zip(data.queries, tops, strict=True)
        }
        values = (
            judged.ndcg(qrels, rankings, 5),
            judged.dcg(qrels, rankings, 5),
            judged.average_precision(qrels, rankings, CUT, relevant),
        )
        for metric, by_query in zip(METRICS, values, strict=True):
            found[metric][name] = np.array(list(by_query.values()))
    return found
