"""A report as plain data: it comes back as it went, whatever does not fit is refused, and it is all in the frame."""

import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from interleaf.errors import DataError
from interleaf.report.model import Comparison, Point
from interleaf.report.report import FORMAT, Report
from interleaf.stats.compare import Interval
from tests.support.report_examples import EXAMPLES, healthy, nothing_computed, with_cycle

numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)
intervals: st.SearchStrategy[Interval | None] = st.none() | st.tuples(st.floats(-1, 1), st.floats(-1, 1))


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_report_comes_back_from_json_as_it_went(name: str) -> None:
    report = EXAMPLES[name]
    assert Report.from_dict(json.loads(report.to_json())) == report
    assert Report.from_dict(report.to_dict()) == report
    assert json.loads(report.to_json(indent=2)) == report.to_dict()


@given(numbers, intervals, st.text(), st.dictionaries(st.text(), st.text()))
def test_any_figure_and_any_name_comes_back(
    value: float | None, interval: Interval | None, name: str, reasons: dict[str, str]
) -> None:
    pair = Comparison(name, "b", estimate=value, interval=interval, reasons=reasons)
    report = replace(healthy(), comparisons=(pair,), notes=(name,))
    assert Report.from_dict(json.loads(report.to_json())) == report


def test_times_are_iso_with_their_zone() -> None:
    zone = timezone(timedelta(hours=2))
    point = Point(datetime(2026, 11, 15, 12, tzinfo=zone), "a", "b", 1, None, None)
    report = replace(healthy(), over_time=(point,))
    assert report.to_dict()["over_time"][0]["time"] == "2026-11-15T12:00:00+02:00"
    assert Report.from_dict(report.to_dict()).over_time[0].time == datetime(2026, 11, 15, 10, tzinfo=UTC)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_none_is_refused_with_its_place(value: float) -> None:
    report = replace(healthy(), comparisons=(Comparison("a", "b", interval=(0.0, value)),))
    with pytest.raises(DataError, match=r"report.comparisons\[0\].interval\[1\] is -?(nan|inf)"):
        report.to_json()


def changed(path: list[Any], value: Any) -> dict[str, Any]:
    """The healthy report's data with one thing in it replaced."""
    data: Any = healthy().to_dict()
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return dict(data)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (["version"], "2", r"Expected `int`, got `str` - at `report.version`"),
        (["version"], True, r"Expected `int`, got `bool` - at `report.version`"),
        (["confidence"], "high", r"Expected `float`, got `str` - at `report.confidence`"),
        (["confidence"], float("nan"), r"report.confidence is nan"),
        (["confidence"], 10**400, r"report.confidence"),
        (["comparisons", 0, "interval"], [0.1], r"length 2, got 1 - at `report.comparisons\[0\].interval`"),
        (["comparisons", 0, "first"], None, r"Expected `str`, got `null` - at `report.comparisons\[0\].first`"),
        (["totals"], {"impressions": 1}, r"missing required field `clicked` - at `report.totals`"),
        (["totals", "since"], "yesterday", r"Invalid RFC3339 encoded datetime - at `report.totals.since`"),
        (["totals", "dropped"], {"late": "many"}, r"Expected `int`, got `str` - at `report.totals.dropped"),
        (["rankers"], "ab", r"Expected `array`, got `str` - at `report.rankers`"),
        (["verdict"], None, r"Expected `object`, got `null` - at `report.verdict`"),
        (["health", 0, "status"], "fine", r"the check 'first pick' has the status 'fine'; give 'ok'"),
        (["format"], 2, r"this report has format 2, and this version reads format 1; update interleaf"),
        (["format"], 0, r"this report has format 0, and this version reads format 1; analyze the log again"),
        (["format"], "1", r"no number 'format'"),
    ],
)
def test_what_is_no_report_is_refused_with_its_place(path: list[Any], value: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        Report.from_dict(changed(path, value))


def test_fields_of_a_later_version_are_ignored() -> None:
    data = healthy().to_dict() | {"mood": "good"}
    data["comparisons"][0]["winner"] = "a"
    data["health"][0]["severity"] = 3
    data["totals"]["seen"] = {"by": ["all"]}
    assert Report.from_dict(data) == healthy()


@pytest.mark.parametrize("data", [None, [], "report", {}])
def test_what_is_no_stored_report_at_all_is_refused(data: Any) -> None:
    with pytest.raises(DataError, match=r"this is not a stored report, because it has no number 'format'"):
        Report.from_dict(data)


def test_what_has_a_default_may_be_left_out_and_whole_numbers_are_numbers() -> None:
    data = with_cycle().to_dict()
    for name in ("notes", "segments", "standing"):
        del data[name]
    data["confidence"] = 1
    report = Report.from_dict(data)
    assert (report.notes, report.segments, report.standing) == ((), (), None)
    assert type(report.confidence) is float
    assert data["format"] == FORMAT


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_frame_has_a_row_a_comparison_and_every_field(name: str) -> None:
    report = EXAMPLES[name]
    frame = report.to_frame()
    assert frame.num_rows == len(report.comparisons)
    for row, pair in zip(frame.to_pylist(maps_as_pydicts="strict"), report.comparisons, strict=True):
        for field in fields(pair):
            value = getattr(pair, field.name)
            if f"{field.name}_low" in row:
                assert (row[f"{field.name}_low"], row[f"{field.name}_high"]) == (value or (None, None))
            else:
                assert row[field.name] == (list(value) if isinstance(value, tuple) else value)


def test_columns_of_the_frame_have_their_types_where_nothing_was_computed() -> None:
    full, empty = healthy().to_frame().schema, nothing_computed().to_frame().schema
    assert full.equals(empty)
    assert empty.field("estimate").type == pa.float64()
    assert empty.field("wins").type == pa.int64()
    assert replace(healthy(), comparisons=()).to_frame().schema.equals(full)
