"""The 64-bit hash of a unit's name, and the 1,024 buckets of a tally.

hash(salt, text) is FNV-1a, 64 bits, over the bytes of the salt, a zero byte and the UTF-8 bytes of the text, followed
by the finaliser of SplitMix64. The bucket is its upper ten bits. Each use has its own salt, so the bucket of a unit is
independent of its arm and of its lists. Test vectors pin the hash, because tallies of different years are merged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import kernel, mix

BUCKETS = 1024
UNIT, IMPRESSION, DOCUMENT = "interleaf-unit", "interleaf-impression", "interleaf-document"
QUERY = "interleaf-query"
_SHIFT = np.uint64(54)
_PRIME = np.uint64(0x100000001B3)
_OFFSET = 0xCBF29CE484222325


def hash_of(salt: str, text: str) -> int:
    """The hash of one text.

    >>> f"{hash_of(UNIT, 'user-7'):016x}"
    '8ca3ec4ceced21d3'
    """
    data = np.frombuffer(bytearray(text.encode()), np.uint8)  # writable, as Arrow's arrays are
    return int(hashes(salt, np.array([0, len(data)], np.int32), data)[0])


def bucket_of(unit: str) -> int:
    """The bucket of a unit, 0 to 1,023."""
    return hash_of(UNIT, unit) >> 54


def hashes(salt: str, offsets: Array, data: Array) -> Array:
    """The hash of every text of an Arrow string array: text i is data[offsets[i]:offsets[i + 1]]."""
    start = _OFFSET
    for byte in (*salt.encode(), 0):
        start = (start ^ byte) * int(_PRIME) % 2**64
    values = np.empty(len(offsets) - 1, np.uint64)
    _hashes(np.uint64(start), offsets, data, values)
    return values


def buckets(units: Array) -> Array:
    """The buckets of units given by their hashes."""
    return (units >> _SHIFT).astype(np.int32)


@kernel
def _hashes(start: Any, offsets: Array, data: Array, values: Array) -> None:
    for row in range(len(values)):
        state = start
        for place in range(offsets[row], offsets[row + 1]):
            state = (state ^ np.uint64(data[place])) * _PRIME
        values[row] = mix(state)
