"""Reads Arrow tables, streams and data frames, checks their columns, and converts their types to those of a log.

Attributes become a map, ids become text, and times become UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.errors import DataError
from interleaf.log import schema
from interleaf.log.schema import Projection, is_wanted

_PAIR = [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())]
# In the metadata of a batch: the first text of a column that should be a time but is not.
NOT_ISO = {"time": b"interleaf.not_iso.time", "events": b"interleaf.not_iso.events"}
ZONE = r"(Z|z|[+-]\d\d(:?\d\d)?)$"


def normalise(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with the types of a log; columns that have the right type are not copied."""
    batch = _with_maps(batch)
    for name in schema.IDS:
        batch = _change_column(batch, name, _with_text_ids)
    before = batch
    batch = _change_column(_change_column(batch, "time", in_utc), "events", _with_times)
    examples = {key: text for name, key in NOT_ISO.items() if (text := _not_iso(before, batch, name)) is not None}
    return batch.replace_schema_metadata((batch.schema.metadata or {}) | examples) if examples else batch


def _not_iso(before: pa.RecordBatch, after: pa.RecordBatch, name: str) -> bytes | None:
    """The first text of a column that is not a time, if there is one."""
    place = before.schema.get_field_index(name)
    if place < 0 or before.schema.field(place).type == after.schema.field(place).type:
        return None
    texts, times = (_times_in(batch.column(place)) for batch in (before, after))
    if texts.null_count == times.null_count or not schema.is_string(texts.type):
        return None
    lost = texts.filter(pc.and_(texts.is_valid(), times.is_null()))
    return f"{lost[0].as_py()[:100]!r}".encode() if len(lost) else None


def _times_in(column: pa.Array) -> pa.Array:
    """The times of a column, or of the events in it; a dictionary is decoded."""
    times = pc.list_flatten(column).field("time") if pa.types.is_nested(column.type) else column
    return times.dictionary_decode() if pa.types.is_dictionary(times.type) else times


def _change_column(batch: pa.RecordBatch, name: str, change: Any) -> pa.RecordBatch:
    place = batch.schema.get_field_index(name)
    if place < 0:
        return batch
    before = batch.column(place)
    after = change(before)
    return batch if after is before else batch.set_column(place, name, after)


def _with_text_ids(lists: pa.Array) -> pa.Array:
    kind, wanted = lists.type, pa.string()
    while pa.types.is_nested(kind):
        kind, wanted = kind.value_type, pa.list_(wanted)
    return lists.cast(wanted) if pa.types.is_integer(kind) else lists


def in_utc(times: pa.Array) -> pa.Array:
    """Times in UTC; times without a zone are read as UTC. A text that is not a time becomes null."""
    kind = times.type.value_type if pa.types.is_dictionary(times.type) else times.type
    if schema.is_string(kind):
        texts = times.cast(pa.string())
        has_zone = pc.fill_null(pc.match_substring_regex(texts, ZONE), True)
        try:
            return pc.if_else(has_zone, texts, pc.binary_join_element_wise(texts, "Z", "")).cast(schema.TIME)
        except pa.ArrowInvalid:  # Arrow parses the usual forms of ISO 8601; others are parsed one by one
            return pa.array(map(_moment, texts.to_pylist()), schema.TIME)
    is_ready = not pa.types.is_timestamp(kind) or kind.tz == "UTC"
    return times if is_ready else times.cast(pa.timestamp(kind.unit, "UTC"))


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text or "")
        return moment.replace(tzinfo=UTC) if moment.utcoffset() is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _with_times(events: pa.Array) -> pa.Array:
    """Events with their times in UTC."""
    if not hasattr(events.type, "value_type") or not pa.types.is_struct(events.type.value_type):
        return events
    place = events.type.value_type.get_field_index("time")
    if place < 0 or (in_utc(empty := pa.array([], events.type.value_type.field(place).type)) is empty):
        return events
    events = events.cast(pa.large_list(events.type.value_type)).take(pa.array(np.arange(len(events))))
    values = events.values
    columns = [values.field(number) for number in range(values.type.num_fields)]
    columns[place] = in_utc(columns[place])
    inner = pa.StructArray.from_arrays(columns, [field.name for field in values.type], mask=values.is_null())
    return pa.LargeListArray.from_arrays(events.offsets, inner, mask=events.is_null())


