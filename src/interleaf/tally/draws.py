"""Sums that test whether lists were drawn correctly: clicks by owner, clicks by rank, and impossible lists."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from interleaf.decode import Decoded
from interleaf.kernels.arrays import Array, Impression
from interleaf.kernels.buckets import BUCKETS
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.methods.registry import DRAFTED, METHODS, ResolvedMethod, resolve
from interleaf.tally.page_sums import POSITIONS

SLOTS, CLICKS, COIN_SLOTS, COIN_CLICKS = range(4)
SHOWN, CLICKED = range(2)
DECIDED, IMPOSSIBLE = range(2)
TEXTS, LENGTH = range(2)
# Which lists a method can draw. ANY: all lists. CONSIDERATE: no document is above its best rank. NEXT: each document
# is the best remaining one of some ranker. DRAFT: it is the best remaining one of its owner, and each ranker picks once
# per round.
ANY, CONSIDERATE, NEXT, DRAFT = range(4)
_POSITIONS = POSITIONS
_WORD = 64
MAX_DRAFTERS = 62  # rankers that fit into a word of bits
_ONE = np.uint64(1)


class Draws(NamedTuple):
    """`owners[bucket, ranker]`: owned slots, clicks on them, and both again for slots that a coin flip assigned.
    `ranks[position]`: documents shown there, and clicked. `lists`: number of lists that were checked, and of impossible
    ones. `characters[bucket, ranker]`: owned documents whose text has a known length, and their characters.

    A coin flip assigns a slot if its document is the best remaining one of every ranker. Then neither the document nor
    the documents above depend on the coin.
    """

    owners: Array
    ranks: Array
    lists: Array
    characters: Array

    @classmethod
    def empty(cls, rankers: int) -> Draws:
        return cls(
            np.zeros((BUCKETS, rankers, 4), np.int64),
            np.zeros((POSITIONS, 2), np.int64),
            np.zeros(2, np.int64),
            np.zeros((BUCKETS, rankers, 2), np.int64),
        )

    def add_ranks(self, decoded: Decoded) -> None:
        """Count the clicks of any lists by rank."""
        _add_ranks(decoded.counts, decoded.clicked, self.ranks)

    def add_lists(self, buckets: Array, decoded: Decoded, characters: Array) -> None:
        """Add interleaved lists; `characters[row, position]` is -1 for an unknown length, and may have no positions."""
        has = decoded.has
        logged = np.stack([has["ranks"], has["teams"], has["lengths"]])
        rule = rule_of(resolve(decoded.design.method))
        if rule == DRAFT and len(decoded.design.rankers) > MAX_DRAFTERS:
            rule = NEXT
        _add_lists(buckets, decoded.impressions, decoded.counts, decoded.clicked, logged, rule, characters, self)

    def reorder(self, order: list[int]) -> Draws:
        return self._replace(owners=self.owners[:, order], characters=self.characters[:, order])


def rule_of(chosen: ResolvedMethod) -> int:
    """Which lists a method can draw, judged by ranks and owners."""
    method = METHODS[chosen.method.same_lists_as] if chosen.method.same_lists_as else chosen.method
    if method.owners_given_list == DRAFTED:
        return DRAFT
    if method.takes_best:
        return NEXT
    return CONSIDERATE if method.claims.considerate and method.schemes else ANY


@kernel
def _add_ranks(counts: Array, clicked: Array, ranks: Array) -> None:
    for row in range(len(counts)):
        for position in range(min(counts[row], _POSITIONS)):
            ranks[position, SHOWN] += 1
            ranks[position, CLICKED] += clicked[row, position]


@kernel
def _add_lists(
    buckets: Array,
    impressions: Impression,
    counts: Array,
    clicked: Array,
    logged: Array,
    rule: int,
    characters: Array,
    into: Draws,
) -> None:
    ranks, teams, owners = impressions.ranks, impressions.teams, into.owners
    rankers = ranks.shape[1]
    shown, depths = np.zeros(rankers, np.uint64), np.zeros(rankers, np.int64)
    for row in range(len(buckets)):
        bucket, count = buckets[row], counts[row]
        has_ranks, has_teams = logged[0, row], logged[1, row]
        is_told = has_ranks or has_teams
        if not has_ranks:  # the owners may be known for clicked documents only
            for position in range(count):
                is_told &= teams[row, position] >= 0
        for position in range(count if is_told else 0):
            owner = teams[row, position] if has_teams else _better(ranks, row, position)
            if owner >= 0:
                owners[bucket, owner, SLOTS] += 1
                owners[bucket, owner, CLICKS] += clicked[row, position]
                if position < characters.shape[1] and characters[row, position] >= 0:
                    into.characters[bucket, owner, TEXTS] += 1
                    into.characters[bucket, owner, LENGTH] += characters[row, position]
        if rule == ANY or not has_ranks:
            continue
        into.lists[DECIDED] += 1
        if rule == DRAFT and has_teams:
            can_be = _walk(row, bucket, impressions, count, clicked, logged[2, row], shown, depths, owners)
        else:
            can_be = _can_be(row, ranks, count, rule, shown)
        into.lists[IMPOSSIBLE] += not can_be


@inline_kernel
def _better(ranks: Array, row: int, position: int) -> int:
    """The ranker with the best rank of a document, -1 for a tie."""
    best, owner = 0, -1
    for ranker in range(ranks.shape[1]):
        rank = ranks[row, ranker, position]
        if rank > 0 and (best == 0 or rank < best):
            best, owner = rank, ranker
        elif rank > 0 and rank == best:
            owner = -1
    return owner


@inline_kernel
def _is_best(rank: int, shown: Any) -> bool:
    """Whether all better documents of a ranker are shown above; `shown` has a bit for each rank shown above."""
    if rank < 1 or rank > _WORD:
        return False
    better = (_ONE << np.uint64(rank - 1)) - _ONE
    return bool(shown & better == better)


@inline_kernel
def _bit(rank: int) -> Any:
    """The bit of a rank in a word; 0 for a rank that does not fit, which no best document has."""
    return _ONE << np.uint64(rank - 1) if 0 < rank <= _WORD else np.uint64(0)


@inline_kernel
def _can_be(row: int, ranks: Array, count: int, rule: int, shown: Array) -> bool:
    """Whether the rule allows the list: each document is the next one of some ranker, or not above its best rank."""
    shown[:] = 0
    for position in range(min(count, _WORD)):
        is_some = False
        for ranker in range(ranks.shape[1]):
            rank = ranks[row, ranker, position]
            is_some |= _is_best(rank, shown[ranker]) if rule != CONSIDERATE else 0 < rank <= position + 1
        if not is_some:
            return False
        for ranker in range(ranks.shape[1]):
            shown[ranker] |= _bit(ranks[row, ranker, position])
    return True


@inline_kernel
def _walk(
    row: int,
    bucket: int,
    impressions: Impression,
    count: int,
    clicked: Array,
    has_lengths: bool,
    shown: Array,
    depths: Array,
    owners: Array,
) -> bool:
    """Whether a draft can produce this list with these owners; counts the slots that a coin flip assigned."""
    ranks, teams, lengths = impressions.ranks, impressions.teams, impressions.lengths
    rankers = ranks.shape[1]
    everyone = (1 << rankers) - 1
    shown[:], depths[:] = 0, 0
    picked, has_rounds, is_fair, in_prefix = 0, has_lengths, True, True
    for position in range(min(count, _WORD)):
        best = able = 0
        for ranker in range(rankers):
            rank = ranks[row, ranker, position]
            in_prefix &= rank == position + 1
            best |= _is_best(rank, shown[ranker]) << ranker
            able |= (depths[ranker] < lengths[row, ranker]) << ranker
        owner = teams[row, position]
        if best == 0 or (owner >= 0 and best >> owner & 1 == 0):
            return False
        if owner < 0:
            has_rounds &= in_prefix  # in a shared prefix, nobody owns the slot; elsewhere it is unknown who picked
        elif has_rounds:
            if able & ~picked == 0:
                picked = 0
            if (able & ~picked) >> owner & 1 == 0:
                return False
            is_fair = (is_fair or picked == 0) and best == everyone
            if is_fair:
                owners[bucket, owner, COIN_SLOTS] += 1
                owners[bucket, owner, COIN_CLICKS] += clicked[row, position]
            picked |= 1 << owner
        for ranker in range(rankers):
            shown[ranker] |= _bit(ranks[row, ranker, position])
            depths[ranker] += ranks[row, ranker, position] > 0
    return True
