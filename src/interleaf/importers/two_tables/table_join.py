"""Joins the events of a partition to its impressions, and gives each event its rank: a record batch of the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.errors import DataError
from interleaf.importers.partition import ShownPlaces, lists_of
from interleaf.importers.two_tables.list_rows import RESULTS
from interleaf.importers.two_tables.owners import OwnerEvidence, find_unknown
from interleaf.importers.two_tables.result_groups import group_results
from interleaf.kernels.arrays import Array
from interleaf.log import schema
from interleaf.log.drop_reasons import DropReason, EventFate
from interleaf.log.event_join import ReadCounts


@dataclass
class TableJoiner:
    """Turns partitions into record batches; `defaults` are values of columns that the impressions lack.

    `first_rank` and `first_event_rank` are the number of the top position, 0 or 1. If the latter is a guess, 0 is
    refused as soon as an event has a position that no list has if it starts at 0.
    """

    shape: str
    evidence: OwnerEvidence
    defaults: dict[str, Any]
    first_rank: int
    first_event_rank: int
    is_guess: bool
    counts: ReadCounts
    events: int = field(default=0)

    def batch(self, impressions: pa.RecordBatch, events: pa.RecordBatch) -> pa.RecordBatch:
        """The impressions of a partition, with their events."""
        lists = group_results(impressions, self.first_rank, self.counts) if self.shape == RESULTS else impressions
        rankers = self.evidence.rankers(lists)
        teams, unknown = self.evidence.teams(lists.column("owners"), rankers)
        undesigned = np.asarray(rankers.is_null()) & ~unknown
        if unknown.any():
            one = int(np.flatnonzero(unknown)[0])
            names = rankers[one].as_py() or []
            owner = find_unknown(lists.column("owners")[one].as_py(), names)
            among = f"owner {owner!r}, and rankers {', '.join(map(repr, names))}"
            self._count(DropReason.UNKNOWN_OWNER, unknown, lists, f" with {among}")
        if undesigned.any():
            self._count(DropReason.NO_DESIGN, undesigned, lists)
        columns = dict(zip(lists.schema.names, lists.columns, strict=True)) | {"rankers": rankers, "teams": teams}
        usable = ~(unknown | undesigned)
        if not usable.all():
            columns = {name: column.filter(pa.array(usable)) for name, column in columns.items()}
        columns["events"] = self._events(columns, events)
        size = len(columns["impression"])
        arrays = [self._column(column, columns.get(column.name), size) for column in schema.COLUMNS]
        return pa.RecordBatch.from_arrays(arrays, schema=schema.SCHEMA)

    def _count(self, reason: DropReason, marks: Array, lists: pa.RecordBatch, detail: str = "") -> None:
        self.counts.dropped[reason] += int(marks.sum())
        example = lists.column("impression")[int(np.flatnonzero(marks)[0])].as_py()
        self.counts.examples.setdefault(reason, f"impression {example!r}{detail}")

    def _column(self, column: schema.Column, values: pa.Array | None, size: int) -> pa.Array:
        """A column of the log, with the default in place of nulls."""
        if values is None:
            values = pa.nulls(size, column.type)
        if column.name in self.defaults and values.null_count:
            default = pa.repeat(pa.scalar(self.defaults[column.name], column.type), size)
            values = pc.if_else(values.is_valid(), values, default) if values.null_count < size else default
        return values

    def _events(self, lists: dict[str, pa.Array], events: pa.RecordBatch) -> pa.ListArray:
        """The events of each list, by time."""
        row = _rows_of(lists, events.column("impression"))
        self.counts.events[EventFate.UNMATCHED] += int((row < 0).sum())
        rank = self._ranks(lists, events, row)
        self.counts.events[EventFate.NOT_ON_LIST] += int(((row >= 0) & (rank < 1)).sum())
        some = np.flatnonzero((row >= 0) & (rank >= 1))
        some = some[_order_of(events, row, rank, some)]
        is_copy = _find_copies(events, row, rank, some)
        self.counts.events[EventFate.REPEATED] += int(is_copy.sum())
        some = some[~is_copy]
        columns = dict(zip(events.schema.names, events.columns, strict=True)) | {"rank": pa.array(rank, pa.int32())}
        arrays = [columns[column.name].take(pa.array(some)) for column in schema.EVENT]
        inner = pa.StructArray.from_arrays(arrays, fields=[column.field for column in schema.EVENT])
        self.events += len(some)
        return lists_of(np.bincount(row[some], minlength=len(lists["impression"])), inner)

    def _ranks(self, lists: dict[str, pa.Array], events: pa.RecordBatch, row: Array) -> Array:
        """The rank of each event's document, else its own rank; 0 if that is on no list."""
        sizes = np.asarray(pc.fill_null(pc.list_value_length(lists["documents"]), 0)).astype(np.int64)
        if not len(sizes):
            return np.zeros(len(row), np.int64)
        by_document = ShownPlaces(lists["documents"].flatten(), sizes).find(events.column("document"), row) + 1
        has_document = np.asarray(events.column("document").is_valid())
        position = np.asarray(pc.fill_null(events.column("rank"), -1)) - self.first_event_rank + 1
        is_below = (row >= 0) & ~has_document & (position == sizes[row] + 1)
        if self.is_guess and self.first_event_rank == 0 and is_below.any():
            raise DataError(
                "the positions of events seem to start at 0, but one is as large as its list is long; give --ordinals "
                "0 or --ordinals 1"
            )
        by_rank = np.where((position >= 1) & (position <= sizes[row]), position, 0)
        return np.where(row < 0, 0, np.where(has_document, by_document, by_rank))


