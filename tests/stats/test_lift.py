"""Examination and lift against worlds whose clicks on each ranker alone are known."""

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.exposure import CURVES, ExposureWorld
from interleaf import analyze, simulate, tally_log
from interleaf.report.report import Report
from interleaf.report.text import to_text
from interleaf.stats.lift import NoLift


def world_of(seed: int, curve: str, moves: int = 4, documents: int = 10) -> tuple[ExposureWorld, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return ExposureWorld.draw(rng, 50, moves, CURVES[curve], documents), rng


@pytest.mark.parametrize("method", ["competitive_pairs", "team_draft"])
@pytest.mark.parametrize("curve", CURVES)
def test_lift_and_examination_are_found(method: str, curve: str) -> None:
    world, rng = world_of(2, curve)
    report = analyze(world.log(rng, 8000, method), control="B")
    (lift,) = report.lifts
    truth = world.clicks_alone(10)
    assert (lift.first, lift.second, lift.code) == ("A", "B", "")
    assert lift.lift is not None
    assert lift.interval is not None
    assert lift.interval[0] <= truth[0] / truth[1] - 1 <= lift.interval[1]
    assert lift.interval[1] - lift.interval[0] < 0.08
    assert lift.clicks_first == pytest.approx(truth[0], rel=0.05)
    assert lift.unseen_first == lift.unseen_second == 0
    assert lift.bounds is None
    inside = [
        one.interval[0] <= CURVES[curve][one.rank - 1] <= one.interval[1]
        for one in report.examination[1:]
        if one.interval
    ]
    assert sum(inside) >= 7  # of 9 intervals with 95 %, which share their clicks


@pytest.mark.parametrize("curve", CURVES)
def test_interpolated_values_are_those_of_the_measured_curve(curve: str) -> None:
    """The log scored again with the measured examination: it differs by a tenth of the interval at most."""
    world, rng = world_of(3, curve, moves=8, documents=20)
    log = world.log(rng, 5000, "team_draft")
    estimated = analyze(log)
    exact = analyze(log, examination=[one.value for one in estimated.examination])
    (lift,), (again,) = estimated.lifts, exact.lifts
    assert lift.lift == pytest.approx(again.lift, abs=width(estimated) / 10)
    assert lift.clicks_first == pytest.approx(again.clicks_first, rel=0.01)


def test_a_preferred_ranker_that_would_get_fewer_clicks_is_reported() -> None:
    rankings = np.array([[[0, 1, 2, 3, 4], [1, 2, 0, 4, 3]]])  # of docs/what-interleaving-cannot-tell.md
    world = ExposureWorld(rankings, np.array([[0.1, 0.1, 0.9, 0.9, 0.1]]), CURVES["1 / rank"])
    log = world.log(np.random.default_rng(1), 6000, "competitive_pairs", 5)
    truth = world.clicks_alone(5)
    for control in ("A", "B"):
        report = analyze(log, control=control)
        (lift,) = report.lifts
        assert report.verdict.winner == "A"
        assert truth[0] < truth[1]
        assert (lift.is_loss_of("A"), lift.is_loss_of("B"), lift.is_loss_of(None)) == (True, False, False)
        assert "but its own list would get fewer clicks" in to_text(report)
        assert ("A/B test before you make A live" in report.verdict.next_step) == (control == "B")


def test_given_examination_has_no_interval_and_makes_that_of_the_lift_narrower() -> None:
    world, rng = world_of(4, "1 / rank")
    log = world.log(rng, 4000, "competitive_pairs")
    given, estimated = analyze(log, examination=CURVES["1 / rank"][:10].tolist()), analyze(log)
    assert [one.value for one in given.examination] == pytest.approx(CURVES["1 / rank"][:10])
    assert {one.interval for one in given.examination} == {None}
    assert width(given) < width(estimated)


def width(report: Report) -> float:
    low, high = report.lifts[0].interval or (0.0, 9.0)
    return high - low


def test_what_is_never_shown_widens_the_interval_to_bounds_or_withholds_the_lift() -> None:
    world, rng = world_of(5, "logarithmic", moves=40, documents=20)
    (lift,) = analyze(world.log(rng, 4000, "competitive_pairs")).lifts
    assert max(lift.unseen_first or 0, lift.unseen_second or 0) > 0.05
    assert lift.bounds is not None
    assert lift.interval is not None
    assert lift.bounds[0] < lift.interval[0] < lift.interval[1] < lift.bounds[1]
    apart = ExposureWorld(np.arange(40).reshape(1, 2, 20), np.full((1, 40), 0.3), np.ones(20))
    far = analyze(apart.log(rng, 2000, "competitive_pairs"), examination=[1.0] * 10).lifts[0]
    assert (far.lift, far.code) == (None, NoLift.UNSEEN)


def test_ranks_without_clicks_take_the_decline_of_their_neighbours() -> None:
    """Rankers that never agree compare ranks 1 with 2, 3 with 4, and so on, but never 2 with 3."""
    rng = np.random.default_rng(6)
    rankings = np.array([[np.arange(10), np.roll(np.arange(10), 5)]])
    world = ExposureWorld(rankings, np.full((1, 10), 0.5), CURVES["1 / rank"])
    curve = analyze(world.log(rng, 20000, "competitive_pairs")).examination
    assert [one.is_measured for one in curve] == [True, True, False, True, False, True, False, True, False, True]
    np.testing.assert_allclose([one.value for one in curve], CURVES["1 / rank"][:10], rtol=0.25)


def test_too_few_clicks_users_or_ranks_are_codes() -> None:
    world, rng = world_of(7, "1 / rank")
    few = analyze(world.log(rng, 100, "competitive_pairs")).lifts[0]
    assert (few.lift, few.code) == (None, NoLift.FEW_CLICKS)
    log = world.log(rng, 300, "competitive_pairs")
    one_user = log.set_column(log.column_names.index("unit"), "unit", [["u"] * len(log)])
    assert analyze(one_user).lifts[0].code == NoLift.FEW_USERS
    assert analyze(log.drop_columns(["unshown_ranks"])).lifts[0].code == NoLift.NO_RANKS
    assert analyze(world.log(rng, 300, "balanced")).lifts[0].code == NoLift.METHOD


def test_lists_that_the_lift_cannot_use_are_named_and_too_many_withhold_it() -> None:
    rankings = np.random.default_rng(1).permuted(np.tile(np.arange(24), (20, 2, 1)), axis=2)
    flat, rng = ExposureWorld(rankings, np.full((20, 24), 0.2), np.ones(24)), np.random.default_rng(2)
    deep = analyze(flat.log(rng, 300, "competitive_pairs", 24)).lifts[0]
    assert (deep.lift, deep.code, deep.reason) == (None, NoLift.TOO_LONG, "lists are longer than 20 documents")
    world, rng = world_of(7, "1 / rank")
    log = world.log(rng, 3000, "competitive_pairs")
    short = analyze(log, examination=[1.0, 0.5]).lifts[0]
    assert (short.lift, short.code) == (None, NoLift.TOO_LONG)
    assert short.reason == "lists are longer than the given examination of 2 ranks"
    ranks = log["unshown_ranks"].to_pylist()
    for missing, code in ((1_200, ""), (1_800, NoLift.NO_RANKS)):
        column = pa.array([None] * missing + ranks[missing:], log.schema.field("unshown_ranks").type)
        report = analyze(log.set_column(log.column_names.index("unshown_ranks"), "unshown_ranks", column))
        assert report.lifts[0].code == code
        assert ("lift_left_out" in report.note_codes) == (not code)
        if not code:
            note = report.notes[report.note_codes.index("lift_left_out")]
            assert note == "The lift uses 1,800 of 3,000 lists. Left out: 1,200 without ranks of unshown documents."


def test_the_printed_report_says_the_lift_of_many_rankers_and_why_there_is_none() -> None:
    world, rng = world_of(7, "1 / rank")
    few = to_text(analyze(world.log(rng, 100, "competitive_pairs")))
    assert "How many more clicks A would get than B if it were live is not known: to learn how often" in few
    people = simulate.People(units=800)
    many = simulate.World(simulate.synthetic(60, 12, 5, seed=1), [1, 3, 5], people, "competitive_pairs", seed=3)
    report = analyze(next(iter(many.batches(units=800))), control="A")
    known = [one for one in report.lifts if one.second == "A" and one.lift is not None]
    assert len(known) == 2
    for one in known:
        assert f"If {one.first} were live in place of A: {100 * (one.lift or 0):+.1f} %" in to_text(report)


def test_the_order_of_rankers_and_parts_of_the_log_do_not_matter() -> None:
    world, rng = world_of(8, "1 / rank")
    log = world.log(rng, 3000, "competitive_pairs")
    whole, half = analyze(log, control="B").lifts[0], len(log) // 2
    parts = tally_log(log.slice(0, half)) + tally_log(log.slice(half))
    assert analyze(parts, control="B").lifts[0] == whole
    assert whole.lift is not None
    turned = analyze(log, control="A").lifts[0]
    assert turned.lift == pytest.approx(1 / (1 + whole.lift) - 1)


def test_a_report_says_the_lift_in_a_sentence() -> None:
    world, rng = world_of(2, "1 / rank")
    report = analyze(world.log(rng, 8000, "competitive_pairs"), control="B")
    (lift,) = report.lifts
    assert lift.lift is not None
    assert f"If A were live in place of B: {100 * lift.lift:+.1f} % clicks per search (95 %: " in str(report)
    back = Report.from_dict(report.to_dict())
    assert back.lifts == report.lifts
    assert back.examination == report.examination
    assert report.to_frames()["lifts"].num_rows == 1
    assert report.to_frames()["examination"].num_rows == 10
