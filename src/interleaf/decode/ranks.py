"""The rank matrix of every row, padded: as logged, or computed from the input rankings."""

from __future__ import annotations

from typing import Any

import numpy as np

from interleaf.decode import reasons
from interleaf.interleaving.rankings import MOST_DOCUMENTS
from interleaf.kernels.arrays import Array, Impression
from interleaf.kernels.jit import inline_kernel, kernel

_RANKERS, _UNEVEN, _RANK, _TWICE = reasons.RANKERS, reasons.UNEVEN, reasons.RANK, reasons.TWICE
_SIZES, _CHOICES, _NOBODY, _MOST = reasons.SIZES, reasons.CHOICES, reasons.NOBODY, MOST_DOCUMENTS
_64, _ONE, _TWO, _FOUR, _TOP = 64, np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
_PAIRS, _FOURS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_BYTES, _SUM = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)


@kernel
def logged_ranks(
    some: Array, rows: Array, outer: Array, inner: Array, values: Array, counts: Array, ranks: Array, marks: Array
) -> None:
    """Copy `ranks[ranker][position]` of some of the rows."""
    rankers = ranks.shape[1]
    for place in some:
        first, last = outer[rows[place]], outer[rows[place] + 1]
        if last - first != rankers:
            marks[place] = _RANKERS
            continue
        count = counts[place]
        for ranker in range(rankers):
            start = inner[first + ranker]
            if inner[first + ranker + 1] - start != count:
                marks[place] = _UNEVEN
                break
            for position in range(count):
                rank = values[start + position]
                ranks[place, ranker, position] = rank if -1 <= rank <= _MOST else -1


@kernel
def derived_ranks(
    rows: Array, documents: Array, outer: Array, hashed: Any, found: Impression, marks: Array, table: Array
) -> None:
    """Find the shown documents in the input rankings; and how many there are to choose from.

    `table` is room for a set of hashes: twice as large as the rankings of any row hold together, a power of two.
    """
    rankers, size = found.ranks.shape[1], found.ranks.shape[2]
    for place in range(len(rows)):
        first, last = outer[rows[place]], outer[rows[place] + 1]
        start, end = documents[rows[place]], documents[rows[place] + 1]
        if last - first != rankers:
            marks[place] = _RANKERS
            continue
        for ranker in range(rankers):
            top, bottom = hashed.inner[first + ranker], hashed.inner[first + ranker + 1]
            found.lengths[place, ranker] = bottom - top
            for position in range(end - start):
                for rank in range(top, bottom):
                    if hashed.ranked[rank] == hashed.shown[start + position]:
                        found.ranks[place, ranker, position] = rank - top + 1
                        break
        table[:] = 0
        union, longest = 0, found.lengths[place].max()
        for rank in range(max(longest, size)):
            for ranker in range(rankers):
                if rank < found.lengths[place, ranker]:
                    union += _is_new(table, hashed.ranked[hashed.inner[first + ranker] + rank])
            if rank < size:
                found.choices[place, rank] = union
        found.union[place] = union


@inline_kernel
def _is_new(table: Array, item: Any) -> bool:
    """Put an item into an open-addressed set; whether it was not there. Zero stands for an empty place."""
    item = max(item, _ONE)
    places = np.uint64(len(table) - 1)
    place = item & places
    while table[place] != 0:
        if table[place] == item:
            return False
        place = (place + _ONE) & places
    table[place] = item
    return True


@kernel
def logged_rows(
    some: Array, rows: Array, offsets: Array, values: Array, counts: Array, into: Array, bounds: Any, marks: Array
) -> None:
    """Copy a list of a number a position: teams, choices; `bounds` are least, most, and what to mark others as."""
    least, most, reason = bounds
    for place in some:
        start, count = offsets[rows[place]], counts[place]
        if offsets[rows[place] + 1] - start != count:
            marks[place] = _UNEVEN
            continue
        wrong = False
        for position in range(count):
            value = values[start + position]
            wrong |= (value < least) | (value > most)
            into[place, position] = value
        if wrong:
            marks[place] = reason


