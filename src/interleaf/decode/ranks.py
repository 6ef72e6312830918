"""The rank matrix of every row, padded: as logged, or computed from the input rankings."""

from __future__ import annotations

from typing import Any

import numpy as np

from interleaf.compiled import kernel, part
from interleaf.decode import reasons
from interleaf.methods.arrays import Array, Impression

_RANKERS, _UNEVEN, _RANK, _TWICE = reasons.RANKERS, reasons.UNEVEN, reasons.RANK, reasons.TWICE
_SIZES, _TEAMS, _CHOICES = reasons.SIZES, reasons.TEAMS, reasons.CHOICES
_64, _ONE = 64, np.uint64(1)


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
        for ranker in range(rankers):
            start = inner[first + ranker]
            if inner[first + ranker + 1] - start != counts[place]:
                marks[place] = _UNEVEN
                break
            for position in range(counts[place]):
                ranks[place, ranker, position] = values[start + position]


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


@part
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
    some: Array, rows: Array, offsets: Array, values: Array, counts: Array, into: Array, most: int, marks: Array
) -> None:
    """Copy a list of a number a position (choices, or teams up to the last one); too large a number is no team."""
    for place in some:
        start = offsets[rows[place]]
        if offsets[rows[place] + 1] - start != counts[place]:
            marks[place] = _UNEVEN
            continue
        for position in range(counts[place]):
            value = values[start + position]
            if value < -1 or value > most:
                marks[place] = _TEAMS
            into[place, position] = value


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
def check(found: Impression, counts: Array, sized: Array, has_choices: Array, marks: Array) -> None:
    """Mark rows that no rankings can have led to."""
    for place in range(len(counts)):
        if not marks[place]:
            marks[place] = _check_ranks(found, place, counts[place], sized[place])
        if has_choices[place] and not marks[place]:
            marks[place] = _check_choices(found.choices, place, counts[place])


@part
def _check_ranks(found: Impression, place: int, count: int, sized: bool) -> int:
    ranks, total, longest = found.ranks, 0, 0
    for ranker in range(ranks.shape[1]):
        deepest, seen = 0, np.uint64(0)
        for position in range(count):
            rank = ranks[place, ranker, position]
            deepest = max(deepest, rank)
            if rank < 0:
                return _RANK
            if rank > _64:
                for above in range(position):
                    if ranks[place, ranker, above] == rank:
                        return _TWICE
            elif rank > 0:
                bit = _ONE << np.uint64(rank - 1)
                if seen & bit:
                    return _TWICE
                seen |= bit
        length = found.lengths[place, ranker]
        if sized and deepest > length:
            return _SIZES
        total += length
        longest = max(longest, length)
    return _SIZES if sized and not longest <= found.union[place] <= total else 0


@part
def _check_choices(choices: Array, place: int, count: int) -> int:
    for position in range(count):
        above = choices[place, position - 1] if position > 0 else 1
        if choices[place, position] < above:
            return _CHOICES
    return 0
