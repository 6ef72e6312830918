"""What goes wrong around a store: a full disk, a server that is away, rows that no database takes, other versions."""

import sqlite3
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from interleaf import DataError
from interleaf.errors import MissingExtraError, StoreError
from interleaf.log.drop_reasons import EventFate
from interleaf.store import open_store, sqlite
from interleaf.store.records import Event, Search, StoredImpression
from interleaf.store.sql import SqlStore
from interleaf.store.sql_tables import STEPS
from tests.support.stores import (
    HOUR,
    SECOND,
    START,
    address,
    address_of,
    check_sums,
    click,
    exported,
    impression,
    running,
    store,
)

__all__ = ["address", "store"]


def ids_of(store: SqlStore) -> list[str]:
    return exported(store, "shop").column("impression").to_pylist()  # type: ignore[no-any-return]


def wait_for(store: SqlStore) -> None:
    """Until it answers again."""
    for _ in range(50):
        with suppress(StoreError):
            return store.check()
    store.check()


def poison(one: StoredImpression) -> Iterator[StoredImpression]:
    """Impressions that cannot be stored."""
    changes: list[dict[str, Any]] = [
        {"id": "nul\0"}, {"id": "half\ud800"}, {"id": "x" * 1001}, {"unit": "\0"}, {"unit": "\udfff"},
        {"unit": "é" * 501}, {"time": 2**80}, {"closes": -(2**63)}, {"experiment": "nobody"}, {"version": 7},
    ]  # fmt: skip
    yield from (replace(one, **change) for change in changes)
    rows: list[dict[str, Any]] = [
        {"query": "\ud800"}, {"attributes": {"a": "\ud800"}}, {"attributes": {"a": 1}}, {"documents": None},
        {"ranks": [[2**40] * 4, [1, 2, 3, 4]]}, {"ranks": [[1, 2, 3, 4], [1]]}, {"ranks": [["1"] * 4] * 2},
        {"teams": [300] * 4}, {"union": 2**40}, {"latency": [float("inf"), 1.0]}, {"rankers": None},
        {"log_probability": float("nan")}, {"page": "one"}, {"captions": [{"deep_links": 2**20}]}, {"k": {1, 2}},
    ]  # fmt: skip
    yield from (replace(one, row=dict(one.row) | row) for row in rows)


def test_rows_that_cannot_be_kept_are_refused_and_leave_no_trace(store: SqlStore) -> None:
    one = impression(running(store), 1)
    other = impression(store.experiment("shop").settings, 2)
    for number, wrong in enumerate(poison(one)):
        with pytest.raises(DataError):
            store.write([other, wrong], [])
        assert store.counts("shop").open == 0, number
    event = click(one)
    changes: list[dict[str, Any]] = [
        {"id": "\0"}, {"kind": "\ud800"}, {"impression": "\0"}, {"unit": "\0"}, {"document": "\ud800"}, {"time": 2**70},
        {"received": -(2**70)}, {"rank": 2**70}, {"dwell": float("nan")}, {"dwell": 1e39}, {"value": float("inf")},
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(DataError):
            store.write([other], [event, replace(event, **change)])
    assert store.counts("shop").open == 0
    assert store.write([one], [event]) == ([None], [EventFate.ACCEPTED])
    assert ids_of(store) == [one.id]


def test_strange_texts_come_back_as_they_were(store: SqlStore) -> None:
    settings = running(store, by=["device"])
    longest = "".join(chr(0x4E00 + number * 37 % 20_000) for number in range(333))  # which no index can compress
    strange = ["<b>'\";--", "\u2028\x7f\x1b[31m", "\U0001f600\u0301", " ", "' OR 1=1", "%s ? {0}", longest, "\n\\"]
    for number, text in enumerate(strange):
        query = text * 200 + "\0"
        one = impression(settings, number, number, id=f"{number}{text[:332]}", unit=text, query=query, session=text)
        one = replace(one, row=dict(one.row) | {"attributes": {text[:50]: text, "device": text[:9]}})
        named = replace(one, row=dict(one.row) | {"documents": [f"{text}{place}" for place in range(4)]})
        event = Event(f"e{text[:332]}", text, START, START, one.id, document=f"{text}2")
        assert store.write([named], [event, click(one, 1, id=f"c{text[:332]}")]) == ([None], [EventFate.ACCEPTED] * 2)
        row = store.row(one.id)
        assert row is not None
        assert (row["unit"], row["query"], row["session"]) == (text, query, text)
        assert row["attributes"] == {text[:50]: text, "device": text[:9]}
    check_sums(store, "shop")
    table = exported(store, "shop")
    assert table.column("unit").to_pylist() == strange
    assert [{event["rank"] for event in events} for events in table.column("events").to_pylist()] == [{1, 3}] * 8
    store.fold(START + 2 * HOUR)
    check_sums(store, "shop")
    assert store.forget(strange[4]) == 1


def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store.db")
    settings = running(store)
    writer = store._database._writer  # type: ignore[attr-defined]
    ((pages,),) = writer.execute("PRAGMA page_count").fetchall()
    writer.execute(f"PRAGMA max_page_count = {pages + 40}")
    written: list[str] = []

    def fill() -> None:
        for number in range(len(written), 10_000):
            one = impression(settings, number, number)
            store.write([one], [click(one)])
            written.append(one.id)

    def fold_all() -> None:
        while store.fold(START + 2 * HOUR, 5):
            pass

    for call in (fill, fold_all, fill):
        with pytest.raises(StoreError, match="full"):
            call()
    assert len(written) > 20
    assert ids_of(store) == written
    check_sums(store, "shop")
    writer.execute("PRAGMA max_page_count = 1000000")
    store.check()
    fold_all()
    check_sums(store, "shop")
    store.close()


def test_a_file_that_another_process_writes_to_for_too_long_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "WAIT", 0.05)
    store = open_store(tmp_path / "store.db")
    settings = running(store)
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for call in (lambda: store.write([impression(settings, 1)], []), lambda: store.forget("u")):
        with pytest.raises(StoreError, match="locked"):
            call()
    assert store.experiments()  # reading goes on
    store.check()
    other.execute("ROLLBACK")
    other.close()
    store.check()
    assert store.write([impression(settings, 1)], [])[0] == [None]
    store.close()


