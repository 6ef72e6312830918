"""Comparisons as tables: which pairs are shown, and which figures of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from interleaf.report.format import Names, count, probability, several, signed, span
from interleaf.report.model import Comparison, Findings, Point
from interleaf.tables import Table

MOST_ROWS = 40
MOST_FOLLOWED = 6  # pairs over time

Thing = TypeVar("Thing")
Labelled = tuple[str, Comparison]


class Figure(NamedTuple):
    """A column: its title, the fields that it is made of, and how they are written."""

    title: str
    fields: tuple[str, ...]
    write: Callable[..., str]

    def cell(self, comparison: Comparison) -> str | None:
        """None where a field is None."""
        values = [getattr(comparison, field) for field in self.fields]
        return None if None in values else self.write(*values)

    def reason(self, comparison: Comparison) -> str:
        """What the comparison says on the fields, if anything."""
        return next((comparison.reasons[field] for field in self.fields if field in comparison.reasons), "")


def interval_name(report: Findings) -> str:
    """What the intervals of the report are called, by its rule."""
    level = f"{100 * report.confidence:g} %"
    if report.look is None:
        return f"{level} anytime interval"
    which, of = report.look
    return f"{level} interval" if of == 1 else f"{level} interval at look {which} of {of}"


def main_figures(report: Findings) -> list[Figure]:
    """What everyone should see."""
    return [
        Figure("estimate", ("estimate",), signed),
        Figure(interval_name(report), ("interval",), span),
        Figure("p", ("p_value",), probability),
        Figure("adjusted p", ("adjusted_p_value",), probability),
        Figure("per person", ("per_person_estimate",), signed),
        Figure("per search", ("per_search_estimate",), signed),
        Figure("wins / ties / losses", ("wins", "ties", "losses"), _slashed),
        Figure("with an event", ("clicked",), count),
        Figure("units", ("units",), count),
    ]


def brief_figures(report: Findings) -> list[Figure]:
    """As many of them as fit a terminal: what holds however often one looks."""
    left = {"p_value", "clicked", "per_person_estimate", "per_search_estimate"}
    return [figure for figure in main_figures(report) if not left & set(figure.fields)]


def other_figures(report: Findings) -> list[Figure]:
    """Other answers to the same question."""
    units = report.comparisons[0].unit_sign_test_of if report.comparisons else "units"
    return [
        Figure("standard error", ("error",), _digits),
        Figure("interval per person", ("per_person_interval",), span),
        Figure("interval per search", ("per_search_interval",), span),
        Figure("bootstrap interval", ("bootstrap_interval",), span),
        Figure("sign-flip p", ("sign_flip_p_value",), probability),
        Figure("Delta", ("delta",), signed),
        Figure("sign test p", ("sign_test_p_value",), probability),
        Figure(f"{units} won / lost", ("unit_wins", "unit_losses"), _slashed),
        Figure(f"sign test of {units}, p", ("unit_sign_test_p_value",), probability),
        Figure("z", ("z_score",), _digits),
        Figure("z per query", ("z_score_per_query",), _digits),
        Figure("effective units", ("effective_units",), count),
        Figure("impressions", ("impressions",), count),
    ]


def shown(report: Findings) -> tuple[Comparison, ...]:
    """All pairs; of too many, those with the control; without one, those furthest from zero in standard errors."""
    every = report.comparisons
    if len(every) > MOST_ROWS and report.control is not None:
        every = tuple(pair for pair in every if report.control in (pair.first, pair.second)) or every
    return furthest(every, lambda pair: pair)


def shown_in_brief(report: Findings) -> tuple[Comparison, ...]:
    """All pairs; of many rankers, those with the control, or without one, those with the leader."""
    if report.standing is None:
        return shown(report)
    centre = report.control or report.standing.strengths[0].ranker
    pairs = tuple(pair for pair in report.comparisons if centre in (pair.first, pair.second))
    return pairs[:MOST_ROWS] or shown(report)


def wins_and_losses(report: Findings) -> tuple[Counter[str], Counter[str]]:
    """How many other rankers each ranker beats, and how many it loses to, corrected for all pairs together."""
    wins, losses = Counter[str](), Counter[str]()
    for pair in report.comparisons:
        if (winner := pair.winner) is not None:
            wins[winner] += 1
            losses[pair.second if winner == pair.first else pair.first] += 1
    return wins, losses


def furthest(things: Sequence[Thing], comparison_of: Callable[[Thing], Comparison]) -> tuple[Thing, ...]:
    """As many as a table holds, in their own order: those whose comparisons are furthest from zero."""

    def errors_from_zero(number: int) -> float:
        pair = comparison_of(things[number])
        return abs(pair.estimate) / pair.error if pair.estimate is not None and pair.error else 0.0

    kept = sorted(range(len(things)), key=errors_from_zero, reverse=True)[:MOST_ROWS]
    return tuple(things[number] for number in sorted(kept))


def followed(report: Findings) -> tuple[Point, ...]:
    """The points over time of the pairs that are shown first."""
    pairs = {(pair.first, pair.second) for pair in shown(report)[:MOST_FOLLOWED]}
    return tuple(point for point in report.over_time if (point.first, point.second) in pairs)


def left_out(where: str, some: int, every: int, what: str) -> tuple[str, ...]:
    """A sentence on what is not shown, if there is any."""
    if some == every:
        return ()
    return (
        f"{where} {some:,} of {every:,} {what}, and {every - some:,} are left out; the JSON form holds all of them.",
    )


def comparison_grid(
    name: str, title: str, rows: Sequence[Labelled], figures: Sequence[Figure], drop_empty: bool = False
) -> Grid:
    """A row a comparison, under its label."""
    grid = Grid(name, title, ["comparison"], [figure.title for figure in figures], drop_empty)
    for label, pair in rows:
        reasons = {figure.title: figure.reason(pair) for figure in figures}
        grid.add(label, label, *[figure.cell(pair) for figure in figures], reasons=reasons)
    return grid


def pair_label(pair: Comparison | Point, names: Names) -> str:
    """`candidate over control`."""
    return f"{names[pair.first]} over {names[pair.second]}"


def _slashed(*counts: int) -> str:
    return " / ".join(map(count, counts))


def _digits(value: float) -> str:
    return f"{value:.3g}"


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