@kernel
def logged_lengths(some: Array, rows: Array, offsets: Array, values: Array, into: Array, marks: Array) -> None:
    """Copy a number a ranker."""
    for place in some:
        start = offsets[rows[place]]
        if offsets[rows[place] + 1] - start != into.shape[1]:
            marks[place] = _RANKERS
            continue
        for ranker in range(into.shape[1]):
            into[place, ranker] = values[start + ranker]


@kernel
def check(
    ranks: Array,
    lengths: Array,
    union: Array,
    choices: Array,
    counts: Array,
    ranked: Array,
    sized: Array,
    has_choices: Array,
    marks: Array,
) -> None:
    """Mark rows that no rankings can have led to.

    Ranks are bits of a word: as many as there are ranks, or one came twice. All is in one loop, and the inner one is
    such that it is vectorised: every rank of every log comes by.
    """
    for place in range(len(counts)):
        # A row that is marked as too long has more documents than there are columns.
        count, total, longest, mark = min(counts[place], ranks.shape[2]), 0, 0, marks[place]
        for ranker in range(ranks.shape[1]):
            lowest = deepest = low = 0
            seen = np.uint64(0)
            for position in range(count):
                rank = ranks[place, ranker, position]
                is_low = (rank > 0) & (rank <= _64)
                seen |= np.uint64(is_low) << np.uint64((rank - 1) & 63)
                low += is_low
                lowest, deepest = min(lowest, rank), max(deepest, rank)
            if mark == 0 and lowest < 0:
                mark = _RANK
            if mark == 0 and (_ones(seen) != low or (deepest > _64 and _is_repeated(ranks, place, ranker, count))):
                mark = _TWICE
            if mark == 0 and sized[place] and deepest > lengths[place, ranker]:
                mark = _SIZES
            total += lengths[place, ranker]
            longest = max(longest, lengths[place, ranker])
        if mark == 0 and ranked[place] and _has_stranger(ranks, place, count):
            mark = _NOBODY
        if mark == 0 and sized[place] and not (max(longest, count) <= union[place] <= total and longest <= _MOST):
            mark = _SIZES
        most = union[place] if sized[place] else _MOST
        if mark == 0 and has_choices[place] and not _is_rising(choices, place, count, most):
            mark = _CHOICES
        marks[place] = mark


@inline_kernel
def _has_stranger(ranks: Array, place: int, count: int) -> bool:
    """Whether a document is shown that no ranker has."""
    for position in range(count):
        best = 0
        for ranker in range(ranks.shape[1]):
            best = max(best, ranks[place, ranker, position])
        if best == 0:
            return True
    return False


@inline_kernel
def _is_rising(choices: Array, place: int, count: int, most: int) -> bool:
    """Whether there are never fewer to choose from than above, than are shown by then, nor more than there are."""
    for position in range(count):
        above = choices[place, position - 1] if position > 0 else 1
        if not max(above, position + 1) <= choices[place, position] <= most:
            return False
    return True


@inline_kernel
def _ones(word: Any) -> int:
    """How many bits are set: added up in pairs, fours and bytes."""
    word = word - ((word >> _ONE) & _PAIRS)
    word = (word & _FOURS) + ((word >> _TWO) & _FOURS)
    word = (word + (word >> _FOUR)) & _BYTES
    return int((word * _SUM) >> _TOP)


@inline_kernel
def _is_repeated(ranks: Array, place: int, ranker: int, count: int) -> bool:
    """Whether a rank beyond those that fit a word of bits comes twice."""
    for position in range(count):
        rank = ranks[place, ranker, position]
        for above in range(position):
            if rank > _64 and ranks[place, ranker, above] == rank:
                return True
    return False
