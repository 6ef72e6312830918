"""Any log as one file of the native schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interleaf import schema
from interleaf.errors import DataError
from interleaf.log.reading import Reading, read
from interleaf.log.write import write_batches


def convert(source: Any, path: str | Path) -> Reading:
    """Write a log, such as the folder of a `LogWriter`, as one file; what is returned says what was left out.

    `source` as for `read`, `path` as for `write_batches`. Columns that the schema does not know are left behind.
    """
    reading = read(source, schema.SCHEMA.names)
    write_batches(path, _native(reading))
    return reading


def _native(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        arrays = [_column(batch, column) for column in schema.COLUMNS]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema.SCHEMA)


def _column(batch: pa.RecordBatch, column: schema.Column) -> pa.Array:
    place = batch.schema.get_field_index(column.name)
    if place < 0:
        return pa.nulls(batch.num_rows, column.type)
    found = batch.column(place)
    if found.null_count and not column.nullable:
        raise DataError(f"a row has no {column.name!r} ({column.meaning}); it may not be left out")
    try:
        return found.cast(options=pc.CastOptions(column.type, allow_time_truncate=True))
    except pa.ArrowException as problem:
        raise DataError(f"column {column.name!r} cannot be written as {column.type}: {problem}") from None
