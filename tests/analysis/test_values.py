"""Events that count by their values: against a plain oracle, in the sums of tallies, in plans, and in the service."""

from __future__ import annotations

import json
import random
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from interleaf import DataError, Experiment, SchemeError, analyze, plan, tally_log
from interleaf.cli import main
from interleaf.errors import ExperimentError
from interleaf.report.report import Report
from interleaf.server.dashboard.downloads import analysis
from interleaf.tally import Tally
from tests.support.log_rows import Row, made_event, made_row, table_of
from tests.support.services import Live, click, exported, live

BUY: dict[str, Any] = {"events": "purchase", "values": True}
PEOPLE = 150


def sales(count: int = 400, seed: int = 1, method: str = "team_draft", of: int = 2) -> list[Row]:
    """Lists with clicks and purchases, a few of them large, of 150 people."""
    chance, rows = random.Random(seed), []
    for number in range(count):
        row = made_row(number, (1, 3), method, unit=f"u-{chance.randrange(PEOPLE)}", of=of)
        for rank in range(1, 5):
            if chance.random() < 0.3:
                value = round(chance.paretovariate(1.2), 2)
                row["events"].append(made_event(rank, row["time"], 60 + rank, "purchase", value=value))
        rows.append(row)
    return rows


def totals_of(rows: Iterable[Row]) -> dict[str, list[Fraction]]:
    """The value that each unit with a purchase gave to the owners A and B, straight from the rows."""
    totals: dict[str, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for row in rows:
        for event in row["events"]:
            if event["kind"] == "purchase":
                owner = row["teams"][event["rank"] - 1]
                totals[row["unit"]][owner] += Fraction(event["value"])
    return totals


def expected(rows: Iterable[Row], cap: Fraction) -> tuple[Fraction, Fraction]:
    """The mean of A's value minus B's over units with a purchase, each unit cut at the cap; and the share cut off."""
    totals = list(totals_of(rows).values())
    scales = [min(Fraction(1), cap / (first + second)) for first, second in totals]
    cut = [(first * scale, second * scale) for (first, second), scale in zip(totals, scales, strict=True)]
    whole, left = (sum((first + second for first, second in some), Fraction(0)) for some in (totals, cut))
    return sum((first - second for first, second in cut), Fraction(0)) / len(totals), 1 - left / whole


@pytest.mark.parametrize("cap", [2.0, 25.0, 1e6])
def test_the_estimate_is_the_mean_of_the_units_totals_cut_at_the_cap(cap: float) -> None:
    rows = sales()
    report = analyze(table_of(rows), "click", **BUY, control="B", cap=cap)
    mean, cut = expected(rows, Fraction(cap))
    assert report.comparisons[0].estimate == pytest.approx(float(mean), abs=1e-5)
    assert report.value_cap == cap
    assert report.value_cut == pytest.approx(float(cut), abs=1e-6)
    assert report.comparisons[0].units == len(totals_of(rows))
    assert "values" in report.note_codes
    assert report.events == "value of purchase"


def test_without_a_cap_it_is_the_99th_percentile_of_units_with_a_purchase() -> None:
    rows = sales()
    totals = sorted(sum(both) for both in totals_of(rows).values())
    report = analyze(table_of(rows), "click", **BUY)
    assert report.value_cap == pytest.approx(float(totals[-(-99 * len(totals) // 100) - 1]), abs=1e-5)
    assert report.value_cut is not None
    assert 0 < report.value_cut < 1


def test_the_cap_treats_both_rankers_alike() -> None:
    log = table_of(sales())
    one, other = (analyze(log, "click", **BUY, control=ranker, cap=10.0).comparisons[0] for ranker in "AB")
    assert one.estimate == -(other.estimate or 0.0)
    assert one.error == other.error


def test_tallies_of_values_add_up_and_can_be_saved(tmp_path: Path) -> None:
    rows = sales()
    whole = tally_log(table_of(rows), "click", **BUY)
    halves = [tally_log(table_of(half), "click", **BUY) for half in (rows[::2], rows[1::2])]
    (halves[0] + halves[1]).save(tmp_path / "sum.tally")
    assert analyze(Tally.load(tmp_path / "sum.tally")).comparisons == analyze(whole).comparisons
    with pytest.raises(DataError, match="cannot be added"):
        whole + tally_log(table_of(rows), "click", events="purchase")


@pytest.mark.parametrize("method", ["competitive_pairs", "balanced", "probabilistic", "team_draft"])
def test_values_of_one_are_counts_by_unit(method: str) -> None:
    """With all values 1 and no cap that cuts, a unit's total is the sum of its credit by `click`."""
    rows = sales(method=method)
    for row in rows:
        for event in row["events"]:
            event["value"] = 1.0
    report = analyze(table_of(rows), "click", **BUY, control="B", cap=1e6)
    plain = tally_log(table_of(rows), "click", events="purchase")
    sums = plain.scores.sums.sum(axis=0) / 2**24
    (pair,) = report.comparisons
    assert pair.units is not None
    assert pair.estimate == pytest.approx((sums[0] - sums[1]) / pair.units, abs=1e-6)


def test_weights_multiply_values_and_later_copies_of_an_event_do_not_count_again() -> None:
    rows = sales(60)
    whole = analyze(table_of(rows), "click", **BUY, cap=1e6).comparisons[0].estimate
    doubled = analyze(table_of(rows), "click", events={"purchase": 2}, values=True, cap=1e6).comparisons[0].estimate
    assert doubled == pytest.approx(2 * (whole or 0.0), abs=1e-5)
    for row in rows:
        for number, event in enumerate(row["events"]):
            event["event"] = f"{row['impression']}-{number}"
        row["events"] += [event | {"value": None} for event in row["events"] if event["kind"] == "purchase"]
    assert analyze(table_of(rows), "click", **BUY, cap=1e6).comparisons[0].estimate == pytest.approx(whole, abs=1e-9)


def test_events_without_a_value_do_not_count_and_too_large_ones_are_dropped() -> None:
    rows = sales(100)
    before = analyze(table_of(rows), "click", **BUY, cap=5.0)
    rows[0]["events"].append(made_event(1, rows[0]["time"], 90, "purchase"))
    after = analyze(table_of(rows), "click", **BUY, cap=5.0)
    assert after.totals.events["without_value"] == 1
    assert after.comparisons[0].estimate == before.comparisons[0].estimate
    rows[1]["events"].append(made_event(1, rows[1]["time"], 90, "purchase", value=2e6))
    assert analyze(table_of(rows), "click", **BUY, cap=5.0).totals.dropped == {"credit_too_large": 1}


def test_a_metric_beside_the_primary_one_is_corrected_with_the_others() -> None:
    log = table_of(sales())
    alone, one_of_four = (analyze(log, "click", **BUY, secondary=number) for number in (0, 4))
    first, fourth = alone.comparisons[0], one_of_four.comparisons[0]
    assert first.adjusted_p_value is not None
    assert fourth.adjusted_p_value == min(1.0, 4 * first.adjusted_p_value)
    assert first.interval is not None
    assert fourth.interval is not None
    assert fourth.interval[0] < first.interval[0] < first.interval[1] < fourth.interval[1]
    assert ("secondary" in one_of_four.note_codes, "secondary" in alone.note_codes) == (True, False)


def test_what_does_not_fit_values_is_refused() -> None:
    log = table_of(sales(20))
    refused: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"sessions": 1800}, DataError, "leave out sessions"),
        ({"scheme": "binary"}, SchemeError, "a scheme that adds up clicks"),
        ({"cluster": "unit_and_query"}, DataError, "added up by unit"),
        ({"cap": 0.0}, DataError, "give a number from 1e-06 to 1e"),
        ({"cap": 1e12}, DataError, "give a number from 1e-06 to 1e"),
        ({"values": False, "cap": 10.0}, DataError, "count values"),
        ({"secondary": -1}, DataError, "secondary"),
    ]
    for options, error, words in refused:
        with pytest.raises(error, match=words):
            analyze(log, **BUY | options)


def test_values_have_no_margin_unless_it_is_given() -> None:
    """Values have any scale, so no default can say which difference matters."""
    log = table_of(sales())
    tiny = analyze(log, "click", events={"purchase": 1e-6}, values=True)
    assert (tiny.margin, tiny.verdict.code) == (None, "undecided")
    assert tiny.comparisons[0].statements == ()
    assert analyze(log, "click", **BUY, margin=1e6).verdict.code == "alike"


def test_people_whose_values_are_all_0_do_not_set_the_cap() -> None:
    rows = sales()
    for number, row in enumerate(rows):
        for event in row["events"]:
            if event["kind"] == "purchase":
                event["value"] = 50.0 if number % 40 == 0 else 0.0
    report = analyze(table_of(rows), "click", **BUY)
    assert report.value_cap is not None
    assert report.value_cap >= 50
    assert report.comparisons[0].estimate != 0


def test_a_huge_value_drops_its_list_and_nothing_else() -> None:
    rows = sales(100)
    rows[3]["events"].append(made_event(1, rows[3]["time"], 90, "purchase", value=1e308))
    report = analyze(table_of(rows), "click", events={"purchase": 5}, values=True)
    assert report.totals.dropped == {"credit_too_large": 1}


def test_many_rankers_have_no_strengths_by_values() -> None:
    report = analyze(table_of(sales(of=3)), "click", **BUY)
    assert report.standing is not None
    assert {one.strength for one in report.standing.strengths} == {None}
    assert report.standing.reasons["strength"] == "values are not wins and losses"


def test_a_plan_proposes_a_cap_and_counts_people_by_their_totals() -> None:
    log = table_of(sales())
    planned = plan(0.5, log, scheme="click", **BUY)
    cap = analyze(log, "click", **BUY).value_cap
    assert f"(--cap {cap:.6g})" in planned.pilot
    assert planned.to_dict()["value_cap"] == cap
    assert plan(0.5, log, scheme="click").to_dict()["value_cap"] is None
    buyers = [row["unit"] for row in sales() if any(event["kind"] == "purchase" for event in row["events"])]
    assert planned.fixed.impressions_per_unit == pytest.approx(len(buyers) / PEOPLE, rel=0.1)
    assert main(["plan", "--lift", "0.02", "--values", "x.parquet"]) == 2


SHOP: dict[str, Any] = {"events": {"click": 1.0, "purchase": 5.0}, "values": ["purchase"], "browser_events": ["click"]}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as found:
        yield found


def test_the_service_reports_values_as_a_metric_that_analyze_computes_again(service: Live, tmp_path: Path) -> None:
    service.make(**SHOP, primary="value of purchase", value_cap=30.0)
    chance = random.Random(3)
    for number in range(150):
        shown = service.show(f"user-{number % 40}", f"query {number % 9}").json()
        for rank in (1, 2):
            if chance.random() < 0.6:
                service.tell(click(shown, rank), click(shown, rank, kind="purchase", value=chance.paretovariate(1.1)))
    reports = service.report().json()["reports"]
    assert list(reports) == ["value of purchase", "click", "purchase", "weighted"]
    log, settings = tmp_path / "shoes-1.parquet", service.store.experiment("shoes").settings
    pq.write_table(exported(service), log)
    for metric, data in reports.items():
        report = Report.from_dict(data)
        assert ("secondary" in report.note_codes) == (metric != settings.primary)
        words = shlex.split(analysis(settings, 1, metric))
        assert main([*words[1:2], str(log), *words[3:], "--out", str(tmp_path / "again.json")]) == 0
        again = Report.from_dict(json.loads((tmp_path / "again.json").read_text()))
        assert again.comparisons == report.comparisons
        assert (again.value_cap, again.value_cut) == (report.value_cap, report.value_cut)


def test_one_list_per_unit_compares_values_per_person(service: Live) -> None:
    service.make(**SHOP, mode="one_list", primary="value of purchase")
    chance = random.Random(4)
    for number in range(200):
        service.clock.now += 1_000_000
        shown = service.show(f"user-{number % 100}", f"query {number % 9}").json()
        value = 3.0 if shown["arm"] == "candidate" else 1.0
        if chance.random() < 0.5:
            service.tell(click(shown, 1, kind="purchase", value=value))
    report = Report.from_dict(service.report().json()["reports"]["value of purchase"])
    (pair,) = report.comparisons
    assert [check.code for check in report.health if check.status == "failed"] == []
    assert pair.estimate is not None
    assert pair.estimate > 1
    assert "gets more value" in report.verdict.sentence
    assert "value per person" in report.verdict.sentence


def test_settings_of_values_that_do_not_fit_are_refused() -> None:
    base = {"name": "shoes", "rankers": ["a", "b"], "events": {"click": 1.0, "purchase": 5.0}}
    for wrong, words in (
        ({"values": ["refund"]}, "give kinds of events that count"),
        ({"value_cap": 5.0}, "name the kinds of events with a value"),
        ({"primary": "value of purchase"}, "give one of the metrics"),
        ({"events": {"value of click": 1.0}, "primary": "value of click"}, "rename this kind"),
    ):
        with pytest.raises(ExperimentError, match=words):
            Experiment.of(base | wrong)
    assert list(Experiment.of(base | {"values": ["purchase"]}).metrics) == [
        *("click", "purchase", "value of purchase", "weighted")
    ]
