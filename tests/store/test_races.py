"""Workers that do the same at the same time: each event counts once, where it belongs, and no row is left alone."""

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interleaf.experiment import Experiment, extend_list
from interleaf.log.drop_reasons import EventFate
from interleaf.store import open_store, privacy, sqlite
from interleaf.store.impression_rows import WAITS, Writing, rows_of
from interleaf.store.records import Event, StoredImpression
from interleaf.store.sql import SqlStore
from tests.support.stores import HOUR, SECOND, START, address, address_of, check_sums, click, impression, running, store

__all__ = ["address", "store"]


@pytest.fixture
def server_store(tmp_path: Path) -> Iterator[SqlStore]:
    """A store that several transactions write to at once."""
    found = open_store(address_of("postgres", tmp_path))
    yield found
    found.close()


@contextmanager
def unfinished(store: SqlStore) -> Iterator[Writing]:
    """What another worker writes, and commits at the end."""
    with store._database.writing() as transaction:
        yield Writing(transaction)


def begun(call: Callable[[], object]) -> threading.Thread:
    """A call that waits for another transaction by now."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    return thread


def events_of(store: SqlStore) -> dict[str, list[str]]:
    return {row["impression"]: [event["event"] for event in row["events"]] for row in store.examples("shop")}


def by_unit(one: StoredImpression, name: str = "e", after: int = 5 * SECOND) -> Event:
    at = one.time + after
    return Event(name, "click", at, at, unit=one.unit, document="d3")


def count(store: SqlStore, table: str) -> int:
    with store._database.reading() as transaction:
        ((found,),) = transaction.rows(f"SELECT count(*) FROM {table}")
        return int(found)


@pytest.mark.parametrize("way", ["last_impression", "every_impression"])
def test_an_event_that_two_workers_get_is_stored_once(server_store: SqlStore, way: str) -> None:
    settings = running(server_store, attribution=way, k=6)
    one, two = (impression(settings, number, number * SECOND, unit="u1") for number in range(2))
    server_store.write([one], [])
    event, fates = by_unit(two), []
    with unfinished(server_store) as other:
        assert other.events([event]) == [EventFate.ACCEPTED]
        server_store.write([two], [])  # which only the second worker sees
        thread = begun(lambda: fates.append(server_store.write([], [replace(event, dwell=2.0)])[1]))
    thread.join()
    assert fates == [[EventFate.REPEATED]]
    assert events_of(server_store) == {one.id: ["e"], two.id: []}
    assert server_store.examples("shop")[1]["events"][0]["dwell"] == 2.0
    check_sums(server_store, "shop")


def test_an_event_of_a_unit_that_crosses_its_impression_is_matched_when_it_is_folded(server_store: SqlStore) -> None:
    settings = running(server_store, attribution="last_impression", k=6)
    one, old = impression(settings, 1, 2 * HOUR, unit="u1"), impression(settings, 2, unit="u2")
    two = impression(settings, 3, 2 * HOUR, unit="u2")
    server_store.write([old], [])
    server_store.fold(START + HOUR)
    with unfinished(server_store) as other:
        other.impressions(rows_of([one, two], {("shop", 1): 1}))
        fates = server_store.write([], [by_unit(one), by_unit(two, "f"), replace(by_unit(one, "g"), document="x")])[1]
        assert fates == [EventFate.NOT_SHOWN_TO_UNIT, EventFate.LATE, EventFate.NOT_SHOWN_TO_UNIT]
    server_store.fold(one.time + 10 * SECOND)
    assert events_of(server_store) == {old.id: [], one.id: ["e"], two.id: ["f"]}
    assert (server_store.counts("shop").apart, server_store.count_unplaced()) == ({}, {EventFate.NOT_SHOWN_TO_UNIT: 1})
    check_sums(server_store, "shop")


def test_an_event_that_was_matched_and_folded_meanwhile_is_not_told_again(store: SqlStore) -> None:
    one = impression(running(store), 1)
    store.write([], [click(one)])
    with store._database.reading() as transaction:
        numbers = [number for (number,) in transaction.rows("SELECT number FROM apart")]
    assert len(numbers) == 1
    store.write([one], [])
    store.fold(START + HOUR)
    with store._database.writing() as transaction:
        Writing(transaction).match(numbers)
    assert events_of(store) == {one.id: [click(one).id]}
    assert (store.counts("shop").apart, store.count_unplaced()) == ({}, {})


def test_an_event_that_was_put_in_before_it_was_looked_for_again_is_repeated(store: SqlStore) -> None:
    one = impression(running(store), 1)
    store.write([one], [click(one)])
    store.fold(START + HOUR)
    with store._database.writing() as transaction:
        writing = Writing(transaction)
        assert writing._put([(click(one), EventFate.FOLDED, None)]) == {click(one).key: EventFate.REPEATED}
    assert count(store, "apart") == 0


def test_the_last_page_stays_whoever_comes_first(store: SqlStore) -> None:
    one = impression(running(store, k=2), 1)
    store.write([one], [])
    first = store.row(one.id)
    assert first is not None
    second, third = extend_list(first, 2).row, extend_list(first, 3).row
    assert second is not None
    assert third is not None
    assert store.extend(one.id, third)
    assert store.write([], [click(one, 5), click(one, 6)])[1] == [EventFate.ACCEPTED] * 2
    for shorter in (second, third, first):
        assert not store.extend(one.id, shorter)
    assert not store.extend("nobody", third)
    assert store.row(one.id) == third
    check_sums(store, "shop")
    store.fold(START + HOUR)
    check_sums(store, "shop")


def test_two_workers_extend_one_after_the_other(server_store: SqlStore) -> None:
    one = impression(running(server_store, k=2), 1)
    server_store.write([one], [])
    first = server_store.row(one.id)
    assert first is not None
    second, third = extend_list(first, 2).row, extend_list(first, 3).row
    assert second is not None
    assert third is not None
    answers: list[bool] = []
    with unfinished(server_store) as other:
        assert other.extend(one.id, third)
        thread = begun(lambda: answers.append(server_store.extend(one.id, second)))
    thread.join()
    assert answers == [False]
    assert server_store.row(one.id) == third


def test_who_forgets_a_unit_waits_for_events_on_their_way(server_store: SqlStore) -> None:
    one = impression(running(server_store), 1, unit="ann")
    server_store.write([one], [])
    with unfinished(server_store) as other:
        other.events([click(one)])
        thread = begun(lambda: server_store.forget("ann"))
    thread.join()
    assert [count(server_store, table) for table in ("impressions", "events", "apart")] == [0, 0, 0]


def test_a_dwell_on_its_way_is_waited_for_by_who_folds(server_store: SqlStore) -> None:
    one = impression(running(server_store), 1)
    server_store.write([one], [click(one)])
    with unfinished(server_store) as other:
        assert other.events([replace(click(one), dwell=2.0)]) == [EventFate.REPEATED]
        assert server_store.fold(START + HOUR) == 0
    assert server_store.fold(START + HOUR) == 1
    assert server_store.write([], [replace(click(one), dwell=9.0)])[1] == [EventFate.REPEATED]
    assert server_store.examples("shop")[0]["events"][0]["dwell"] == 2.0
    check_sums(server_store, "shop")


def test_rows_go_page_by_page_and_leave_none_behind(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy, "DELETED_AT_ONCE", 3)
    settings = running(store)
    made = [impression(settings, number, number * SECOND, unit=("ann", "bob")[number % 2]) for number in range(14)]
    events = [event for one in made for event in (click(one), click(one, 9), by_unit(one, f"u{one.id}"))]
    store.write(made, events)
    assert [count(store, table) for table in ("impressions", "events", "apart")] == [14, 14, 28]
    assert store.forget("ann") == 7
    assert [count(store, table) for table in ("impressions", "events", "apart")] == [7, 7, 14]
    check_sums(store, "shop")
    store.fold(START + 2 * HOUR)
    assert store.expire(made[11].time) == 5
    assert [count(store, table) for table in ("impressions", "events")] == [2, 2]
    store.expire(START + HOUR)
    assert [count(store, table) for table in ("impressions", "events", "apart")] == [0, 0, 0]
    assert store.tallies("shop")["click"].impressions == 7


def test_how_a_draft_attributes_is_what_counts_when_it_is_started(store: SqlStore) -> None:
    """Also if lists of others were stored before it was changed."""
    store.write([impression(running(store, name="other"), 1)], [])
    draft = Experiment.of({"name": "shop", "rankers": ["production", "candidate"], "k": 6})
    store.create(draft, START, "test")
    store.write([impression(running(store, name="more"), 1)], [])
    changed = replace(draft, attribution="last_impression")
    store.edit(changed, START, "test")
    store.start("shop", START, "test")
    one = impression(changed, 1, unit="u1")
    store.write([one], [])
    assert store.write([], [by_unit(one)])[1] == [EventFate.ACCEPTED]


def test_nothing_that_is_done_often_reads_a_whole_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what SQLite says of every statement of writing, matching, folding and deleting."""
    store = open_store(tmp_path / "store.db")
    settings = running(store, attribution="last_impression", k=6)
    said: dict[str, tuple[Any, ...]] = {}
    for name in ("rows", "change"):
        do = getattr(sqlite._SQLiteTransaction, name)
        monkeypatch.setattr(
            sqlite._SQLiteTransaction,
            name,
            lambda self, statement, *values, do=do: (said.update({statement: values}), do(self, statement, *values))[1],
        )
    one, two = impression(settings, 1, unit="u1"), impression(settings, 2, HOUR, unit="u2")
    store.write([], [click(two), by_unit(one, "a")])
    store.write([one, two], [])
    store.write([], [click(one, 2), by_unit(one, "c"), replace(by_unit(two, "d"), document="x")])
    store.write([], [replace(click(one, 2), dwell=3.0)])
    store.fold(START + HOUR)
    store.fold(START + 2 * HOUR)
    store.forget("u1")
    store.forget("u2")
    store.expire(START)
    del said[WAITS]
    assert len(said) > 20
    monkeypatch.undo()
    with store._database.reading() as transaction:
        for statement, values in said.items():
            plan = [line for *_, line in transaction.rows("EXPLAIN QUERY PLAN " + statement, *values)]
            scanned = [line for line in plan if re.match(r"SCAN (i|a|e|last|apart|impressions|events)\b", line)]
            assert not scanned, (statement, plan)
    store.close()


