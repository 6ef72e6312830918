"""A SQLite file as a database of the store, readable only by its owner."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import Any, ClassVar

from interleaf.errors import DataError, StoreError
from interleaf.store.database import Database, Row, SqlTable, Transaction

OWNER_ONLY = 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def create_private(path: Path, content: bytes = b"") -> None:
    """Create a file with mode 0600, whatever the umask is; FileExistsError if there is a file already."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY)
    except FileExistsError:
        raise
    except OSError as error:
        raise DataError(f"cannot create {path}: {error.strerror}; give another path") from None
    with os.fdopen(descriptor, "wb") as file:
        os.chmod(path, OWNER_ONLY)  # the umask may have removed the owner's permissions
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def exposure(*paths: Path) -> str | None:
    """A warning with its remedy if other users of this machine can open any of these files, else None."""
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in paths if path.exists()}
    exposed = [path for path, mode in modes.items() if mode & _OTHERS]
    if not exposed:
        return None
    named = ", ".join(f"{path} (mode {modes[path]:04o})" for path in exposed)
    remedy = " ".join(["chmod", "600", *map(str, exposed)])
    return f"other users of this machine can open {named}; close it to them: {remedy}"


MAX_ROWS = 500  # rows of a statement; SQLite takes 32,766 values
WAIT = 5.0  # seconds to wait for another process that writes
SCRUB = 2.0  # seconds to wait for readers of the write-ahead log
WRITER_CACHE, READER_CACHE = 32_768, 4_096  # KiB of page cache per connection
MAX_IDLE_READERS = 4
_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # a commit is on the disk when it returns
    "PRAGMA wal_autocheckpoint = 4000",  # pages
    "PRAGMA secure_delete = ON",  # deleted rows are overwritten in the file
)
_DIALECT = {  # SQLite has no arrays, and no locks of rows, because there is one writer
    "= ANY(?)": "IN (SELECT value FROM json_each(?))",
    "unnest(?::text[]) AS each (value)": "json_each(?) AS each",
    "FOR UPDATE SKIP LOCKED": "",
    "FOR UPDATE": "",
    "FOR SHARE": "",
}


