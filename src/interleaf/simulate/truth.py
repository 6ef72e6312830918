"""The truth that a simulated comparison is held against: NDCG of each ranker, on the same or on other queries."""

from __future__ import annotations

import numpy as np

from interleaf.compiled import kernel
from interleaf.methods.arrays import Array
from interleaf.simulate.data import Judged


def ndcg(data: Judged, rankings: Array, cut: int | None = 10) -> Array:
    """Mean NDCG of each ranker: gain 2^grade - 1, discount log2(rank + 1), cut at a rank or not at all.

    Queries without a relevant document count as 0, as in the code released with O17.
    """
    by_query = ndcg_by_query(data, rankings, cut)
    mean: Array = by_query.mean(axis=0)
    return mean


def ndcg_by_query(data: Judged, rankings: Array, cut: int | None = 10) -> Array:
    """The same for each query, `[query, ranker]`."""
    values = np.zeros(rankings.shape[:2])
    counts = np.zeros(data.grades.max() + 1, np.int64)
    _by_query(rankings, data.grades.astype(np.int64), data.offsets, cut or rankings.shape[2], counts, values)
    return values


@kernel
def _by_query(rankings: Array, grades: Array, offsets: Array, cut: int, counts: Array, values: Array) -> None:
    """`counts` is room for the number of documents of each grade."""
    for query in range(len(rankings)):
        judged = grades[offsets[query] : offsets[query + 1]]
        for grade in judged:
            counts[grade] += 1
        ideal, grade = 0.0, len(counts)
        for place in range(len(judged)):
            while counts[grade - 1] == 0:
                grade -= 1
            counts[grade - 1] -= 1
            if place < cut:
                ideal += (2.0 ** (grade - 1) - 1) / np.log2(place + 2)
        for ranker in range(values.shape[1]):
            gain = 0.0
            for place in range(min(cut, len(judged))):
                gain += (2.0 ** judged[rankings[query, ranker, place]] - 1) / np.log2(place + 2)
            values[query, ranker] = gain / ideal if ideal > 0 else 0.0
