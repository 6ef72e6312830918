"""Beside the comparison: arms with their metrics, sessions, segments, controls, looks and plans, computed plainly."""

import math
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from interleaf import DataError
from interleaf.analysis.analyze import analyze
from interleaf.analysis.plan import plan
from interleaf.execution import collector as waiting
from interleaf.kernels.buckets import BUCKETS, bucket_of
from interleaf.report.format import format_signed
from interleaf.report.model import Metric, ReportArm
from interleaf.simulate.data import synthetic
from interleaf.simulate.people import People
from interleaf.simulate.world import World
from interleaf.stats.compare import difference, estimate, statistic
from interleaf.stats.looks import spending, spending_p_value
from tests.oracles.logs import Rules, Sums, counted_events, max_weight, metrics_of, visits, voice
from tests.support.log_rows import Row, made_row, made_rows, rows_of, table_of

DATA = synthetic(queries=15, seed=4)
CLOSE = 2**-20  # metrics are sums of shares, each rounded to 2^-24


def world_rows(units: int = 120, rankers: int = 2, **more: Any) -> list[Row]:
    people = People(units=units, purchases=(0.05, 0.5), again_without_click=0.7, taste=0.2)
    world = World(DATA, [1, 8, 15][:rankers], people, "team_draft", k=6, seed=9, **more)
    return rows_of(pa.Table.from_batches(list(world.batches())))


ARMS = {"holdout": 0.2, "A": 0.15, "B": 0.15}
ROWS = world_rows(arms=ARMS)
ROWS += [
    row | {"impression": f"f-{number}", "arm": "fallback", "method": "single(ranker=A)", "fallback_reason": "slow"}
    for number, row in enumerate(ROWS[:9])
]


def by_arm(rows: list[Row]) -> dict[str, list[Row]]:
    return {name: [row for row in rows if row["arm"] == name] for name in {row["arm"] for row in rows}}


def metric(arm: ReportArm, name: str) -> Metric:
    (found,) = [one for one in arm.metrics if one.name == name]
    return found


# Arms.


@pytest.mark.parametrize("rules", [Rules(), Rules(first=True), Rules(events={"click": 1, "purchase": 3})], ids=str)
def test_metrics_of_every_arm_are_those_of_its_rows(rules: Rules) -> None:
    report = analyze(table_of(ROWS), first=rules.first, events=rules.events)
    rows = by_arm(ROWS)
    assert {arm.name for arm in report.arms} == set(rows) == {"interleaved", "holdout", "fallback", "A", "B"}
    for arm in report.arms:
        own = rows[arm.name]
        assert (arm.impressions, arm.units) == (len(own), len({row["unit"] for row in own}))
        assert arm.clicked == sum(bool(counted_events(row, rules)) for row in own)
        for name, value in metrics_of(own, rules).items():
            assert metric(arm, name).value == pytest.approx(value, abs=CLOSE), (arm.name, name)


def test_times_to_clicks_are_medians_of_a_histogram() -> None:
    for arm in analyze(table_of(ROWS)).arms:
        for name, pick in (("first_click", min), ("last_click", max)):
            delays = [
                pick((event["time"] - row["time"]).total_seconds() for event in events)
                for row in by_arm(ROWS)[arm.name]
                if (events := counted_events(row))
            ]
            found = metric(arm, name)
            assert found.reason
            assert abs(math.log2(1 + (found.value or 0)) - math.log2(1 + median(delays))) <= 1 / 8


def sums_by_bucket(rows: list[Row], of: Any) -> tuple[Any, Any]:
    """What a metric sums up, and over how many rows."""
    sums, counts = np.zeros(BUCKETS), np.zeros(BUCKETS)
    for row in rows:
        sums[bucket_of(row["unit"])] += of(row)
        counts[bucket_of(row["unit"])] += 1
    return sums, counts


def clicks(row: Row) -> int:
    return len({event["rank"] for event in counted_events(row)})


