"""How long an experiment still takes, what to do when its plan ends without a winner, and a winner that is early."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from interleaf.experiment import Experiment
from interleaf.experiment.settings import COMPARE
from interleaf.render.figures import Names, count, span
from interleaf.report.record import Comparison
from interleaf.report.report import Report
from interleaf.store.contract import RUNNING, Stored

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
