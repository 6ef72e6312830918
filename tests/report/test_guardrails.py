"""Guardrails of a report: against the oracle in fractions, their codes, and what a broken one changes."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from interleaf import Report, Tally, analyze, interleave, tally_log
from interleaf.cli import main
from interleaf.errors import DataError
from interleaf.kernels.buckets import bucket_of
from interleaf.report.guardrails import base_of, code_of, sums_of
from interleaf.report.layout import HARMFUL, lay_out
from interleaf.report.model import GuardrailCode, VerdictCode
from tests.oracles import arms as oracle
from tests.support.log_rows import RANKINGS, START, made_event, table_of

RAILS = {"abandonment": 0.05, "latency": 20.0, "zero_results": 0.01, "event:purchase": 0.05, "more:complaint": 0.05}
ARMS = ("interleaved", "interleaved", "holdout")


def searches(count: int = 3_000, seed: int = 1, arms: tuple[str, ...] = ARMS, **worse: float) -> list[dict[str, Any]]:
    """Searches of 300 units, each in one arm; `worse` is the harm of the first arm by metric."""
    chance, found = Random(seed), []
    for number in range(count):
        user = chance.randrange(300)
        arm = arms[user % len(arms)]
        harm = worse if arm == arms[0] else {}
        method = "team_draft" if arm == "interleaved" else f"single(ranker={arm if arm in 'AB' else 'A'})"
        row = interleave(RANKINGS[:2], method, k=4, key=("row", seed, number)).to_dict()
        time = START + timedelta(minutes=number)
        taste = 0.2 * (user % 5)
        clicked = chance.random() > 0.1 + taste + harm.get("abandonment", 0)
        events = [made_event(1 if chance.random() < 0.5 else 2, time)] * clicked
        for kind, rate, sign in (("purchase", 0.3, -1), ("complaint", 0.2, 1)):
            if chance.random() < rate + sign * harm.get(kind, 0):
                events.append(made_event(1, time, 9, kind))
        if arm != "interleaved" and chance.random() < 0.05:
            row |= {"documents": [], "teams": [], "ranks": [[], []], "choices": [], "unshown_ranks": [[], []]}
            events = []
        slow = 100 + 50 * taste + chance.expovariate(1 / 20) + harm.get("latency", 0)
        more = {"experiment": "shop", "version": 1, "impression": f"i-{number}", "time": time, "unit": f"u-{user}"}
        found.append(row | more | {"arm": arm, "events": events, "attributes": {}, "latency": [slow, slow / 2]})
    return found


@cache
def report_of(rails: tuple[tuple[str, float], ...] = tuple(RAILS.items()), **options: Any) -> Report:
    worse = {name: options.pop(name) for name in ("abandonment", "latency", "purchase") if name in options}
    return analyze(table_of(searches(**worse)), control="A", guardrails=dict(rails), **options)


@pytest.mark.parametrize("arms", [ARMS, ("B", "A"), ("interleaved", "B", "A", "holdout")])
def test_harm_and_its_error_are_those_of_the_oracle(arms: tuple[str, ...]) -> None:
    rows = searches(arms=arms, latency=30.0, purchase=0.1)
    found = analyze(table_of(rows), control="A", guardrails=RAILS, look=(1, 1), confidence=0.9).guardrails
    base = "A" if "A" in arms else "holdout"
    assert {one.arm for one in found} == {*arms} - {base, "holdout"}
    buckets = {row["unit"]: bucket_of(row["unit"]) for row in rows}
    for one in found:
        assert (one.base, one.reason) == (base, "")
        sums = oracle.sums_of([_stored(row) for row in rows], one.metric, buckets)
        change, error = oracle.difference_of(sums[one.arm or ""], sums[base])
        harm = -change if one.metric.startswith("event:") else change
        assert one.harm == pytest.approx(float(harm), abs=1e-9)
        assert one.interval is not None
        assert one.value is not None
        assert one.base_value is not None
        assert sum(one.interval) / 2 == pytest.approx(float(harm), abs=1e-9)
        # The quantile of t for one look at 90 %, with Welch's degrees of freedom, is near that of the normal law.
        assert 1.645 * error < (one.interval[1] - one.interval[0]) / 2 < 1.70 * error


def _stored(row: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    return row | {"latency": [float(np.float32(value)) for value in row["latency"]]}


def test_codes_say_whether_the_harm_is_below_or_above_the_margin() -> None:
    codes = {one.metric: one.code for one in report_of(latency=60.0, purchase=0.25).guardrails}
    assert codes["latency"] == codes["event:purchase"] == "broken"
    assert codes["zero_results"] == "ok"  # a mixed list is never empty, the holdout's are
    assert {one.code for one in report_of((("latency", 60.0), ("more:complaint", 0.3))).guardrails} == {"ok"}
    assert [one.code for one in report_of((("abandonment", 0.001),)).guardrails] == ["undecided"]


def test_more_of_a_kind_is_harm_only_if_the_guardrail_says_so() -> None:
    fewer, more = analyze(
        table_of(searches(purchase=0.25)), control="A", guardrails={"event:purchase": 0.05, "more:purchase": 0.05}
    ).guardrails
    assert (fewer.code, more.code) == ("broken", "ok")
    assert fewer.harm == -(more.harm or 0)


def test_a_broken_guardrail_comes_before_the_preference_and_does_not_change_it() -> None:
    plain, broken = analyze(table_of(searches(latency=60.0)), control="A"), report_of(latency=60.0)
    assert broken.comparisons == plain.comparisons
    assert (broken.verdict.winner, broken.verdict.trusted) == (plain.verdict.winner, True)
    assert broken.verdict.codes == (VerdictCode.GUARDRAIL.value, *set(plain.verdict.codes) - {"undecided"})
    assert broken.verdict.code == "guardrail"
    assert len(broken.verdict.broken_guardrails) == 1
    assert "slowest ranker" in broken.verdict.next_step
    assert lay_out(broken).tone == HARMFUL
    assert not plain.guardrails
    assert not plain.verdict.broken_guardrails


def test_a_failed_check_comes_before_a_broken_guardrail() -> None:
    rows = searches(latency=60.0)
    report = analyze(table_of(rows), control="A", guardrails=RAILS, holdout=0.9)  # the split is far from that
    assert report.verdict.codes[:2] == ("broken", "guardrail")
    assert not report.verdict.trusted


def test_all_formats_have_the_guardrails(tmp_path: Path) -> None:
    report = report_of(latency=60.0)
    page = tmp_path / "page.html"
    report.to_html(page)
    for text in (str(report), report.to_markdown(), page.read_text("utf-8")):
        assert "✗ broken" in text
        assert "A guardrail is broken" in text
        assert "event:purchase" in text
    assert 'class="verdict harmful"' in page.read_text("utf-8")
    assert Report.from_dict(json.loads(report.to_json())) == report
    table = report.to_frames()["guardrails"].to_pylist()
    assert [row["code"] for row in table] == [one.code for one in report.guardrails]


def test_guardrails_are_not_corrected_and_follow_the_rule_of_the_report() -> None:
    alone, beside = report_of((("latency", 20.0),)), report_of(secondary=3)
    assert alone.guardrails[0] in beside.guardrails
    one_look = report_of(look=(1, 1)).guardrails[1].interval
    watched = alone.guardrails[0].interval
    assert one_look is not None
    assert watched is not None
    assert watched[0] < one_look[0] < one_look[1] < watched[1]


@pytest.mark.parametrize(
    ("arms", "rails", "reason"),
    [
        (("interleaved",), RAILS, "there is neither a holdout nor"),
        (("interleaved", "B"), RAILS, "there is neither a holdout nor"),  # B is a candidate, no base
        (("holdout",), RAILS, "there is no other arm to compare with holdout"),
        (("fallback", "holdout"), RAILS, "there is no other arm to compare with holdout"),
        (ARMS, {"event:return": 0.1}, "no search of these arms has an event of this kind"),
    ],
)
def test_what_cannot_be_compared_is_unknown_with_a_reason(
    arms: tuple[str, ...], rails: dict[str, float], reason: str
) -> None:
    report = analyze(table_of(searches(300, arms=arms)), control="A", guardrails=rails)
    assert {one.code for one in report.guardrails} == {"unknown"}
    assert all(one.reason.startswith(reason) for one in report.guardrails)
    assert "guardrail" not in report.verdict.codes


def test_a_log_without_latency_and_a_tally_without_the_kind_are_unknown() -> None:
    rows = [{name: value for name, value in row.items() if name != "latency"} for row in searches(300)]
    tally = tally_log(table_of(rows))
    (latency,) = analyze(tally, guardrails={"latency": 5}).guardrails
    (event,) = analyze(tally, guardrails={"event:purchase": 0.1}).guardrails
    assert (latency.code, latency.reason) == ("unknown", "no latency is logged for the lists of interleaved")
    assert (event.code, event.reason[:46]) == ("unknown", "the tally does not count this kind of event; g")


def test_reformulation_is_known_if_sessions_are_joined() -> None:
    report = analyze(table_of(searches(600)), control="A", sessions=1800, guardrails={"reformulation": 0.5})
    (one,) = report.guardrails
    metrics = {arm.name: {metric.name: metric.value for metric in arm.metrics} for arm in report.arms}
    assert (one.value, one.base_value) == tuple(metrics[name]["reformulation"] for name in ("interleaved", "holdout"))


@pytest.mark.parametrize("more", [{}, {"values": True}, {"by": ["device"]}, {"threads": 2}], ids=str)
def test_a_guardrail_joins_searches_and_changes_no_other_result(more: dict[str, Any]) -> None:
    table, rails = (
        table_of([row | {"attributes": {"device": "phone"}} for row in searches(600)]),
        {"reformulation": 0.5},
    )
    by_session = analyze(table, control="A", sessions=1800, guardrails=rails)
    joined, plain = analyze(table, control="A", guardrails=rails, **more), analyze(table, control="A", **more)
    assert joined.guardrails == by_session.guardrails
    assert joined.guardrails[0].value is not None
    assert joined.comparisons == plain.comparisons != by_session.comparisons
    assert joined.health == plain.health
    assert joined.segments == plain.segments


def test_searches_that_others_follow_are_those_of_the_oracle() -> None:
    rows = searches(600)
    tally = tally_log(table_of(rows), guardrails={"reformulation": 0.5})
    expected = oracle.follow_ups_of(rows)
    for name, arm in tally.arms.items():
        followed, searched = sums_of(arm, "reformulation", ())
        counts = [count for (own, _), count in expected.items() if own == name]
        assert [followed.sum(), searched.sum()] == [sum(column) for column in zip(*counts, strict=True)]
        assert followed.sum() > 0


def test_searches_are_joined_when_the_log_is_tallied() -> None:
    rails, table = {"reformulation": 0.5}, table_of(searches(300))
    (unknown,) = analyze(tally_log(table), guardrails=rails).guardrails
    assert (unknown.code, unknown.reason[:42]) == ("unknown", "the tally does not join searches to sessio")
    joined = tally_log(table, guardrails=rails)
    assert analyze(joined, guardrails=rails).guardrails[0].value is not None
    with pytest.raises(DataError, match="their joined differ, 1800 and None"):
        joined + tally_log(table)


def test_what_never_varies_is_known_up_to_one_search() -> None:
    rows = [row | {"latency": [7.0, 7.0]} for row in searches() if row["documents"]]
    rails = {"latency": 5, "zero_results": 0.0001}
    ours, empty = analyze(table_of(rows), control="A", guardrails=rails, look=(1, 1)).guardrails
    assert (ours.code, ours.harm, empty.code, empty.harm) == ("ok", 0.0, "undecided", 0.0)
    assert empty.interval is not None
    error = math.hypot(*(1 / sum(row["arm"] == arm for row in rows) for arm in ("interleaved", "holdout")))
    assert 1.9 * error < empty.interval[1] < 2.1 * error


@pytest.mark.parametrize(
    ("arms", "control", "base"),
    [
        (("interleaved", "A", "holdout"), "A", "A"),
        (("interleaved", "B", "holdout"), "A", "holdout"),
        (("interleaved", "B", "holdout"), None, "holdout"),
        (("interleaved", "A", "B"), None, "A"),
        (("interleaved", "B"), "A", None),
    ],
)
def test_the_base_is_the_control_or_the_holdout(arms: tuple[str, ...], control: str | None, base: str | None) -> None:
    tally: Tally = tally_log(table_of(searches(30, arms=arms)))
    assert base_of(tally, control) == base


def test_an_interval_at_the_margin_is_undecided() -> None:
    assert [code_of(one, 0.5) for one in ((0.0, 0.5), (0.5, 0.6), None)] == [GuardrailCode.UNDECIDED] * 3


@pytest.mark.parametrize(
    ("rails", "problem"),
    [
        ({"latency": 0}, "the margin of 'latency' is 0; give the largest harm that is acceptable, milliseconds above"),
        ({"latency": float("inf")}, "the margin of 'latency' is inf"),
        ({"abandonment": -0.1}, "the margin of 'abandonment' is -0.1; give the largest harm that is acceptable, a sha"),
        ({"abandonment": 1}, "the margin of 'abandonment' is 1"),
        ({"abandonment": True}, "the margin of 'abandonment' is True"),
        ({"abandonment": "much"}, "the margin of 'abandonment' is 'much'"),
        ({"abandonmnt": 0.1}, "there is no metric 'abandonmnt' for a guardrail"),
        ({"event:": 0.1}, "the guardrail 'event:' does not name a kind of event"),
        ({"event:KIND": 0.1}, "replace KIND in the guardrail"),
        ([("latency", 5)], "guardrails are [('latency', 5)]; give metrics with a margin each"),
        ({f"event:k{number}": 0.1 for number in range(21)}, "there are 21 guardrails; give at most 20"),
    ],
)
def test_wrong_guardrails_are_refused_with_the_remedy(rails: Any, problem: str) -> None:
    with pytest.raises(DataError) as error:
        analyze(table_of(searches(30)), guardrails=rails)
    assert str(error.value).startswith(problem)
    with pytest.raises(DataError) as error:
        analyze(tally_log(table_of(searches(30))), guardrails=rails)
    assert problem in str(error.value)


def test_a_misspelt_metric_is_suggested_and_all_problems_are_listed() -> None:
    with pytest.raises(DataError) as error:
        analyze(table_of(searches(30)), guardrails={"latancy": 5, "abandonment": 7})
    assert "did you mean 'latency'?" in str(error.value)
    assert "the margin of 'abandonment' is 7" in str(error.value)


def test_the_command_line_takes_guardrails_and_strict_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow.parquet as pq

    log = str(tmp_path / "log.parquet")
    pq.write_table(table_of(searches(latency=60.0)), log)
    words = ["analyze", log, "--control", "A", "--guardrail", "latency=20", "--guardrail", "event:purchase=0.3"]
    assert main([*words, "--strict"]) == 1
    text = capsys.readouterr().out
    assert "✗ broken" in text
    assert "✓ ok" in text
    assert main(words) == 0
    assert main(["analyze", log, "--guardrails", "latency=0"]) == 2
    assert "the margin of 'latency' is 0.0" in capsys.readouterr().err


def test_a_choice_of_the_best_of_many_has_guardrails_too() -> None:
    rows = [row | {"epoch": number // 1_000} for number, row in enumerate(searches(latency=60.0))]
    report = analyze(table_of(rows), control="A", guardrails={"latency": 20, "event:purchase": 0.3})
    assert report.choice is not None
    assert [one.code for one in report.guardrails] == ["broken", "ok"]
    assert report.verdict.code == "guardrail"
    assert report.verdict.sentence.startswith("A guardrail is broken (latency). ")
