"""Sample-scored-only multileaving (Brost et al. 2016; O17 section 4.4): team-draft lists, credit by re-ranking them.

Each ranker orders the shown documents by its own ranking, and a click is worth subrank^-tau to it. Documents that it
lacks tie for last. The lists favour documents that many rankers agree on, and nothing corrects for that, so the method
is not fair (O17 has a counterexample).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array, Impression, Lengths, Parameters
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.kernels.sorting import sort_descending
from interleaf.methods.drafts import FAIR
from interleaf.methods.probabilistic import powers_of
from interleaf.methods.team_draft import compose as compose, probability as probability

FEW = 8  # up to this number of clicks, scanning the list for each click is faster than sorting it


class ScoredOnlySettings(NamedTuple):
    """`powers[subrank]` is subrank^-tau; the others are for `compose` and `probability` of team_draft."""

    powers: Array
    fill: int
    prefix: bool
    one: Any


def settings(lengths: Lengths, parameters: Parameters, exact: bool) -> ScoredOnlySettings:
    powers = powers_of(parameters["tau"], int(max(lengths)), exact)
    return ScoredOnlySettings(powers, FAIR, False, powers[1])


@kernel
def credit(impression: Impression, clicks: Array, variant: int, credit: Array, settings: ScoredOnlySettings) -> int:
    ranks = impression.ranks
    rankers, count = ranks.shape
    credited = 0
    for position in range(count):
        if clicks[position]:
            credited += 1
    for ranker in range(rankers):
        if credited <= FEW:
            for position in range(count):
                if clicks[position]:
                    credit[ranker] += settings.powers[_subrank(ranks[ranker], ranks[ranker, position])]
        else:
            _credit_all(ranks[ranker], clicks, credit, ranker, settings.powers)
    return credited


@inline_kernel
def _credit_all(ranks: Array, clicks: Array, credit: Array, ranker: int, powers: Array) -> None:
    """Many clicks: sort the shown documents once; those that the ranker lacks, rank 0, come after all it has."""
    order = np.empty(len(ranks), np.int64)
    sort_descending(ranks, ranks, order)
    has = len(order)
    while has > 0 and ranks[order[has - 1]] == 0:
        has -= 1
    for place in range(len(order) - 1, -1, -1):
        if clicks[order[place]]:
            credit[ranker] += powers[has - place if place < has else has + 1]


@inline_kernel
def _subrank(ranks: Array, rank: int) -> int:
    """The place of a document among the shown ones, in one ranker's order; those it lacks come after all it has."""
    subrank = 1
    for other in ranks:
        if other > 0 and (rank == 0 or other < rank):
            subrank += 1
    return subrank
