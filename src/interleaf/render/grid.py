"""A table in the making: it remembers which cells are None, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from interleaf.render.figures import several
from interleaf.tables import Table

UNKNOWN = "could not be computed from these data"

Value = TypeVar("Value")


class Missing(NamedTuple):
    """A cell that is None: its row, its column, and why."""

    row: str
    column: str
    reason: str


class Grid:
    """Rows of text under a label; the first columns are words, those in `figures` are numbers.

    >>> grid = Grid("slots", "", ("position",), ("share", "p"))
    >>> grid.add("position 1", "1", "50 %", None, reasons={"p": "one coin"})
    >>> grid.table().rows, grid.missing
    ((('1', '50 %', None),), [Missing(row='position 1', column='p', reason='one coin')])
    """

    def __init__(
        self, name: str, title: str, words: Iterable[str], figures: Iterable[str], drop_empty: bool = False
    ) -> None:
        self.name, self.title, self.drop_empty = name, title, drop_empty
        self.figures = tuple(figures)
        self.columns = (*words, *self.figures)
        self.rows: list[tuple[str | None, ...]] = []
        self.missing: list[Missing] = []

    def add(self, label: str, *cells: str | None, reasons: Mapping[str, str] | None = None, reason: str = "") -> None:
        """A row; why a cell is None, by its column or for all of them."""
        self.rows.append(cells)
        for column, cell in zip(self.columns, cells, strict=True):
            if cell is None:
                self.missing.append(Missing(label, column, (reasons or {}).get(column) or reason or UNKNOWN))

    def table(self) -> Table:
        """The table, its numbers to the right; if asked, without columns that hold nothing, which still say why."""
        filled = [any(row[number] is not None for row in self.rows) for number in range(len(self.columns))]
        kept = [number for number, full in enumerate(filled) if full or not self.drop_empty]
        columns = tuple(self.columns[number] for number in kept)
        rows = tuple(tuple(row[number] for number in kept) for row in self.rows)
        return Table(self.name, self.title, columns, rows, right=self.figures)


def written(write: Callable[[Value], str], value: Value | None) -> str | None:
    """The value as it is written; None stays None."""
    return None if value is None else write(value)


def why(missing: Iterable[Missing]) -> tuple[str, ...]:
    """Every reason once, with the columns and the rows that it holds for.

    >>> why([Missing("a over b", "p", "one unit"), Missing("a over b", "interval", "one unit")])
    ('No p, interval for a over b: one unit.',)
    """
    rows: dict[tuple[str, str], list[str]] = {}
    for row, column, reason in missing:
        rows.setdefault((reason, column), []).append(row)
    columns: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (reason, column), found in rows.items():
        columns.setdefault((reason, tuple(found)), []).append(column)
    return tuple(
        f"No {', '.join(titles)} for {several(found)}: {reason.rstrip('.')}."
        for (reason, found), titles in columns.items()
    )
