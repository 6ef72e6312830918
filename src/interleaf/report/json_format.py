"""Converts a report to a dictionary or JSON, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from interleaf.errors import DataError, join_names
from interleaf.report.model import FAILED, OK, SKIPPED, WARNING, ReportData

FORMAT = 1  # raised when older readers would misread a report; they ignore unknown fields
_STATUSES = (OK, WARNING, FAILED, SKIPPED)

Kind = TypeVar("Kind", bound=ReportData)


def to_dict(report: ReportData) -> dict[str, Any]:
    """The report as plain data: lists, dictionaries, text and numbers; times are ISO 8601."""
    return {"format": FORMAT, **_plain(report, "report")}


def to_json(report: ReportData, indent: int | None = None) -> str:
    """The report as JSON; `Report.from_dict(json.loads(...))` reads it back."""
    return json.dumps(to_dict(report), allow_nan=False, indent=indent)


def from_dict(data: Mapping[str, Any], kind: type[Kind]) -> Kind:
    """A report from its plain data. Types and statuses are checked; unknown fields, of a later version, are ignored."""
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        version = data.get("format") if isinstance(data, Mapping) else data
        raise DataError(f"a stored report says 'format': {FORMAT}, not {version!r}; give what Report.to_dict() made")
    try:
        report = msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        problem = str(error).replace("`$", "`report")
        raise DataError(f"this is not a stored report: {problem}; give what Report.to_dict() made") from None
    _plain(report, "report")  # raises an error for numbers that are not finite
    for check in report.health:
        if check.status not in _STATUSES:
            raise DataError(f"the check {check.name!r} has the status {check.status!r}; give {join_names(_STATUSES)}")
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
