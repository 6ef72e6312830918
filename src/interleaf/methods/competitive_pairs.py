"""Competitive pairs (Airbnb 2025): the rankers' best unshown documents meet, in random order, round by round.

In each round every ranker proposes its best document that is not shown. The different documents of the round are added
in random order, and each one belongs to all rankers that proposed it. A document that all rankers propose belongs to
nobody. When a ranking is used up, the others go on, and nobody owns what they add. Which documents meet does not
depend on chance, so clicks that depend on the rank only prefer nobody, in any scheme. With `coins=list`, for two
rankers, one coin decides the order of all pairs of a list.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array, EncodedRankings, Impression, Lengths, Parameters
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.kernels.randomness import Randomness, pick
from interleaf.methods.drafts import count_shown_above, is_best, rebuild_rankings


class CompetitivePairsSettings(NamedTuple):
    one_coin: bool
    one: Any


def settings(lengths: Lengths, parameters: Parameters, exact: bool) -> CompetitivePairsSettings:
    return CompetitivePairsSettings(parameters["coins"] == "list", Fraction(1) if exact else 1.0)


@kernel
def compose(
    encoded: EncodedRankings,
    k: int,
    randomness: Randomness,
    shown: Array,
    teams: Array,
    settings: CompetitivePairsSettings,
) -> int:
    rankers = len(encoded.depths)
    in_list, best = np.zeros(encoded.documents, np.bool_), np.zeros(rankers, np.int64)
    proposals, owners = np.zeros(rankers, np.int64), np.zeros(rankers, np.int64)
    coin = pick(randomness, 2) if settings.one_coin else 0
    count = 0
    size = _propose(encoded, in_list, best, proposals, owners)
    while count < k and size > 0:
        for place in range(min(size, k - count)):
            other = place
            if settings.one_coin:
                other += coin if size - place == 2 else 0
            else:
                other += pick(randomness, size - place)
            proposals[place], proposals[other] = proposals[other], proposals[place]
            owners[place], owners[other] = owners[other], owners[place]
            shown[count], teams[count] = proposals[place], owners[place]
            count += 1
        size = _propose(encoded, in_list, best, proposals, owners)
    return count


@inline_kernel
def _propose(encoded: EncodedRankings, in_list: Array, best: Array, proposals: Array, owners: Array) -> int:
    """Write the different documents of the next round and their owners, -1 for nobody or several; how many there are.

    The documents are marked as shown.
    """
    rankings, depths = encoded.rankings, encoded.depths
    size, able = 0, 0
    for ranker in range(len(depths)):
        while best[ranker] < depths[ranker] and in_list[rankings[ranker, best[ranker]]]:
            best[ranker] += 1
        if best[ranker] < depths[ranker]:
            able += 1
            document = rankings[ranker, best[ranker]]
            place = 0
            while place < size and proposals[place] != document:
                place += 1
            proposals[place], owners[place] = document, ranker if place == size else -1
            size = max(size, place + 1)
    for place in range(size):
        in_list[proposals[place]] = True
        if able < len(depths) or size == 1:
            owners[place] = -1
    return size


@kernel
def credit(
    impression: Impression, clicks: Array, variant: int, credit: Array, settings: CompetitivePairsSettings
) -> int:
    """A click for every ranker that proposed the document; a document that all of them proposed counts for nobody."""
    ranks = impression.ranks
    rankers, count = ranks.shape
    opened = credited = 0  # the position at which the round begins
    for position in range(count):
        proposers = _count_proposers(ranks, opened, position)
        if proposers == 0:
            opened = position
            proposers = _count_proposers(ranks, opened, position)
        if clicks[position] and 0 < proposers < rankers and _all_propose(impression, opened):
            credited += 1
            for ranker in range(rankers):
                if is_best(ranks, ranker, opened, position):
                    credit[ranker] += settings.one
    return credited


@inline_kernel
def _count_proposers(ranks: Array, opened: int, position: int) -> int:
    """How many rankers propose the document of a position in the round that begins at position `opened`."""
    proposers = 0
    for ranker in range(ranks.shape[0]):
        proposers += is_best(ranks, ranker, opened, position)
    return proposers


@inline_kernel
def _all_propose(impression: Impression, opened: int) -> bool:
    """Whether every ranker has an unshown document when the round begins."""
    for ranker in range(len(impression.lengths)):
        length = impression.lengths[ranker]
        if count_shown_above(impression.ranks, ranker, opened, length) >= length:
            return False
    return True


@kernel
def probability(impression: Impression, factors: Array, settings: CompetitivePairsSettings) -> bool:
    """One of the documents that are left of the round; False if the rankings are not known."""
    count = impression.ranks.shape[1]
    top = rebuild_rankings(impression)
    if top.documents == 0:
        return False
    rankers = len(top.depths)
    in_list, best = np.zeros(top.documents, np.bool_), np.zeros(rankers, np.int64)
    proposals, owners = np.zeros(rankers, np.int64), np.zeros(rankers, np.int64)
    opened, size, first = 0, 0, -1  # the ranker that the coin of the list puts first, if a pair shows it
    for position in range(count):
        if position == opened + size:
            opened, size = position, _propose(top, in_list, best, proposals, owners)
        place = 0
        while place < size and proposals[place] != position:
            place += 1
        factors[position] = settings.one / (opened + size - position) if place < size else settings.one * 0
        if settings.one_coin and size == 2 and position == opened and place < size:
            if first >= 0:
                factors[position] = settings.one * (place == first)
            first = place
    return True


@kernel
def place(impression: Impression, chances: Array, settings: CompetitivePairsSettings) -> bool:
    """Each document of a round is equally likely at each position of the round; False if the rankings are not known."""
    count = impression.ranks.shape[1]
    top = rebuild_rankings(impression)
    if top.documents == 0:
        return False
    rankers = len(top.depths)
    in_list, best = np.zeros(top.documents, np.bool_), np.zeros(rankers, np.int64)
    proposals, owners = np.zeros(rankers, np.int64), np.zeros(rankers, np.int64)
    opened = 0
    while opened < count:
        size = _propose(top, in_list, best, proposals, owners)
        if size == 0:
            return False
        for proposal in range(size):
            for position in range(opened, min(opened + size, count)):
                chances[proposals[proposal], position] = settings.one / size
        opened += size
    return True
