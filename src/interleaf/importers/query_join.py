"""Joins queries and their events to impressions, and gives each event its rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.importers.exported_columns import attributes_in, decode_rows, shared_columns
from interleaf.importers.foreign_lists import Foreign, LogEvidence, attribute_maps
from interleaf.importers.partition import Partition, lists_of
from interleaf.importers.protocol import ImportNote, ImportOptions, ImportResult
from interleaf.kernels.arrays import Array
from interleaf.log import schema
from interleaf.log.drop_reasons import DropReason
from interleaf.log.event_join import MergedCopies, merge_copies

LEFT_OUT = -(2**31)  # the rank of an event that does not count
OBJECT, RANK, INTERNAL, ORDINAL, SHOWN, NOT_SHOWN, NO_DOCUMENT, NO_ORDINAL = range(8)
REASONS = {
    INTERNAL: ImportNote.PLACED_BY_INTERNAL_ID,
    ORDINAL: ImportNote.PLACED_BY_ORDINAL,
    SHOWN: ImportNote.IMPRESSION_EVENT,
    NOT_SHOWN: ImportNote.EVENT_NOT_ON_LIST,
    NO_DOCUMENT: ImportNote.EVENT_WITHOUT_DOCUMENT,
    NO_ORDINAL: ImportNote.UNREADABLE_ORDINAL,
}


def place_events(
    part: Partition, evidence: LogEvidence, ordinals: int | None, usable: Array, counts: Counter[str]
) -> dict[str, Array]:
    """The rank of each event on usable lists (`LEFT_OUT` if it does not count), its dwell and value (nan if unknown).

    Counts how each got its rank.
    """
    events = part.events
    size = part.sizes[part.query]
    ordinal = np.asarray(pc.fill_null(events["ordinal"], -1)) - _starts(events["application"], evidence, ordinals)
    fits = (ordinal >= 0) & (ordinal < size)
    own_rank = np.asarray(pc.fill_null(events["rank"], LEFT_OUT))
    has_object, has_ordinal = (np.asarray(pc.is_valid(events[name])) for name in ("document", "ordinal"))
    rules: list[tuple[Array, int, Any]] = [
        (own_rank != LEFT_OUT, RANK, own_rank),
        (part.is_shown, SHOWN, LEFT_OUT),
        (part.by_object >= 0, OBJECT, part.by_object + 1),
        (part.by_internal >= 0, INTERNAL, part.by_internal + 1),
        (has_object & (evidence.ids_join | ~has_ordinal), NOT_SHOWN, LEFT_OUT),
        (~has_ordinal, NO_DOCUMENT, LEFT_OUT),
        (fits, ORDINAL, ordinal + 1),
    ]
    conditions, numbers, ranks = map(list, zip(*rules, strict=True))
    how = np.select(conditions, numbers, NO_ORDINAL)
    here = usable[part.query]
    amounts = np.bincount(how[here], minlength=len(REASONS) + 2)
    counts.update({reason: int(amounts[number]) for number, reason in REASONS.items()})
    counts[ImportNote.QUERY_LEFT_OUT] += int((~here).sum())
    rank = np.where(here, np.select(conditions, ranks, LEFT_OUT), LEFT_OUT)
    merged = _merge_event_copies(part, rank, how != RANK)
    counts[ImportNote.EVENT_REPEATED] += int(merged.is_repeated.sum())
    return {"rank": np.where(merged.is_repeated, LEFT_OUT, rank), "dwell": merged.dwell, "value": merged.value}


def _starts(applications: pa.Array, evidence: LogEvidence, ordinals: int | None) -> Array:
    """Where the ordinals of each event's application start; if unknown, a number so large that no ordinal fits."""
    if ordinals is not None:
        return np.full(len(applications), ordinals, np.int64)
    encoded = applications.dictionary_encode(null_encoding="encode")
    starts = [evidence.start_of(name) for name in encoded.dictionary.to_pylist()]
    by_code = np.array([2**40 if start is None else start for start in starts], np.int64)
    return np.asarray(by_code[np.asarray(encoded.indices)])


def _merge_event_copies(part: Partition, rank: Array, is_foreign: Array) -> MergedCopies:
    """Merge copies of one event: those with the same id; or, for foreign events without ids, with the same time.

    Events of our export without an id are never merged.
    """
    events, is_used = part.events, rank != LEFT_OUT
    has_id = np.asarray(pc.is_valid(events["event"]))
    by_id, by_moment = np.flatnonzero(is_used & has_id), np.flatnonzero(is_used & ~has_id & is_foreign)
    kinds = events["kind"].dictionary_encode()  # as numbers, in the sort order of the texts
    time, kind = np.asarray(events["time"]), np.asarray(pc.rank(kinds.dictionary).take(kinds.indices))
    dwell, value = (np.array(pc.fill_null(events[name], np.nan)) for name in ("dwell", "value"))
    merged = MergedCopies(np.zeros(len(rank), np.bool_), dwell, value)
    ids = events["event"].take(pa.array(by_id)).dictionary_encode()
    groups: list[tuple[Array, tuple[Array, ...]]] = [(by_moment, (kind[by_moment], rank[by_moment], time[by_moment]))]
    if len(ids.dictionary) < len(by_id):
        groups.append((by_id, (np.asarray(ids.indices),)))
    for some, columns in groups:
        event = _number_rows(part.query[some], *columns)
        is_copied = (np.bincount(event) > 1)[event]
        places = some[is_copied]
        copies = (column[places] for column in (time, rank, kind, merged.dwell, merged.value))
        for values, new_values in zip(merged, merge_copies(event[is_copied], *copies), strict=True):
            values[places] = new_values
    return merged


