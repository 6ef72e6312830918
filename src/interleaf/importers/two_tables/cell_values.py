"""Converts the cells of a column to a type of the log. A cell that cannot be converted is marked, and null.

Warehouses write lists as lists or as JSON text, ids as numbers or texts, and times as timestamps, ISO 8601, numbers
since 1970, or with " UTC" at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.interleaving.rankings import text_id
from interleaf.kernels.arrays import Array
from interleaf.log import schema
from interleaf.log.arrow import ZONE, in_utc
from interleaf.log.validation import READ_RULES

NUMERIC_TIMES = "times that are numbers are read as time since 1970, in seconds, milli-, micro- or nanoseconds by size"
_EPOCH = r"^\d{9,18}(\.\d+)?$"  # a number of seconds or smaller units since 1970, as text


class Cells(NamedTuple):
    """Converted cells, a mark for each one that could not be converted, and assumptions that were made."""

    values: pa.Array
    wrong: Array
    assumptions: frozenset[str] = frozenset()


def convert(values: pa.Array, name: str, kind: pa.DataType) -> Cells:
    """The cells of a column as this type; `name` is the column of the log whose rule holds for nested values."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pa.types.is_null(values.type):
        return _right(pa.nulls(len(values), kind))
    if kind == schema.TIME:
        return _times(values)
    if pa.types.is_nested(kind):
        return _read_nested(values, kind, READ_RULES[name].check)
    return _texts(values) if pa.types.is_string(kind) else _simple(values, kind)


def _right(values: pa.Array, assumptions: frozenset[str] = frozenset()) -> Cells:
    return Cells(values, np.zeros(len(values), np.bool_), assumptions)


def _texts(values: pa.Array) -> Cells:
    """Ids and names as text; numbers as their digits: 12.0, as libraries write integers beside nulls, is '12'."""
    if pa.types.is_floating(values.type):
        whole = pc.if_else(pc.equal(pc.floor(values), values), values, None)
        texts = whole.cast(pa.int64(), safe=False).cast(pa.string())
        return _check(values, pc.coalesce(texts, values.cast(pa.string())))
    if pa.types.is_nested(values.type):
        return Cells(pa.nulls(len(values), pa.string()), np.asarray(values.is_valid()))
    try:
        return _right(values.cast(pa.string()))
    except pa.ArrowException:
        return each(values, lambda value: value.decode() if isinstance(value, bytes) else str(value), pa.string())


def _check(before: pa.Array, after: pa.Array, assumptions: frozenset[str] = frozenset()) -> Cells:
    """Cells of which those are wrong that became null."""
    wrong = pc.and_(before.is_valid(), after.is_null())
    return Cells(after, np.asarray(wrong), assumptions)


def _simple(values: pa.Array, kind: pa.DataType) -> Cells:
    """Numbers and flags."""
    try:
        return _right(values.cast(kind))
    except pa.ArrowException:
        return each(values, lambda value: pa.scalar(_number(value, kind), kind).as_py(), kind)


def _number(value: Any, kind: pa.DataType) -> Any:
    """A number or a flag, such as 2 from '2.0'."""
    if pa.types.is_boolean(kind):
        return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}[str(value).lower()]
    number = float(value)
    if not pa.types.is_integer(kind):
        return number
    if not number.is_integer():
        raise ValueError
    return int(value) if isinstance(value, str) and value.lstrip("-").isdecimal() else int(number)


def each(values: pa.Array, make: Callable[[Any], Any], kind: pa.DataType) -> Cells:
    """The cells converted one by one."""
    cells: list[Any] = [None] * len(values)
    wrong = np.zeros(len(values), np.bool_)
    for place, value in enumerate(values.to_pylist()):
        if value is None:
            continue
        try:
            cells[place] = make(value)
        except (
            ValueError,
            TypeError,
            KeyError,
            OverflowError,
            RecursionError,
            pa.ArrowException,
            msgspec.MsgspecError,
        ):
            wrong[place] = True
    return Cells(pa.array(cells, kind), wrong)


def each_json(values: pa.Array, make: Callable[[Any], Any], kind: pa.DataType) -> Cells:
    """The cells of a column of JSON text, converted one by one; `null` is null."""

    def of_text(text: str) -> Any:
        value = msgspec.json.decode(text)
        return None if value is None else make(value)

    return each(values, of_text, kind)


def _times(values: pa.Array) -> Cells:
    """Times in UTC."""
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _since_1970(values)
    if schema.is_string(kind):
        texts = pc.utf8_trim_whitespace(values.cast(pa.string()))
        is_number = pc.fill_null(pc.match_substring_regex(texts, _EPOCH), False)
        if pc.any(is_number).as_py():
            numbers = _since_1970(pc.if_else(is_number, texts, None))
            rest = _times_of_text(pc.if_else(is_number, None, texts))
            merged = pc.coalesce(numbers.values, rest.values)
            return Cells(merged, numbers.wrong | rest.wrong, numbers.assumptions | rest.assumptions)
        return _times_of_text(texts)
    try:
        times = values.cast(pa.timestamp("us")) if pa.types.is_date(kind) else values
        is_naive = pa.types.is_timestamp(times.type) and times.type.tz is None
        options = pc.CastOptions(schema.TIME, allow_time_truncate=True)
        return _right(in_utc(times).cast(options=options), frozenset({schema.NAIVE_TIMES} if is_naive else ()))
    except pa.ArrowException:
        return Cells(pa.nulls(len(values), schema.TIME), np.asarray(values.is_valid()))


