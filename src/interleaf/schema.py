"""The native log: one row an impression, its events inside; the columns as data, the Arrow schema, and its check.

`COLUMNS` is the one list of columns: the schema, the checks, the writers and the documentation follow from it. A file
carries `interleaf.schema = 1` in its metadata. Files written by other tools are welcome: a missing nullable column, a
column that is not known here, or another width of the same kind (int64 ranks, large strings, milliseconds) is no error.
Nor is a map written as a list of structs of a key and a value, or as a struct of texts, by libraries that have no maps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from interleaf.errors import DataError

VERSION = 1
VERSION_KEY = b"interleaf.schema"
INTERLEAVED, HOLDOUT, FALLBACK = "interleaved", "holdout", "fallback"  # arms; another one is an A/B bucket


@dataclass(frozen=True)
class Column:
    """A column, or a field inside one: its name, its Arrow type, whether it may be null, and what it means."""

    name: str
    type: pa.DataType
    nullable: bool
    meaning: str

    @property
    def field(self) -> pa.Field:
        """The Arrow form."""
        return pa.field(self.name, self.type, self.nullable)


def _struct(fields: Iterable[Column]) -> pa.DataType:
    return pa.struct([column.field for column in fields])


TIME = pa.timestamp("us", "UTC")

EVENT = (
    Column("event", pa.string(), True, "unique id; where given, copies of an event are merged to one"),
    Column("kind", pa.string(), False, "`click`, `purchase`, or any other name"),
    Column("rank", pa.int16(), False, "of the document in the shown list, 1 = top"),
    Column("time", TIME, False, "when it happened"),
    Column("dwell", pa.float32(), True, "seconds spent on the document"),
    Column("value", pa.float64(), True, "what it was worth, such as a price"),
)

HIGHLIGHT = (
    Column("field", pa.string(), False, "`title`, `url` or `snippet`"),
    Column("start", pa.int32(), False, "first highlighted character of that text, from 0, in Unicode code points"),
    Column("end", pa.int32(), False, "the character after the last one"),
)

CAPTION = (
    Column("title", pa.string(), True, "the text without markup"),
    Column("url", pa.string(), True, "as it was shown"),
    Column("snippet", pa.string(), True, "the text without markup; null where none was shown"),
    Column("highlights", pa.list_(_struct(HIGHLIGHT)), True, "what was set in bold, section by section"),
    Column("deep_links", pa.int16(), True, "how many links into the site stood below"),
)

COLUMNS = (
    Column("experiment", pa.string(), False, "name of the experiment"),
    Column("version", pa.int32(), False, "an edit of a running experiment makes a new version"),
    Column("impression", pa.string(), False, "unique id"),
    Column("time", TIME, False, "when the list was shown"),
    Column(
        "unit",
        pa.string(),
        True,
        "who is randomised and repeats: user, else client, else session; null: the impression is its own unit",
    ),
    Column("session", pa.string(), True, "visit that the impression belongs to"),
    Column("query", pa.string(), True, "what was asked"),
    Column(
        "arm",
        pa.string(),
        False,
        "`interleaved`, `holdout` (control list unchanged), `fallback` (a ranker failed), or the name of an A/B bucket",
    ),
    Column("method", pa.string(), False, "spec string of the method that composed the list"),
    Column(
        "key",
        pa.string(),
        True,
        "`k1:` and digest of the chance key; with `rankings`, it composes the list again; null: not ours",
    ),
    Column("page", pa.int16(), True, "how many pages were asked for; ranks go on over pages"),
    Column("log_probability", pa.float64(), True, "log of the list's probability under its method, where it has one"),
    Column("relaxed", pa.bool_(), True, "whether `optimized` could not satisfy its constraints"),
    Column("open", pa.bool_(), True, "whether events may still have come when the log was written"),
    Column("excluded", pa.string(), True, "why it does not count, such as a crawler's; left out of scores, and told"),
    Column("latency", pa.list_(pa.float32()), True, "milliseconds of each ranker"),
    Column("fallback_reason", pa.string(), True, "why the control was served"),
    Column("rankers", pa.list_(pa.string()), False, "names of the rankers"),
    Column("documents", pa.list_(pa.string()), False, "the shown list, top first"),
    Column("ranks", pa.list_(pa.list_(pa.int16())), True, "[ranker][position], 1 = top, 0 = not in that ranking"),
    Column("lengths", pa.list_(pa.int32()), True, "length of each input ranking"),
    Column("union", pa.int32(), True, "how many distinct documents the input rankings hold together"),
    Column("teams", pa.list_(pa.int8()), True, "index of the ranker that owns each position, -1 nobody"),
    Column("choices", pa.list_(pa.int16()), True, "how many documents some ranker has at each rank or above"),
    Column("rankings", pa.list_(pa.list_(pa.string())), True, "the input rankings, for reuse and replay"),
    Column("captions", pa.list_(_struct(CAPTION)), True, "what people saw of each document"),
    Column("grades", pa.list_(pa.int8()), True, "judged relevance of the shown documents, where known"),
    Column("events", pa.list_(_struct(EVENT)), False, "clicks, purchases, any named event"),
    Column(
        "attributes",
        pa.map_(pa.string(), pa.string()),
        False,
        "device, country, query class: what a report can be split by",
    ),
)

# What is read where a log has no such column. Events have no default: clicks under another name would all be lost.
DEFAULTS: dict[str, Any] = {"version": 1, "arm": INTERLEAVED, "attributes": {}}

SCHEMA = pa.schema([column.field for column in COLUMNS], metadata={VERSION_KEY: str(VERSION).encode()})


def validate(schema: pa.Schema) -> None:
    """Whether a log with this schema can be read: the first thing that is wrong is named, with what would be right.

    >>> validate(SCHEMA)
    """
    _check_version(schema)
    for column in COLUMNS:
        places = schema.get_all_field_indices(column.name)
        if len(places) > 1:
            raise DataError(f"the log has {len(places)} columns named {column.name!r}; keep one of them")
        if places:
            _check_type(schema.field(places[0]).type, column.type, f"column {column.name!r}")
        elif not column.nullable:
            raise DataError(
                f"the log has no column {column.name!r} ({column.type}: {column.meaning}); it may not be left out"
            )


def _check_version(schema: pa.Schema) -> None:
    """A file that does not say its version is taken for the present one."""
    text = (schema.metadata or {}).get(VERSION_KEY, str(VERSION).encode()).decode(errors="replace")
    if not text.isdecimal() or int(text) < 1:
        raise DataError(f"the log's metadata say interleaf.schema = {text!r}; it is a whole number, now {VERSION}")
    if int(text) > VERSION:
        raise DataError(
            f"the log is of schema version {text}, and this interleaf knows versions up to {VERSION}: "
            "it was written by a newer one; upgrade with pip install -U interleaf"
        )


def _check_type(found: pa.DataType, wanted: pa.DataType, where: str) -> None:
    """The kind must agree, all the way down; widths need not. All null is a column of any kind."""
    found = found.value_type if pa.types.is_dictionary(found) else found
    if pa.types.is_null(found):
        return
    if pa.types.is_map(wanted) and pa.types.is_struct(found):
        for field in found:
            _check_type(field.type, wanted.item_type, f"field {field.name!r} of {where}")
        return
    if pa.types.is_map(wanted):
        found = _as_map(found, wanted)
    kind, name = next((kind, name) for kind, name in _KINDS if kind(wanted))
    if not kind(found):
        raise DataError(f"{where} is of type {found}; it should be {wanted}, or at least {name}")
    if pa.types.is_timestamp(wanted) and found.tz not in _UTC:
        raise DataError(
            f"{where} has the time zone {found.tz}; it should be {wanted}: a log's times are in UTC, and say so"
        )
    if _is_list(wanted):
        _check_type(found.value_type, wanted.value_type, f"an item of {where}")
    if pa.types.is_map(wanted):
        _check_type(found.key_type, wanted.key_type, f"a key of {where}")
        _check_type(found.item_type, wanted.item_type, f"a value of {where}")
    if pa.types.is_struct(wanted):
        _check_fields(found, wanted, where)


def _check_fields(found: pa.DataType, wanted: pa.DataType, where: str) -> None:
    for field in wanted:
        place = found.get_field_index(field.name)
        if place >= 0:
            _check_type(found.field(place).type, field.type, f"field {field.name!r} of {where}")
        elif not field.nullable:
            raise DataError(f"{where} has no field {field.name!r} ({field.type}); it may not be left out")


def _as_map(kind: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """A list of structs of `key` and `value` is a map, and so is one that is always empty; else it stays what it is."""
    if _is_list(kind) and pa.types.is_null(kind.value_type):
        return wanted
    if not _is_list(kind) or not pa.types.is_struct(kind.value_type):
        return kind
    types = {field.name: field.type for field in kind.value_type}
    return pa.map_(types["key"], types["value"]) if set(types) == {"key", "value"} else kind


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view)
    return any(test(kind) for test in (*tests, pa.types.is_large_list_view))


_UTC = ("UTC", "Etc/UTC", "Z", "+00:00")
_KINDS = (
    (_is_string, "some kind of string"),
    (_is_list, "some kind of list"),
    (pa.types.is_integer, "some kind of integer"),
    (pa.types.is_floating, "some kind of floating-point number"),
    (pa.types.is_boolean, "a bool"),
    (pa.types.is_timestamp, "a timestamp in UTC"),
    (pa.types.is_map, "a map"),
    (pa.types.is_struct, "a struct"),
)
