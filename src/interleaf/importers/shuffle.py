"""Queries and events on disk, partitioned by a hash of the query id, so that each partition fits into memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import Self
from zlib import crc32

import numpy as np
import pyarrow as pa

from interleaf.importers.ubi_records import EVENTS, QUERIES, concat

PART = 32 * 2**20  # bytes of input text per partition
ROOM = 32 * 2**20  # bytes of records that are buffered in memory


class ShuffleFile:
    """A temporary file, with the positions of the pieces of each partition; memory does not grow with its size.

    Records are batches of `QUERIES` or of `EVENTS`. Each partition keeps their order.

    >>> with ShuffleFile(size=0) as shuffle:
    ...     shuffle.add(pa.RecordBatch.from_pylist([{"query_id": "q-1"}, {"query_id": "q-2"}], QUERIES))
    ...     [queries["query_id"].to_pylist() for queries, events in shuffle.parts()]
    [['q-1', 'q-2']]
    """

    def __init__(self, size: int) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  it is closed at the end of the import
        self._pieces: list[list[tuple[pa.Schema, int, int]]] = [[] for _ in range(1 + size // PART)]
        self._waiting: dict[pa.Schema, list[pa.RecordBatch]] = {QUERIES: [], EVENTS: []}
        self._held = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add records."""
        self._waiting[batch.schema].append(batch)
        self._held += batch.nbytes
        if self._held >= ROOM and len(self._pieces) > 1:
            self._flush()

    def _flush(self) -> None:
        for schema, batches in self._waiting.items():
            for part, some in self._split(concat(batches, schema)):
                data = some.serialize()
                self._pieces[part].append((schema, self._file.seek(0, 2), len(data)))
                self._file.write(data)
            batches.clear()
        self._held = 0

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The records of each partition, in order."""
        encoded = batch.column("query_id").dictionary_encode()
        hashes = np.array([crc32(name) for name in encoded.dictionary.cast(pa.binary()).to_pylist()], np.int64)
        part_of = hashes[np.asarray(encoded.indices)] % len(self._pieces)
        ends = np.cumsum(np.bincount(part_of, minlength=len(self._pieces)))
        sorted_batch = batch.take(pa.array(np.argsort(part_of, kind="stable")))
        for part in np.unique(part_of).tolist():
            start = int(ends[part - 1]) if part else 0
            yield part, sorted_batch.slice(start, int(ends[part]) - start)

    def parts(self) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """The queries and events of each partition; can be called repeatedly."""
        if len(self._pieces) == 1:
            yield tuple(concat(batches, schema) for schema, batches in self._waiting.items())
            return
        self._flush()
        for pieces in self._pieces:
            batches: dict[pa.Schema, list[pa.RecordBatch]] = {QUERIES: [], EVENTS: []}
            for schema, start, length in pieces:
                self._file.seek(start)
                batches[schema].append(pa.ipc.read_record_batch(pa.py_buffer(self._file.read(length)), schema))
            yield concat(batches[QUERIES], QUERIES), concat(batches[EVENTS], EVENTS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