def _times_of_text(texts: pa.Array) -> Cells:
    """Times from text in ISO 8601, also with a space or UTC before the zone, as warehouses export them."""
    texts = pc.replace_substring_regex(texts, r"\s+(?:UTC|Z)$", "Z")
    texts = pc.replace_substring_regex(texts, r"\s+([+-]\d\d:?\d\d)$", r"\1")
    times = in_utc(texts).cast(schema.TIME)
    has_zone = pc.match_substring_regex(texts, ZONE)
    is_naive = pc.any(pc.and_(times.is_valid(), pc.invert(has_zone))).as_py()
    return _check(texts, times, frozenset({schema.NAIVE_TIMES} if is_naive else ()))


def _since_1970(values: pa.Array) -> Cells:
    """Times from numbers: below 10^11 seconds, then milli-, micro- and nanoseconds, each up to 1,000 times as large."""
    originals, numbers = values, np.asarray(pc.fill_null(values.cast(pa.float64(), safe=False), 0.0))
    is_time = np.abs(numbers) < 2**63  # neither infinite nor NaN
    fraction = np.where(is_time, numbers, 0.0) % 1
    if schema.is_string(values.type):
        values = pc.replace_substring_regex(values, r"\..*$", "")
    has_fraction = pa.types.is_floating(values.type) or pa.types.is_decimal(values.type)
    rounded = pc.floor(values) if has_fraction else values
    whole = np.asarray(pc.fill_null(rounded.cast(pa.int64(), safe=False), 0))
    micros = np.select(
        [np.abs(whole) < 10**11, np.abs(whole) < 10**14, np.abs(whole) < 10**17],
        [whole * 10**6 + np.rint(fraction * 10**6).astype(np.int64), whole * 1000, whole],
        whole // 1000,
    )
    times = pa.array(micros, pa.int64(), mask=np.asarray(values.is_null()) | ~is_time).cast(schema.TIME)
    return _check(originals, times, frozenset({NUMERIC_TIMES} if values.null_count < len(values) else ()))


def _read_nested(values: pa.Array, kind: pa.DataType, check: Callable[[Any], Any]) -> Cells:
    """Lists and objects: as they are, or from JSON text."""
    if schema.is_string(values.type):
        return each_json(values, check, kind)
    if not pa.types.is_map(kind):
        try:
            return _right(values.cast(kind))
        except pa.ArrowException:
            pass
    return each(values, lambda value: check(dict(value) if pa.types.is_map(kind) else value), kind)


ENTRY = pa.struct([("document", pa.string()), ("owner", pa.string()), ("rank", pa.int64())])


def entries_of(values: pa.Array, name_of: Callable[[str], str | None]) -> Cells:
    """A column of lists as lists of `ENTRY`: the items are ids, or objects with the fields of a result.

    `name_of` says which field of an entry a key of an object is.
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if schema.is_string(values.type):
        plain = _plain_lists(values)
        if plain is None:
            return each_json(values, lambda items: [_entry(item, name_of) for item in _items(items)], pa.list_(ENTRY))
        values = plain
    if pa.types.is_null(values.type):
        return _right(pa.nulls(len(values), pa.list_(ENTRY)))
    if not hasattr(values.type, "value_type") or pa.types.is_map(values.type):
        return Cells(pa.nulls(len(values), pa.list_(ENTRY)), np.asarray(values.is_valid()))
    lists = values.cast(pa.list_(values.type.value_type))
    inner = lists.flatten()
    columns = {"document": inner}
    if pa.types.is_struct(inner.type):
        columns = {field: inner.field(at.name) for at in inner.type if (field := name_of(at.name))}
    parts = [
        convert(columns[field.name], field.name, field.type).values
        if field.name in columns
        else pa.nulls(len(inner), field.type)
        for field in ENTRY
    ]
    sizes = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    offsets = pa.array(np.append(0, np.cumsum(sizes)), pa.int32(), mask=np.append(np.asarray(lists.is_null()), False))
    return _right(pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(parts, fields=list(ENTRY))))


_decode_texts = msgspec.json.Decoder(list[str] | None).decode


def _plain_lists(texts: pa.Array) -> pa.Array | None:
    """Lists of texts from JSON, which is fast; None if a cell is anything else."""
    try:
        lists = [None if text is None else _decode_texts(text) for text in texts.to_pylist()]
    except msgspec.MsgspecError:
        return None
    return pa.array(lists, pa.list_(pa.string()))


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _entry(item: Any, name_of: Callable[[str], str | None]) -> dict[str, Any]:
    """An item of a JSON list as an entry."""
    if not isinstance(item, dict):
        return {"document": _id(item)}
    values = {field: value for key, value in item.items() if (field := name_of(key))}
    rank = values.get("rank")
    texts = {field: _id(values[field]) for field in ("document", "owner") if field in values}
    return texts | ({} if rank is None else {"rank": int(rank)})


def _id(value: Any) -> str | None:
    text = text_id(value)
    if value is not None and text is None:
        raise TypeError
    return text
