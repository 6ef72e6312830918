"""Decodes UBI 1.3 records: from JSON lines to batches of queries and events, a column at a time.

Published samples break the schema, so values of a wrong type are converted or ignored, and counted. A record is
dropped only if it cannot be used at all.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import compress
from types import NoneType
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, Struct, field

from interleaf.importers.protocol import ImportNote, ImportResult
from interleaf.log.drop_reasons import DropReason
from interleaf.log.jsonl import MAX_LINE_BYTES, LineError, parse_line, split_lines

SECONDS_BELOW = 10**11  # smaller numbers are seconds: as milliseconds, this is in 1973
START = datetime(1970, 1, 1, tzinfo=UTC)
# Arrow accepts the year 0, Python does not.
FIRST_YEAR = (datetime(1, 1, 1, tzinfo=UTC) - START) // timedelta(microseconds=1)
MAX_TIME = 253_402_300_800 * 10**6  # the end of the year 9999
MAX_NUMBER = 3e38  # maximum of a dwell or a value
MAX_RANK = 2**31 - 1  # maximum rank in a log
MAX_WHOLE = 2**63 - 1
SHOWN = "impression"  # the action for a document that was shown; not a reaction of the user

NotObject = str | int | float | bool | list[Any] | None  # other JSON values that may occur in place of an object


class Action(Struct, gc=False):
    """An action line of a bulk file, which describes the next line."""

    id: Any = field(name="_id", default=None)


class Object(Struct, gc=False):
    """The document that an event is about."""

    object_id: Any = None
    internal_id: Any = None


class Position(Struct, gc=False):
    """Where the document was shown."""

    ordinal: Any = None


class EventAttributes(Struct, gc=False):
    """Further fields of an event; `rank` and `dwell` are from our export, `search_config` from the Chorus shop."""

    position: Position | NotObject = None
    rank: Any = None
    object: Object | NotObject = None
    dwell: Any = None
    value: Any = None
    event: Any = None
    session_id: Any = None
    search_config: Any = None
    dwell_time: Any = None


class EngineAnswer(Struct, gc=False):
    """The response of an engine, not decoded."""


class Record(Struct, gc=False):
    """The object of a line: an event, a query, an action line, a search hit around a record, a response or a click."""

    index: Action | NotObject | msgspec.UnsetType = UNSET
    create: Action | NotObject | msgspec.UnsetType = UNSET
    application: Any = None
    query_id: Any = None
    client_id: Any = None
    session_id: Any = None
    action_name: Any = None
    user_query: Any = UNSET
    timestamp: Any = None
    event_attributes: EventAttributes | NotObject = None
    query_attributes: msgspec.Raw = msgspec.Raw()  # often equal in many records, so each distinct one is decoded once
    query_response_hit_ids: Any = UNSET
    interleaf_row: Any = None
    user_id: Any = None
    source: Record | NotObject = field(name="_source", default=None)
    id: Any = field(name="_id", default=None)
    response: EngineAnswer | NotObject = None
    hits: EngineAnswer | NotObject = None
    document: Any = UNSET  # from here on: fields of a plain click log
    kind: Any = "click"
    time: Any = UNSET
    dwell: Any = None
    value: Any = None
    event: Any = None


# A line number, a record, and what the record itself does not contain: the id of an event, which is in the line
# before or in a search hit, or the names of the rankers that own the hits of a query.
Entry = tuple[int, Record, Any]
Columns = dict[str, Any]  # by name: a list of values of any type, or an Arrow array after the conversion

# Queries. `owners` are names of rankers, one for each hit, if an engine interleaved; `own` is the `interleaf_row` of a
# query that our export wrote; `attributes` is a JSON object of all other texts.
QUERIES = pa.schema(
    [
        *(("query_id", pa.string()), ("time", pa.int64())),
        *((name, pa.string()) for name in ("text", "application", "user", "client", "session")),
        *((name, pa.list_(pa.string())) for name in ("hits", "owners")),
        *((name, pa.string()) for name in ("own", "attributes")),
    ]
)
# Events. `rank` is known if our export wrote the event; else it is found by the object or the ordinal.
EVENTS = pa.schema(
    [
        *((name, pa.string()) for name in ("query_id", "kind", "application", "user", "client", "session")),
        *((name, pa.string()) for name in ("event", "document", "internal", "owner")),
        *((name, pa.int64()) for name in ("time", "ordinal", "rank")),
        *((name, pa.float64()) for name in ("dwell", "value")),
    ]
)
_NO_OBJECT, _NO_POSITION, _NO_ATTRIBUTES = Object(), Position(), EventAttributes()
_decoder = msgspec.json.Decoder(Record, float_hook=float)  # float() reads 1e400 as infinity, as json does
_decode_any = msgspec.json.Decoder(float_hook=float).decode
_encode = msgspec.json.Encoder().encode
_SIMPLE = (str, int, float, bool)  # types of attributes that are written as texts
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_records(block: bytes) -> list[Any]:
    """The record of each line of a block; None for a blank line, and a `LineError` for an invalid one."""
    if len(block) <= MAX_LINE_BYTES:
        try:
            # Else as text, because msgspec does not check the encoding of fields that it skips.
            records = _decoder.decode_lines(block if block.isascii() else block.decode())
            newlines = np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n"))  # faster than block.count
            if len(records) == newlines + (not block.endswith(b"\n")):
                return records
        except _UNREADABLE:
            pass
    return list(map(_decode_record, split_lines(block)))


def _decode_record(line: bytes) -> Record | LineError | None:
    try:
        return _decoder.decode(line.decode())
    except _UNREADABLE:
        if line.isspace():
            return None
    try:
        parse_line(line)
    except LineError as problem:
        return problem
    return LineError(DropReason.NOT_JSON)


def click_as_event(record: Record) -> None:
    """Turn a line of a plain click log, `{"query_id", "document", "time"}` and perhaps `kind`, into a UBI event."""
    record.action_name = record.kind
    record.timestamp = record.timestamp if record.time is UNSET else record.time
    thing = Object(object_id=record.document)
    record.event_attributes = EventAttributes(object=thing, event=record.event, dwell=record.dwell, value=record.value)


def _record_values(records: Sequence[Record]) -> Columns:
    """The values of columns that queries and events have, as they are in the records."""
    return {
        **{"query_id": [one.query_id for one in records], "time": [one.timestamp for one in records]},
        **{"application": [one.application for one in records], "user": [one.user_id for one in records]},
        **{"client": [one.client_id for one in records], "session": [one.session_id for one in records]},
    }


def _event_values(entries: Sequence[Entry]) -> Columns:
    """The values of events by column, as they are in the records."""
    records: list[Any] = [one for _, one, _ in entries]
    values = [one.event_attributes for one in records]
    attributes: list[Any] = [one if type(one) is EventAttributes else _NO_ATTRIBUTES for one in values]
    objects: list[Any] = [one.object if type(one.object) is Object else _NO_OBJECT for one in attributes]
    positions: list[Any] = [one.position if type(one.position) is Position else _NO_POSITION for one in attributes]
    ids = [name if type(name) is str else None for _, _, name in entries]
    columns = _record_values(records)
    sessions = zip(columns["session"], attributes, strict=True)
    return columns | {
        "session": [session or more.session_id for session, more in sessions],
        "event": [name or more.event for name, more in zip(ids, attributes, strict=True)],
        **{"line": [number for number, _, _ in entries], "kind": [one.action_name for one in records]},
        **{"document": [one.object_id for one in objects], "internal": [one.internal_id for one in objects]},
        **{"ordinal": [one.ordinal for one in positions], "owner": [one.search_config for one in attributes]},
        **{"rank": [one.rank for one in attributes], "value": [one.value for one in attributes]},
        **{"dwell": [one.dwell for one in attributes], "dwell_time": [one.dwell_time for one in attributes]},
    }


def _query_values(entries: Sequence[Entry]) -> Columns:
    """The values of queries by column, as they are in the records."""
    records: list[Any] = [one for _, one, _ in entries]
    return _record_values(records) | {
        **{"line": [number for number, _, _ in entries], "owners": [owners for _, _, owners in entries]},
        **{"text": [one.user_query for one in records], "own": [one.interleaf_row for one in records]},
        "hits": [one.query_response_hit_ids for one in records],
        "attributes": [bytes(one.query_attributes) for one in records],
    }


class ColumnBuilder:
    """Collects the values of records of one file, converts them to batches, and counts what it converts or drops.

    Values are collected after each block of lines, while its records are in the processor's cache.
    """

    def __init__(self, path: object, result: ImportResult) -> None:
        self._path, self._result, self._counts = path, result, result.counts
        self._queries: defaultdict[str, list[Any]] = defaultdict(list)
        self._events: defaultdict[str, list[Any]] = defaultdict(list)

    def __len__(self) -> int:
        return len(self._queries["line"]) + len(self._events["line"])

    def add(self, queries: Sequence[Entry], events: Sequence[Entry]) -> None:
        """Collect the values of queries and events."""
        for columns, values in ((self._queries, _query_values(queries)), (self._events, _event_values(events))):
            for name, column in values.items():
                columns[name] += column

    def batches(self) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The collected records as batches of `QUERIES` and `EVENTS`; the next ones start empty."""
        queries, events = dict(self._queries), dict(self._events)
        self._queries.clear()
        self._events.clear()
        return self._query_batch(queries), self._event_batch(events)

    def _event_batch(self, columns: Columns) -> pa.RecordBatch:
        columns["query_id"] = self._ids(columns["query_id"])
        columns = self._drop_nulls(ImportNote.EVENT_WITHOUT_QUERY, columns, "query_id")
        columns["time"] = self._times(columns["time"])
        columns = self._drop_nulls(ImportNote.EVENT_WITHOUT_TIME, columns, "time")
        dwell, dwell_time = _numbers(columns["dwell"]), _numbers(columns["dwell_time"])
        self._counts[ImportNote.DWELL_TIME] += pc.sum(pc.greater(dwell_time.is_valid(), dwell.is_valid())).as_py() or 0
        for name in ("application", "user", "client", "session", "event", "document", "internal", "owner"):
            columns[name] = self._ids(columns[name])
        columns["kind"] = _kinds(columns["kind"])
        columns["ordinal"] = self._ordinals(columns["ordinal"])
        ranks = [one if type(one) is int and abs(one) <= MAX_RANK else None for one in columns["rank"]]
        columns["rank"] = pa.array(ranks, pa.int64())
        columns |= {"dwell": pc.coalesce(dwell, dwell_time), "value": _numbers(columns["value"])}
        return pa.RecordBatch.from_arrays([columns[name] for name in EVENTS.names], schema=EVENTS)

    def _query_batch(self, columns: Columns) -> pa.RecordBatch:
        columns["query_id"] = self._ids(columns["query_id"])
        columns = self._drop_nulls(ImportNote.QUERY_WITHOUT_ID, columns, "query_id")
        columns |= {"time": self._times(columns["time"]), "hits": self._hits(columns["hits"])}
        columns = self._drop_nulls(ImportNote.HIT_WITHOUT_ID, columns, "hits")
        hits = columns["hits"]
        for name in ("text", "own"):
            columns[name] = pa.array([one if type(one) is str else None for one in columns[name]], pa.string())
        for name in ("application", "user", "client", "session"):
            columns[name] = self._ids(columns[name])
        columns["attributes"], lost = texts_in(columns["attributes"])
        self._counts[ImportNote.ATTRIBUTE_NOT_TEXT] += lost
        columns |= {
            "hits": pc.if_else(pc.greater(pc.list_value_length(hits), 0), hits, None),
            "owners": pa.array(columns["owners"], pa.list_(pa.string())),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in QUERIES.names], schema=QUERIES)

    def _drop_nulls(self, reason: str, columns: Columns, name: str) -> Columns:
        """Drop records where this column, already converted, is null, and count them."""
        if not columns[name].null_count:
            return columns
        is_valid = columns[name].is_valid()
        mask = is_valid.to_pylist()
        for line in compress(columns["line"], pc.invert(is_valid).to_pylist()):
            self._result.drop(reason, f"{self._path}:{line}")
        return {
            name: list(compress(column, mask)) if isinstance(column, list) else column.filter(is_valid)
            for name, column in columns.items()
        }

    def _ids(self, values: list[Any]) -> pa.Array:
        """Ids as texts, null for an empty one."""
        if _are_missing(values):
            return pa.nulls(len(values), pa.string())
        try:
            texts = pa.array(values, pa.string())
        except pa.ArrowTypeError:
            texts = pa.array([id_text(value, self._counts) for value in values], pa.string())
        is_empty = pc.equal(texts, "")
        return pc.if_else(is_empty, None, texts) if is_empty.true_count else texts

    def _times(self, values: list[Any]) -> pa.Array:
        """Microseconds since 1970, null for invalid times."""
        try:
            times = pa.array(values, pa.string()).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            if (pc.min(times).as_py() or 0) >= FIRST_YEAR:
                return times
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            pass  # Arrow accepts fewer formats, and fails if one time is invalid
        return pa.array([since_1970(value, self._counts) for value in values], pa.duration("us")).cast(pa.int64())

    def _hits(self, values: list[Any]) -> pa.ListArray:
        """Document ids in shown order; an empty list if there are none, null if one is not an id."""
        lists = [hits if type(hits) is list else [] for hits in values]
        try:
            column = pa.array(lists, pa.list_(pa.string()))
            if not column.values.null_count:
                return column
        except pa.ArrowTypeError:
            pass
        texts = [[id_text(hit, self._counts) for hit in hits] for hits in lists]
        return pa.array([None if None in hits else hits for hits in texts], pa.list_(pa.string()))

    def _ordinals(self, values: list[Any]) -> pa.Array:
        """Whole numbers that a log can hold, null for others."""
        numbers = values
        if not set(map(type, values)) <= {int, NoneType}:
            numbers = [one if one is None or type(one) is int else self._whole(one) for one in values]
        try:
            return pa.array(numbers, pa.int64())
        except OverflowError:
            return pa.array([None if one is None or abs(one) > MAX_WHOLE else one for one in numbers], pa.int64())

    def _whole(self, value: Any) -> int | None:
        try:
            number = float(value)
            self._counts[ImportNote.ORDINAL_NOT_WHOLE] += 1
            return int(number) if number == int(number) else None
        except (TypeError, ValueError, OverflowError):
            return None


