"""Checks values of columns, and converts them to the form that Arrow takes.

Rows made in Python, lines read from JSON and impressions that are written pass the same checks, which follow from the
types in `schema.COLUMNS`. Document ids may be integers, and become text. Times must have a zone, and become UTC; only
`READ_RULES`, for values that are read, accept times without a zone, as UTC.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from itertools import chain
from reprlib import repr as short
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.interleaving.rankings import text_id
from interleaf.log import schema

Check = Callable[[Any], Any]  # returns the converted value, or raises a ValueError

ASSUMED_UTC = timezone(timedelta(0), "assumed UTC")  # for times that were read without a zone
GAPS = ("latency", "captions", "characters", "grades")  # lists that may hold nulls
_MAX_FLOAT = {pa.float32(): float(np.finfo(np.float32).max), pa.float64(): float(np.finfo(np.float64).max)}


class ColumnRule(NamedTuple):
    """The check of one value of a type, and a fast test whether many values are valid and need no conversion.

    The fast test may fail for valid values; then each value is checked. Without one, each value is always checked.
    """

    check: Check
    all_ready: Callable[[list[Any]], bool] = operator.not_


def _rule_for(kind: pa.DataType, ids: bool = False, gaps: bool = False, times: Check | None = None) -> ColumnRule:
    if pa.types.is_list(kind):
        return _lists_of(_rule_for(kind.value_type, ids, times=times), gaps)
    if pa.types.is_struct(kind):
        return ColumnRule(_object_of(kind, times))
    if pa.types.is_integer(kind):
        end = 2 ** (kind.bit_width - 1)
        return _whole_numbers(-end, end - 1)
    if pa.types.is_floating(kind):
        return ColumnRule(_number(_MAX_FLOAT[kind]))
    if pa.types.is_string(kind):
        return ColumnRule(_document if ids else _text, lambda values: set(map(type, values)) <= {str})
    return ColumnRule({schema.TIME: times or _time, pa.bool_(): _flag, pa.map_(pa.string(), pa.string()): _pairs}[kind])


def _lists_of(item: ColumnRule, gaps: bool) -> ColumnRule:
    def check(value: Any) -> list[Any]:
        values = value if type(value) is list else _list(value)
        if item.all_ready(values):
            return values
        return [None if inner is None and gaps else item.check(inner) for inner in values]

    def all_ready(values: list[Any]) -> bool:
        return set(map(type, values)) <= {list} and item.all_ready(list(chain.from_iterable(values)))

    return ColumnRule(check, all_ready)


def _list(value: Any) -> list[Any]:
    if isinstance(value, (str, bytes)):
        raise ValueError(f"{short(value)} is one text; give a list")
    if isinstance(value, np.ndarray):
        return value.tolist()  # type: ignore[no-any-return]
    if not isinstance(value, Sequence):
        raise ValueError(f"{short(value)} is not a list")
    return list(value)


def _object_of(kind: pa.DataType, times: Check | None = None) -> Check:
    fields = [(field.name, _rule_for(field.type, times=times).check, field.nullable) for field in kind]

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError(f"{short(value)} is not an object with {', '.join(name for name, _, _ in fields)}")
        prepared = {}
        for name, inner, nullable in fields:
            if value.get(name) is not None:
                prepared[name] = of_field(name, inner, value[name])
            elif not nullable:
                raise ValueError(f"{short(dict(value))} has no {name!r}")
        return prepared

    return check


class FieldError(ValueError):
    """The value of a field is wrong."""

    def __init__(self, field: str, problem: ValueError) -> None:
        super().__init__(f"{field!r}: {problem}")
        self.field = field


def of_field(name: str, check: Check, value: Any) -> Any:
    """Check and convert the value of a field; an error names the field."""
    try:
        return check(value)
    except ValueError as problem:
        raise FieldError(name, problem) from None


def _whole_numbers(minimum: int, maximum: int) -> ColumnRule:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise ValueError(f"{short(value)} is not a whole number")
        if not minimum <= value <= maximum:
            raise ValueError(f"{short(value)} is out of range; give a whole number from {minimum} to {maximum}")
        return int(value)

    def all_ready(values: list[Any]) -> bool:
        return not values or (set(map(type, values)) == {int} and minimum <= min(values) and max(values) <= maximum)

    return ColumnRule(check, all_ready)


def _number(maximum: float) -> Check:
    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise ValueError(f"{short(value)} is not a number")
        if not (-maximum <= value <= maximum or value != value):
            raise ValueError(f"{short(value)} is out of range; give a number from {-maximum:g} to {maximum:g}")
        return float(value)

    return check


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{short(value)} is not a text")
    return value


def _document(value: Any) -> str:
    text = text_id(value)
    return _text(value) if text is None else text


def _flag(value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{short(value)} is neither true nor false")
    return bool(value)


def _time(value: Any) -> datetime:
    if not isinstance(value, (str, datetime)):
        raise ValueError(f"{short(value)} is not a time; give a datetime or ISO 8601 text")
    moment = _of_text(value) if isinstance(value, str) else value
    if moment.tzinfo is UTC:
        return moment
    if moment.utcoffset() is None:
        raise ValueError(f"the time {value!r} does not say its zone; give it one, such as UTC")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"the time {value!r} is out of range") from None


def _of_text(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{short(text)} is not a time in ISO 8601; write it such as {schema.TIME_EXAMPLE}") from None


def _time_or_naive(value: Any) -> datetime:
    """Check a time that is read; without a zone, it is read as UTC."""
    if isinstance(value, str):
        value = _of_text(value)
    if isinstance(value, datetime) and value.utcoffset() is None:
        return value.replace(tzinfo=ASSUMED_UTC)
    return _time(value)


def _pairs(value: Any) -> list[tuple[str, str]]:
    """Pairs of names and texts, as Arrow takes a map; a name without a text is left out."""
    if isinstance(value, (str, bytes)) or not isinstance(value, (Mapping, Sequence)):
        raise ValueError(f"{short(value)} is not an object of names and texts")
    try:
        pairs = list(value.items() if isinstance(value, Mapping) else value)
        return [(_text(name), _text(text)) for name, text in pairs if text is not None]
    except TypeError:
        raise ValueError(f"{short(value)} is not a list of pairs of a name and a text") from None


def _rules(times: Check) -> dict[str, ColumnRule]:
    return {
        column.name: _rule_for(column.type, column.name in schema.IDS, column.name in GAPS, times)
        for column in schema.COLUMNS
    }


_EVENT = schema.SCHEMA.field("events").type.value_type
RULES, READ_RULES = _rules(_time), _rules(_time_or_naive)
EVENT_CHECK, READ_EVENT_CHECK = _object_of(_EVENT), _object_of(_EVENT, _time_or_naive)