def _with_maps(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Attributes as a map.

    Libraries without maps write a list of objects with a key and a value, or one object with a field for every key.
    """
    place = batch.schema.get_field_index("attributes")
    if place < 0 or not pa.types.is_nested(kind := batch.schema.field(place).type) or pa.types.is_map(kind):
        return batch
    if pa.types.is_struct(kind):
        return batch.set_column(place, "attributes", _map_of(batch.column(place)))
    pairs = batch.column(place).cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))
    inner = pa.StructArray.from_arrays([pairs.values.field("key"), pairs.values.field("value")], fields=_PAIR)
    # Arrow stores a map like a list of pairs, so the buffers of the list can be used.
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


DEFAULTS = {name: pa.scalar(value, schema.SCHEMA.field(name).type) for name, value in schema.DEFAULTS.items()}


OpenedTable = tuple[list[str], int | None, list[str], Iterator[pa.RecordBatch] | list[pa.RecordBatch]]


def open_table(source: Any) -> OpenedTable:
    """Open a log in memory, or a stream from another library, and check its schema.

    Returns its columns, its number of rows if known, the assumptions made to read it, and its batches: a list if they
    can be read more than once.
    """
    source = table_of_frame(source, _of_pandas)
    if isinstance(source, pa.Table):
        names = check_schema(source.schema, "the given table").names
        return names, source.num_rows, schema.assumptions_of(source.schema), source.to_batches()
    kind = type(source).__name__
    if hasattr(source, "__arrow_c_stream__"):
        try:
            reader = pa.RecordBatchReader.from_stream(source)
        except pa.ArrowException as problem:
            raise DataError(f"{kind} is not a table ({problem}); give one with one row per impression") from None
        names = check_schema(reader.schema, "the given table").names
        return names, None, schema.assumptions_of(reader.schema), _stream(reader)
    if not isinstance(source, Iterable):
        raise DataError(f"cannot read a log from {kind}; give paths, an Arrow table or stream, or record batches")
    batches = check_batches(source)
    first = next(batches, None)
    if first is None:
        return [], 0, [], iter(())
    return _whole(first.schema).names, None, schema.assumptions_of(first.schema), chain([first], batches)


def table_of_frame(source: Any, of_pandas: Callable[[Any], pa.Table]) -> Any:
    """The Arrow table of a data frame of pandas or polars, or of a record batch; another source as it is."""
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    room = type(source).__module__.partition(".")[0]
    if room == "pandas" and hasattr(source, "columns"):
        return of_pandas(source)
    if room == "polars":
        source = source.collect() if hasattr(source, "collect") else source  # a lazy frame
        return source.to_arrow() if hasattr(source, "to_arrow") else source
    return source


def _of_pandas(frame: Any) -> pa.Table:
    """A table from pandas. Lists and maps that are Python objects get inferred types, or else the types of a log."""
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
    table = pa.table(columns)
    if problems:
        failed = [field for field in schema.SCHEMA if field.name in frame.columns and field.name not in columns]
        problems += schema.problems_of(_whole(pa.schema([*table.schema, *failed])))
    schema.refuse(problems, "the given data frame")
    return table


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, list):  # pairs
        return pa.array(values, kind, from_pandas=True)
    try:
        array = pa.array(values, from_pandas=True)
        # In pandas, whole numbers with gaps are floats.
        return array.cast(kind) if pa.types.is_integer(kind) and pa.types.is_floating(array.type) else array
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array(values, kind, from_pandas=True)


def check_batches(source: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    """Check that each record batch has the schema of a log."""
    last = None
    for number, batch in enumerate(source, 1):
        if not isinstance(batch, pa.RecordBatch):
            raise DataError(f"item {number} of the log is of type {type(batch).__name__}; give record batches")
        if last is None or not batch.schema.equals(last, check_metadata=True):
            check_schema(batch.schema, f"batch {number}")
            last = batch.schema
        yield batch


def _stream(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except (pa.ArrowException, OSError) as problem:
        raise DataError(f"the given stream broke off: {problem}") from None


def check_schema(columns: pa.Schema, where: str) -> pa.Schema:
    """Check the schema of a log, and add the columns that have a default; errors begin with `where`."""
    whole = _whole(columns)
    schema.refuse(schema.problems_of(whole), where)
    return whole


def _whole(columns: pa.Schema) -> pa.Schema:
    lacking = [schema.SCHEMA.field(name) for name in DEFAULTS if name not in columns.names]
    return pa.schema([*columns, *lacking], columns.metadata)


def cut_batches(batches: Iterable[pa.RecordBatch], projection: Projection, batch_size: int) -> Iterator[pa.RecordBatch]:
    """The wanted columns, in batches of at most `batch_size` rows; nothing is copied."""
    for batch in batches:
        names = projection.select([name for name in batch.schema.names if not batch.column(name).null_count])
        places = [place for place, name in enumerate(batch.schema.names) if is_wanted(name, names)]
        whole = with_defaults(normalise(batch.select(places)), DEFAULTS, names)
        for start in range(0, batch.num_rows, batch_size):
            yield whole.slice(start, batch_size)


def gather_batches(batches: Iterable[pa.RecordBatch], max_rows: int) -> Iterator[pa.RecordBatch]:
    """Combine small batches into larger ones, of at most `max_rows` rows."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if waiting and sum(map(len, waiting)) + len(batch) > max_rows:
            yield from _as_one(waiting)
            waiting = []
        waiting.append(batch)
    yield from _as_one(waiting)


def _as_one(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2 or not batches[0].num_columns:
        return batches
    return pa.Table.from_batches(batches).combine_chunks().to_batches()  # type: ignore[no-any-return]


def with_defaults(batch: pa.RecordBatch, defaults: dict[str, pa.Scalar], names: schema.Wanted) -> pa.RecordBatch:
    """The batch with the wanted columns that it lacks, each with one value for all rows."""
    for name, value in defaults.items():
        if name not in batch.schema.names and is_wanted(name, names):
            batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
    return batch
