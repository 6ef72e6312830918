"""What a page says about results: the scorecard, progress towards the planned size, and trials of the set-up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import combinations

from interleaf.experiment import Experiment
from interleaf.experiment.settings import AA, COMPARE, LOSER, RELABELLED, WEIGHTED
from interleaf.report.comparison_tables import MAX_ROWS, pair_label, shown
from interleaf.report.format import Names, count, share, signed, span
from interleaf.report.model import FAILED, WARNING, Comparison
from interleaf.report.report import Report
from interleaf.store.records import RUNNING, Stored

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
    some = every[:MAX_ROWS]
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
    return tuple(found[:MAX_ROWS])


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


@dataclass(frozen=True)
class Trial:
    """A mode, what it should show, and what it shows so far."""

    title: str
    should: str
    shows: str


def trials(settings: Experiment, report: Report | None) -> tuple[Trial, ...]:
    """Those that are on."""
    found = []
    if settings.mode in (AA, RELABELLED):
        found.append(_alike(settings, report))
    if settings.mode == LOSER:
        found.append(_loser(settings, report))
    if settings.holdout:
        found.append(
            Trial(
                "Holdout",
                f"{share(settings.holdout)} of the units see the control's list unchanged. Interleaved units should "
                "fare no worse than they, unless a candidate is worse than the control: otherwise interleaving itself "
                "hurts, by its latency or by how lists are shown.",
                _held_out(report),
            )
        )
    return tuple(found)


def _held_out(report: Report | None) -> str:
    wrong = [] if report is None else [check for check in report.health if check.status in (WARNING, FAILED)]
    said = [f"{check.name}: {check.figure}." for check in wrong if "holdout" in check.name.lower()]
    return " ".join(said) or "So far no check on the holdout is amiss."


def _alike(settings: Experiment, report: Report | None) -> Trial:
    how = (
        "Every ranker is given the control's ranking"
        if settings.mode == AA
        else "The names of the rankers are swapped by a coin for each unit"
    )
    title = "A/A" if settings.mode == AA else "Relabelled A/A"
    should = (
        f"{how}, so that there is nothing to prefer: no winner should be shown, and the check named A/A should be "
        "fine. If it fails, do not trust other comparisons of this set-up."
    )
    if report is None:
        return Trial(title, should, "There is nothing to see yet.")
    failed = any(pair.winner is not None for pair in report.comparisons)
    shows = "A difference is shown where there should be none." if failed else "So far it shows no difference."
    return Trial(title, should, shows)


def _loser(settings: Experiment, report: Report | None) -> Trial:
    control = Names(settings.rankers)[settings.control]
    should = (
        f"Every ranker but {control} shows {control}'s first page upside down: {control} should win, and soon. If it "
        "does not by the planned size, clicks are lost, or they reach the wrong list."
    )
    if report is None:
        return Trial("Known loser", should, "There is nothing to see yet.")
    won = report.verdict.winner == settings.control
    lost = any(pair.winner not in (None, settings.control) for pair in report.comparisons)
    shows = f"{control} wins, as it should." if won else f"So far {control} has not won."
    return Trial("Known loser", should, "The ranker that is worse by design is preferred." if lost else shows)


DAY = timedelta(days=1)
MIN_TIME = timedelta(hours=1)  # of traffic before a rate means something
MAX_FACTOR = 20  # times the units so far: nobody waits for more


@dataclass(frozen=True)
class Outlook:
    """What a person who decides should know besides the numbers; empty where there is nothing to say."""

    left: str = ""
    advice: tuple[str, ...] = ()
    early: str = ""


def outlook(stored: Stored, settings: Experiment, report: Report | None, now: int) -> Outlook:
    """What to expect, and what to do."""
    if report is None or report.totals.since is None or report.totals.until is None:
        return Outlook()
    is_running = stored.state == RUNNING
    last = max(report.totals.until, datetime.fromtimestamp(now / 1e6, UTC)) if is_running else report.totals.until
    rate = _units_a_day(report, last - report.totals.since)
    return Outlook(
        _time_left(report, rate) if is_running else "",
        _advice(settings, report, rate if is_running else None),
        early_warning(report),
    )


def early_warning(report: Report) -> str:
    """A word of caution while a winner rests on less than a day of traffic."""
    since, until = report.totals.since, report.totals.until
    if report.verdict.winner is None or since is None or until is None or until - since >= DAY:
        return ""
    return (
        "This winner rests on less than a day of traffic. People who come in the morning differ from those in the "
        "evening, and weekdays from weekends: wait for a whole day at least, better a week, before you call it."
    )


def _units_a_day(report: Report, time: timedelta) -> float | None:
    return None if time < MIN_TIME else report.totals.units / (time / DAY)


def _time_left(report: Report, rate: float | None) -> str:
    if report.planned_units is None or report.totals.units >= report.planned_units:
        return ""
    if rate is None:
        return "How many days are left can be said after an hour of traffic."
    if not rate:
        return ""
    days = _days((report.planned_units - report.totals.units) / rate)
    return (
        f"{days.capitalize()} left, at the average of {count(round(rate))} new units a day so far. "
        "It takes longer if most people have come by now."
    )


def _days(days: float) -> str:
    if days < 1:
        return "less than a day"
    return f"about {count(round(days))} day{'s' if round(days) != 1 else ''}"


def _advice(settings: Experiment, report: Report, rate: float | None) -> tuple[str, ...]:
    """What to do where the planned size is reached and nobody has won."""
    is_reached = report.planned_units is not None and report.totals.units >= report.planned_units
    is_undecided = report.verdict.winner is None and report.verdict.trusted
    if not (is_reached and is_undecided) or settings.mode != COMPARE:
        return ()
    control = Names(settings.rankers)[settings.control]
    pairs = [pair for pair in report.comparisons if pair.estimate is not None and pair.interval is not None]
    if len(report.comparisons) != 1 or not pairs:
        return (
            f"Stop it and keep {control} if a difference as small as these intervals allow would not matter to you.",
            "Else let it run on: the anytime intervals stay valid, and grow narrower with more units.",
        )
    interval = span(pairs[0].interval or (0.0, 0.0))
    return (
        f"If a difference from {interval} would not matter to you, stop it and keep {control}.",
        f"Else let it run on: the anytime interval stays valid. {_further(pairs[0], report.totals.units, rate)}",
    )


def _further(pair: Comparison, units: int, rate: float | None) -> str:
    """When the interval would exclude zero at this estimate: its width goes with one over the root of the units."""
    low, high = pair.interval or (0.0, 0.0)
    if not pair.estimate:
        return "At an estimate of 0 it will never exclude zero."
    half = pair.estimate - low if pair.estimate > 0 else high - pair.estimate
    factor = (half / abs(pair.estimate)) ** 2
    if factor > MAX_FACTOR:
        return f"At this estimate it takes more than {MAX_FACTOR} times the units so far to exclude zero: give up."
    more = max(1.0, units * (factor - 1))
    about = count(round(more, -2 if more > 1000 else 0))
    days = f" ({_days(more / rate)})" if rate else ""
    return f"If the estimate stays as it is, the interval will exclude zero after about {about} more units{days}."
