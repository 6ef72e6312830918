"""Columns of other tools in the types that a log has: attributes as a map, ids as texts, times in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf import schema

_PAIR = [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())]
# In the metadata of a batch: the first text of a column that should be a time, and is none.
NOT_ISO = {"time": b"interleaf.not_iso.time", "events": b"interleaf.not_iso.events"}
_ZONE = r"(Z|z|[+-]\d\d(:?\d\d)?)$"


def normal(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch as a log has it; nothing is copied where types are right."""
    batch = _with_maps(batch)
    for name in schema.IDS:
        batch = _changed(batch, name, _with_text_ids)
    before = batch
    batch = _changed(_changed(batch, "time", _in_utc), "events", _with_times)
    examples = {key: text for name, key in NOT_ISO.items() if (text := _not_iso(before, batch, name)) is not None}
    return batch.replace_schema_metadata((batch.schema.metadata or {}) | examples) if examples else batch


def _not_iso(before: pa.RecordBatch, after: pa.RecordBatch, name: str) -> bytes | None:
    """The first text of a column that is no time, where there is one."""
    place = before.schema.get_field_index(name)
    if place < 0 or before.schema.field(place).type == after.schema.field(place).type:
        return None
    texts, times = (_times_in(batch.column(place)) for batch in (before, after))
    if texts.null_count == times.null_count or not schema.is_string(texts.type):
        return None
    lost = texts.filter(pc.and_(texts.is_valid(), times.is_null()))
    return f"{lost[0].as_py()[:100]!r}".encode() if len(lost) else None


def _times_in(column: pa.Array) -> pa.Array:
    """The times of a column, or of the events in it; a dictionary is written out."""
    times = pc.list_flatten(column).field("time") if pa.types.is_nested(column.type) else column
    return times.dictionary_decode() if pa.types.is_dictionary(times.type) else times


def _changed(batch: pa.RecordBatch, name: str, change: Any) -> pa.RecordBatch:
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


def _in_utc(times: pa.Array) -> pa.Array:
    """Times of any zone; without one they are taken for UTC. What is no time is null."""
    kind = times.type.value_type if pa.types.is_dictionary(times.type) else times.type
    if schema.is_string(kind):
        return _of_texts(times.cast(pa.string()))
    is_ready = not pa.types.is_timestamp(kind) or kind.tz == "UTC"
    return times if is_ready else times.cast(pa.timestamp(kind.unit, "UTC"))


def _of_texts(texts: pa.Array) -> pa.Array:
    """ISO 8601: the usual forms by Arrow, which knows few; others one by one."""
    has_zone = pc.fill_null(pc.match_substring_regex(texts, _ZONE), True)
    try:
        return pc.if_else(has_zone, texts, pc.binary_join_element_wise(texts, "Z", "")).cast(schema.TIME)
    except pa.ArrowInvalid:
        return pa.array(map(_moment, texts.to_pylist()), schema.TIME)


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
    if place < 0 or (_in_utc(empty := pa.array([], events.type.value_type.field(place).type)) is empty):
        return events
    events = events.cast(pa.large_list(events.type.value_type)).take(pa.array(np.arange(len(events))))
    values = events.values
    columns = [values.field(number) for number in range(values.type.num_fields)]
    columns[place] = _in_utc(columns[place])
    inner = pa.StructArray.from_arrays(columns, [field.name for field in values.type], mask=values.is_null())
    return pa.LargeListArray.from_arrays(events.offsets, inner, mask=events.is_null())


def _with_maps(batch: pa.RecordBatch) -> pa.RecordBatch:
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
