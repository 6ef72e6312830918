"""Decodes UBI 1.3 records: from JSON to batches of queries and events.

Published samples break the schema, so values of a wrong type are converted or ignored, and counted. A record is
dropped only if it cannot be used at all.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, Struct, field

from interleaf.log.jsonl import LineError

SECONDS_BELOW = 10**11  # as milliseconds, that was in 1973: a smaller number counts seconds
START = datetime(1970, 1, 1, tzinfo=UTC)
UNDATED = datetime(2000, 1, 1, tzinfo=UTC)  # where times of formats without dates start: an analysis drops 1970
MOST = 253_402_300_800 * 10**6  # the end of the year 9999


def since_1970(value: Any, counts: Counter[str]) -> timedelta | None:
    """The time since 1970, or None if the value is no time; guesses are counted.

    >>> counts = Counter()
    >>> {since_1970(time, counts) for time in ("2024-06-04T19:02:42.025Z", "2024-06-04T21:02:42.025+0200")}
    {datetime.timedelta(days=19878, seconds=68562, microseconds=25000)}
    >>> {since_1970(time, counts) for time in (1717527762025, "1717527762025", "2024-06-04 19:02:42.025")}
    {datetime.timedelta(days=19878, seconds=68562, microseconds=25000)}
    >>> counts
    Counter({'time as a number': 2, 'time without a zone': 1})
    """
    if type(value) is str and not value.isdecimal():
        try:
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is None:
                counts["time without a zone"] += 1
                moment = moment.replace(tzinfo=UTC)
            return moment - START
        except (ValueError, OverflowError):
            return None
    if type(value) is str:
        value = int(value) if len(value) < 20 else None
    if type(value) not in (int, float) or not 0 <= value < MOST // 1000:  # a NaN is not, either
        return None
    counts["time as a number"] += 1
    return timedelta(microseconds=round(value * (1_000_000 if value < SECONDS_BELOW else 1000)))


SHOWN = "impression"  # the action that says that a document was shown, and is no reaction to it
MAX_NUMBER = 3e38  # of a dwell or a value
MAX_RANK = 2**31 - 1  # that a log can hold
MAX_WHOLE = 2**63 - 1

Row = tuple[Any, ...]
NotObject = str | int | float | bool | list[Any] | None  # what may stand where the schema asks for an object


class Action(Struct, gc=False):
    """What an action line of a bulk file says of the next line."""

    id: Any = field(name="_id", default=None)


class Object(Struct, gc=False):
    """The document that an event is about."""

    object_id: Any = None
    internal_id: Any = None


class Position(Struct, gc=False):
    """Where the document was shown."""

    ordinal: Any = None


class EventAttributes(Struct, gc=False):
    """What else is known of an event; `rank` and `dwell` are ours, `search_config` is of the Chorus shop."""

    object: Object | NotObject = None
    position: Position | NotObject = None
    session_id: Any = None
    event: Any = None
    search_config: Any = None
    rank: Any = None
    dwell: Any = None
    dwell_time: Any = None
    value: Any = None


class Answer(Struct, gc=False):
    """The answer of an engine, not decoded."""


class Record(Struct, gc=False):
    """The object of a line: an event, a query, an action line, a search hit around a record, an answer or a click."""

    index: Action | NotObject | msgspec.UnsetType = UNSET
    create: Action | NotObject | msgspec.UnsetType = UNSET
    application: Any = None
    action_name: Any = None
    query_id: Any = None
    client_id: Any = None
    user_id: Any = None
    session_id: Any = None
    timestamp: Any = None
    event_attributes: EventAttributes | NotObject = None
    user_query: Any = UNSET
    query_attributes: Any = None
    query_response_hit_ids: Any = UNSET
    source: Record | NotObject = field(name="_source", default=None)
    id: Any = field(name="_id", default=None)
    response: Answer | NotObject = None
    hits: Answer | NotObject = None
    document: Any = UNSET  # from here on: fields of a plain click log
    kind: Any = "click"
    time: Any = UNSET
    dwell: Any = None
    value: Any = None
    event: Any = None


# A search that was answered. `owners` are names of rankers, one for each hit, where an engine interleaved itself;
# `attributes` is the JSON of an object of texts.
QUERIES = pa.schema(
    [
        *(("query_id", pa.string()), ("time", pa.int64())),
        *((name, pa.string()) for name in ("text", "application", "user", "client", "session")),
        *((name, pa.list_(pa.string())) for name in ("hits", "owners")),
        ("attributes", pa.string()),
    ]
)
# What somebody did. `rank` is known where we wrote the event; else it follows from the object or from the ordinal.
EVENTS = pa.schema(
    [
        *((name, pa.string()) for name in ("query_id", "kind", "application", "user", "client", "session")),
        *((name, pa.string()) for name in ("event", "document", "internal", "owner")),
        *((name, pa.int64()) for name in ("time", "ordinal", "rank")),
        *((name, pa.float64()) for name in ("dwell", "value")),
    ]
)
_NO_OBJECT, _NO_POSITION = Object(), Position()
_NO_ATTRIBUTES = EventAttributes(_NO_OBJECT, _NO_POSITION)
_encode = msgspec.json.Encoder().encode


def batch_of(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def event_of(record: Record, name: Any, counts: Counter[str]) -> Record:
    """The record as an event: with the id of its query, its time, its own id and its attributes, or refused.

    `name` is the id that the line before, or a search hit, gives to the event.
    """
    if type(record.query_id) is not str:
        record.query_id = text_of(record.query_id, counts)
    if not record.query_id:
        raise LineError("event without a query_id")
    record.timestamp = since_1970(record.timestamp, counts)
    if record.timestamp is None:
        raise LineError("event without a time that can be read")
    record.id = name if type(name) is str else None
    more = record.event_attributes
    if type(more) is not EventAttributes:
        record.event_attributes = _NO_ATTRIBUTES
        return record
    if type(more.object) is not Object:
        more.object = _NO_OBJECT
    if type(more.position) is not Position:
        more.position = _NO_POSITION
    return record


def events_batch(events: Sequence[Any], counts: Counter[str]) -> pa.RecordBatch:
    """Events as a batch of `EVENTS`."""
    attributes = [one.event_attributes for one in events]
    objects = [one.object for one in attributes]
    kinds = [one.action_name for one in events]
    ids = [
        [one.application for one in events],
        [one.user_id for one in events],
        [one.client_id for one in events],
        [one.session_id or more.session_id for one, more in zip(events, attributes, strict=True)],
        [one.id or more.event for one, more in zip(events, attributes, strict=True)],
        [one.object_id for one in objects],
        [one.internal_id for one in objects],
        [one.search_config for one in attributes],
    ]
    ranks = [one.rank if type(one.rank) is int and abs(one.rank) <= MAX_RANK else None for one in attributes]
    dwell, dwell_time = _numbers([one.dwell for one in attributes]), _numbers([one.dwell_time for one in attributes])
    counts["event with a dwell_time"] += int(np.asarray(pc.and_(pc.is_null(dwell), pc.is_valid(dwell_time))).sum())
    arrays = [
        pa.array([one.query_id for one in events], pa.string()),
        pa.array([one if type(one) is str else json.dumps(one) for one in kinds], pa.string()),
        *(_ids(column, counts) for column in ids),
        _microseconds([one.timestamp for one in events]),
        _ordinals([one.position.ordinal for one in attributes], counts),
        pa.array(ranks, pa.int64()),
        pc.coalesce(dwell, dwell_time),
        _numbers([one.value for one in attributes]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENTS)


def query_of(record: Record, counts: Counter[str]) -> Row:
    """The fields of `QUERIES`; who asked as it came."""
    query = text_of(record.query_id, counts)
    if not query:
        raise LineError("query without a query_id")
    attributes, hits = record.query_attributes, record.query_response_hit_ids
    return (
        query,
        since_1970(record.timestamp, counts),
        record.user_query if type(record.user_query) is str else None,
        record.application,
        record.user_id,
        record.client_id,
        record.session_id,
        _hits_of(hits, counts) if type(hits) is list and hits else None,
        None,
        _encode(_texts_in(attributes, counts)) if type(attributes) is dict else b"{}",
    )


def queries_batch(rows: Sequence[Row], counts: Counter[str]) -> pa.RecordBatch:
    """Queries as a batch of `QUERIES`."""
    query, time, text, *ids, hits, owners, attributes = _columns(rows, len(QUERIES))
    columns = [query, _microseconds(time), text, *(_ids(column, counts) for column in ids), hits, owners, attributes]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, QUERIES.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=QUERIES)


def click_as_event(record: Record) -> Record:
    """A line of a plain click log, `{"query_id", "document", "time"}` and perhaps `kind`, as a UBI event."""
    record.action_name = record.kind
    record.timestamp = record.timestamp if record.time is UNSET else record.time
    thing = Object(object_id=record.document)
    record.event_attributes = EventAttributes(thing, event=record.event, dwell=record.dwell, value=record.value)
    return record


def text_of(value: Any, counts: Counter[str]) -> str | None:
    """An id as text; numbers break the schema, and are taken as their digits."""
    if type(value) is str:
        return value
    if type(value) is int:
        counts["id as a number"] += 1
        return str(value)
    return None


def _columns(rows: Sequence[Row], width: int) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True)) if rows else [()] * width


def _ids(values: Sequence[Any], counts: Counter[str]) -> pa.Array:
    """Ids as texts, null for an empty one."""
    try:
        texts = pa.array(values, pa.string())
    except pa.ArrowTypeError:
        texts = pa.array([text_of(value, counts) for value in values], pa.string())
    return pc.if_else(pc.equal(texts, ""), None, texts) if "" in values else texts


def _hits_of(hits: list[Any], counts: Counter[str]) -> list[str]:
    """Ids of documents as texts, in shown order."""
    if _are_texts(hits):
        return hits
    texts = [text_of(hit, counts) for hit in hits]
    if None in texts:
        raise LineError("query with a hit that is no id")
    return texts  # type: ignore[return-value]


def _are_texts(values: Iterable[Any]) -> bool:
    try:
        "".join(values)  # the quickest way to look at all of them
    except TypeError:
        return False
    return True


def _texts_in(attributes: dict[str, Any], counts: Counter[str]) -> dict[str, str]:
    """Attributes that are texts, as the plugin keeps them; numbers and flags as JSON has them; others are counted."""
    if _are_texts(attributes.values()):
        return attributes
    texts = {}
    for name, value in attributes.items():
        if type(value) is str:
            texts[name] = value
        elif type(value) in (int, float, bool):
            texts[name] = json.dumps(value)
        elif value is not None:
            counts["attribute that is no text"] += 1
    return texts


def _ordinals(values: Sequence[Any], counts: Counter[str]) -> pa.Array:
    """Whole numbers that a log can hold, null for others."""
    numbers = [one if one is None or type(one) is int else _whole(one, counts) for one in values]
    try:
        return pa.array(numbers, pa.int64())
    except OverflowError:
        return pa.array([None if one is None or abs(one) > MAX_WHOLE else one for one in numbers], pa.int64())


def _whole(value: Any, counts: Counter[str]) -> int | None:
    try:
        number = float(value)
        counts["ordinal that is no whole number"] += 1
        return int(number) if number == int(number) else None
    except (TypeError, ValueError, OverflowError):
        return None


def _microseconds(times: Sequence[timedelta | None]) -> pa.Array:
    return pa.array(times, pa.duration("us")).cast(pa.int64())


def _numbers(values: Sequence[Any]) -> pa.Array:
    """Numbers that a log can hold, null for others."""
    return pa.array([None if value is None else _number(value) for value in values], pa.float64())


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and abs(value) < MAX_NUMBER else None
