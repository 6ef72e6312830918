"""Joins events that are lines of their own to their impressions, and merges copies of one event.

The files are read twice: first for events, then for impressions. Events may be in any of the files, before or after
their impression. They are joined to impressions from JSON lines and CSV only; Parquet rows hold their events already.

Copies of an event have the same id: a browser sends a click, and sends it again with its dwell when the person returns.
The copy with the earliest time counts; among copies of the same time the one with the lowest rank, then the first kind
by name. Its dwell is the largest dwell of all copies. Its value is that of the earliest copy that has one, the smallest
of several. So the result does not depend on the order in which copies arrive.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.log import schema
from interleaf.log.arrow import gather_batches
from interleaf.log.csv_rows import csv_objects
from interleaf.log.drop_reasons import EventFate
from interleaf.log.files import LogFile
from interleaf.log.jsonl import (
    LineError,
    columns_of,
    event_of,
    is_event,
    is_further_page,
    lines_of,
    parse_line,
    split_rankings,
)
from interleaf.log.schema import Projection, is_wanted
from interleaf.log.validation import ASSUMED_UTC


class MergedCopies(NamedTuple):
    """For each event: whether another copy of it counts, and, if it counts itself, its merged dwell and value."""

    is_repeated: Array
    dwell: Array
    value: Array


def merge_copies(event: Array, time: Array, rank: Array, kind: Array, dwell: Array, value: Array) -> MergedCopies:
    """Merge copies, which share the number `event`; kinds are numbered in the order of their names, nan is missing.

    >>> nan = np.nan
    >>> merge_copies(*map(np.array, ([7, 7, 8], [5, 3, 4], [1, 1, 2], [0, 0, 0], [2.5, nan, nan], [nan, nan, nan])))
    MergedCopies(is_repeated=array([ True, False, False]), dwell=array([2.5, 2.5, nan]), value=array([nan, nan, nan]))
    """
    order = np.lexsort((kind, rank, time, event))
    is_first = np.append(True, np.diff(event[order]) != 0)[: len(order)]
    starts = np.flatnonzero(is_first)
    copies = np.diff(np.append(starts, len(order)))
    is_repeated, all_dwells, all_values = np.zeros(len(order), np.bool_), dwell.copy(), value.copy()
    is_repeated[order] = ~is_first
    if len(order):
        all_dwells[order] = np.repeat(np.fmax.reduceat(dwell[order], starts), copies)
        by_value = np.lexsort((value, kind, rank, time, np.isnan(value), event))
        all_values[order] = np.repeat(value[by_value][starts], copies)
    return MergedCopies(is_repeated, all_dwells, all_values)


def merge_events(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of an impression with copies merged, in the order given."""
    names = Counter(event["event"] for event in events if event.get("event") is not None)
    if len(names) == names.total():
        return list(events)
    numbers = {name: number for number, name in enumerate(names)}
    some = [place for place, event in enumerate(events) if names[event.get("event")] > 1]
    kinds = sorted({events[place]["kind"] for place in some})
    merged = merge_copies(
        np.array([numbers[events[place]["event"]] for place in some]),
        np.array([events[place]["time"].replace(tzinfo=None) for place in some], "datetime64[us]"),
        np.array([events[place]["rank"] for place in some]),
        np.array([kinds.index(events[place]["kind"]) for place in some]),
        *(np.array([events[place].get(name) for place in some], np.float64) for name in ("dwell", "value")),
    )
    result: list[dict[str, Any] | None] = list(events)
    for place, is_repeated, *amounts in zip(some, *merged, strict=True):
        new_values = {name: float(one) for name, one in zip(("dwell", "value"), amounts, strict=True) if one == one}
        result[place] = None if is_repeated else events[place] | new_values
    return [event for event in result if event is not None]


def event_order(event: dict[str, Any]) -> tuple[Any, ...]:
    """The key by which the events of an impression are sorted."""
    return event["time"], event["rank"], event["kind"], event.get("event") or ""


FIELDS = ("event", "kind", "rank", "time", "dwell", "value")


