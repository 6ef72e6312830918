"""Sums of each unit in each slice of time and in each segment (value of an attribute).

There are at most 64 slices of time. Each width is a multiple of the next smaller one, and slices begin at multiples of
their width since 1970, so narrow slices can always be merged into wider ones. If there are too many units, only a
sample is stored. The sample and the width depend on the units and times, not on their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import copy

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.tally.units import CLICKED, SUMS, Sample, UnitSums, pack, unpack

MAX_SLICES = 64
ROOM = 2**22  # maximum number of sums, if every unit is in every slice
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
        self.cells = UnitSums(columns, np.iinfo(np.int64).max)

    @property
    def width(self) -> int:
        """The width of a slice, in microseconds."""
        return LADDER[self.step]

    @property
    def ends(self) -> Array:
        return (self.first + 1 + np.arange(len(self.clicked))) * self.width

    def before_ends(self, times: Array) -> Array:
        """How many of these times are before the end of each slice."""
        places = np.clip(times // self.width - self.first, 0, len(self.clicked))
        return np.cumsum(np.bincount(places, minlength=len(self.clicked))[: len(self.clicked)])

    def add(self, times: Array, units: Array, clicked: Array, columns: Array) -> None:
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
        if not len(other.clicked):
            return
        width = other.width
        self._cover(other.first * width, (other.first + len(other.clicked)) * width - 1)
        self.sample.merge(other.sample)
        self.cells.raise_to(self.sample.level)
        self._add_slices(other)

    def totals(self) -> Iterator[tuple[Array, Array, Array]]:
        """For the end of each slice: units with an event so far, their impressions with an event, and their sums."""
        keys, values = self.cells.entries
        units, parts = unpack(keys)
        units, places = np.unique(units, return_inverse=True)
        clicked = np.zeros(len(units), np.int64)
        sums = np.zeros((len(units), self.cells.columns), np.int64)
        for part in range(len(self.clicked)):
            rows = np.flatnonzero(parts == part)
            clicked[places[rows]] += values[rows, CLICKED]
            sums[places[rows]] += values[rows, SUMS:]
            yield units, clicked, sums

    def _add_slices(self, other: Slices) -> None:
        """Add slices of another object, each of which lies within one of these."""
        places = (other.first + np.arange(len(other.clicked))) * other.width // self.width - self.first
        np.add.at(self.clicked, places, other.clicked)
        self.cells.merge_parts(other.cells, places)

    def _cover(self, since: int, until: int) -> None:
        """Add slices for the whole time from `since` to `until`."""
        if len(self.clicked):
            since = min(since, self.first * self.width)
            until = max(until, (self.first + len(self.clicked)) * self.width - 1)
        step = self.step
        while until // LADDER[step] - since // LADDER[step] >= MAX_SLICES:
            step += 1
            if step == len(LADDER):
                raise DataError("the log's times span more than 90,000 years; correct its clock")
        first, size = since // LADDER[step], until // LADDER[step] - since // LADDER[step] + 1
        if (step, first) == (self.step, self.first):
            self.clicked = np.concatenate([self.clicked, np.zeros(size - len(self.clicked), np.int64)])
            return
        old = copy(self)
        self.step, self.first, self.clicked = step, first, np.zeros(size, np.int64)
        self.cells = UnitSums(old.cells.columns, old.cells.room)
        self._add_slices(old)


Key = tuple[str, str]  # an attribute and its value
SEGMENT_ROOM = 2**19  # maximum number of sums, over all units and segments
MAX_SEGMENTS = 256


class Segments:
    """`impressions` and `clicked` by segment, and `cells`: the sums of each unit in each segment."""

    def __init__(self, columns: int) -> None:
        self.impressions = Counter[Key]()
        self.clicked = Counter[Key]()
        self.cells = UnitSums(columns, max(1024, SEGMENT_ROOM // (columns + SUMS - 1)))

    def __len__(self) -> int:
        return len(self.impressions)

    def __iter__(self) -> Iterator[Key]:
        return iter(self.impressions)

    def add(
        self, attribute: str, codes: Array, values: list[str], units: Array, clicked: Array, columns: Array
    ) -> None:
        """Add rows: `codes` are the index of each row's value of the attribute, -1 if it has none."""
        present = codes[codes >= 0]
        shown, used = (np.bincount(some, minlength=len(values)) for some in (present, codes[(codes >= 0) & clicked]))
        places = np.zeros(len(values), np.int64)
        for number in np.flatnonzero(shown):
            key = (attribute, values[int(number)])
            places[number] = self._count(key, int(shown[number]), int(used[number]))
        self.check()
        rows = np.flatnonzero((codes >= 0) & clicked)
        keys = pack(units[rows], places[codes[rows]])
        self.cells.add(keys, 0, np.zeros(len(rows), np.int64), np.ones(len(rows), np.bool_), columns[rows])

    def _count(self, key: Key, impressions: int, clicked: int) -> int:
        """Count impressions of a segment; returns the number of the segment."""
        self.impressions[key] += impressions
        self.clicked[key] += clicked
        return list(self.impressions).index(key)

    def check(self) -> None:
        if len(self) > MAX_SEGMENTS:
            worst = Counter(attribute for attribute, _ in self).most_common(1)[0][0]
            problem = f"attribute {worst!r} has too many values to report on: more than {MAX_SEGMENTS} segments in all"
            raise DataError(f"{problem}; group its values in the log, or leave it out of by=")

    def merge(self, other: Segments) -> None:
        """Add the sums of another object, in which segments may have other numbers."""
        places = [self._count(key, other.impressions[key], other.clicked[key]) for key in other]
        self.check()
        self.cells.merge_parts(other.cells, np.array(places, np.int64))

    def clear(self) -> None:
        self.impressions.clear()
        self.clicked.clear()
        self.cells = UnitSums(self.cells.columns, self.cells.room)

    def units_of(self, key: Key) -> tuple[Array, Array, Array]:
        """The units of a segment with an event in it, their impressions with an event, and their sums."""
        keys, values = self.cells.entries
        units, parts = unpack(keys)
        rows = parts == list(self.impressions).index(key)
        return units[rows], values[rows, CLICKED], values[rows, SUMS:]
