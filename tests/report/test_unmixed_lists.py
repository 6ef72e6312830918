"""Reports of lists of one ranker each: an A/B test on clicks per search, and the lift beside it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.exposure import CURVES, ExposureWorld
from interleaf import LogWriter, analyze, interleave, log, plan, tally_log
from interleaf.errors import DataError
from interleaf.report.model import UndecidedCode
from interleaf.report.report import Report
from interleaf.stats.compare import difference
from interleaf.stats.lift import NoLift
from interleaf.tally import Tally

SAME = np.tile(np.arange(10), (1, 2, 1))


def log_of(world: ExposureWorld, seed: int, people: int = 2000, tail: float = 0.0) -> pa.Table:
    return world.log(np.random.default_rng(seed), people, "one_list", tail=tail)


def world_of(seed: int, tastes: float = 0.0) -> ExposureWorld:
    world = ExposureWorld.draw(np.random.default_rng(seed), 30, 4, CURVES["1 / rank"], 10)
    return replace(world, tastes=tastes)


@cache
def better() -> tuple[pa.Table, ExposureWorld]:
    """B shows what people want most at the top, A anywhere."""
    rng = np.random.default_rng(1)
    appeal, rankings = rng.beta(1, 3, (30, 10)), np.zeros((30, 2, 10), np.int64)
    for query in range(30):
        order, best = rng.permutation(10), appeal[query].argmax()
        rankings[query] = order, [best, *order[order != best]]
    world = ExposureWorld(rankings, appeal, CURVES["1 / rank"])
    return log_of(world, 1, 4000, tail=1.5), world


def test_the_estimate_is_the_difference_in_clicks_per_search_clustered_by_unit() -> None:
    table, _ = better()
    (one,) = analyze(table, control="A").comparisons
    rows, sums = table.to_pylist(), dict[str, Any]()
    units = {unit: place for place, unit in enumerate(sorted({row["unit"] for row in rows}))}
    for arm in "BA":
        some = [row for row in rows if row["arm"] == arm]
        places = [units[row["unit"]] for row in some]
        clicks = [len({event["rank"] for event in row["events"]}) for row in some]
        sums[arm] = np.bincount(places, clicks, len(units)), np.bincount(places, minlength=len(units))
    by_unit = difference(*sums["B"], *sums["A"])
    assert (one.first, one.second) == ("B", "A")
    assert one.estimate == pytest.approx(by_unit.value)
    assert one.error == pytest.approx(by_unit.error, rel=0.15)  # units are grouped into buckets
    assert (one.impressions, one.units) == (len(rows), len(units))
    assert one.clicked == sum(bool(row["events"]) for row in rows)


def test_the_verdict_is_an_a_b_test_and_says_so() -> None:
    report = analyze(better()[0], control="A")
    assert (report.method, report.scored_as, report.scheme, report.events) == ("one_list", "", "", "click")
    assert (report.verdict.winner, report.verdict.code) == ("B", "preferred")
    assert report.verdict.next_step == "Make B live, and compare the next candidate with it."
    assert "This is an A/B test on clicks: each person sees the list of one ranker." in report.verdict.sentence
    assert report.note_codes == ("ab_test",)
    turned = analyze(better()[0], control="B")
    assert (turned.verdict.winner, turned.comparisons[0].first) == ("B", "A")
    assert "the clicks per search on lists of A minus those on lists of B are -" in turned.verdict.sentence
    assert analyze(better()[0]).comparisons[0].first == "B"  # without a control, the winner


def test_what_needs_mixed_lists_is_left_out_with_a_reason() -> None:
    report = analyze(better()[0], control="A")
    (one,) = report.comparisons
    missing = ("wins", "losses", "ties", "unit_wins", "per_person_estimate", "z_score", "delta")
    assert [getattr(one, name) for name in missing] == [None] * len(missing)
    assert all("each person sees the list of one ranker" in one.reasons[name] for name in missing)
    assert not one.people_and_visits_disagree
    assert (report.slots, report.neutrality, report.over_time, report.segments, report.activity) == ((),) * 5
    codes = {check.code for check in report.health}
    assert not codes & {"fair_lists", "rankings_differ", "possible_lists", "clicks_by_ranker", "fair_scoring"}
    assert codes >= {"ab_split", "units_in_one_arm", "enough_units"}


def test_the_report_is_shown_in_every_form_and_comes_back(tmp_path: Path) -> None:
    report = analyze(better()[0], control="A")
    text, page = str(report), report.to_html(tmp_path / "page.html")
    assert "If B were live in place of A: +" in text
    for form in (text, report.to_markdown(), re.sub(r"\s+", " ", page)):
        assert "This is an A/B test on clicks" in form
        assert "clustered by unit" in form
    assert Report.from_dict(json.loads(report.to_json())) == report
    assert report.to_frames()["comparisons"].num_rows == report.to_frames()["lifts"].num_rows == 1


def test_the_lift_is_near_the_truth_and_stands_beside_the_verdict() -> None:
    table, world = better()
    (lift,) = analyze(table, control="A").lifts
    first, second = world.clicks_alone(10)[::-1]
    assert lift.interval is not None
    assert lift.interval[0] <= first / second - 1 <= lift.interval[1]
    assert lift.clicks_first == pytest.approx(first, rel=0.05)
    assert lift.unseen_first == lift.unseen_second == 0
    given = analyze(table, control="A", examination=CURVES["1 / rank"][:10].tolist()).lifts[0]
    assert given.interval is not None
    assert given.interval[0] <= first / second - 1 <= given.interval[1]


def test_a_lift_that_contradicts_the_a_b_test_gives_way_to_it() -> None:
    """People who look at low ranks only, and a given examination that says the opposite."""
    order = np.arange(10)
    rankings = np.stack([order, np.roll(order, 5)])[None]
    world = ExposureWorld(rankings, np.where(order < 5, 0.9, 0.1)[None], np.linspace(0.1, 1, 10))
    report = analyze(log_of(world, 2), control="B", examination=np.linspace(1, 0.1, 10).tolist())
    assert report.verdict.winner == "B"
    assert report.lifts[0].is_loss_of("B")
    assert "This contradicts the A/B test." in report.to_markdown()
    assert "A/B test before you make" not in report.verdict.next_step


def test_the_order_of_rankers_parts_of_a_log_and_a_file_do_not_matter(tmp_path: Path) -> None:
    table = better()[0]
    half = len(table) // 2
    whole = tally_log(table)
    parts = tally_log(table.slice(0, half)) + tally_log(table.slice(half))
    whole.save(tmp_path / "a.tally")
    report = analyze(whole, control="A")
    assert analyze(parts, control="A").comparisons == report.comparisons
    assert analyze(Tally.load(tmp_path / "a.tally"), control="A") == report
    order, numbers = table.column_names, {"A": "B", "B": "A"}
    renamed = [[numbers[arm] for arm in table["arm"].to_pylist()], [["B", "A"]] * len(table)]
    other = table
    for name, values in zip(("arm", "rankers"), renamed, strict=True):
        other = other.set_column(order.index(name), name, pa.array(values))
    turned = analyze(other, control="B")
    assert turned.verdict.winner == "A"
    assert turned.comparisons[0].estimate == report.comparisons[0].estimate


def test_holdout_and_fallback_stand_beside_it() -> None:
    rows = better()[0].to_pylist()
    for number, row in enumerate(rows):
        if int(row["unit"][1:]) % 10 == 0:
            row |= {"arm": "holdout", "method": "single(ranker=A)"}
        elif number % 50 == 1:
            row |= {"arm": "fallback", "method": "single(ranker=A)", "fallback_reason": "slow"}
    report = analyze(log.rows_to_batch(rows), control="A", holdout=0.1)
    assert {arm.name for arm in report.arms} == {"A", "B", "holdout", "fallback"}
    assert report.comparisons[0].impressions == sum(row["arm"] in ("A", "B") for row in rows)
    assert (report.verdict.winner, report.verdict.trusted) == ("B", True)
    assert {check.code: check.status for check in report.health}["holdout_split"] == "ok"
    assert not analyze(log.rows_to_batch(rows), control="A", holdout=0.2).verdict.trusted


def test_several_rankers_are_compared_in_pairs(tmp_path: Path) -> None:
    rankings = {"A": list("abcdef"), "B": list("bacdfe"), "C": list("fedcba")}
    chance = np.random.default_rng(4)
    with LogWriter(tmp_path, experiment="three") as writer:
        for number in range(3000):
            shown = interleave(rankings, "one_list", 4, key=("three", 1, number))
            name = writer.impression(shown, unit=f"u{number}", query="q")
            for rank, document in enumerate(shown.documents, 1):
                if chance.random() < (0.7 if document in ("a", "b") else 0.1):
                    writer.event(name, rank=rank)
    report = analyze(tmp_path, control="C")
    assert [(one.first, one.second) for one in report.comparisons] == [("A", "C"), ("B", "C"), ("A", "B")]
    assert [one.winner for one in report.comparisons] == ["A", "B", None]
    assert {arm.name for arm in report.arms} == {"A", "B", "C"}
    assert len(report.lifts) == 3


def test_errors_say_what_to_do() -> None:
    table = better()[0]
    with pytest.raises(DataError, match="clustered by unit"):
        analyze(table, cluster="unit_and_query")
    mixed = table.set_column(table.column_names.index("arm"), "arm", [["interleaved"] * len(table)])
    with pytest.raises(DataError, match="one_list"):
        analyze(mixed)
    with pytest.raises(DataError, match="a plan is made for interleaved lists"):
        plan(0.02, pilot=table)
    assert analyze(table.drop_columns(["unshown_ranks"])).lifts[0].code == NoLift.NO_RANKS
    one_arm = table.filter(pa.compute.equal(table["arm"], "A"))
    report = analyze(one_arm, control="A")
    assert report.comparisons[0].estimate is None
    assert report.verdict.undecided_because == UndecidedCode.TOO_EARLY
    silent = table.set_column(
        table.column_names.index("events"), "events", pa.array([[]] * len(table), table["events"].type)
    )
    assert analyze(silent, control="A").verdict.undecided_because == UndecidedCode.NO_EVENTS


def test_equal_rankers_seldom_get_a_winner_even_if_few_people_make_most_visits() -> None:
    """80 experiments with two equal rankers: at 5 %, more than 11 false winners have a probability below 0.1 %."""
    false = {"one look": 0, "anytime": 0}
    for seed in range(80):
        world = ExposureWorld(SAME, np.full((1, 10), 0.3), CURVES["1 / rank"], tastes=1.0)
        tally = tally_log(log_of(world, seed, 300, tail=1.5))
        false["one look"] += analyze(tally, control="A", look=(1, 1)).verdict.winner is not None
        false["anytime"] += analyze(tally, control="A").verdict.winner is not None
    assert false["one look"] <= 11
    assert false["anytime"] <= 5


def test_the_interval_of_the_lift_covers_the_truth() -> None:
    """40 worlds: at 95 %, fewer than 33 covered truths have a probability below 0.1 %."""
    covered = 0
    for seed in range(40):
        world = world_of(seed, tastes=1.0)
        (lift,) = analyze(log_of(world, seed, 3000, tail=1.5), control="B").lifts
        first, second = world.clicks_alone(10)
        assert lift.interval is not None
        covered += lift.interval[0] <= first / second - 1 <= lift.interval[1]
    assert covered >= 33
