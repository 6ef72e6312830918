"""One number for a unit and a part of the log, such as a slice of time or a segment.

A table of units (`Units`) then holds the sums of each unit in each part. The lowest 24 bits are those of the unit's
hash, so that a sample keeps all parts of a unit or none. 44 bits of the hash are kept; the other 20 hold the part.
"""

from __future__ import annotations

import numpy as np

from interleaf.kernels.arrays import Array

_PART_SHIFT, _SPREAD_SHIFT = np.uint64(44), np.uint64(24)
_UNIT_MASK = np.uint64(2**44 - 1)
_SPREAD, _SPREAD_MASK = np.uint64(0x9E3B1), np.uint64(2**20 - 1)


def pack(units: Array, parts: Array) -> Array:
    """The key of each unit in its part.

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
    """Bits that differ from part to part, so that parts of one unit lie apart in a table."""
    return (numbers * _SPREAD & _SPREAD_MASK) << _SPREAD_SHIFT
