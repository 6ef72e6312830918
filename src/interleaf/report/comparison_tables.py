"""Tables of comparisons: which pairs and columns are shown, and the reasons for empty cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from interleaf.report.format import Names, several
from interleaf.report.model import BY_SEGMENT, Comparison, Point, ReportData, SegmentComparison, columns_of
from interleaf.tables import Table

MAX_ROWS = 40
MAX_FOLLOWED = 6  # pairs over time

Thing = TypeVar("Thing")
Labelled = tuple[str, Comparison]


def interval_name(report: ReportData) -> str:
    """The name of the report's intervals, which depends on its rule."""
    level = f"{100 * report.confidence:g} %"
    if report.look is None:
        return f"{level} anytime interval"
    which, of = report.look
    return f"{level} interval" if of == 1 else f"{level} interval at look {which} of {of}"


def shown(report: ReportData) -> tuple[Comparison, ...]:
    """The pairs to show: all; if too many, those with the control, or those furthest from 0 in standard errors."""
    every = report.comparisons
    if len(every) > MAX_ROWS and report.control is not None:
        every = tuple(pair for pair in every if report.control in (pair.first, pair.second)) or every
    return pick_furthest(every, lambda pair: pair)


def shown_in_brief(report: ReportData) -> tuple[Comparison, ...]:
    """The pairs to show in brief: all; for many rankers, those with the control, or else with the leader."""
    if report.standing is None:
        return shown(report)
    centre = report.control or report.standing.strengths[0].ranker
    pairs = tuple(pair for pair in report.comparisons if centre in (pair.first, pair.second))
    return pairs[:MAX_ROWS] or shown(report)


def wins_and_losses(report: ReportData) -> tuple[Counter[str | None], Counter[str | None]]:
    """How many other rankers each ranker beats, and how many it loses to, corrected for all pairs together."""
    decided = [pair for pair in report.comparisons if pair.winner is not None]
    return Counter(pair.winner for pair in decided), Counter(pair.loser for pair in decided)


def pick_furthest(things: Sequence[Thing], comparison_of: Callable[[Thing], Comparison]) -> tuple[Thing, ...]:
    """The rows of a table, in their order: those whose comparisons are furthest from zero, up to the table's limit."""

    def errors_from_zero(number: int) -> float:
        pair = comparison_of(things[number])
        return abs(pair.estimate) / pair.error if pair.estimate is not None and pair.error else 0.0

    furthest = sorted(range(len(things)), key=errors_from_zero, reverse=True)[:MAX_ROWS]
    return tuple(things[number] for number in sorted(furthest))


def points_shown(report: ReportData) -> tuple[Point, ...]:
    """The points over time of the pairs that are shown first."""
    pairs = {(pair.first, pair.second) for pair in shown(report)[:MAX_FOLLOWED]}
    return tuple(point for point in report.over_time if (point.first, point.second) in pairs)


def say_left_out(where: str, some: int, every: int, what: str) -> tuple[str, ...]:
    """A sentence that says how many are not shown, if any."""
    if some == every:
        return ()
    return (f"{where} {some:,} of {every:,} {what}; the other {every - some:,} are in the JSON form.",)


def comparison_grid(
    report: ReportData, table: str, name: str, title: str, rows: Sequence[Labelled], drop_empty: bool = False
) -> Grid:
    """The columns of one table, a row per comparison under its label."""
    units = report.comparisons[0].unit_sign_test_of if report.comparisons else "units"
    columns = columns_of(SegmentComparison if table == BY_SEGMENT else Comparison, table)
    titles = [column.title.format(interval=interval_name(report), units=units) for column in columns]
    grid = Grid(name, title, ["comparison"], titles, drop_empty)
    for label, pair in rows:
        reasons = {
            text: next((pair.reasons[name] for name in column.names if name in pair.reasons), "")
            for text, column in zip(titles, columns, strict=True)
        }
        grid.add(label, label, *[column.cell(pair) for column in columns], reasons=reasons)
    return grid


def pair_label(pair: Comparison | Point, names: Names) -> str:
    """`candidate over control`."""
    return f"{names[pair.first]} over {names[pair.second]}"


UNKNOWN = "it could not be computed from this data"

Value = TypeVar("Value")


Missing = tuple[str, str, str]  # the row and the column of a cell that is None, and why it is


class Grid:
    """Rows of text under a label; the first columns are words, those in `figures` are numbers.

    >>> grid = Grid("slots", "", ("position",), ("share", "p"))
    >>> grid.add("position 1", "1", "50 %", None, reasons={"p": "one coin"})
    >>> grid.table().rows, grid.missing
    ((('1', '50 %', None),), [('position 1', 'p', 'one coin')])
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
        """Add a row; `reasons` say why a cell is None, by column, and `reason` is for all others."""
        self.rows.append(cells)
        for column, cell in zip(self.columns, cells, strict=True):
            if cell is None:
                self.missing.append((label, column, (reasons or {}).get(column) or reason or UNKNOWN))

    def table(self) -> Table:
        """The table, with numbers aligned right; with `drop_empty`, without empty columns, whose reasons stay."""
        columns = list(zip(self.columns, *self.rows, strict=True))
        if self.drop_empty:
            columns = [column for column in columns if any(cell is not None for cell in column[1:])]
        titles, *rows = zip(*columns, strict=True)
        return Table(self.name, self.title, titles, tuple(rows), right=self.figures)


def write(form: Callable[[Value], str], value: Value | None) -> str | None:
    """The value as it is written; None stays None."""
    return None if value is None else form(value)


def explain_missing(missing: Iterable[Missing]) -> tuple[str, ...]:
    """Every reason once, with the columns and rows that it explains.

    >>> explain_missing([("a over b", "p", "one unit"), ("a over b", "interval", "one unit")])
    ('No p, interval for a over b: one unit.',)
    """
    rows: dict[tuple[str, str], list[str]] = {}
    for row, column, reason in missing:
        rows.setdefault((reason, column), []).append(row)
    columns: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (reason, column), labels in rows.items():
        columns.setdefault((reason, tuple(labels)), []).append(column)
    return tuple(
        f"No {', '.join(titles)} for {several(labels)}: {reason.rstrip('.')}."
        for (reason, labels), titles in columns.items()
    )
