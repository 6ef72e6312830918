"""Groups the rows of a batch by experiment, version, arm, method and rankers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.decode.columns import ListColumn, codes, list_column, numbers
from interleaf.errors import DataError
from interleaf.interleaving.rankings import MAX_RANKERS
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import kernel
from interleaf.methods.registry import ONE_LIST

_PRIME, _START = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)


class Design(NamedTuple):
    """What rows must share to be tallied together; rankers are in the order of the log."""

    experiment: str
    version: int
    arm: str
    method: str
    rankers: tuple[str, ...]

    @property
    def is_one_list(self) -> bool:
        """Whether each unit sees the list of one ranker, and the rows are those of one of them."""
        return self.method == ONE_LIST and self.arm in self.rankers


def designs(batch: pa.RecordBatch) -> Iterator[tuple[Design | None, Array]]:
    """The designs of a batch with their rows; the design is None for rows in which one of its fields is missing."""
    experiment, arm, method = (codes(batch.column(name)) for name in ("experiment", "arm", "method"))
    version, rankers = _alike(batch.column("version")), _rankers(list_column(batch.column("rankers")))
    columns = (experiment, version, arm, method, rankers)
    whole = np.zeros(batch.num_rows, np.int64)
    for places, values in columns:
        if len(values) > 1 or (places != 0).any():
            whole = whole * (len(values) + 1) + places + 1
    group, seen = _alike(pa.array(whole))
    order = np.argsort(group, kind="stable") if len(seen) > 1 else np.arange(len(group))
    for rows in np.split(order, np.cumsum(np.bincount(group, minlength=len(seen)))[:-1]):
        if len(rows):
            first = rows[0]
            fields: list[Any] = [values[places[first]] if places[first] >= 0 else None for places, values in columns]
            names = fields[-1]
            is_whole = None not in fields and names and all(names) and len(set(names)) == len(names)
            yield Design(*fields) if is_whole else None, rows


def _alike(array: pa.Array) -> tuple[Array, list[Any]]:
    """Like `codes`, but fast for integers that are all the same, which is usual."""
    if len(array) and array.null_count == 0:
        found = numbers(array, 0)
        if (found == found[0]).all():
            return np.zeros(len(found), np.int32), [int(found[0])]
    return codes(array)


def _rankers(found: ListColumn) -> tuple[Array, list[Any]]:
    """A number for each different list of names, and the lists."""
    places, names = codes(found.values)
    marks = np.zeros(len(found.there), np.uint64)
    _mark_lists(found.offsets, places, marks)
    group, seen = _alike(pa.array(marks.view(np.int64), mask=None if found.there.all() else ~found.there))
    tuples: list[Any] = []
    for number in range(len(seen)):
        row = int(np.argmax(group == number))
        inner = places[found.offsets[row] : found.offsets[row + 1]].tolist()
        if len(inner) > MAX_RANKERS:
            raise DataError(f"a row names {len(inner)} rankers; a log compares at most {MAX_RANKERS}")
        tuples.append(None if -1 in inner else tuple(names[code] for code in inner))
    return group, tuples


@kernel
def _mark_lists(offsets: Array, places: Array, marks: Array) -> None:
    """A hash of each list of numbers."""
    for row in range(len(marks)):
        # From 0 on, lists of one number and of two could have the same hash.
        mark = (_START ^ np.uint64(offsets[row + 1] - offsets[row])) * _PRIME
        for place in range(offsets[row], offsets[row + 1]):
            mark = (mark ^ np.uint64(places[place] + 1)) * _PRIME
        marks[row] = mark
