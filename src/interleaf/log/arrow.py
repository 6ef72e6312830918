"""Logs that are in memory, or stream from another library: anything that speaks Arrow, as record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from interleaf import schema
from interleaf.errors import DataError
from interleaf.log.normal import normal
from interleaf.log.projection import Projection, is_wanted

DEFAULTS = {name: pa.scalar(value, schema.SCHEMA.field(name).type) for name, value in schema.DEFAULTS.items()}


class Opened(NamedTuple):
    """A table, or a stream: its columns; how many rows it has, if it says; what is assumed to read it; and its batches,
    which are a list where they can be read more than once.
    """

    columns: list[str]
    rows: int | None
    assumptions: list[str]
    batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch]


def opened(source: Any) -> Opened:
    """A log that is in memory, or streams from another library, checked."""
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    room = type(source).__module__.partition(".")[0]
    if room == "pandas" and hasattr(source, "columns"):
        source = _of_pandas(source)
    elif room == "polars":
        source = source.collect() if hasattr(source, "collect") else source  # a lazy frame
        source = source.to_arrow() if hasattr(source, "to_arrow") else source
    if isinstance(source, pa.Table):
        return _opened(source.schema, source.num_rows, source.to_batches())
    if hasattr(source, "__arrow_c_stream__"):
        try:
            reader = pa.RecordBatchReader.from_stream(source)
        except pa.ArrowException as problem:
            raise DataError(
                f"{type(source).__name__} is no table ({problem}); give one with a row an impression"
            ) from None
        return _opened(reader.schema, None, _told(reader))
    if not isinstance(source, Iterable):
        raise DataError(
            f"cannot read a log from {type(source).__name__}; give paths, an Arrow table or stream, or record batches"
        )
    batches = each_checked(source)
    first = next(batches, None)
    if first is None:
        return Opened([], 0, [], iter(()))
    assumptions = schema.assumptions_of(first.schema)
    return Opened(_whole(first.schema).names, None, assumptions, chain([first], batches))


def _opened(found: pa.Schema, rows: int | None, batches: Any) -> Opened:
    return Opened(checked(found, "the given table").names, rows, schema.assumptions_of(found), batches)


def _of_pandas(frame: Any) -> pa.Table:
    """Where pandas holds lists and maps as Python's objects, their types are as they look, else as a log has them."""
    columns: dict[str, Any] = {}
    problems: list[str] = []
    for field in schema.SCHEMA:
        if field.name not in frame.columns:
            continue
        values = frame[field.name]
        if values.dtype == object and pa.types.is_map(field.type):
            values = [list(one.items()) if isinstance(one, dict) else one for one in values]
        try:
            columns[field.name] = _array(values, field.type)
        except (pa.ArrowException, TypeError, ValueError) as problem:
            problems.append(f"column {field.name!r} should be {field.type}: {problem}; correct its values")
    found = pa.table(columns)
    if problems:
        failed = [field for field in schema.SCHEMA if field.name in frame.columns and field.name not in columns]
        problems += schema.problems_of(_whole(pa.schema([*found.schema, *failed])))
    schema.refuse(problems, "the given data frame")
    return found


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, list):  # pairs
        return pa.array(values, kind, from_pandas=True)
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array(values, kind, from_pandas=True)


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
        problems = schema.problems_of(whole)
    except DataError as problem:
        raise DataError(f"{where}: {problem}") from None
    schema.refuse(problems, where)
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
        found = with_columns(normal(batch.select(places)), lacking)
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
