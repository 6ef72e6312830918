"""SQLite: a file with a write-ahead log; one connection writes, others read what was committed."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

from interleaf.errors import DataError, StoreError
from interleaf.store.database import Row, Table
from interleaf.store.files import create_private, exposure

MOST_AT_ONCE = 500  # rows of a statement; SQLite takes 32,766 values
WAIT = 5.0  # seconds for another process that writes
_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # a commit is on the disk when it returns
    "PRAGMA cache_size = -32768",  # KiB
    "PRAGMA wal_autocheckpoint = 4000",  # pages
)


class SQLite:
    """A file as a `Database`."""

    words: ClassVar[Mapping[str, str]] = {
        "number": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "bytes": "blob",
        "real": "real",
        "keyed": "WITHOUT ROWID",
        "among": "IN (SELECT value FROM json_each(?))",
        "each": "json_each(?) AS each",
        "take": "",
        "take_free": "",
        "hold": "",
    }

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.parent.is_dir():
            raise DataError(f"there is no folder {path.parent} for the store; make it first")
        with suppress(FileExistsError):
            create_private(path)  # the files that SQLite puts beside it get the same mode
        self._writing = Lock()
        self._readers: list[sqlite3.Connection] = []
        self._is_closed = False
        self._writer = self._connection()

    def _connection(self) -> sqlite3.Connection:
        with _told():
            address = f"{self._path.absolute().as_uri()}?mode=rw"  # never make a file anew, with the umask's mode
            connection = sqlite3.connect(address, WAIT, isolation_level=None, check_same_thread=False, uri=True)
            try:
                for setting in _SETTINGS:
                    connection.execute(setting)
            except BaseException:
                connection.close()
                raise
            return connection

    @contextmanager
    def writing(self) -> Iterator[_Transaction]:
        with self._writing, _told(), _ended(self._writer, "BEGIN IMMEDIATE") as transaction:
            yield transaction

    upgrading = writing

    @contextmanager
    def reading(self) -> Iterator[_Transaction]:
        with self._reader() as reader, _told(), _ended(reader, "BEGIN") as transaction:
            yield transaction

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        """A connection that nobody else uses meanwhile."""
        try:
            reader = self._readers.pop()
        except IndexError:
            if self._is_closed:
                raise StoreError("the store is away: it was closed; open it again") from None
            reader = self._connection()
        try:
            yield reader
        finally:
            self._readers.append(reader)
            if self._is_closed:  # meanwhile
                self._close_readers()

    def put(self, table: Table, rows: Sequence[Row], unless: Callable[[_Transaction], bool]) -> bool:
        """A statement is a transaction. Each more gives up the interpreter's lock, and must wait to have it back.

        Nobody else writes between what `unless` finds and the rows.
        """
        if not 0 < len(rows) <= MOST_AT_ONCE:
            return False
        with self._writing, _told():
            if unless(_Transaction(self._writer)):
                return False
            with suppress(sqlite3.IntegrityError):
                _insert(self._writer, table, rows)
                return True
        return False

    def among(self, values: Sequence[str]) -> str:
        return json.dumps(values)

    def warnings(self) -> list[str]:
        beside = (self._path.with_name(self._path.name + ending) for ending in ("-wal", "-shm"))
        warning = exposure(self._path, *beside)
        return [] if warning is None else [warning]

    def back_up(self, path: Path) -> None:
        """Without free pages, so that a backup holds no rows that were deleted before."""
        try:
            create_private(path)
        except FileExistsError:
            raise DataError(f"there is a file {path} already; give the backup another name") from None
        try:
            with self._reader() as reader, _told():
                reader.execute("VACUUM INTO ?", (str(path),))
            with path.open("rb") as file:
                os.fsync(file.fileno())
        except BaseException:
            path.unlink()
            raise

    def close(self) -> None:
        with self._writing:
            self._is_closed = True
            self._close_readers()
            self._writer.close()

    def _close_readers(self) -> None:
        """Each by who took it out of the list: nobody else has it then."""
        with suppress(IndexError):
            while True:
                self._readers.pop().close()


@contextmanager
def _told() -> Iterator[None]:
    """What SQLite refuses for now, in our words."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.DataError, OverflowError, UnicodeError) as error:
        raise DataError(f"the store cannot hold that: {error}") from None
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            raise DataError("the file is no database of SQLite; give another one, or a name that is free") from None
        raise StoreError(f"the store is away: {error}; try again") from error


@contextmanager
def _ended(connection: sqlite3.Connection, begin: str) -> Iterator[_Transaction]:
    connection.execute(begin)
    try:
        yield _Transaction(connection)
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # a full disk ends the transaction by itself
            connection.execute("ROLLBACK")
        raise


class _Transaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, *values: Any) -> list[Row]:
        return self._connection.execute(statement, values).fetchall()

    def change(self, statement: str, *values: Any) -> int:
        return self._connection.execute(statement, values).rowcount

    def insert(self, table: Table, rows: Sequence[Row]) -> list[bool]:
        """Many rows by one statement; if the key of one is there already, it is undone, and rows go in one by one."""
        found: list[bool] = []
        for start in range(0, len(rows), MOST_AT_ONCE):
            some = rows[start : start + MOST_AT_ONCE]
            try:
                _insert(self._connection, table, some)
            except sqlite3.IntegrityError:
                found += [_insert(self._connection, table, [row], "ON CONFLICT DO NOTHING") == 1 for row in some]
            else:
                found += [True] * len(some)
        return found

    def alone(self) -> None:
        """Nothing to do: there is one writer."""


def _insert(connection: sqlite3.Connection, table: Table, rows: Sequence[Row], otherwise: str = "") -> int:
    """How many went in."""
    marks = ", ".join([f"({', '.join('?' * len(table.columns))})"] * len(rows))
    statement = f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES {marks} {otherwise}"
    return connection.execute(statement, tuple(chain.from_iterable(rows))).rowcount
