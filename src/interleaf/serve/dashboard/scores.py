"""The scorecard: a row a metric and pair, with an interval bar on one scale; and a word where metrics disagree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from interleaf.experiment import Experiment
from interleaf.experiment.settings import WEIGHTED
from interleaf.render.figures import Names, count, signed, span
from interleaf.render.scorecard import MOST_ROWS, pair_label, shown
from interleaf.report.record import Comparison
from interleaf.report.report import Report

WIDTH = 200.0  # of a bar, in its own units
FIRST, SECOND, NEITHER = "first", "second", "neither"
UNLIKELY = 0.01
TOO_UNIFORM = "too uniform to compute an interval from: are these real people?"
_MARKS = {FIRST: "▶", SECOND: "◀", NEITHER: "●"}


@dataclass(frozen=True)
class Bar:
    """Where an interval lies, from 0 to `WIDTH`, and the estimate in it."""

    interval: tuple[float, float] | None
    point: float
    described: str


@dataclass(frozen=True)
class Row:
    """A metric of a pair, in words; `preferred` is first, second or neither."""

    metric: str
    note: str
    pair: str
    estimate: str | None
    interval: str | None
    outcomes: tuple[str, str, str] | None
    preferred: str
    said: str
    bar: Bar | None
    reason: str


@dataclass(frozen=True)
class Scorecard:
    """All rows, how many were left out, what is said aloud, and where zero lies on every bar."""

    rows: tuple[Row, ...]
    left_out: int
    aloud: tuple[str, ...]
    zero: float = WIDTH / 2


def scorecard(settings: Experiment, reports: Mapping[str, Report]) -> Scorecard:
    """The rows of all metrics, the primary one first; a metric's note is on its first row only."""
    names = Names(settings.rankers)
    every = [(metric, pair) for metric, report in reports.items() for pair in shown(report)]
    some = every[:MOST_ROWS]
    reach = _reach([pair for _, pair in some])
    rows = [_row(metric, pair, names, settings, reach) for metric, pair in some]
    metrics = [row.metric for row in rows]
    noted = [row if metrics.index(row.metric) == place else replace(row, note="") for place, row in enumerate(rows)]
    return Scorecard(tuple(noted), len(every) - len(some), conflicts(settings, reports))


def conflicts(settings: Experiment, reports: Mapping[str, Report]) -> tuple[str, ...]:
    """Pairs of metrics that surely, or unanimously, prefer different rankers; a kind with a negative weight speaks
    against its winner.

    What all kinds together say is no other voice, but the sum of these: it is held against the verdict's kind only.
    """
    names = Names(settings.rankers)
    found = []
    for (one, report), (other, against) in combinations(reports.items(), 2):
        if other == WEIGHTED and one != settings.primary:
            continue
        others = {frozenset((pair.first, pair.second)): pair for pair in against.comparisons}
        for pair in report.comparisons:
            better = _favoured(pair, settings.events[one])
            worse = _favoured(others.get(frozenset((pair.first, pair.second))), settings.events.get(other, 1.0))
            if better is not None and worse is not None and better != worse:
                by = "all kinds together, weighted," if other == WEIGHTED else names[other]
                found.append(
                    f"Metrics disagree: by {names[one]} people prefer {names[better]}, and by {by} "
                    f"{names[worse]}. Decide which of the two matters more before you choose a ranker."
                )
    return tuple(found[:MOST_ROWS])


def _favoured(pair: Comparison | None, weight: float) -> str | None:
    """Whom the events of a kind speak for."""
    winner = None if pair is None else pair.winner or (pair.unanimous if _is_sure(pair) else None)
    if pair is None or winner is None or weight >= 0:
        return winner
    return pair.second if winner == pair.first else pair.first


def _is_sure(pair: Comparison) -> bool:
    """Of one that is unanimous: whether so many units could agree by chance."""
    agreeing = (pair.unit_wins or 0) + (pair.unit_losses or 0)
    return agreeing > 0 and 2.0 ** (1 - agreeing) < UNLIKELY


def _row(metric: str, pair: Comparison, names: Names, settings: Experiment, reach: float) -> Row:
    preferred = {None: NEITHER, pair.first: FIRST, pair.second: SECOND}[pair.winner]
    counts_against = settings.events.get(metric, 1.0) < 0
    said = {
        NEITHER: "no difference shown"
        if pair.unanimous is None
        else f"all {'are of' if counts_against else 'favour'} {names[pair.unanimous]}",
        FIRST: f"{names[pair.first]} {'has more' if counts_against else 'is preferred'}",
        SECOND: f"{names[pair.second]} {'has more' if counts_against else 'is preferred'}",
    }[preferred]
    outcomes = (pair.wins, pair.ties, pair.losses)
    return Row(
        names[metric],
        "counts against" if counts_against else _weights(metric, settings, names),
        pair_label(pair, names),
        None if pair.estimate is None else signed(pair.estimate),
        None if pair.interval is None else span(pair.interval),
        None if None in outcomes else tuple(count(number or 0) for number in outcomes),  # type: ignore[arg-type]
        preferred,
        f"{_MARKS[preferred]} {said}",
        _bar(pair, reach, said),
        TOO_UNIFORM if pair.unanimous else pair.reasons.get("estimate") or pair.reasons.get("interval", ""),
    )


def _weights(metric: str, settings: Experiment, names: Names) -> str:
    """What the sum of all kinds is made of; the verdict's kind is told apart."""
    if metric not in settings.events:
        return " + ".join(f"{weight:g} × {names[kind]}" for kind, weight in settings.events.items())
    return "the verdict rests on this" if metric == settings.primary and len(settings.events) > 1 else ""


def _reach(pairs: Sequence[Comparison]) -> float:
    """Half of the scale of all bars: the widest interval, unless that is far wider than others and all estimates."""
    wide = [max(map(abs, pair.interval)) for pair in pairs if pair.interval is not None]
    near = [abs(pair.estimate or 0.0) for pair in pairs]
    return min(max([*wide, *near, 0.0]), 4 * max([min([*wide, math.inf]), *near])) or 1.0


def _bar(pair: Comparison, reach: float, said: str) -> Bar | None:
    if pair.estimate is None:
        return None
    ends = None if pair.interval is None else (_at(pair.interval[0], reach), _at(pair.interval[1], reach))
    within = "" if pair.interval is None else f", interval {span(pair.interval)}"
    return Bar(ends, _at(pair.estimate, reach), f"estimate {signed(pair.estimate)}{within}: {said}")


def _at(value: float, reach: float) -> float:
    """A place on the bar; what lies beyond its ends is cut off there."""
    return round(min(max(WIDTH / 2 * (1 + value / reach), 0.0), WIDTH), 1)
