"""Sums on their way from one machine to another: pickled, their arrays sorted and cut into planes that compress well.

A tally holds up to 700,000 units of 8 bytes of hash and 32 of numbers, most of them small. Hashes are sent in order,
as differences; numbers less the least of their column; and of all arrays first the lowest bytes, then the next ones,
and so on, so that the zeros lie together. What comes out is what went in.
"""

from __future__ import annotations

import io
import pickle
import zlib
from typing import Any

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.tally.seen import Sample
from interleaf.tally.units import Units

SMALL = 256  # items: smaller arrays are not worth it


def to_bytes(value: Any) -> bytes:
    """Any sums, such as a book and a sample, in few bytes."""
    file = io.BytesIO()
    _Pickler(file, protocol=5).dump(value)
    return zlib.compress(file.getvalue(), 1)


def of_bytes(data: bytes) -> Any:
    """What `to_bytes` made, here or in an executor of the same job: unpickling runs what it is told to."""
    return pickle.loads(zlib.decompress(data))


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if type(value) is Units:
            least = value.values.min(axis=0, initial=np.iinfo(np.int64).max)
            rest = _differences(value.hashes), value.values - least, least
            return _units, (value.columns, value.room, value.level, *rest)
        if type(value) is Sample:
            return _sample, (value.room, value.level, _differences(value.hashes))
        if type(value) is np.ndarray and value.dtype.kind in "iuf" and value.size > SMALL:
            cells = np.ascontiguousarray(value.T).reshape(-1).view(np.uint8).reshape(value.size, value.itemsize)
            return _array, (cells.T.tobytes(), value.dtype.str, value.shape)
        return NotImplemented


def _differences(hashes: Array) -> Array:
    return np.diff(hashes, prepend=np.uint64(0))


def _units(columns: int, room: int, level: int, steps: Array, values: Array, least: Array) -> Units:
    units = Units(columns, room)
    units.merge(level, np.cumsum(steps), values + least)
    return units


def _sample(room: int, level: int, steps: Array) -> Sample:
    sample = Sample(room)
    sample.raise_to(level)
    sample.add(np.cumsum(steps))
    return sample


def _array(planes: bytes, kind: str, shape: tuple[int, ...]) -> Array:
    cells = np.frombuffer(planes, np.uint8).reshape(np.dtype(kind).itemsize, -1)
    return np.ascontiguousarray(cells.T).reshape(-1).view(kind).reshape(shape[::-1]).T.copy()
