"""Exports a log as UBI 1.3 records; `import_ubi` restores the same log.

Columns that UBI has no field for are `query_attributes` (`exported_columns.py`). Events have an object and an ordinal
(from 1) for other tools, and a rank for us.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from interleaf.importers.exported_columns import encode_row, texts_of
from interleaf.log import schema
from interleaf.log.reader import LogReading, read
from interleaf.log.record_batches import iso, rows_of, whole_file

MAX_ID = 100  # characters of a client_id and of a session_id, by UBI's schema
QUERIES, EVENTS = "ubi_queries", "ubi_events"


def export_ubi(
    source: Any, path: str | Path, *, application: str = "interleaf", object_id_field: str = "id"
) -> LogReading:
    """Write a log as a bulk file of queries and events, `.ndjson` or `.ndjson.gz`; returns what was read.

    `object_id_field` is the field of the index that holds the document ids.
    """
    reading = read(source, schema.SCHEMA.names)
    with whole_file(Path(path)) as file:
        for row in rows_of(reading):
            file.writelines(_lines(row, application, object_id_field))
    return reading


def _lines(row: dict[str, Any], application: str, field: str) -> Iterator[bytes]:
    person = {} if row["unit"] is None else {"client_id": row["unit"][:MAX_ID]}
    about = {"application": application, "query_id": row["impression"], **person}
    query = {
        "user_query": row.get("query") or "",
        "timestamp": iso(row["time"]),
        "object_id_field": field,
        "query_attributes": texts_of(row),
        "query_response_id": row["impression"],
        "query_response_hit_ids": row["documents"],
        "interleaf_row": encode_row(row),
    }
    yield _line({"index": {"_index": QUERIES, "_id": row["impression"]}})
    yield _line(about | query)
    session = {} if row.get("session") is None else {"session_id": row["session"][:MAX_ID]}
    for event in row["events"] or []:
        name = {} if event.get("event") is None else {"_id": event["event"]}
        yield _line({"index": {"_index": EVENTS, **name}})
        yield _line(about | session | _event(event, row["documents"], field))


def _event(event: dict[str, Any], documents: list[str], field: str) -> dict[str, Any]:
    rank = event["rank"]
    attributes: dict[str, Any] = {"position": {"ordinal": rank}, "rank": rank}
    if 1 <= rank <= len(documents):
        attributes["object"] = {"object_id": documents[rank - 1], "object_id_field": field}
    more = {name: event[name] for name in ("dwell", "value", "event") if event.get(name) is not None}
    return {"action_name": event["kind"], "timestamp": iso(event["time"]), "event_attributes": attributes | more}


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
