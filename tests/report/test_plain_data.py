"""A report as plain data: it comes back as it went, whatever does not fit is refused, and it is all in the frame."""

import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interleaf.errors import DataError
from interleaf.report.frames import to_frame
from interleaf.report.json_format import FORMAT, from_dict, to_dict, to_json
from interleaf.report.model import Comparison, Interval, Point
from tests.support.report_examples import EXAMPLES, healthy, nothing_computed, with_cycle

numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)
intervals: st.SearchStrategy[Interval | None] = st.none() | st.tuples(st.floats(-1, 1), st.floats(-1, 1))


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_report_comes_back_from_json_as_it_went(name: str) -> None:
    report = EXAMPLES[name]
    assert from_dict(json.loads(to_json(report))) == report
    assert from_dict(to_dict(report)) == report
    assert json.loads(to_json(report, indent=2)) == to_dict(report)


@given(numbers, intervals, st.text(), st.dictionaries(st.text(), st.text()))
def test_any_figure_and_any_name_comes_back(
    value: float | None, interval: Interval | None, name: str, reasons: dict[str, str]
) -> None:
    pair = Comparison(name, "b", estimate=value, interval=interval, reasons=reasons)
    report = replace(healthy(), comparisons=(pair,), notes=(name,))
    assert from_dict(json.loads(to_json(report))) == report


def test_times_are_iso_with_their_zone() -> None:
    zone = timezone(timedelta(hours=2))
    point = Point(datetime(2026, 11, 15, 12, tzinfo=zone), "a", "b", 1, None, None)
    report = replace(healthy(), over_time=(point,))
    assert to_dict(report)["over_time"][0]["time"] == "2026-11-15T12:00:00+02:00"
    assert from_dict(to_dict(report)).over_time[0].time == datetime(2026, 11, 15, 10, tzinfo=UTC)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_none_is_refused_with_its_place(value: float) -> None:
    report = replace(healthy(), comparisons=(Comparison("a", "b", interval=(0.0, value)),))
    with pytest.raises(DataError, match=r"report.comparisons\[0\].interval\[1\] is -?(nan|inf)"):
        to_json(report)


def changed(path: list[Any], value: Any) -> dict[str, Any]:
    """The healthy report's data with one thing in it replaced."""
    data: Any = to_dict(healthy())
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return dict(data)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (["version"], "2", r"report.version is '2', not int"),
        (["version"], True, r"report.version is True, not int"),
        (["confidence"], "high", r"report.confidence is 'high', not float"),
        (["confidence"], float("nan"), r"report.confidence is nan, not float"),
        (["confidence"], 10**400, r"report.confidence is 1000"),
        (["comparisons", 0, "interval"], [0.1], r"report.comparisons\[0\].interval is \[0.1\]"),
        (["comparisons", 0, "first"], None, r"report.comparisons\[0\].first is None, not str"),
        (["comparisons", 0, "winner"], "a", r"report.comparisons\[0\] has the unknown field 'winner'; a Comparison"),
        (["totals"], {"impressions": 1}, r"report.totals has no field 'clicked'"),
        (["totals", "since"], "yesterday", r"report.totals.since is 'yesterday', not an ISO 8601 time"),
        (["totals", "dropped"], {"late": "many"}, r"report.totals.dropped\['late'\] is 'many', not int"),
        (["rankers"], "ab", r"report.rankers is 'ab'"),
        (["verdict"], None, r"report.verdict is None, not the fields of a Verdict"),
        (["health", 0, "status"], "fine", r"the check 'first pick' has the status 'fine'; give 'ok'"),
        (["format"], 2, r"'format': 1, not 2"),
    ],
)
def test_what_is_no_report_is_refused_with_its_place(path: list[Any], value: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        from_dict(changed(path, value))


@pytest.mark.parametrize("data", [None, [], "report", {}])
def test_what_is_no_stored_report_at_all_is_refused(data: Any) -> None:
    with pytest.raises(DataError, match=r"'format': 1"):
        from_dict(data)


def test_what_has_a_default_may_be_left_out_and_whole_numbers_are_numbers() -> None:
    data = to_dict(with_cycle())
    for name in ("notes", "segments", "standing"):
        del data[name]
    data["confidence"] = 1
    report = from_dict(data)
    assert (report.notes, report.segments, report.standing) == ((), (), None)
    assert type(report.confidence) is float
    assert data["format"] == FORMAT


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_frame_has_a_row_a_comparison_and_every_field(name: str) -> None:
    report = EXAMPLES[name]
    frame = to_frame(report)
    assert frame.num_rows == len(report.comparisons)
    for row, pair in zip(frame.to_pylist(maps_as_pydicts="strict"), report.comparisons, strict=True):
        for field in fields(pair):
            value = getattr(pair, field.name)
            if f"{field.name}_low" in row:
                assert (row[f"{field.name}_low"], row[f"{field.name}_high"]) == (value or (None, None))
            else:
                assert row[field.name] == value


def test_columns_of_the_frame_have_their_types_where_nothing_was_computed() -> None:
    full, empty = to_frame(healthy()).schema, to_frame(nothing_computed()).schema
    assert full.equals(empty)
    assert empty.field("estimate").type == pa.float64()
    assert empty.field("wins").type == pa.int64()
    assert to_frame(replace(healthy(), comparisons=())).schema.equals(full)