@pytest.mark.parametrize(("control", "base"), [(None, "A"), ("B", "B"), ("A", "A")])
def test_arms_differ_from_the_control_s_by_clustered_differences(control: str | None, base: str) -> None:
    rows = by_arm(ROWS)
    for arm in analyze(table_of(ROWS), control=control, look=(1, 1)).arms:
        for name, of in (("clicks", clicks), ("abandonment", lambda row: clicks(row) == 0)):
            found = metric(arm, name)
            if arm.name == base:
                assert (found.difference, found.interval, found.p_value) == (None, None, None)
                continue
            truth = difference(*sums_by_bucket(rows[arm.name], of), *sums_by_bucket(rows[base], of))
            assert found.difference == pytest.approx(truth.value, abs=1e-12)
            assert (found.interval is None, found.p_value is None) == (truth.interval is None, truth.p_value is None)
            assert found.reason == truth.reason
            if truth.p_value is not None and found.p_value is not None:
                # All differences of the report are held against each other.
                assert found.p_value >= truth.p_value
                low, high = found.interval or (0.0, 0.0)
                assert (low + high) / 2 == pytest.approx(truth.value, abs=1e-12)
                assert (low > 0 or high < 0) == (found.p_value <= 0.05)
                assert high - low >= (truth.interval or (0.0, 0.0))[1] - (truth.interval or (0.0, 0.0))[0]


def test_without_buckets_arms_are_held_against_the_holdout() -> None:
    rows = [row for row in ROWS if row["arm"] in ("interleaved", "holdout")]
    report = analyze(table_of(rows), holdout=0.2)
    interleaved, holdout = sorted(report.arms, key=lambda arm: arm.name != "interleaved")
    truth = difference(
        *sums_by_bucket(by_arm(rows)["interleaved"], clicks), *sums_by_bucket(by_arm(rows)["holdout"], clicks)
    )
    assert metric(interleaved, "clicks").difference == pytest.approx(truth.value, abs=1e-12)
    assert metric(holdout, "clicks").difference is None
    checks = {check.code: check for check in report.health}
    assert truth.value is not None
    assert checks["holdout_clicks"].figure.startswith(f"{format_signed(truth.value)}, ")
    share = len({row["unit"] for row in by_arm(rows)["holdout"]}) / len({row["unit"] for row in rows})
    assert checks["holdout_split"].figure == f"{100 * share:.2f} % of units, 20.00 % planned"


def test_arms_alone_make_a_report_without_comparisons() -> None:
    rows = [row for row in ROWS if row["arm"] in ("A", "B")]
    report = analyze(table_of(rows))
    assert report.comparisons == ()
    assert report.verdict.winner is None
    assert {arm.name: arm.impressions for arm in report.arms} == {name: len(own) for name, own in by_arm(rows).items()}
    assert "no_interleaved_lists" in report.note_codes


def test_arms_whose_rows_hold_nothing_but_documents_are_measured() -> None:
    """A holdout needs no ranks: its lists are not credited."""
    bare = dict.fromkeys(("ranks", "teams", "lengths", "union", "rankings"))
    rows = [row | bare if row["arm"] == "holdout" else row for row in ROWS]
    report = analyze(table_of(rows))
    assert not report.totals.dropped
    assert report.arms == analyze(table_of(ROWS)).arms


# Sessions.


@pytest.mark.parametrize("scheme", ["binary", "click", "normalized", "binary_deduped"])
@pytest.mark.parametrize("timeout", [30, 600, 86_400 * 30])
def test_sessions_by_timeout_are_scored_as_one(scheme: str, timeout: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row for row in ROWS if row["arm"] != "fallback"]
    truth = Sums(rows, Rules(scheme), sessions=timeout)
    assert truth.impressions < len(by_arm(rows)["interleaved"])
    reports = []
    for room in (500_000, 10):  # in memory, and on disk
        monkeypatch.setattr(waiting, "ROOM", room)
        batches = table_of(rows).to_batches(max_chunksize=25)
        reports.append(analyze(batches, scheme, sessions=timeout))
    assert reports[0].to_dict() == reports[1].to_dict()
    (found,) = reports[0].comparisons
    assert found.estimate == pytest.approx(float(truth.estimate((0, 1))), rel=1e-12)
    assert found.error == pytest.approx(truth.error((0, 1)), rel=1e-9)
    assert (found.impressions, found.clicked) == (truth.impressions, truth.clicked)
    assert (found.wins, found.losses) == (truth.wins[0, 1], truth.losses[0, 1])
    assert reports[0].totals.impressions == len(rows)


