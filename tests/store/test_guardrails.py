"""Guardrails in SQLite and in PostgreSQL: sums with latency and guarded kinds are those of the log, folded or not."""

import random
from fractions import Fraction
from typing import Any

import pytest

from interleaf import analyze
from interleaf.experiment import Experiment
from interleaf.kernels.buckets import bucket_of
from interleaf.methods.registry import methods
from interleaf.report.build import report
from interleaf.report.guardrails import sums_of
from interleaf.report.model import FAILED, WARNING
from interleaf.report.report import Report
from interleaf.store import fold
from interleaf.store.fold import report_settings_of
from interleaf.store.records import Event, StoredImpression
from interleaf.store.sql import SqlStore
from tests.oracles import arms as oracle
from tests.support.stores import HOUR, SECOND, START, address, check_sums, click, exported, impression, running, store

__all__ = ["address", "store"]
RAILS = {"abandonment": 0.3, "latency": 20.0, "event:purchase": 0.3, "more:complaint": 0.2}


def test_guardrails_of_a_store_are_those_of_its_log(store: SqlStore) -> None:
    settings = running(store, holdout=0.4, guardrails=RAILS, events={"click": 1.0, "return": -1.0})
    shown = []
    for number in range(400):
        latency = [100.0 + number % 7, None if number % 9 == 0 else 40.0 * (number % 5)]
        shown.append(impression(settings, number, number * SECOND, unit=f"u{number % 90}", latency=latency))
    events = [click(one, 1) for one in shown[::2]] + [click(one, 2, kind="purchase") for one in shown[::3]]
    events += [click(one, 1, kind="complaint") for one in shown[::5]]
    store.write(shown, events)
    reports = []
    for most in (0, 150, 400):  # nothing is folded, then a part, then all
        if most:
            store.fold(START + 4 * HOUR, most)
        check_sums(store, "shop")
        tally = store.tallies("shop", 1)["click"]
        reports.append(report(tally, report_settings_of(settings)).guardrails)
        assert tally.events["guarded"] == len(shown[::3]) + len(shown[::5])
        assert not tally.events["other_kind"]
    assert reports[0] == reports[1] == reports[2]
    assert [one.metric for one in reports[0]] == list(RAILS)
    assert all(one.value is not None for one in reports[0])
    assert not report(tally, report_settings_of(settings, "return")).guardrails
    assert exported(store, "shop").num_rows == 400


METHODS = [one.name for one in methods() if one.schemes]


@pytest.mark.parametrize("more", [{"method": name} for name in METHODS] + [{"mode": "one_list"}])
def test_empty_lists_are_those_of_the_log(store: SqlStore, more: dict[str, Any]) -> None:
    settings = running(store, holdout=0.3, guardrails={"zero_results": 0.05}, **more)
    shown = []
    for number in range(600):
        lost: dict[str, list[str]] = (
            {"candidate": []} if number % 5 == 0 else {"production": []} if number % 7 == 0 else {}
        )
        lost |= {"production": []} if number % 15 == 0 else {}
        shown.append(impression(settings, number, number * SECOND, unit=f"u{number % 90}", rankings=lost))
    clicks = [click(one, 1) for one in shown[::2] if one.row["documents"]]
    store.write(shown, clicks)
    reports = []
    for most in (0, 250, 600):
        if most:
            store.fold(START + 4 * HOUR, most)
        check_sums(store, "shop")
        reports.append(report(store.tallies("shop", 1)["click"], report_settings_of(settings)))
    table = exported(store, "shop")
    rows, buckets = table.to_pylist(), {f"u{number}": bucket_of(f"u{number}") for number in range(90)}
    expected = oracle.sums_of(rows, "zero_results", buckets)
    arms = {"holdout", *(settings.rankers if more.get("mode") else ["interleaved"])}
    assert set(expected) == arms
    tally = store.tallies("shop", 1)["click"]
    for arm in arms:
        sums, counts = sums_of(tally.arms[arm], "zero_results", ())
        assert sum(total for total, _ in expected[arm].values()) == Fraction(int(sums.sum())) > 0
        assert sum(count for _, count in expected[arm].values()) == counts.sum()
    from_log = analyze(table, control="production", guardrails=settings.guardrails, holdout=0.3)
    for one in (*reports, from_log):
        assert one.guardrails == reports[0].guardrails
        assert all(rail.value is not None for rail in one.guardrails)
        assert not find_problems(one)


def send_sessions(settings: Experiment) -> tuple[list[StoredImpression], list[Event]]:
    """Searches of people who come back after some minutes or hours; some fail, and some are clicks of a bot."""
    chance = random.Random(11)
    shown, clicks = list[StoredImpression](), list[Event]()
    for person in range(60):
        at = chance.randrange(HOUR)
        for number in range(chance.randrange(1, 9)):
            lost = {"rankings": {"candidate": None}} if chance.random() < 0.1 else {}
            one = impression(settings, 100 * person + number, at, unit=f"u{person}", **lost)
            shown.append(one)
            ranks = range(1, 5) if chance.random() < 0.1 else [1] if chance.random() < 0.5 else []
            clicks += [click(one, rank, after=chance.randrange(HOUR)) for rank in ranks]
            at += chance.choice([0, SECOND, 600 * SECOND, 1790 * SECOND, 1800 * SECOND, 2500 * SECOND, 4 * HOUR])
    chance.shuffle(shown)
    return shown, clicks


@pytest.mark.parametrize(
    "more", [{"holdout": 0.4}, {"mode": "one_list"}, {"attribution": "last_impression", "holdout": 0.3}]
)
def test_searches_that_others_follow_are_those_of_the_log(
    store: SqlStore, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "PAGE", 50)
    settings = running(store, guardrails={"reformulation": 0.1}, events={"click": 1, "buy": 5}, bot_clicks=4, **more)
    shown, clicks = send_sessions(settings)
    other = running(store, name="other")
    store.write([impression(other, 1, unit="u1"), *shown], clicks)
    reports = []
    for hours in (0, 2, 5, 9, 40):  # nothing is folded, then a part, then all
        while hours and store.fold(START + hours * HOUR, 37):
            pass
        check_sums(store, "shop")
        tally = store.tallies("shop", 1)["click"]
        reports.append(report(tally, report_settings_of(settings)).guardrails)
    assert store.counts("shop").folded == len(shown)
    rows = [row for row in exported(store, "shop").to_pylist() if row["excluded"] is None]
    assert len(rows) < len(shown)
    expected = dict[tuple[str, int], list[int]]()
    for (arm, unit), counts in oracle.follow_ups_of(rows).items():
        into = expected.setdefault((arm, bucket_of(unit)), [0, 0])
        into[:] = [old + new for old, new in zip(into, counts, strict=True)]
    for arm, sums in tally.arms.items():
        followed, searches = sums_of(sums, "reformulation", ())
        found = {(arm, place): [followed[place], searches[place]] for place in searches.nonzero()[0].tolist()}
        assert found == {key: counts for key, counts in expected.items() if key[0] == arm}
        assert 0 < followed.sum() < searches.sum()
    from_log = analyze(exported(store, "shop"), control="production", guardrails=settings.guardrails, holdout=0.3)
    assert all(one == reports[0] for one in (*reports, from_log.guardrails))
    assert all(one.value is not None for one in reports[0])


def find_problems(one: Report) -> list[str]:
    """The health checks that fail or warn, but for warnings that a method is not fair to any lists."""
    found = [check for check in one.health if check.status in (FAILED, WARNING)]
    known = ("fair_scoring", "constraints_met")
    return [f"{one.code}: {one.figure}" for one in found if one.status == FAILED or one.code not in known]
