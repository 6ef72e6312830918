"""The files of JSON lines and CSV of a log, read twice: first for events that are lines of their own, then for
impressions.

Events may stand in any of the files, before or after their impression, and more than once: copies with the same id are
merged to one event. They find impressions of JSON lines only; a Parquet file has its events inside.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

import pyarrow as pa

from interleaf import schema
from interleaf.errors import DataError
from interleaf.log.arrow import gathered
from interleaf.log.csv_rows import csv_objects
from interleaf.log.event_lines import EventLines
from interleaf.log.files import File
from interleaf.log.lines import (
    LineError,
    columns_of,
    event_of,
    is_event,
    is_further_page,
    is_surely_impression,
    may_be_page,
    parsed,
    with_names_apart,
)
from interleaf.log.projection import Projection, is_wanted
from interleaf.log.repeated_events import event_order, merge_events
from interleaf.log.text import lines_of
from interleaf.log.values import ASSUMED_UTC

AT_ONCE = 512  # rows that are Python objects at a time: as many as the caches hold
PROMISED = [column.name for column in schema.COLUMNS if not column.nullable]  # any other may be null in every line


@dataclass(eq=False)
class Counts:
    """What was not used, by reason, with a first example of each; what became of events; and what was assumed."""

    dropped: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    assumptions: dict[str, None] = field(default_factory=dict)

    def assume(self, sentence: str) -> None:
        """Note what was assumed to read the log, once."""
        self.assumptions[sentence] = None

    def drop(self, file: File, number: int, problem: LineError) -> None:
        """Count a line that cannot be used."""
        self.dropped[problem.reason] += 1
        self.examples.setdefault(problem.reason, f"{file.path}:{number}: {problem}")


class JoinedLines:
    """JSON-lines files with their events joined: collect events, read the batches of every file, finish."""

    def __init__(self, files: Sequence[File], counts: Counts, kept: EventLines) -> None:
        self._files, self._counts, self._kept = files, counts, kept
        self._impressions = 0
        self._have_events = False  # whether some impression has events inside, or an empty list of them
        self.continued: set[str] = set()  # impressions with a further page

    def collect(self) -> None:
        """Read all files for events that are lines of their own, and for impressions that go on over pages."""
        events = self._events()
        while some := list(islice(events, AT_ONCE)):
            self._kept.add(some)
        if self.continued:
            rows = Counter(name for name in self._ids() if name in self.continued)
            self.continued = {name for name, number in rows.items() if number > 1}

    def _ids(self) -> Iterator[str]:
        """The ids of all impressions."""
        for file in self._files:
            for _, value, holds_event in _records(file):
                if isinstance(value, dict) and not holds_event and isinstance(value.get("impression"), str):
                    yield value["impression"]

    def _events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for file in self._files:
            for number, value, holds_event in _records(file, skips_impressions=True):
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
            self._counts.assume(schema.NAIVE_TIMES)

    def batches(self, file: File, projection: Projection, batch_size: int) -> Iterator[pa.RecordBatch]:
        """The impressions of a file, the wanted columns of them, with all their events."""
        names = projection.wanted(PROMISED)
        wanted = [column for column in schema.COLUMNS if is_wanted(column.name, names)]
        said = {name: value.as_py() for name, value in file.said.items()}
        objects = self._objects(file)

        def small() -> Iterator[pa.RecordBatch]:
            while some := list(islice(objects, min(batch_size, AT_ONCE))):
                columns = self._columns(file, some, said)
                if columns["impression"]:
                    yield _batch(wanted, columns)

        return gathered(small(), batch_size)

    def _objects(self, file: File) -> Iterator[tuple[int, dict[str, Any]]]:
        """What could be impressions, with the numbers of their lines."""
        for number, value, holds_event in _records(file):
            try:
                if isinstance(value, LineError):
                    raise value
                if not holds_event:
                    yield number, with_names_apart(value)
            except LineError as problem:
                self._counts.drop(file, number, problem)

    def _columns(
        self, file: File, objects: list[tuple[int, dict[str, Any]]], said: dict[str, Any]
    ) -> dict[str, list[Any]]:
        columns, faults = columns_of([value for _, value in objects], said)
        if faults:
            for place, problem in sorted(faults.items()):
                self._counts.drop(file, objects[place][0], problem)
            columns = {
                name: [value for place, value in enumerate(values) if place not in faults]
                for name, values in columns.items()
            }
        self._impressions += len(columns["impression"])
        if "experiment" not in said and any("experiment" not in value for _, value in objects):
            self._counts.assume(schema.NO_EXPERIMENT)
        self._have_events = self._have_events or any(value.get("events") is not None for _, value in objects)
        for time in columns["time"]:
            self._note_naive(time)
        columns["events"] = list(map(self._merged, columns["impression"], columns["events"]))
        return columns

    def _merged(self, impression: str, inside: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """All events of an impression, copies of one event merged; by time where some are lines of their own.

        Those of an impression that goes on over pages are merged when all its rows are there.
        """
        lines = self._kept.of(impression)
        if impression in self.continued or (not lines and len(inside) < 2):
            return inside
        events = merge_events(inside + lines)
        if repeated := len(inside) + len(lines) - len(events):
            self._counts.events["repeated"] += repeated
        return sorted(events, key=event_order) if lines else events

    def lines_of(self, impression: str) -> list[dict[str, Any]]:
        """The events of an impression over pages that are lines of their own."""
        return self._kept.of(impression) if impression in self.continued else []

    def finish(self) -> None:
        """Count the events without an impression; note a log without events; refuse one without a usable line."""
        if self._impressions and not self._have_events and not self._kept.count:
            self._counts.assume(schema.NO_EVENT_LINES)
        if unmatched := self._kept.unmatched:
            self._counts.events["unmatched"] += unmatched
        if self._counts.examples and not self._impressions and not self._kept.count:
            example = next(iter(self._counts.examples.values()))
            raise DataError(f"no line can be used, of {self._counts.dropped.total():,}; the first: {example}")


Record = tuple[int, dict[str, Any] | LineError, bool]


def _records(file: File, skips_impressions: bool = False) -> Iterator[Record]:
    """The rows of a file: number, object or what is wrong with it, and whether it is an event.

    Impressions, but for further pages, can be left out where they are told apart without reading all of the line.
    """
    if file.is_csv:
        for number, value in csv_objects(file):
            yield number, value, isinstance(value, dict) and "kind" in value and "documents" not in value
        return
    for number, line in lines_of(file.here, file.size):
        if not line.strip() or (skips_impressions and is_surely_impression(line) and not may_be_page(line)):
            continue
        try:
            value = parsed(line)
            yield number, value, is_event(line, value)
        except LineError as problem:
            yield number, problem, False


@contextmanager
def joined(files: Sequence[File], counts: Counts) -> Iterator[JoinedLines]:
    """JSON-lines files, ready to be read."""
    try:
        with closing(EventLines()) as kept:
            lines = JoinedLines(files, counts, kept)
            lines.collect()
            yield lines
            lines.finish()
    except sqlite3.Error as problem:
        raise DataError(
            f"event lines cannot be kept aside ({problem}); set the variable TMPDIR to a folder with room"
        ) from None


def _batch(wanted: list[schema.Column], columns: dict[str, list[Any]]) -> pa.RecordBatch:
    if not wanted:  # rows without columns can still be counted
        return pa.RecordBatch.from_struct_array(pa.array([{} for _ in columns["impression"]], pa.struct([])))
    arrays = [pa.array(columns[column.name], column.type) for column in wanted]
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema([column.field for column in wanted], schema.SCHEMA.metadata)
    )
