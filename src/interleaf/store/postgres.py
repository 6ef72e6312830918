"""PostgreSQL by psycopg: a pool of connections, which come back by themselves when the server does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, ClassVar

from interleaf.errors import DataError, StoreError
from interleaf.store.database import Row, Table

try:
    import psycopg
    from psycopg_pool import ConnectionPool
except ImportError:
    raise DataError(
        "a store in PostgreSQL needs psycopg, which is not installed: pip install 'interleaf[postgres]'"
    ) from None

WAIT = 3.0  # seconds for a connection
MOST = 8  # connections of a process
_ALONE = 0x696E7465726C6561  # the lock of this program among all advisory locks


class Postgres:
    """A server as a `Database`."""

    words: ClassVar[Mapping[str, str]] = {
        "number": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "bytes": "bytea",
        "real": "double precision",
        "keyed": "",
        "among": "= ANY(?)",
        "take_free": "FOR UPDATE SKIP LOCKED",
        "hold": "FOR SHARE",
    }

    def __init__(self, address: str) -> None:
        self._pool = ConnectionPool(
            address,
            min_size=1,
            max_size=MOST,
            timeout=WAIT,
            open=False,
            check=ConnectionPool.check_connection,
            kwargs={"autocommit": True},
        )
        with _told():
            try:
                self._pool.open(wait=True, timeout=WAIT)
            except BaseException:
                self._pool.close()
                raise

    @contextmanager
    def writing(self) -> Iterator[_Transaction]:
        with _told(), self._pool.connection() as connection, _ended(connection, "BEGIN") as transaction:
            yield transaction

    @contextmanager
    def reading(self) -> Iterator[_Transaction]:
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with _told(), self._pool.connection() as connection, _ended(connection, begin) as transaction:
            yield transaction

    def among(self, values: Sequence[str]) -> list[str]:
        return list(values)

    def close(self) -> None:
        self._pool.close()


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
def _ended(connection: psycopg.Connection[Row], begin: str) -> Iterator[_Transaction]:
    connection.execute(begin)
    try:
        yield _Transaction(connection)
        connection.execute("COMMIT")
    except BaseException:
        with suppress(psycopg.Error):  # the connection may be gone
            connection.execute("ROLLBACK")
        raise


class _Transaction:
    def __init__(self, connection: psycopg.Connection[Row]) -> None:
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
