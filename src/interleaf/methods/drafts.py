"""The draft of team draft: one at random, all of them, or those that give a list that was shown.

The shown list does not tell who picked a document: a coin decided, and that coin is noise. Credit can average over it
(Rao-Blackwell). `own_given_list` averages over all drafts that give the same list, `own_given_place` over all drafts
that have the same document at the same rank.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array, EncodedRankings, Impression
from interleaf.kernels.jit import inline_kernel
from interleaf.kernels.randomness import Randomness, derive, pick

FAIR, OWNED, STOP = 0, 1, 2
MAX_SUBSETS = 12  # of rankers or positions: arrays have 2 to this power entries
MAX_DRAFTS = 4096  # if there are more, they are sampled
MAX_COMPARED = 32  # drafts that a draft is compared with, so that the time grows with their number only
REDRAWS = 255  # lists drawn in addition to the one that was shown


class TeamDraftSettings(NamedTuple):
    fill: int
    prefix: bool
    one: Any


@inline_kernel
def draft(
    encoded: EncodedRankings, k: int, randomness: Randomness, shown: Array, teams: Array, settings: TeamDraftSettings
) -> int:
    """Each round, the rankers pick in a new random order; a ranker that has nothing left to pick is removed."""
    rankings, depths = encoded.rankings, encoded.depths
    in_list = np.zeros(encoded.documents, np.bool_)
    best = np.zeros(len(depths), np.int64)
    order = np.zeros(len(depths), np.int64)
    for ranker in range(len(depths)):
        order[ranker] = ranker
    drafting, picked, count = len(depths), 0, 0
    if settings.prefix:
        count = count_shared_prefix(encoded, k)
        for position in range(count):
            shown[position] = rankings[0, position]
            in_list[shown[position]] = True
            teams[position] = -1
    owned = count_owned(depths, k, settings)
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
def count_owned(lengths: Array, count: int, settings: TeamDraftSettings) -> int:
    """How many positions can have an owner: with `fill=fair` as many as the shortest ranking has documents."""
    owned = count
    for ranker in range(len(lengths)):
        if settings.fill == FAIR:
            owned = min(owned, lengths[ranker])
    return owned


@inline_kernel
def count_shared_prefix(encoded: EncodedRankings, k: int) -> int:
    """How many documents all rankings begin with."""
    shared = k
    for ranker in range(len(encoded.depths)):
        length, shared = 0, min(shared, encoded.depths[ranker])
        while length < shared and encoded.rankings[ranker, length] == encoded.rankings[0, length]:
            length += 1
        shared = length
    return shared


@inline_kernel
def own_given_list(impression: Impression, start: int, weights: Array, settings: TeamDraftSettings) -> bool:
    """Write P(ranker owns position | list), `[ranker, position]`; False if no draft gives the list, or it is too large.

    The draft begins at position `start`.
    """
    ranks, lengths = impression.ranks, impression.lengths
    rankers, count = ranks.shape
    if rankers <= MAX_SUBSETS:
        factors = np.zeros(count, weights.dtype)
        states = go_forward(ranks, lengths, factors, start, settings)
        for position in range(start, count):
            if factors[position] == 0:
                return False
        _go_backward(ranks, lengths, factors, states, start, weights, settings.one)
        return True
    if count - start <= MAX_SUBSETS and none_used_up(ranks, lengths):
        return _assign_positions(ranks, start, weights, settings.one)
    return False


@inline_kernel
def go_forward(ranks: Array, lengths: Array, factors: Array, start: int, settings: TeamDraftSettings) -> Array:
    """The states of the draft, `[position, who has picked in this round]`, given the documents above the position.

    `factors[position]` becomes the probability of the position's document, given those above it.
    """
    rankers, count = ranks.shape
    states = np.zeros((count + 1, 2**rankers), factors.dtype)
    states[start, 0] = settings.one
    for position in range(start, count):
        able, best = _able(ranks, lengths, position), _best(ranks, position)
        total = factors[position] * 0
        for picked in range(2**rankers):
            opened, waiting = _next_to_pick(able, picked, rankers, settings.fill)
            if states[position, picked] > 0 and waiting & best:
                share = states[position, picked] / _count_ones(waiting)
                for ranker in range(rankers):
                    if waiting & best & (1 << ranker):
                        states[position + 1, opened | (1 << ranker)] += share
                        total += share
        factors[position] = total
        for picked in range(2**rankers):
            if total > 0:
                states[position + 1, picked] = states[position + 1, picked] / total
    return states


@inline_kernel
def _go_backward(
    ranks: Array, lengths: Array, factors: Array, states: Array, start: int, weights: Array, one: Any
) -> None:
    """Owners given the whole list: the state at a position, times the probability of the rest of the list."""
    rankers, count = ranks.shape
    rest, after = np.zeros(2**rankers, weights.dtype), np.zeros(2**rankers, weights.dtype)
    for picked in range(2**rankers):
        after[picked] = one
    for position in range(count - 1, start - 1, -1):
        able, best = _able(ranks, lengths, position), _best(ranks, position)
        for picked in range(2**rankers):
            rest[picked] = one * 0
            opened, waiting = _next_to_pick(able, picked, rankers, OWNED)
            if states[position, picked] > 0:
                for ranker in range(rankers):
                    if waiting & best & (1 << ranker):
                        share = after[opened | (1 << ranker)] / _count_ones(waiting) / factors[position]
                        rest[picked] += share
                        weights[ranker, position] += states[position, picked] * share
        after[:] = rest


@inline_kernel
def _next_to_pick(able: int, picked: int, rankers: int, fill: int) -> tuple[int, int]:
    """Who has picked before the next one does, and who can be next, as bits; a new round opens if nobody is left."""
    if fill == STOP and able != (1 << rankers) - 1:
        return picked, 0
    waiting = able & ~picked
    if waiting == 0:
        return 0, able
    return picked, waiting


@inline_kernel
def _able(ranks: Array, lengths: Array, position: int) -> int:
    """The rankers that have a document which is not shown above the position, as bits."""
    able = 0
    for ranker in range(ranks.shape[0]):
        if count_shown_above(ranks, ranker, position, lengths[ranker]) < lengths[ranker]:
            able |= 1 << ranker
    return able


@inline_kernel
def _best(ranks: Array, position: int) -> int:
    """The rankers whose best document not shown above the position is the one of the position, as bits."""
    best = 0
    for ranker in range(ranks.shape[0]):
        if is_best(ranks, ranker, position, position):
            best |= 1 << ranker
    return best


@inline_kernel
def _assign_positions(ranks: Array, start: int, weights: Array, one: Any) -> bool:
    """Many rankers, whose first round is not over: count the ways to give the positions to different rankers."""
    rankers, count = ranks.shape
    size = 2 ** (count - start)
    ways = np.zeros((rankers + 1, size), weights.dtype)  # to fill positions by the first rankers
    ways[0, 0] = one
    for ranker in range(rankers):
        for filled in range(size):
            ways[ranker + 1, filled] += ways[ranker, filled]
            for place in range(count - start):
                if ways[ranker, filled] > 0 and _is_free(ranks, ranker, start, place, filled):
                    ways[ranker + 1, filled | (1 << place)] += ways[ranker, filled]
    total = ways[rankers, size - 1]
    if total == 0:
        return False
    rest, after = np.zeros(size, weights.dtype), np.zeros(size, weights.dtype)  # ways to fill the others from there
    after[size - 1] = one
    for ranker in range(rankers - 1, -1, -1):
        for filled in range(size):
            rest[filled] = after[filled]
            for place in range(count - start):
                if _is_free(ranks, ranker, start, place, filled):
                    rest[filled] += after[filled | (1 << place)]
                    share = ways[ranker, filled] * after[filled | (1 << place)] / total
                    weights[ranker, start + place] += share
        after[:] = rest
    return True


@inline_kernel
def _is_free(ranks: Array, ranker: int, start: int, place: int, filled: int) -> bool:
    """Whether a ranker can fill a position that is not filled yet."""
    return not filled & (1 << place) and is_best(ranks, ranker, start + place, start + place)


@inline_kernel
def own_given_place(impression: Impression, start: int, weights: Array, settings: TeamDraftSettings) -> bool:
    """Write P(ranker owns position | its document stands there), `[ranker, position]`; False if that is not known."""
    rankers, count = impression.ranks.shape
    if count == start:
        return True
    top = rebuild_rankings(impression)
    chances = np.zeros((top.documents, count), weights.dtype)
    if not place_all(impression, top, start, weights, chances, settings):
        return False
    for position in range(start, count):
        if chances[position, position] == 0:
            return False
        for ranker in range(rankers):
            weights[ranker, position] = weights[ranker, position] / chances[position, position]
    return True


@inline_kernel
def place_all(
    impression: Impression, top: EncodedRankings, start: int, owned: Array, chances: Array, settings: TeamDraftSettings
) -> bool:
    """Write the probability of each document at each position, `chances[document, position]`.

    And `owned[ranker, position]`: the probability that a ranker owns the position and its document is the shown one.
    The documents of the list come first, in its order. False: the rankings are not known, or there are too many drafts
    and the key is not known.
    """
    rankers, count = impression.ranks.shape
    if top.documents == 0:
        return False
    for position in range(start):
        chances[position, position] = settings.one
    if rankers < 62 and _count_drafts(rankers, count - start) <= MAX_DRAFTS:
        _draft_all(top, start, owned, chances, settings)
        return True
    if impression.words[0] == 0 and impression.words[1] == 0:
        return False
    _redraw(impression, top, start, owned, chances, settings)
    return True


@inline_kernel
def rebuild_rankings(impression: Impression) -> EncodedRankings:
    """The top of each ranking, as deep as the list is long; without documents if that is not known.

    The documents of the list are numbered by position, and the unshown ones follow.
    """
    ranks, unshown = impression.ranks, impression.unshown_ranks
    rankers, count = ranks.shape
    rankings, depths = np.full((rankers, count), -1, np.int32), np.zeros(rankers, np.int32)
    documents, is_known = count, True
    for ranker in range(rankers):
        depths[ranker] = min(count, impression.lengths[ranker])
        for position in range(count):
            if 0 < ranks[ranker, position] <= count:
                rankings[ranker, ranks[ranker, position] - 1] = position
        for hidden in range(unshown.shape[1]):
            if 0 < unshown[ranker, hidden] <= count:
                is_known &= rankings[ranker, unshown[ranker, hidden] - 1] < 0
                rankings[ranker, unshown[ranker, hidden] - 1] = count + hidden
                documents = max(documents, count + hidden + 1)
    for ranker in range(rankers):
        for rank in range(depths[ranker]):
            is_known &= rankings[ranker, rank] >= 0
    if not is_known:
        documents = 0
    return EncodedRankings(rankings, depths, documents)


@inline_kernel
def _count_drafts(rankers: int, count: int) -> int:
    """How many drafts of a list there are, at most; it stops to count above the limit."""
    drafts = 1
    for position in range(count):
        if drafts <= MAX_DRAFTS:
            drafts *= rankers - position % rankers
    return drafts


@inline_kernel
def _draft_all(top: EncodedRankings, start: int, owned: Array, chances: Array, settings: TeamDraftSettings) -> None:
    """Go through all drafts, position by position; those with the same documents and pickers so far go on as one."""
    rankers, count = top.rankings.shape
    size = _count_drafts(rankers, count - start)
    best, in_list = np.zeros((2, size, rankers), np.int64), np.zeros((2, size, top.documents), np.bool_)
    picked, reached = np.zeros((2, size), np.int64), np.zeros((2, size), owned.dtype)
    for position in range(start):
        in_list[0, 0, position] = True
    reached[0, 0] = settings.one
    now, drafts = 0, 1
    for position in range(start, count):
        after, new_drafts = 1 - now, 0
        while drafts * rankers > picked.shape[1]:  # room for each draft to go on with each ranker
            best, in_list = np.concatenate((best, best), axis=1), np.concatenate((in_list, in_list), axis=1)
            picked, reached = np.concatenate((picked, picked), axis=1), np.concatenate((reached, reached), axis=1)
        for number in range(drafts):
            able = _find_best(top, in_list[now, number], best[now, number])
            opened, waiting = _next_to_pick(able, picked[now, number], rankers, settings.fill)
            share = reached[now, number] / max(1, _count_ones(waiting))
            while waiting:
                ranker = _lowest_bit(waiting)
                waiting &= waiting - 1
                document = top.rankings[ranker, best[now, number, ranker]]
                chances[document, position] += share
                if document == position:
                    owned[ranker, position] += share
                in_list[after, new_drafts] = in_list[now, number]
                in_list[after, new_drafts, document] = True
                picked[after, new_drafts] = opened | (1 << ranker)
                same = _find_same(in_list[after], picked[after], new_drafts)
                if same == new_drafts:
                    best[after, new_drafts] = best[now, number]
                    reached[after, new_drafts] = share
                    new_drafts += 1
                else:
                    reached[after, same] += share
        now, drafts = after, new_drafts


@inline_kernel
def _find_same(in_list: Array, picked: Array, number: int) -> int:
    """A draft before this one with the same documents and the same rankers that have picked; if none, this one."""
    for same in range(max(0, number - MAX_COMPARED), number):
        if picked[same] == picked[number] and _are_equal(in_list[same], in_list[number]):
            return same
    return number


@inline_kernel
def _are_equal(one: Array, other: Array) -> bool:
    for place in range(len(one)):
        if one[place] != other[place]:
            return False
    return True


@inline_kernel
def _find_best(top: EncodedRankings, in_list: Array, best: Array) -> int:
    """Move the pointer of each ranker to its best document not in the list; the rankers that have one, as bits."""
    able = 0
    for ranker in range(len(best)):
        if _can_pick(top.rankings, top.depths, best, in_list, ranker):
            able |= 1 << ranker
    return able


@inline_kernel
def _redraw(
    impression: Impression, top: EncodedRankings, start: int, owned: Array, chances: Array, settings: TeamDraftSettings
) -> None:
    """Count over the shown list and lists drawn with keys derived from its key, which are as likely as it was."""
    count = impression.ranks.shape[1]
    shown, teams = np.zeros(count, np.int32), np.zeros(count, np.int32)
    share = settings.one / (REDRAWS + 1)
    for number in range(REDRAWS + 1):
        length = count
        if number == 0:
            for position in range(count):
                shown[position], teams[position] = position, impression.teams[position]
        else:
            length = draft(top, count, derive(impression.words, number), shown, teams, settings)
        for position in range(start, length):
            chances[shown[position], position] += share
            if shown[position] == position and teams[position] >= 0:
                owned[teams[position], position] += share


@inline_kernel
def count_shown_above(ranks: Array, ranker: int, position: int, better_than: int) -> int:
    """How many documents above a position this ranker has at ranks up to a bound."""
    shown = 0
    for above in range(position):
        if 0 < ranks[ranker, above] <= better_than:
            shown += 1
    return shown


@inline_kernel
def is_best(ranks: Array, ranker: int, opened: int, position: int) -> bool:
    """Whether the document of a position is the ranker's best one that is not shown above the position `opened`."""
    rank = ranks[ranker, position]
    return bool(rank > 0 and count_shown_above(ranks, ranker, opened, rank - 1) == rank - 1)


@inline_kernel
def none_used_up(ranks: Array, lengths: Array) -> bool:
    rankers, count = ranks.shape
    for ranker in range(rankers):
        if count_shown_above(ranks, ranker, count - 1, lengths[ranker]) >= lengths[ranker]:
            return False
    return True


@inline_kernel
def _count_ones(bits: int) -> int:
    count = 0
    while bits:
        bits &= bits - 1
        count += 1
    return count


@inline_kernel
def _lowest_bit(bits: int) -> int:
    place = 0
    while not bits & (1 << place):
        place += 1
    return place
