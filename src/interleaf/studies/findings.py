"""The table of findings that were reproduced; verdicts are computed from the printed tables of the study.

So the last table of a study cannot contradict the tables above it, and a page that prints both can be checked without
running the study again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from interleaf.tables import Cell, Table

CAME_BACK, DID_NOT, CANNOT = "came back", "did not", "cannot be tried here"
NEVER = float("inf")
LEFT_OUT = "this run leaves it out"


class MissingNumberError(LookupError):
    """A run does not have the number that a finding needs."""


class PrintedTables:
    """The tables of a study as text, looked up by the beginning of their titles."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables

    def rows(self, title: str) -> list[Mapping[str, str]]:
        """The rows, by column, of the first table whose title begins with `title`."""
        for table in self._tables:
            if table.title.startswith(title):
                columns, *lines = table.lines()
                return [dict(zip(columns, line, strict=True)) for line in lines]
        raise MissingNumberError(LEFT_OUT)

    def cell(self, title: str, column: str, **values: str) -> str:
        """The cell of the row with these values; a space in a column's name is an underscore here."""
        for row in self.rows(title):
            if all(row[name.replace("_", " ")] == value for name, value in values.items()):
                return row[column]
        raise MissingNumberError(LEFT_OUT)

    def number(self, title: str, column: str, **values: str) -> float:
        """The first number in the cell of the row with these values."""
        return number_in(self.cell(title, column, **values))


def number_in(text: str) -> float:
    """The first number in a text; infinite if it says that a level was never reached."""
    return NEVER if text.startswith("never") else float(digits_in(text).replace(",", ""))


def digits_in(text: str) -> str:
    """The first number in a text, as it is printed."""
    match = re.search(r"[-+]?\d[\d,]*\.?\d*", text)
    if match is None:
        raise MissingNumberError("the run gave no number")
    return match[0]


Answer = tuple[str, bool]  # the result of the run, and whether it agrees with the paper


@dataclass(frozen=True)
class Finding:
    """A claim of a paper, its published numbers, and a function that answers it from the tables of a run.

    The function gets the tables, then the `arguments`. Without a function the claim cannot be tried, and `why` says
    why; with one, `why` says what may explain a difference, and `needs` says which run has the numbers.
    """

    claim: str
    published: str
    answer: Callable[..., Answer] | None
    arguments: tuple[Any, ...] = ()
    why: str = ""
    needs: str = ""

    def row(self, tables: PrintedTables) -> tuple[Cell, ...]:
        """The row of the table of findings."""
        if self.answer is None:
            return self.claim, self.published, None, CANNOT, self.why
        try:
            ours, holds = self.answer(tables, *self.arguments)
        except MissingNumberError as error:
            return self.claim, self.published, None, CANNOT, "; ".join(filter(None, (str(error), self.needs)))
        return self.claim, self.published, ours, CAME_BACK if holds else DID_NOT, self.why or None


def findings_table(findings: Sequence[Finding], tables: Sequence[Table]) -> Table:
    """Each claim with its verdict."""
    columns = ("finding", "published", "here", "verdict", "why")
    rows = tuple(finding.row(PrintedTables(tables)) for finding in findings)
    return Table("findings", "What came back of the paper's findings", columns, rows)


def falling(tables: PrintedTables, title: str, column: str, by: str, names: Sequence[str]) -> Answer:
    """Whether the numbers of these rows decrease from one row to the next."""
    numbers = [digits_in(tables.cell(title, column, **{by: name})) for name in names]
    return ", ".join(numbers), all(number_in(one) > number_in(other) for one, other in pairwise(numbers))


def near(
    tables: PrintedTables, title: str, column: str, by: str, published: Mapping[str, float], within: float
) -> Answer:
    """Whether the numbers of these rows are within a tolerance of the published ones."""
    numbers = [digits_in(tables.cell(title, column, **{by: name})) for name in published]
    pairs = zip(numbers, published.values(), strict=True)
    return ", ".join(numbers), all(abs(number_in(ours) - theirs) <= within for ours, theirs in pairs)
