"""PostgreSQL by psycopg: a connection pool, and a thread that watches whether the server answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

import psycopg
from psycopg.abc import RV, PQGen
from psycopg_pool import ConnectionPool

from interleaf.errors import DataError, StoreError
from interleaf.postgres_errors import cause_of, describe_address
from interleaf.store.database import Database, Row, SqlTable, Transaction

INTERVAL = 0.1  # seconds between two health checks of the server
PATIENCE = 3.0  # seconds that a connection waits for an answer by default
SILENCE = 0.5  # seconds without an answer until the server counts as away


class WatchedConnection(psycopg.Connection[Row]):
    """A connection that is closed if the server does not answer in time: a server that hangs ignores its timeouts."""

    patience = PATIENCE
    watch: Watch | None = None

    def wait(self, gen: PQGen[RV], *given: Any, **named: Any) -> RV:
        return super().wait(self._with_deadline(gen), *given, **named)

    def _with_deadline(self, gen: PQGen[RV]) -> PQGen[RV]:
        """Add a deadline to psycopg's waiting; psycopg checks for an answer every tenth of a second.

        An answer may have arrived while this process was paused, so the connection is checked once more.
        """
        end, overdue = monotonic() + self.patience, False
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    end, overdue = monotonic() + self.patience, False
                elif overdue:
                    self.pgconn.finish()
                    raise psycopg.OperationalError("no answer from the server")
                else:
                    overdue = monotonic() > end or (self.watch is not None and self.watch.cause is not None)
                wanted = gen.send(ready)
        except StopIteration as done:
            value: RV = done.value
            return value


class Watch:
    """A thread that checks the server regularly; `cause` says why it is away, and is None while it answers."""

    def __init__(self, connect: Callable[[], WatchedConnection]) -> None:
        self.cause: str | None = None
        self._connect, self._connection = connect, connect()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="interleaf-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._closing.set()
        self._thread.join(PATIENCE)  # it may be in a DNS lookup, which has no timeout
        self._connection.close()

    def _run(self) -> None:
        while not self._closing.wait(INTERVAL):
            try:
                if self._connection.closed:
                    self._connection = self._connect()
                self._connection.patience = SILENCE
                self._connection.execute("")
                self.cause = None
            except Exception as error:
                self.cause = cause_of(error)
                self._connection.close()


CONNECT = 3  # seconds to connect at the start
WAIT = 0.7  # seconds for a connection of the pool
LOCK = 5.0  # seconds to wait for a lock
WRITING, READING = 7.0, 30.0  # seconds for a statement: others wait for writes, and reads may be long
UPGRADING = 86_400.0  # seconds for a migration, such as an index of a large table
IDLE = 60.0  # seconds between two statements: after that, the worker counts as dead and its locks are released
LONGER = 1.0  # seconds that we wait longer than the server, to get its error message
MAX_CONNECTIONS = 8  # per process
_NETWORK: dict[str, Any] = {  # to detect a host that is gone; no effect on a local socket
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}
_ALONE = 0x696E7465726C6561  # the advisory lock of this program


class Postgres(Database):
    """A PostgreSQL server as a `Database`."""

    words: ClassVar[Mapping[str, str]] = {
        "number": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "bytes": "bytea",
        "real": "double precision",
        "keyed": "",
        "by_code": 'COLLATE "C"',
    }

    def __init__(self, address: str) -> None:
        place = describe_address(address)
        options = {"autocommit": True, "connect_timeout": CONNECT, **_NETWORK}
        try:
            self._watch = Watch(lambda: WatchedConnection.connect(address, **options))
        except psycopg.Error as error:
            raise StoreError(f"cannot use the store in {place}: {cause_of(error)}") from None
        self._pool = ConnectionPool(
            address,
            min_size=1,
            max_size=MAX_CONNECTIONS,
            timeout=WAIT,
            reconnect_timeout=WAIT,  # retried by the next request: no long pauses when the server is back
            open=False,
            connection_class=WatchedConnection,
            configure=self._configure,
            check=_check,
            kwargs=options,
        )
        try:
            with self._translate_errors():
                self._pool.open(wait=True, timeout=CONNECT)
        except BaseException:
            self.close()
            raise

    def _configure(self, connection: WatchedConnection) -> None:
        connection.watch = self._watch
        lock, idle = f"{LOCK * 1000:.0f}", f"{IDLE * 1000:.0f}"
        connection.execute(f"SET lock_timeout = {lock}; SET idle_in_transaction_session_timeout = {idle}")

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate errors of PostgreSQL; never with the address, which contains a password."""
        try:
            yield
        except (psycopg.DataError, psycopg.IntegrityError, UnicodeError) as error:
            raise DataError(f"the store cannot hold that: {error}") from None
        except psycopg.Error as error:
            problem = "the store is away" if self._watch.cause else "the store cannot be used now"
            raise StoreError(f"{problem}: PostgreSQL: {self._watch.cause or cause_of(error)}") from error

    @contextmanager
    def _run(self, begin: str, seconds: float) -> Iterator[_PostgresTransaction]:
        """A transaction of the pool, with a timeout for statements; fails at once if the server is known to be away."""
        with self._translate_errors():
            if self._watch.cause is not None:
                raise psycopg.OperationalError
            with self._pool.connection() as connection:
                connection.patience = seconds + LONGER
                begin = f"{begin}; SET LOCAL statement_timeout = {seconds * 1000:.0f}"
                with _PostgresTransaction.run(connection, begin) as transaction:
                    yield transaction

    def writing(self) -> AbstractContextManager[_PostgresTransaction]:
        return self._run("BEGIN", WRITING)

    def upgrading(self) -> AbstractContextManager[_PostgresTransaction]:
        return self._run("BEGIN; SET LOCAL lock_timeout = 0", UPGRADING)  # another worker may be migrating

    def reading(self) -> AbstractContextManager[_PostgresTransaction]:
        return self._run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", READING)

    def connections(self) -> dict[str, int]:
        stats = self._pool.get_stats()
        names = {"open": "pool_size", "idle": "pool_available", "waiting": "requests_waiting"}
        return {state: stats.get(name, 0) for state, name in names.items()}

    def back_up(self, path: Path) -> None:
        raise DataError("this store is in PostgreSQL; back it up with pg_dump --format=custom")

    def close(self) -> None:
        self._pool.close()
        self._watch.close()


