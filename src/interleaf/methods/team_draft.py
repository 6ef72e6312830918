"""Team draft (Radlinski et al. 2008; C12 section 3.2; for many rankers Schuth et al. 2014): rankers pick in turn.

In each round every ranker that still can adds its best unshown document, in a new random order, and owns it. A click
counts for the owner. With `fill=fair`, positions below the length of the shortest ranking have no owner. Down to there
no ranking can be used up, so the owner of a position depends on neither documents nor earlier picks, and clicks that
depend on the rank only prefer nobody.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array, EncodedRankings, Impression, Lengths, Parameters
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.kernels.randomness import Randomness, pick
from interleaf.methods.schemes import DEDUPED

FILLS = ("fair", "owned", "stop")
FAIR, OWNED, STOP = 0, 1, 2
MAX_SUBSETS = 12


class TeamDraftSettings(NamedTuple):
    fill: int
    prefix: bool
    one: Any


def settings(lengths: Lengths, parameters: Parameters, exact: bool) -> TeamDraftSettings:
    return TeamDraftSettings(FILLS.index(parameters["fill"]), parameters["prefix"], Fraction(1) if exact else 1.0)


@kernel
def compose(
    encoded: EncodedRankings, k: int, randomness: Randomness, shown: Array, teams: Array, settings: TeamDraftSettings
) -> int:
    """Each round walks the rankers that can still pick in a fresh random order; one that cannot leaves for good."""
    rankings, depths = encoded.rankings, encoded.depths
    in_list = np.zeros(encoded.documents, np.bool_)
    best = np.zeros(len(depths), np.int64)
    order = np.zeros(len(depths), np.int64)
    for ranker in range(len(depths)):
        order[ranker] = ranker
    drafting, picked, count = len(depths), 0, 0
    if settings.prefix:
        count = _shared_prefix(encoded, k)
        for position in range(count):
            shown[position] = rankings[0, position]
            in_list[shown[position]] = True
            teams[position] = -1
    owned = _shortest(depths, k) if settings.fill == FAIR else k
    while count < k and drafting > 0:
        if settings.fill == STOP and not _all_can_pick(rankings, depths, best, in_list):
            break
        place = picked + pick(randomness, drafting - picked)
        ranker = order[place]
        if not _can_pick(rankings, depths, best, in_list, ranker):
            drafting -= 1
            order[place] = order[drafting]
        else:
            shown[count] = rankings[ranker, best[ranker]]
            in_list[shown[count]] = True
            teams[count] = ranker if count < owned else -1
            count += 1
            order[place], order[picked] = order[picked], ranker
            picked += 1
        if picked == drafting:
            picked = 0
    return count


@inline_kernel
def _can_pick(rankings: Array, depths: Array, best: Array, in_list: Array, ranker: int) -> bool:
    """Move a ranker's pointer to its best unshown document, if it has one."""
    while best[ranker] < depths[ranker] and in_list[rankings[ranker, best[ranker]]]:
        best[ranker] += 1
    return bool(best[ranker] < depths[ranker])


@inline_kernel
def _all_can_pick(rankings: Array, depths: Array, best: Array, in_list: Array) -> bool:
    for ranker in range(len(depths)):
        if not _can_pick(rankings, depths, best, in_list, ranker):
            return False
    return True


@inline_kernel
def _shortest(depths: Array, k: int) -> int:
    """The depth of the shortest ranking, or k if that is less. Numba takes long to compile `depths.min()`."""
    shortest = k
    for ranker in range(len(depths)):
        shortest = min(shortest, depths[ranker])
    return shortest


@inline_kernel
def _shared_prefix(encoded: EncodedRankings, k: int) -> int:
    """How many documents all rankings begin with."""
    shared = _shortest(encoded.depths, k)
    for ranker in range(1, len(encoded.depths)):
        length = 0
        while length < shared and encoded.rankings[ranker, length] == encoded.rankings[0, length]:
            length += 1
        shared = length
    return shared


@kernel
def credit(impression: Impression, clicks: Array, variant: int, credit: Array, settings: TeamDraftSettings) -> int:
    """A click for its owner; `deduped`: clicks on the shared prefix count for nobody, but are counted (C12, Eq. 11)."""
    ranks, teams = impression.ranks, impression.teams
    in_prefix = variant == DEDUPED
    credited = 0
    for position in range(ranks.shape[1]):
        in_prefix = in_prefix and _all_at(ranks, position)
        if clicks[position] and in_prefix:
            credited += 1
        elif clicks[position] and teams[position] >= 0:
            credit[teams[position]] += settings.one
            credited += 1
    return credited


