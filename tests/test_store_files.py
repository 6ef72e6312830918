"""The files of a SQLite store: deleted or replaced they are noticed, and what was deleted is not in them any more."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from interleaf.errors import StoreError
from interleaf.store import opened
from interleaf.store.contract import Event
from interleaf.store.sql import SqlStore
from tests.services import Live, live
from tests.stores import HOUR, START, click, impression, running


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copyfile(path, copy)
    os.replace(copy, path)


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
@pytest.mark.parametrize("harm", [delete, replace])
def test_a_file_that_was_deleted_or_replaced_is_noticed(
    tmp_path: Path, ending: str, harm: Callable[[Path], None]
) -> None:
    with live(tmp_path) as service:
        service.make()
        assert service.show().status_code == 201
        path = tmp_path / f"store.sqlite{ending}"
        harm(path)
        answer = service.show()
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_away")
        assert f"the store's file {path.name} was {harm.__name__}d while the service ran" in answer.text
        assert service.ask("GET", "/readyz").status_code == 503
        assert service.ask("GET", "/livez").status_code == 200
        if harm is delete:
            assert not path.exists()  # nobody made an empty store in its place


def test_a_file_that_is_put_back_is_used_again(tmp_path: Path) -> None:
    store = opened(tmp_path / "store.db")
    settings = running(store)
    (tmp_path / "store.db").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="deleted while"):
        store.write([impression(settings, 1)], [])
    with pytest.raises(StoreError, match="deleted while"):
        store.experiments()
    (tmp_path / "elsewhere").rename(tmp_path / "store.db")
    assert store.write([impression(settings, 1)], [])[0] == [None]
    store.close()


def traces(folder: Path, *words: bytes) -> dict[str, int]:
    """How often words are in the bytes of files."""
    found = {path.name: sum(map(path.read_bytes().count, words)) for path in folder.iterdir()}
    return {name: count for name, count in found.items() if count}


@pytest.mark.parametrize("seed", range(3))
def test_a_forgotten_unit_is_in_no_byte_of_the_files(tmp_path: Path, seed: int) -> None:
    store, chance, number = opened(tmp_path / "store.db"), random.Random(seed), 0
    settings = running(store)
    for hour in range(8):
        for _ in range(chance.randrange(5, 40)):
            number += 1
            is_hers = chance.random() < 0.3
            unit, query = ("ann@example", "herquery") if is_hers else (f"u{chance.randrange(9)}", "other")
            name = f"{unit}-{chance.randrange(10**6)}-{number}"
            query *= chance.choice([1, 40, 300, 2000])
            one = impression(settings, number, at=hour * HOUR, unit=unit, query=query, id=name)
            stray = Event(f"{unit}-e{number}", "click", START, START, unit=unit, document="herquery")
            store.write([one], [click(one), *([stray] if is_hers else [])])
        store.fold(START + hour * HOUR, chance.randrange(1, 60))
    assert "store.db-wal" in traces(tmp_path, b"ann@example")
    assert store.forget("ann@example") > 0
    assert traces(tmp_path, b"ann@example", b"herquery") == {}
    store.close()
    assert traces(tmp_path, b"ann@example", b"herquery") == {}


def test_a_deleted_experiment_is_in_no_byte_of_the_files(tmp_path: Path) -> None:
    store = opened(tmp_path / "store.db")
    settings = running(store)
    store.write([impression(settings, number, query="herquery") for number in range(50)], [])
    store.stop("shop", START, "test")
    assert store.delete("shop", START) == 50
    assert traces(tmp_path, b"herquery") == {}
    store.close()


def test_rows_that_a_reader_still_sees_go_when_it_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interleaf.store.sqlite.SCRUB", 0.0)
    store = opened(tmp_path / "store.db")
    settings = running(store)
    store.write([impression(settings, 1, unit="ann@example")], [])
    with store._database.reading() as reading:
        assert reading.rows("SELECT count(*) FROM impressions") == [(1,)]
        assert store.forget("ann@example") == 1
        assert traces(tmp_path, b"ann@example") != {}
    store.fold(START)
    assert traces(tmp_path, b"ann@example") == {}
    store.close()


DAY = 24 * HOUR


def rows_after(service: Live, days: float) -> int:
    """How many rows are there when the clock has been turned ahead, and old rows have been looked for."""
    service.clock.now += round(days * DAY)
    shared = service.client.app.state.service  # type: ignore[attr-defined]
    service.store.fold(service.clock.now)
    shared._delete_old_rows()
    counts: int = len(service.store.examples("shoes", most=99))
    return counts


def test_a_clock_that_jumps_ahead_deletes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with live(tmp_path, retention_days=30) as service:
        service.make()
        service.show()
        assert rows_after(service, 0) == 1
        assert rows_after(service, 400) == 1
        service.show()
        assert rows_after(service, 0.1) == 2
        assert caplog.text.count("old rows are not deleted") == 1
        (reason,) = (vars(record)["reason"] for record in caplog.records if "old rows" in record.message)
        assert "the clock jumped from 2027-01-15 08:00 UTC to 2028-02-19 08:00 UTC" in reason
        assert rows_after(service, -400.1) == 2  # the clock is set right
        for _ in range(29):
            assert rows_after(service, 1) == 2
        assert rows_after(service, 1) == 2
        assert rows_after(service, 1) == 1  # the row of the wrong time stays until that time has come


def test_a_service_that_was_off_for_long_deletes_old_rows_some_days_later(tmp_path: Path) -> None:
    with live(tmp_path, retention_days=30) as service:
        service.make()
        service.show()  # retention was not on before: the newest row says when the store was last used
        assert rows_after(service, 100) == 1
        assert [rows_after(service, 1) for _ in range(8)] == [1, 1, 1, 1, 1, 1, 0, 0]


def test_without_traffic_rows_go_in_time(tmp_path: Path) -> None:
    with live(tmp_path, retention_days=3) as service:
        service.make()
        service.show()
        assert [rows_after(service, 0.9) for _ in range(5)] == [1, 1, 1, 0, 0]


def test_the_first_look_at_an_old_store_goes_by_its_newest_row(tmp_path: Path) -> None:
    store: SqlStore = opened(tmp_path / "store.db")
    settings = running(store)
    assert store.clock_problem(START + 400 * DAY) is None  # there is nothing to lose
    with store._database.writing() as transaction:
        transaction.change("DELETE FROM clock")
    store.write([impression(settings, 1)], [])
    assert store.clock_problem(START + 400 * DAY) is not None
    assert store.clock_problem(START + HOUR) is None
    store.close()
