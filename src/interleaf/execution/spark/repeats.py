"""Finds impressions with several rows: repeats of an impression in any part, and further pages.

Every part sends the hashes of its impressions, 8 bytes each, to executors by range. If a hash comes more than once, all
parts that have it are notified: the first part keeps its first row, and all others drop their rows. The local engine
does the same in the order of the log; above 16 million impressions, it checks a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from interleaf.decode import identities
from interleaf.execution.spark.partitions import Files, Frame, Item, Packed, in_bins, map_values, unpack_items
from interleaf.kernels.arrays import Array
from interleaf.log.page_join import PageJoiner, find_continued, ids_among, paged_ids, rows_among
from interleaf.log.schema import Projection
from interleaf.tally.units import Seen

if TYPE_CHECKING:
    from pyspark import RDD

IDENTITY = Projection(("experiment", "impression"), {})


class SharedHashes(Seen):
    """Hashes of a part that came more than once, and whether an earlier part has them."""

    def __init__(self, notes: Iterable[tuple[Array, Array]]) -> None:
        hashes, elsewhere = map(np.concatenate, zip(*notes, strict=True)) if notes else np.zeros((2, 0), np.uint64)
        super().__init__(room=max(1, len(hashes)))
        self._shared = np.sort(hashes)
        super().repeats(hashes[elsewhere.astype(np.bool_)])

    def repeats(self, hashes: Array) -> Array:
        """Which of these hashes came before; only hashes that came more than once are looked up."""
        marks = np.zeros(len(hashes), np.bool_)
        if len(self._shared):
            shared = np.flatnonzero(np.isin(hashes, self._shared))
            marks[shared] = super().repeats(hashes[shared])
        return marks


def notes_of(files: Files) -> RDD[Packed]:
    """The shared hashes of every part, in the partition of its number; Spark reuses the shuffle in later passes."""
    if files.notes is None:
        hashes = files.each(IDENTITY, partial(_hashes, files.bins)).partitionBy(files.bins)
        files.notes = map_values(hashes, _find_shared).partitionBy(files.bins)
    return files.notes


def has_repeats(frame: Frame) -> bool:
    """Whether a data frame has an impression twice."""
    if frame.has_repeats is None:
        hashes = frame.each(IDENTITY, partial(_hashes, frame.bins)).partitionBy(frame.bins)
        repeated = map_values(hashes, lambda number, parts: [(number, len(_twice(parts)) > 0)])
        frame.has_repeats = any(value for _, value in unpack_items(repeated.collect()))
    return frame.has_repeats


def _hashes(bins: int, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Item]:
    """The hashes of a part, by bin."""
    hashes = np.sort(np.concatenate([np.zeros(0, np.uint64), *(identities(batch)[1] for batch in batches)]))
    for place, some in in_bins(hashes, bins):
        yield place, (number, hashes[some])


def _find_shared(number: int, parts: list[tuple[int, Array]]) -> Iterator[Item]:
    """For each part, its hashes that came more than once, and whether an earlier part has them."""
    twice = _twice(parts)
    before = np.zeros(0, np.uint64)
    for part, hashes in sorted(parts, key=lambda one: one[0]) if len(twice) else ():
        mine = np.intersect1d(hashes, twice)
        if len(mine):
            yield part, (mine, np.isin(mine, before))
            before = np.union1d(before, mine)


def _twice(parts: list[tuple[int, Array]]) -> Array:
    """The hashes that came more than once."""
    hashes = np.sort(np.concatenate([values for _, values in parts] or [np.zeros(0, np.uint64)]))
    return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])


def join_pages(rows: Files | Frame) -> Files | Frame:
    """The rows of a log with the pages of every impression joined; its `pages` counts dropped rows and events."""
    paged = _collect(rows, ("impression", "page"), paged_ids) if rows.may_have_pages else []
    pages = PageJoiner(
        find_continued(paged, lambda ids: _collect(rows, ("impression",), lambda batch: ids_among(batch, ids)))
    )
    if not pages:
        return rows
    continued = pages.continued
    for batch in _collect(rows, None, lambda batch: rows_among(batch, continued)):
        pages.hold(batch)
    joined = rows.with_joined(pages.continued, list(pages.join()))
    joined.pages = pages
    return joined


def _collect(
    rows: Files | Frame, names: tuple[str, ...] | None, function: Callable[[pa.RecordBatch], Any]
) -> Iterator[Any]:
    """The results of a function for the batches of every part, without empty ones."""

    def of_batches(number: int, batches: Iterator[pa.RecordBatch]) -> Iterable[Item]:
        yield number, [result for result in map(function, batches) if len(result)]

    for _, results in unpack_items(rows.each(Projection(names, {}), of_batches).collect()):
        yield from results
