"""Decodes UBI 1.3 records: from JSON lines to batches of queries and events, a column at a time.

Published samples break the schema, so values of a wrong type are converted or ignored, and counted. A record is
dropped only if it cannot be used at all.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, Struct, field

from interleaf.importers.protocol import ImportNote, ImportResult
from interleaf.importers.ubi_export import CARRIED
from interleaf.log.drop_reasons import DropReason
from interleaf.log.jsonl import LineError, parse_line

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
    query_attributes: Any = None
    query_response_hit_ids: Any = UNSET
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

# Queries. `owners` are names of rankers, one for each hit, if an engine interleaved; `own` are the columns of a query
# that our export wrote, as text; `attributes` is a JSON object of all other texts.
QUERIES = pa.schema(
    [
        *(("query_id", pa.string()), ("time", pa.int64())),
        *((name, pa.string()) for name in ("text", "application", "user", "client", "session")),
        *((name, pa.list_(pa.string())) for name in ("hits", "owners")),
        ("own", pa.struct([(name, pa.string()) for name in CARRIED])),
        ("attributes", pa.string()),
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
_NO_OBJECT, _NO_POSITION = Object(), Position()
_NO_ATTRIBUTES = EventAttributes(_NO_POSITION, object=_NO_OBJECT)
_decoder = msgspec.json.Decoder(Record, float_hook=float)  # float() reads 1e400 as infinity, as json does
_encode = msgspec.json.Encoder().encode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_records(lines: Sequence[bytes]) -> list[Any]:
    """The record of each line; None for a blank line, and a `LineError` for an invalid one."""
    try:
        # As text, because msgspec does not check the encoding of fields that it skips.
        records = _decoder.decode_lines(b"".join(lines).decode())
    except _UNREADABLE:
        records = []
    return records if len(records) == len(lines) else list(map(_decode_record, lines))


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


class ColumnBuilder:
    """Builds columns from the records of one file, and counts what it converts or drops."""

    def __init__(self, path: object, result: ImportResult) -> None:
        self._path, self._result, self._counts = path, result, result.counts

    def events(self, entries: list[Entry]) -> pa.RecordBatch:
        """Events as a batch of `EVENTS`."""
        query_id = self._ids([one.query_id for _, one, _ in entries])
        entries, query_id = self._drop_nulls(ImportNote.EVENT_WITHOUT_QUERY, entries, query_id)
        time = self._times([one.timestamp for _, one, _ in entries])
        entries, time, query_id = self._drop_nulls(ImportNote.EVENT_WITHOUT_TIME, entries, time, query_id)
        records = [one for _, one, _ in entries]
        attributes: list[Any] = [one.event_attributes for one in records]
        attributes = [one if type(one) is EventAttributes else _NO_ATTRIBUTES for one in attributes]
        ids = [one if type(one) is str else None for _, _, one in entries]
        ids = [one or more.event for one, more in zip(ids, attributes, strict=True)]
        sessions = [one.session_id or more.session_id for one, more in zip(records, attributes, strict=True)]
        objects = [one.object if type(one.object) is Object else _NO_OBJECT for one in attributes]
        positions = [one.position if type(one.position) is Position else _NO_POSITION for one in attributes]
        dwell = _numbers([one.dwell for one in attributes])
        dwell_time = _numbers([one.dwell_time for one in attributes])
        self._counts[ImportNote.DWELL_TIME] += pc.sum(pc.greater(dwell_time.is_valid(), dwell.is_valid())).as_py() or 0
        kinds = [one.action_name if type(one.action_name) is str else json.dumps(one.action_name) for one in records]
        ranks = [one.rank if type(one.rank) is int and abs(one.rank) <= MAX_RANK else None for one in attributes]
        columns = {
            "query_id": query_id,
            "kind": pa.array(kinds, pa.string()),
            "application": self._ids([one.application for one in records]),
            "user": self._ids([one.user_id for one in records]),
            "client": self._ids([one.client_id for one in records]),
            "session": self._ids(sessions),
            "event": self._ids(ids),
            "document": self._ids([one.object_id for one in objects]),
            "internal": self._ids([one.internal_id for one in objects]),
            "owner": self._ids([one.search_config for one in attributes]),
            "time": time,
            "ordinal": self._ordinals([one.ordinal for one in positions]),
            "rank": pa.array(ranks, pa.int64()),
            "dwell": pc.coalesce(dwell, dwell_time),
            "value": _numbers([one.value for one in attributes]),
        }
        return pa.RecordBatch.from_pydict(columns, EVENTS)

    def queries(self, entries: list[Entry]) -> pa.RecordBatch:
        """Queries as a batch of `QUERIES`."""
        query_id = self._ids([one.query_id for _, one, _ in entries])
        entries, query_id = self._drop_nulls(ImportNote.QUERY_WITHOUT_ID, entries, query_id)
        time = self._times([one.timestamp for _, one, _ in entries])
        hits = self._hits([one.query_response_hit_ids for _, one, _ in entries])
        entries, hits, query_id, time = self._drop_nulls(ImportNote.HIT_WITHOUT_ID, entries, hits, query_id, time)
        records = [one for _, one, _ in entries]
        own, attributes = split_own([self._texts_in(one.query_attributes) for one in records])
        texts = [one.user_query if type(one.user_query) is str else None for one in records]
        columns = {
            "query_id": query_id,
            "time": time,
            "text": pa.array(texts, pa.string()),
            "application": self._ids([one.application for one in records]),
            "user": self._ids([one.user_id for one in records]),
            "client": self._ids([one.client_id for one in records]),
            "session": self._ids([one.session_id for one in records]),
            "hits": pc.if_else(pc.greater(pc.list_value_length(hits), 0), hits, None),
            "owners": pa.array([owners for _, _, owners in entries], pa.list_(pa.string())),
            "own": own,
            "attributes": attributes,
        }
        return pa.RecordBatch.from_pydict(columns, QUERIES)

    def _drop_nulls(self, reason: str, entries: list[Entry], column: pa.Array, *others: pa.Array) -> Any:
        """Drop entries where the first column is null, and count them."""
        if not column.null_count:
            return entries, column, *others
        is_valid = column.is_valid()
        for place in np.flatnonzero(~np.asarray(is_valid)).tolist():
            self._result.drop(reason, f"{self._path}:{entries[place][0]}")
        entries = [one for one, valid in zip(entries, is_valid.to_pylist(), strict=True) if valid]
        return entries, *(one.filter(is_valid) for one in (column, *others))

    def _ids(self, values: list[Any]) -> pa.Array:
        """Ids as texts, null for an empty one."""
        try:
            texts = pa.array(values, pa.string())
        except pa.ArrowTypeError:
            texts = pa.array([id_text(value, self._counts) for value in values], pa.string())
        return pc.if_else(pc.equal(texts, ""), None, texts) if "" in values else texts

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

    def _texts_in(self, attributes: Any) -> dict[str, str]:
        """Attributes that are texts, as the plugin stores them; numbers and booleans as JSON; others are counted."""
        if type(attributes) is not dict:
            return {}
        try:
            "".join(attributes.values())  # the fastest way to check that all are texts
            return attributes
        except TypeError:
            pass
        simple = {name: one for name, one in attributes.items() if type(one) in (str, int, float, bool)}
        nulls = sum(one is None for one in attributes.values())
        self._counts[ImportNote.ATTRIBUTE_NOT_TEXT] += len(attributes) - len(simple) - nulls
        return {name: one if type(one) is str else json.dumps(one) for name, one in simple.items()}

    def _ordinals(self, values: list[Any]) -> pa.Array:
        """Whole numbers that a log can hold, null for others."""
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


def _numbers(values: list[Any]) -> pa.Array:
    """Numbers that a log can hold, null for others."""
    if values.count(None) == len(values):
        return pa.nulls(len(values), pa.float64())
    numbers = [float(one) if type(one) in (int, float) and abs(one) < MAX_NUMBER else None for one in values]
    return pa.array(numbers, pa.float64())


def split_own(attributes: Sequence[dict[str, str]]) -> tuple[pa.StructArray, pa.Array]:
    """The columns of queries that our export wrote, null for other queries; and the other attributes as JSON.

    >>> own, attributes = split_own(
    ...     [{"experiment": "e", "method": "m", "rankers": "[]", "device": "phone"}, {"arm": "x"}]
    ... )
    >>> own.field("experiment").to_pylist(), own.is_valid().to_pylist(), attributes.to_pylist()
    (['e', None], [True, False], ['{"device":"phone"}', '{"arm":"x"}'])
    """
    places: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)  # by the names of the attributes
    for place, one in enumerate(attributes):
        places[("experiment" in one and "method" in one and "rankers" in one and tuple(one)) or ()].append(place)
    kind, texts, batches = QUERIES.field("own").type, [b""] * len(attributes), []
    for names, some in places.items():
        columns = dict(zip(names, zip(*(attributes[place].values() for place in some), strict=True), strict=False))
        arrays = [pa.array(columns.pop(name, [None] * len(some)), pa.string()) for name in CARRIED]
        batches.append(pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array([not names] * len(some))))
        for place, *values in zip(some, *columns.values(), strict=True):
            texts[place] = _encode(dict(zip(columns, values, strict=True)) if names else attributes[place])
    order = np.argsort([place for some in places.values() for place in some])
    own = pa.concat_arrays(batches).take(pa.array(order)) if batches else pa.nulls(0, kind)
    return own, pa.array(texts, pa.string())


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
    return pa.concat_batches([pa.RecordBatch.from_pylist([], schema), *batches])
