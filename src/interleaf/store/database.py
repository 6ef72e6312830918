"""What the SQL of a store is written against: transactions that read, change and insert; each database is one of these.

Statements are constants of ours, with `?` where a value goes: nothing from outside is ever part of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

Row = tuple[Any, ...]
MAX_BYTES = 1000  # of an id: two of them fit a key of every database


def is_kept(text: str, most: int | None = None) -> bool:
    """Whether every database takes a text: it is Unicode, without null characters, and not longer than that.

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
    """A table that many rows are put into at once: its columns with their SQL types, and those of its key."""

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]


class Transaction(Protocol):
    """All or nothing; what was read stays as it was read."""

    def rows(self, statement: str, *values: Any) -> list[Row]:
        """What a query finds."""

    def change(self, statement: str, *values: Any) -> int:
        """How many rows a statement changed."""

    def insert(self, table: SqlTable, rows: Sequence[Row]) -> list[bool]:
        """Put rows in whose key is not there yet; of each, whether it went in."""

    def alone(self) -> None:
        """Let no other transaction that calls this run until this one has ended."""


class Database(Protocol):
    """A connection, or many of them; every error of it that may pass is `StoreError`."""

    words: ClassVar[Mapping[str, str]]  # what the same thing is called in each dialect, for migrations and queries

    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction that is durable when it ends."""

    def upgrading(self) -> AbstractContextManager[Transaction]:
        """The same, and it may take its time: nothing else can be done before it."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one state, and changes nothing."""

    def put(self, table: SqlTable, rows: Sequence[Row], unless: Callable[[Transaction], bool]) -> bool:
        """Put rows in, as a transaction of their own, unless something is found first, or a key is there already.

        Then nothing is done, and False; also where this is not quicker than `writing`.
        """

    def among(self, values: Sequence[str] | Sequence[int]) -> Any:
        """Texts or numbers as the value of `{among}`."""

    def connections(self) -> dict[str, int]:
        """Of a pool: `open`, `idle`, and requests `waiting` for one."""

    def warnings(self) -> list[str]:
        """What the operator should mend, each with its remedy."""

    def back_up(self, path: Path) -> None:
        """Write a consistent copy to a new file that only its owner can read."""

    def scrub(self) -> bool:
        """Remove deleted rows from the files, where a database can; False if readers are in the way: try again."""

    def close(self) -> None: ...
