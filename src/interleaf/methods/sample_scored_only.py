"""Sample-scored-only multileaving (Brost et al. 2016; O17 section 4.4): team-draft lists, credit by re-ranking them.

Each ranker orders the shown documents by its own ranking; a click is worth subrank^-tau to it. Documents it lacks tie
for last. The lists favour what many rankers agree on, and nothing corrects for that: biased (O17's counterexample).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array, EncodedRankings, Impression, Lengths
from interleaf.kernels.jit import impression_at, inline_kernel, kernel, rankings_at, reseed
from interleaf.kernels.randomness import Randomness
from interleaf.kernels.sorting import sort_descending
from interleaf.methods.probabilistic import powers_of
from interleaf.methods.team_draft import FAIR, draft, draft_probability

FEW = 8  # clicks up to which looking at the whole list for each is faster than sorting it


class Settings(NamedTuple):
    powers: Array


def settings(lengths: Lengths, parameters: Mapping[str, Any], exact: bool) -> Settings:
    return Settings(powers_of(parameters["tau"], int(max(lengths)), exact))


@kernel
def compose(given: EncodedRankings, k: int, chance: Randomness, shown: Array, teams: Array, settings: Settings) -> int:
    return draft(given, k, chance, shown, teams, FAIR, False)


@kernel
def compose_batch(
    given: EncodedRankings,
    queries: Array,
    keys: Array,
    k: int,
    shown: Array,
    teams: Array,
    counts: Array,
    settings: Settings,
) -> None:
    chance: Any = np.zeros(3, np.uint64)
    for row in range(len(queries)):
        reseed(chance, keys, row)
        counts[row] = compose(rankings_at(given, queries[row]), k, chance, shown[row], teams[row], settings)


@kernel
def credit(impression: Impression, clicks: Array, variant: int, credit: Array, settings: Settings) -> int:
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


@kernel
def credit_batch(
    impressions: Impression,
    counts: Array,
    clicks: Array,
    variant: int,
    credits: Array,
    credited: Array,
    settings: Settings,
) -> None:
    for row in range(len(counts)):
        impression = impression_at(impressions, row, counts[row])
        credited[row] = credit(impression, clicks[row], variant, credits[row], settings)


@kernel
def probability(impression: Impression, factors: Array, settings: Settings) -> bool:
    return draft_probability(impression, factors, FAIR, False, settings.powers[1])
