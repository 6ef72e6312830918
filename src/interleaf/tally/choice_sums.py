"""Sums of an experiment that chooses the best of many rankers: by epoch, so that epochs are never taken together.

`cells`: for each unit, epoch and pair of rankers the sum of its scores, in units of 2^-24, and its impressions with an
event. Above `ROOM` cells, it holds a sample of units by hash, as `units.py` does, with all epochs of each.
`wins`: for each epoch and pair how many impressions each ranker won; ties are left out. `shown`: for each epoch and
ranker how many impressions had a list of this many rankers, one of which it was.

Rankers are numbered in the order of their names, and the first ranker of a pair has the smaller number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from interleaf.decode import Decoded
from interleaf.decode.scoring import Scored
from interleaf.kernels.arrays import Array, pairs
from interleaf.log.schema import ALONE, INTERLEAVED
from interleaf.methods.schemes import TOLERANCE
from interleaf.tally.bucket_sums import ONE

WAITING = 2**16  # added rows that are not summed yet
ROOM = 2**20  # cells
UNIT, EPOCH, FIRST, SECOND, SUM, CLICKED = range(6)  # columns of `cells`
WON, LOST = 3, 4  # columns of `wins`, after the epoch and the pair
RANKER, SIZE, LISTS = 1, 2, 3  # columns of `shown`, after the epoch


class SumTable:
    """Rows of `keys` integers that identify them, and `values` integers that are added up.

    >>> table = SumTable(1, 1)
    >>> table.add(np.array([[7, 1], [3, 2], [7, 5]]))
    >>> table.rows.tolist()
    [[3, 2], [7, 6]]
    """

    def __init__(self, keys: int, values: int) -> None:
        self.keys, self.width = keys, keys + values
        self._rows = np.zeros((0, self.width), np.int64)
        self._waiting: list[Array] = []
        self._number = 0

    def add(self, rows: Array) -> None:
        """Add rows; the same key may be in several of them."""
        if len(rows):
            self._waiting.append(np.asarray(rows, np.int64))
            self._number += len(rows)
        if self._number > WAITING + len(self._rows):
            self._add_up()

    @property
    def rows(self) -> Array:
        """One row for each key, in the order of the keys."""
        self._add_up()
        return self._rows

    @property
    def max_size(self) -> int:
        """At least the number of keys."""
        return len(self._rows) + self._number

    def _add_up(self) -> None:
        if not self._waiting:
            return
        rows = np.concatenate([self._rows, *self._waiting])
        rows = rows[np.lexsort(rows[:, : self.keys].T[::-1])]
        is_first = np.ones(len(rows), np.bool_)
        is_first[1:] = (rows[1:, : self.keys] != rows[:-1, : self.keys]).any(axis=1)
        starts = np.flatnonzero(is_first)
        self._rows = rows[starts]
        self._rows[:, self.keys :] = np.add.reduceat(rows[:, self.keys :], starts, axis=0)
        self._waiting, self._number = [], 0

    def replace(self, rows: Array) -> None:
        """Replace all rows by others, which are added up."""
        self._rows, self._waiting, self._number = np.zeros((0, self.width), np.int64), [], 0
        self.add(rows)


class ChoiceSums:
    """The sums; empty for other experiments."""

    def __init__(self, room: int = ROOM) -> None:
        self.names: tuple[str, ...] = ()
        self.room, self.level = room, 0
        self.cells, self.wins, self.shown = SumTable(4, 2), SumTable(3, 2), SumTable(3, 1)

    def __bool__(self) -> bool:
        return bool(self.names)

    def add_rows(self, rankers: Sequence[str], decoded: Decoded, scored: Scored | None, epochs: Array) -> None:
        """Add rows of a log; lists of the holdout, and those shown because a ranker failed, are not counted."""
        if decoded.design.arm in (INTERLEAVED, ALONE):
            self.add_shown(rankers, epochs)
        if scored is not None:
            self.add(rankers, scored, epochs)

    def add_shown(self, rankers: Sequence[str], epochs: Array) -> None:
        """Count impressions whose lists are of these rankers."""
        numbers = self._numbers_of(rankers)
        each, lists = np.unique(epochs, return_counts=True)
        for number in numbers:
            size = np.full(len(each), len(rankers))
            self.shown.add(np.stack([each, np.full(len(each), number), size, lists], axis=1))

    def add(self, rankers: Sequence[str], scored: Scored, epochs: Array) -> None:
        """Add impressions with their scores."""
        rows = np.flatnonzero(scored.decoded.has_event)
        owners = scored.columns if scored.owners is None else scored.owners
        scores = pair_scores(scored.columns[rows], scored.linear)
        sides = find_sides(owners[rows], scored.linear or scored.owners is not None)
        self.add_scores(rankers, scored.decoded.unit[rows], epochs[rows], scores, sides)

    def add_scores(self, rankers: Sequence[str], units: Array, epochs: Array, scores: Array, sides: Array) -> None:
        """Add `scores[row, pair]` of impressions with an event, and which ranker won, `sides[row, pair]` -1, 0 or 1."""
        numbers = self._numbers_of(rankers)
        is_sampled = units & np.uint64((1 << self.level) - 1) == 0
        for pair, (one, other) in enumerate(zip(*pairs(len(rankers)), strict=True)):
            sign = 1 if numbers[one] < numbers[other] else -1
            key = [np.full(len(units), number) for number in sorted((numbers[one], numbers[other]))]
            sums = sign * np.rint(scores[:, pair] * ONE).astype(np.int64)
            ones = np.ones(len(units), np.int64)
            self.cells.add(np.stack([units.view(np.int64), epochs, *key, sums, ones], axis=1)[is_sampled])
            side = sign * sides[:, pair]
            self.wins.add(np.stack([epochs, *key, side > 0, side < 0], axis=1))
        self._limit()

    def merge(self, other: ChoiceSums) -> None:
        """Add other sums."""
        if not other:
            return
        numbers = np.array(self._numbers_of(other.names), np.int64)
        self.level = max(self.level, other.level)
        for mine, theirs, columns in (
            (self.cells, other.cells, (FIRST, SECOND)),
            (self.wins, other.wins, (FIRST - 1, SECOND - 1)),
            (self.shown, other.shown, (RANKER,)),
        ):
            mine.add(_renumber(theirs.rows, columns, numbers))
        self._sample()
        self._limit()

    def arrays(self) -> dict[str, Array]:
        """The tables, for a file."""
        return {"cells": self.cells.rows, "wins": self.wins.rows, "shown": self.shown.rows}

    def fill(self, names: Iterable[str], level: int, tables: dict[str, Any]) -> None:
        """Read what `arrays` wrote; a table of another shape raises ValueError."""
        self.names, self.level = tuple(names), level
        for name, table in (("cells", self.cells), ("wins", self.wins), ("shown", self.shown)):
            rows = tables[name]
            if rows.dtype != np.int64 or rows.ndim != 2 or rows.shape[1] != table.width:
                raise ValueError(f"a table of {name} is of type {rows.dtype} and shape {rows.shape}")
            table.replace(rows)

    def _numbers_of(self, rankers: Sequence[str]) -> list[int]:
        """The numbers of rankers; new names may change the numbers of others, but not their order."""
        if new := set(rankers) - set(self.names):
            before, self.names = self.names, tuple(sorted({*self.names, *new}))
            places = {name: place for place, name in enumerate(self.names)}
            numbers = np.array([places[name] for name in before], np.int64)
            for table, columns in ((self.cells, (2, 3)), (self.wins, (1, 2)), (self.shown, (1,))):
                table.replace(_renumber(table.rows, columns, numbers))
        places = {name: place for place, name in enumerate(self.names)}
        return [places[name] for name in rankers]

    def _limit(self) -> None:
        """Sample fewer units if there are too many cells."""
        while self.cells.max_size > self.room and len(self.cells.rows) > self.room:
            self.level += 1
            self._sample()

    def _sample(self) -> None:
        if self.level:
            rows = self.cells.rows
            self.cells.replace(rows[rows[:, UNIT] & ((1 << self.level) - 1) == 0])


def pair_scores(columns: Array, linear: bool) -> Array:
    """Scores by pair, from credit by ranker or scores by pair."""
    if not linear:
        return columns
    first, second = pairs(columns.shape[1])
    return np.asarray(columns[:, first] - columns[:, second])


def find_sides(columns: Array, by_ranker: bool) -> Array:
    """Which ranker of each pair won: 1, -1, or 0 if it is even or not known.

    >>> find_sides(np.array([[2.0, 1.0, 1.0], [np.nan] * 3]), by_ranker=True).tolist()
    [[1, 1, 0], [0, 0, 0]]
    """
    scores, tolerance = np.nan_to_num(pair_scores(columns, by_ranker)), np.full(1, TOLERANCE)
    if by_ranker:
        first, second = pairs(columns.shape[1])
        sizes = np.abs(np.nan_to_num(columns))
        tolerance = TOLERANCE * np.maximum(sizes[:, first], sizes[:, second])
    return np.asarray((scores > tolerance).astype(np.int64) - (scores < -tolerance))


def _renumber(rows: Array, columns: Sequence[int], numbers: Array) -> Array:
    """Rows with other numbers of rankers; the order of two rankers stays."""
    rows = rows.copy()
    for column in columns:
        rows[:, column] = numbers[rows[:, column]] if len(rows) else rows[:, column]
    return rows