def test_an_event_that_crossed_its_impression_is_matched_before_that_is_folded(store: SqlStore) -> None:
    one, two = (impression(running(store, name=name), 1) for name in ("shop", "other"))
    store.write([], [click(one)])
    with pytest.MonkeyPatch.context() as blind:  # as if both were written at the same time
        blind.setattr(Writing, "find_awaiting", lambda self, rows: [])
        store.write([one, two], [])
    assert store.fold(START + 9 * HOUR) == 2  # when nobody folded for long
    assert events_of(store) == {one.id: [click(one).id]}
    check_sums(store, "shop")


def test_an_event_of_a_unit_that_crossed_its_impression_is_matched_once_before_that_is_folded(store: SqlStore) -> None:
    settings = running(store, attribution="last_impression", k=6)
    one, two = (impression(settings, number, number * SECOND, unit="u1") for number in range(2))
    late = replace(by_unit(one, "late"), time=one.time + 2 * HOUR)
    store.write([], [by_unit(two), replace(by_unit(two, "other"), unit="u2"), late])
    with pytest.MonkeyPatch.context() as blind:  # as if all were written at the same time
        blind.setattr(Writing, "find_awaiting", lambda self, rows: [])
        store.write([one, two], [])
    assert events_of(store) == {one.id: [], two.id: []}
    assert store.fold(START + 9 * HOUR, 1) == 1  # when nobody folded for long; the first of the two
    assert store.fold(START + 9 * HOUR) == 1
    assert events_of(store) == {one.id: [], two.id: ["e"]}
    assert count(store, "apart") == 2
    assert store.write([], [by_unit(two)])[1] == [EventFate.REPEATED]
    check_sums(store, "shop")


