"""Optimized interleaving (Radlinski and Craswell 2013) and multileaving (Schuth et al. 2014).

A list is allowed if each next document is the best one of some ranking that is not in the list yet. A linear programme
(`methods/linear_program.py`) gives these lists probabilities such that all rankers expect the same credit at every
rank, so clicks that depend on the rank only prefer nobody. The credit of a click depends on the document's rank in each
ranking. If no probabilities can be fair, the list is marked `relaxed`, and such clicks may prefer a ranker.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array, EncodedRankings, Impression, Lengths, Parameters
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.kernels.randomness import Randomness, pick_weighted
from interleaf.methods import linear_program
from interleaf.methods.linear_program import BINARY, CREDITS, INVERSE

if TYPE_CHECKING:
    from interleaf.interleaving.rankings import CheckedRankings


class OptimizedSettings(NamedTuple):
    """The lists that may be shown, their probabilities, and how a document's rank becomes credit."""

    lists: Array
    weights: Array
    relaxed: bool
    kind: int
    one: Any


def settings(lengths: Lengths, parameters: Parameters, exact: bool) -> OptimizedSettings:
    one = Fraction(1) if exact else 1.0
    lists, weights = np.empty((0, 0), np.int32), np.empty(0, object if exact else np.float64)
    return OptimizedSettings(lists, weights, False, CREDITS.index(parameters["credit"]), one)


def prepare(
    problem: CheckedRankings, names: list[Any], encoded: EncodedRankings, k: int, parameters: Parameters, exact: bool
) -> OptimizedSettings:
    """Solve the programme of these rankings, or take its solution from the cache."""
    kind = CREDITS.index(parameters["credit"])
    ranks = problem.ranks_or_next(names)
    solution = linear_program.solution_of(encoded, ranks, k, kind, parameters["samples"], exact)
    return OptimizedSettings(*solution, kind, Fraction(1) if exact else 1.0)


def prepare_batch(
    encoded: EncodedRankings, ranks: Array, queries: Array, k: int, parameters: Parameters
) -> OptimizedSettings:
    """The solutions of some queries of a batch, stacked by query; padded with -1 and with weight zero."""
    kind = CREDITS.index(parameters["credit"])
    solutions = {}
    for query in queries:
        size = int(encoded.documents[query])
        one = EncodedRankings(encoded.rankings[query], encoded.depths[query], size)
        solutions[query] = linear_program.solution_of(
            one, ranks[query, :, :size], min(k, size), kind, parameters["samples"], exact=False
        )
    max_lists = max(len(weights) for _, weights, _ in solutions.values())
    lists = np.full((len(encoded.documents), max_lists, k), -1, np.int32)
    weights = np.zeros((len(encoded.documents), max_lists))
    for query, (rows, shares, _) in solutions.items():
        lists[query, : len(rows), : rows.shape[1]] = rows
        weights[query, : len(shares)] = shares
    relaxed = any(relaxed for _, _, relaxed in solutions.values())
    return OptimizedSettings(lists, weights, relaxed, kind, 1.0)


def prepared_probability(prepared: OptimizedSettings, shown: Array) -> float:
    """The probability of the shown list."""
    return float(prepared.weights[(prepared.lists == shown).all(axis=1)].sum())


@kernel
def compose(
    encoded: EncodedRankings, k: int, randomness: Randomness, shown: Array, teams: Array, settings: OptimizedSettings
) -> int:
    lists = settings.lists
    row = pick_weighted(randomness, settings.weights, len(settings.weights))
    for position in range(lists.shape[1]):
        if lists[row, position] < 0:
            return position
        shown[position] = lists[row, position]
    return lists.shape[1]


@inline_kernel
def settings_at(settings: OptimizedSettings, query: int) -> OptimizedSettings:
    """The settings of one query, out of those of `prepare_batch`."""
    lists, weights = settings.lists[query], settings.weights[query]
    return OptimizedSettings(lists, weights, settings.relaxed, settings.kind, settings.one)


@kernel
def credit(impression: Impression, clicks: Array, variant: int, credit: Array, settings: OptimizedSettings) -> int:
    """What each clicked document's rank is worth to each ranker; one it lacks stands just below its last."""
    ranks, lengths = impression.ranks, impression.lengths
    credited = 0
    for position in range(ranks.shape[1]):
        if clicks[position]:
            credited += 1
            for ranker in range(ranks.shape[0]):
                rank = _rank(ranks[ranker, position], lengths[ranker])
                if settings.kind == INVERSE:
                    credit[ranker] += settings.one / rank
                elif settings.kind == BINARY:
                    other = 1 - ranker
                    if rank < _rank(ranks[other, position], lengths[other]):
                        credit[ranker] += settings.one
                else:
                    credit[ranker] -= settings.one * rank
    return credited


@inline_kernel
def _rank(rank: int, length: int) -> int:
    return rank if rank > 0 else length + 1
