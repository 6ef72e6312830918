"""Comparisons as tables: which pairs are shown, and which figures of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from interleaf.render.figures import Names, count, probability, signed, span
from interleaf.render.grid import Grid
from interleaf.report.record import Comparison, Findings, Point

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
