"""Queries and events that wait for each other: on disk, in parts by a hash of the query's id, each small enough."""

from __future__ import annotations

import marshal
import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self
from zlib import crc32

import numpy as np
import pyarrow as pa

from interleaf.adapters.ubi_records import EVENTS
from interleaf.methods.arrays import Array

PART = 32 * 2**20  # bytes of text whose records are held at once
ROOM = 100_000  # records that wait in memory, of all parts


class Spool:
    """A temporary file without a name, of which every part knows its pieces; memory does not grow with what it holds.

    Queries are tuples of plain values, events are record batches of `EVENTS`. A part gives them back in their order.

    >>> with Spool(size=0) as spool:
    ...     spool.add_query(("q-1", 3))
    ...     spool.add_query(("q-2", 5))
    ...     [queries for queries, events in spool.parts()]
    [[('q-1', 3), ('q-2', 5)]]
    """

    def __init__(self, size: int) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  it is closed with the spool
        self._parts = 1 + size // PART
        self._pieces: list[list[tuple[bool, int, int]]] = [[] for _ in range(self._parts)]
        self._queries: list[tuple[Any, ...]] = []
        self._events: list[pa.RecordBatch] = []
        self._held = 0

    def add_query(self, record: tuple[Any, ...]) -> None:
        """Let a query wait; its first field is its id."""
        self._queries.append(record)
        self._more(1)

    def add_events(self, batch: pa.RecordBatch) -> None:
        """Let events wait."""
        if batch.num_rows:
            self._events.append(batch)
            self._more(batch.num_rows)

    def _more(self, count: int) -> None:
        self._held += count
        if self._held >= ROOM:
            self._flush()

    def _flush(self) -> None:
        if self._queries:
            for part, places in self._split([record[0] for record in self._queries]):
                self._write(part, False, marshal.dumps([self._queries[place] for place in places.tolist()]))
        if self._events:
            batch = pa.Table.from_batches(self._events).combine_chunks().to_batches()[0]
            for part, places in self._split(batch.column("query_id")):
                self._write(part, True, (batch if self._parts == 1 else batch.take(pa.array(places))).serialize())
        self._queries, self._events, self._held = [], [], 0

    def _split(self, ids: list[str] | pa.Array) -> Iterator[tuple[int, Array]]:
        """Which of some records belong to each part, in their order."""
        if self._parts == 1:
            yield 0, np.arange(len(ids))
            return
        names = ids if isinstance(ids, list) else ids.to_pylist()
        part_of = np.array([crc32(name.encode()) for name in names], np.int64) % self._parts
        order = np.argsort(part_of, kind="stable")
        ends = np.cumsum(np.bincount(part_of, minlength=self._parts))
        for part in np.unique(part_of).tolist():
            yield part, order[ends[part - 1] if part else 0 : ends[part]]

    def _write(self, part: int, are_events: bool, data: Any) -> None:
        self._pieces[part].append((are_events, self._file.seek(0, 2), len(data)))
        self._file.write(data)

    def parts(self) -> Iterator[tuple[list[Any], pa.Table]]:
        """The queries and the events of each part, as often as asked for."""
        self._flush()
        for pieces in self._pieces:
            queries: list[Any] = []
            events: list[pa.RecordBatch] = []
            for are_events, start, length in pieces:
                self._file.seek(start)
                data = self._file.read(length)
                if are_events:
                    events.append(pa.ipc.read_record_batch(pa.py_buffer(data), EVENTS))
                else:
                    queries.extend(marshal.loads(data))
            yield queries, pa.Table.from_batches(events, EVENTS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
