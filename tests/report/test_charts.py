"""Charts of a report: their rows are the report's own numbers, and their drawings escape every name."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any
from xml.etree import ElementTree

import altair
import pytest

from interleaf import plots
from interleaf.report import charts
from interleaf.report.format import Names
from interleaf.report.model import Comparison, Point, ReportData, Slot, Standing, Strength
from tests.support.report_examples import (
    EXAMPLES,
    SCRIPT,
    SINCE,
    healthy,
    hostile,
    nothing_computed,
    very_many,
    with_cycle,
)


def rows_of(make: Any, report: ReportData) -> list[dict[str, Any]]:
    return list(make(report, Names(report.rankers)))


def three() -> ReportData:
    """Three rankers, one pair undecided, one without an interval, one even."""
    pairs = (
        Comparison("a", "b", 0.2, 0.05, (0.1, 0.3), 0.01, 0.04, wins=60, ties=5, losses=35),
        Comparison("a", "c", -0.1, 0.1, (-0.3, 0.1), adjusted_p_value=0.06, wins=0, ties=0, losses=0),
        Comparison("b", "c", 0.0, 0.1),
    )
    strengths = (Strength("a", 1, 0.3, (0.1, 0.5)), Strength("c", 0, 0.1), Strength("b", -1))
    return replace(healthy(), rankers=("a", "b", "c"), comparisons=pairs, standing=Standing("a", strengths, ()))


def test_the_forest_has_every_pair_with_its_interval() -> None:
    first, second, third = rows_of(charts.forest_rows, three())
    assert first == {
        "label": "a\nover b", "second": "b", "estimate": 0.2, "preferred": charts.FIRST,
        "low": 0.1, "high": 0.3,
    }  # fmt: skip
    assert (second["preferred"], second["low"]) == (charts.NEITHER, -0.3)
    assert (third["preferred"], third["low"]) == (charts.NEITHER, None)
    lost = replace(three().comparisons[0], interval=(-0.3, -0.1))
    assert rows_of(charts.forest_rows, replace(three(), comparisons=(lost,)))[0]["preferred"] == charts.SECOND


def test_rows_over_one_control_are_named_by_the_candidate_alone() -> None:
    report = healthy()
    assert [row["label"] for row in rows_of(charts.forest_rows, report)] == ["candidate"]
    assert charts.charts(report)["comparisons"][0].title == "Which ranker people prefer, over production"
    assert charts.charts(three())["comparisons"][0].title == "Which ranker people prefer"


def test_wins_ties_and_losses_are_three_parts_in_order_and_slivers_have_no_number() -> None:
    rows = rows_of(charts.outcome_rows, three())
    assert [(row["outcome"], row["number"], row["written"], row["place"]) for row in rows] == [
        ("wins of the first", 60, "60", 0),
        ("ties", 5, "", 1),
        ("wins of the second", 35, "35", 2),
    ]


def test_the_matrix_has_both_directions_in_the_order_of_the_standing() -> None:
    rows = rows_of(charts.matrix_rows, three())
    cells = {(row["row"], row["column"]): (row["estimate"], row["strength"], row["written"]) for row in rows}
    assert list(cells) == [("a", "c"), ("a", "b"), ("c", "a"), ("c", "b"), ("b", "a"), ("b", "c")]
    assert cells["a", "b"] == (0.2, 0.2, "+0.200 ▲")
    assert cells["b", "a"] == (-0.2, 0.2, "-0.200 ▼")
    assert cells["a", "c"] == (-0.1, 0.1, "-0.100")
    assert {row["better"] for row in rows} == {*charts.MATRIX, None}
    assert rows_of(charts.matrix_rows, healthy()) == []


def test_a_large_matrix_has_marks_only() -> None:
    sure = [
        replace(pair, interval=(pair.estimate or 0.0,) * 2) if abs(pair.estimate or 0.0) > 0.05 else pair
        for pair in very_many().comparisons
    ]
    rows = rows_of(charts.matrix_rows, replace(very_many(), comparisons=tuple(sure)))
    assert len(rows) == 40 * 39
    assert {row["written"] for row in rows} == {"▲", "▼", ""}


def test_the_marks_of_the_matrix_are_those_of_the_intervals() -> None:
    pairs = three().comparisons
    undecided = (replace(pairs[0], interval=(-0.1, 0.5)), *pairs[1:])
    for comparisons, marked in ((undecided, 0), (pairs, 2)):
        rows = rows_of(charts.matrix_rows, replace(three(), comparisons=comparisons))
        assert sum(row["written"].endswith(("▲", "▼")) for row in rows) == marked


def test_over_time_there_is_room_beyond_zero_and_what_is_cut_off_goes_beyond_it() -> None:
    early = Point(SINCE, "candidate", "production", 10, 0.3, (-4.0, 4.6))
    late = Point(SINCE + timedelta(days=1), "candidate", "production", 1000, 0.3, (0.1, 0.5))
    (chart,) = charts.charts(replace(healthy(), over_time=(early, late)))["over_time"]
    low, high = chart.spec["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert low < 0 < 0.5 < high
    first, last = chart.spec["layer"][0]["data"]["values"]
    assert (first["low"], first["high"]) == (low, high)
    assert (last["low"], last["high"]) == (0.1, 0.5)
    assert chart.spec["layer"][0]["mark"]["type"] == "area"
    (alone,) = charts.charts(replace(healthy(), over_time=(late,)))["over_time"]
    assert alone.spec["layer"][0]["mark"]["type"] == "rule"


def test_strengths_and_slots_are_those_of_the_report() -> None:
    assert rows_of(charts.strength_rows, three()) == [
        {"label": "a", "strength": 0.3, "low": 0.1, "high": 0.5},
        {"label": "c", "strength": 0.1, "low": None, "high": None},
    ]
    report = replace(healthy(), slots=(Slot(2, "candidate", 0.6, 0.5, 0.01),))
    assert rows_of(charts.slot_rows, report) == [{"position": 2, "ranker": "candidate", "share": 0.6, "expected": 0.5}]


def test_points_over_time_are_those_with_an_estimate_of_six_pairs_at_most() -> None:
    points = (Point(SINCE, "a", "b", 1, None, None), Point(SINCE, "a", "b", 2, 0.1, None))
    assert rows_of(charts.time_rows, replace(three(), over_time=points)) == [
        {
            **{"time": SINCE.isoformat(), "pair": "a over b", "impressions": 2, "estimate": 0.1},
            **{"low": None, "high": None},
        }
    ]
    rows = rows_of(charts.time_rows, with_cycle())
    assert len({row["pair"] for row in rows}) == 6
    assert len(charts.charts(with_cycle())["over_time"]) == 6


def test_segments_are_named_by_attribute_and_value() -> None:
    rows = rows_of(charts.segment_rows, healthy())
    assert [row["label"].split("\n")[0] for row in rows] == ["device = desktop", "device = phone", "device = tablet"]
    assert [row["estimate"] for row in rows] == [0.071, 0.004, -0.03]


def test_of_too_many_pairs_those_with_the_control_or_those_furthest_from_zero_are_drawn() -> None:
    held = rows_of(charts.forest_rows, very_many(control="ranker-00"))
    assert len(held) == 39
    assert all("ranker-00" in row["label"] for row in held)
    far = rows_of(charts.forest_rows, very_many())
    assert len(far) == 40
    every = sorted((abs(pair.estimate or 0) for pair in very_many().comparisons), reverse=True)
    assert sorted((abs(row["estimate"]) for row in far), reverse=True) == every[:40]


def test_nothing_computed_draws_nothing_but_what_was_shown() -> None:
    assert list(charts.charts(nothing_computed())) == ["slots"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_chart_is_a_specification_that_altair_accepts(name: str) -> None:
    """Here, because charts of a page are made without this check."""
    made = [chart.spec for found in charts.charts(EXAMPLES[name]).values() for chart in found]
    made.append(plots.points([{"x": 1, "y": 2, "of": "a"}], "x", "y", "of", level=1.0))
    for spec in made:
        altair.LayerChart.validate(spec)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_chart_is_drawn_in_the_ink_of_the_page_and_says_what_its_colours_mean(name: str) -> None:
    made = [chart for found in charts.charts(EXAMPLES[name]).values() for chart in found]
    assert made
    for chart in made:
        svg = plots.to_svg(chart.spec)
        drawing = ElementTree.fromstring(svg)  # well formed
        texts = [node for node in drawing.iter() if node.tag.endswith("}text")]
        assert texts
        assert {node.get("fill") for node in texts} <= {"currentColor", "#10141a"}
        assert "<script" not in svg
        assert not re.search(r"\b(href|onload|onclick|url)\b[=(]", svg)
        assert " id=" not in svg  # two drawings on a page would share it
        assert chart.title
        assert chart.described
        colours = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', svg)) & {*plots.SERIES, plots.GREY}
        assert colours <= {colour for colour, _ in chart.key.values()} | {plots.BLUE}


def test_a_name_is_drawn_letter_by_letter() -> None:
    drawn = [plots.to_svg(chart.spec) for found in charts.charts(hostile()).values() for chart in found]
    shown = "".join("".join(ElementTree.fromstring(svg).itertext()) for svg in drawn)
    assert SCRIPT in shown
    assert "two lines | and a pipe" in shown


def test_charts_hold_the_rows_and_nothing_that_was_computed_from_them() -> None:
    report = with_cycle()
    (forest,) = charts.charts(report)["comparisons"]
    drawn = list(forest.spec["datasets"].values()) if "datasets" in forest.spec else []
    inline = [layer["data"]["values"] for layer in forest.spec["layer"] if "values" in layer.get("data", {})]
    held = [rows for rows in [*drawn, *inline, forest.spec.get("data", {}).get("values")] if rows]
    assert rows_of(charts.forest_rows, report) in held
    assert "aggregate" not in json.dumps(forest.spec)
