"""A report's tables in Arrow, which data frames of every library are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, get_origin, get_type_hints

import pyarrow as pa

from interleaf.report.json_format import without_none
from interleaf.report.model import (
    Arm,
    Check,
    Comparison,
    Findings,
    Interval,
    Metric,
    Neutrality,
    Point,
    Segment,
    SegmentComparison,
    Slot,
    Strength,
)

_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(), datetime: pa.timestamp("us", "UTC")}
_REASONS = pa.map_(pa.string(), pa.string())
_hints = cache(get_type_hints)


def to_frame(report: Findings) -> pa.Table:
    """A row a comparison, a column a field; an interval is two columns, `_low` and `_high`."""
    return pa.table(_columns(Comparison, report.comparisons))


def to_frames(report: Findings) -> dict[str, pa.Table]:
    """All tables of a report by name, those that it has no rows for too."""
    metrics = [(arm.name, metric) for arm in report.arms for metric in arm.metrics]
    pairs = [(segment, pair) for segment in report.segments for pair in segment.comparisons]
    segments = [segment for segment, _ in pairs]
    strengths = report.standing.strengths if report.standing is not None else ()
    tables = {
        "comparisons": _columns(Comparison, report.comparisons),
        "health": _columns(Check, report.health),
        "strengths": _columns(Strength, strengths),
        "arms": _columns(Arm, report.arms),
        "metrics": {"arm": pa.array([arm for arm, _ in metrics], pa.string())}
        | _columns(Metric, [metric for _, metric in metrics]),
        "slots": _columns(Slot, report.slots),
        "neutrality": _columns(Neutrality, report.neutrality),
        "over_time": _columns(Point, report.over_time),
        "segments": _columns(Segment, segments, ("attribute", "value"))
        | _columns(SegmentComparison, [pair for _, pair in pairs]),
    }
    return {name: pa.table(columns) for name, columns in tables.items()}


def _columns(kind: type, rows: Sequence[Any], names: Sequence[str] = ()) -> dict[str, pa.Array]:
    """A column a field of the record; fields that hold records have a table of their own."""
    columns: dict[str, pa.Array] = {}
    for name, hint in _hints(kind).items():
        values, plain = [getattr(row, name) for row in rows], without_none(hint)
        if names and name not in names:
            continue
        if plain == Interval:
            for end, suffix in enumerate(("low", "high")):
                columns[f"{name}_{suffix}"] = pa.array([v if v is None else v[end] for v in values], pa.float64())
        elif get_origin(plain) is Mapping:
            columns[name] = pa.array([list(value.items()) for value in values], _REASONS)
        elif plain in _TYPES:
            columns[name] = pa.array(values, _TYPES[plain])
    return columns
