"""Guardrails in SQLite and in PostgreSQL: sums with latency and guarded kinds are those of the log, folded or not."""

from interleaf.report.build import report
from interleaf.store.fold import report_settings_of
from interleaf.store.sql import SqlStore
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
