"""One rule a report: every interval, p-value, chart, segment and sentence follows it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf import DataError, analyze
from interleaf.report.rule import ReportSettings, decide, fractions
from interleaf.stats.bootstrap import resample
from interleaf.stats.compare import estimates
from interleaf.stats.looks import spending, spending_p_value
from interleaf.stats.multiplicity import holm, holm_levels
from tests.report.test_weights_of_people import visit, visits
from tests.support.log_rows import Row, made_rows, table_of

LOOKS = (None, (1, 1), (1, 5), (3, 5), (5, 5))


def lists(share: float, units: int = 240) -> list[Row]:
    """Units with a visit or two, of which this share favours production."""
    chance = np.random.default_rng(5)
    sides = chance.choice([1, -1, 0], (units, 2), p=[share * 0.6, (1 - share) * 0.6, 0.4])
    return visits([row[: 1 + number % 2].tolist() for number, row in enumerate(sides)])


@given(st.lists(st.floats(0, 1) | st.none(), min_size=1, max_size=12))
def test_holm_s_levels_decide_as_its_adjusted_p_values(p_values: list[float | None]) -> None:
    for p_value, adjusted, level in zip(p_values, holm(p_values), holm_levels(p_values, 0.05), strict=True):
        if p_value is not None and adjusted is not None and not math.isclose(adjusted, 0.05, rel_tol=1e-9):
            assert (adjusted <= 0.05) == (p_value <= level)


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("share", [0.5, 0.62, 0.75])
def test_sentence_interval_p_value_and_chart_agree(look: tuple[int, int] | None, share: float) -> None:
    report = analyze(table_of(lists(share)), look=look, planned_units=240)
    (one,) = report.comparisons
    assert one.interval is not None
    assert one.adjusted_p_value is not None
    decided = one.interval[0] > 0 or one.interval[1] < 0
    assert decided == (one.adjusted_p_value <= 0.05) == (report.verdict.winner is not None)
    assert ("No difference" in report.verdict.sentence) != decided
    assert report.over_time[-1].interval == one.interval
    plain = json.loads(report.to_json())
    assert (plain["rule"], plain["look"]) == ("anytime" if look is None else "looks", look and list(look))


def test_tests_for_one_look_are_there_only_for_one_look() -> None:
    names = ("bootstrap_interval", "sign_flip_p_value", "sign_test_p_value", "unit_sign_test_p_value")
    for look in LOOKS:
        (one,) = analyze(table_of(lists(0.6)), look=look).comparisons
        for name in names:
            assert (getattr(one, name) is not None) == (look == (1, 1))
            assert look == (1, 1) or "one planned look" in one.reasons[name]
    with pytest.raises(DataError, match="max_t holds for one look"):
        analyze(table_of(lists(0.6)), correction="max_t")


def test_the_winner_of_a_decided_pair_comes_first() -> None:
    rows = lists(0.15)
    (one,) = analyze(table_of(rows), planned_units=240).comparisons
    assert (one.first, one.second, one.winner) == ("candidate", "production", "candidate")
    assert one.estimate is not None
    assert one.estimate > 0
    (kept,) = analyze(table_of(rows), control="candidate", planned_units=240).comparisons
    assert (kept.first, kept.estimate, kept.wins) == ("production", -one.estimate, one.losses)


def test_no_condorcet_winner_is_named_without_evidence() -> None:
    report = analyze(table_of(made_rows(60, of=3)))
    assert report.standing is not None
    assert report.standing.condorcet is None
    assert report.standing.reasons["condorcet"] == "no ranker surely beats all others"


def test_segments_follow_the_rule_and_hold_together() -> None:
    report = analyze(table_of(lists(0.75)), by=["device"], planned_units=240)
    pairs = [pair for segment in report.segments for pair in segment.comparisons]
    for pair in pairs:
        assert pair.interval is not None
        assert pair.adjusted_p_value is not None
        assert (pair.interval[0] > 0 or pair.interval[1] < 0) == (pair.adjusted_p_value <= 0.05)
    smallest = min(pair.p_value or 1.0 for pair in pairs)
    assert min(pair.adjusted_p_value or 1.0 for pair in pairs) == pytest.approx(min(1.0, 2 * smallest))


@pytest.mark.parametrize("look", LOOKS[1:])
def test_looks_are_held_against_the_information_that_was_collected(look: tuple[int, int]) -> None:
    settings = ReportSettings(planned_units=1_000, look=look)
    which, of = look
    shares = fractions(700, settings)
    assert len(shares) == which
    assert shares[-1] == pytest.approx(1.0 if which == of else min(0.7, which / of))
    found = estimates(np.tile([[1.0], [1.0], [0.0], [-1.0]], (100, 1)), np.ones((400, 1)))
    (decision,) = decide(found, 700, settings)
    assert decision.interval is not None
    edge = spending(shares)[-1]
    assert (decision.interval[0] > 0) == ((found[0].deviate or 0) > edge)


def test_the_p_value_of_spending_inverts_its_boundary() -> None:
    shares = (0.3, 0.55, 1.0)
    for confidence in (0.8, 0.9, 0.95, 0.99, 0.999):
        edge = spending(shares, confidence)[-1]
        assert spending_p_value(edge, shares) == pytest.approx(1 - confidence, rel=4e-3)
    values = [spending_p_value(z, shares) for z in np.linspace(0, 7, 50)]
    assert values == sorted(values, reverse=True)


def test_more_data_than_planned_keep_the_level_of_the_last_look() -> None:
    """Two looks were planned at 500 and 1,000 units; at the second, 1,500 had come."""
    chance = np.random.default_rng(8)
    runs = 40_000
    first = chance.normal(size=runs) * math.sqrt(500)
    last = first + chance.normal(size=runs) * math.sqrt(1_000)
    early = spending(fractions(500, ReportSettings(planned_units=1_000, look=(1, 2))))[-1]
    late = spending(fractions(1_500, ReportSettings(planned_units=1_000, look=(2, 2))))[-1]
    wrong = (np.abs(first) / math.sqrt(500) > early) | (np.abs(last) / math.sqrt(1_500) > late)
    assert wrong.mean() == pytest.approx(0.05, abs=0.005)


@pytest.mark.parametrize(
    ("planned", "sizes"),
    [
        (500, (200, 400, 600, 800, 1_000)),
        (500, (450, 900, 1_350, 1_800, 2_250)),
        (400, (300, 310, 320, 330, 1_000)),
        (500, (20, 40, 60, 80, 100)),
        (500, (100, 200, 300, 400, 500)),
    ],
)
def test_looks_keep_the_level_if_more_or_fewer_people_come_than_planned(planned: int, sizes: tuple[int, ...]) -> None:
    """Before, 9 % of experiments with twice the planned people at every look were wrong."""
    chance, runs = np.random.default_rng(9), 40_000
    steps = np.sqrt(np.diff((0, *sizes)))
    paths = np.cumsum(chance.normal(size=(runs, len(sizes))) * steps, axis=1) / np.sqrt(sizes)
    looks = [ReportSettings(planned_units=planned, look=(number, len(sizes))) for number in range(1, len(sizes) + 1)]
    edges = [spending(fractions(units, look))[-1] for units, look in zip(sizes, looks, strict=True)]
    assert (np.abs(paths) > edges).any(axis=1).mean() <= 0.06


def test_segments_are_shrunk_to_their_mean_and_named_only_where_they_differ() -> None:
    same = analyze(table_of(lists(0.7)), by=["device"], planned_units=240)
    phone, desk = (segment.comparisons[0] for segment in same.segments)
    assert phone.shrunken_estimate == pytest.approx(desk.shrunken_estimate)  # no more spread than chance
    assert min(phone.estimate or 0, desk.estimate or 0) < (phone.shrunken_estimate or 0)
    assert "do not differ more than chance explains" in same.to_markdown()
    assert (phone.differs_p_value or 0) > 0.05
    low, high = phone.interval or (0.0, 0.0)
    assert (phone.smallest_effect or 0) == pytest.approx((high - low) / 2 + 0.8416 * (phone.error or 0), rel=1e-3)
    rows = [
        row | {"attributes": {"device": "phone" if int(row["unit"][2:]) < 120 else "desk"}}
        for row in visits([[1]] * 100 + [[-1]] * 20 + [[-1]] * 100 + [[1]] * 20)
    ]
    split = analyze(table_of(rows), by=["device"], planned_units=240)
    assert "Segments by device differ from each other" in split.to_markdown()
    one = split.segments[0].comparisons[0]
    assert one.differs_p_value is not None
    assert one.differs_p_value < 0.001
    assert abs(one.shrunken_estimate or 0) == pytest.approx(abs(one.estimate or 0), rel=0.05)


def test_a_plan_is_not_used_where_the_same_people_only_come_again() -> None:
    """Sixty people who come once, one after the other; then the same people, ten times more."""
    chance = np.random.default_rng(2)
    first = [visit(number, number, int(chance.choice([1, -1, 1]))) for number in range(60)]
    again = [visit(60 + number, number % 60, int(chance.choice([1, -1, 1]))) for number in range(600)]
    for rows, is_stalled in ((first, False), (first + again, True)):
        report = analyze(table_of(rows), planned_units=60)
        (one,) = report.comparisons
        (without,) = analyze(table_of(rows)).comparisons
        assert (one.interval == without.interval) == is_stalled
        assert ("plan_stalled" in report.note_codes) == is_stalled
        assert report.planned_units == 60


def test_intervals_decide_as_the_p_values_adjusted_by_max_t() -> None:
    chance = np.random.default_rng(4)
    sums = chance.normal([0.0, 0.1, 0.2, 0.25, 0.3, 1.0], 1.0, (120, 6))
    settings = ReportSettings(correction="max_t", look=(1, 1))
    found = estimates(sums, np.ones_like(sums))
    decisions = decide(found, 120, settings, means=resample(sums, np.ones(120), 2_000, 1))
    excluded = [one.interval is not None and (one.interval[0] > 0 or one.interval[1] < 0) for one in decisions]
    assert excluded == [(one.adjusted_p_value or 0.0) <= 0.05 for one in decisions]
    assert set(excluded) == {True, False}