def test_a_unit_that_sees_two_arms_in_a_session_has_a_session_in_each() -> None:
    single: Row = {"method": "single(ranker=A)"}
    arms = {100: ("holdout", "u-1"), 101: ("fallback", "u-1"), 102: ("fallback", "u-2"), 103: ("holdout", "u-3")}
    rows = made_rows(40) + [made_row(number, **single, arm=arm, unit=unit) for number, (arm, unit) in arms.items()]
    for arm in analyze(table_of(rows), sessions=1800).arms:
        if arm.name != "interleaved":
            assert metric(arm, "session_queries").value == 1
            assert metric(arm, "reformulation").value == 0


def test_sessions_begin_anew_after_exactly_the_timeout() -> None:
    rows = [made_row(number, (1,), unit="u") for number in (0, 1, 3)]  # minutes
    for timeout, expected in ((60, 3), (60.000001, 2), (120, 2), (121, 1)):
        (found,) = analyze(table_of(rows), sessions=timeout).comparisons
        assert found.impressions == expected


@pytest.mark.parametrize("timeout", [30, 300])
def test_metrics_of_sessions_count_the_gap_from_the_last_interaction(timeout: int) -> None:
    rows = world_rows(arms={"holdout": 0.4})
    report = analyze(table_of(rows), sessions=timeout)
    for arm in report.arms:
        own = by_arm(rows)[arm.name]
        groups = list(visits(own, timeout, ends=True))
        assert metric(arm, "session_queries").value == pytest.approx(len(own) / len(groups))
        assert metric(arm, "reformulation").value == pytest.approx(sum(len(group) - 1 for group in groups) / len(own))
    without = analyze(table_of(rows)).arms[0]
    assert "sessions=1800" in metric(without, "reformulation").reason
    assert metric(without, "session_queries").value is None


def test_the_expected_sign_of_sessions_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot score sessions by the expected sign"):
        analyze(table_of(made_rows(10, "probabilistic")), "binary", sessions=60)


# Segments, controls, looks, plans.


def test_segments_are_the_comparisons_of_their_rows() -> None:
    rows = world_rows(rankers=3)
    report = analyze(table_of(rows), by=["device", "country"])
    values = {(name, value) for row in rows for name, value in row["attributes"].items()}
    assert [(one.attribute, one.value) for one in report.segments] == sorted(values)
    for segment in report.segments:
        own = [row for row in rows if row["attributes"][segment.attribute] == segment.value]
        assert segment.impressions == len(own)
        truth = Sums(own)
        for found, pair in zip(segment.comparisons, combinations(range(3), 2), strict=True):
            assert found.clicked == truth.clicked
            assert found.estimate == pytest.approx(float(truth.estimate(pair)), rel=1e-12)
            assert found.error == pytest.approx(truth.error(pair), rel=1e-9) or found.error is None
    p_values = [one.p_value for segment in report.segments for one in segment.comparisons if one.p_value is not None]
    adjusted = [one.adjusted_p_value for segment in report.segments for one in segment.comparisons]
    assert min(one for one in adjusted if one is not None) == pytest.approx(min(1, min(p_values) * len(p_values)))


def test_rows_without_an_attribute_are_a_segment_of_their_own() -> None:
    rows = [row | ({"attributes": {}} if number % 4 == 0 else {}) for number, row in enumerate(made_rows(40))]
    found = {one.value: one.impressions for one in analyze(table_of(rows), by=["device"]).segments}
    assert found == {"(none)": 10, "desk": 20, "phone": 10}
    with pytest.raises(DataError, match="no row has the attribute 'colour'"):
        analyze(table_of(rows), by=["colour"])


@pytest.mark.parametrize("control", ["A", "B", "C"])
def test_candidates_are_compared_with_the_control_first(control: str) -> None:
    source = table_of(world_rows(rankers=3))
    plain = {(one.first, one.second): one for one in analyze(source).comparisons}
    report = analyze(source, control=control, by=["device"])
    assert [one.second for one in report.comparisons[:2]] == [control, control]
    assert report.comparisons[2].second != control
    for one in report.comparisons:
        turned = (one.first, one.second) not in plain
        other = plain[(one.second, one.first) if turned else (one.first, one.second)]
        assert one.estimate == (-(other.estimate or 0) if turned else other.estimate)
        assert (one.wins, one.losses) == ((other.losses, other.wins) if turned else (other.wins, other.losses))
        assert one.p_value == other.p_value
    with pytest.raises(DataError, match="no ranker 'Z' to be the control; there are 'A', 'B' or 'C'"):
        analyze(source, control="Z")