def _kinds(values: list[Any]) -> pa.Array:
    """Names of actions; other values are written as JSON."""
    try:
        return pc.fill_null(pa.array(values, pa.string()), "null")
    except pa.ArrowTypeError:
        return pa.array([one if type(one) is str else json.dumps(one) for one in values], pa.string())


def _are_missing(values: list[Any]) -> bool:
    return bool(values) and values[0] is None and values.count(None) == len(values)


def _numbers(values: list[Any]) -> pa.Array:
    """Numbers that a log can hold, null for others."""
    if _are_missing(values):
        return pa.nulls(len(values), pa.float64())
    numbers = [float(one) if type(one) in (int, float) and abs(one) < MAX_NUMBER else None for one in values]
    return pa.array(numbers, pa.float64())


def texts_in(attributes: Sequence[bytes]) -> tuple[pa.StringArray, int]:
    """JSON of the texts in JSON attributes, and how many attributes are not texts; equal JSON is decoded once.

    >>> texts, lost = texts_in([b'{"device":"phone","n":5,"deep":{}}', b"null"])
    >>> texts.to_pylist(), lost
    (['{"device":"phone","n":"5"}', '{}'], 1)
    """
    codes = {raw: code for code, raw in enumerate(dict.fromkeys(attributes))}
    code = np.array([codes[raw] for raw in attributes], np.int64)
    texts = list(map(_texts_in, codes))
    lost = np.array([count for _, count in texts], np.int64)[code]
    return pa.array([_encode(one) for one, _ in texts], pa.string()).take(pa.array(code)), int(lost.sum())


