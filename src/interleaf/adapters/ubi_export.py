"""A log as UBI 1.3 records, so that impressions live beside a team's other logs; `import_ubi` gives the same log back.

What UBI has no field for goes into `query_attributes`, as texts (`own_columns.py`). Events carry object and ordinal
(from 1) for everybody, and their rank for us.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from interleaf import schema
from interleaf.adapters.own_columns import iso, texts_of
from interleaf.adapters.whole_file import whole_file
from interleaf.log.reading import Reading, read

LONGEST_ID = 100  # characters of a client_id, by the schema
QUERIES, EVENTS = "ubi_queries", "ubi_events"


def export_ubi(
    source: Any, path: str | Path, *, application: str = "interleaf", object_id_field: str = "id"
) -> Reading:
    """Write a log as a bulk file of queries and events, `.ndjson` or `.ndjson.gz`; what is returned says what was read.

    `object_id_field` is the field of the index whose values the documents' ids are.
    """
    reading = read(source, schema.SCHEMA.names)
    with whole_file(path) as file:
        for batch in reading:
            for start in range(0, batch.num_rows, 1024):
                for row in batch.slice(start, 1024).to_pylist():
                    for line in _lines(row, application, object_id_field):
                        file.write(line)
    return reading


def _lines(row: dict[str, Any], application: str, field: str) -> Iterator[bytes]:
    person = {} if row["unit"] is None else {"client_id": row["unit"][:LONGEST_ID]}
    about = {"application": application, "query_id": row["impression"], **person}
    query = {
        "user_query": row.get("query") or "",
        "timestamp": iso(row["time"]),
        "object_id_field": field,
        "query_attributes": texts_of(row),
        "query_response_id": row["impression"],
        "query_response_hit_ids": row["documents"],
    }
    yield _line({"index": {"_index": QUERIES, "_id": row["impression"]}})
    yield _line(about | query)
    session = {} if row.get("session") is None else {"session_id": row["session"]}
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
