"""Sums over time: at most 64 slices, as wide as the log asks for, with the sums of each unit in each slice.

Widths climb a ladder whose every step is a multiple of the one below, and slices begin at multiples of their width
since 1970: so what was kept in narrow slices can always be kept in wider ones. Above a number of units, only a sample
of them is kept. Which units and which widths these are depends on the units and times alone, not on their order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.tally.cells import pack, unpack
from interleaf.tally.seen import Sample
from interleaf.tally.units import CLICKED, SUMS, Units

MAX_SLICES = 64
ROOM = 2**22  # sums held where every unit comes in every slice
MIN_UNITS = 256
SECOND = 1_000_000
_HOUR, _DAY = 3600 * SECOND, 86_400 * SECOND
LADDER = (
    *(SECOND, 10 * SECOND, 60 * SECOND, 300 * SECOND, 900 * SECOND, 1800 * SECOND),
    *(_HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(_DAY << power for power in range(20)),
)


class Slices:
    """`clicked[slice]` are impressions with an event; `cells` hold the sums of each unit in each slice."""

    def __init__(self, columns: int) -> None:
        self.step = 0
        self.first = 0
        self.clicked = np.zeros(0, np.int64)
        self.sample = Sample(max(MIN_UNITS, ROOM // (MAX_SLICES * (columns + SUMS))))
        self.cells = Units(columns, np.iinfo(np.int64).max)

    @property
    def width(self) -> int:
        """Of a slice, in microseconds."""
        return LADDER[self.step]

    @property
    def ends(self) -> Array:
        """When each slice ends, in microseconds since 1970."""
        return (self.first + 1 + np.arange(len(self.clicked))) * self.width

    def before_ends(self, times: Array) -> Array:
        """How many of these times each slice, or one before it, holds."""
        places = np.clip(times // self.width - self.first, 0, len(self.clicked))
        return np.cumsum(np.bincount(places, minlength=len(self.clicked))[: len(self.clicked)])

    def add(self, times: Array, units: Array, clicked: Array, columns: Array) -> None:
        """Count rows in."""
        if not len(times):
            return
        self._cover(int(times.min()), int(times.max()))
        rows = np.flatnonzero(clicked)
        places = times[rows] // self.width - self.first
        self.clicked += np.bincount(places, minlength=len(self.clicked))
        self.sample.add(units[rows])
        self.cells.raise_to(self.sample.level)
        self.cells.add(pack(units[rows], places), 0, times[rows], np.ones(len(rows), np.bool_), columns[rows])

    def merge(self, other: Slices) -> None:
        """Count another one in."""
        if not len(other.clicked):
            return
        width = other.width
        self._cover(other.first * width, (other.first + len(other.clicked)) * width - 1)
        np.add.at(self.clicked, self._places(other, np.arange(len(other.clicked))), other.clicked)
        self.sample.merge(other.sample)
        self.cells.raise_to(self.sample.level)
        keys, values = other.cells.unordered
        units, parts = unpack(keys)
        self.cells.merge(other.cells.level, pack(units, self._places(other, parts)), values)

    def totals(self) -> Iterator[tuple[Array, Array, Array]]:
        """At the end of each slice: units with an event so far, their impressions with an event, and their sums."""
        keys, values = self.cells.unordered
        found, parts = unpack(keys)
        units, places = np.unique(found, return_inverse=True)
        clicked = np.zeros(len(units), np.int64)
        sums = np.zeros((len(units), self.cells.columns), np.int64)
        for part in range(len(self.clicked)):
            rows = np.flatnonzero(parts == part)
            clicked[places[rows]] += values[rows, CLICKED]
            sums[places[rows]] += values[rows, SUMS:]
            yield units, clicked, sums

    def _places(self, other: Slices, parts: Array) -> Array:
        """The slices here that hold slices of another."""
        places: Array = (other.first + parts) * other.width // self.width - self.first
        return places

    def _cover(self, since: int, until: int) -> None:
        """Have a slice for every time between these."""
        if len(self.clicked):
            since = min(since, self.first * self.width)
            until = max(until, (self.first + len(self.clicked)) * self.width - 1)
        step = self.step
        while until // LADDER[step] - since // LADDER[step] >= MAX_SLICES:
            step += 1
            if step == len(LADDER):
                raise DataError("the log's times span more than 90,000 years; mend its clock")
        first, size = since // LADDER[step], until // LADDER[step] - since // LADDER[step] + 1
        if (step, first) == (self.step, self.first):
            self.clicked = np.concatenate([self.clicked, np.zeros(size - len(self.clicked), np.int64)])
            return
        old = Slices(self.cells.columns)
        old.step, old.first, old.clicked, old.cells = self.step, self.first, self.clicked, self.cells
        self.step, self.first, self.clicked = step, first, np.zeros(size, np.int64)
        np.add.at(self.clicked, self._places(old, np.arange(len(old.clicked))), old.clicked)
        keys, values = old.cells.unordered
        units, parts = unpack(keys)
        self.cells = Units(old.cells.columns, old.cells.room)
        self.cells.merge(old.cells.level, pack(units, self._places(old, parts)), values)
