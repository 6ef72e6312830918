"""Rankers as scores of rows, their rankings, degraded rankers, score files and TREC runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from interleaf.errors import DataError, join_names
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.kernels.randomness import bytes_of, key_of
from interleaf.kernels.sorting import sort_descending
from interleaf.log.trec_runs import parse_score, read_lines, read_run_lines
from interleaf.simulate.data import Judged

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
        return np.asarray(np.sum([weight * _feature(data, feature) for feature, weight in ranker.items()], axis=0))
    scores = np.asarray(ranker(data) if callable(ranker) else ranker, np.float64)
    if scores.shape != (len(data.grades),) or not np.isfinite(scores).all():
        problem = f"a ranker gave scores of shape {scores.shape}"
        raise DataError(f"{problem}; {data.name} needs {len(data.grades)} finite numbers, one per row")
    return scores


def _feature(data: Judged, feature: int) -> Array:
    if not 1 <= feature <= data.features.shape[1]:
        raise DataError(f"{data.name} has features 1 to {data.features.shape[1]}, not {feature}; ids start at 1")
    return data.features[:, feature - 1].astype(np.float64)


def rank(data: Judged, scores: Sequence[Array], key: Any, ties: str = "own") -> Array:
    """Rankings `[query, ranker, rank]` of document numbers within the query, padded with -1 to the longest query."""
    if ties not in TIES:
        raise DataError(f"ties cannot be broken by {ties!r}; give {join_names(TIES)}")
    rankings = np.full((len(data), len(scores), int(np.diff(data.offsets).max())), -1, np.int32)
    for number, values in enumerate(scores):
        generator = generator_of((key, "ties", number if ties == "own" else "shared"))
        _rank(values, generator.random(len(values)), data.offsets, rankings[:, number])
    return rankings


def generator_of(key: Any) -> np.random.Generator:
    """numpy's generator, seeded by a key, for vectorised draws of everything but lists and clicks."""
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


@inline_kernel
def _insert(scores: Array, order: Array, ranking: Array) -> None:
    """Insertion sort, a quarter faster than `sort_descending` for the few documents that most queries have."""
    for document in range(len(scores)):
        place, score = document, scores[document]
        while place > 0:
            above = ranking[place - 1]
            if scores[above] > score or (scores[above] == score and order[above] < order[document]):
                break
            ranking[place] = above
            place -= 1
        ranking[place] = document


Degraded = Callable[[Judged], Array]
PAGE, TOP, LOW = 11, 5, 7  # results of a page; its top ranks, and the first of the ranks that these are swapped with


def shuffle_top(ranker: Ranker, count: int = PAGE, seed: Any = 0) -> Degraded:
    """The ranker with its first `count` documents in random order: C12's A, made from B."""

    def shuffle(ranking: Array, generator: np.random.Generator) -> Array:
        return np.asarray(np.r_[generator.permutation(ranking[:count]), ranking[count:]])

    return _degrade(ranker, shuffle, ("shuffled_top", count, seed))


def swap_top(ranker: Ranker, swaps: int = 2, seed: Any = 0) -> Degraded:
    """The ranker with `swaps` of each page's top 5 exchanged with as many of ranks 7 to 11, the same on every page.

    Two swaps turn C12's E into its D, four into its C. A page that is too short for a swap stays the same.
    """
    if not 1 <= swaps <= TOP:
        raise DataError(f"cannot swap {swaps} of the top {TOP} with ranks {LOW} to {PAGE} of pages of {PAGE}")

    def swap(ranking: Array, generator: np.random.Generator) -> Array:
        above = generator.permutation(TOP)[:swaps]
        below = generator.permutation(np.arange(LOW - 1, PAGE))[:swaps]
        changed = ranking.copy()
        for page in range(0, len(ranking), PAGE):
            for one, other in zip(page + above, page + below, strict=True):
                if other < len(ranking):
                    changed[[one, other]] = changed[[other, one]]
        return changed

    return _degrade(ranker, swap, ("swapped", swaps, TOP, LOW, PAGE, seed))


def at_random(seed: Any = 0) -> Degraded:
    """A ranker that ranks documents in random order."""
    return lambda data: generator_of(("at_random", seed)).random(len(data.grades))


def _degrade(ranker: Ranker, change: Callable[[Array, np.random.Generator], Array], key: tuple[Any, ...]) -> Degraded:
    """Scores that give the changed ranking of each query."""

    def scores(data: Judged) -> Array:
        rankings = rank(data, [scores_of(data, ranker)], key)[:, 0]
        generator, changed = generator_of(key), np.empty(len(data.grades))
        for query in range(len(data)):
            start, stop = data.offsets[query], data.offsets[query + 1]
            order = change(rankings[query, : stop - start], generator)
            changed[start + order] = -np.arange(stop - start, dtype=np.float64)
        return changed

    return scores


def read_scores(path: str | PathLike[str], data: Judged) -> Array:
    """Read scores: one number per line, one line per row of the data, in its order."""
    lines = read_lines(path)
    if len(lines) != len(data.grades):
        raise DataError(f"{path} holds {len(lines)} scores; {data.name} has {len(data.grades)} rows, give one per row")
    return np.array([parse_score(line.strip(), where) for where, line in lines])


def read_run_scores(path: str | PathLike[str], data: Judged) -> Array:
    """Read scores from a TREC run; documents that it lacks come last.

    A document's id is its number in its query, from 1: `7`, or as simulated logs name it, `q12-d7` in query 12.
    """
    starts = dict(zip(data.queries, data.offsets[:-1].tolist(), strict=True))
    sizes = dict(zip(data.queries, np.diff(data.offsets).tolist(), strict=True))
    scores = np.full(len(data.grades), np.nan)
    for where, query, named, score in read_run_lines(path):
        document = named.removeprefix(f"q{query}-d")
        if query not in starts:
            raise DataError(f"{where}: {data.name} has no query {query!r}")
        if not document.isdecimal() or not 1 <= int(document) <= sizes[query]:
            raise DataError(f"{where}: query {query!r} has documents 1 to {sizes[query]}, not {named!r}")
        row = starts[query] + int(document) - 1
        if not np.isnan(scores[row]):
            raise DataError(f"{where}: document {named!r} of query {query!r} is there twice; keep one")
        scores[row] = score
    if np.isnan(scores).all():
        raise DataError(f"{path} ranks nothing; give a TREC run with at least one line")
    lowest = np.nanmin(scores)
    return np.where(np.isnan(scores), lowest - max(1.0, 1e-9 * abs(lowest)), scores)
