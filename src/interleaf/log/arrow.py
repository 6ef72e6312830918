"""Logs that are in memory, or stream from another library: anything that speaks Arrow, as record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from interleaf import schema
from interleaf.errors import DataError
from interleaf.log.projection import Projection, is_wanted

DEFAULTS = {name: pa.scalar(value, schema.SCHEMA.field(name).type) for name, value in schema.DEFAULTS.items()}
_PAIR = [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())]


def opened(source: Any) -> tuple[list[str], int | None, Iterator[pa.RecordBatch]]:
    """The columns of a table, a stream or an iterator of record batches; how many rows it has, if it says; and it."""
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    room = type(source).__module__.partition(".")[0]
    if room == "pandas" and hasattr(source, "columns"):
        source = _of_pandas(source)
    elif room == "polars" and hasattr(source, "collect"):  # a lazy frame
        source = source.collect()
    if hasattr(source, "__arrow_c_stream__"):
        try:
            reader = pa.RecordBatchReader.from_stream(source)
        except pa.ArrowException as problem:
            raise DataError(
                f"{type(source).__name__} is no table ({problem}); give one with a row an impression"
            ) from None
        rows = source.num_rows if isinstance(source, pa.Table) else None
        return checked(reader.schema, "the given table").names, rows, _told(reader)
    if not isinstance(source, Iterable):
        raise DataError(
            f"cannot read a log from {type(source).__name__}; give paths, an Arrow table or stream, or record batches"
        )
    batches = each_checked(source)
    first = next(batches, None)
    return ([], 0, iter(())) if first is None else (_whole(first.schema).names, None, chain([first], batches))


def _of_pandas(frame: Any) -> pa.Table:
    """Where pandas holds lists and maps as Python's objects, their types are a log's, not what they look like."""
    columns: dict[str, Any] = {}
    for field in schema.SCHEMA:
        if field.name not in frame.columns:
            continue
        values = frame[field.name]
        kind = field.type if values.dtype == object else None
        try:
            if kind is not None and pa.types.is_map(kind):
                values = [list(one.items()) if isinstance(one, dict) else one for one in values]
            columns[field.name] = pa.array(values, kind, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError) as problem:
            raise DataError(
                f"the given data frame: column {field.name!r} should be {field.type}: {problem}; mend its values"
            ) from None
    return pa.table(columns)


def each_checked(source: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    """Record batches that others made, each if it has the schema of a log."""
    known = None
    for number, batch in enumerate(source):
        if not isinstance(batch, pa.RecordBatch):
            raise DataError(f"item {number + 1} of the log is of type {type(batch).__name__}; give record batches")
        if known is None or not batch.schema.equals(known, check_metadata=True):
            checked(batch.schema, f"batch {number + 1}")
            known = batch.schema
        yield batch


def _told(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except (pa.ArrowException, OSError) as problem:
        raise DataError(f"the given stream broke off: {problem}") from None


def checked(found: pa.Schema, where: str) -> pa.Schema:
    """The schema, if it is one of a log, with the columns that have a default; the error says whose it is."""
    whole = _whole(found)
    try:
        schema.validate(whole)
    except DataError as problem:
        raise DataError(f"{where}: {problem}") from None
    return whole


def _whole(found: pa.Schema) -> pa.Schema:
    lacking = [schema.SCHEMA.field(name) for name in DEFAULTS if name not in found.names]
    return pa.schema([*found, *lacking], found.metadata)


def cut(batches: Iterable[pa.RecordBatch], projection: Projection, batch_size: int) -> Iterator[pa.RecordBatch]:
    """The wanted columns, in batches of at most so many rows; nothing is copied."""
    for batch in batches:
        names = projection.wanted([name for name in batch.schema.names if not batch.column(name).null_count])
        places = [place for place, name in enumerate(batch.schema.names) if is_wanted(name, names)]
        lacking = {
            name: DEFAULTS[name] for name in DEFAULTS if name not in batch.schema.names and is_wanted(name, names)
        }
        found = with_columns(with_maps(batch.select(places)), lacking)
        for start in range(0, batch.num_rows, batch_size):
            yield found.slice(start, batch_size)


def gathered(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """Small batches as larger ones, of at most so many rows."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if waiting and sum(map(len, waiting)) + len(batch) > most:
            yield from _as_one(waiting)
            waiting = []
        waiting.append(batch)
    yield from _as_one(waiting)


def _as_one(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2 or not batches[0].num_columns:
        return batches
    return pa.Table.from_batches(batches).combine_chunks().to_batches()  # type: ignore[no-any-return]


def with_columns(batch: pa.RecordBatch, added: dict[str, pa.Scalar]) -> pa.RecordBatch:
    """The batch with columns that are the same in every row."""
    for name, value in added.items():
        batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
    return batch


def with_maps(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Attributes as a map, also from libraries without maps.

    To them it is a list of objects with a key and a value, or one object with a field for every key.
    """
    place = batch.schema.get_field_index("attributes")
    if place < 0 or not pa.types.is_nested(kind := batch.schema.field(place).type) or pa.types.is_map(kind):
        return batch
    if pa.types.is_struct(kind):
        return batch.set_column(place, "attributes", _map_of(batch.column(place)))
    pairs = batch.column(place).cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))
    inner = pa.StructArray.from_arrays([pairs.values.field("key"), pairs.values.field("value")], fields=_PAIR)
    # A map is laid out like a list of pairs, so its parts are the list's.
    parts = pa.map_(pa.string(), pa.string()), len(pairs), pairs.buffers()[:2], pairs.null_count, pairs.offset
    return batch.set_column(place, "attributes", pa.Array.from_buffers(*parts, [inner]))


def _map_of(objects: pa.StructArray) -> pa.MapArray:
    """The fields that are not null, by name: a struct has all fields in every row."""
    fields = [field.cast(pa.string()) for field in objects.flatten()]
    is_there = np.zeros((len(objects), len(fields)), np.bool_)
    for place, field in enumerate(fields):
        is_there[:, place] = field.is_valid()
    rows, places = np.nonzero(is_there)
    keys = pa.array([field.name for field in objects.type], pa.string()).take(pa.array(places))
    values = pa.concat_arrays([pa.nulls(0, pa.string()), *fields]).take(pa.array(places * len(objects) + rows))
    ends = np.cumsum(is_there.sum(axis=1))
    return pa.MapArray.from_arrays(pa.array(np.append(0, ends), pa.int32()), keys, values)
