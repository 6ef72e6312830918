"""How query texts are stored: a store with texts takes no hashes, and the other way round."""

from pathlib import Path

import pytest

from interleaf.errors import DataError
from interleaf.store import open_store
from interleaf.store.sql import SqlStore
from tests.server.test_serve import serving
from tests.support.services import live
from tests.support.stores import START, address, impression, running, store

__all__ = ["address", "store"]


@pytest.mark.parametrize(("first", "then"), [("keep", "hash"), ("hash", "keep")])
def test_texts_and_hashes_are_not_mixed(address: str, store: SqlStore, first: str, then: str) -> None:
    store.use_queries(then, START)
    store.use_queries(first, START)  # there are no rows yet
    one = impression(running(store), 1)
    store.write([one], [])
    again = open_store(address)
    for queries in (first, "drop", first):
        again.use_queries(queries, START)
    with pytest.raises(DataError, match=f"since 2027-01-15, and --queries {then} was given") as problem:
        again.use_queries(then, START)
    assert f"start with --queries {first} or --queries drop" in str(problem.value)
    again.fold(one.closes)
    again.expire(one.time + 1)
    again.use_queries(then, START)  # the rows are gone
    again.close()


def test_a_store_without_queries_takes_any(store: SqlStore) -> None:
    store.use_queries("drop", START)
    store.write([impression(running(store), 1)], [])
    store.use_queries("hash", START)
    with pytest.raises(DataError, match="as hashes"):
        store.use_queries("keep", START)


def test_the_service_does_not_start_with_another_way(tmp_path: Path) -> None:
    secret = b"0123456789abcdef"
    (tmp_path / "unit.secret").write_bytes(secret)
    with live(tmp_path, unit_secret=secret) as service:
        service.make()
        assert service.show().status_code == 201
    (tmp_path / "store.sqlite").rename(tmp_path / "interleaf.sqlite")
    with serving(tmp_path, "--unit-secret-file", "unit.secret", "--queries", "hash") as (server, _):
        out, err = server.communicate(timeout=60)
    assert (server.returncode, out) == (2, "")
    assert "queries are stored as they come since 2027-01-15, and --queries hash was given" in err
    assert "Traceback" not in err
