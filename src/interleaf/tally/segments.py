"""Sums by segment: those of each unit in each value of an attribute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.tally.cells import pack, unpack
from interleaf.tally.units import CLICKED, SUMS, Units

Key = tuple[str, str]  # an attribute and its value
ROOM = 2**19  # sums held, all units and segments together
MAX_SEGMENTS = 256


class Segments:
    """`impressions` and `clicked` by segment, and `cells`: the sums of each unit in each segment."""

    def __init__(self, columns: int) -> None:
        self.impressions: dict[Key, int] = {}
        self.clicked: dict[Key, int] = {}
        self.cells = Units(columns, max(1024, ROOM // (columns + SUMS - 1)))

    def __len__(self) -> int:
        return len(self.impressions)

    def __iter__(self) -> Iterator[Key]:
        return iter(self.impressions)

    def add(
        self, attribute: str, codes: Array, values: list[str], units: Array, clicked: Array, columns: Array
    ) -> None:
        """Count rows in: `codes` number each row's value of the attribute, -1 where it has none."""
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
        """Count impressions of a segment; the number of the segment."""
        self.impressions[key] = self.impressions.get(key, 0) + impressions
        self.clicked[key] = self.clicked.get(key, 0) + clicked
        return list(self.impressions).index(key)

    def check(self) -> None:
        """Refuse more segments than a report can hold."""
        if len(self) > MAX_SEGMENTS:
            worst = Counter(attribute for attribute, _ in self).most_common(1)[0][0]
            raise DataError(
                f"attribute {worst!r} has too many values to report on: more than {MAX_SEGMENTS} segments in all; "
                "group its values in the log, or leave it out of by="
            )

    def merge(self, other: Segments) -> None:
        """Count another one in: a segment may have another number there."""
        places = [self._count(key, other.impressions[key], other.clicked[key]) for key in other]
        self.check()
        keys, values = other.cells.unordered
        units, parts = unpack(keys)
        self.cells.merge(other.cells.level, pack(units, np.array(places, np.int64)[parts]), values)

    def clear(self) -> None:
        """Forget all segments."""
        self.impressions.clear()
        self.clicked.clear()
        self.cells = Units(self.cells.columns, self.cells.room)

    def units_of(self, key: Key) -> tuple[Array, Array, Array]:
        """The units of a segment with an event in it, their impressions with an event, and their sums."""
        keys, values = self.cells.unordered
        units, parts = unpack(keys)
        rows = parts == list(self.impressions).index(key)
        return units[rows], values[rows, CLICKED], values[rows, SUMS:]
