"""The interface between the store's SQL and a database: transactions that read, change and insert.

Statements are constants in the SQL of PostgreSQL with `?` for values: no statement contains input from outside. A list
is one value, as in `id = ANY(?)`. `SQLite` translates what its dialect lacks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

Row = tuple[Any, ...]
MAX_BYTES = 1000  # of an id: a key of two ids fits every database


def is_kept(text: str, most: int | None = None) -> bool:
    """Whether every database can store a text: valid Unicode, no null characters, at most `most` bytes.

    >>> is_kept("i-1"), is_kept("\\0"), is_kept("\\ud800")
    (True, False, False)
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return False
    return "\0" not in text and (most is None or size <= most)


@dataclass(frozen=True)
class SqlTable:
    """A table for bulk inserts: its columns with their types, as in `id text, rank integer`, and its key columns."""

    name: str
    declaration: str
    key: tuple[str, ...]

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """The type of each column."""
        return dict(column.split(" ", 1) for column in self.declaration.split(", "))


class Transaction(ABC):
    """An atomic transaction on a connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @classmethod
    @contextmanager
    def run(cls, connection: Any, begin: str) -> Iterator[Self]:
        """Begin a transaction, and commit it at the end, or roll it back after an error."""
        connection.execute(begin)
        try:
            yield cls(connection)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(Exception):  # the connection may be gone; on a full disk, SQLite rolls back by itself
                connection.execute("ROLLBACK")
            raise

    @abstractmethod
    def execute(self, statement: str, values: Sequence[Any]) -> Any:
        """Run a statement; returns the cursor."""

    def rows(self, statement: str, *values: Any) -> list[Row]:
        """The rows of a query."""
        rows: list[Row] = self.execute(statement, values).fetchall()
        return rows

    def column(self, statement: str, *values: Any) -> list[Any]:
        """The values of a query for one column."""
        return [value for (value,) in self.rows(statement, *values)]

    def change(self, statement: str, *values: Any) -> int:
        """Run a statement; returns how many rows it changed."""
        return int(self.execute(statement, values).rowcount)

    @abstractmethod
    def insert(self, table: SqlTable, rows: Sequence[Row]) -> list[bool]:
        """Insert rows whose key does not exist yet; returns for each whether it was inserted."""

    def alone(self) -> None:
        """Take an exclusive lock against other transactions that call this; not needed if there is one writer."""
        return


class Database(ABC):
    """A database. Every temporary error is raised as `StoreError`."""

    words: ClassVar[Mapping[str, str]]  # words of the SQL dialect, for migrations

    @abstractmethod
    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction that is durable when it ends."""

    def upgrading(self) -> AbstractContextManager[Transaction]:
        """The same for migrations, with a long timeout."""
        return self.writing()

    @abstractmethod
    def reading(self) -> AbstractContextManager[Transaction]:
        """A read-only transaction with one snapshot."""

    def put(self, table: SqlTable, rows: Sequence[Row], unless: Callable[[Transaction], bool]) -> bool:
        """Insert rows in one fast transaction. Returns False, and inserts nothing, if `unless` is true, if a key exists
        already, or if this is not faster than `writing`.
        """
        return False

    def connections(self) -> dict[str, int]:
        """How many connections to a server, if there is one, are `open` and `idle`, and requests `waiting` for one."""
        return {}

    def warnings(self) -> list[str]:
        """Problems that the operator should fix, each with its remedy, such as a file that other users can open."""
        return []

    @abstractmethod
    def back_up(self, path: Path) -> None:
        """Write a consistent copy to a new file that only its owner can read; writes continue meanwhile."""

    def scrub(self) -> bool:
        """Remove deleted rows from the files; False if readers block it: try again."""
        return True

    @abstractmethod
    def close(self) -> None: ...