def _number_rows(*columns: Array) -> Array:
    """A number for each row, the same for equal rows."""
    order = np.lexsort(columns[::-1])
    is_new = np.zeros(len(order), np.bool_)
    for column in columns:
        is_new[1:] |= column[order][1:] != column[order][:-1]
    numbers = np.zeros(len(order), np.int64)
    numbers[order] = np.cumsum(is_new)
    return numbers


class Joiner:
    """Turns partitions of a log into record batches, with the evidence of the whole log; counts problems."""

    def __init__(self, evidence: LogEvidence, options: ImportOptions, imported: ImportResult) -> None:
        self._evidence, self._options, self._imported = evidence, options, imported
        self._foreign = Foreign(evidence, options, imported.counts)

    def batch(self, part: Partition) -> pa.RecordBatch:
        """The impressions of a partition. If a log has lists of interleaf, only these are imported."""
        counts = self._imported.counts
        counts.update(part.counts)
        usable = self._usable(part)
        columns = self._own(part, usable) if self._evidence.ours else self._foreign.columns(part, usable)
        counts[ImportNote.DOCUMENT_TWICE] += int((part.shows_twice & usable).sum())
        places = place_events(part, self._evidence, self._options.ordinals, usable, counts)
        size, text = int(usable.sum()), part.queries["text"]
        columns |= {
            "time": _select(part.queries["time"], usable).cast(schema.TIME),
            "query": _select(pc.if_else(pc.equal(text, ""), None, text), usable),
            "documents": lists_of(part.sizes[usable], _select(part.hits, np.repeat(usable, part.sizes))),
            "events": _events(part, places, usable),
        }
        self._imported.impressions += size
        self._imported.events += int((places["rank"] != LEFT_OUT).sum())
        arrays = [columns.get(column.name, pa.nulls(size, column.type)) for column in schema.COLUMNS]
        return pa.RecordBatch.from_arrays(arrays, schema=schema.SCHEMA)

    def _usable(self, part: Partition) -> Array:
        """Which queries become impressions; for the others, the first reason is counted."""
        left = np.ones(len(part.is_ours), np.bool_)
        for reason, holds in self._reasons(part):
            out = np.flatnonzero(left & holds)
            if len(out):
                name = part.queries["query_id"][int(out[0])].as_py()
                self._imported.drop(reason, f"query_id {name!r}", len(out))
            left[out] = False
        return left

    def _reasons(self, part: Partition) -> Iterator[tuple[str, Array]]:
        is_foreign = ~part.is_ours
        yield DropReason.GAPS_IN_LIST, part.has_gaps
        yield ImportNote.NOTHING_SHOWN, ~part.has_list & is_foreign
        yield ImportNote.QUERY_WITHOUT_TIME, np.asarray(pc.is_null(part.queries["time"]))
        if self._evidence.ours:
            yield ImportNote.OTHER_SYSTEM, is_foreign
            return
        if self._options.only_interleaved:
            yield ImportNote.NO_OWNERS, np.asarray(pc.is_null(part.queries["owners"]))
        if self._evidence.is_one_by_one:
            yield ImportNote.UNKNOWN_CONFIGURATION, np.asarray(pc.is_null(self._foreign.configurations(part)))

    def _own(self, part: Partition, usable: Array) -> dict[str, pa.Array]:
        """The columns of lists that our export wrote; lists that cannot be decoded are marked as not usable."""
        places, own = np.flatnonzero(usable), _select(part.queries, usable)
        codes, code = np.unique(part.codes[places], return_inverse=True)
        attributes = [part.attributes[number] for number in codes.tolist()]
        shared, wrong = shared_columns(attributes)
        columns, problems = decode_rows(own["own"])
        problems = {place: wrong[number] for place, number in enumerate(code.tolist()) if number in wrong} | problems
        for place, problem in sorted(problems.items()):
            self._imported.drop(
                ImportNote.UNREADABLE_COLUMNS, f"query_id {own['query_id'][place].as_py()!r}: {problem}"
            )
        columns |= {name: column.take(pa.array(code)) for name, column in shared.items()} | {
            "impression": own["query_id"],
            "attributes": attribute_maps(list(map(attributes_in, attributes)), code),
        }
        usable[places[list(problems)]] = False
        return {name: _select(column, usable[places]) for name, column in columns.items()}


def _select(values: pa.Array, mask: Array) -> pa.Array:
    """The values, or the rows of a batch, where the mask is true."""
    return values if mask.all() else values.filter(pa.array(mask))


def _events(part: Partition, places: dict[str, Array], usable: Array) -> pa.ListArray:
    """The events of usable lists in the log's schema; they are sorted by query and time already."""
    some = places["rank"] != LEFT_OUT
    events = _select(part.events, some)
    new_columns = {name: pa.array(column[some], from_pandas=True) for name, column in places.items()}
    columns = dict(zip(events.schema.names, events.columns, strict=True)) | new_columns
    arrays = [columns[column.name].cast(column.type) for column in schema.EVENT]
    inner = pa.StructArray.from_arrays(arrays, fields=[column.field for column in schema.EVENT])
    return lists_of(np.bincount(part.query[some], minlength=len(usable))[usable], inner)
