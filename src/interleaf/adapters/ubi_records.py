"""Records of User Behavior Insights 1.3: from an object of JSON to a query or an event, read leniently.

Published samples break the schema, so what is there is taken, what had to be bent is counted, and only what cannot be
placed at all is refused. Records are plain tuples, because they wait on disk (`spool.py`).
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

import pyarrow as pa

from interleaf.adapters.times import microseconds

SHOWN = "impression"  # the action that says that a document was shown, and is no reaction to it
_NOTHING: dict[str, Any] = {}


class Query(NamedTuple):
    """A search that was answered; `owners` are names of rankers, one a hit, where an engine interleaved itself."""

    query_id: str
    time: int | None
    text: str | None
    application: str | None
    user: str | None
    client: str | None
    session: str | None
    hits: list[str] | None
    owners: list[str | None] | None
    attributes: dict[str, str]


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
        _number(attributes.get("dwell")),
        _number(attributes.get("value")),
    )


def query_of(value: dict[str, Any], name: str | None, counts: Counter[str]) -> tuple[Any, ...]:
    """The fields of a `Query`, from a record without an `action_name`."""
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
        _id(value.get("user_id"), counts) or attributes.get("user_id"),
        _id(value.get("client_id"), counts),
        _id(value.get("session_id"), counts),
        hits_of(hits, counts) if type(hits) is list and hits else None,
        None,
        attributes,
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
    return value if type(value) is int and -(2**15) <= value < 2**15 else None


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and abs(value) < 3e38 else None
