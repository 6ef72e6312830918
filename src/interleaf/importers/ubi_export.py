"""Exports a log as UBI 1.3 records; `import_ubi` gives the same log back.

What UBI has no field for goes into `query_attributes` as text, because the plugin keeps only text. A text column is
written as it is, any other as JSON. Attributes of the impression keep their names; one that is named like a column is
written as `attribute:NAME`. Events have an object and an ordinal (from 1) for other tools, and a rank for us.
"""

from __future__ import annotations

import gzip
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import pyarrow as pa

from interleaf.errors import DataError
from interleaf.log import schema
from interleaf.log.reader import Reading, read
from interleaf.log.validation import RULES, of_field

OUTSIDE = {"time", "query", "documents", "events", "attributes"}  # these have places of their own in UBI
CARRIED = {column.name: column for column in schema.COLUMNS if column.name not in OUTSIDE}
PREFIX = "attribute:"
OWN = pa.schema([(column.name, column.type) for column in schema.COLUMNS if column.name in {*CARRIED, "attributes"}])
_decode = msgspec.json.Decoder().decode


def texts_of(row: Mapping[str, Any]) -> dict[str, str]:
    """The attributes of a UBI query that say all that UBI has no field for.

    >>> texts_of({"experiment": "shop", "version": 2, "teams": [0, 1], "attributes": {"device": "phone"}})
    {'experiment': 'shop', 'version': '2', 'teams': '[0,1]', 'device': 'phone'}
    """
    found = {
        name: row[name] if pa.types.is_string(column.type) else json.dumps(row[name], separators=(",", ":"))
        for name, column in CARRIED.items()
        if row.get(name) is not None
    }
    given = dict(row.get("attributes") or {})
    return found | {PREFIX + name if name in CARRIED else name: text for name, text in given.items()}


class Marks(msgspec.Struct, gc=False):
    """What is asked of the attributes of every query: whether we wrote them, and who the user was."""

    experiment: str | None = None
    method: str | None = None
    rankers: str | None = None
    user_id: str | None = None

    @property
    def is_ours(self) -> bool:
        """Whether a UBI query was written by us."""
        return self.experiment is not None and self.method is not None and self.rankers is not None


decode_marks = msgspec.json.Decoder(Marks).decode
decode_attributes = msgspec.json.Decoder(dict[str, str]).decode


def columns_of(texts: Sequence[str]) -> tuple[pa.RecordBatch, dict[int, str]]:
    """The columns that the attributes of queries, as JSON, hold; and by its place what is wrong with a query.

    >>> batch, problems = columns_of(['{"experiment": "shop", "teams": "[0,1]", "device": "phone"}', '{"teams": "[0"}'])
    >>> {name: batch[name].to_pylist() for name in ("experiment", "teams", "attributes")}
    {'experiment': ['shop', None], 'teams': [[0, 1], None], 'attributes': [[('device', 'phone')], []]}
    >>> problems
    {1: "'teams': Expecting ',' delimiter: line 1 column 3 (char 2)"}
    """
    attributes = [decode_attributes(text) for text in texts]
    problems: dict[int, str] = {}
    arrays = []
    for name, column in CARRIED.items():
        values: list[Any] = [one.get(name) for one in attributes]
        if not pa.types.is_string(column.type) and any(values):
            values = _values(name, values, problems)
        arrays.append(pa.array(values, column.type))
    others = (
        {name.removeprefix(PREFIX): text for name, text in one.items() if name not in CARRIED} for one in attributes
    )
    arrays.append(pa.array([list(one.items()) for one in others], OWN.field("attributes").type))
    return pa.RecordBatch.from_arrays(arrays, schema=OWN), problems


def _values(name: str, texts: Sequence[str | None], problems: dict[int, str]) -> list[Any]:
    """The values of texts of JSON, checked: all at once if they are as we write them, else one by one."""
    rule = RULES[name]
    try:
        values = [None if text is None else _decode(text) for text in texts]
        if rule.all_ready([value for text, value in zip(texts, values, strict=True) if text is not None]):
            return values
    except msgspec.DecodeError:
        pass
    values = [None] * len(texts)
    for place, text in enumerate(texts):
        try:
            if text is not None:  # not by msgspec, as a log may hold a NaN
                values[place] = of_field(name, lambda one: rule.check(json.loads(one)), text)
        except ValueError as problem:
            problems.setdefault(place, str(problem))
    return values


def iso(moment: datetime) -> str:
    """A time as UBI writes it, in UTC, with all that we know of it."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@contextmanager
def whole_file(path: str | Path) -> Iterator[IO[bytes]]:
    """A file under a temporary name in the same folder: renamed at the end, removed if anything goes wrong."""
    path = Path(path)
    if not path.parent.is_dir():
        raise DataError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with open(temporary, "wb") as raw:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as zipped:
                    yield cast(IO[bytes], zipped)
            else:
                yield raw
        os.replace(temporary, path)
    except OSError as problem:
        raise DataError(f"cannot write {path}: {problem.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


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