class EventLines:
    """Events from lines of their own, in a temporary database that the system removes even if the process is killed.

    >>> from datetime import UTC
    >>> lines = EventLines()
    >>> lines.add([("i-1", {"kind": "click", "rank": 3, "time": datetime(2026, 11, 15, tzinfo=UTC)})])
    >>> lines.of("i-1")[0]["rank"], lines.of("i-2"), lines.unmatched_count
    (3, [], 0)
    >>> lines.close()
    """

    def __init__(self) -> None:
        # One transaction that is never committed, because the database is temporary.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA cache_size = -65536")  # KiB
        self._database.execute("BEGIN")
        self._database.execute(f"CREATE TABLE events (impression, matched DEFAULT 0, {', '.join(FIELDS)})")
        self._is_indexed = False
        self.count = 0

    def add(self, events: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Store checked events, each with the id of its impression. Add all events before the first call of `of`."""
        rows = [
            (impression, *map((event | {"time": event["time"].isoformat()}).get, FIELDS))
            for impression, event in events
        ]
        self.count += len(rows)
        names = ", ".join(("impression", *FIELDS))
        self._database.executemany(f"INSERT INTO events ({names}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def of(self, impression: str) -> list[dict[str, Any]]:
        """The events of an impression, in an order that does not depend on the order of the lines."""
        if not self.count:
            return []
        if not self._is_indexed:
            self._database.execute("CREATE INDEX by_impression ON events (impression)")
            self._is_indexed = True
        query = f"SELECT {', '.join(FIELDS)} FROM events WHERE impression = ? ORDER BY time, rank, kind, event"
        events = [dict(zip(FIELDS, row, strict=True)) for row in self._database.execute(query, (impression,))]
        for event in events:
            event["time"] = datetime.fromisoformat(event["time"])
        if events:
            self._database.execute("UPDATE events SET matched = 1 WHERE impression = ?", (impression,))
        return events

    @property
    def unmatched_count(self) -> int:
        """How many events belong to no impression that was looked up."""
        count: int = self._database.execute("SELECT count(*) FROM events WHERE matched = 0").fetchone()[0]
        return count

    def close(self) -> None:
        self._database.close()


AT_ONCE = 512  # rows that are Python objects at a time, so that they fit into the CPU's cache
PROMISED = [column.name for column in schema.COLUMNS if not column.nullable]  # others may be null in every line


COUNTS_KEY = "interleaf.counts"
_Number = Annotated[int, msgspec.Meta(ge=0)]


class StoredCounts(msgspec.Struct, omit_defaults=True):
    """Counts of a conversion, as the metadata of its log have them."""

    dropped: dict[str, _Number] = {}
    events: dict[str, _Number] = {}
    examples: dict[str, str] = {}
    assumptions: list[str] = []


@dataclass(eq=False)
class ReadCounts:
    """Counts of dropped rows by reason, with the first example of each; counts of events; and assumptions."""

    dropped: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    assumptions: dict[str, None] = field(default_factory=dict)

    def add(self, other: ReadCounts) -> None:
        """Add the counts of another reading; the first example of a reason is kept."""
        self.dropped.update(other.dropped)
        self.events.update(other.events)
        self.examples = {**other.examples, **self.examples}
        self.assumptions |= other.assumptions

    def to_metadata(self) -> dict[str, str]:
        """These counts as metadata of a Parquet file, whose log was converted from another one."""
        stored = StoredCounts(dict(+self.dropped), dict(+self.events), self.examples, list(self.assumptions))
        return {COUNTS_KEY: msgspec.json.encode(stored).decode()}

    @classmethod
    def of_metadata(cls, metadata: Mapping[bytes, bytes]) -> ReadCounts:
        """The counts in the metadata of a Parquet file; without any, nothing was left out."""
        try:
            stored = msgspec.json.decode(metadata.get(COUNTS_KEY.encode(), b"{}"), type=StoredCounts)
        except msgspec.MsgspecError as problem:
            raise DataError(f"the metadata {COUNTS_KEY} cannot be read ({problem}); convert the tables again") from None
        return cls(Counter(stored.dropped), Counter(stored.events), stored.examples, dict.fromkeys(stored.assumptions))

    def drop(self, file: LogFile, number: int, problem: LineError) -> None:
        self.dropped[problem.reason] += 1
        self.examples.setdefault(problem.reason, f"{file.path}:{number}: {problem}")


class JoinedLines:
    """JSON-lines files with their events joined. Call `collect`, then `batches` for every file, then `finish`."""

    def __init__(self, files: Sequence[LogFile], counts: ReadCounts, lines: EventLines) -> None:
        self._files, self._counts, self._lines = files, counts, lines
        self._impressions = 0
        self._have_events = False  # whether some impression has a list of events, perhaps an empty one
        self.continued: set[str] = set()  # impressions with a further page

    def collect(self) -> None:
        """Read all files to find events that are lines of their own and impressions with several pages."""
        events = self._events()
        while some := list(islice(events, AT_ONCE)):
            self._lines.add(some)
        if self.continued:
            records = (record for file in self._files for record in _records(file))
            objects = (value for _, value, holds_event in records if isinstance(value, dict) and not holds_event)
            names = Counter(name for value in objects if isinstance(name := value.get("impression"), str))
            self.continued = {name for name in self.continued if names[name] > 1}

    def _events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for file in self._files:
            for number, value, holds_event in _records(file):
                if isinstance(value, LineError):
                    continue  # counted when impressions are read
                if holds_event:
                    try:
                        event = event_of(value)
                    except LineError as problem:
                        self._counts.drop(file, number, problem)
                        continue
                    self._note_naive(event[1]["time"])
                    yield event
                elif is_further_page(value):
                    self.continued.add(value["impression"])

    def _note_naive(self, time: datetime) -> None:
        if time.tzinfo is ASSUMED_UTC:
            self._counts.assumptions[schema.NAIVE_TIMES] = None

    def batches(self, file: LogFile, projection: Projection, batch_size: int) -> Iterator[pa.RecordBatch]:
        """The wanted columns of the impressions of a file, with all their events."""
        names = projection.select(PROMISED)
        wanted = [column for column in schema.COLUMNS if is_wanted(column.name, names)]
        folder_columns = {name: value.as_py() for name, value in file.folder_columns.items()}
        objects = self._objects(file)

        def small() -> Iterator[pa.RecordBatch]:
            while some := list(islice(objects, min(batch_size, AT_ONCE))):
                columns = self._columns(file, some, folder_columns)
                if columns["impression"]:
                    yield _batch(wanted, columns)

        return gather_batches(small(), batch_size)

    def _objects(self, file: LogFile) -> Iterator[tuple[int, dict[str, Any]]]:
        """The objects that may be impressions, with their line numbers."""
        for number, value, holds_event in _records(file):
            try:
                if isinstance(value, LineError):
                    raise value
                if not holds_event:
                    yield number, split_rankings(value)
            except LineError as problem:
                self._counts.drop(file, number, problem)

    def _columns(
        self, file: LogFile, objects: list[tuple[int, dict[str, Any]]], folder_columns: dict[str, Any]
    ) -> dict[str, list[Any]]:
        columns, faults = columns_of([value for _, value in objects], folder_columns)
        if faults:
            for place, problem in sorted(faults.items()):
                self._counts.drop(file, objects[place][0], problem)
            columns = {
                name: [value for place, value in enumerate(values) if place not in faults]
                for name, values in columns.items()
            }
        self._impressions += len(columns["impression"])
        if "experiment" not in folder_columns and any("experiment" not in value for _, value in objects):
            self._counts.assumptions[schema.NO_EXPERIMENT] = None
        self._have_events = self._have_events or any(value.get("events") is not None for _, value in objects)
        for time in columns["time"]:
            self._note_naive(time)
        columns["events"] = list(map(self._merge, columns["impression"], columns["events"]))
        return columns

    def _merge(self, impression: str, inside: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """All events of an impression with copies merged; sorted by time if some are lines of their own.

        The events of an impression with several pages are merged later, when all its rows have been read.
        """
        lines = self._lines.of(impression)
        if impression in self.continued or (not lines and len(inside) < 2):
            return inside
        events = merge_events(inside + lines)
        if repeated := len(inside) + len(lines) - len(events):
            self._counts.events[EventFate.REPEATED] += repeated
        return sorted(events, key=event_order) if lines else events

    def lines_of(self, impression: str) -> list[dict[str, Any]]:
        """The events of an impression with several pages that are lines of their own."""
        return self._lines.of(impression) if impression in self.continued else []

    def finish(self) -> None:
        """Count events without an impression, note if there are no events, and raise an error if no line is usable."""
        if self._impressions and not self._have_events and not self._lines.count:
            self._counts.assumptions[schema.NO_EVENT_LINES] = None
        if unmatched := self._lines.unmatched_count:
            self._counts.events[EventFate.UNMATCHED] += unmatched
        if self._counts.examples and not self._impressions and not self._lines.count:
            example = next(iter(self._counts.examples.values()))
            raise DataError(f"no line can be used, of {self._counts.dropped.total():,}; the first: {example}")


Record = tuple[int, dict[str, Any] | LineError, bool]


def _records(file: LogFile) -> Iterator[Record]:
    """The rows of a file: line number, object or error, and whether it is an event."""
    if file.is_csv:
        for number, value in csv_objects(file):
            yield number, value, isinstance(value, dict) and is_event(value)
        return
    for number, line in lines_of(file.here, file.size):
        try:
            if line.strip():
                row = parse_line(line)
                yield number, row, is_event(row)
        except LineError as problem:
            yield number, problem, False


@contextmanager
def join_event_lines(files: Sequence[LogFile], counts: ReadCounts) -> Iterator[JoinedLines]:
    """Collect the events of JSON-lines files, so that their impressions can be read."""
    try:
        with closing(EventLines()) as lines:
            joined = JoinedLines(files, counts, lines)
            joined.collect()
            yield joined
            joined.finish()
    except sqlite3.Error as problem:
        raise DataError(
            f"event lines cannot be stored ({problem}); set the variable TMPDIR to a folder with room"
        ) from None


def _batch(wanted: list[schema.Column], columns: dict[str, list[Any]]) -> pa.RecordBatch:
    if not wanted:  # without columns, rows can still be counted
        return pa.RecordBatch.from_struct_array(pa.array([{} for _ in columns["impression"]], pa.struct([])))
    kinds = pa.schema([column.field for column in wanted], schema.SCHEMA.metadata)
    return pa.RecordBatch.from_pydict(columns, schema=kinds)
