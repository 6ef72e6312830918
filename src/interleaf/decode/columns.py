"""Arrow columns as flat arrays: offsets, values, and which rows are not null, without copying if types allow it.

Attributes split a report, rules exclude rows, and the query of each row is a number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.errors import DataError, did_you_mean, join_names
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import kernel
from interleaf.log.drop_reasons import DropReason

ABSENT = "(none)"
MAX_LENGTH = 100  # characters of a query that are shown
NO_QUERY = -1
_SHIFT = np.uint64(44)


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
    lists = ListColumn(_numbers(array.offsets), array.values, is_there(array))
    if np.diff(lists.offsets)[~lists.there].any():  # Arrow allows null rows with values; copy without them
        return list_column(array.take(pa.array(np.arange(len(array)))))
    return lists


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
    latencies = np.full((len(rows), rankers), np.nan, np.float32)
    if array is not None:
        offsets, values, _ = list_column(array)
        whole = np.flatnonzero(offsets[rows + 1] - offsets[rows] == rankers)
        places = offsets[rows[whole]][:, None] + np.arange(rankers)
        latencies[whole] = numbers(values, np.nan, pa.float32())[places]
    return latencies


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
    rank_numbers = np.full(inside.shape, -1, np.int32)
    rank_numbers[inside] = flat[(starts + positions)[inside]]
    return rank_numbers


def codes(array: pa.Array) -> tuple[Array, list[Any]]:
    """A number for each different value, -1 for null, and the values."""
    dictionary_array = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    try:
        return numbers(dictionary_array.indices, -1, pa.int32()), dictionary_array.dictionary.to_pylist()
    except UnicodeDecodeError as problem:
        raise DataError(f"the log holds text that is not UTF-8: {problem}; write it in UTF-8") from None


def _numbers(array: pa.Array) -> Array:
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return pc.cast(array, kind)
    except pa.ArrowException as problem:
        raise DataError(f"a column of type {array.type} holds what {kind} cannot: {problem}") from None


@dataclass(frozen=True)
class Exclusion:
    """Rows to exclude: by attribute values, by unit, or because their unit has too many impressions.

    `max_impressions` is the limit for a unit in the whole log, over all experiments; above it, the unit is a crawler.
    """

    attributes: Mapping[str, Collection[str]] = field(default_factory=dict)
    units: Collection[str] = ()
    max_impressions: int | None = None

    def __post_init__(self) -> None:
        for name, values in self.attributes.items():
            if isinstance(values, str):
                raise DataError(f"exclude {name!r} by a collection of values, such as [{values!r}], not by one text")
        if self.max_impressions is not None and self.max_impressions < 1:
            raise DataError(f"max_impressions is {self.max_impressions!r}; give a whole number from 1 up")

    def __bool__(self) -> bool:
        return bool(self.attributes or self.units or self.max_impressions is not None)


def attribute(batch: pa.RecordBatch, name: str) -> tuple[Array, list[str]]:
    """A number for each row's value of an attribute, and the values; rows without the attribute share a number."""
    array = column(batch, "attributes")
    if array is None:
        return np.zeros(batch.num_rows, np.int32), [ABSENT]
    keys, names = codes(array.keys)
    numbers, values = codes(array.items)
    row_values = np.full(batch.num_rows, len(values), np.int32)
    if name in names:
        _find(np.asarray(array.offsets), keys, numbers, names.index(name), row_values)
    row_values[row_values < 0] = len(values)
    return row_values, [*values, ABSENT]


def attribute_names(batch: pa.RecordBatch) -> frozenset[str]:
    """The names of all attributes that some row of the batch has."""
    array = column(batch, "attributes")
    return frozenset() if array is None else frozenset(codes(array.keys)[1])


def check_attributes(asked: Iterable[str], there: Collection[str]) -> None:
    """Raise an error for attributes that no row of a log has."""
    unknown = [name for name in dict.fromkeys(asked) if name not in there]
    if unknown:
        attributes = f"the log has {join_names(sorted(there)[:20])}" if there else "the log has none"
        hints = [f"no row has the attribute {name!r}{did_you_mean(name, there)}" for name in unknown]
        raise DataError(f"{' '.join(hints)} ({attributes})")


@kernel
def _find(offsets: Array, keys: Array, numbers: Array, wanted: int, found: Array) -> None:
    for row in range(len(found)):
        for place in range(offsets[row], offsets[row + 1]):
            if keys[place] == wanted:
                found[row] = numbers[place]


def excluded_rows(batch: pa.RecordBatch, unit: Array, exclusion: Exclusion, crawlers: Array) -> dict[str, Array]:
    """Which rows each rule excludes; `crawlers` are the sorted hashes of units with too many impressions."""
    rows_by_reason: dict[str, Array] = {}
    marked = column(batch, "excluded")
    if marked is not None and marked.null_count < len(marked):
        numbers, values = codes(marked)
        rows_by_reason |= {DropReason.EXCLUDED.of(value): numbers == number for number, value in enumerate(values)}
    for name, unwanted in exclusion.attributes.items():
        numbers, values = attribute(batch, name)
        for value in sorted(unwanted):
            if value in values:
                rows_by_reason[DropReason.EXCLUDED.of(f"{name} = {value}")] = numbers == values.index(value)
    units: list[Any] = [buckets.hash_of(buckets.UNIT, name) for name in exclusion.units]
    if units:
        rows_by_reason[DropReason.EXCLUDED.of("listed units")] = np.isin(unit, np.array(units, np.uint64))
    if len(crawlers):
        rule = f"units of more than {exclusion.max_impressions:,} impressions"
        rows_by_reason[DropReason.EXCLUDED.of(rule)] = np.isin(unit, crawlers)
    return rows_by_reason


def query_numbers(batch: pa.RecordBatch) -> Array:
    """The number of each row's query, -1 if it has none. One in a million pairs of queries share a number."""
    queries = column(batch, "query")
    if queries is None:
        return np.full(batch.num_rows, NO_QUERY, np.int64)
    names = text_column(queries)
    hashes = buckets.hashes(buckets.QUERY, names.offsets, names.data)
    return np.where(names.there, (hashes >> _SHIFT).astype(np.int64), NO_QUERY)


def query_text(batches: Iterable[pa.RecordBatch], number: int) -> str | None:
    """The text of the first query with this number, if there is one."""
    for batch in batches:
        rows = np.flatnonzero(query_numbers(batch) == number)
        if len(rows):
            text = batch.column("query").slice(int(rows[0]), 1).cast(pa.string()).cast(pa.binary())[0].as_py()
            return str(text.decode(errors="replace"))[:MAX_LENGTH]
    return None