def _rows_of(lists: dict[str, pa.Array], impressions: pa.Array) -> Array:
    """The row of each event's impression, -1 if there is none.

    If an impression has several rows, it is the one with the last page, and the first of several of those.
    """
    encoded = lists["impression"].dictionary_encode()
    code = np.asarray(pc.fill_null(pc.index_in(impressions, encoded.dictionary), -1)).astype(np.int64)
    if len(encoded.dictionary) == len(encoded):
        return code
    codes = np.asarray(encoded.indices)
    page = np.asarray(pc.fill_null(lists["page"].cast(pa.int64()), 1)) if "page" in lists else np.ones(len(codes))
    order = np.lexsort((np.arange(len(codes)), -page, codes))
    best = order[np.searchsorted(codes[order], np.arange(len(encoded.dictionary)))]
    return np.where(code < 0, -1, best[code])


def _find_copies(events: pa.RecordBatch, row: Array, rank: Array, some: Array) -> Array:
    """Which of the sorted events equal another one and have no id. The reader of the log merges those with an id."""
    places = np.flatnonzero(np.asarray(events.column("event").is_null())[some])
    chosen = some[places]
    kind = np.asarray(events.column("kind").dictionary_encode().indices)
    time = np.asarray(events.column("time").cast(pa.int64()))
    is_same = np.ones(max(len(chosen) - 1, 0), np.bool_)
    for column in (row, rank, kind, time):
        is_same &= column[chosen][1:] == column[chosen][:-1]
    for name in ("value", "dwell"):
        amount = np.asarray(pc.fill_null(events.column(name), np.nan))[chosen]
        is_same &= (amount[1:] == amount[:-1]) | (np.isnan(amount[1:]) & np.isnan(amount[:-1]))
    is_copy = np.zeros(len(some), np.bool_)
    is_copy[places[1:][is_same]] = True
    return is_copy


def _order_of(events: pa.RecordBatch, row: Array, rank: Array, some: Array) -> Array:
    """The order of events by impression, time, rank and kind; it does not depend on the order of the rows."""
    kinds = events.column("kind").dictionary_encode()
    names = (
        np.argsort(np.argsort(np.array(kinds.dictionary.to_pylist(), object))) if len(kinds.dictionary) else np.zeros(0)
    )
    kind = names[np.asarray(kinds.indices)] if len(names) else np.zeros(len(events))
    amounts = [np.asarray(pc.fill_null(events.column(name), -1)) for name in ("value", "dwell")]
    time = np.asarray(events.column("time").cast(pa.int64()))
    return np.lexsort([column[some] for column in (*amounts, kind, rank, time, row)])
