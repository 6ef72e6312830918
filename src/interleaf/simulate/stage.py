"""Where simulated impressions happen: rankings, ready for batches, and their true quality (NDCG)."""

from __future__ import annotations

from typing import Any

import numpy as np

from interleaf import batch
from interleaf.compiled import kernel
from interleaf.methods.arrays import Array, Given, Impression
from interleaf.methods.table import Chosen
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


class Stage:
    """One method on judged queries whose documents all rankers rank: composes lists, and looks up what was shown."""

    def __init__(self, data: Judged, rankings: Array, chosen: Chosen, k: int) -> None:
        self.chosen, self.k = chosen, k
        self.sizes = np.diff(data.offsets).astype(np.int32)
        self.places = _places(rankings, self.sizes)
        self.grades = _padded(data.grades, data.offsets, rankings.shape[2])
        self.ideal = _ideal(self.grades, k)
        rankers = rankings.shape[1]
        depths = self.sizes if chosen.method.whole_rankings else np.minimum(self.sizes, k)
        tops = rankings if chosen.method.whole_rankings else rankings[:, :, :k]
        self.given = Given(
            np.ascontiguousarray(tops), np.repeat(depths[:, None], rankers, axis=1), self.sizes.astype(np.int64)
        )
        self.lengths = np.repeat(self.sizes[:, None], rankers, axis=1)
        self.choices = _choices(np.ascontiguousarray(rankings[:, :, :k]), self.sizes, k)

    def settings(self, queries: Array) -> Any:
        """What composing needs for these queries: the same for all, or prepared for each of them and stacked."""
        kernels = self.chosen.method.kernels
        if kernels.prepare_batch is not None:
            return kernels.prepare_batch(self.given, self.places, np.unique(queries), self.k, self.chosen.parameters)
        return kernels.settings((int(self.sizes.max()),), self.chosen.parameters, False)

    def compose(self, queries: Array, keys: Array, settings: Any, threads: int = 1) -> batch.Lists:
        """A list for each row."""
        return batch.compose(self.chosen, self.given, settings, queries, keys, self.k, threads)

    def look_up(self, queries: Array, lists: batch.Lists) -> tuple[Impression, Array]:
        """The impressions that credit takes, and the grades of what was shown, -1 below the end of a list."""
        rows, rankers = len(queries), self.places.shape[1]
        ranks = np.zeros((rows, rankers, self.k), np.int16)
        grades = np.full((rows, self.k), -1, np.int8)
        _look_up(self.places, self.grades, queries, lists.shown, lists.counts, ranks, grades)
        sizes = self.sizes[queries]
        return Impression(
            ranks, lists.teams, self.lengths[queries], sizes.astype(np.int64), self.choices[queries]
        ), grades

    def ndcg_of(self, queries: Array, grades: Array) -> Array:
        """NDCG at k of each shown list; 0 where nothing is relevant."""
        ideal = self.ideal[queries]
        return np.divide(_gain(grades), ideal, out=np.zeros(len(ideal)), where=ideal > 0)


def _gain(grades: Array) -> Array:
    """Discounted gain of rows of grades, 2^grade - 1 over log2(rank + 1); -1 is nothing."""
    discounts = 1 / np.log2(np.arange(2, grades.shape[1] + 2))
    return (2.0 ** np.maximum(grades, 0) - 1) @ discounts


def _ideal(grades: Array, k: int) -> Array:
    return _gain(-np.sort(-grades.astype(np.int64), axis=1)[:, :k])


def _padded(values: Array, offsets: Array, width: int) -> Array:
    """Ragged rows as a matrix, -1 where there is nothing."""
    padded = np.full((len(offsets) - 1, width), -1, values.dtype)
    inside = np.arange(width) < np.diff(offsets)[:, None]
    padded[inside] = values
    return padded


@kernel
def _places(rankings: Array, sizes: Array) -> Array:
    """`[query, ranker, document]`: the rank of each document."""
    queries, rankers, longest = rankings.shape
    places = np.zeros((queries, rankers, longest), np.int32)
    for query in range(queries):
        for ranker in range(rankers):
            for place in range(sizes[query]):
                places[query, ranker, rankings[query, ranker, place]] = place + 1
    return places


@kernel
def _choices(tops: Array, sizes: Array, k: int) -> Array:
    """`[query, rank]`: how many documents some ranker has in the top of that depth."""
    queries, rankers, depth = tops.shape
    choices = np.zeros((queries, k), np.int16)
    for query in range(queries):
        seen = np.zeros(sizes[query], np.bool_)
        count = 0
        for rank in range(k):
            for ranker in range(rankers):
                if rank < min(depth, sizes[query]) and not seen[tops[query, ranker, rank]]:
                    seen[tops[query, ranker, rank]] = True
                    count += 1
            choices[query, rank] = count
    return choices


@kernel
def _look_up(
    places: Array, judged: Array, queries: Array, shown: Array, counts: Array, ranks: Array, grades: Array
) -> None:
    for row in range(len(queries)):
        query = queries[row]
        for position in range(counts[row]):
            document = shown[row, position]
            grades[row, position] = judged[query, document]
            for ranker in range(places.shape[1]):
                ranks[row, ranker, position] = places[query, ranker, document]
