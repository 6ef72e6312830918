"""Finds impressions with several rows: repeats of an impression in any part, and further pages.

Every part sends the hashes of its impressions, 8 bytes each, to executors by range. If a hash comes more than once, all
parts that have it are notified: the first part keeps its first row, and all others drop their rows. The local engine
does the same in the order of the log; above 16 million impressions, it checks a sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from interleaf.decode import identities
from interleaf.execution.spark.partitions import (
    Files,
    Frame,
    Item,
    OfBatches,
    Packed,
    in_bins,
    pack_items,
    unpack_items,
)
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
        found = np.zeros(len(hashes), np.bool_)
        if len(self._shared):
            known = np.flatnonzero(np.isin(hashes, self._shared))
            found[known] = super().repeats(hashes[known])
        return found


def notes_of(files: Files) -> RDD[Packed]:
    """The shared hashes of every part, in the partition of its number; Spark reuses the shuffle in later passes."""
    if files.notes is None:
        hashes = files.each(IDENTITY, partial(_hashes, files.bins)).partitionBy(files.bins)
        files.notes = hashes.mapPartitionsWithIndex(_notes).partitionBy(files.bins)
    return files.notes


def has_repeats(frame: Frame) -> bool:
    """Whether a data frame has an impression twice."""
    if frame.has_repeats is None:
        hashes = frame.each(IDENTITY, partial(_hashes, frame.bins)).partitionBy(frame.bins)
        frame.has_repeats = any(value for _, value in unpack_items(hashes.mapPartitionsWithIndex(_repeated).collect()))
    return frame.has_repeats


def _hashes(bins: int, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Item]:
    """The hashes of a part, by bin."""
    found = [identities(batch)[1] for batch in batches]
    if not found:
        return
    hashes = np.sort(np.concatenate(found))
    for place, some in in_bins(hashes, bins):
        yield place, (number, hashes[some])


def _notes(number: int, items: Iterable[Packed]) -> Iterator[Packed]:
    return pack_items(number, lambda: _shared([value for _, value in unpack_items(items)]))


def _shared(found: list[tuple[int, Array]]) -> Iterator[Item]:
    twice = _twice(found)
    before = np.zeros(0, np.uint64)
    for part, hashes in sorted(found, key=lambda one: one[0]) if len(twice) else ():
        mine = np.intersect1d(hashes, twice)
        if len(mine):
            yield part, (mine, np.isin(mine, before))
            before = np.union1d(before, mine)


def _repeated(number: int, items: Iterable[Packed]) -> Iterator[Packed]:
    return pack_items(number, lambda: [(number, len(_twice([value for _, value in unpack_items(items)])) > 0)])


def _twice(found: list[tuple[int, Array]]) -> Array:
    """The hashes that came more than once."""
    hashes = np.sort(np.concatenate([values for _, values in found] or [np.zeros(0, np.uint64)]))
    return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])


def join_pages(rows: Files | Frame) -> Files | Frame:
    """The rows of a log with the pages of every impression joined; its `pages` counts dropped rows and events."""
    paged = _collected(rows, ("impression", "page"), _paged) if rows.may_have_pages else []
    pages = PageJoiner(find_continued(paged, lambda ids: _collected(rows, ("impression",), partial(_ids, ids))))
    if not pages:
        return rows
    for batch in _collected(rows, None, partial(_rows, pages.continued)):
        pages.hold(batch)
    joined = rows.with_joined(pages.continued, list(pages.joined()))
    joined.pages = pages
    return joined


def _collected(rows: Files | Frame, names: tuple[str, ...] | None, function: OfBatches) -> Iterator[pa.Array]:
    """The results of a function for the batches of every part."""
    for _, found in unpack_items(rows.each(Projection(names, {}), function).collect()):
        yield from found


def _paged(number: int, batches: Iterator[pa.RecordBatch]) -> Iterable[Item]:
    yield number, [found for batch in batches if len(found := paged_ids(batch))]


def _ids(ids: pa.Array, number: int, batches: Iterator[pa.RecordBatch]) -> Iterable[Item]:
    yield number, [found for batch in batches if len(found := ids_among(batch, ids))]


def _rows(ids: pa.Array, number: int, batches: Iterator[pa.RecordBatch]) -> Iterable[Item]:
    yield number, [found for batch in batches if (found := rows_among(batch, ids)).num_rows]
