"""The columns of a log, its Arrow schema, the check of a file's schema, and which columns are read.

Each row is one impression; its events are a nested list. The schema, the checks, the writers and the documentation are
derived from `COLUMNS`. A file has `interleaf.schema = 1` in its metadata. Files written by other tools can be read: a
missing nullable column, an unknown column, or another width of the same type (int64 ranks, large strings, milliseconds)
is not an error. Times may have any zone, or none, or be text. A map may be a list of structs of a key and a value, or a
struct of texts, as libraries without maps write it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from interleaf.errors import DataError
from interleaf.kernels.randomness import Keyed
from interleaf.methods.registry import ONE_LIST
from interleaf.stable_codes import Code

VERSION = 1
VERSION_KEY = b"interleaf.schema"
INTERLEAVED, HOLDOUT, FALLBACK = "interleaved", "holdout", "fallback"  # arms; another one is an A/B arm
ALONE = "alone"  # the arm of a list of one ranker, where the best of many is chosen and this ranker leads by far


def arm_of(method: str, rankers: Sequence[str], teams: Sequence[int] | None, key: str | None) -> str:
    """The arm of a list that was composed to compare rankers: `interleaved`; for `one_list`, the ranker who made it.

    An empty list has no owner; its ranker is drawn again from the key of the list.

    >>> arm_of("team_draft", ["old", "new"], [1, 0], None), arm_of("one_list", ["old", "new"], [1, 1], None)
    ('interleaved', 'new')
    """
    if method != ONE_LIST:
        return INTERLEAVED
    if teams:
        return rankers[teams[0]]
    return INTERLEAVED if key is None else rankers[Keyed(key).pick(len(rankers))]


@dataclass(frozen=True)
class Column:
    """A column, or a field inside one: its name, its Arrow type, whether it may be null, and what it means."""

    name: str
    type: pa.DataType
    nullable: bool
    meaning: str

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.type, self.nullable)


def _struct(fields: Iterable[Column]) -> pa.DataType:
    return pa.struct([column.field for column in fields])


TIME = pa.timestamp("us", "UTC")

EVENT = (
    Column("event", pa.string(), True, "unique id; copies of an event with the same id are merged"),
    Column("kind", pa.string(), False, "`click`, `purchase`, or any other name"),
    Column("rank", pa.int32(), False, "rank of the document in `documents`, 1 = top"),
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
    Column("deep_links", pa.int16(), True, "number of links into the site that were shown below"),
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
        "id of the user, else of the client, else of the session; null: the impression is its own unit",
    ),
    Column("session", pa.string(), True, "visit that the impression belongs to"),
    Column("query", pa.string(), True, "text of the query"),
    Column(
        "arm",
        pa.string(),
        False,
        "`interleaved`, `holdout` (control list unchanged), `fallback` (a ranker failed), `alone` (in the mode "
        "`choose`: one ranker's list), or the name of an A/B arm",
    ),
    Column("method", pa.string(), False, "spec string of the method that composed the list"),
    Column(
        "key",
        pa.string(),
        True,
        "`k1:` and digest of the random key; with `rankings`, it composes the list again; null: not by interleaf",
    ),
    Column("page", pa.int16(), True, "number of this page; ranks continue over pages"),
    Column("log_probability", pa.float64(), True, "log of the list's probability under its method, where it has one"),
    Column("relaxed", pa.bool_(), True, "whether `optimized` could not satisfy its constraints"),
    Column("open", pa.bool_(), True, "whether more events could still arrive when the log was written"),
    Column("excluded", pa.string(), True, "why the row is excluded, such as a crawler; the report counts such rows"),
    Column("latency", pa.list_(pa.float32()), True, "milliseconds of each ranker"),
    Column("fallback_reason", pa.string(), True, "why the control was served"),
    Column("epoch", pa.int64(), True, "number of the epoch, if the best of many rankers is chosen: mode `choose`"),
    Column("rankers", pa.list_(pa.string()), False, "names of the rankers"),
    Column("documents", pa.list_(pa.string()), False, "the shown list, top first, without fixed documents such as ads"),
    Column("ranks", pa.list_(pa.list_(pa.int32())), True, "[ranker][position], 1 = top, 0 = not in that ranking"),
    Column(
        "unshown_ranks",
        pa.list_(pa.list_(pa.int32())),
        True,
        "as `ranks`, of documents that are not shown, but that some ranker has in its first n; n documents are shown",
    ),
    Column("lengths", pa.list_(pa.int32()), True, "length of each input ranking"),
    Column("union", pa.int32(), True, "how many distinct documents the input rankings hold together"),
    Column("teams", pa.list_(pa.int8()), True, "index of the ranker that owns each position, -1 nobody"),
    Column("choices", pa.list_(pa.int32()), True, "number of different documents in the rankers' top 1, 2, ..."),
    Column("rankings", pa.list_(pa.list_(pa.string())), True, "the input rankings, for reuse and replay"),
    Column("captions", pa.list_(_struct(CAPTION)), True, "what people saw of each document"),
    Column(
        "characters",
        pa.list_(pa.int32()),
        True,
        "how many characters the text of each shown document has, such as a passage for a language model",
    ),
    Column("grades", pa.list_(pa.int8()), True, "judged relevance of the shown documents, where known"),
    Column("events", pa.list_(_struct(EVENT)), False, "clicks, purchases, any named event"),
    Column(
        "attributes",
        pa.map_(pa.string(), pa.string()),
        False,
        "device, country, query class: what a report can be split by",
    ),
)

# Values of columns that a log may lack.
DEFAULTS: dict[str, Any] = {
    "experiment": "experiment",
    "version": 1,
    "arm": INTERLEAVED,
    "attributes": {},
    "events": [],
}
MAX_SHOWN = 1000  # documents per list
IDS = ("documents", "rankings", "impression", "unit", "session", "query")  # may be integers, which become text


class Assumption(Code):
    """What a log does not say, and how it is read."""

    NO_EXPERIMENT = "no_experiment", "there is no column 'experiment': all rows are read as one experiment"
    NO_EVENTS = "no_events", "there is no column 'events': no list has a click"
    NO_EVENT_LINES = "no_event_lines", "no line has 'events', and no line is an event: no list has a click"
    NAIVE_TIMES = "naive_times", "times without a time zone are read as UTC"


NO_EXPERIMENT, NO_EVENTS, NO_EVENT_LINES, NAIVE_TIMES = Assumption
TIME_EXAMPLE = "2026-11-16T10:00:00Z"  # how texts give times

SCHEMA = pa.schema([column.field for column in COLUMNS], metadata={VERSION_KEY: str(VERSION).encode()})


def validate(schema: pa.Schema) -> None:
    """Raise an error that lists all problems if a log with this schema cannot be read.

    >>> validate(SCHEMA)
    """
    refuse(problems_of(schema))


def refuse(problems: Sequence[str], where: str = "") -> None:
    """Raise an error that lists all problems, if there are any."""
    prefix = f"{where}: " if where else ""
    if len(problems) == 1:
        raise DataError(prefix + problems[0])
    if problems:
        listed = "".join(f"\n- {problem}" for problem in problems)
        raise DataError(f"{prefix}{len(problems)} problems:{listed}")


def problems_of(schema: pa.Schema) -> list[str]:
    """Why a log with this schema cannot be read. A log without a schema version has the current one."""
    text = (schema.metadata or {}).get(VERSION_KEY, str(VERSION).encode()).decode(errors="replace")
    if not text.isdecimal() or int(text) < 1:
        return [f"the log's metadata say interleaf.schema = {text!r}; it is a whole number, now {VERSION}"]
    if int(text) > VERSION:
        newer = f"the log is of schema version {text}, and this interleaf knows versions up to {VERSION}"
        return [f"{newer}: a newer interleaf wrote it; upgrade this one"]
    problems: list[str] = []
    for column in COLUMNS:
        places = schema.get_all_field_indices(column.name)
        if len(places) > 1:
            problems.append(f"the log has {len(places)} columns named {column.name!r}; keep one of them")
        elif places:
            kind, where = schema.field(places[0]).type, f"column {column.name!r}"
            problems += _type_problems(kind, column.type, where, column.name)
        elif not column.nullable:
            needed = f"the log has no column {column.name!r} ({column.type}: {column.meaning})"
            problems.append(f"{needed}; it may not be left out")
    return problems


def assumptions_of(schema: pa.Schema) -> list[str]:
    """The codes of the assumptions needed to read a log with this schema."""
    types = {field.name: field.type for field in schema}
    assumptions: list[str] = [
        code for name, code in (("experiment", NO_EXPERIMENT), ("events", NO_EVENTS)) if name not in types
    ]
    events = types.get("events")
    fields = events.value_type if events is not None and _is_list(events) else pa.struct([])
    inside = [field.type for field in fields if field.name == "time"] if pa.types.is_struct(fields) else []
    times = [kind for kind in (types.get("time"), *inside) if kind is not None]
    if any(is_string(kind) or (pa.types.is_timestamp(kind) and kind.tz is None) for kind in times):
        assumptions.append(NAIVE_TIMES)
    return assumptions


def _type_problems(kind_in_file: pa.DataType, wanted: pa.DataType, where: str, column: str) -> Iterator[str]:
    """Types must agree at every level, but may have another width. A column of nulls fits any type."""
    kind_in_file = kind_in_file.value_type if pa.types.is_dictionary(kind_in_file) else kind_in_file
    if kind_in_file == wanted or pa.types.is_null(kind_in_file):
        return
    if column in IDS and pa.types.is_string(wanted) and pa.types.is_integer(kind_in_file):
        return
    if pa.types.is_map(wanted) and pa.types.is_struct(kind_in_file):
        for field in kind_in_file:
            yield from _type_problems(field.type, wanted.item_type, f"field {field.name!r} of {where}", column)
        return
    if pa.types.is_map(wanted):
        kind_in_file = _as_map(kind_in_file, wanted)
    kind, name = next((kind, name) for kind, name in _KINDS if kind(wanted))
    if not kind(kind_in_file):
        yield f"{where} is of type {kind_in_file}; it should be {wanted}, or at least {name}: convert it"
    elif _is_list(wanted):
        yield from _type_problems(kind_in_file.value_type, wanted.value_type, f"an item of {where}", column)
    elif pa.types.is_map(wanted):
        yield from _type_problems(kind_in_file.key_type, wanted.key_type, f"a key of {where}", column)
        yield from _type_problems(kind_in_file.item_type, wanted.item_type, f"a value of {where}", column)
    elif pa.types.is_struct(wanted):
        for field in wanted:
            place = kind_in_file.get_field_index(field.name)
            if place >= 0:
                inside = f"field {field.name!r} of {where}"
                yield from _type_problems(kind_in_file.field(place).type, field.type, inside, column)
            elif not field.nullable:
                yield f"{where} has no field {field.name!r} ({field.type}); it may not be left out"


def _as_map(kind: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """The map that a list of `key` and `value` structs, or a list that is always empty, stands for; else `kind`."""
    if _is_list(kind) and pa.types.is_null(kind.value_type):
        return wanted
    if not _is_list(kind) or not pa.types.is_struct(kind.value_type):
        return kind
    types = {field.name: field.type for field in kind.value_type}
    return pa.map_(types["key"], types["value"]) if set(types) == {"key", "value"} else kind


def is_string(kind: pa.DataType) -> bool:
    """Whether values of this type are texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_time(kind: pa.DataType) -> bool:
    """Whether values of this type are times, or texts, which may be times."""
    return bool(pa.types.is_timestamp(kind) or is_string(kind))


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view)
    return any(test(kind) for test in (*tests, pa.types.is_large_list_view))


