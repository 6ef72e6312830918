"""Impressions that go on over pages: their rows come to the driver, which joins them; no other rows do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa

from interleaf.engines.spark.rows import Files, Frame, Item, OfBatches, unpacked
from interleaf.log.pages import Pages, find_continued, ids_among, paged_ids, rows_among
from interleaf.log.projection import Projection


def join_pages(rows: Files | Frame) -> Files | Frame:
    """The rows of a log with the pages of every impression joined; its `pages` count what was dropped on the way."""
    paged = _collected(rows, ("impression", "page"), _paged) if rows.may_have_pages else []
    pages = Pages(find_continued(paged, lambda ids: _collected(rows, ("impression",), partial(_ids, ids))))
    if not pages:
        return rows
    for batch in _collected(rows, None, partial(_rows, pages.continued)):
        pages.hold(batch)
    joined = rows.with_joined(pages.continued, list(pages.joined()))
    joined.pages = pages
    return joined


def _collected(rows: Files | Frame, names: tuple[str, ...] | None, function: OfBatches) -> Iterator[pa.Array]:
    """What a function makes of the batches of every part."""
    for _, found in unpacked(rows.each(Projection(names, {}), function).collect()):
        yield from found


def _paged(number: int, batches: Iterator[pa.RecordBatch]) -> Iterable[Item]:
    yield number, [found for batch in batches if len(found := paged_ids(batch))]


def _ids(ids: pa.Array, number: int, batches: Iterator[pa.RecordBatch]) -> Iterable[Item]:
    yield number, [found for batch in batches if len(found := ids_among(batch, ids))]


def _rows(ids: pa.Array, number: int, batches: Iterator[pa.RecordBatch]) -> Iterable[Item]:
    yield number, [found for batch in batches if (found := rows_among(batch, ids)).num_rows]
