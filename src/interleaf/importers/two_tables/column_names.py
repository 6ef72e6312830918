"""Finds the column of each field of the two tables: by `--map`, else by the names that warehouses use.

Case, underscores, hyphens and spaces of names do not matter. A field with two possible columns is a problem, unless one
of them has the name of the field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from interleaf.errors import DataError, InterleafError, did_you_mean, suggest
from interleaf.log import schema

IMPRESSIONS, EVENTS = "impressions", "events"

_ID = ("impression_id", "request_id", "query_id", "search_id", "serp_id")
_TIME = ("timestamp", "ts", "datetime", "created_at", "occurred_at", "server_time", "event_timestamp", "event_time")
_DOCUMENT = ("document_id", "doc", "doc_id", "item", "item_id", "product_id", "object_id", "result_id", "sku", "asin")
_RANK = ("position", "pos", "ordinal", "slot")

# Other names of fields. A field of a log is also recognised by its own name.
NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    IMPRESSIONS: {
        "impression": _ID,
        "time": (*_TIME, "shown_at", "requested_at", "impression_time", "request_time"),
        "unit": ("user", "user_id", "visitor_id", "customer_id", "client_id", "anonymous_id", "user_pseudo_id"),
        "session": ("session_id", "visit_id"),
        "query": ("query_text", "user_query", "search_query", "search_term", "q"),
        "documents": ("results", "shown", "doc_ids", "document_ids", "item_ids", "product_ids", "result_ids", "hits"),
        "document": _DOCUMENT,
        "rank": _RANK,
        "owner": ("owners", "team", "teams", "ranker", "variant", "variants"),
        "rankers": ("ranker_names",),
        "rankings": ("input_rankings",),
        "key": ("random_key",),
        "k": ("list_length",),
        "method": ("interleaving_method",),
        "experiment": ("experiment_id", "experiment_name"),
        "version": ("experiment_version",),
    },
    EVENTS: {
        "impression": _ID,
        "document": _DOCUMENT,
        "rank": _RANK,
        "kind": ("event_type", "event_name", "action", "action_name", "type"),
        "time": (*_TIME, "clicked_at", "click_time"),
        "value": ("revenue", "price", "amount"),
        "event": ("event_id", "click_id"),
        "dwell": ("dwell_time", "dwell_seconds"),
    },
}
_SPECIAL = ("teams", "events")  # of a log: the owner is `owner`, and events are the other table
NAMES[IMPRESSIONS] |= {
    column.name: () for column in schema.COLUMNS if column.name not in (*NAMES[IMPRESSIONS], *_SPECIAL)
}
ATTRIBUTE = "attributes."  # begins the name of a field that becomes an attribute
REQUIRED = {IMPRESSIONS: ("impression", "time"), EVENTS: ("impression", "time")}


@dataclass(frozen=True)
class TableColumns:
    """The column of each field of a table; `mapped_fields` are those that the mapping names, `unused` other columns."""

    table: str
    by_field: Mapping[str, str]
    mapped_fields: frozenset[str]
    unused: tuple[str, ...]

    def __contains__(self, field: object) -> bool:
        return field in self.by_field

    def without(self, *fields: str) -> TableColumns:
        """The same without these fields, whose columns are then unused."""
        by_field = {field: column for field, column in self.by_field.items() if field not in fields}
        dropped = tuple(self.by_field[field] for field in fields if field in self.by_field)
        return TableColumns(self.table, by_field, self.mapped_fields - set(fields), (*self.unused, *dropped))

    @property
    def sentence(self) -> str:
        """What was recognised, as a note of the report."""
        pairs = ", ".join(
            field if field == column else f"{field} from {column!r}" for field, column in self.by_field.items()
        )
        unused = f"; not used: {', '.join(map(repr, self.unused))}" if self.unused else ""
        return f"columns of the {self.table}: {pairs}{unused}"


def simplify(name: str) -> str:
    """A name without what does not matter: `Impression_ID` and `impressionId` are the same.

    >>> simplify("Impression_ID") == simplify("impressionId")
    True
    """
    return re.sub(r"[\s_\-]+", "", name).casefold()


@dataclass(frozen=True)
class ColumnMap:
    """The columns that a user names: for each table, the column of some fields.

    Names of fields are those of `NAMES`, such as `impression`; `events.time` names the field of one table only.
    """

    by_table: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(
        cls, given: Mapping[str, str], columns: Mapping[str, Sequence[str]], problems: list[InterleafError]
    ) -> ColumnMap:
        """The mapping, checked against the columns of both tables; what is wrong with it is added to `problems`."""
        by_table: dict[str, dict[str, str]] = {table: {} for table in columns}
        for name, column in given.items():
            tables, field = _tables_of(name, columns)
            if not tables:
                all_fields = [
                    *dict.fromkeys(field for fields in NAMES.values() for field in fields),
                    f"{ATTRIBUTE}NAME",
                ]
                problems.append(
                    DataError(f"--map {name}={column}: there is no field {name!r}; use {suggest(name, all_fields)}")
                )
                continue
            places = [table for table in tables if column in columns[table]]
            if not places:
                there = [other for table in tables for other in columns[table]]
                where = " nor ".join(f"the {table}" for table in tables)
                hint = did_you_mean(column, there) or f"; the columns are {', '.join(map(repr, there))}"
                problems.append(DataError(f"--map {name}={column}: {where} have no column {column!r}{hint}"))
            for table in places:
                by_table[table][field] = column
        return cls(by_table)


def _tables_of(name: str, tables: Iterable[str]) -> tuple[list[str], str]:
    """The tables that have a field of this name, and its name without a table."""
    table, dot, rest = name.partition(".")
    field = rest if dot and table in NAMES else name
    only = [table] if field is rest else [*tables]
    if field.startswith(ATTRIBUTE) and field != ATTRIBUTE:
        return [one for one in only if one == IMPRESSIONS], field
    return [one for one in only if field in NAMES[one]], field


def find_columns(
    table: str, columns: Sequence[str], mapped: Mapping[str, str], problems: list[InterleafError]
) -> TableColumns:
    """The column of each field of a table; what is ambiguous or lacking is added to `problems`."""
    repeated = sorted({column for column in columns if columns.count(column) > 1})
    problems += [DataError(f"the {table} have several columns named {name!r}; keep one of them") for name in repeated]
    mapped_columns = {column for field, column in mapped.items() if not field.startswith(ATTRIBUTE)}
    free = [column for column in dict.fromkeys(columns) if column not in mapped_columns]
    by_field: dict[str, str] = {}
    for field, names in NAMES[table].items():
        if field in mapped:
            by_field[field] = mapped[field]
            continue
        candidates = _candidates(field, names, free)
        if len(candidates) == 1:
            by_field[field] = candidates[0]
        elif candidates:
            listed = " and ".join(map(repr, candidates))
            remedy = " or ".join(f"--map {table}.{field}={column}" for column in candidates)
            problems.append(DataError(f"the {table} have the columns {listed}: which is the {field}? Give {remedy}"))
    by_field |= {field: column for field, column in mapped.items() if field.startswith(ATTRIBUTE)}
    problems += _lacking(table, columns, by_field)
    unused = tuple(column for column in dict.fromkeys(columns) if column not in by_field.values())
    return TableColumns(table, by_field, frozenset(mapped), unused)


def _candidates(field: str, names: Sequence[str], columns: Iterable[str]) -> list[str]:
    """The columns that may be this field; one that has its very name is the only one."""
    accepted = {simplify(name) for name in (field, *names)}
    candidates = [column for column in columns if simplify(column) in accepted]
    exact = [column for column in candidates if column == field]
    return exact or candidates


def _lacking(table: str, columns: Sequence[str], found: Mapping[str, str]) -> Iterator[InterleafError]:
    """A problem for each field that the table needs and that no column is known to be."""
    ambiguous = {field for field, names in NAMES[table].items() if len(_candidates(field, names, columns)) > 1}
    there = ", ".join(map(repr, columns)) or "none"
    for field in REQUIRED[table]:
        if field not in found and field not in ambiguous:
            remedy = f"name it by --map {table}.{field}=COLUMN"
            yield DataError(f"the {table} have no column that is known to be the {field}; {remedy} (columns: {there})")
