"""Exports a log as UBI 1.3 records; `import_ubi` restores the same log.

What UBI has no field for goes into `query_attributes` as text, because the plugin keeps only text. A text column is
written as it is, any other as JSON. Attributes of the impression keep their names; one that is named like a column is
written as `attribute:NAME`. Events have an object and an ordinal (from 1) for other tools, and a rank for us.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from interleaf.log import schema
from interleaf.log.reader import LogReading, read
from interleaf.log.record_batches import iso, rows_of, whole_file
from interleaf.log.validation import GAPS, RULES, of_field

OUTSIDE = {"time", "query", "documents", "events", "attributes"}  # these have their own fields in UBI
CARRIED = {column.name: column for column in schema.COLUMNS if column.name not in OUTSIDE}
PREFIX = "attribute:"
NOTHING = Annotated[int, msgspec.Meta(ge=1, le=0)]  # a type without values


def texts_of(row: Mapping[str, Any]) -> dict[str, str]:
    """The attributes of a UBI query for columns that UBI has no field for.

    >>> texts_of({"experiment": "shop", "version": 2, "teams": [0, 1], "attributes": {"device": "phone"}})
    {'experiment': 'shop', 'version': '2', 'teams': '[0,1]', 'device': 'phone'}
    """
    texts = {
        name: row[name] if pa.types.is_string(column.type) else json.dumps(row[name], separators=(",", ":"))
        for name, column in CARRIED.items()
        if row.get(name) is not None
    }
    attributes = dict(row.get("attributes") or {})
    return texts | {PREFIX + name if name in CARRIED else name: text for name, text in attributes.items()}


def _json_type(kind: pa.DataType, gaps: bool = False) -> Any:
    """The type of values that msgspec decodes safely; other values are checked one by one."""
    if pa.types.is_list(kind):
        inner = _json_type(kind.value_type)
        return list[inner | None] if gaps else list[inner]  # type: ignore[valid-type]
    if pa.types.is_integer(kind):
        end = 2 ** (kind.bit_width - 1)
        return Annotated[int, msgspec.Meta(ge=-end, le=end - 1)]
    if pa.types.is_floating(kind):
        end = float(np.finfo(kind.to_pandas_dtype()).max)
        return Annotated[float, msgspec.Meta(ge=-end, le=end)]
    return {pa.string(): str, pa.bool_(): bool}.get(kind, NOTHING)


_DECODERS = {name: msgspec.json.Decoder(_json_type(one.type, name in GAPS)).decode for name, one in CARRIED.items()}


def decode_column(name: str, texts: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """The values of a column that queries hold as text, and the error of each invalid text by index.

    >>> column, problems = decode_column("teams", pa.array(["[0,1]", None, "[0"]))
    >>> column.to_pylist(), problems
    ([[0, 1], None, None], {2: "'teams': Expecting ',' delimiter: line 1 column 3 (char 2)"})
    """
    kind = CARRIED[name].type
    if pa.types.is_string(kind):
        return texts, {}
    encoded = texts.dictionary_encode()
    decode, values, problems = _DECODERS[name], list[Any](), dict[int, str]()
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            values.append(decode(text))
        except msgspec.DecodeError:
            try:  # not by msgspec, because a log may contain NaN
                values.append(of_field(name, lambda one: RULES[name].check(json.loads(one)), text))
            except ValueError as problem:
                values.append(None)
                problems[code] = str(problem)
    column = pa.array(values, kind)
    if len(values) < len(texts):
        column = column.take(encoded.indices)
    if not problems:
        return column, {}
    codes = encoded.indices.to_pylist()
    return column, {place: problems[code] for place, code in enumerate(codes) if code in problems}


MAX_ID = 100  # characters of a client_id, by the schema
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
