"""A partition of a foreign log: every query once, its events by time, and the position of each event's document.

`ShuffleFile` keeps all partitions on disk, by a hash of the query id, so that each one fits into memory.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Self
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.importers.protocol import ImportNote
from interleaf.importers.ubi_records import EVENTS, QUERIES, SHOWN, concat
from interleaf.kernels.arrays import Array

Row = dict[str, Any]
_decode_attributes = msgspec.json.Decoder(dict[str, str]).decode
_encode_attributes = msgspec.json.Encoder().encode


def each_once(queries: pa.RecordBatch, counts: Counter[str]) -> pa.RecordBatch:
    """Every query once, in the order of their first records."""
    codes = np.asarray(queries["query_id"].dictionary_encode().indices)  # in the order of first records
    is_repeated = (np.bincount(codes) > 1)[codes]
    if not is_repeated.any():
        return queries
    merged: dict[str, Row] = {}
    for row in queries.filter(pa.array(is_repeated)).to_pylist():
        row["attributes"] = _decode_attributes(row["attributes"])
        first = merged.setdefault(row["query_id"], row)
        if first is not row:
            merged[row["query_id"]] = _merge_rows(first, row, counts)
    texts = [row | {"attributes": _encode_attributes(row["attributes"])} for row in merged.values()]
    rows = pa.RecordBatch.from_pylist(texts, QUERIES)
    order = np.concatenate([codes[~is_repeated], np.unique(codes[is_repeated])])
    return pa.concat_batches([queries.filter(pa.array(~is_repeated)), rows]).take(pa.array(np.argsort(order)))


def _merge_rows(earlier: Row, query: Row, counts: Counter[str]) -> Row:
    """Merge two records of a query: missing fields are filled in, and the list comes from the more complete record."""

    def list_detail(row: Row) -> tuple[bool, bool]:  # owners belong to the hits of the same record
        return row["owners"] is not None, row["hits"] is not None

    other, first = sorted((query, earlier), key=list_detail)  # of equal ones, the earlier record is the first
    whole = {name: other[name] if value is None else value for name, value in first.items()}
    whole["attributes"] = other["attributes"] | first["attributes"]
    if None not in (earlier["hits"], query["hits"]) and earlier["hits"] != query["hits"]:
        counts[ImportNote.QUERY_WITH_OTHER_HITS] += 1
    elif whole == earlier:
        counts[ImportNote.QUERY_REPEATED] += 1
    else:
        counts[ImportNote.QUERY_COMPLETED] += 1
    return whole


class Partition:
    """Queries, each once; `events`, sorted by query and time; and `query[event]`, the index of its query.

    `attributes[codes[query]]` are the other attributes of a query. `hits` are all shown lists, concatenated, and
    `sizes` their lengths. Lists come from impression events if a query has no hits.
    """

    def __init__(self, queries: pa.RecordBatch, events: pa.RecordBatch) -> None:
        self.counts: Counter[str] = Counter()
        self.queries = each_once(queries, self.counts)
        query = _integers(pc.index_in(events["query_id"], self.queries["query_id"]))
        self.counts[ImportNote.QUERY_NOT_FOUND] += int((query < 0).sum())
        order = _order_of(query, _integers(events["time"]))
        order = order[np.searchsorted(query[order], 0) :]
        self.events = events.take(pa.array(order))
        self.query = query[order]
        self.is_shown = np.asarray(pc.equal(self.events["kind"], SHOWN))
        encoded = self.queries["attributes"].dictionary_encode()
        self.codes = _integers(encoded.indices)
        self.attributes = list(map(_decode_attributes, encoded.dictionary.to_pylist()))
        self.is_ours = np.asarray(self.queries["own"].is_valid())
        # A `rank` is kept only if our export wrote it: on a list of ours, equal to the ordinal. Other systems use this
        # name for other things, such as positions that start at 0.
        ranks = self.events["rank"]
        has_our_rank = pc.and_(pa.array(self.is_ours[self.query]), pc.equal(ranks, self.events["ordinal"]))
        place, ranks = self.events.schema.get_field_index("rank"), pc.if_else(has_our_rank, ranks, None)
        self.events = self.events.set_column(place, "rank", ranks)
        lists = self._with_rebuilt(self.queries["hits"])
        self.has_list = np.asarray(pc.is_valid(lists))
        self.sizes = _integers(pc.fill_null(pc.list_value_length(lists), 0))
        self.hits = pc.list_flatten(lists)

    def _with_rebuilt(self, lists: pa.ListArray) -> pa.ListArray:
        """Add lists that only impression events show: one position each, from 0 or 1, without gaps."""
        lacking = np.asarray(pc.is_null(lists)) & ~self.is_ours
        some = np.flatnonzero(self.is_shown & lacking[self.query])
        columns = [self.events[name].take(pa.array(some)).to_pylist() for name in ("ordinal", "document")]
        places: dict[int, dict[int, str]] = {}
        for query, ordinal, document in zip(self.query[some].tolist(), *columns, strict=True):
            if ordinal is not None and document is not None:
                places.setdefault(query, {}).setdefault(ordinal, document)
        self.has_gaps = np.zeros(len(lists), np.bool_)
        rebuilt: list[list[str] | None] = [None] * len(lists) if places else []
        for query, shown in places.items():
            start = min(shown)
            if start in (0, 1) and max(shown) - start + 1 == len(shown):
                rebuilt[query] = [shown[ordinal] for ordinal in sorted(shown)]
                self.counts[ImportNote.LIST_REBUILT] += 1
            else:
                self.has_gaps[query] = True
        return pc.coalesce(lists, pa.array(rebuilt, lists.type)) if places else lists

    def identity(self, name: str) -> pa.Array:
        """The `user`, `client` or `session` id of each query: from the query, else from its first event with one."""
        some = np.flatnonzero(np.asarray(pc.is_valid(self.events[name])))
        by_event = first_values(self.events[name], some, self.query[some], len(self.codes))
        inside = [one.get("user_id") or None for one in self.attributes] if name == "user" else []
        by_attribute = pa.array(inside, pa.string()).take(pa.array(self.codes)) if any(inside) else by_event
        return pc.coalesce(self.queries[name], by_attribute, by_event)

    @cached_property
    def starts(self) -> Array:
        """Where each list starts in `hits`."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def lists(self) -> Array:
        """The list of each hit."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def by_object(self) -> Array:
        """The position of each event's object in its list, from 0; -1 if it is not there."""
        return self._find("document")

    @cached_property
    def by_internal(self) -> Array:
        """The same by the internal id, for events whose object is not in the list."""
        return np.where(self.by_object < 0, self._find("internal"), -1)

    @cached_property
    def naming(self) -> tuple[Array, Array]:
        """The events that name the owner of a shown document, and the index of that hit."""
        some = np.flatnonzero(np.asarray(pc.is_valid(self.events["owner"])) & (self.by_object >= 0))
        return some, self.starts[self.query[some]] + self.by_object[some]

    @cached_property
    def owners(self) -> pa.Array:
        """The name of the ranker that owns each hit: from the query, else from the first event that names one."""
        has_owners = np.repeat(np.asarray(pc.is_valid(self.queries["owners"])), self.sizes)
        by_query = pc.list_flatten(self.queries["owners"]).take(pa.array(np.cumsum(has_owners) - 1, mask=~has_owners))
        return pc.coalesce(by_query, first_values(self.events["owner"], *self.naming, len(self.hits)))

    @cached_property
    def configurations(self) -> pa.Array:
        """The first known owner of each list."""
        some = np.flatnonzero(np.asarray(pc.is_valid(self.owners)))
        return first_values(self.owners, some, self.lists[some], len(self.sizes))

    @cached_property
    def shows_twice(self) -> Array:
        """Whether a list shows a document more than once."""
        document, place = np.divmod(self._places.keys, max(len(self.hits), 1))
        lists = self.lists[place]
        is_again = (document[1:] == document[:-1]) & (lists[1:] == lists[:-1])
        return np.bincount(lists[1:][is_again], minlength=len(self.sizes)) > 0

    def _find(self, name: str) -> Array:
        """The first position of each event's document in its list, from 0; -1 if there is none."""
        return self._places.find(self.events[name], self.query)

    @cached_property
    def _places(self) -> ShownPlaces:
        return ShownPlaces(self.hits, self.sizes)


