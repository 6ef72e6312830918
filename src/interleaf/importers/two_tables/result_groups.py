"""Impressions with one row for each result, as one row for each list."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.importers.partition import first_values, lists_of
from interleaf.importers.two_tables.list_rows import RESULT
from interleaf.kernels.arrays import Array
from interleaf.log.drop_reasons import DropReason
from interleaf.log.event_join import ReadCounts

EXAMPLES = 12  # positions of a list that an example shows


def group_results(rows: pa.RecordBatch, first_rank: int, counts: ReadCounts) -> pa.RecordBatch:
    """One row for each impression, in the order of their first rows, with `documents` and `owners`.

    Its other columns have the first value that a row of the impression has. Copies of a row are left out; an impression
    whose ranks do not count up from `first_rank` is dropped.
    """
    impressions = rows.column("impression").dictionary_encode()
    ids, group = impressions.dictionary, np.asarray(impressions.indices).astype(np.int64)
    columns: dict[str, pa.Array] = {}
    for name in rows.schema.names:
        if name not in (*RESULT, "impression"):
            some = np.flatnonzero(np.asarray(rows.column(name).is_valid()))
            columns[name] = first_values(rows.column(name), some, group[some], len(ids))
    order, is_copy = _order_of(rows, group)
    counts.dropped[DropReason.REPEATED_IMPRESSION] += len(np.unique(group[is_copy]))
    kept = order[~is_copy[order]]
    rank, group = np.asarray(pc.fill_null(rows.column("rank"), -1))[kept], group[kept]
    has_document = np.asarray(rows.column("document").is_valid())[kept]
    is_result = (rank >= 0) | has_document  # a row with neither says that nothing was shown
    rank, group, kept, has_document = rank[is_result], group[is_result], kept[is_result], has_document[is_result]
    sizes = np.bincount(group, minlength=len(ids))
    place = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_twice = np.zeros(len(group), np.bool_)
    is_twice[1:] = (group[1:] == group[:-1]) & (rank[1:] == rank[:-1])
    twice = np.bincount(group[is_twice], minlength=len(ids)) > 0
    gaps = np.bincount(group[(rank != place + first_rank) | ~has_document], minlength=len(ids)) > 0
    for reason, marks in ((DropReason.TWO_AT_POSITION, twice), (DropReason.GAPS_IN_LIST, gaps & ~twice)):
        if marks.any():
            one = int(np.flatnonzero(marks)[0])
            positions = ", ".join(map(str, rank[group == one][:EXAMPLES].tolist()))
            counts.dropped[reason] += int(marks.sum())
            counts.examples.setdefault(reason, f"impression {ids[one].as_py()!r} with positions {positions}")
    documents, owners = (rows.column(name).take(pa.array(kept)) for name in ("document", "owner"))
    columns |= {"impression": ids, "documents": lists_of(sizes, documents), "owners": lists_of(sizes, owners)}
    return pa.RecordBatch.from_pydict(columns).filter(pa.array(~(twice | gaps)))


def _order_of(rows: pa.RecordBatch, group: Array) -> tuple[Array, Array]:
    """The order of rows by impression and rank; and which rows repeat another in rank, document and owner."""
    document, owner = (
        np.asarray(pc.fill_null(rows.column(name).dictionary_encode().indices, -1)) for name in ("document", "owner")
    )
    rank = np.asarray(pc.fill_null(rows.column("rank"), -1))
    order = np.lexsort((owner, document, rank, group))
    is_same = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in (group, rank, document, owner):
        is_same &= column[order][1:] == column[order][:-1]
    is_copy = np.zeros(len(order), np.bool_)
    is_copy[order[1:][is_same]] = True
    return order, is_copy
