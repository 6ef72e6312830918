"""Joins impressions with several pages: page one is a row, and each further page is another row of the impression.

A further page has `page` 2 or more, and the whole list so far: its `documents` begin with those of the page before. The
rows become one row: unit, time and query are those of page one, the list is the longest one, and the events are those
of all rows. A row is dropped and counted if its list does not begin with the page before, or if it has another version,
method or rankers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interleaf.log.drop_reasons import DropReason, EventFate
from interleaf.log.event_join import event_order, merge_events

Row = dict[str, Any]

_OF_LIST = (
    *("page", "documents", "ranks", "unshown_ranks", "lengths", "union", "teams", "choices", "rankings"),
    *("captions", "characters", "grades"),
)
_OF_LONGEST = (*_OF_LIST, "log_probability", "relaxed", "open")


def find_continued(paged: Iterable[pa.Array], rows_of: Callable[[pa.Array], Iterable[pa.Array]]) -> pa.Array:
    """The ids of impressions with a further page, and with more than one row.

    `paged` are the ids of rows that are further pages; `rows_of` returns the id of every row of the given impressions.
    """
    wanted = pa.chunked_array(paged, pa.string()).unique()
    if not len(wanted):
        return wanted
    row_counts = pa.chunked_array(rows_of(wanted), pa.string()).value_counts()
    return row_counts.field("values").filter(pc.greater(row_counts.field("counts"), 1))


def paged_ids(batch: pa.RecordBatch) -> pa.Array:
    """The ids of impressions that have a further page in this batch."""
    if "page" not in batch.schema.names:
        return pa.array([], pa.string())
    is_further = pc.greater_equal(batch.column("page").cast(pa.int64()), 2)
    return batch.column("impression").filter(is_further).cast(pa.string())


def rows_among(batch: pa.RecordBatch, ids: pa.Array, among: bool = True) -> pa.RecordBatch:
    """The rows of these impressions; or, if `among` is false, all other rows."""
    is_there = pc.fill_null(pc.is_in(batch.column("impression").cast(pa.string()), ids), False)
    return batch.filter(is_there if among else pc.invert(is_there))


def ids_among(batch: pa.RecordBatch, ids: pa.Array) -> pa.Array:
    """The id of every row of these impressions."""
    return rows_among(batch, ids).column("impression").cast(pa.string())


class PageJoiner:
    """Holds the rows of impressions with several pages in memory until all are read; other rows pass.

    `lines_of` returns the events of an impression that are lines of their own.
    """

    def __init__(self, continued: pa.Array, lines_of: Callable[[str], list[Row]] | None = None) -> None:
        self.continued, self._lines_of = continued, lines_of
        self._held: list[pa.RecordBatch] = []
        self.dropped: Counter[str] = Counter()
        self.events: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return len(self.continued) > 0

    def hold(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Hold back the rows of impressions with several pages; returns the other rows."""
        rows = rows_among(batch, self.continued)
        if not rows.num_rows:
            return batch
        self._held.append(rows)
        return rows_among(batch, self.continued, among=False)

    def join(self) -> Iterator[pa.RecordBatch]:
        """The impressions that were held back, one row each; and repeated rows, which the caller finds and drops."""
        groups: dict[tuple[Any, Any], list[Row]] = {}
        for batch in self._held:
            for row in batch.to_pylist():
                groups.setdefault((row["experiment"], row["impression"]), []).append(row)
        rows = []
        for group in groups.values():
            lines = self._lines_of(group[0]["impression"]) if self._lines_of else ()
            row, repeated, contradictions, lost_events, copies = join_pages(group, lines)
            rows += [row, *repeated]
            self.dropped[DropReason.WRONG_PAGE] += contradictions
            self.events[EventFate.UNMATCHED] += lost_events
            self.events[EventFate.REPEATED] += copies
        if rows:
            schemas = [
                pa.schema([field.with_type(_plain(field.type)) for field in batch.schema]) for batch in self._held
            ]
            schema = pa.unify_schemas(schemas, promote_options="permissive")
            arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def join_pages(rows: Iterable[Row], lines: Sequence[Row] = ()) -> tuple[Row, list[Row], int, int, int]:
    """Join all pages of an impression, and events from separate lines, to one row; the order of rows does not matter.

    Returns the joined row; repeated rows; the number of rows that do not fit, and of their events; and the number of
    copies of events that were merged.

    >>> one = {"page": None, "unit": "u", "time": 1, "documents": ["a"], "events": [], **dict.fromkeys(_DESIGN, 1)}
    >>> join_pages([one | {"page": 2, "unit": None, "documents": ["a", "b"]}, one])[0]["documents"]
    ['a', 'b']
    """
    first, *more = sorted(rows, key=_order)
    longest, parts, repeated, contradictions = first, [first], [], 0
    for row in more:
        if any(_order(row)[::2] == _order(other)[::2] for other in parts):
            repeated.append(row)
        elif not _continues(longest, row):
            contradictions += 1
        else:
            parts.append(row)
            longest = max(longest, row, key=lambda one: len(one["documents"] or ()))
    names = dict.fromkeys(name for row in parts for name in row)
    first_values = {name: next((row[name] for row in parts if row.get(name) is not None), None) for name in names}
    joined = first_values | {name: longest.get(name) for name in _OF_LONGEST if name in first_values}
    events = merge_events([*_different(row["events"] for row in parts), *lines])
    copies = sum(len(row["events"] or ()) for row in parts) + len(lines) - len(events)
    if lines:
        events.sort(key=event_order)
    size = len(longest["documents"] or ())
    shown = [event for event in events if event["rank"] <= size] if contradictions else events
    return joined | {"events": shown}, repeated, contradictions, len(events) - len(shown), copies


_DESIGN = ("version", "method", "rankers")


def _order(row: Row) -> tuple[int, Any, list[str]]:
    return row.get("page") or 1, row["time"], row["documents"] or []


def _continues(one: Row, other: Row) -> bool:
    """Whether two rows may be pages of one list: same design, and the longer list begins with the shorter one."""
    if any(one[name] != other[name] for name in _DESIGN):
        return False
    for name in ("documents", "teams"):
        here, there = one.get(name) or [], other.get(name) or []
        size = min(len(here), len(there))
        if here[:size] != there[:size]:
            return False
    return True


def _different(lists: Iterable[list[Row] | None]) -> list[Row]:
    """The events of several rows; equal events without an id in different rows are one event."""
    different: list[Row] = []
    for events in lists:
        before = list(different)
        different += [event for event in events or () if event.get("event") is not None or event not in before]
    return different


def _plain(kind: pa.DataType) -> pa.DataType:
    """The same type without dictionaries, which Arrow cannot make of nested Python values."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    return kind