class ShownPlaces:
    """Finds documents in shown lists: `hits` are all lists, concatenated, and `sizes` their lengths.

    >>> places = ShownPlaces(pa.array(["a", "b", "b", "c"]), np.array([2, 2]))
    >>> places.find(pa.array(["b", "b", "a"]), np.array([0, 1, 1])).tolist()
    [1, 0, -1]
    """

    def __init__(self, hits: pa.Array, sizes: Array) -> None:
        self._sizes, self._starts = sizes, np.cumsum(sizes) - sizes
        encoded = hits.dictionary_encode()
        self._distinct = encoded.dictionary
        # All hits as sorted numbers, document * len(hits) + position.
        self.keys = np.sort(_integers(encoded.indices) * len(hits) + np.arange(len(hits)))

    def find(self, documents: pa.Array, lists: Array) -> Array:
        """The first position of each document in its list, whose number is given, from 0; -1 if it is not there."""
        count = len(self.keys)
        if documents.null_count == len(documents) or not count:
            return np.full(len(lists), -1, np.int64)
        document, start = _integers(pc.index_in(documents, self._distinct)), self._starts[lists]
        first = self.keys[np.minimum(np.searchsorted(self.keys, document * count + start), count - 1)]
        first = first - document * count
        is_shown = (document >= 0) & (first >= start) & (first < start + self._sizes[lists])
        return np.where(is_shown, first - start, -1)


