"""Team draft (Radlinski et al. 2008; C12 section 3.2; for many rankers Schuth et al. 2014): rankers pick in turn.

In each round every ranker that still can adds its best unshown document, in a new random order, and owns it. A click
counts for the owner. With `fill=fair`, positions below the length of the shortest ranking have no owner. Down to there
no ranking can be used up, so the owner of a position depends on neither documents nor earlier picks, and clicks that
depend on the rank only prefer nobody.

The variants `list` and `place` of the credit average the owner of a position over the coins of the draft: over all
drafts that give the shown list, or over all drafts that have the same document at the same rank. `list` has the same
expectation as the drawn owners for any clicks, and never more variance.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from interleaf.kernels.arrays import Array, EncodedRankings, Impression, Lengths, Parameters
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.kernels.randomness import Randomness
from interleaf.methods import drafts
from interleaf.methods.drafts import MAX_SUBSETS, TeamDraftSettings, is_best
from interleaf.methods.schemes import DEDUPED

FILLS = ("fair", "owned", "stop")


def settings(lengths: Lengths, parameters: Parameters, exact: bool) -> TeamDraftSettings:
    return TeamDraftSettings(FILLS.index(parameters["fill"]), parameters["prefix"], Fraction(1) if exact else 1.0)


@kernel
def compose(
    encoded: EncodedRankings, k: int, randomness: Randomness, shown: Array, teams: Array, settings: TeamDraftSettings
) -> int:
    return drafts.draft(encoded, k, randomness, shown, teams, settings)


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
def credit_list(impression: Impression, clicks: Array, variant: int, credit: Array, settings: TeamDraftSettings) -> int:
    """A click for those who may have picked the document, given the list; -1 if that cannot be computed."""
    weights = np.zeros(impression.ranks.shape, credit.dtype)
    start = _start(impression, settings)
    if not drafts.own_given_list(impression, start, weights, settings):
        return -1
    return _add_credit(impression, clicks, weights, start, credit, settings)


@kernel
def credit_place(
    impression: Impression, clicks: Array, variant: int, credit: Array, settings: TeamDraftSettings
) -> int:
    """A click for those who may have picked the document, given its rank; -1 if that cannot be computed."""
    weights = np.zeros(impression.ranks.shape, credit.dtype)
    start = _start(impression, settings)
    if not drafts.own_given_place(impression, start, weights, settings):
        return -1
    return _add_credit(impression, clicks, weights, start, credit, settings)


@inline_kernel
def _add_credit(
    impression: Impression, clicks: Array, weights: Array, start: int, credit: Array, settings: TeamDraftSettings
) -> int:
    """Add each ranker's share of the clicks; how many clicks are on positions that can have an owner."""
    credited = 0
    for position in range(start, drafts.count_owned(impression.lengths, len(clicks), settings)):
        credited += clicks[position]
        for ranker in range(len(credit)):
            if clicks[position]:
                credit[ranker] += weights[ranker, position]
    return credited


@inline_kernel
def _start(impression: Impression, settings: TeamDraftSettings) -> int:
    """The position at which the draft begins: below the shared prefix if that is shown first."""
    start = 0
    while settings.prefix and start < impression.ranks.shape[1] and _all_at(impression.ranks, start):
        start += 1
    return start


@kernel
def place(impression: Impression, chances: Array, settings: TeamDraftSettings) -> bool:
    """The share of the drafts that have a document at a position; False if that is not known."""
    owned = np.zeros(impression.ranks.shape, chances.dtype)
    top = drafts.rebuild_rankings(impression)
    return drafts.place_all(impression, top, _start(impression, settings), owned, chances, settings)


@kernel
def probability(impression: Impression, factors: Array, settings: TeamDraftSettings) -> bool:
    """The list's probability over all ways to own it: subsets of rankers, or of positions where rankers are many."""
    ranks, lengths = impression.ranks, impression.lengths
    rankers, count = ranks.shape
    start = _start(impression, settings)
    for position in range(count):
        factors[position] = settings.one
    if rankers <= MAX_SUBSETS:
        drafts.go_forward(ranks, lengths, factors, start, settings)
        return True
    if count - start <= MAX_SUBSETS and drafts.none_used_up(ranks, lengths):
        _by_positions(ranks, factors, start)
        return True
    return False


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
            if is_best(ranks, ranker, start + place, start + place):
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
