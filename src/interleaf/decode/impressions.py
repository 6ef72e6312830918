"""What credit needs to know of every row: ranks, teams, sizes and choices, as logged or as the rankings say."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.decode import reasons
from interleaf.decode.columns import Lists, column, lists, numbers, texts, there
from interleaf.decode.ranks import check, derived_ranks, logged_lengths, logged_ranks, logged_rows
from interleaf.interleaving.rankings import MOST_DOCUMENTS
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array, Impression

KNOWN = ("ranks", "teams", "lengths", "sizes", "choices")


class Found(NamedTuple):
    """Impressions with how many documents each shows, and by row which of `KNOWN` it knows."""

    impressions: Impression
    counts: Array
    has: dict[str, Array]


class Hashed(NamedTuple):
    """Lists of documents, as hashes: of the shown lists, and of rankings within rows."""

    shown: Array
    inner: Array
    ranked: Array


class Shown:
    """The columns of a batch that say what was shown, and where it came from."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        names = ("ranks", "teams", "lengths", "choices", "documents", "rankings")
        self._lists = {name: lists(found) for name in names if (found := column(batch, name)) is not None}
        self._union = column(batch, "union")
        self._rows = batch.num_rows
        for name in ("ranks", "rankings"):
            if name in self._lists:
                self._lists[f"{name} inside"] = lists(self._lists[name].values)

    def width(self, rows: Array) -> int:
        """Room for the longest list of these rows, as far as lists may be long."""
        longest = 1
        for name in ("documents", "teams", "ranks"):
            if name in self._lists:
                longest = max(longest, int(self._sizes[name][rows].max(initial=0)))
        return min(longest, reasons.MOST_SHOWN)

    def find(self, rankers: int, rows: Array, width: int, marks: Array) -> Found:
        """The impressions of these rows; a row that cannot be used is marked with the reason."""
        size = len(rows)
        found = Impression(
            np.zeros((size, rankers, width), np.int32),
            np.full((size, width), -1, np.int8),
            np.zeros((size, rankers), np.int32),
            np.zeros(size, np.int32),
            np.zeros((size, width), np.int32),
        )
        counts, has = self._counts(rows), {name: self._there(name, rows) for name in KNOWN}
        marks[(counts < 0) & (marks == 0)] = reasons.NO_RANKS
        marks[(counts > width) & (marks == 0)] = reasons.LONG
        self._copy(rows, found, counts, has, marks)
        self._derive(rows, found, has, marks)
        sizes = found.lengths, found.union, found.choices
        check(found.ranks, *sizes, counts, has["ranks"], has["sizes"], has["choices"], marks)
        return Found(found, counts, has)

    def _counts(self, rows: Array) -> Array:
        """How many documents are shown, by the first column that can tell; -1 where none can."""
        counts = np.full(len(rows), -1, np.int64)
        for name in ("documents", "ranks", "teams"):
            if name in self._lists:
                counts = np.where((counts < 0) & self._there(name, rows), self._sizes[name][rows], counts)
        return counts

    @cached_property
    def _sizes(self) -> dict[str, Array]:
        """The length of each row's list; of ranks, that of its first ranker."""
        sizes = {name: np.diff(found.offsets) for name, found in self._lists.items()}
        if "ranks" in sizes:
            inside = np.append(sizes["ranks inside"], 0)
            starts = np.minimum(self._lists["ranks"].offsets[:-1], len(inside) - 1)
            sizes["ranks"] = np.where(sizes["ranks"] > 0, inside[starts], 0)
        return sizes

    def _there(self, name: str, rows: Array) -> Array:
        if name == "sizes":
            known = self._there("lengths", rows)
            return known & there(self._union)[rows] if self._union is not None else np.zeros(len(rows), np.bool_)
        if name not in self._lists:
            return np.zeros(len(rows), np.bool_)
        found: Array = self._lists[name].there[rows]
        return found

    def _copy(self, rows: Array, found: Impression, counts: Array, has: dict[str, Array], marks: Array) -> None:
        """What is logged, as it is logged."""
        usable, rankers = marks == 0, found.ranks.shape[1]
        for name in KNOWN:
            some = np.flatnonzero(has[name] & usable)
            if not len(some):
                continue
            if name == "lengths":
                logged = self._lists["lengths"]
                values = np.minimum(numbers(logged.values, -1, pa.int64()), MOST_DOCUMENTS + 1)
                logged_lengths(some, rows, logged.offsets, values, found.lengths, marks)
            elif name == "sizes":
                found.union[some] = np.clip(numbers(self._union, 0, pa.int64())[rows[some]], 0, 2**31 - 1)
            elif name == "ranks":
                outer, inner = self._lists["ranks"], self._lists["ranks inside"]
                values = numbers(inner.values, -1)
                logged_ranks(some, rows, outer.offsets, inner.offsets, values, counts, found.ranks, marks)
            else:
                logged = self._lists[name]
                values = numbers(logged.values, -2)
                teams = (found.teams, (-1, rankers - 1, reasons.TEAMS))
                into, bounds = teams if name == "teams" else (found.choices, (1, MOST_DOCUMENTS, reasons.CHOICES))
                logged_rows(some, rows, logged.offsets, values, counts, into, bounds, marks)

    def _derive(self, rows: Array, found: Impression, has: dict[str, Array], marks: Array) -> None:
        """What the input rankings can tell of what is not logged."""
        lacking = ~(has["ranks"] & has["sizes"] & has["choices"])
        some = np.flatnonzero((marks == 0) & lacking & self._there("rankings", rows) & self._there("documents", rows))
        if not len(some):
            return
        size = len(some)
        derived = Impression(
            np.zeros((size, *found.ranks.shape[1:]), np.int32),
            found.teams,
            np.zeros((size, found.ranks.shape[1]), np.int32),
            np.zeros(size, np.int32),
            np.zeros((size, found.choices.shape[1]), np.int32),
        )
        outer, documents = self._lists["rankings"].offsets, self._lists["documents"].offsets
        inner_marks = marks[some]
        derived_ranks(rows[some], documents, outer, self._hashed, derived, inner_marks, self._room(rows[some]))
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

    def _room(self, rows: Array) -> Array:
        """A table for the documents of any of these rows."""
        outer, inner = self._lists["rankings"].offsets, self._lists["rankings inside"].offsets
        most = int((inner[outer[rows + 1]] - inner[outer[rows]]).max(initial=1))
        return np.zeros(1 << (2 * most - 1).bit_length(), np.uint64)

    @cached_property
    def _hashed(self) -> Hashed:
        inner: Lists = self._lists["rankings inside"]
        shown, ranked = texts(self._lists["documents"].values), texts(inner.values)
        return Hashed(
            buckets.hashes(buckets.DOCUMENT, shown.offsets, shown.data),
            inner.offsets,
            buckets.hashes(buckets.DOCUMENT, ranked.offsets, ranked.data),
        )
