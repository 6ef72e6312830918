"""Arrow columns as flat arrays: offsets, values, and which rows are not null, without copying if types allow it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array


class ListColumn(NamedTuple):
    """A column of lists: row i holds values[offsets[i]:offsets[i + 1]], unless it is null."""

    offsets: Array
    values: pa.Array
    there: Array


class TextColumn(NamedTuple):
    """A column of texts: text i is data[offsets[i]:offsets[i + 1]] in UTF-8, unless it is null."""

    offsets: Array
    data: Array
    there: Array


def column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """The column, or None if it is missing or holds only nulls."""
    place = batch.schema.get_field_index(name)
    if place < 0 or batch.column(place).null_count == batch.num_rows:
        return None
    return batch.column(place)


def is_there(array: pa.Array) -> Array:
    """Which rows are not null."""
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def list_column(array: pa.Array) -> ListColumn:
    """A list column of any width; null rows become empty lists."""
    kind = array.type
    if pa.types.is_null(kind):
        return ListColumn(np.zeros(len(array) + 1, np.int32), pa.nulls(0), np.zeros(len(array), np.bool_))
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        array = _cast(array, pa.large_list(kind.value_type))
    found = ListColumn(_numbers(array.offsets), array.values, is_there(array))
    if np.diff(found.offsets)[~found.there].any():  # Arrow allows null rows with values; copy without them
        return list_column(array.take(pa.array(np.arange(len(array)))))
    return found


def text_column(array: pa.Array) -> TextColumn:
    """A string column; a dictionary is decoded."""
    array = _cast(array, pa.string()) if not pa.types.is_string(array.type) else array
    _, offsets, data = array.buffers()
    size = len(array)
    if size == 0 or offsets is None:
        return TextColumn(np.zeros(size + 1, np.int32), np.zeros(0, np.uint8), is_there(array))
    marks = np.frombuffer(offsets, np.int32, size + 1, array.offset * 4)
    return TextColumn(marks, np.frombuffer(data or b"", np.uint8), is_there(array))


def numbers(array: pa.Array, missing: Any, kind: pa.DataType | None = None) -> Array:
    """Numbers with `missing` for null, in the given type, or else in their own type, but signed."""
    if pa.types.is_unsigned_integer(array.type):
        kind = kind or pa.int64()
    if kind is not None and array.type != kind:
        array = _cast(array, kind)
    return _numbers(array.fill_null(missing) if array.null_count else array)


def microseconds(array: pa.Array) -> Array:
    """Times as microseconds since 1970, rounded down; null rows are 0."""
    kind = pa.timestamp("us", "UTC")
    if array.type != kind:
        array = pc.cast(array, kind, safe=array.type != pa.timestamp("ns", "UTC"))
    return numbers(array.view(pa.int64()), 0)


def milliseconds(array: pa.Array | None, rows: Array, rankers: int) -> Array:
    """Latencies `[row, ranker]`, nan if a row does not have one for each ranker."""
    found = np.full((len(rows), rankers), np.nan, np.float32)
    if array is not None:
        offsets, values, _ = list_column(array)
        whole = np.flatnonzero(offsets[rows + 1] - offsets[rows] == rankers)
        places = offsets[rows[whole]][:, None] + np.arange(rankers)
        found[whole] = numbers(values, np.nan, pa.float32())[places]
    return found


def by_position(array: pa.Array | None, rows: Array, counts: Array) -> Array:
    """Numbers of the shown documents `[row, position]`, -1 where they are missing or a row does not have one for each;
    without positions if there is no column.
    """
    if array is None:
        return np.zeros((len(rows), 0), np.int32)
    offsets, values, _ = list_column(array)
    flat, positions = numbers(values, -1, pa.int32()), np.arange(counts.max(initial=0))
    starts, sizes = offsets[rows][:, None], (offsets[rows + 1] - offsets[rows])[:, None]
    inside = (positions < sizes) & (sizes == counts[:, None])
    found = np.full(inside.shape, -1, np.int32)
    found[inside] = flat[(starts + positions)[inside]]
    return found


def codes(array: pa.Array) -> tuple[Array, list[Any]]:
    """A number for each different value, -1 for null, and the values."""
    found = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    try:
        return numbers(found.indices, -1, pa.int32()), found.dictionary.to_pylist()
    except UnicodeDecodeError as problem:
        raise DataError(f"the log holds text that is not UTF-8: {problem}; write it in UTF-8") from None


def _numbers(array: pa.Array) -> Array:
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return pc.cast(array, kind)
    except pa.ArrowException as problem:
        raise DataError(f"a column of type {array.type} holds what {kind} cannot: {problem}") from None
