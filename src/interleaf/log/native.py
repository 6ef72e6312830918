"""Any log as one file of the native schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interleaf import schema
from interleaf.errors import DataError
from interleaf.log.normal import NOT_ISO
from interleaf.log.reading import Reading, read
from interleaf.log.write import write_batches


def convert(source: Any, path: str | Path) -> Reading:
    """Write a log, such as the folder of a `LogWriter`, as one file; what is returned says what was left out.

    `source` as for `read`, `path` as for `write_batches`. Columns that the schema does not know are left behind.
    """
    reading = read(source, schema.SCHEMA.names)
    write_batches(path, _native(reading, f"{source}: " if isinstance(source, (str, PathLike)) else ""))
    return reading


def _native(batches: Iterable[pa.RecordBatch], where: str) -> Iterator[pa.RecordBatch]:
    before = 0
    for batch in batches:
        try:
            arrays = [_column(batch, column) for column in schema.COLUMNS]
        except _RowError as problem:
            raise DataError(f"{where}row {before + problem.row + 1:,}: {problem}") from None
        yield pa.RecordBatch.from_arrays(arrays, schema=schema.SCHEMA)
        before += batch.num_rows


class _RowError(Exception):
    """What is wrong with a row of a batch."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(problem)
        self.row = row


def _column(batch: pa.RecordBatch, column: schema.Column) -> pa.Array:
    place = batch.schema.get_field_index(column.name)
    if place < 0:
        return pa.nulls(batch.num_rows, column.type)
    found = batch.column(place)
    if found.null_count and not column.nullable:
        row = found.is_null().index(pa.scalar(True)).as_py()
        if text := (batch.schema.metadata or {}).get(NOT_ISO.get(column.name, b"")):
            problem = f"{text.decode()} is no time in ISO 8601; write it such as {schema.TIME_EXAMPLE}"
            raise _RowError(row, f"column {column.name!r}: {problem}")
        raise _RowError(row, f"there is no {column.name!r} ({column.meaning}); it may not be left out")
    try:
        return _cast(found, column)
    except pa.ArrowException as problem:
        row = next(row for row in range(len(found)) if not _is_castable(found.slice(row, 1), column))
        raise _RowError(row, f"column {column.name!r} cannot be written as {column.type}: {problem}") from None


def _cast(found: pa.Array, column: schema.Column) -> pa.Array:
    return found.cast(options=pc.CastOptions(column.type, allow_time_truncate=True))


def _is_castable(found: pa.Array, column: schema.Column) -> bool:
    try:
        _cast(found.take(pa.array([0])), column)
        return True
    except pa.ArrowException:
        return False
