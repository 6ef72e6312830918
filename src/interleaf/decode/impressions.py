"""Ranks, teams, lengths and choices of each row as padded arrays, as logged or computed from the rankings."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.decode.columns import ListColumn, column, is_there, list_column, numbers, text_column
from interleaf.interleaving.rankings import MAX_DOCUMENTS
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array, Impression
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.log.drop_reasons import DropReason
from interleaf.log.schema import MAX_SHOWN

_RANKER_COUNT, _LIST_LENGTH = DropReason.RANKER_COUNT.mark, DropReason.LIST_LENGTH.mark
_WRONG_RANK, _DUPLICATE_RANK = DropReason.WRONG_RANK.mark, DropReason.DUPLICATE_RANK.mark
_WRONG_SIZES, _WRONG_CHOICES = DropReason.WRONG_SIZES.mark, DropReason.WRONG_CHOICES.mark
_UNRANKED_DOCUMENT, _MAX = DropReason.UNRANKED_DOCUMENT.mark, MAX_DOCUMENTS
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
            marks[place] = _RANKER_COUNT
            continue
        count = counts[place]
        for ranker in range(rankers):
            start = inner[first + ranker]
            if inner[first + ranker + 1] - start != count:
                marks[place] = _LIST_LENGTH
                break
            for position in range(count):
                rank = values[start + position]
                ranks[place, ranker, position] = rank if -1 <= rank <= _MAX else -1


@kernel
def logged_unshown(some: Array, rows: Array, outer: Array, inner: Array, values: Array, into: Array) -> None:
    """Copy `unshown_ranks[ranker][document]` of some of the rows; what cannot be a rank becomes 0."""
    for place in some:
        first = outer[rows[place]]
        for ranker in range(min(outer[rows[place] + 1] - first, into.shape[1])):
            start, end = inner[first + ranker], inner[first + ranker + 1]
            for document in range(min(end - start, into.shape[2])):
                into[place, ranker, document] = min(max(values[start + document], 0), _MAX)


@kernel
def derived_unshown(some: Array, rows: Array, documents: Array, outer: Array, hashed: Any, into: Array) -> None:
    """Compute the ranks of unshown documents from the shown documents and the input rankings."""
    unshown = np.zeros(into.shape[2], np.uint64)
    for place in some:
        first, start = outer[rows[place]], documents[rows[place]]
        count, size = documents[rows[place] + 1] - start, 0
        for ranker in range(min(outer[rows[place] + 1] - first, into.shape[1])):
            top, bottom = hashed.inner[first + ranker], hashed.inner[first + ranker + 1]
            for rank in range(min(count, bottom - top)):
                item, is_shown, number = hashed.ranked[top + rank], False, 0
                for position in range(count):
                    is_shown |= hashed.shown[start + position] == item
                while number < size and unshown[number] != item:
                    number += 1
                if not is_shown and number < len(unshown):
                    unshown[number] = item
                    size = max(size, number + 1)
                    into[place, ranker, number] = rank + 1


@kernel
def derived_ranks(
    rows: Array, documents: Array, outer: Array, hashed: Any, found: Impression, marks: Array, table: Array
) -> None:
    """Compute ranks, lengths, union and choices from the shown documents and the input rankings.

    `table` is a buffer for a set of hashes: a power of two, at least twice the total length of any row's rankings.
    """
    rankers, size = found.ranks.shape[1], found.ranks.shape[2]
    for place in range(len(rows)):
        first, last = outer[rows[place]], outer[rows[place] + 1]
        start, end = documents[rows[place]], documents[rows[place] + 1]
        if last - first != rankers:
            marks[place] = _RANKER_COUNT
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
    """Add an item to an open-addressed set; returns whether it is new. Zero marks an empty place."""
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
    """Copy lists with one number per position; `bounds` are the minimum, the maximum, and the mark for other values."""
    least, most, reason = bounds
    for place in some:
        start, count = offsets[rows[place]], counts[place]
        if offsets[rows[place] + 1] - start != count:
            marks[place] = _LIST_LENGTH
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
    """Copy lists with one number per ranker."""
    for place in some:
        start = offsets[rows[place]]
        if offsets[rows[place] + 1] - start != into.shape[1]:
            marks[place] = _RANKER_COUNT
            continue
        for ranker in range(into.shape[1]):
            into[place, ranker] = values[start + ranker]


@kernel
def check(
    found: Impression, counts: Array, has_ranks: Array, has_sizes: Array, has_choices: Array, marks: Array
) -> None:
    """Mark rows that no input rankings can produce.

    Ranks are collected as bits of a word; if fewer bits are set than there are ranks, a rank is repeated. The inner
    loop is written so that it is vectorised, because it visits every rank of a log.
    """
    ranks, _, lengths, union, choices, _, _ = found
    for place in range(len(counts)):
        # A row that was marked as too long has more documents than the array has columns.
        count, total, longest, mark = min(counts[place], ranks.shape[2]), 0, 0, marks[place]
        for ranker in range(ranks.shape[1]):
            lowest = deepest = low = 0
            rank_bits = np.uint64(0)
            for position in range(count):
                rank = ranks[place, ranker, position]
                is_low = (rank > 0) & (rank <= _64)
                rank_bits |= np.uint64(is_low) << np.uint64((rank - 1) & 63)
                low += is_low
                lowest, deepest = min(lowest, rank), max(deepest, rank)
            if mark == 0 and lowest < 0:
                mark = _WRONG_RANK
            if mark == 0 and (_ones(rank_bits) != low or (deepest > _64 and _is_repeated(ranks, place, ranker, count))):
                mark = _DUPLICATE_RANK
            if mark == 0 and has_sizes[place] and deepest > lengths[place, ranker]:
                mark = _WRONG_SIZES
            total += lengths[place, ranker]
            longest = max(longest, lengths[place, ranker])
        if mark == 0 and has_ranks[place] and _has_stranger(ranks, place, count):
            mark = _UNRANKED_DOCUMENT
        if mark == 0 and has_sizes[place] and not (max(longest, count) <= union[place] <= total and longest <= _MAX):
            mark = _WRONG_SIZES
        most = union[place] if has_sizes[place] else _MAX
        if mark == 0 and has_choices[place] and not _is_rising(choices, place, count, most):
            mark = _WRONG_CHOICES
        marks[place] = mark


@inline_kernel
def _has_stranger(ranks: Array, place: int, count: int) -> bool:
    """Whether a shown document is in no ranking."""
    for position in range(count):
        best = 0
        for ranker in range(ranks.shape[1]):
            best = max(best, ranks[place, ranker, position])
        if best == 0:
            return True
    return False


@inline_kernel
def _is_rising(choices: Array, place: int, count: int, most: int) -> bool:
    """Whether choices never fall, are at least the number of documents shown so far, and at most `most`."""
    for position in range(count):
        above = choices[place, position - 1] if position > 0 else 1
        if not max(above, position + 1) <= choices[place, position] <= most:
            return False
    return True


@inline_kernel
def _ones(word: Any) -> int:
    """The number of bits that are set, added up in pairs, fours and bytes."""
    word = word - ((word >> _ONE) & _PAIRS)
    word = (word & _FOURS) + ((word >> _TWO) & _FOURS)
    word = (word + (word >> _FOUR)) & _BYTES
    return int((word * _SUM) >> _TOP)


@inline_kernel
def _is_repeated(ranks: Array, place: int, ranker: int, count: int) -> bool:
    """Whether a rank above 64, which does not fit into a word of bits, is repeated."""
    for position in range(count):
        rank = ranks[place, ranker, position]
        for above in range(position):
            if rank > _64 and ranks[place, ranker, above] == rank:
                return True
    return False


KNOWN = ("ranks", "teams", "lengths", "sizes", "choices", "unshown_ranks")


class Hashed(NamedTuple):
    """Hashes of the documents in shown lists and in input rankings."""

    shown: Array
    inner: Array
    ranked: Array


def _empty_impressions(size: int, rankers: int, width: int, unshown: int = 0) -> Impression:
    return Impression.of(
        np.zeros((size, rankers, width), np.int32),
        np.full((size, width), -1, np.int8),
        np.zeros((size, rankers), np.int32),
        np.zeros(size, np.int32),
        np.zeros((size, width), np.int32),
        np.zeros((size, rankers, unshown), np.int32),
    )


class ShownColumns:
    """The columns of a batch about shown lists and input rankings."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        names = ("ranks", "unshown_ranks", "teams", "lengths", "choices", "documents", "rankings")
        self._lists = {name: list_column(values) for name in names if (values := column(batch, name)) is not None}
        self._union = column(batch, "union")
        self._rows = batch.num_rows
        for name in ("ranks", "unshown_ranks", "rankings"):
            if name in self._lists:
                self._lists[f"{name} inside"] = list_column(self._lists[name].values)

    def width(self, rows: Array) -> int:
        """The length of the longest list of these rows, at most `MAX_SHOWN`."""
        longest = 1
        for name in ("documents", "teams", "ranks"):
            if name in self._lists:
                longest = max(longest, int(self._sizes[name][rows].max(initial=0)))
        return min(longest, MAX_SHOWN)

    def find(self, rankers: int, rows: Array, width: int, marks: Array) -> tuple[Impression, Array, dict[str, Array]]:
        """The impressions of these rows, their numbers of documents, and which of `KNOWN` they have; marks bad rows."""
        impressions = _empty_impressions(len(rows), rankers, width, self._unshown_width(rankers, rows, width))
        counts = np.full(len(rows), -1, np.int64)  # -1: not known from any column
        for name in ("documents", "ranks", "teams"):
            if name in self._lists:
                counts = np.where((counts < 0) & self._there(name, rows), self._sizes[name][rows], counts)
        has = {name: self._there(name, rows) for name in KNOWN}
        marks[(counts < 0) & (marks == 0)] = DropReason.NO_RANKS.mark
        marks[(counts > width) & (marks == 0)] = DropReason.TOO_MANY_DOCUMENTS.mark
        self._copy(rows, impressions, counts, has, marks)
        self._derive(rows, impressions, has, marks)
        check(impressions, counts, has["ranks"], has["sizes"], has["choices"], marks)
        return impressions, counts, has

    def _unshown_width(self, rankers: int, rows: Array, width: int) -> int:
        """Room for the unshown documents of a row."""
        if "rankings" in self._lists and "documents" in self._lists:
            return rankers * width
        if "unshown_ranks" not in self._lists:
            return 0
        offsets, inner = self._lists["unshown_ranks"].offsets, np.append(self._sizes["unshown_ranks inside"], 0)
        longest = int(inner[np.minimum(offsets[rows], len(inner) - 1)].max(initial=0))
        return min(longest, rankers * width)

    @cached_property
    def _sizes(self) -> dict[str, Array]:
        """The length of each row's list; for ranks, the length of the first ranker's list."""
        sizes = {name: np.diff(lists.offsets) for name, lists in self._lists.items()}
        if "ranks" in sizes:
            inside = np.append(sizes["ranks inside"], 0)
            starts = np.minimum(self._lists["ranks"].offsets[:-1], len(inside) - 1)
            sizes["ranks"] = np.where(sizes["ranks"] > 0, inside[starts], 0)
        return sizes

    def _there(self, name: str, rows: Array) -> Array:
        if name == "sizes" and self._union is not None:
            return self._there("lengths", rows) & is_there(self._union)[rows]
        return np.asarray(self._lists[name].there[rows]) if name in self._lists else np.zeros(len(rows), np.bool_)

    def _copy(self, rows: Array, found: Impression, counts: Array, has: dict[str, Array], marks: Array) -> None:
        usable, rankers = marks == 0, found.ranks.shape[1]
        for name in KNOWN:
            some = np.flatnonzero(has[name] & usable)
            if not len(some):
                continue
            if name == "lengths":
                logged = self._lists["lengths"]
                values = np.minimum(numbers(logged.values, -1, pa.int64()), MAX_DOCUMENTS + 1)
                logged_lengths(some, rows, logged.offsets, values, found.lengths, marks)
            elif name == "sizes":
                found.union[some] = np.clip(numbers(self._union, 0, pa.int64())[rows[some]], 0, 2**31 - 1)
            elif name == "unshown_ranks":
                outer, inner = self._lists["unshown_ranks"], self._lists["unshown_ranks inside"]
                values = numbers(inner.values, 0)
                logged_unshown(some, rows, outer.offsets, inner.offsets, values, found.unshown_ranks)
            elif name == "ranks":
                outer, inner = self._lists["ranks"], self._lists["ranks inside"]
                values = numbers(inner.values, -1)
                logged_ranks(some, rows, outer.offsets, inner.offsets, values, counts, found.ranks, marks)
            else:
                logged = self._lists[name]
                into, bounds = {
                    "teams": (found.teams, (-1, rankers - 1, DropReason.WRONG_TEAM.mark)),
                    "choices": (found.choices, (1, MAX_DOCUMENTS, DropReason.WRONG_CHOICES.mark)),
                }[name]
                logged_rows(some, rows, logged.offsets, numbers(logged.values, -2), counts, into, bounds, marks)

    def _derive(self, rows: Array, found: Impression, has: dict[str, Array], marks: Array) -> None:
        """Compute values that are not logged from the input rankings."""
        self._derive_unshown(rows, found, has, marks)
        lacking = ~(has["ranks"] & has["sizes"] & has["choices"])
        some = np.flatnonzero((marks == 0) & lacking & self._there("rankings", rows) & self._there("documents", rows))
        if not len(some):
            return
        derived = _empty_impressions(len(some), *found.ranks.shape[1:])
        outer, documents = self._lists["rankings"].offsets, self._lists["documents"].offsets
        inner, inner_marks = self._lists["rankings inside"].offsets, marks[some]
        longest = int((inner[outer[rows[some] + 1]] - inner[outer[rows[some]]]).max(initial=1))
        table = np.zeros(1 << (2 * longest - 1).bit_length(), np.uint64)
        derived_ranks(rows[some], documents, outer, self._hashes, derived, inner_marks, table)
        marks[some] = inner_marks
        for name, values, new in (
            ("ranks", found.ranks, derived.ranks),
            ("sizes", found.lengths, derived.lengths),
            ("sizes", found.union, derived.union),
            ("choices", found.choices, derived.choices),
        ):
            missing = ~has[name][some]
            values[some[missing]] = new[missing]
        for name in ("ranks", "sizes", "lengths", "choices"):
            has[name][some] = True

    def _derive_unshown(self, rows: Array, found: Impression, has: dict[str, Array], marks: Array) -> None:
        is_there = self._there("rankings", rows) & self._there("documents", rows)
        some = np.flatnonzero((marks == 0) & ~has["unshown_ranks"] & is_there)
        if len(some):
            outer, documents = self._lists["rankings"].offsets, self._lists["documents"].offsets
            derived_unshown(some, rows, documents, outer, self._hashes, found.unshown_ranks)
            has["unshown_ranks"][some] = True

    @cached_property
    def _hashes(self) -> Hashed:
        inner: ListColumn = self._lists["rankings inside"]
        shown, ranked = text_column(self._lists["documents"].values), text_column(inner.values)
        return Hashed(
            buckets.hashes(buckets.DOCUMENT, shown.offsets, shown.data),
            inner.offsets,
            buckets.hashes(buckets.DOCUMENT, ranked.offsets, ranked.data),
        )
