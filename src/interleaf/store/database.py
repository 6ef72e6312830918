"""The interface between the store's SQL and a database: transactions that read, change and insert.

Statements are constants with `?` for values: no statement contains input from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

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
    """A table for bulk inserts: its columns with their SQL types, and its key columns."""

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]


class Transaction(Protocol):
    """An atomic transaction."""

    def rows(self, statement: str, *values: Any) -> list[Row]:
        """The rows of a query."""

    def change(self, statement: str, *values: Any) -> int:
        """Run a statement; returns how many rows it changed."""

    def insert(self, table: SqlTable, rows: Sequence[Row]) -> list[bool]:
        """Insert rows whose key does not exist yet; returns for each whether it was inserted."""

    def alone(self) -> None:
        """Take an exclusive lock against other transactions that call this."""


class Database(Protocol):
    """A database. Every temporary error is raised as `StoreError`."""

    words: ClassVar[Mapping[str, str]]  # words of the SQL dialect, for migrations and queries

    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction that is durable when it ends."""

    def upgrading(self) -> AbstractContextManager[Transaction]:
        """The same for migrations, with a long timeout."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """A read-only transaction with one snapshot."""

    def put(self, table: SqlTable, rows: Sequence[Row], unless: Callable[[Transaction], bool]) -> bool:
        """Insert rows in one fast transaction. Returns False, and inserts nothing, if `unless` is true, if a key exists
        already, or if this is not faster than `writing`.
        """

    def among(self, values: Sequence[str] | Sequence[int]) -> Any:
        """Texts or numbers as the value of the `among` clause."""

    def connections(self) -> dict[str, int]:
        """Counts of a connection pool: `open`, `idle`, and requests `waiting` for a connection."""

    def warnings(self) -> list[str]:
        """Problems that the operator should fix, each with its remedy."""

    def back_up(self, path: Path) -> None:
        """Write a consistent copy to a new file that only its owner can read."""

    def scrub(self) -> bool:
        """Remove deleted rows from the files, if the database can; False if readers block it: try again."""

    def close(self) -> None: ...
