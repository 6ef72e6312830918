"""Impressions over time, with and without an event: by hours, or by longer stretches where a log is long."""

from __future__ import annotations

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.kernels.buckets import BUCKETS

HOUR = 3_600_000_000  # in microseconds
MAX_STRETCHES = 512
GROUPS = 64  # of units
SHOWN, CLICKED = range(2)


class Timeline:
    """`places[stretch]`, in order, and `counts[stretch, group]`: impressions, and those with an event.

    A stretch is an hour, or two to the power of `step` hours: as few as keep to MAX_STRETCHES.
    """

    def __init__(self) -> None:
        self.step = 0
        self.places = np.zeros(0, np.int64)
        self.counts = np.zeros((0, GROUPS, 2), np.int64)

    @property
    def width(self) -> int:
        """Of a stretch, in microseconds."""
        return HOUR << self.step

    def add(self, times: Array, buckets: Array, has_event: Array) -> None:
        """Count rows in."""
        places = times // self.width
        first = int(places.min(initial=0))
        size = int(places.max(initial=0)) - first + 1
        if size > 4 * MAX_STRETCHES:
            found, numbers = np.unique(places, return_inverse=True)
        else:
            found, numbers = first + np.arange(size), places - first
        cells = numbers * GROUPS + buckets // (BUCKETS // GROUPS)
        shape = len(found), GROUPS
        shown = np.bincount(cells, minlength=len(found) * GROUPS).reshape(shape)
        clicked = np.bincount(cells[has_event], minlength=len(found) * GROUPS).reshape(shape)
        used = shown.any(axis=1)
        self._put(found[used], np.stack([shown, clicked], axis=2)[used])

    def merge(self, step: int, places: Array, counts: Array) -> None:
        """Count another one in."""
        self._widen(step)
        self._put(places >> max(self.step - step, 0), counts)

    def _put(self, places: Array, counts: Array) -> None:
        if len(self.places) and np.array_equal(places, self.places):
            self.counts += counts
            return
        both = np.concatenate([self.places, places])
        self.places, numbers = np.unique(both, return_inverse=True)
        old, self.counts = self.counts, np.zeros((len(self.places), GROUPS, 2), np.int64)
        np.add.at(self.counts, numbers, np.concatenate([old, counts]))
        while len(self.places) > MAX_STRETCHES:
            self._widen(self.step + 1)

    def _widen(self, step: int) -> None:
        """Put neighbouring stretches together."""
        if step > self.step:
            places, counts = self.places >> (step - self.step), self.counts
            self.step, self.places, self.counts = step, np.zeros(0, np.int64), np.zeros((0, GROUPS, 2), np.int64)
            self._put(places, counts)
