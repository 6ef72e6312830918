"""Which impressions came before: all of them while there is room, then an even sample of them.

Impressions are 64-bit hashes of their ids. Within `room` every repeat is found; above it, those whose hash ends in more
and more zero bits are still watched, so that the share of repeats can be told of a log of any size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import inline_kernel, kernel

_ONE = np.uint64(1)


class Seen:
    """A set of hashes that tells of each one whether it came before."""

    def __init__(self, room: int = 2**24, expected: int = 0) -> None:
        self.room, self.level, self.size = room, 0, 0
        self._keys = np.zeros(1 << (min(expected, room) * 4 // 3 | 4095).bit_length(), np.uint64)

    @property
    def hashes(self) -> Array:
        """What is held, in order."""
        return np.sort(self._keys[self._keys != 0])

    def repeats(self, hashes: Array) -> Array:
        """Which of these came before, here or above in the same array."""
        found = np.zeros(len(hashes), np.bool_)
        done = 0
        while done < len(hashes):
            self._grow()
            done, self.size = _repeats(self._keys, self.size, self.level, hashes, done, found)
        self._grow()
        return found

    def _grow(self) -> None:
        while self.size > self.room:
            self.level += 1
            self._rebuild(len(self._keys))
        if is_full(self.size, self._keys):
            self._rebuild(2 * len(self._keys))

    def _rebuild(self, places: int) -> None:
        keys = self._keys[self._keys != 0]
        self._keys = np.zeros(places, np.uint64)
        _, self.size = _repeats(self._keys, 0, self.level, keys, 0, np.zeros(len(keys), np.bool_))


class Sample(Seen):
    """The sample of impressions that a tally keeps: when two tallies are added, it tells if they hold the same ones."""

    def __init__(self, room: int = 2**14) -> None:
        super().__init__(room)

    def add(self, hashes: Array) -> None:
        """Count impressions in."""
        self.repeats(hashes)

    def merge(self, other: Sample) -> int:
        """Count another one in; returns how many impressions both had, estimated where they are many."""
        self.raise_to(other.level)
        level = self.level
        return int(self.repeats(other.hashes).sum()) << level

    def raise_to(self, level: int) -> None:
        """Keep the share that another sample keeps."""
        if level > self.level:
            self.level = level
            self._rebuild(len(self._keys))


@kernel
def _repeats(keys: Array, size: int, level: int, hashes: Array, start: int, found: Array) -> tuple[int, int]:
    """Put hashes in from `start` on, until the table is full; where it stopped, and how many it holds."""
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
            found[row] = True
    return len(hashes), size


@inline_kernel
def is_full(size: int, keys: Array) -> bool:
    """Whether a table has no room to spare: beyond three quarters, places are found slowly."""
    return 4 * size >= 3 * len(keys)


@inline_kernel
def place_of(keys: Array, item: Any) -> Any:
    """Where an item is, or would be: from its middle bits, since sampling zeroes the lower ones."""
    last = np.uint64(len(keys) - 1)
    wanted = max(item, _ONE)
    place = (item >> np.uint64(24)) & last
    while keys[place] != 0 and keys[place] != wanted:
        place = (place + _ONE) & last
    return place
