"""Health checks: each one provoked, and fine where nothing is wrong; verdicts that say no more than the figures do."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from interleaf.analysis.analyze import analyze, tally_log
from interleaf.decode.columns import Exclusion
from interleaf.errors import DataError
from interleaf.log.drop_reasons import EventFate
from interleaf.report.build import CHECKS
from interleaf.report.codes import CheckCode
from interleaf.report.model import DRAWN_OWNERS, Check, Comparison, Totals, UndecidedCode
from interleaf.report.report import Report
from interleaf.report.rule import ReportSettings
from interleaf.report.verdict import verdict
from tests.support.log_rows import Row, made_row, made_rows, table_of, with_column

HEALTHY = [
    "rows_used",
    "repeated_impressions",
    "repeated_content",
    "events_unmatched",
    "events_early",
    "events_late",
    "events_repeated",
    "events_over_time",
    "clicks_by_rank",
    "units_known",
    "enough_units",
    "units_once",
    "fallbacks",
    "fair_lists",
    "rankings_differ",
    "possible_lists",
    "clicks_by_ranker",
    "effect_over_time",
    "fair_scoring",
    "holds_without_query",
]
# Every unit comes once; no document falls by a coin; no preference is shown.
UNDECIDED = {"units_once", "clicks_by_ranker", "holds_without_query"}


def many_rows(count: int = 300, method: str = "team_draft", **more: Any) -> list[Row]:
    """Each of a unit of its own."""
    return [row | {"unit": f"u-{number}"} for number, row in enumerate(made_rows(count, method, **more))]


def status_of(report: Report, code: str) -> str:
    (found,) = [check for check in report.health if check.code == code]
    assert (found.status in ("ok", "skipped")) == (not found.remedy)
    return found.status


def test_a_sound_log_passes_every_check() -> None:
    report = analyze(table_of(many_rows()))
    assert [check.code for check in report.health] == HEALTHY
    assert {check.code for check in report.health if check.status == "skipped"} == UNDECIDED
    assert {check.status for check in report.health if check.code not in UNDECIDED} == {"ok"}
    assert report.verdict.trusted


def some(rows: Iterable[Row], share: float, change: Callable[[Row], Row]) -> list[Row]:
    """A share of the rows changed, evenly spread."""
    found = []
    for number, row in enumerate(rows):
        is_changed = math.floor((number + 1) * share) > math.floor(number * share)
        found.append(row | change(row) if is_changed else row)
    return found


def copied(row: Row, times: int = 3) -> Row:
    return {"events": [event | {"event": f"at {event['rank']}"} for event in row["events"] * times]}


def early(row: Row) -> Row:
    return {"events": [event | {"time": row["time"] - timedelta(seconds=1)} for event in row["events"]]}


def late(row: Row) -> Row:
    return {"events": [event | {"time": row["time"] + timedelta(hours=1)} for event in row["events"]]}


def owned_by_first(row: Row) -> Row:
    return {"teams": [0] * len(row["teams"])}


def alike(row: Row) -> Row:
    return {"ranks": [row["ranks"][0]] * 2}


PROVOKED: dict[str, tuple[str, float, float, Callable[[Row], Row]]] = {
    "broken": ("rows_used", 0.03, 0.2, lambda row: {"teams": [0]}),
    "early": ("events_early", 0.05, 0.3, early),
    "late": ("events_late", 0.05, 0.3, late),
    "copied": ("events_repeated", 0.9, 1.0, copied),
    "fallback": ("fallbacks", 0.05, 0.2, lambda row: {"arm": "fallback", "method": "single(ranker=A)"}),
}


@pytest.mark.parametrize("name", PROVOKED)
def test_a_share_too_large_warns_and_then_fails(name: str) -> None:
    check, little, much, change = PROVOKED[name]
    rows = many_rows()
    found = analyze(table_of(some(rows, little, change)), window=600)
    assert status_of(found, check) == "warning"
    assert found.verdict.trusted
    found = analyze(table_of(some(rows, much, change)), window=600)
    if name == "copied":  # every event came three times, and is counted once
        assert found.comparisons == analyze(table_of(rows)).comparisons
    if name in ("copied", "late"):  # mended, or asked for by the window
        assert status_of(found, check) == "warning"
    else:
        assert status_of(found, check) == "failed"
        assert not found.verdict.trusted
        assert found.verdict.sentence.startswith("Do not trust this yet: 1 health check failed. ")
        assert found.verdict.why[0].startswith(f"{CHECKS[CheckCode(check)].title}: ")


def test_clicks_that_come_again_with_their_dwell_are_no_reason_to_warn() -> None:
    rows = many_rows()
    found = analyze(table_of(some(rows, 1.0, lambda row: copied(row, 2))), window=600)
    assert status_of(found, "events_repeated") == "ok"


def test_repeated_impressions_are_left_out_and_counted() -> None:
    rows = many_rows()
    report = analyze(table_of([*rows, *rows[:2]]))
    assert report.comparisons == analyze(table_of(rows)).comparisons
    assert status_of(report, "repeated_impressions") == "warning"
    assert report.totals.dropped == {"repeated_impression": 2}
    assert status_of(analyze(table_of([*rows, *rows[:9]])), "repeated_impressions") == "failed"


def test_rows_left_out_by_rule_fail_no_check() -> None:
    report = analyze(table_of(many_rows()), exclude=Exclusion({"device": ["phone"]}))
    assert report.totals.dropped == {"excluded:device = phone": 150}
    assert status_of(report, "rows_used") == "ok"


def test_impressions_that_are_their_own_units_are_told() -> None:
    rows = [row | {"unit": None} for row in many_rows(40)]
    report = analyze(table_of(rows))
    assert status_of(report, "units_known") == "warning"
    own = [row | {"unit": row["impression"]} for row in rows]
    assert report.comparisons == analyze(table_of(own)).comparisons


def test_few_units_are_told() -> None:
    assert status_of(analyze(table_of(made_rows(60))), "enough_units") == "warning"


def test_lists_that_one_ranker_owns_more_of_fail() -> None:
    rows = many_rows()
    assert status_of(analyze(table_of(some(rows, 0.5, owned_by_first))), "fair_lists") == "failed"
    slots = analyze(table_of(rows)).slots
    for position in range(4):
        for ranker, name in enumerate("AB"):
            owned = [row["teams"][position] for row in rows if row["teams"][position] >= 0]
            (slot,) = [one for one in slots if (one.position, one.ranker) == (position + 1, name)]
            assert slot.share == owned.count(ranker) / len(owned)
            assert slot.expected == 0.5


def test_lists_without_teams_are_fair_where_top_documents_come_first_as_often() -> None:
    rows = many_rows(300, "pairwise_preference")
    assert status_of(analyze(table_of(rows)), "fair_lists") == "ok"
    ahead = [row for row in rows if row["documents"][0] == "a"]
    assert status_of(analyze(table_of(ahead)), "fair_lists") == "failed"


def test_neutrality_is_that_of_the_lists() -> None:
    rows = many_rows(50)
    for ranker, found in enumerate(analyze(table_of(rows)).neutrality):
        inside = [
            position + 1
            for row in rows
            for position, rank in enumerate(row["ranks"][ranker])
            if 0 < rank <= len(row["documents"])
        ]
        assert found.documents_shown == len(inside) / len(rows)
        assert found.shown_first == sum(row["ranks"][ranker][0] == 1 for row in rows) / len(rows)
        assert found.mean_reciprocal_rank == pytest.approx(sum(1 / rank for rank in inside) / len(inside), abs=1e-6)


def test_rankings_that_hardly_differ_are_told() -> None:
    assert status_of(analyze(table_of(some(many_rows(), 0.97, alike))), "rankings_differ") == "warning"


def test_relaxed_lists_make_credit_biased() -> None:
    report = analyze(table_of(some(many_rows(100, "optimized"), 0.03, lambda row: {"relaxed": True})))
    assert status_of(report, "constraints_met") == "warning"
    assert status_of(report, "fair_scoring") == "warning"


def test_units_that_change_their_arm_fail() -> None:
    rows = many_rows(200)
    single: Row = {"arm": "holdout", "method": "single(ranker=A)"}
    apart = [row | single if number % 5 == 0 else row for number, row in enumerate(rows)]
    report = analyze(table_of(apart), holdout=0.2)
    assert status_of(report, "units_in_one_arm") == status_of(report, "holdout_split") == "ok"
    assert status_of(analyze(table_of(apart), holdout=0.5), "holdout_split") == "failed"
    crossed = [row | {"unit": f"u-{number // 2}"} for number, row in enumerate(apart)]
    assert status_of(analyze(table_of(crossed)), "units_in_one_arm") == "failed"
    fallback = [row | {"arm": "fallback"} if row["arm"] == "holdout" else row for row in crossed]
    assert "units_in_one_arm" not in [check.code for check in analyze(table_of(fallback)).health]


def test_a_difference_to_the_holdout_is_told_with_its_cause_and_not_where_its_people_are_all_alike() -> None:
    single: Row = {"arm": "holdout", "method": "single(ranker=A)"}

    def checked(clicks: Callable[[int], int]) -> Check:
        held = [made_row(number, range(1, 1 + clicks(number)), unit=f"h-{number}") | single for number in range(60)]
        report = analyze(table_of(many_rows(300)[60:] + held))
        (found,) = [one for one in report.health if one.code == "holdout_clicks"]
        return found

    alike, more, none = (
        checked(lambda number: 4),
        checked(lambda number: 4 - (number == 7)),
        checked(lambda number: number == 7),
    )
    assert (alike.status, alike.remedy) == ("skipped", "")
    assert "all units of the holdout arm are alike" in alike.figure
    assert (more.status, none.status) == ("warning", "warning")
    assert "a candidate is worse" in more.remedy
    assert "a candidate is better" in none.remedy


def test_latency_is_a_quantile_of_each_ranker() -> None:
    rows = [row | {"latency": [10 + number % 100, 200.0]} for number, row in enumerate(many_rows())]
    first, second = (check.figure for check in analyze(table_of(rows)).health if check.code == "latency")
    middle, slow = (float(word) for word in first.split() if word.isdecimal() and word != "95")
    assert middle == pytest.approx(59.5, rel=0.1)
    assert slow == pytest.approx(104.5, rel=0.1)
    assert second.startswith("median 20")


@pytest.mark.parametrize("odd", [[math.inf, 5.0], [5.0, math.inf], [math.nan, 5.0], [-1.0, 5.0], [5.0], None])
def test_a_latency_that_cannot_be_is_not_counted_for_another_ranker(odd: Any) -> None:
    source = table_of(many_rows(40))
    usual = [[5.0, 5.0]] * 40
    lists = tally_log(with_column(source, "latency", [*usual[:-1], odd])).lists.latency
    (place,) = tally_log(with_column(source, "latency", usual)).lists.latency[0].nonzero()[0]
    for ranker, bins in enumerate(lists):
        known = odd is not None and len(odd) == 2 and odd[ranker] == 5
        assert bins[place] == 39 + known
        assert bins[:place].sum() == 0


# Verdicts.

ESTIMATED = Comparison("A", "B", 0.2, 0.05, (0.05, 0.35), 0.01, 0.01)
ONE = replace(ESTIMATED, wins=60, losses=40, ties=0, clicked=100)


def test_a_verdict_says_who_wins_and_how_sure_one_may_be() -> None:
    found = verdict([ONE], [], ReportSettings())
    assert (found.winner, found.trusted) == ("A", True)
    assert "100 lists" in found.sentence
    assert "60 favoured A, 40 B and 0 neither" in found.sentence
    open_yet = verdict([replace(ONE, interval=(-0.01, 0.4), units=30)], [], ReportSettings())
    assert (open_yet.winner, open_yet.undecided_because) == (None, UndecidedCode.NOT_SHOWN)
    assert verdict([replace(ONE, interval=(-0.4, -0.1), estimate=-0.2)], [], ReportSettings()).winner == "B"
    assert verdict([Comparison("A", "B")], [], ReportSettings()).undecided_because == UndecidedCode.NO_EVENTS
    assert verdict([], [], ReportSettings()).undecided_because == UndecidedCode.NO_LISTS
    assert verdict([replace(ONE, interval=None)], [], ReportSettings()).undecided_because == UndecidedCode.TOO_EARLY
    assert found.undecided_because == ""


def test_the_next_step_differs_when_clicks_came_and_did_not_count() -> None:
    waits, without_clicks = "look again after the first clicks", [Comparison("A", "B")]
    nothing = Totals(100, 0, 50, True, None, None)
    assert waits in verdict(without_clicks, [], ReportSettings(), nothing).next_step
    assert waits in verdict([], [], ReportSettings(), replace(nothing, events={"unmatched": 7})).next_step
    for status in ("unmatched", "counted", "other_kind", "late", "unplaced"):
        step = verdict(without_clicks, [], ReportSettings(), replace(nothing, events={status: 7})).next_step
        assert waits not in step
        assert "the report counts their kind and time" in step


def test_rankings_that_are_one_need_not_differ_in_an_aa() -> None:
    rows = [row | alike(row) for row in many_rows()]
    assert status_of(analyze(table_of(rows)), "rankings_differ") == "warning"
    assert status_of(analyze(table_of(rows), aa=True), "rankings_differ") == "skipped"


def test_the_verdict_has_the_sign_of_the_tables() -> None:
    first = verdict([replace(ONE, clicked=9)], [], ReportSettings()).sentence
    assert "the score of A over B is +0.200, between +0.050 and +0.350" in first
    lost = replace(ONE, clicked=9, estimate=-0.2, interval=(-0.35, -0.05))
    assert (
        "the score of A over B is -0.200, between -0.350 and -0.050" in verdict([lost], [], ReportSettings()).sentence
    )


def test_small_scores_do_not_round_to_nothing() -> None:
    small = replace(ONE, clicked=9, estimate=0.0004, interval=(0.00012, 0.0014))
    assert (
        "the score of A over B is +0.00040, between +0.00012 and +0.0014"
        in verdict([small], [], ReportSettings()).sentence
    )
    none = replace(small, interval=(-0.0002, 0.0014), units=30)
    sentence = verdict([none], [], ReportSettings()).sentence
    assert "is +0.00040, and the data of 30 units allow anything from -0.00020 to +0.0014" in sentence


def test_when_all_agree_it_is_said_plainly_and_nobody_wins() -> None:
    found = replace(Comparison("A", "B", -1.0), wins=0, losses=40, ties=0, clicked=40, is_uniform=True)
    said = verdict([found], [], ReportSettings())
    assert (said.winner, said.undecided_because) == (None, UndecidedCode.TOO_UNIFORM)
    assert said.sentence.startswith("All 40 lists with a preference favour B, so no interval can be computed")
    mixed = replace(found, wins=10)  # every bucket as many wins, and as many losses
    assert mixed.unanimous is None
    owned = replace(found, counted_by=DRAWN_OWNERS)  # scores are averaged over owners, so counts may contradict them
    assert replace(owned, wins=1, losses=0).unanimous is None
    even = verdict([replace(owned, losses=0, ties=40)], [], ReportSettings())
    assert even.undecided_because == UndecidedCode.TOO_UNIFORM
    three = [replace(found, second="B"), replace(ONE, second="C"), replace(ONE, first="B", second="C")]
    assert verdict(three, [], ReportSettings()).undecided_because == UndecidedCode.TOO_UNIFORM


def test_planned_looks_decide_instead_of_anytime_intervals() -> None:
    found = verdict([replace(ONE, interval=(0.1, 0.3), units=30)], [], ReportSettings(look=(2, 5)))
    assert found.winner == "A"
    assert "with 95 % confidence, at look 2 of 5" in found.sentence
    assert verdict([replace(ONE, interval=(-0.1, 0.3), units=30)], [], ReportSettings(look=(2, 5))).winner is None


def test_the_verdict_says_if_lists_are_counted_by_the_drawn_owners() -> None:
    found = replace(ONE, clicked=90, wins=50, losses=30, ties=10, counted_by=DRAWN_OWNERS)
    assert verdict([found], [], ReportSettings()).sentence.startswith(
        "People prefer A to B: of 90 lists with an event, counted by the drawn owners, 50 favoured A, 30 B and 10 "
        "neither. The difference is significant"
    )


def test_many_rankers_are_held_against_all_pairs() -> None:
    def pairs(*decided: bool) -> list[Comparison]:
        names = [("A", "B"), ("A", "C"), ("B", "C")]
        return [
            replace(ONE, first=a, second=b, interval=(0.1, 0.3) if one else (-0.1, 0.3))
            for (a, b), one in zip(names, decided, strict=True)
        ]

    assert verdict(pairs(True, True, False), [], ReportSettings()).winner == "A"
    assert verdict(pairs(True, False, False), [], ReportSettings()).winner is None
    found = verdict(pairs(True, False, False), [], ReportSettings(control="B"))
    assert "People prefer A to the control B" in found.sentence
    assert found.winner is None


def test_a_failed_check_takes_the_trust_away_and_a_warning_does_not() -> None:
    failed, warning = Check("Rows used", "failed", "none", "mend"), Check("Units known", "warning", "some", "log")
    assert verdict([ONE], [warning], ReportSettings()).trusted
    found = verdict([ONE], [failed, warning, failed], ReportSettings())
    assert (found.trusted, found.why) == (False, ("Rows used: none", "Rows used: none"))
    assert found.sentence.startswith("Do not trust this yet: 2 health checks failed. People prefer A")


def with_events(rows: Iterable[Row], change: Callable[[Row], Row]) -> Any:
    return table_of([row | {"events": [change(event) for event in row["events"]]} for row in rows])


@pytest.mark.parametrize(
    ("change", "options", "fate"),
    [
        (dict, {"events": "purchase"}, EventFate.OTHER_KIND),
        (lambda event: event | {"dwell": 1.0}, {"dwell": 30}, EventFate.SHORT_DWELL),
        (dict, {"window": 1}, EventFate.LATE),
        (lambda event: event | {"time": event["time"] - timedelta(days=1)}, {}, EventFate.EARLY),
    ],
)
def test_events_that_came_and_do_not_count_fail_a_check_and_the_verdict_says_so(
    change: Callable[[Row], Row], options: dict[str, Any], fate: EventFate
) -> None:
    report = analyze(with_events(many_rows(), change), **options)
    (check,) = [check for check in report.health if check.code == "events_counted"]
    assert (check.status, report.verdict.trusted) == ("failed", False)
    assert set(report.totals.events) == {fate}
    assert f"{report.totals.events[fate]:,} {fate.text}" in check.figure
    assert report.verdict.undecided_because == UndecidedCode.EVENTS_NOT_COUNTED


def test_clicks_on_other_arms_only_are_not_called_nobody() -> None:
    rows = some(many_rows(), 0.5, lambda row: {"arm": "holdout"})
    rows = [row | ({"events": []} if row["arm"] == "interleaved" else {}) for row in rows]
    report = analyze(table_of(rows))
    assert status_of(report, "events_counted") == "failed"
    assert report.verdict.undecided_because == UndecidedCode.EVENTS_ELSEWHERE


def test_an_experiment_that_has_just_begun_fails_no_check_for_want_of_events() -> None:
    young = analyze(table_of([row | {"events": []} for row in many_rows(99)]))
    assert "events_counted" not in [check.code for check in young.health]
    assert young.verdict.undecided_because == UndecidedCode.NO_EVENTS
    assert status_of(analyze(table_of([row | {"events": []} for row in many_rows(100)])), "events_counted") == "failed"


def test_a_split_by_an_attribute_that_no_row_has_is_refused_with_the_nearest_one() -> None:
    table = table_of(many_rows())
    with pytest.raises(DataError, match=r"'devcie'; did you mean 'device'\? \(the log has 'device'\)"):
        analyze(table, by=["devcie"])
    with pytest.raises(DataError, match="the log has none"):
        analyze(table_of([row | {"attributes": {}} for row in many_rows()]), by=["device"])
    assert analyze(table, by=["device"], exclude={"device": ["tablet"]}).segments


def test_fair_lists_is_skipped_for_few_units_with_that_reason() -> None:
    (check,) = [check for check in analyze(table_of(made_rows(300))).health if check.code == "fair_lists"]
    assert check.status == "skipped"
    assert check.figure.startswith("too few units: this test needs 10 effective units, and there are 7")
    one = [row | {"unit": "u"} for row in made_rows(300)]
    (check,) = [check for check in analyze(table_of(one)).health if check.code == "fair_lists"]
    assert check.figure.startswith("all impressions come from one unit")


def test_a_time_that_no_experiment_has_is_dropped_and_lengthens_no_report() -> None:
    late = made_row(1000) | {"time": datetime(9999, 12, 1, tzinfo=UTC), "events": []}
    report = analyze(table_of([*many_rows(), late]))
    assert report.totals.dropped == {"far_time": 1}
    assert report.totals.until is not None
    assert report.totals.until.year == 2026


@pytest.mark.parametrize("look", [(1, 5000), (0, 5), (7, 5), (1, 201)])
def test_a_look_that_cannot_be_planned_is_refused_in_short(look: tuple[int, int]) -> None:
    with pytest.raises(DataError, match=f"there is no look {look[0]} of {look[1]}") as caught:
        analyze(table_of(many_rows()), look=look)
    assert len(str(caught.value)) < 250
