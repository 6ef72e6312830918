"""PostgreSQL by psycopg: a pool of connections, which come back by themselves when the server does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from psycopg_pool import ConnectionPool

from interleaf.errors import DataError, StoreError
from interleaf.store.causes import cause_of, described
from interleaf.store.database import Row, Table
from interleaf.store.watching import Connection, Watch

CONNECT = 3  # seconds to connect at the start
WAIT = 0.7  # seconds for a connection of the pool
LOCK = 5.0  # for what another transaction holds
WRITING, READING = 7.0, 30.0  # for a statement: many wait for one that writes, and one that reads may read much
UPGRADING = 86_400.0  # and one that makes an index of a large table
IDLE = 60.0  # between two statements: then the worker is taken for dead, and what it holds is free
LONGER = 1.0  # that we wait longer than the server, which tells what it was
MOST = 8  # connections of a process
_NETWORK: dict[str, Any] = {  # a host that is gone says nothing; these have no effect on a local socket
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}
_ALONE = 0x696E7465726C6561  # the lock of this program among all advisory locks


class Postgres:
    """A server as a `Database`."""

    words: ClassVar[Mapping[str, str]] = {
        "number": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "bytes": "bytea",
        "real": "double precision",
        "keyed": "",
        "by_code": 'COLLATE "C"',
        "among": "= ANY(?)",
        "each": "unnest(?::text[]) AS each (value)",
        "take": "FOR UPDATE",
        "take_free": "FOR UPDATE SKIP LOCKED",
        "hold": "FOR SHARE",
    }

    def __init__(self, address: str) -> None:
        place = described(address)
        options = {"autocommit": True, "connect_timeout": CONNECT, **_NETWORK}
        try:
            self._watch = Watch(lambda: Connection.connect(address, **options))
        except psycopg.Error as error:
            raise StoreError(f"cannot use the store in {place}: {cause_of(error)}") from None
        self._pool = ConnectionPool(
            address,
            min_size=1,
            max_size=MOST,
            timeout=WAIT,
            reconnect_timeout=WAIT,  # and again for the next one who asks: no long pauses when the server is back
            open=False,
            connection_class=Connection,
            configure=self._configure,
            check=_check,
            kwargs=options,
        )
        try:
            with self._told():
                self._pool.open(wait=True, timeout=CONNECT)
        except BaseException:
            self.close()
            raise

    def _configure(self, connection: Connection) -> None:
        connection.watch = self._watch
        connection.execute(
            f"SET lock_timeout = {LOCK * 1000:.0f}; SET idle_in_transaction_session_timeout = {IDLE * 1000:.0f}"
        )

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """A connection of the pool, unless the server is known to be away: then nobody waits for one."""
        with self._told():
            if self._watch.cause is not None:
                raise psycopg.OperationalError
            with self._pool.connection() as connection:
                yield connection

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What PostgreSQL refuses for now, in our words; never with the address, which holds a password."""
        try:
            yield
        except (psycopg.DataError, psycopg.IntegrityError, UnicodeError) as error:
            raise DataError(f"the store cannot hold that: {error}") from None
        except psycopg.Error as error:
            problem = "the store is away" if self._watch.cause else "the store cannot be used now"
            raise StoreError(f"{problem}: PostgreSQL: {self._watch.cause or cause_of(error)}") from error

    @contextmanager
    def writing(self) -> Iterator[_Transaction]:
        with self._connected() as connection, _ended(connection, "BEGIN", WRITING) as transaction:
            yield transaction

    @contextmanager
    def upgrading(self) -> Iterator[_Transaction]:
        with self._connected() as connection, _ended(connection, "BEGIN", UPGRADING) as transaction:
            connection.execute("SET LOCAL lock_timeout = 0")  # another worker may be at it
            yield transaction

    @contextmanager
    def reading(self) -> Iterator[_Transaction]:
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with self._connected() as connection, _ended(connection, begin, READING) as transaction:
            yield transaction

    def put(self, table: Table, rows: Sequence[Row], unless: Callable[[_Transaction], bool]) -> bool:
        """Not quicker here, where others write meanwhile."""
        return False

    def among(self, values: Sequence[str] | Sequence[int]) -> list[Any]:
        return list(values)

    def connections(self) -> dict[str, int]:
        stats = self._pool.get_stats()
        names = {"open": "pool_size", "idle": "pool_available", "waiting": "requests_waiting"}
        return {state: stats.get(name, 0) for state, name in names.items()}

    def warnings(self) -> list[str]:
        return []

    def back_up(self, path: Path) -> None:
        raise DataError("this store is in PostgreSQL; back it up with pg_dump --format=custom")

    def scrub(self) -> bool:
        """Nothing to do: autovacuum frees deleted rows, and the server's own log is recycled, in its own time."""
        return True

    def close(self) -> None:
        self._pool.close()
        self._watch.close()


def _check(connection: Connection) -> None:
    connection.patience = WAIT
    connection.execute("")


@contextmanager
def _ended(connection: Connection, begin: str, seconds: float) -> Iterator[_Transaction]:
    connection.patience = seconds + LONGER
    connection.execute(f"{begin}; SET LOCAL statement_timeout = {seconds * 1000:.0f}")
    try:
        yield _Transaction(connection)
        connection.execute("COMMIT")
    except BaseException:
        with suppress(psycopg.Error):  # the connection may be gone
            connection.execute("ROLLBACK")
        raise


class _Transaction:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, *values: Any) -> list[Row]:
        return self._connection.execute(_marked(statement), values).fetchall()

    def change(self, statement: str, *values: Any) -> int:
        return self._connection.execute(_marked(statement), values).rowcount

    def insert(self, table: Table, rows: Sequence[Row]) -> list[bool]:
        """In the order of their keys, so that two workers with the same rows never wait for each other in a circle."""
        places = [list(table.columns).index(name) for name in table.key]
        keys = [tuple(row[place] for place in places) for row in rows]
        order = sorted(range(len(rows)), key=lambda number: keys[number])
        columns = [list(column) for column in zip(*(rows[number] for number in order), strict=True)]
        found = self._connection.execute(_insertion(table.name, *table.columns.items(), key=table.key), columns)
        new = set(found.fetchall())
        went_in = []
        for key in keys:
            went_in.append(key in new)
            new.discard(key)
        return went_in

    def alone(self) -> None:
        self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_ALONE,))


@lru_cache(256)
def _marked(statement: str) -> str:
    """Our mark of a value as psycopg's."""
    return statement.replace("?", "%s")


@lru_cache(16)
def _insertion(name: str, *columns: tuple[str, str], key: tuple[str, ...]) -> str:
    names = ", ".join(column for column, _ in columns)
    arrays = ", ".join(f"%b::{kind}[]" for _, kind in columns)
    returned = ", ".join(key)
    return f"INSERT INTO {name} ({names}) SELECT * FROM unnest({arrays}) ON CONFLICT DO NOTHING RETURNING {returned}"