def _check(connection: WatchedConnection) -> None:
    connection.patience = WAIT
    connection.execute("")


class _PostgresTransaction(Transaction):
    def execute(self, statement: str, values: Sequence[Any]) -> psycopg.Cursor[Row]:
        return self._connection.execute(_use_percent_marks(statement), values)  # type: ignore[no-any-return]

    def insert(self, table: SqlTable, rows: Sequence[Row]) -> list[bool]:
        """Insert in the order of the keys, so that two workers with the same rows do not deadlock."""
        places = [list(table.columns).index(name) for name in table.key]
        keys = [tuple(row[place] for place in places) for row in rows]
        order = sorted(range(len(rows)), key=lambda number: keys[number])
        columns = [list(column) for column in zip(*(rows[number] for number in order), strict=True)]
        new = set(self._connection.execute(_insertion(table), columns).fetchall())
        went_in = []
        for key in keys:
            went_in.append(key in new)
            new.discard(key)
        return went_in

    def alone(self) -> None:
        self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_ALONE,))


@lru_cache(256)
def _use_percent_marks(statement: str) -> str:
    """Replace our placeholder `?` by psycopg's."""
    return statement.replace("?", "%s")


@lru_cache(16)
def _insertion(table: SqlTable) -> str:
    arrays = ", ".join(f"%b::{kind}[]" for kind in table.columns.values())
    return (
        f"INSERT INTO {table.name} ({', '.join(table.columns)}) SELECT * FROM unnest({arrays}) "
        f"ON CONFLICT DO NOTHING RETURNING {', '.join(table.key)}"
    )
