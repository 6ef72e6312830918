"""Faults of a log that used to pass every check: each one is caught by a check of its own, and sound logs pass them.

Logs are made by the generators of `benchmarks.checks`, which share nothing with interleaf's own simulator.
"""

from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from benchmarks import checks, faulty_logs
from benchmarks.checks import PEOPLE
from benchmarks.faulty_logs import People
from interleaf import DataError, analyze, interleave
from interleaf.analysis.analyze import tally_log
from interleaf.audit.worlds import distribution
from interleaf.methods.registry import METHODS, resolve
from interleaf.report.build import CHECKS
from interleaf.report.codes import CheckCode, CheckInput, CheckResult, health_check
from interleaf.report.model import Check
from interleaf.report.rule import ReportSettings
from interleaf.tally import Tally
from interleaf.tally.evidence import ANY, DECIDED, GROUPS, HOUR, IMPOSSIBLE, MAX_STRETCHES, Timeline, rule_of
from tests.support.log_rows import Row, made_row, made_rows, table_of
from tests.support.worlds import WORLDS, worlds_of

SMALL = replace(PEOPLE, units=700)
CAUGHT = {
    "all clicks of one ranker lost": "failed",
    "half of its clicks lost": "failed",
    "clicks one rank too deep": "failed",
    "lists logged in another order": "failed",
    "5 % of lists with such teams": "failed",
    "click tracker dead for a day": "failed",
    "rankers exchanged midway": "failed",
    "A/B arms 60 to 40": "failed",
    "a new id at each visit": "warning",
    "20 % bots that come once": "failed",
    "texts of one ranker a third longer": "warning",
    "5 % of rows again, other ids": "failed",
    "half of such lists lost in a segment": "failed",
}


def check_of(health: tuple[Check, ...], code: str) -> Check:
    (found,) = [check for check in health if check.code == code]
    return found


@pytest.mark.parametrize("fault", CAUGHT)
def test_a_fault_is_caught_by_its_own_check(fault: str) -> None:
    people, break_log, code = checks.FAULTS[fault]
    report = checks.analyzed(people, break_log, seed=1)
    found = check_of(report.health, code)
    assert (found.status, bool(found.remedy)) == (CAUGHT[fault], True), found
    assert report.verdict.trusted == (CAUGHT[fault] == "warning")


@pytest.mark.parametrize("world", checks.SOUND)
def test_a_sound_log_fails_no_check(world: str) -> None:
    health = checks.analyzed(*checks.SOUND[world], seed=1).health
    assert [check for check in health if check.status == "failed"] == []


def test_every_check_has_a_code_of_its_own() -> None:
    report = checks.analyzed(SMALL, faulty_logs.ab_arms(0.5), seed=0)
    codes = [check.code for check in report.health]
    assert len(codes) == len(set(codes))
    assert [check["code"] for check in report.to_dict()["health"]] == codes
    assert codes == [code for code in CheckCode if code in codes]  # in the order of the codes
    assert set(CHECKS) == set(CheckCode)


def test_every_check_says_what_it_means_and_what_to_do() -> None:
    for check in CHECKS.values():
        assert len(check.documentation.split()) >= 10, check.code
        assert check.documentation.endswith("."), check.code
    assert len({check.title for check in CHECKS.values()}) == len(CHECKS)


def test_a_check_is_one_function_with_its_code() -> None:
    @health_check(CheckCode.LATENCY, "Speed of {}")
    def speed(data: CheckInput) -> list[CheckResult]:
        """Is every ranker fast?"""
        return [CheckResult("ok", "fast", "hurry", ranker) for ranker in data.tally.about.rankers]

    tally = tally_log(table_of(made_rows(30)))
    found = list(speed.run(CheckInput(tally, ReportSettings(), None, ())))
    assert found[0] == Check("Speed of A", "ok", "fast", "", "latency")  # a check that is ok has nothing to do
    assert len(found) == len(tally.about.rankers)
    assert speed.documentation == "Is every ranker fast?"


