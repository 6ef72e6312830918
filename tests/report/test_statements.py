"""What a report states of a pair: alike, preferred, worse or no worse, by a margin; and the chance that it will."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf import DataError, Experiment, Report, analyze
from interleaf.errors import ExperimentError
from interleaf.report.layout import lay_out
from interleaf.report.model import Check, Comparison, VerdictCode
from interleaf.report.rule import ReportSettings, decide, state
from interleaf.report.verdict import verdict
from interleaf.stats.compare import estimates
from tests.report.test_rule import lists
from tests.report.test_weights_of_people import visits
from tests.support.log_rows import table_of

ALIKE, PREFERRED, WORSE, NO_WORSE = "alike", "preferred", "worse", "no_worse"
TWO = ReportSettings(control="old", margin=0.1)
ends = st.floats(-1, 1).map(lambda end: round(end, 2))  # so that ends meet the margin


@given(ends, ends, ends.map(abs).filter(bool))
def test_statements_follow_from_the_ends_of_the_interval(one: float, other: float, margin: float) -> None:
    low, high = sorted((one, other))
    stated = set(state((low, high), (low, high), margin))
    assert (PREFERRED in stated, WORSE in stated) == (low > 0, high < 0)
    assert (NO_WORSE in stated) == (low > -margin)
    assert (ALIKE in stated) == (max(abs(low), abs(high)) < margin)
    assert state(None, None, margin) == ()


def compared(low: float, high: float, **more: Any) -> Comparison:
    """The candidate over the control, with this interval."""
    pair = Comparison("new", "old", (low + high) / 2, interval=(low, high), clicked=900, units=500, **more)
    return replace(pair, statements=state(pair.interval, pair.interval, TWO.margin))


@pytest.mark.parametrize(
    ("low", "high", "codes", "winner", "words"),
    [
        (-0.05, 0.06, [ALIKE, NO_WORSE], None, "new and old are alike: the score of new over old is"),
        (0.01, 0.06, [ALIKE, PREFERRED, NO_WORSE], "new", "new is preferred, but by less than the margin"),
        (-0.06, -0.01, [ALIKE, WORSE, NO_WORSE], "old", "old is preferred, but by less than the margin"),
        (0.05, 0.3, [PREFERRED, NO_WORSE], "new", "People prefer new to old"),
        (-0.3, -0.05, [WORSE], "old", "People prefer old to new"),
        (-0.05, 0.3, [NO_WORSE], None, "new is no worse than old"),
        (-0.3, 0.32, ["undecided"], None, "No difference between new and old is shown yet"),
    ],
)
def test_the_verdict_is_the_first_statement_that_holds(
    low: float, high: float, codes: list[str], winner: str | None, words: str
) -> None:
    found = verdict([compared(low, high)], [], TWO)
    assert (list(found.codes), found.code, found.winner) == (codes, codes[0], winner)
    assert words in found.sentence
    assert found.next_step


def test_a_failed_check_and_people_who_disagree_with_visits_come_first() -> None:
    failed = Check("Rows used", "failed", "half of the rows are broken")
    split = compared(-0.05, 0.06, people_and_visits_disagree=True, per_person_estimate=0.2, per_search_estimate=-0.2)
    assert verdict([split], [], TWO).codes == ("disagree", ALIKE, NO_WORSE)
    found = verdict([split], [failed], TWO)
    assert (found.code, found.codes) == ("broken", ("broken", "disagree", ALIKE, NO_WORSE))
    assert found.next_step.startswith("Fix what the failed checks report")


def test_people_and_visits_that_disagree_show_no_preference() -> None:
    heavy = [[-1] * 9 for _ in range(60)] + [[1] for _ in range(240)]
    (one,) = analyze(table_of(visits(heavy))).comparisons
    assert one.people_and_visits_disagree
    assert not {PREFERRED, WORSE} & set(one.statements)


def three(*intervals: tuple[float, float]) -> list[Comparison]:
    names = [("b", "a"), ("c", "a"), ("b", "c")]
    return [
        replace(compared(*interval), first=first, second=second)
        for (first, second), interval in zip(names, intervals, strict=True)
    ]


def test_many_rankers_are_alike_if_all_pairs_are_and_no_worse_if_all_candidates_are() -> None:
    settings = ReportSettings(control="a", margin=0.1)
    alike = verdict(three((-0.05, 0.05), (-0.01, 0.05), (-0.05, 0.05)), [], settings)
    assert (alike.code, alike.winner) == (ALIKE, None)
    assert "All rankers are alike" in alike.sentence
    no_worse = verdict(three((-0.05, 0.5), (-0.01, 0.5), (-0.5, 0.5)), [], settings)
    assert (no_worse.code, no_worse.winner) == (NO_WORSE, None)
    assert "No candidate is worse than the control a by 0.1 or more" in no_worse.sentence
    better = verdict(three((0.2, 0.5), (0.1, 0.5), (-0.5, 0.5)), [], settings)
    assert (better.code, better.winner) == (PREFERRED, None)
    assert "People prefer b and c to the control a; no ranker beats all others" in better.sentence
    assert better.next_step.startswith("Make one of them live")
    close = verdict(three((0.01, 0.05), (-0.05, 0.05), (0.01, 0.05)), [], settings)
    assert (close.codes, close.winner) == ((ALIKE, PREFERRED, NO_WORSE), "b")
    assert close.sentence.endswith("People prefer b, but by less than the margin.")
    assert verdict(three((-0.05, 0.5), (-0.5, 0.5), (-0.05, 0.05)), [], settings).code == "undecided"
    best = verdict(three((0.2, 0.5), (-0.5, 0.5), (0.2, 0.5)), [], settings)
    assert (best.code, best.winner) == (PREFERRED, "b")
    worst = verdict(three((-0.5, -0.2), (-0.5, -0.2), (-0.5, 0.5)), [], settings)
    assert (worst.code, worst.winner) == (WORSE, "a")


def test_with_several_pairs_a_margin_is_held_by_bonferroni_and_not_by_holm() -> None:
    """Holm's last interval has the whole level. It is too short for a statement about all pairs."""
    chance = np.random.default_rng(1)
    clear = chance.normal(0.5, 0.1, (900, 3))
    close = chance.normal(0.0, 0.1, (900, 1))
    pair = estimates(np.hstack([clear, close - close.mean()]), np.ones((900, 4)))
    settings = ReportSettings(look=(1, 1))
    holm = decide(pair, 900, settings)[-1].interval
    assert holm is not None
    margin = 1.1 * holm[1]
    assert ALIKE in state(holm, holm, margin)
    assert ALIKE not in decide(pair, 900, replace(settings, margin=margin))[-1].statements
    assert ALIKE in decide(pair[-1:], 900, replace(settings, margin=margin))[0].statements


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_the_margin_of_analyze_decides_and_is_in_every_form(share: float) -> None:
    log = table_of(lists(share))
    report = analyze(log, control="production", margin=0.9)
    assert report.verdict.code == ALIKE
    assert report.margin == 0.9
    assert analyze(log).margin == 0.01
    plain = report.to_dict()
    assert plain["comparisons"][0]["statements"] == plain["verdict"]["codes"]
    assert Report.from_dict(plain) == report
    assert "alike, " in report.to_markdown()
    assert report.to_frame().column("statements").to_pylist() == [list(report.verdict.codes)]
    assert lay_out(report).headline == "= Alike"
    code = analyze(log, control="production").verdict.code
    assert code == {0.2: PREFERRED, 0.5: "undecided", 0.8: WORSE}[share]