def test_looks_that_were_planned_decide() -> None:
    rows = world_rows(units=300)
    (found,) = analyze(table_of(rows), look=(2, 5), planned_units=2_000).comparisons
    sums = Sums(rows)
    by_bucket = np.array(sums.voices((0, 1)))
    truth = estimate(by_bucket[:, 0] / 2**24, by_bucket[:, 1])
    shares = (found.units or 0) / 2000 / 2, (found.units or 0) / 2000  # of the planned units, at two looks
    edge = float(statistic(spending(shares)[-1], (truth.effective_units or 0) - 1)) * (truth.error or 0)
    assert found.interval == pytest.approx(((truth.value or 0) - edge, (truth.value or 0) + edge))
    assert found.p_value == pytest.approx(spending_p_value(truth.deviate or 0, shares))
    (even,) = analyze(table_of(rows), look=(2, 5)).comparisons  # without a plan, looks are evenly spaced
    assert even.p_value == pytest.approx(spending_p_value(truth.deviate or 0, (0.2, 0.4)))
    for look in ((0, 5), (6, 5)):
        with pytest.raises(DataError, match="there is no look"):
            analyze(table_of(rows), look=look)


def test_a_plan_takes_from_a_pilot_how_much_units_differ_and_how_many_come() -> None:
    """People in other arms do not count; people without an event do."""
    rows, pair, effect = world_rows(units=300, arms=ARMS), (0, 1), 0.04
    cells = list(Sums(rows).units.values())
    found = plan(effect, table_of(rows))
    limit = max_weight(found.fixed.units_with_event)
    assert limit > max_weight(len(cells))  # that of the planned units, not of the pilot's
    voices = [(score / 2**24, weight) for score, weight in (voice(cell, pair, limit) for cell in cells)]
    total = sum(weight for _, weight in voices)
    mean = sum(score for score, _ in voices) / total
    effective = total**2 / sum(weight**2 for _, weight in voices)
    jackknife = sum(((score - mean * weight) / (total - weight)) ** 2 for score, weight in voices)
    error = jackknife * (1 - 1 / effective)
    within = sum(weight**2 / cell.clicked for (_, weight), cell in zip(voices, cells, strict=True) if weight) / total**2
    variance = len(cells) * (error + within * (mean**2 - error - effect**2))
    assert found.fixed.variance == pytest.approx(variance, rel=1e-6)
    clicking, clicked = sum(cell.clicked > 0 for cell in cells), sum(cell.clicked for cell in cells)
    assert clicking < len(cells) < len({row["unit"] for row in rows})
    assert found.fixed.units_with_event == math.ceil(found.fixed.units * clicking / len(cells))
    assert found.fixed.impressions == math.ceil(found.fixed.units * clicked / len(cells))
    assert found.fixed.min_units < found.fixed.units < found.fixed.max_units
    assert found.watched_units > found.fixed.units
    detectable = plan(pilot=table_of(rows), units=found.fixed.units).fixed.effect
    assert detectable == pytest.approx(effect, rel=1e-2)
    assert plan(effect, table_of(rows), units=found.fixed.units).fixed.power == pytest.approx(found.fixed.power)
    assert f"a pilot of {len(cells):,} people who came, {clicking:,} with an event" in found.pilot
    for said in (
        f"You need {found.fixed.units:,} people (about {found.fixed.units_with_event:,} with an event, and",
        f"could take {found.fixed.min_units:,} to {found.fixed.max_units:,} people",
    ):
        assert said in str(found)


def test_a_plan_is_refused_where_a_pilot_cannot_carry_it() -> None:
    with pytest.raises(DataError, match="do not use the score of a pilot"):
        plan(pilot=table_of(world_rows(units=200)))
    with pytest.raises(DataError, match="effective units, too few to say how much people differ"):
        plan(0.1, table_of(world_rows(units=4)))
    assert "The pilot is small" in str(plan(0.1, table_of(world_rows(units=30))))
    with pytest.raises(DataError, match="two rankers; the pilot compares 3"):
        plan(0.02, table_of(made_rows(30, of=3)))
    with pytest.raises(DataError, match="give the effect to detect"):
        plan()
