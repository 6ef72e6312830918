"""A report as plain data: a dictionary, JSON, and back."""

from __future__ import annotations

import json
import math
import sys
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from interleaf.errors import DataError, listed
from interleaf.report.model import FAILED, OK, SKIPPED, WARNING, Findings

FORMAT = 1  # raised when a stored report can no longer be read as it is
_STATUSES = (OK, WARNING, FAILED, SKIPPED)
_hints = cache(get_type_hints)  # a report may hold a thousand comparisons


def to_dict(report: Findings) -> dict[str, Any]:
    """The report as plain data: lists, dictionaries, text and numbers; times are ISO 8601."""
    plain: dict[str, Any] = _plain(report, "report")
    return {"format": FORMAT, **plain}


def to_json(report: Findings, indent: int | None = None) -> str:
    """The report as JSON; `from_dict(json.loads(...))` reads it back."""
    return json.dumps(to_dict(report), allow_nan=False, indent=indent)


def from_dict(data: Mapping[str, Any]) -> Findings:
    """A report from its plain data; every name, type and status is checked."""
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, Mapping) else data
        raise DataError(f"a stored report says 'format': {FORMAT}, not {found!r}; give what Report.to_dict() made")
    report: Findings = _read(Findings, {name: value for name, value in data.items() if name != "format"}, "report")
    for check in report.health:
        if check.status not in _STATUSES:
            raise DataError(f"the check {check.name!r} has the status {check.status!r}; give {listed(_STATUSES)}")
    return report


def _plain(value: Any, where: str) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name), f"{where}.{field.name}") for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(inner, f"{where}[{name!r}]") for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(inner, f"{where}[{number}]") for number, inner in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"{where} is {value}; what cannot be computed is None, with a reason")
    return value.isoformat() if isinstance(value, datetime) else value


def _read(kind: Any, value: Any, where: str) -> Any:
    """A value of the type that the record names, or a DataError that says where it is not."""
    if value is None and type(None) in get_args(kind):
        return None
    kind = without_none(kind)
    if is_dataclass(kind):
        return _read_record(kind, value, where)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(value, list):
        kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        if len(kinds) == len(value):
            return tuple(
                _read(k, v, f"{where}[{number}]") for number, (k, v) in enumerate(zip(kinds, value, strict=True))
            )
    elif origin is Mapping and isinstance(value, Mapping):
        return {_read(inner[0], k, where): _read(inner[1], v, f"{where}[{k!r}]") for k, v in value.items()}
    elif origin is None:
        return _read_scalar(kind, value, where)
    raise DataError(f"{where} is {value!r}, not {_named(kind)}")


def _read_record(kind: Any, value: Any, where: str) -> Any:
    hints = _hints(kind)
    if not isinstance(value, Mapping):
        raise DataError(f"{where} is {value!r}, not the fields of a {kind.__name__}")
    for name in value:
        if name not in hints:
            raise DataError(f"{where} has the unknown field {name!r}; a {kind.__name__} has {', '.join(hints)}")
    for field in fields(kind):
        if field.name not in value and field.default is MISSING and field.default_factory is MISSING:
            raise DataError(f"{where} has no field {field.name!r}; give what Report.to_dict() made")
    return kind(**{name: _read(hints[name], inner, f"{where}.{name}") for name, inner in value.items()})


def _read_scalar(kind: type, value: Any, where: str) -> Any:
    if kind is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:  # JSON writes 1.0 as 1, too
        return float(value)
    if kind is datetime and isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            raise DataError(f"{where} is {value!r}, not an ISO 8601 time") from None
    if kind is not float and type(value) is kind:
        return value
    raise DataError(f"{where} is {value!r}, not {_named(kind)}")


def without_none(kind: Any) -> Any:
    """The type of a field, where there is a value."""
    if get_origin(kind) in (Union, types.UnionType):
        return next(inner for inner in get_args(kind) if inner is not type(None))
    return kind


def _named(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind)) if get_origin(kind) is None else str(kind).replace("typing.", "")
