"""PostgreSQL by psycopg: a pool of connections, which come back by themselves when the server does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

import psycopg
from psycopg.abc import RV, PQGen
from psycopg_pool import ConnectionPool

from interleaf.errors import DataError, StoreError
from interleaf.store.database import Row, Table

WAIT = 3.0  # seconds for a connection, and for its first word
LOCK = 5.0  # for what another transaction holds
WRITING, READING = 7.0, 30.0  # for a statement: many wait for one that writes, and one that reads may read much
UPGRADING = 86_400.0  # and one that makes an index of a large table
IDLE = 60.0  # between two statements: then the worker is taken for dead, and what it holds is free
LONGER = 1.0  # that we wait longer than the server, which tells what it was
MOST = 8  # connections of a process
_NETWORK = {  # a host that is gone says nothing; these have no effect on a local socket
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
        "among": "= ANY(?)",
        "each": "unnest(?::text[]) AS each (value)",
        "take": "FOR UPDATE",
        "take_free": "FOR UPDATE SKIP LOCKED",
        "hold": "FOR SHARE",
    }

    def __init__(self, address: str) -> None:
        self._pool = ConnectionPool(
            address,
            min_size=1,
            max_size=MOST,
            timeout=WAIT,
            reconnect_timeout=WAIT,  # and again for the next one who asks: no long pauses when the server is back
            open=False,
            connection_class=_Connection,
            configure=_limit,
            check=_check,
            kwargs={"autocommit": True, "connect_timeout": max(2, round(WAIT)), **_NETWORK},
        )
        with _told():
            try:
                self._pool.open(wait=True, timeout=WAIT)
            except BaseException:
                self._pool.close()
                raise

    @contextmanager
    def writing(self) -> Iterator[_Transaction]:
        with _told(), self._pool.connection() as connection, _ended(connection, "BEGIN", WRITING) as transaction:
            yield transaction

    @contextmanager
    def upgrading(self) -> Iterator[_Transaction]:
        with _told(), self._pool.connection() as connection, _ended(connection, "BEGIN", UPGRADING) as transaction:
            connection.execute("SET LOCAL lock_timeout = 0")  # another worker may be at it
            yield transaction

    @contextmanager
    def reading(self) -> Iterator[_Transaction]:
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with _told(), self._pool.connection() as connection, _ended(connection, begin, READING) as transaction:
            yield transaction

    def put(self, table: Table, rows: Sequence[Row], unless: Callable[[_Transaction], bool]) -> bool:
        """Not quicker here, where others write meanwhile."""
        return False

    def among(self, values: Sequence[str]) -> list[str]:
        return list(values)

    def warnings(self) -> list[str]:
        return []

    def back_up(self, path: Path) -> None:
        raise DataError("this store is in PostgreSQL; back it up with pg_dump --format=custom")

    def close(self) -> None:
        self._pool.close()


class _Connection(psycopg.Connection[Row]):
    """One that is closed when the server says nothing for too long: a process that is stopped heeds no timeout."""

    patience = WAIT

    def wait(self, gen: PQGen[RV], *given: Any, **named: Any) -> RV:
        return super().wait(self._heard(gen), *given, **named)

    def _heard(self, gen: PQGen[RV]) -> PQGen[RV]:
        """What psycopg waits for, with an end; it looks every tenth of a second whether something came."""
        end = monotonic() + self.patience
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    end = monotonic() + self.patience
                elif monotonic() > end:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"no word from the server for {self.patience} seconds")
                wanted = gen.send(ready)
        except StopIteration as done:
            found: RV = done.value
            return found


def _limit(connection: _Connection) -> None:
    connection.execute(
        f"SET lock_timeout = {LOCK * 1000:.0f}; SET idle_in_transaction_session_timeout = {IDLE * 1000:.0f}"
    )


def _check(connection: _Connection) -> None:
    connection.patience = WAIT
    connection.execute("")


@contextmanager
def _told() -> Iterator[None]:
    """What PostgreSQL refuses for now, in our words; never with the address, which holds a password."""
    try:
        yield
    except (psycopg.DataError, psycopg.IntegrityError, UnicodeError) as error:
        raise DataError(f"the store cannot hold that: {error}") from None
    except psycopg.Error as error:
        raise StoreError(f"the store is away ({type(error).__name__}); try again") from error


@contextmanager
def _ended(connection: _Connection, begin: str, seconds: float) -> Iterator[_Transaction]:
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
    def __init__(self, connection: _Connection) -> None:
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
