"""Records of User Behavior Insights 1.3: from an object of JSON to a query or an event, read leniently.

Published samples break the schema, so what is there is taken, what had to be bent is counted, and only what cannot be
placed at all is refused. Records are tuples, in the order of the columns that they become.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pyarrow as pa

from interleaf.adapters.times import microseconds

DWELL_TIME = "event with a dwell_time"
SHOWN = "impression"  # the action that says that a document was shown, and is no reaction to it
LARGEST = 3e38  # of a dwell or a value
MAX_RANK = 2**31 - 1  # that a log can hold
_NOTHING: dict[str, Any] = {}


# A search that was answered. `owners` are names of rankers, one a hit, where an engine interleaved itself; `attributes`
# is the JSON of an object of texts.
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


class RecordError(Exception):
    """A record that cannot be used; its text is the reason to count it by."""


def event_of(value: dict[str, Any], name: str | None, counts: Counter[str]) -> tuple[Any, ...]:
    """The fields of `EVENTS`, from a record with an `action_name`."""
    query = text_of(value.get("query_id"), counts)
    if not query:
        raise RecordError("event without a query_id")
    time = microseconds(value.get("timestamp"), counts)
    if time is None:
        raise RecordError("event without a time that can be read")
    attributes = _object(value, "event_attributes")
    thing, place = _object(attributes, "object"), _object(attributes, "position")
    kind = value["action_name"]
    ids = (
        value.get("application"),
        value.get("user_id"),
        value.get("client_id"),
        value.get("session_id") or attributes.get("session_id"),
        name or attributes.get("event"),
        thing.get("object_id"),
        thing.get("internal_id"),
        attributes.get("search_config"),
    )
    return (
        query,
        kind if type(kind) is str else json.dumps(kind),
        *(_id(one, counts) for one in ids),
        time,
        _whole(place.get("ordinal"), counts),
        _rank(attributes.get("rank")),
        _dwell(attributes, counts),
        _number(attributes.get("value")),
    )


def query_of(value: dict[str, Any], name: str | None, counts: Counter[str]) -> tuple[Any, ...]:
    """The fields of `QUERIES`, from a record without an `action_name`."""
    query = text_of(value.get("query_id"), counts) or name
    if not query:
        raise RecordError("query without a query_id")
    attributes = texts_in(_object(value, "query_attributes"), counts)
    hits = value.get("query_response_hit_ids")
    return (
        query,
        microseconds(value.get("timestamp"), counts),
        value["user_query"] if type(value.get("user_query")) is str else None,
        _id(value.get("application"), counts),
        _id(value.get("user_id"), counts),
        _id(value.get("client_id"), counts),
        _id(value.get("session_id"), counts),
        hits_of(hits, counts) if type(hits) is list and hits else None,
        None,
        json.dumps(attributes, ensure_ascii=False),
    )


def hits_of(found: list[Any], counts: Counter[str]) -> list[str]:
    """Ids of documents as texts, in shown order."""
    if set(map(type, found)) == {str}:
        return found
    hits = [text_of(hit, counts) for hit in found]
    if None in hits:
        raise RecordError("query with a hit that is no id")
    return hits  # type: ignore[return-value]


def text_of(value: Any, counts: Counter[str]) -> str | None:
    """An id as text; numbers break the schema, and are taken as their digits."""
    if type(value) is str:
        return value
    if type(value) is int:
        counts["id as a number"] += 1
        return str(value)
    return None


def texts_in(attributes: dict[str, Any], counts: Counter[str]) -> dict[str, str]:
    """Attributes that are texts, as the plugin keeps them; numbers and flags as JSON has them; others are counted."""
    found = {}
    for name, value in attributes.items():
        if type(value) is str:
            found[name] = value
        elif type(value) in (int, float, bool):
            found[name] = json.dumps(value)
        elif value is not None:
            counts["attribute that is no text"] += 1
    return found


def _id(value: Any, counts: Counter[str]) -> str | None:
    """An id, where there is one: an empty text is none."""
    return value or None if value is None or type(value) is str else text_of(value, counts)


def _object(value: dict[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name)
    return found if type(found) is dict else _NOTHING


def _whole(value: Any, counts: Counter[str]) -> int | None:
    if value is None or type(value) is int:
        return value
    try:
        number = float(value)
        counts["ordinal that is no whole number"] += 1
        return int(number) if number == int(number) else None
    except (TypeError, ValueError, OverflowError):
        return None


def _rank(value: Any) -> int | None:
    return value if type(value) is int and abs(value) <= MAX_RANK else None


def _dwell(attributes: dict[str, Any], counts: Counter[str]) -> float | None:
    """Seconds, as we write them, else as UBI does."""
    ours, other = _number(attributes.get("dwell")), _number(attributes.get("dwell_time"))
    counts[DWELL_TIME] += ours is None and other is not None
    return other if ours is None else ours


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and abs(value) < LARGEST else None