# What goes wrong with a connection that one thread closes and another uses is no error, but the end of the process.
CLOSED = """import os, sys, threading, time
from interleaf.errors import StoreError
from interleaf.store import open_store
path = sys.argv[1]
def read(store, said):
    try:
        while True:
            store.experiments()
    except StoreError as error:
        said.append(str(error))
for number in range(20):
    store, said = open_store(path), []
    threads = [threading.Thread(target=read, args=(store, said)) for _ in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(0.002 * (number % 5))
    store.close()
    for thread in threads:
        thread.join()
    assert said == ["the store is away: it was closed; open it again"] * 6, said
places = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")] if os.path.isdir("/proc") else []
assert not [place for place in places if path in os.path.realpath(place)]
"""


def test_a_store_is_closed_while_others_read(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLOSED, str(tmp_path / "store.sqlite")], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("number", range(25))  # threads met in the check of the files in one of forty runs
def test_readers_that_were_needed_at_once_do_not_all_stay(tmp_path: Path, number: int) -> None:
    """Each holds memory for its cache."""
    database = sqlite.SQLite(tmp_path / "store.sqlite")
    together = threading.Barrier(12)

    def read() -> None:
        with database.reading() as transaction:
            assert transaction.rows("PRAGMA cache_size") == [(-sqlite.READER_CACHE,)]
            together.wait(120)

    threads = [threading.Thread(target=read) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= len(database._readers) <= sqlite.MAX_IDLE_READERS
    database.close()
    assert database._readers == []
