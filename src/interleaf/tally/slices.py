"""Sums over time: at most 64 slices, as wide as the log asks for, each with sums by 256 groups of buckets.

Widths climb a ladder whose every step is a multiple of the one below, and slices begin at multiples of their width
since 1970: so what was kept in narrow slices can always be kept in wider ones, and the result depends on nothing but
the first and last time.
"""

from __future__ import annotations

import numpy as np

from interleaf.buckets import BUCKETS
from interleaf.compiled import kernel
from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.tally.scores import fixed

GROUPS = 256
MOST = 64
SECOND = 1_000_000
_HOUR, _DAY = 3600 * SECOND, 86_400 * SECOND
LADDER = (
    *(SECOND, 10 * SECOND, 60 * SECOND, 300 * SECOND, 900 * SECOND, 1800 * SECOND),
    *(_HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(_DAY << power for power in range(20)),
)
_PER_GROUP = BUCKETS // GROUPS


class Slices:
    """`counts[slice, group, 0]` are impressions with an event, the other columns sums of scores."""

    def __init__(self, columns: int) -> None:
        self.step = 0
        self.first = 0
        self.counts = np.zeros((0, GROUPS, 1 + columns), np.int64)

    @property
    def width(self) -> int:
        """Of a slice, in microseconds."""
        return LADDER[self.step]

    @property
    def ends(self) -> Array:
        """When each slice ends, in microseconds since 1970."""
        return (self.first + 1 + np.arange(len(self.counts))) * self.width

    def before_ends(self, times: Array) -> Array:
        """How many of these times each slice, or one before it, holds."""
        places = np.clip(times // self.width - self.first, 0, len(self.counts))
        return np.cumsum(np.bincount(places, minlength=len(self.counts))[: len(self.counts)])

    def add(self, times: Array, buckets: Array, clicked: Array, columns: Array) -> None:
        """Count rows in."""
        if len(times):
            self._cover(int(times.min()), int(times.max()))
            _add(times, self.width, self.first, buckets, clicked, columns, self.counts)

    def merge(self, other: Slices) -> None:
        """Count another one in."""
        if not len(other.counts):
            return
        width = other.width
        self._cover(other.first * width, (other.first + len(other.counts)) * width - 1)
        places = (other.first + np.arange(len(other.counts))) * width // self.width - self.first
        np.add.at(self.counts, places, other.counts)

    def _cover(self, since: int, until: int) -> None:
        """Have a slice for every time between these."""
        if len(self.counts):
            since = min(since, self.first * self.width)
            until = max(until, (self.first + len(self.counts)) * self.width - 1)
        step = self.step
        while until // LADDER[step] - since // LADDER[step] >= MOST:
            step += 1
            if step == len(LADDER):
                raise DataError("the log's times span more than 90,000 years; mend its clock")
        first = since // LADDER[step]
        if (step, first, until // LADDER[step] - first + 1) == (self.step, self.first, len(self.counts)):
            return
        old, places = self.counts, (self.first + np.arange(len(self.counts))) * self.width // LADDER[step] - first
        self.step, self.first = step, first
        self.counts = np.zeros((until // LADDER[step] - first + 1, *old.shape[1:]), np.int64)
        np.add.at(self.counts, places, old)


@kernel
def _add(times: Array, width: int, first: int, buckets: Array, clicked: Array, columns: Array, counts: Array) -> None:
    for row in range(len(times)):
        if clicked[row]:
            place, group = times[row] // width - first, buckets[row] // _PER_GROUP
            counts[place, group, 0] += 1
            for column in range(columns.shape[1]):
                counts[place, group, 1 + column] += fixed(columns[row, column])