def lists_of(sizes: Array, values: pa.Array) -> pa.ListArray:
    """Split values into lists of these sizes.

    >>> lists_of(np.array([2, 0, 1]), pa.array(["a", "b", "c"])).to_pylist()
    [['a', 'b'], [], ['c']]
    """
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)), values)


def first_values(values: pa.Array, some: Array, groups: Array, count: int) -> pa.Array:
    """For each of `count` groups its first value, null if it has none; `some[n]` is a value of `groups[n]`."""
    first = np.full(count, -1, np.int64)
    first[groups[::-1]] = some[::-1]
    return values.take(pa.array(first, mask=first < 0))


def _order_of(first: Array, second: Array) -> Array:
    """The order of rows by these columns; in our own exports, they are in this order already."""
    is_sorted = (first[1:] > first[:-1]) | ((first[1:] == first[:-1]) & (second[1:] >= second[:-1]))
    return np.arange(len(first)) if is_sorted.all() else np.lexsort((second, first))


def _integers(values: pa.Array) -> Array:
    """Whole numbers, -1 for null."""
    return np.asarray(pc.fill_null(pc.cast(values, pa.int64()), -1))


PART = 16 * 2**20  # bytes of input text per partition
ROOM = 32 * 2**20  # maximum bytes of records that are buffered in memory
PIECE = 2**19  # bytes of records of a partition that are worth a write


class ShuffleFile:
    """A temporary file, with the positions of the pieces of each partition; memory does not grow with its size.

    Records are batches of one of the `schemas`, and their column `key` says which partition they belong to. Each
    partition keeps their order.

    >>> with ShuffleFile(size=0) as shuffle:
    ...     shuffle.add(pa.RecordBatch.from_pylist([{"query_id": "q-1"}, {"query_id": "q-2"}], QUERIES))
    ...     [queries["query_id"].to_pylist() for queries, events in shuffle.parts()]
    [['q-1', 'q-2']]
    """

    def __init__(self, size: int, schemas: Sequence[pa.Schema] = (QUERIES, EVENTS), key: str = "query_id") -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  it is closed at the end of the import
        self._pieces: list[list[tuple[pa.Schema, int, int]]] = [[] for _ in range(1 + size // PART)]
        self._schemas, self._key = tuple(schemas), key
        self._waiting: dict[pa.Schema, list[pa.RecordBatch]] = {schema: [] for schema in schemas}
        self._waiting_bytes = 0

    def add(self, *batches: pa.RecordBatch) -> None:
        """Add records."""
        for batch in batches:
            self._waiting[batch.schema].append(batch)
            self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= min(ROOM, PIECE * len(self._pieces)) and len(self._pieces) > 1:
            self._flush()

    def _flush(self) -> None:
        for schema, batches in self._waiting.items():
            for part, some in self._split(concat(batches, schema)):
                data = some.serialize()
                self._pieces[part].append((schema, self._file.seek(0, 2), len(data)))
                self._file.write(data)
            batches.clear()
        self._waiting_bytes = 0

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The records of each partition, in order."""
        encoded = batch.column(self._key).dictionary_encode()
        hashes = np.array([crc32(name) for name in encoded.dictionary.cast(pa.binary()).to_pylist()], np.int64)
        part_of = hashes[np.asarray(encoded.indices)] % len(self._pieces)
        ends = np.cumsum(np.bincount(part_of, minlength=len(self._pieces)))
        sorted_batch = batch.take(pa.array(np.argsort(part_of, kind="stable")))
        for part in np.unique(part_of).tolist():
            start = int(ends[part - 1]) if part else 0
            yield part, sorted_batch.slice(start, int(ends[part]) - start)

    def parts(self) -> Iterator[tuple[pa.RecordBatch, ...]]:
        """The records of each partition, a batch for each schema; can be called repeatedly."""
        if not any(self._pieces):  # they fit into memory
            yield tuple(concat(self._waiting[schema], schema) for schema in self._schemas)
            return
        self._flush()
        for pieces in self._pieces:
            batches: dict[pa.Schema, list[pa.RecordBatch]] = {schema: [] for schema in self._schemas}
            for schema, start, length in pieces:
                self._file.seek(start)
                piece = pa.allocate_buffer(length)  # from Arrow's pool, which keeps the memory
                self._file.readinto(memoryview(piece))
                batches[schema].append(pa.ipc.read_record_batch(piece, schema))
            yield tuple(concat(batches[schema], schema) for schema in self._schemas)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._file.close()
