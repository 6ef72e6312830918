"""The secret that units are hashed with: another one, or none, is noticed before anything is stored with it."""

from pathlib import Path

import pytest

from interleaf.cli import main
from interleaf.errors import DataError, StoreError
from interleaf.store import open_store
from interleaf.store.sql import SqlStore
from tests.server.test_serve import serving
from tests.support.services import live
from tests.support.stores import START, address, impression, running, store

__all__ = ["address", "store"]
SECRET, OTHER = b"0123456789abcdef", b"fedcba9876543210"


@pytest.mark.parametrize(("first", "then"), [(SECRET, OTHER), (SECRET, None), (None, SECRET)])
def test_another_secret_is_refused_once_there_are_units(
    address: str, store: SqlStore, first: bytes | None, then: bytes | None
) -> None:
    store.use_unit_secret(then, START)
    store.use_unit_secret(first, START)  # there is nothing yet that the other one would not match
    settings = running(store)
    store.write([impression(settings, 1)], [])
    again = open_store(address)
    again.use_unit_secret(first, START)
    with pytest.raises(DataError, match="each person would get a second name") as told:
        again.use_unit_secret(then, START)
    assert "interleaf store rotate-unit-secret" in str(told.value)
    assert ("start without --unit-secret-file" in str(told.value)) == (first is None)
    again.close()


def test_sums_remember_the_secret_when_all_rows_have_expired(store: SqlStore) -> None:
    store.use_unit_secret(SECRET, START)
    settings = running(store)
    one = impression(settings, 1)
    store.write([one], [])
    store.fold(one.closes + 1)
    assert store.expire(one.time + 1) == 1
    with pytest.raises(DataError, match="another one was given"):
        store.use_unit_secret(OTHER, START)


def test_the_store_of_an_earlier_version_takes_the_secret_of_its_next_start(store: SqlStore) -> None:
    settings = running(store)
    store.write([impression(settings, 1)], [])
    store.use_unit_secret(SECRET, START)
    with pytest.raises(DataError, match="another one was given"):
        store.use_unit_secret(OTHER, START)


def test_the_store_does_not_hold_the_secret(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store.db")
    store.use_unit_secret(SECRET, START)
    store.close()
    assert SECRET not in (tmp_path / "store.db").read_bytes()
    again = open_store(tmp_path / "store.db")
    with again._database.reading() as transaction:
        ((salt, fingerprint),) = transaction.rows("SELECT salt, fingerprint FROM unit_secrets")
    assert (len(salt), len(fingerprint)) == (16, 64)
    again.close()


def test_a_service_does_not_start_with_another_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with live(tmp_path, unit_secret=SECRET) as service:
        service.make()
        assert service.show().status_code == 201
    with pytest.raises(DataError, match="and none was given"), live(tmp_path):
        pass
    (tmp_path / "other.secret").write_bytes(OTHER)
    (tmp_path / "store.sqlite").rename(tmp_path / "interleaf.sqlite")
    with serving(tmp_path, "--unit-secret-file", "other.secret") as (server, _):
        out, err = server.communicate(timeout=60)
    assert (server.returncode, out) == (2, "")
    assert "and another one was given" in err
    with live(tmp_path, unit_secret=OTHER):  # a fresh store
        pass


def test_rotation_says_what_it_means_and_a_unit_can_be_deleted_under_both_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old").write_bytes(SECRET)
    (tmp_path / "new").write_bytes(OTHER)
    where = ["--store", str(tmp_path / "store.sqlite")]
    rotate = ["store", "rotate-unit-secret", *where, "--unit-secret-file", str(tmp_path / "new")]
    with live(tmp_path, unit_secret=SECRET) as service:
        service.make()
        assert service.show().status_code == 201
        assert main(rotate) == 1
        assert "a returning user counts as a new user" in capsys.readouterr().out
        assert service.show().status_code == 201
        assert main([*rotate, "--yes"]) == 0
        assert "Running experiments: shoes" in capsys.readouterr().out
        for method, path in (("DELETE", "/v1/units/user-7"), ("GET", "/readyz")):  # before the service folds again
            answer = service.ask(method, path)
            assert (answer.status_code, "start it again with the new one" in answer.text) == (503, True), path
        service.store.fold(START)
        answer = service.show()
        assert answer.status_code == 503
        assert "was rotated while this service ran" in answer.json()["error"]["message"]
    assert main([*rotate, "--yes"]) == 2
    assert "is the secret of the store already" in capsys.readouterr().err
    with live(tmp_path, unit_secret=OTHER) as service:
        assert service.show().status_code == 201
        assert service.ask("DELETE", "/v1/units/user-7").json() == {"impressions": 1}
    forget = ["store", "forget", "user-7", *where, "--unit-secret-file"]
    assert main([*forget, str(tmp_path / "old")]) == 0
    assert "deleted 2 impressions" in capsys.readouterr().out
    (tmp_path / "unknown").write_bytes(b"f" * 16)
    assert main([*forget, str(tmp_path / "unknown")]) == 2
    assert "never had units under this secret" in capsys.readouterr().err


def test_two_services_that_start_on_an_empty_store_do_not_write_with_two_secrets(address: str, store: SqlStore) -> None:
    other = open_store(address)
    store.use_unit_secret(SECRET, START)
    other.use_unit_secret(OTHER, START)
    settings = running(store)
    store.fold(START)
    with pytest.raises(StoreError, match="start it again with the new one"):
        store.write([impression(settings, 1)], [])
    other.fold(START)
    other.write([impression(settings, 1)], [])
    other.close()