@inline_kernel
def _all_at(ranks: Array, position: int) -> bool:
    """Whether every ranker has the document of this position at this very rank."""
    for ranker in range(ranks.shape[0]):
        if ranks[ranker, position] != position + 1:
            return False
    return True


@kernel
def probability(impression: Impression, factors: Array, settings: TeamDraftSettings) -> bool:
    """The list's probability over all ways to own it: subsets of rankers, or of positions where rankers are many."""
    ranks, lengths = impression.ranks, impression.lengths
    rankers, count = ranks.shape
    start = 0
    while settings.prefix and start < count and _all_at(ranks, start):
        start += 1
    for position in range(count):
        factors[position] = settings.one
    if rankers <= MAX_SUBSETS:
        _by_rounds(ranks, lengths, factors, start, settings.fill)
        return True
    if count - start <= MAX_SUBSETS and _none_used_up(ranks, lengths):
        _by_positions(ranks, factors, start)
        return True
    return False


@inline_kernel
def _by_rounds(ranks: Array, lengths: Array, factors: Array, start: int, fill: int) -> None:
    """Forward over positions; the state is who has picked in this round, kept normalised to the list so far."""
    rankers, count = ranks.shape
    before, after = np.zeros(2**rankers, factors.dtype), np.zeros(2**rankers, factors.dtype)
    before[0] = factors[0]
    for position in range(start, count):
        able = best = 0
        for ranker in range(rankers):
            if _shown_above(ranks, ranker, position, lengths[ranker]) < lengths[ranker]:
                able |= 1 << ranker
            if _is_best(ranks, ranker, position):
                best |= 1 << ranker
        total = factors[position] * 0
        for picked in range(2**rankers):
            waiting = able & ~picked
            opened = 0 if waiting == 0 else picked
            waiting = able if waiting == 0 else waiting
            if before[picked] > 0 and waiting & best and not (fill == STOP and able != 2**rankers - 1):
                share = before[picked] / _ones(waiting)
                for ranker in range(rankers):
                    if waiting & best & (1 << ranker):
                        after[opened | (1 << ranker)] += share
                        total += share
        factors[position] = total
        for picked in range(2**rankers):
            before[picked] = after[picked] / total if total > 0 else total
            after[picked] = total * 0


@inline_kernel
def _by_positions(ranks: Array, factors: Array, start: int) -> None:
    """One round is not over: count the ways to give positions to different rankers, of all orders of the draft."""
    rankers, count = ranks.shape
    places = count - start
    ways = np.zeros(2**places, factors.dtype)
    ways[0] = factors[0]
    for ranker in range(rankers):
        best = 0
        for place in range(places):
            if _is_best(ranks, ranker, start + place):
                best |= 1 << place
        for filled in range(2**places - 1, -1, -1):
            free = best & ~filled if ways[filled] > 0 else 0
            while free:
                ways[filled | (free & -free)] += ways[filled]
                free &= free - 1
    for place in range(places):
        factors[start + place] = factors[start + place] / (rankers - place)
    if places > 0:
        factors[start] = factors[start] * ways[2**places - 1]


@inline_kernel
def _shown_above(ranks: Array, ranker: int, position: int, better_than: int) -> int:
    """How many documents above a position this ranker has at ranks up to a bound."""
    shown = 0
    for above in range(position):
        if 0 < ranks[ranker, above] <= better_than:
            shown += 1
    return shown


@inline_kernel
def _is_best(ranks: Array, ranker: int, position: int) -> bool:
    """Whether the document of this position is the ranker's best one that is not shown above."""
    rank = ranks[ranker, position]
    return bool(rank > 0 and _shown_above(ranks, ranker, position, rank - 1) == rank - 1)


@inline_kernel
def _none_used_up(ranks: Array, lengths: Array) -> bool:
    rankers, count = ranks.shape
    for ranker in range(rankers):
        if _shown_above(ranks, ranker, count - 1, lengths[ranker]) >= lengths[ranker]:
            return False
    return True


@inline_kernel
def _ones(bits: int) -> int:
    count = 0
    while bits:
        bits &= bits - 1
        count += 1
    return count
