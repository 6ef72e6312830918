"""Rankers for simulation: whatever scores the rows of a judged set, and the rankings that follow, ties by chance.

60 to 80 per cent of the top tens by a single feature are ambiguous, and the order of a file can leak relevance, so ties
are never broken by file order: each ranker has its own random order of the rows (`ties="own"`), or all share one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from interleaf.chance import bytes_of, key_of
from interleaf.compiled import kernel, part
from interleaf.errors import DataError, listed
from interleaf.methods.arrays import Array
from interleaf.simulate.data import Judged
from interleaf.sorting import sort_descending

Ranker = int | Mapping[int, float] | Array | Callable[[Judged], Array]
TIES = ("own", "shared")
SHORT = 64


def scores_of(data: Judged, ranker: Ranker) -> Array:
    """A score for each row: a feature's value, a linear combination, an array of scores, or what a function returns.

    A number is a feature's 1-based id, a mapping gives features their weights.
    """
    if isinstance(ranker, (int, np.integer)):
        return _feature(data, int(ranker))
    if isinstance(ranker, Mapping):
        total: Array = np.sum([weight * _feature(data, feature) for feature, weight in ranker.items()], axis=0)
        return total
    scores = np.asarray(ranker(data) if callable(ranker) else ranker, np.float64)
    if scores.shape != (len(data.grades),) or not np.isfinite(scores).all():
        raise DataError(
            f"a ranker gave scores of shape {scores.shape}; {data.name} needs {len(data.grades)} finite numbers, "
            "one a row"
        )
    return scores


def _feature(data: Judged, feature: int) -> Array:
    if not 1 <= feature <= data.features.shape[1]:
        raise DataError(f"{data.name} has features 1 to {data.features.shape[1]}, not {feature}; ids start at 1")
    return data.features[:, feature - 1].astype(np.float64)


def rank(data: Judged, scores: Sequence[Array], key: Any, ties: str = "own") -> Array:
    """Rankings `[query, ranker, rank]` of document numbers within the query, padded with -1 to the longest query."""
    if ties not in TIES:
        raise DataError(f"ties cannot be broken by {ties!r}; give {listed(TIES)}")
    lengths = np.diff(data.offsets)
    rankings = np.full((len(data), len(scores), int(lengths.max())), -1, np.int32)
    for number, values in enumerate(scores):
        generator = generator_of((key, "ties", number if ties == "own" else "shared"))
        _rank(values, generator.random(len(values)), data.offsets, rankings[:, number])
    return rankings


def generator_of(key: Any) -> np.random.Generator:
    """numpy's generator for vectorised draws that are no part of a list or a click, seeded by a key like all chance."""
    return np.random.Generator(np.random.PCG64(int.from_bytes(bytes_of(key_of(key)), "little")))


@kernel
def _rank(scores: Array, order: Array, offsets: Array, rankings: Array) -> None:
    """Best score first; of equal scores, the smaller random number."""
    for query in range(len(offsets) - 1):
        start, end = offsets[query], offsets[query + 1]
        if end - start <= SHORT:
            _insert(scores[start:end], order[start:end], rankings[query])
        else:
            sort_descending(scores[start:end], order[start:end], rankings[query])


@part
def _insert(scores: Array, order: Array, ranking: Array) -> None:
    """Insertion sort, a quarter faster than `sort_descending` for the few documents that most queries have."""
    for document in range(len(scores)):
        place = document
        while place > 0:
            above = ranking[place - 1]
            if scores[above] > scores[document] or (
                scores[above] == scores[document] and order[above] < order[document]
            ):
                break
            ranking[place] = above
            place -= 1
        ranking[place] = document
