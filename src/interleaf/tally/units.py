"""Hash tables of limited size: impressions that were seen before, and sums by unit.

A full table keeps only hashes that end in one zero bit, then in two, and so on. This is a uniform sample that does not
depend on the order of rows, and it is complete while `level` is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.tally.bucket_sums import reordered_columns, to_fixed_point

_ONE = np.uint64(1)
_PART_SHIFT, _SPREAD_SHIFT = np.uint64(44), np.uint64(24)
_UNIT_MASK = np.uint64(2**44 - 1)
_SPREAD, _SPREAD_MASK = np.uint64(0x9E3B1), np.uint64(2**20 - 1)
SINCE, ARMS, CLICKED, SUMS = 0, 1, 2, 3  # columns of `values`
ROOM = 2**21  # maximum number of sums, over all units
_NEVER = np.iinfo(np.int64).max


class Seen:
    """A set of hashes that reports which hashes were added before."""

    def __init__(self, room: int = 2**24, expected: int = 0) -> None:
        self.room, self.level, self.size = room, 0, 0
        self._keys = np.zeros(1 << (min(expected, room) * 4 // 3 | 4095).bit_length(), np.uint64)

    @property
    def hashes(self) -> Array:
        return np.sort(self._keys[self._keys != 0])

    def repeats(self, hashes: Array) -> Array:
        """Which of these hashes were added before, or are repeated in this array; adds all of them."""
        repeated = np.zeros(len(hashes), np.bool_)
        done = 0
        while done < len(hashes):
            self._grow()
            done, self.size = _repeats(self._keys, self.size, self.level, hashes, done, repeated)
        self._grow()
        return repeated

    def _grow(self) -> None:
        while self.size > self.room:
            self.raise_to(self.level + 1)
        if is_full(self.size, self._keys):
            self._rebuild(2 * len(self._keys))

    def _rebuild(self, places: int) -> None:
        keys = self._keys[self._keys != 0]
        self._keys = np.zeros(places, np.uint64)
        _, self.size = _repeats(self._keys, 0, self.level, keys, 0, np.zeros(len(keys), np.bool_))

    def raise_to(self, level: int) -> None:
        if level > self.level:
            self.level = level
            self._rebuild(len(self._keys))


class Sample(Seen):
    """A sample of a tally's impressions, which shows whether two tallies hold the same impressions."""

    def __init__(self, room: int = 2**14) -> None:
        super().__init__(room)

    @property
    def count(self) -> int:
        """The number of hashes; estimated if only a sample is stored."""
        return self.size << self.level

    def add(self, hashes: Array) -> None:
        self.repeats(hashes)

    def merge(self, other: Sample) -> int:
        """Add another sample; returns how many impressions both had, estimated if there are many."""
        self.raise_to(other.level)
        level = self.level
        return int(self.repeats(other.hashes).sum()) << level


@kernel
def _repeats(keys: Array, size: int, level: int, hashes: Array, start: int, repeated: Array) -> tuple[int, int]:
    """Add hashes from `start` on until the table is full; returns where it stopped and how many it holds."""
    below = (_ONE << np.uint64(level)) - _ONE
    for row in range(start, len(hashes)):
        if hashes[row] & below:
            continue
        if is_full(size, keys):
            return row, size
        place = place_of(keys, hashes[row])
        if keys[place] == 0:
            keys[place] = max(hashes[row], _ONE)
            size += 1
        else:
            repeated[row] = True
    return len(hashes), size


@inline_kernel
def is_full(size: int, keys: Array) -> bool:
    """Whether a table is more than three quarters full, which makes it slow."""
    return 4 * size >= 3 * len(keys)


@inline_kernel
def place_of(keys: Array, item: Any) -> Any:
    """The place of an item, or where to add it. It depends on the middle bits, since sampling zeroes the lower ones."""
    last = np.uint64(len(keys) - 1)
    wanted = max(item, _ONE)
    place = (item >> np.uint64(24)) & last
    while keys[place] != 0 and keys[place] != wanted:
        place = (place + _ONE) & last
    return place


def pack(units: Array, parts: Array) -> Array:
    """Pack each unit and part (a slice, segment or query) into one key.

    >>> unpack(pack(np.array([2**44 - 5], np.uint64), np.array([63])))
    (array([17592186044411], dtype=uint64), array([63]))
    """
    numbers = parts.astype(np.uint64)
    return (units & _UNIT_MASK) ^ _spread(numbers) | numbers << _PART_SHIFT


def unpack(keys: Array) -> tuple[Array, Array]:
    """The unit (44 bits of its hash) and the part of each key."""
    numbers = keys >> _PART_SHIFT
    return (keys & _UNIT_MASK) ^ _spread(numbers), numbers.astype(np.int64)


def _spread(numbers: Array) -> Array:
    """Bits that differ between parts, so that the parts of one unit are spread over a table."""
    return (numbers * _SPREAD & _SPREAD_MASK) << _SPREAD_SHIFT