def test_codes_of_a_later_version_are_shown_as_undecided() -> None:
    plain = analyze(table_of(lists(0.5))).to_dict()
    plain["verdict"]["code"] = "surely_alike"
    assert lay_out(Report.from_dict(plain)).headline == "= No winner shown"


def test_the_chance_of_a_decision_is_known_while_a_plan_is_under_way() -> None:
    log = table_of(lists(0.5))
    (one,) = analyze(log).comparisons
    assert (one.chance_decided, one.reasons["chance_decided"]) == (None, "no number of units is planned")
    (one,) = analyze(log, planned_units=240).comparisons
    assert one.reasons["chance_decided"] == "the planned units have come"
    (one,) = analyze(log, margin=0.9, planned_units=1000).comparisons
    assert one.reasons["chance_decided"] == "it is decided"
    (one,) = analyze(log, planned_units=1000).comparisons
    (more,) = analyze(log, planned_units=100_000, margin=0.05).comparisons
    assert one.chance_decided is not None
    assert more.chance_decided is not None
    assert 0 <= one.chance_decided < more.chance_decided <= 1
    (look,) = analyze(log, look=(2, 5), planned_units=600).comparisons
    assert look.chance_decided is not None


def test_an_experiment_that_will_hardly_be_decided_says_so() -> None:
    report = analyze(table_of(lists(0.5)), planned_units=300)
    chance = report.comparisons[0].chance_decided
    assert chance is not None
    assert chance < 0.1
    words = "below 1 %" if chance < 0.01 else f"{100 * chance:.0f} %"
    assert f"will probably not be decided by its planned end: the chance is {words}" in report.verdict.next_step
    assert report.verdict.code == "undecided"


@pytest.mark.parametrize("margin", [0, -0.1, math.inf, math.nan])
def test_a_margin_that_is_no_number_above_0_is_refused(margin: float) -> None:
    with pytest.raises(DataError, match=r"the margin is .*; give the smallest preference"):
        analyze(table_of(lists(0.5)), margin=margin)
    with pytest.raises(ExperimentError, match="margin"):
        Experiment.of({"name": "shoes", "rankers": ["a", "b"], "margin": margin})


def test_a_margin_that_no_score_can_exceed_is_refused() -> None:
    with pytest.raises(DataError, match=r"the margin is 5; by the scheme 'binary_deduped' a preference is at most 1"):
        analyze(table_of(lists(0.5)), margin=5)
    assert analyze(table_of(lists(0.5)), margin=5, scheme="click").margin == 5


def test_an_a_a_test_that_is_alike_passes() -> None:
    report = analyze(table_of(lists(0.5)), margin=0.9, aa=True)
    assert report.verdict.next_step.startswith("The A/A test shows no difference")


def test_every_code_of_a_verdict_is_documented_by_its_statement() -> None:
    assert [code.value for code in VerdictCode] == [
        *("broken", "guardrail", "disagree", "alike", "preferred", "worse", "no_worse", "no_best", "undecided")
    ]