def test_too_little_data_is_no_verdict_of_a_check() -> None:
    health = analyze(table_of(made_rows(30))).health
    for code in ("clicks_by_rank", "clicks_by_ranker", "units_once"):
        assert check_of(health, code).status == "skipped"
        assert check_of(health, code).figure
    hour = [row | {"time": made_row(0)["time"]} for row in made_rows(30)]
    assert check_of(analyze(table_of(hour)).health, "events_over_time").status == "skipped"


@pytest.mark.parametrize("column", ["union", "choices"])
def test_lost_clicks_are_found_without_columns_that_team_draft_does_not_need(column: str) -> None:
    chance = np.random.default_rng(3)
    log = faulty_logs.table(faulty_logs.lost_clicks(0.5)(faulty_logs.sound(PEOPLE, chance), chance), PEOPLE)
    without = log.drop_columns([column]) if column in log.column_names else log
    assert check_of(analyze(without).health, "clicks_by_ranker").status == "failed"


def test_planned_shares_of_buckets_may_differ() -> None:
    chance = np.random.default_rng(2)
    people = replace(PEOPLE, units=3000)
    log = faulty_logs.table(faulty_logs.ab_arms(0.3)(faulty_logs.sound(people, chance), chance), people)
    tally = tally_log(log)
    assert check_of(analyze(tally).health, "ab_split").status == "failed"
    planned = {"production": 0.7, "candidate": 0.3}
    assert check_of(analyze(tally, split=planned).health, "ab_split").status == "ok"
    with pytest.raises(DataError, match="split names the arm 'candidat'"):
        analyze(tally, split={"candidat": 1})
    with pytest.raises(DataError, match="the planned share of 'candidate' is 0"):
        analyze(tally, split={"candidate": 0})


def test_a_holdout_without_a_planned_share_is_not_checked() -> None:
    rows = [row | ({"arm": "holdout"} if place % 3 == 0 else {}) for place, row in enumerate(made_rows(60))]
    found = check_of(analyze(table_of(rows)).health, "holdout_split")
    assert found.status == "skipped"
    assert "the planned share is not given" in found.figure


# Lists that no draw gives


def impossible(rows: list[Row]) -> list[bool]:
    """Which rows hold a list that cannot be drawn, by one tally each."""
    found = []
    for row in rows:
        lists = tally_log(table_of([row])).evidence.draws.lists
        assert lists[DECIDED] == 1
        found.append(bool(lists[IMPOSSIBLE]))
    return found


DRAWN = [name for name, method in METHODS.items() if method.schemes and rule_of(resolve(name)) != ANY]


@pytest.mark.parametrize("method", DRAWN)
def test_every_list_that_a_method_draws_is_possible(method: str) -> None:
    for world in worlds_of(resolve(method))[::3]:
        rankings = {f"r{place}": list(ranking) for place, ranking in enumerate(world.rankings)}
        if sum(map(bool, rankings.values())) < len(rankings):
            continue  # a log names no ranker without documents
        rows = []
        for number in range(8):
            shown = interleave(rankings, method, k=world.k, key=("draw", number))
            rows.append(shown.to_dict(rankings=True) | given_row(number))
        assert tally_log(table_of(rows)).evidence.draws.lists.tolist() == [8, 0]


def given_row(number: int) -> Row:
    names = ("experiment", "version", "impression", "time", "unit", "arm", "events", "attributes")
    return {name: value for name, value in made_row(number).items() if name in names}


