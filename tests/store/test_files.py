"""The files of a SQLite store: deleted or replaced they are noticed, and what was deleted is not in them any more."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from interleaf.errors import StoreError
from interleaf.store import open_store
from interleaf.store.records import Event
from tests.support.services import live
from tests.support.stores import HOUR, START, click, impression, running


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
    store = open_store(tmp_path / "store.db")
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
    store, chance, number = open_store(tmp_path / "store.db"), random.Random(seed), 0
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
    store = open_store(tmp_path / "store.db")
    settings = running(store)
    store.write([impression(settings, number, query="herquery") for number in range(50)], [])
    store.stop("shop", START, "test")
    assert store.delete("shop", START) == 50
    assert traces(tmp_path, b"herquery") == {}
    store.close()


def test_rows_that_a_reader_still_sees_go_when_it_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interleaf.store.sqlite.SCRUB", 0.0)
    store = open_store(tmp_path / "store.db")
    settings = running(store)
    store.write([impression(settings, 1, unit="ann@example")], [])
    with store._database.reading() as reading:
        assert reading.rows("SELECT count(*) FROM impressions") == [(1,)]
        assert store.forget("ann@example") == 1
        assert traces(tmp_path, b"ann@example") != {}
    store.fold(START)
    assert traces(tmp_path, b"ann@example") == {}
    store.close()