class UnitSums:
    """A sample of units: `hashes`, and a row of `values` for each. Its size depends on the number of sums per unit."""

    def __init__(self, columns: int, room: int = 0) -> None:
        self.columns, self.room = columns, room or max(1024, ROOM // (columns + SUMS - 1))
        self.level, self.size = 0, 0
        self._make(4096)

    def _make(self, places: int) -> None:
        self._forget()
        self._keys = np.zeros(places, np.uint64)
        self._values = np.zeros((places, SUMS + self.columns), np.int64)
        self._values[:, SINCE] = _NEVER

    def _forget(self) -> None:
        """Clear cached values, because the table changes."""
        for name in ("entries", "_sorted_entries"):
            self.__dict__.pop(name, None)

    @cached_property
    def entries(self) -> tuple[Array, Array]:
        """Hashes and rows in any order, because sorting half a million takes long."""
        places = np.flatnonzero(self._keys)
        return self._keys[places], self._values[places]

    @cached_property
    def _sorted_entries(self) -> tuple[Array, Array]:
        hashes, values = self.entries
        order = np.argsort(hashes)
        return hashes[order], values[order]

    @property
    def hashes(self) -> Array:
        """The sorted hashes of units; `values` has their rows in the same order."""
        return self._sorted_entries[0]

    @property
    def values(self) -> Array:
        return self._sorted_entries[1]

    @property
    def rows(self) -> Array:
        return self.entries[1]

    @property
    def is_exact(self) -> bool:
        return self.level == 0

    def count(self, of: Array | None = None) -> int:
        """The number of units, or of units that a mask selects; estimated if only a sample is stored."""
        return (self.size if of is None else int(of.sum())) << self.level

    def add(self, units: Array, arm: int, times: Array, clicked: Array, columns: Array) -> None:
        """Add rows; `columns` are their scores, one column per ranker or per pair."""
        self._forget()
        done = 0
        while done < len(units):
            self._grow()
            done, self.size = _add(
                self._keys, self._values, self.size, self.level, done, units, arm, times, clicked, columns
            )
        self._grow()

    def merge(self, level: int, hashes: Array, values: Array) -> None:
        """Add the rows of units that were sampled at this level."""
        self.raise_to(level)
        self._forget()
        # Adding units in the order of another table is fast only if this table is not smaller.
        self._grow(min(len(hashes), self.room))
        for start in range(0, len(hashes), 1024):
            self._grow()
            rows = start + np.flatnonzero(self._is_sampled(hashes[start : start + 1024]))
            self.size = _put(self._keys, self._values, self.size, hashes[rows], values[rows])
        self._grow()

    def merge_parts(self, other: UnitSums, parts: Array) -> None:
        """Add the sums of units in parts, where `parts[n]` is the number here of the other's part n."""
        keys, values = other.entries
        units, numbers = unpack(keys)
        self.merge(other.level, pack(units, parts[numbers]), values)

    def _is_sampled(self, hashes: Array) -> Array:
        return np.asarray(hashes & np.uint64((1 << self.level) - 1) == 0)

    def _grow(self, expected: int = 0) -> None:
        """Make room for a thousand more, or for `expected` in all: enlarge the table, or sample fewer units."""
        while self.size > self.room:
            self.raise_to(self.level + 1)
        while is_full(max(self.size, expected) + 1024, self._keys):
            self._rebuild(2 * len(self._keys))

    def _rebuild(self, places: int) -> None:
        rows = (self._keys != 0) & self._is_sampled(self._keys)
        keys, values = self._keys[rows], self._values[rows]
        self._make(places)
        self.size = _put(self._keys, self._values, 0, keys, values)

    def raise_to(self, level: int) -> None:
        if level > self.level:
            self.level = level
            self._rebuild(len(self._keys))

    def reorder(self, order: Sequence[int], linear: bool) -> None:
        self._forget()
        self._values[:, SUMS:] = reordered_columns(self._values[:, SUMS:], order, linear)


@kernel
def _add(
    keys: Array,
    values: Array,
    size: int,
    level: int,
    start: int,
    units: Array,
    arm: int,
    times: Array,
    clicked: Array,
    columns: Array,
) -> tuple[int, int]:
    """Add rows from `start` on until the table is full; returns where it stopped and how many units it holds."""
    below = (_ONE << np.uint64(level)) - _ONE
    for row in range(start, len(units)):
        if units[row] & below:
            continue
        if is_full(size, keys):
            return row, size
        place = place_of(keys, units[row])
        if keys[place] == 0:
            keys[place] = max(units[row], _ONE)
            size += 1
        values[place, SINCE] = min(values[place, SINCE], times[row])
        values[place, ARMS] |= 1 << arm
        if clicked[row]:
            values[place, CLICKED] += 1
            for column in range(columns.shape[1]):
                values[place, SUMS + column] += to_fixed_point(columns[row, column])
    return len(units), size


@kernel
def _put(keys: Array, values: Array, size: int, hashes: Array, rows: Array) -> int:
    for row in range(len(hashes)):
        place = place_of(keys, hashes[row])
        if keys[place] == 0:
            keys[place] = max(hashes[row], _ONE)
            size += 1
        values[place, SINCE] = min(values[place, SINCE], rows[row, SINCE])
        values[place, ARMS] |= rows[row, ARMS]
        for column in range(CLICKED, rows.shape[1]):
            values[place, column] += rows[row, column]
    return size
