"""A PostgreSQL that is stopped, hangs, comes back, or lets nobody in: it is noticed, and the cause is named."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from interleaf.errors import DataError, StoreError
from interleaf.log.drop_reasons import EventFate
from interleaf.store import open_store, postgres
from interleaf.store.sql import SqlStore
from tests.server.test_serve import ask, serving
from tests.support.services import RANKINGS, SHOES
from tests.support.stand_in import until
from tests.support.stores import START, address_of, check_sums, click, exported, impression, running, server

LONG = 600.0  # seconds: nothing here waits so long, so what ends sooner was ended by the watch


@contextmanager
def stopped_server() -> Iterator[None]:
    """The server and its processes do nothing, and say nothing."""
    number = int((Path(server().pgdata) / "postmaster.pid").read_text().split()[0])
    import psutil  # type: ignore[import-untyped]  # which the package of the server brings

    first = psutil.Process(number)
    first.suspend()
    children = first.children()  # there are no new ones now
    for process in children:
        process.suspend()
    try:
        yield
    finally:
        for process in (*children, first):
            process.resume()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStore]:
    """A store whose own limits are long, and whose watch is as impatient as it is."""
    address = address_of("postgres", tmp_path)
    for name in ("LOCK", "WRITING", "READING"):
        monkeypatch.setattr(postgres, name, LONG)
    monkeypatch.setattr(postgres, "WAIT", 2.0)
    monkeypatch.setattr(postgres, "SILENCE", 0.5)
    found = open_store(address)
    yield found
    found.close()


def wait_for(store: SqlStore) -> None:
    def answers() -> bool:
        with suppress(StoreError):
            store.check()
            return True
        return False

    until(answers)


def test_a_server_that_stops_and_comes_back_is_away_meanwhile(store: SqlStore) -> None:
    settings = running(store)
    one, two = impression(settings, 1), impression(settings, 2)
    store.write([one], [click(one)])
    server().stop()
    try:
        for call in (store.check, store.experiments, lambda: store.write([two], []), lambda: store.fold(START)):
            with pytest.raises(StoreError, match=r"^the store (is away|cannot be used now): PostgreSQL: "):
                call()
    finally:
        server().start()
    wait_for(store)
    store.write([one, two], [click(one), click(two)])
    assert sorted(exported(store, "shop").column("impression").to_pylist()) == [one.id, two.id]
    check_sums(store, "shop")


def test_a_server_that_hangs_is_away_however_long_a_statement_may_take(store: SqlStore) -> None:
    one = impression(running(store), 1)
    begun = time.monotonic()
    for database in (store._database.writing, store._database.reading):
        with (
            pytest.raises(StoreError, match="it does not answer"),
            database() as transaction,
            stopped_server(),
        ):
            transaction.rows("SELECT 1")
        wait_for(store)
    with stopped_server():
        for call in (store.check, store.experiments, lambda: store.write([one], [click(one)])):
            with pytest.raises(StoreError, match="it does not answer"):
                call()
    assert time.monotonic() - begun < LONG / 2
    wait_for(store)
    assert store.write([one], [click(one)]) == ([None], [EventFate.ACCEPTED])
    check_sums(store, "shop")


def test_a_statement_that_takes_long_is_waited_for_while_the_server_answers(store: SqlStore) -> None:
    with store._database.reading() as transaction:
        assert transaction.rows("SELECT 1 FROM pg_sleep(3)") == [(1,)]


def test_the_limits_add_up_to_less_than_a_second() -> None:
    code = "from interleaf.store import postgres as p; print(p.WAIT, p.INTERVAL + p.SILENCE)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # tests change them
    assert max(map(float, done.stdout.split())) <= 0.8  # psycopg looks ten times a second, and twice


def test_while_postgres_hangs_the_service_lives_and_is_not_ready(tmp_path: Path) -> None:
    body = {"unit": "u", "rankings": RANKINGS}
    path = "/v1/experiments/shoes/interleave"
    with serving(tmp_path, "--store", address_of("postgres", tmp_path)) as (_, address):
        until(lambda: ask(address, "POST", "/v1/experiments", SHOES)[0] in (201, 409))
        until(lambda: ask(address, "POST", "/v1/experiments/shoes/start")[0] in (200, 409))
        until(lambda: ask(address, "POST", path, body | {"impression": "before"})[0] in (200, 201))
        with stopped_server():
            status, answer = ask(address, "POST", path, body | {"impression": "during"})
            assert (status, answer["error"]["code"]) == (503, "store_away")
            assert ask(address, "GET", "/readyz")[0] == 503
            assert ask(address, "GET", "/livez") == (200, {"status": "ok"})
        until(lambda: ask(address, "GET", "/readyz")[0] == 200)
        until(lambda: ask(address, "POST", path, body | {"impression": "during"})[0] in (200, 201))


def test_readiness_writes_nothing_to_the_store(store: SqlStore) -> None:
    with psycopg.connect(server().get_uri(), autocommit=True) as beside:
        before = beside.execute("SELECT pg_current_xact_id()").fetchone()
        for _ in range(5):
            store.check()
        after = beside.execute("SELECT pg_current_xact_id()").fetchone()
    assert before is not None
    assert after is not None
    assert int(after[0]) - int(before[0]) < 5  # one is this question itself; others may be of the server


PASSWORD = "hush/it@is:secret"
QUOTED = "hush%2Fit%40is%3Asecret"


@contextmanager
def rule(line: str) -> Iterator[None]:
    """The server asks some user for a password."""
    path = Path(server().pgdata) / "pg_hba.conf"
    before = path.read_text()
    path.write_text(f"{line}\n{before}")
    with psycopg.connect(server().get_uri(), autocommit=True) as beside:
        beside.execute("SELECT pg_reload_conf()")
        beside.execute("DROP ROLE IF EXISTS guest")
        beside.execute("CREATE ROLE guest LOGIN PASSWORD 'right'")
        until(lambda: beside.execute("SELECT 1 FROM pg_hba_file_rules WHERE user_name = '{guest}'").fetchall() != [])
        try:
            yield
        finally:
            path.write_text(before)
            beside.execute("SELECT pg_reload_conf()")


def refusal(address: str) -> str:
    """What is said about an address, which never holds its password."""
    with pytest.raises((StoreError, DataError)) as told:
        open_store(address).close()
    text = str(told.value)
    assert all(part not in text for part in ("hush", "it@is", "secret", QUOTED))
    assert "hush" not in str(told.value.__cause__)
    return text


def test_the_cause_is_named_and_the_password_is_not() -> None:
    folder = server().get_uri().partition("host=")[2]
    with rule("local all guest scram-sha-256"):
        where = f"postgresql://guest:{QUOTED}@/postgres?host={folder}"
        until(lambda: "authentication" in refusal(where))  # the server reads its rules in its own time
        assert "user 'guest'" in refusal(where)
        right = f"postgresql://guest:right@/postgres?host={folder}"
        assert "the user has no permission" in refusal(right)
    assert "no such database" in refusal(f"postgresql://postgres:{QUOTED}@/nothing?host={folder}")
    assert "(authentication)" in refusal(f"postgresql://unknown:{QUOTED}@/postgres?host={folder}")
    assert "host name is unknown" in refusal(f"postgresql://me:{QUOTED}@nowhere.invalid/db")
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    assert f"127.0.0.1, port {port}, database 'db', user 'me': the connection was refused" in refusal(
        f"postgresql://me:{QUOTED}@127.0.0.1:{port}/db"
    )
    for wrong in (
        f"postgresql://me:{PASSWORD}@host/db",
        "postgresql://me:it@is:secret@host/db",
        "postgresql://[me:hush",
    ):
        assert "written as %40" in refusal(wrong)


def test_a_server_without_tls_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def decline() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(8)
                        connection.sendall(b"N")  # what PostgreSQL says when it speaks no TLS

        thread = threading.Thread(target=decline, daemon=True)
        thread.start()
        port = listening.getsockname()[1]
        assert "(TLS)" in refusal(f"postgresql://me:{QUOTED}@127.0.0.1:{port}/db?sslmode=require")


def test_the_command_line_names_the_cause_last(tmp_path: Path) -> None:
    with serving(tmp_path, "--store", f"postgresql://me:{QUOTED}@nowhere.invalid/db") as (process, _):
        out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert out == ""
    assert "host name is unknown" in err.splitlines()[-1]
    assert "hush" not in err
    assert "Traceback" not in err