_KINDS = (
    (is_string, "some kind of string"),
    (_is_list, "some kind of list"),
    (pa.types.is_integer, "some kind of integer"),
    (pa.types.is_floating, "some kind of floating-point number"),
    (pa.types.is_boolean, "a bool"),
    (_is_time, "a timestamp, or text in ISO 8601"),
    (pa.types.is_map, "a map"),
    (pa.types.is_struct, "a struct"),
)

# Columns that are needed to join the pages of an impression.
_PAGED = ("experiment", "version", "impression", "time", "page", "method", "rankers", "documents", "teams")
_EVENT = ("events.event", "events.kind", "events.rank", "events.time")

Wanted = tuple[str, ...] | None  # None: all columns


class Projection(NamedTuple):
    """The columns that are always read, and `spare` columns, each read only if one of its named columns is missing."""

    names: Wanted
    spare: dict[str, tuple[str, ...]]

    def select(self, present: Collection[str]) -> Wanted:
        """What to read of a file with these columns.

        >>> projection_of(["time", "ranks"], {"rankings": ["ranks"]}).select(["time", "rankings"])
        ('time', 'ranks', 'rankings')
        """
        if self.names is None:
            return None
        return self.names + tuple(name for name, others in self.spare.items() if not set(others) <= set(present))

    def with_pages(self) -> Projection:
        """The same, with the columns that are needed to join the pages of an impression."""
        if self.names is None:
            return self
        is_inside = any(name.startswith("events.") for name in self.names)
        events = _EVENT if is_inside and "events" not in self.names else ("events",)
        return Projection(tuple(dict.fromkeys((*self.names, *_PAGED, *events))), self.spare)

    def only(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch without columns that were read only to join pages."""
        names = None if self.names is None else (*self.names, *self.spare)
        return batch.select([name for name in batch.schema.names if is_wanted(name, names)])


def projection_of(columns: Iterable[str] | None, spare: Mapping[str, Sequence[str]]) -> Projection:
    """The columns that a reader asks for; an unknown name is an error."""
    if isinstance(columns, str):
        raise DataError(f"columns is {columns!r}, one text; give a list of names")
    names = None if columns is None else tuple(columns)
    names_of_schema = {name for field in SCHEMA for name in (field.name, *_inner(field.type, f"{field.name}."))}
    for name in (*(names or ()), *spare):
        if name not in names_of_schema:
            raise DataError(f"a log has no column {name!r}; the columns are {', '.join(SCHEMA.names)}")
    return Projection(names, {name: tuple(others) for name, others in spare.items()})


def _inner(kind: pa.DataType, prefix: str) -> Iterator[str]:
    kind = kind.value_type if pa.types.is_list(kind) else kind
    for field in kind if pa.types.is_struct(kind) else ():
        yield prefix + field.name
        yield from _inner(field.type, f"{prefix}{field.name}.")


def is_wanted(name: str, names: Wanted) -> bool:
    """Whether a column is wanted, or a field inside it."""
    return names is None or any(one.split(".")[0] == name for one in names)


def leaves(paths: Sequence[str], names: Iterable[str]) -> list[str]:
    """The Parquet columns, by their full paths, that hold these columns and fields.

    Writers name the levels between a list and its items differently: `events.list.element.kind`, `events.array.kind`,
    `events.bag.array_element.kind`. So a path matches if it has the names in their order, with others between them.

    >>> leaves(["time", "events.list.element.kind", "events.list.element.time"], ["time", "events.kind"])
    ['time', 'events.list.element.kind']
    """
    return [path for path in paths if any(_fits(path.split("."), name.split(".")) for name in names)]


def _fits(path: list[str], name: list[str]) -> bool:
    rest = iter(path)
    return path[0] == name[0] and all(part in rest for part in name)
