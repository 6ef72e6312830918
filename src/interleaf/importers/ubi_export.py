"""Exports a log as UBI 1.3 records; `import_ubi` restores the same log, by the columns that are read here.

Events have an object and an ordinal (from 1) for other tools, and a rank for us. Columns that UBI has no field for, and
that are equal in many rows, are `query_attributes`: a text as it is, any other value as JSON, because the plugin keeps
only text. Attributes of the impression keep their names; one that has the name of a column is `attribute:NAME`.

The other columns are one more field, `interleaf_row`: UBI's schema allows it, and its index stores it. It is base64 of
a 32-bit integer, 4 n + p; of n integers of 2^p bytes, as `log/packed_numbers.py` describes them; and of JSON of the
remaining columns, with spaces up to a multiple of 12 bytes, so that the texts of many rows can be decoded at once.
"""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.interleaving.rankings import MAX_RANKERS
from interleaf.kernels.arrays import Array
from interleaf.log import schema
from interleaf.log.packed_numbers import (
    NUMBER_COLUMNS,
    check_numbers,
    number_columns,
    pack_numbers,
    ranges_of,
    unpack_numbers,
)
from interleaf.log.reader import LogReading, read
from interleaf.log.record_batches import iso, rows_of, whole_file
from interleaf.log.validation import GAPS, RULES, of_field

SHARED = ("experiment", "version", "arm", "method", "rankers", "open", "excluded", "fallback_reason")
PREFIX = "attribute:"
_ELSEWHERE = {"impression", "time", "query", "documents", "events", "attributes"}  # these have their own fields in UBI
_COLUMNS = {column.name: column for column in schema.COLUMNS}
_NUMBERS = tuple(name for name in NUMBER_COLUMNS if name != "latency")  # its floats would make all numbers wide
_JSON = tuple(name for name in _COLUMNS if name not in {*SHARED, *_NUMBERS, *_ELSEWHERE})
_KINDS = (np.int8, np.int16, np.int32)
_UNIT = 12  # bytes: whole 32-bit integers, and whole groups of base64
_ROWS = 4096  # rows that are decoded at a time, few enough for the processor's cache
Columns = dict[str, pa.Array]
MAX_ID = 100  # characters of a client_id and of a session_id, by UBI's schema
QUERIES, EVENTS = "ubi_queries", "ubi_events"


def texts_of(row: Mapping[str, Any]) -> dict[str, str]:
    """The attributes of a UBI query.

    >>> texts_of({"experiment": "shop", "version": 2, "teams": [0, 1], "attributes": {"device": "phone"}})
    {'experiment': 'shop', 'version': '2', 'device': 'phone'}
    """
    values = {name: row[name] for name in SHARED if row.get(name) is not None}
    shared = {name: value if type(value) is str else _json(value) for name, value in values.items()}
    attributes = dict(row.get("attributes") or {}).items()
    is_reserved = {name: name in SHARED or name.startswith(PREFIX) for name, _ in attributes}
    return shared | {PREFIX + name if is_reserved[name] else name: text for name, text in attributes}


def attributes_in(texts: Mapping[str, str]) -> dict[str, str]:
    """The attributes of the impression, of the attributes of its UBI query."""
    return {name.removeprefix(PREFIX): text for name, text in texts.items() if name not in SHARED}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def encode_row(row: Mapping[str, Any]) -> str:
    """The text of `interleaf_row`; if the form of the numbers cannot hold them exactly, they are JSON, too."""
    packed, others = {name: row.get(name) for name in _NUMBERS}, _JSON
    try:
        numbers = pack_numbers(packed)
        is_exact = len(packed["ranks"] or ()) <= MAX_RANKERS and packed.items() <= unpack_numbers(numbers).items()
    except TypeError:
        is_exact = False
    if not is_exact:
        numbers, others = pack_numbers({}), _JSON + _NUMBERS
    words = np.frombuffer(numbers, np.int32)
    power = next(power for power, kind in enumerate(_KINDS) if np.array_equal(words.astype(kind), words))
    rest = _json({name: row[name] for name in others if row.get(name) is not None})
    data = (4 * len(words) + power).to_bytes(4, "little") + words.astype(_KINDS[power]).tobytes() + rest.encode()
    return b2a_base64(data + b" " * (-len(data) % _UNIT), newline=False).decode()


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
    return {pa.string(): str}.get(kind, Annotated[int, msgspec.Meta(ge=1, le=0)])  # else a type without values


_TYPES = [(name, _json_type(_COLUMNS[name].type, name in GAPS) | None, None) for name in _JSON]
_Body: Any = msgspec.defstruct("_Body", _TYPES, forbid_unknown_fields=True, gc=False)
_decode_body = msgspec.json.Decoder(_Body).decode
_EMPTY = encode_row({})


