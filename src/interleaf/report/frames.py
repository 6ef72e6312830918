"""A report's tables as Arrow tables, which every data frame library can read. Each field of a record is a column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, get_origin, get_type_hints

import pyarrow as pa

from interleaf.report import model
from interleaf.report.choice_result import EpochShare, RankerState
from interleaf.report.model import ReportData
from interleaf.stats.compare import Interval

_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(), datetime: pa.timestamp("us", "UTC")}
_CODES = pa.list_(pa.string())
_REASONS = pa.map_(pa.string(), pa.string())
_hints = cache(get_type_hints)


def to_frame(report: ReportData) -> pa.Table:
    """The comparisons as an Arrow table: a column per field; an interval is two columns, `_low` and `_high`."""
    return _table(model.Comparison, report.comparisons)


def to_frames(report: ReportData) -> dict[str, pa.Table]:
    """All tables as Arrow tables by name, also empty ones: `comparisons`, `health`, `arms`, `metrics` and others."""
    metrics = [(arm.name, metric) for arm in report.arms for metric in arm.metrics]
    pairs = [(segment, pair) for segment in report.segments for pair in segment.comparisons]
    return {
        "comparisons": to_frame(report),
        "health": _table(model.Check, report.health),
        "strengths": _table(model.Strength, report.standing.strengths if report.standing is not None else ()),
        "guardrails": _table(model.Guardrail, report.guardrails),
        "arms": _table(model.ReportArm, report.arms),
        "metrics": _table(model.Metric, [metric for _, metric in metrics], arm=[arm for arm, _ in metrics]),
        "choice": _table(RankerState, report.choice.rankers if report.choice is not None else ()),
        "choice_shares": _table(EpochShare, report.choice.shares if report.choice is not None else ()),
        "slots": _table(model.Slot, report.slots),
        "neutrality": _table(model.Neutrality, report.neutrality),
        "lifts": _table(model.Lift, report.lifts),
        "examination": _table(model.Examination, report.examination),
        "over_time": _table(model.Point, report.over_time),
        "segments": _table(
            model.SegmentComparison,
            [pair for _, pair in pairs],
            attribute=[segment.attribute for segment, _ in pairs],
            value=[segment.value for segment, _ in pairs],
        ),
    }


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