def _texts_in(attributes: bytes) -> tuple[dict[str, str], int]:
    """Attributes that are texts, as the plugin stores them; numbers and booleans as JSON; and how many are others."""
    try:
        values = _decode_any(attributes or b"null")
    except msgspec.DecodeError:  # a number of thousands of digits
        return {}, 1
    present = {name: value for name, value in values.items() if value is not None} if type(values) is dict else {}
    texts = {
        name: one if type(one) is str else json.dumps(one) for name, one in present.items() if type(one) in _SIMPLE
    }
    return texts, len(present) - len(texts)


def id_text(value: Any, counts: Counter[str]) -> str | None:
    """An id as text; numbers, which violate the schema, are converted to their digits."""
    if type(value) is int:
        counts[ImportNote.NUMERIC_ID] += 1
        return str(value)
    return value if type(value) is str else None


def since_1970(value: Any, counts: Counter[str]) -> timedelta | None:
    """The time since 1970, or None if the value is not a time; guesses are counted.

    >>> counts = Counter()
    >>> {since_1970(time, counts) for time in ("2024-06-04T19:02:42.025Z", "2024-06-04T21:02:42.025+0200")}
    {datetime.timedelta(days=19878, seconds=68562, microseconds=25000)}
    >>> {since_1970(time, counts) for time in (1717527762025, "1717527762025", "2024-06-04 19:02:42.025")}
    {datetime.timedelta(days=19878, seconds=68562, microseconds=25000)}
    >>> counts
    Counter({'numeric_time': 2, 'no_time_zone': 1})
    """
    if type(value) is str and not value.isdecimal():
        try:
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is None:
                counts[ImportNote.NO_TIME_ZONE] += 1
                moment = moment.replace(tzinfo=UTC)
            return moment - START
        except (ValueError, OverflowError):
            return None
    if type(value) is str:
        value = int(value) if len(value) < 20 else None
    if type(value) not in (int, float) or not 0 <= value < MAX_TIME // 1000:  # NaN fails this, too
        return None
    counts[ImportNote.NUMERIC_TIME] += 1
    return timedelta(microseconds=round(value * (1_000_000 if value < SECONDS_BELOW else 1000)))


def concat(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """One batch of all rows, empty if there are none."""
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema)