def decode_rows(texts: pa.StringArray) -> tuple[Columns, dict[int, str]]:
    """The columns in texts of `interleaf_row`, and the error of each invalid text by index.

    >>> columns, problems = decode_rows(pa.array([encode_row({"teams": [0, 1]}), "AAAA", ""]))
    >>> columns["teams"].to_pylist(), problems
    ([[0, 1], None, None], {1: 'interleaf_row is cut off', 2: 'interleaf_row is cut off'})
    """
    try:
        if len(texts) <= _ROWS:
            return _decode(texts), {}
    except ValueError as problem:
        if len(texts) == 1:
            return _decode(pa.array([_EMPTY])), {0: str(problem)}
    half = len(texts) // 2
    (first, problems), (second, more) = decode_rows(texts.slice(0, half)), decode_rows(texts.slice(half))
    columns = {name: pa.concat_arrays([column, second[name]]) for name, column in first.items()}
    return columns, problems | {half + place: problem for place, problem in more.items()}


def _decode(texts: pa.StringArray) -> Columns:
    """The columns in texts; a ValueError if one of them is invalid."""
    units, remainders = np.divmod(np.asarray(pc.binary_length(texts)).astype(np.int64), _UNIT * 4 // 3)
    ends = np.cumsum(units) * _UNIT
    if remainders.any() or not units.all():
        raise ValueError("interleaf_row is cut off")
    data = a2b_base64("".join(texts.to_pylist()), strict_mode=True)
    starts = ends - units * _UNIT
    counts, powers = np.divmod(np.frombuffer(data, np.int32)[starts // 4].astype(np.int64), 4)
    middle = starts + 4 + (counts << powers)
    if len(data) % _UNIT or (counts < 0).any() or (powers >= len(_KINDS)).any() or (middle > ends).any():
        raise ValueError("interleaf_row does not hold the numbers that it says")
    places = list(zip(starts.tolist(), middle.tolist(), ends.tolist(), strict=True))
    words = _widen([data[start + 4 : end] for start, end, _ in places], counts, powers)
    last = np.cumsum(counts)
    check_numbers(words, last - counts, last)
    columns, others = number_columns(words, last - counts, last)[0], _json_columns([data[a:b] for _, a, b in places])
    return columns | {
        name: pc.coalesce(column, columns[name]) if name in _NUMBERS else column for name, column in others.items()
    }


def _widen(rows: Sequence[bytes], counts: Array, powers: Array) -> Array:
    """The integers of all rows as 32-bit integers; those of a row are `counts` of 2^`powers` bytes."""
    words, starts = np.empty(counts.sum(), np.int32), np.cumsum(counts) - counts
    for power in np.unique(powers).tolist():
        is_one = powers == power
        places = slice(None) if is_one.all() else ranges_of(starts[is_one], counts[is_one])
        words[places] = np.frombuffer(b"".join(compress(rows, is_one.tolist())), _KINDS[power])
    return words


def _json_columns(bodies: Sequence[bytes]) -> Columns:
    """The columns in JSON: those of `_JSON`, and others that some row has."""
    decoded, others = list[Any](), dict[int, dict[str, Any]]()
    for place, body in enumerate(bodies):
        try:
            decoded.append(_decode_body(body))
        except msgspec.DecodeError:  # captions, NaN, and columns that are not in _JSON
            others[place] = values = _check_body(body)
            decoded.append(_Body(**{name: values.pop(name, None) for name in _JSON}))
    columns = {name: list(map(attrgetter(name), decoded)) for name in _JSON}
    for name in {name for values in others.values() for name in values}:
        columns[name] = [others[place].get(name) if place in others else None for place in range(len(bodies))]
    return {name: pa.array(values, _COLUMNS[name].type) for name, values in columns.items()}


def _check_body(body: bytes) -> dict[str, Any]:
    """The values in JSON that msgspec does not decode."""
    values = _parse(body)
    if type(values) is not dict or not values.keys() <= {*_JSON, *_NUMBERS}:
        raise ValueError("interleaf_row has other columns")
    return {name: of_field(name, RULES[name].check, value) for name, value in values.items() if value is not None}


def _parse(text: str | bytes) -> Any:
    try:
        return json.loads(text)  # not by msgspec, because a log may contain NaN
    except RecursionError:
        raise ValueError("lists are nested too deeply") from None


def shared_columns(attributes: Sequence[Mapping[str, str]]) -> tuple[Columns, dict[int, str]]:
    """The columns that are attributes of their own, and the error of each invalid row by index."""
    rows, problems = list[dict[str, Any]](), dict[int, str]()
    for place, texts in enumerate(attributes):
        try:
            rows.append({name: _shared_value(name, texts.get(name)) for name in SHARED})
        except ValueError as problem:
            rows.append({})
            problems[place] = str(problem)
    return {name: pa.array([row.get(name) for row in rows], _COLUMNS[name].type) for name in SHARED}, problems


@lru_cache(maxsize=128)
def _shared_value(name: str, text: str | None) -> Any:
    column = _COLUMNS[name]
    if text is None and not column.nullable:
        raise ValueError(f"there is no {name!r}")
    if text is None or pa.types.is_string(column.type):
        return text
    return of_field(name, lambda one: RULES[name].check(_parse(one)), text)


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