def test_nobody_waits_for_ever_for_another_worker_or_for_a_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = address_of("postgres", tmp_path)
    from interleaf.store import postgres

    for name, seconds in (("LOCK", 0.2), ("LONGER", 60.0)):  # it is the server that says what it was
        monkeypatch.setattr(postgres, name, seconds)
    store = open_store(address)
    with store._database.writing() as other:
        other.change("LOCK TABLE experiments")
        with pytest.raises(StoreError, match="another transaction holds a lock for too long"):
            store.experiments()
    with monkeypatch.context() as hurried:
        for name, seconds in (("WRITING", 0.5), ("READING", 0.6)):
            hurried.setattr(postgres, name, seconds)
        for database in (store._database.writing, store._database.reading):
            with pytest.raises(StoreError, match="a statement took too long"), database() as transaction:
                transaction.rows("SELECT pg_sleep(60)")
    store.check()
    store.close()


def test_two_processes_write_and_fold_and_nothing_counts_twice(address: str, store: SqlStore) -> None:
    settings = running(store)
    made = [impression(settings, number, number * 60 * SECOND) for number in range(240)]
    stores = [store, open_store(address)]
    problems: list[BaseException] = []

    def work(mine: SqlStore, first: int) -> None:
        try:
            for start in range(first, 240, 10):
                part = made[max(0, start - 10) : start + 10]  # half of it is the other's, too
                mine.write(part if first else part[::-1], [click(one, 1 + one.time // SECOND % 4) for one in part])
                mine.fold(START + start * 60 * SECOND, 7)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(mine, 5 * place)) for place, mine in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    check_sums(store, "shop")
    while stores[0].fold(START + 9 * HOUR, 50) + stores[1].fold(START + 9 * HOUR, 50):
        pass
    check_sums(stores[1], "shop")
    assert sorted(ids_of(store)) == sorted(one.id for one in made)
    assert store.counts("shop").folded == 240
    stores[1].close()


def test_a_newer_store_is_refused_and_an_older_one_upgraded(
    address: str, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(store)
    monkeypatch.setattr("interleaf.store.sql_tables.STEPS", (*STEPS, "CREATE TABLE extra (one integer)"))
    newer = open_store(address)
    assert newer.experiments() == store.experiments()
    newer.close()
    monkeypatch.setattr("interleaf.store.sql_tables.STEPS", STEPS)
    with pytest.raises(
        DataError, match=f"of version {len(STEPS) + 1}, and this interleaf knows versions up to {len(STEPS)}: a newer"
    ):
        open_store(address)


def test_two_workers_that_start_at_once_upgrade_once_however_long_that_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = address_of("postgres", tmp_path)
    open_store(address).close()
    for name in ("WRITING", "LOCK"):
        monkeypatch.setattr(f"interleaf.store.postgres.{name}", 0.2)
    slow = "SELECT pg_sleep(0.6); CREATE TABLE extra (one integer); INSERT INTO extra VALUES (1)"
    monkeypatch.setattr("interleaf.store.sql_tables.STEPS", (*STEPS, slow))
    with ThreadPoolExecutor(2) as workers:
        stores = list(workers.map(open_store, [address] * 2))
    with stores[0]._database.reading() as transaction:
        assert transaction.rows("SELECT one FROM extra") == [(1,)]
    for one in stores:
        with pytest.raises(StoreError), one._database.writing() as writing:
            writing.rows("SELECT pg_sleep(0.6)")  # all else has its limits
        one.close()


def test_an_address_that_cannot_be_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="begins with mysql://; give a path, sqlite:///path or postgresql://") as told:
        open_store("mysql://user:password@host/x")
    assert "password" not in str(told.value)
    with pytest.raises(DataError, match="there is no folder"):
        open_store(tmp_path / "nowhere" / "store.db")
    (tmp_path / "text.db").write_text("not a database, but long enough to be read as one" * 100)
    with pytest.raises(DataError, match="the file is not an SQLite database; give another file"):
        open_store(tmp_path / "text.db")
    open_store(f"sqlite:///{tmp_path}/store.db").close()
    assert (tmp_path / "store.db").exists()
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"needs psycopg; run: .*\[postgres\]"):
        open_store("postgresql://localhost/x")


def test_keys_and_tokens_of_a_store_of_the_first_version_stay_valid(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interleaf.store.sql_tables.STEPS", STEPS[:1])
    older = open_store(address)
    with older._database.writing() as transaction:
        (signing,) = transaction.rows("SELECT secret FROM secrets")[0]
        values = ("k1", sha256(b"il_admin_x").digest(), "admin", "mine", 1)
        transaction.change("INSERT INTO access_keys (id, hash, role, label, created) VALUES (?, ?, ?, ?, ?)", *values)
    older.close()
    monkeypatch.setattr("interleaf.store.sql_tables.STEPS", STEPS)
    store = open_store(address)
    key = store.key_of("il_admin_x")
    assert key is not None
    assert (key.id, key.is_valid(2)) == ("k1", True)
    assert store.token_secrets(2) == [bytes(signing)]
    store.close()


def test_events_of_an_older_store_are_still_known_after_the_upgrade(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interleaf.store.sql_tables.STEPS", STEPS[:5])
    older = open_store(address)
    with monkeypatch.context() as patch:
        patch.setattr("interleaf.store.experiments.index", lambda *_: None)  # there was no table of words
        one = impression(running(older, owner="Ann"), 1)
    older.write([one], [])
    event, waiting = click(one), click(one, id="early", impression="later")
    with older._database.writing() as transaction:
        transaction.change(
            "INSERT INTO events (id, impression, place, kind, rank, time, received) VALUES (?, ?, 0, 'click', 1, ?, ?)",
            *(event.id, one.id, event.time, event.received),
        )
        transaction.change(
            "INSERT INTO apart (id, reason, kind, received, time, impression, rank) VALUES (?, ?, 'click', ?, ?, ?, 1)",
            *(waiting.id, EventFate.UNKNOWN_IMPRESSION, waiting.received, waiting.time, "later"),
        )
    older.close()
    monkeypatch.setattr("interleaf.store.sql_tables.STEPS", STEPS)
    store = open_store(address)
    assert store.write([], [replace(event, dwell=5.0), waiting])[1] == [EventFate.REPEATED, EventFate.REPEATED]
    store.write([impression(store.experiment("shop").settings, 2, id="later")], [])
    events = {row["impression"]: row["events"] for row in store.examples("shop")}
    assert [(one["event"], one["dwell"]) for one in events[one.id]] == [(event.id, 5)]
    assert [one["event"] for one in events["later"]] == ["early"]
    assert store.count_unplaced() == {}
    assert [one.settings.name for one in store.experiments(Search("ann"))] == ["shop"]
    store.close()