@pytest.mark.parametrize("world", WORLDS[:3])
def test_lists_and_teams_are_possible_exactly_if_a_draft_can_give_them(world: Any) -> None:
    """All orders of all documents with all teams, held against the enumeration of the serving kernel."""
    rankings = [list(ranking) for ranking in world.rankings]
    size = min(world.k, *map(len, rankings))
    drawn = set(distribution(rankings, "team_draft", size))
    shown = interleave(dict(zip("AB", rankings, strict=True)), "team_draft", k=size, key="any")
    rows: list[Row] = []
    expected: list[bool] = []
    for documents in permutations(sorted({document for ranking in rankings for document in ranking}), size):
        for teams in product((0, 1), repeat=size):
            ranks = [
                [ranking.index(document) + 1 if document in ranking else 0 for document in documents]
                for ranking in rankings
            ]
            lists = {"documents": list(documents), "teams": list(teams), "ranks": ranks}
            rows.append(shown.to_dict(rankings=True) | lists | given_row(len(rows)))
            expected.append((documents, teams) not in drawn)
    tally = tally_log(table_of(rows))
    assert tally.evidence.draws.lists.tolist() == [len(rows), sum(expected)]
    some = list(range(0, len(rows), max(1, len(rows) // 12)))
    assert impossible([rows[place] for place in some]) == [expected[place] for place in some]


def test_a_method_that_draws_any_order_is_not_checked_for_it() -> None:
    found = check_of(analyze(table_of(made_rows(60, "probabilistic"))).health, "possible_lists")
    assert (found.status, found.figure) == ("skipped", "probabilistic can draw documents in any order")


# Evidence adds up


def same(one: Tally, other: Tally) -> bool:
    mine, theirs = (dict(tally.evidence.arrays()) | tally.evidence.rest for tally in (one, other))
    return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)


def test_evidence_of_parts_adds_up_and_is_kept(tmp_path: Any) -> None:
    chance = np.random.default_rng(3)
    people = People(units=300)
    table = faulty_logs.table(faulty_logs.ab_arms(0.5)(faulty_logs.sound(people, chance), chance), people)
    whole = tally_log(table, by=["device"])
    parts = [tally_log(table.slice(start, 150), by=["device"]) for start in range(0, table.num_rows, 150)]
    total = parts[0]
    for place, part in enumerate(parts[1:]):
        total = total + part if place % 2 else part + total
    assert same(total, whole)
    assert analyze(total).health == analyze(whole).health
    whole.save(tmp_path / "whole.tally")
    assert same(Tally.load(tmp_path / "whole.tally"), whole)


def test_a_timeline_keeps_its_size_and_adds_up_in_any_order() -> None:
    chance = np.random.default_rng(5)
    times = chance.integers(0, 3000, size=4000) * HOUR
    buckets, events = chance.integers(0, 1024, size=4000), chance.random(4000) < 0.3

    def of(rows: Any) -> Timeline:
        timeline = Timeline()
        timeline.add(times[rows], buckets[rows], events[rows])
        return timeline

    whole, total = of(np.arange(4000)), Timeline()
    for part in reversed(np.array_split(np.argsort(times), 7)):
        other = of(part)
        total.merge(other.step, other.places, other.counts)
    assert (total.step, len(total.places) <= MAX_STRETCHES) == (whole.step, True)
    assert np.array_equal(total.places, whole.places)
    assert np.array_equal(total.counts, whole.counts)
    assert total.counts.shape[1:] == (GROUPS, 2)
    assert total.counts.sum(axis=(0, 1)).tolist() == [4000, int(events.sum())]


def test_lists_whose_documents_have_several_owners_are_not_called_unfair() -> None:
    """Owners of competitive pairs of three rankers follow from the ranks; `teams` names only single ones."""
    rankings = {"A": list("abcde"), "B": list("bcaed"), "C": list("acbde")}
    rows = []
    for number in range(300):
        shown = interleave(rankings, "competitive_pairs", k=4, key=("several", number))
        rows.append(made_row(number) | shown.to_dict(rankings=True) | {"unit": f"u-{number}", "events": []})
    report = analyze(table_of(rows))
    assert [check.status for check in report.health if check.code == "fair_lists"] == ["skipped"]
    assert report.slots == ()
