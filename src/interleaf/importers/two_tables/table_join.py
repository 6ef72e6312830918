"""Joins the events of a partition to its impressions, and gives each event its rank: a record batch of the log.

Impressions with one row for each result become one row for each list. Rankers come from a column, from the keys of
rankings, from the option `rankers`, or else they are the owners that occur in the impressions of the same experiment
and version.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.errors import DataError
from interleaf.importers.partition import ShownPlaces, first_values, lists_of
from interleaf.importers.two_tables.table_rows import RESULT, RESULTS
from interleaf.interleaving.rankings import MAX_RANKERS
from interleaf.kernels.arrays import Array
from interleaf.log import schema
from interleaf.log.drop_reasons import DropReason, EventFate
from interleaf.log.event_join import ReadCounts

NOBODY, UNKNOWN = -1, -2
_NOBODY_NAMES = ("", "-1")
_NAMES = pa.list_(pa.string())
_BREAK = "\x1f"  # between the parts of the text that stands for a design
Design = tuple[str, ...]  # experiment and version
EXAMPLES = 12  # positions of a list that an example shows


class OwnerEvidence:
    """The owners that occur in each experiment; collect them from all impressions, then ask for rankers and teams."""

    def __init__(self, rankers: Sequence[str] = ()) -> None:
        self._given = list(rankers)
        self._owners: defaultdict[Design, set[str]] = defaultdict(set)
        self.has_owners = False

    def add(self, batch: pa.RecordBatch) -> None:
        """Collect the owners of converted impressions."""
        owners, parents = _flat_owners(batch)
        if owners is None or owners.null_count == len(owners):
            return
        self.has_owners = True
        designs, design = _designs(batch)
        encoded = owners.dictionary_encode()
        codes = np.asarray(pc.fill_null(encoded.indices, -1)).astype(np.int64)
        some = codes >= 0
        pairs = np.unique(design[parents[some]] * len(encoded.dictionary) + codes[some])
        texts = encoded.dictionary.to_pylist()
        for pair in pairs.tolist():
            place, code = divmod(pair, len(texts))
            if texts[code] not in _NOBODY_NAMES:
                self._owners[designs[place]].add(texts[code])

    def rankers(self, batch: pa.RecordBatch) -> pa.Array:
        """The rankers of each impression; null if nothing names them."""
        names = batch.column("rankers") if "rankers" in batch.schema.names else pa.nulls(len(batch), _NAMES)
        if not names.null_count:
            return names
        designs, design = _designs(batch)
        by_design = pa.array([self._rankers_of(one) for one in designs], _NAMES)
        return pc.if_else(names.is_valid(), names, by_design.take(pa.array(design)))

    def _rankers_of(self, design: Design) -> list[str] | None:
        if self._given:
            return self._given
        owners = sorted(self._owners.get(design, ()))
        if len(owners) > MAX_RANKERS:
            raise DataError(
                f"{len(owners)} different rankers own documents, such as {owners[:3]}, and an experiment has at most "
                f"{MAX_RANKERS}; name the column of the owner by --map owner=COLUMN, or of the experiment"
            )
        if owners and all(owner.isdecimal() for owner in owners):
            raise DataError(
                f"the owners of documents are numbers, such as {owners[0]}; name the rankers in their order, such as "
                "--rankers production candidate"
            )
        return owners or None

    def teams(self, owners: pa.Array, rankers: pa.Array) -> tuple[pa.Array, Array]:
        """The number of each owner among the rankers of its impression; and which impressions have an unknown one."""
        size = len(owners)
        if not self.has_owners:
            return pa.nulls(size, pa.list_(pa.int8())), np.zeros(size, np.bool_)
        keys = pc.binary_join(rankers, _BREAK).dictionary_encode(null_encoding="encode")
        design = np.asarray(keys.indices).astype(np.int64)
        flat = owners.flatten().dictionary_encode()
        names = flat.dictionary.to_pylist()
        table = np.full((len(keys.dictionary), len(names) + 1), NOBODY, np.int64)
        for row, key in enumerate(keys.dictionary.to_pylist()):
            table[row, :-1] = _numbers(names, [] if key is None else key.split(_BREAK))
        codes = np.asarray(pc.fill_null(flat.indices, -1)).astype(np.int64)  # the last column of the table is nobody
        sizes = np.asarray(pc.fill_null(pc.list_value_length(owners), 0))
        parents = np.repeat(np.arange(size), sizes)
        numbers = table[design[parents], codes]
        unknown = np.bincount(parents[numbers == UNKNOWN], minlength=size) > 0
        offsets = pa.array(
            np.append(0, np.cumsum(sizes)), pa.int32(), mask=np.append(np.asarray(owners.is_null()), False)
        )
        return pa.ListArray.from_arrays(offsets, pa.array(np.maximum(numbers, NOBODY), pa.int8())), unknown


def find_unknown(owners: Sequence[str | None], rankers: Sequence[str]) -> str:
    """The first owner of a list that is none of its rankers.

    >>> find_unknown([None, "old", "ads"], ["old", "new"])
    'ads'
    """
    names = [owner for owner in owners if owner is not None]
    return names[_numbers(names, rankers).index(UNKNOWN)]


def _numbers(owners: Sequence[str], rankers: Sequence[str]) -> list[int]:
    """The number of each owner; owners may be the numbers of the rankers themselves.

    >>> _numbers(["new", "", "ads"], ["old", "new"]), _numbers(["0", "1"], ["old", "new"])
    ([1, -1, -2], [0, 1])
    """
    places = {name: place for place, name in enumerate(rankers)}
    if not any(owner in places for owner in owners):
        places = {str(place): place for place in range(len(rankers))}
    return [NOBODY if owner in _NOBODY_NAMES else places.get(owner, UNKNOWN) for owner in owners]


def _flat_owners(batch: pa.RecordBatch) -> tuple[pa.Array | None, Array]:
    """The owners of all documents, and the row of each."""
    if "owner" in batch.schema.names:
        return batch.column("owner"), np.arange(len(batch))
    if "owners" not in batch.schema.names:
        return None, np.zeros(0, np.int64)
    owners = batch.column("owners")
    return owners.flatten(), np.asarray(pc.list_parent_indices(owners)).astype(np.int64)


def _designs(batch: pa.RecordBatch) -> tuple[list[Design], Array]:
    """The experiments and versions that occur, and which of them each row has."""
    names = [name for name in ("experiment", "version") if name in batch.schema.names]
    if not names:
        return [()], np.zeros(len(batch), np.int64)
    parts = [pc.fill_null(batch.column(name).cast(pa.string()), "") for name in names]
    encoded = pc.binary_join_element_wise(*parts, _BREAK).dictionary_encode()
    designs = [tuple(text.split(_BREAK)) for text in encoded.dictionary.to_pylist()]
    return designs, np.asarray(encoded.indices).astype(np.int64)


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
    order, is_copy = _result_order(rows, group)
    counts.dropped[DropReason.REPEATED_IMPRESSION] += len(np.unique(group[is_copy]))
    rows_in_order = order[~is_copy[order]]
    rank, group = np.asarray(pc.fill_null(rows.column("rank"), -1))[rows_in_order], group[rows_in_order]
    has_document = np.asarray(rows.column("document").is_valid())[rows_in_order]
    is_result = (rank >= 0) | has_document  # a row with neither says that nothing was shown
    rank, group, rows_in_order, has_document = (
        rank[is_result],
        group[is_result],
        rows_in_order[is_result],
        has_document[is_result],
    )
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
    documents, owners = (rows.column(name).take(pa.array(rows_in_order)) for name in ("document", "owner"))
    columns |= {"impression": ids, "documents": lists_of(sizes, documents), "owners": lists_of(sizes, owners)}
    return pa.RecordBatch.from_pydict(columns).filter(pa.array(~(twice | gaps)))


def _result_order(rows: pa.RecordBatch, group: Array) -> tuple[Array, Array]:
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
        some = some[_event_order(events, row, rank, some)]
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


def _event_order(events: pa.RecordBatch, row: Array, rank: Array, some: Array) -> Array:
    """The order of events by impression, time, rank and kind; it does not depend on the order of the rows."""
    kinds = events.column("kind").dictionary_encode()
    names = (
        np.argsort(np.argsort(np.array(kinds.dictionary.to_pylist(), object))) if len(kinds.dictionary) else np.zeros(0)
    )
    kind = names[np.asarray(kinds.indices)] if len(names) else np.zeros(len(events))
    amounts = [np.asarray(pc.fill_null(events.column(name), -1)) for name in ("value", "dwell")]
    time = np.asarray(events.column("time").cast(pa.int64()))
    return np.lexsort([column[some] for column in (*amounts, kind, rank, time, row)])