class SQLite(Database):
    """A SQLite file as a `Database`."""

    words: ClassVar[Mapping[str, str]] = {
        "number": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "bytes": "blob",
        "real": "real",
        "keyed": "WITHOUT ROWID",
        "by_code": "",
    }

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.parent.is_dir():
            raise DataError(f"there is no folder {path.parent} for the store; make it first")
        with suppress(FileExistsError):
            create_private(path)  # SQLite gives its other files the same mode
        self._writing = Lock()
        self._readers: list[sqlite3.Connection] = []
        self._is_closed = False
        self._writer = self._connection(WRITER_CACHE)
        self._identities = {path: _identity(path)}

    def _connection(self, cache: int) -> sqlite3.Connection:
        with _translate_errors():
            address = f"{self._path.absolute().as_uri()}?mode=rw"  # never create it with the umask's mode
            connection = sqlite3.connect(address, WAIT, isolation_level=None, check_same_thread=False, uri=True)
            try:
                for setting in (*_SETTINGS, f"PRAGMA cache_size = -{cache}"):
                    connection.execute(setting)
            except BaseException:
                connection.close()
                raise
            return connection

    @contextmanager
    def writing(self) -> Iterator[_SQLiteTransaction]:
        with self._writing, _translate_errors():
            self._check_files()
            with _SQLiteTransaction.run(self._writer, "BEGIN IMMEDIATE") as transaction:
                yield transaction
            self._check_files()

    @contextmanager
    def reading(self) -> Iterator[_SQLiteTransaction]:
        self._check_files()
        with self._reader() as reader, _translate_errors(), _SQLiteTransaction.run(reader, "BEGIN") as transaction:
            yield transaction

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        """A connection for exclusive use."""
        try:
            reader = self._readers.pop()
        except IndexError:
            if self._is_closed:
                raise StoreError("the store is away: it was closed; open it again") from None
            reader = self._connection(READER_CACHE)
        try:
            yield reader
        finally:
            if len(self._readers) < MAX_IDLE_READERS:
                self._readers.append(reader)
            else:
                reader.close()
            if self._is_closed:  # meanwhile
                self._close_readers()

    def put(self, table: SqlTable, rows: Sequence[Row], unless: Callable[[Transaction], bool]) -> bool:
        """Insert with a single statement: each further one, such as BEGIN, releases the GIL and waits to get it back.

        Nothing is written between `unless` and the insert.
        """
        if not 0 < len(rows) <= MAX_ROWS:
            return False
        with self._writing, _translate_errors():
            if unless(_SQLiteTransaction(self._writer)):
                return False
            with suppress(sqlite3.IntegrityError):
                _insert(self._writer, table, rows)
                self._check_files()
                return True
        return False

    def warnings(self) -> list[str]:
        warning = exposure(self._path, *self._beside())
        return [] if warning is None else [warning]

    def _beside(self) -> list[Path]:
        """The other files of SQLite while the store is open."""
        return [self._path.with_name(self._path.name + ending) for ending in ("-wal", "-shm")]

    def _check_files(self) -> None:
        """Raise StoreError if a file of the store was moved or replaced, so that writes would be lost."""
        identities = self._identities  # replaced, never changed in place, because other threads may iterate over it
        if len(identities) < 3:
            identities = {path: _identity(path) for path in self._beside() if path.exists()} | identities
            self._identities = identities
        for path, identity in identities.items():
            now = _identity(path)
            if now != identity and not self._is_closed:  # SQLite deletes two of them when the store is closed
                what = "deleted" if now is None else "replaced"
                problem = f"the store's file {path.name} was {what} while the service ran"
                raise StoreError(f"{problem}; stop the service, put the right file back, and start it again")

    def scrub(self) -> bool:
        """Empty the write-ahead log, which may still contain deleted rows."""
        end = monotonic() + SCRUB
        while True:
            with self._writing, _translate_errors():
                self._writer.execute("PRAGMA busy_timeout = 0")  # writers must not wait for readers
                ((is_busy, _, _),) = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                self._writer.execute(f"PRAGMA busy_timeout = {WAIT * 1000:.0f}")
            if not is_busy or monotonic() > end:
                return not is_busy
            sleep(0.02)

    def back_up(self, path: Path) -> None:
        """Copy without free pages, so that the backup contains no deleted rows."""
        try:
            create_private(path)
        except FileExistsError:
            raise DataError(f"{path} already exists; give the backup another name") from None
        try:
            with self._reader() as reader, _translate_errors():
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
        """Close idle readers; each is removed from the list first, so no other thread has it."""
        with suppress(IndexError):
            while True:
                self._readers.pop().close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of a file; None if there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translate errors of SQLite."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.DataError, OverflowError, UnicodeError) as error:
        raise DataError(f"the store cannot hold that: {error}") from None
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            raise DataError("the file is not an SQLite database; give another file, or a new name") from None
        raise StoreError(f"the store is away: {error}; try again") from error


class _SQLiteTransaction(Transaction):
    def execute(self, statement: str, values: Sequence[Any]) -> sqlite3.Cursor:
        """Run a statement; SQLite takes a list as JSON."""
        plain = [json.dumps(value) if isinstance(value, list) else value for value in values]
        return self._connection.execute(_translate(statement), plain)  # type: ignore[no-any-return]

    def insert(self, table: SqlTable, rows: Sequence[Row]) -> list[bool]:
        """Insert many rows by one statement; if a key exists already, undo that, and insert rows one by one."""
        is_new: list[bool] = []
        for start in range(0, len(rows), MAX_ROWS):
            some = rows[start : start + MAX_ROWS]
            try:
                _insert(self._connection, table, some)
            except sqlite3.IntegrityError:
                is_new += [_insert(self._connection, table, [row], "ON CONFLICT DO NOTHING") == 1 for row in some]
            else:
                is_new += [True] * len(some)
        return is_new


@lru_cache(1024)
def _translate(statement: str) -> str:
    for word, own_word in _DIALECT.items():
        statement = statement.replace(word, own_word)
    return statement


def _insert(connection: sqlite3.Connection, table: SqlTable, rows: Sequence[Row], otherwise: str = "") -> int:
    """Returns how many rows were inserted."""
    marks = ", ".join([f"({', '.join('?' * len(table.columns))})"] * len(rows))
    statement = f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES {marks} {otherwise}"
    return connection.execute(statement, tuple(chain.from_iterable(rows))).rowcount
