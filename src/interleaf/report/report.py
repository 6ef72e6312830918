"""The report that `analyze` returns, with methods that show it in all formats, and convert it to JSON and Arrow tables.

Every data frame library can read the Arrow tables. Each field of a record is a column.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, Self, get_origin, get_type_hints

import msgspec
import pyarrow as pa

from interleaf.errors import DataError, join_names
from interleaf.report import html, model, text
from interleaf.report.choice_result import EpochShare, RankerState
from interleaf.report.model import FAILED, OK, SKIPPED, WARNING, ReportData
from interleaf.stats.compare import Interval

FORMAT = 1  # raised when older readers would misread a report; they ignore unknown fields
_STATUSES = (OK, WARNING, FAILED, SKIPPED)
_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(), datetime: pa.timestamp("us", "UTC")}
_CODES = pa.list_(pa.string())
_REASONS = pa.map_(pa.string(), pa.string())
_hints = cache(get_type_hints)


class Report(ReportData):
    """The result of an analysis: `verdict` first, then `health`, `comparisons` and the rest; `print` shows it.

    A number that could not be computed is None, and the `reasons` beside it say why.
    """

    __str__ = text.to_text
    show = text.show
    to_markdown = text.to_markdown
    to_html = html.to_html
    _repr_html_ = html.to_notebook

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data: lists, dictionaries, text and numbers; times are ISO 8601."""
        return {"format": FORMAT, **_plain(self, "report")}

    def to_json(self, indent: int | None = None) -> str:
        """The report as JSON; `Report.from_dict(json.loads(...))` reads it back."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=indent)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Make a report from plain data; invalid data raises a DataError, unknown fields are ignored."""
        _check_format(data)
        try:
            report = msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            problem = str(error).replace("`$", "`report")
            raise DataError(f"this is not a stored report: {problem}; give what Report.to_dict() made") from None
        _plain(report, "report")  # raises an error for numbers that are not finite
        for check in report.health:
            if check.status not in _STATUSES:
                wrong = f"the check {check.name!r} has the status {check.status!r}"
                raise DataError(f"{wrong}; give {join_names(_STATUSES)}")
        return report

    def to_frame(self) -> pa.Table:
        """The comparisons as an Arrow table: a column per field; an interval is two columns, `_low` and `_high`."""
        return _table(model.Comparison, self.comparisons)

    def to_frames(self) -> dict[str, pa.Table]:
        """All tables as Arrow tables by name, also empty ones: `comparisons`, `health`, `arms` and others."""
        metrics = [(arm.name, metric) for arm in self.arms for metric in arm.metrics]
        pairs = [(segment, pair) for segment in self.segments for pair in segment.comparisons]
        return {
            "comparisons": self.to_frame(),
            "health": _table(model.Check, self.health),
            "strengths": _table(model.Strength, self.standing.strengths if self.standing is not None else ()),
            "guardrails": _table(model.Guardrail, self.guardrails),
            "arms": _table(model.ReportArm, self.arms),
            "metrics": _table(model.Metric, [metric for _, metric in metrics], arm=[arm for arm, _ in metrics]),
            "choice": _table(RankerState, self.choice.rankers if self.choice is not None else ()),
            "choice_shares": _table(EpochShare, self.choice.shares if self.choice is not None else ()),
            "slots": _table(model.Slot, self.slots),
            "neutrality": _table(model.Neutrality, self.neutrality),
            "lifts": _table(model.Lift, self.lifts),
            "examination": _table(model.Examination, self.examination),
            "over_time": _table(model.Point, self.over_time),
            "segments": _table(
                model.SegmentComparison,
                [pair for _, pair in pairs],
                attribute=[segment.attribute for segment, _ in pairs],
                value=[segment.value for segment, _ in pairs],
            ),
        }


def _check_format(data: Any) -> None:
    """Raise an error if this is no stored report, or one of a format that this version does not read."""
    version = data.get("format") if isinstance(data, Mapping) else None
    if type(version) is not int:
        raise DataError(
            "this is not a stored report, because it has no number 'format'; give what Report.to_dict() made"
        )
    if version != FORMAT:
        remedy = "update interleaf" if version > FORMAT else "analyze the log again with this version"
        raise DataError(f"this report has format {version}, and this version reads format {FORMAT}; {remedy}")


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


def _table(kind: type, rows: Iterable[Any], **before: list[str]) -> pa.Table:
    """Columns of text, then a column per field of the record; fields that hold records have a table of their own."""
    columns = {name: pa.array(values, pa.string()) for name, values in before.items()}
    for name, hint in _hints(kind).items():
        values, plain = [getattr(row, name) for row in rows], hint
        if isinstance(hint, UnionType):
            plain = hint.__args__[0]  # the other one is None
        if plain == Interval:
            for end, suffix in enumerate(("low", "high")):
                columns[f"{name}_{suffix}"] = pa.array([v if v is None else v[end] for v in values], pa.float64())
        elif plain == tuple[str, ...]:
            columns[name] = pa.array(values, _CODES)
        elif get_origin(plain) is Mapping:
            columns[name] = pa.array([list(value.items()) for value in values], _REASONS)
        elif plain in _TYPES:
            columns[name] = pa.array(values, _TYPES[plain])
    return pa.table(columns)
