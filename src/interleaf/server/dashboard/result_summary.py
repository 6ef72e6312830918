"""Results on the page: the scorecard, progress towards the planned size, and checks of the set-up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import combinations

from interleaf.experiment import Experiment
from interleaf.experiment.settings import AA, COMPARE, LOSER, RELABELLED, WEIGHTED
from interleaf.methods.registry import ONE_LIST
from interleaf.report.choice_result import ChoiceState
from interleaf.report.codes import CheckCode
from interleaf.report.format import Names, count, format_signed, share, span
from interleaf.report.guardrails import code_of_preference
from interleaf.report.model import FAILED, WARNING, Comparison, VerdictCode
from interleaf.report.report import Report
from interleaf.report.sections import MAX_ROWS, pair_label, select_pairs
from interleaf.stats.power import units_until_decision
from interleaf.stats.sequence import multiplier
from interleaf.store.records import DECIDED, RUNNING, Stored
from interleaf.tables import Table, percent

WIDTH = 200.0  # of a bar, in SVG units
FIRST, SECOND, NEITHER = "first", "second", "neither"
UNLIKELY = 0.01
TOO_UNIFORM = "too uniform to compute an interval: are these real users?"
_HOLDOUT_CHECKS = {CheckCode.HOLDOUT_CLICKS, CheckCode.HOLDOUT_ABANDONMENT, CheckCode.HOLDOUT_SPLIT}
_MARKS = {FIRST: "▶", SECOND: "◀", NEITHER: "●"}
DAY = timedelta(days=1)
MIN_TIME = timedelta(hours=1)  # minimum traffic to estimate a rate


@dataclass(frozen=True)
class Bar:
    """The position of an interval and its estimate, from 0 to `WIDTH`."""

    interval: tuple[float, float] | None
    point: float
    described: str


@dataclass(frozen=True)
class Row:
    """A metric of a pair of rankers, formatted; `preferred` is first, second or neither."""

    metric: str
    note: str
    pair: str
    estimate: str | None
    interval: str | None
    outcomes: tuple[str, str, str] | None
    preferred: str
    sentence: str
    bar: Bar | None
    reason: str


@dataclass(frozen=True)
class Scorecard:
    """All rows, the number of omitted rows, warnings for the top of the page, words for wins that are counted by the
    drawn owners, and the position of zero on the bars.
    """

    rows: tuple[Row, ...]
    left_out: int
    aloud: tuple[str, ...]
    by_owners: str
    zero: float = WIDTH / 2


def scorecard(settings: Experiment, reports: Mapping[str, Report]) -> Scorecard:
    """The rows of all metrics, the primary one first; only the first row of a metric has its note."""
    names = Names(settings.rankers)
    every = [(metric, *one) for metric, report in reports.items() for one in enumerate(select_pairs(report))]
    some = every[:MAX_ROWS]
    scale = {metric: metric if settings.counts_values(metric) else "" for metric in reports}  # values have own units
    reach = {metric: _reach([pair for other, _, pair in some if scale[other] == scale[metric]]) for metric in reports}
    notes = {metric: _note(metric, report, settings, names) for metric, report in reports.items()}
    rows = tuple(
        _row(metric, notes[metric] if place == 0 else "", pair, names, settings, reach[metric])
        for metric, place, pair in some
    )
    by_owners = next((pair.by_owners for _, _, pair in some if pair.by_owners), "")
    return Scorecard(rows, len(every) - len(some), conflicts(settings, reports), by_owners)


def _reach(pairs: Sequence[Comparison]) -> float:
    """Half of the scale of some bars: the widest interval, unless it is far wider than the others."""
    wide = [max(map(abs, pair.interval)) for pair in pairs if pair.interval is not None]
    near = [abs(pair.estimate or 0.0) for pair in pairs]
    return min(max([*wide, *near, 0.0]), 4 * max([min([*wide, math.inf]), *near])) or 1.0


def conflicts(settings: Experiment, reports: Mapping[str, Report]) -> tuple[str, ...]:
    """Warnings about pairs of metrics that prefer different rankers, significantly or unanimously.

    Events with a negative weight count against the ranker that has more of them. The weighted sum of all kinds is
    compared with the primary metric only, because it contains the others.
    """
    names, warnings = Names(settings.rankers), []
    for (one, report), (other, against) in combinations(reports.items(), 2):
        if other == WEIGHTED and one != settings.primary:
            continue
        others = {frozenset((pair.first, pair.second)): pair for pair in against.comparisons}
        for pair in report.comparisons:
            better = _find_favoured(pair, settings.events.get(one, 1.0))
            worse = _find_favoured(others.get(frozenset((pair.first, pair.second))), settings.events.get(other, 1.0))
            if better is not None and worse is not None and better != worse:
                by = "all kinds together, weighted," if other == WEIGHTED else names[other]
                warnings.append(
                    f"Metrics disagree: by {names[one]} people prefer {names[better]}, and by {by} "
                    f"{names[worse]}. Decide which of the two matters more before you choose a ranker."
                )
    return tuple(warnings[:MAX_ROWS])


def _find_favoured(pair: Comparison | None, weight: float) -> str | None:
    """The ranker that the events of a kind favour; None if neither."""
    if pair is None:
        return None
    agreeing = (pair.unit_wins or 0) + (pair.unit_losses or 0)
    is_sure = agreeing > 0 and 2.0 ** (1 - agreeing) < UNLIKELY  # enough units agree that chance is unlikely
    winner = pair.winner or (pair.unanimous if is_sure else None)
    if winner is None or weight >= 0:
        return winner
    return pair.second if winner == pair.first else pair.first


def _row(metric: str, note: str, pair: Comparison, names: Names, settings: Experiment, reach: float) -> Row:
    preferred = {None: NEITHER, pair.first: FIRST, pair.second: SECOND}[pair.winner]
    counts_against = settings.events.get(metric, 1.0) < 0
    if pair.winner is not None:
        sentence = f"{names[pair.winner]} {'has more' if counts_against else 'is preferred'}"
    elif pair.unanimous is not None:
        sentence = f"all {'are of' if counts_against else 'favour'} {names[pair.unanimous]}"
    else:
        sentence = "no difference shown"
    outcomes = (pair.wins, pair.ties, pair.losses)
    return Row(
        names[metric],
        note,
        pair_label(pair, names),
        None if pair.estimate is None else format_signed(pair.estimate),
        None if pair.interval is None else span(pair.interval),
        None if None in outcomes else tuple(count(number or 0) for number in outcomes),  # type: ignore[arg-type]
        preferred,
        f"{_MARKS[preferred]} {sentence}",
        _bar(pair, reach, sentence),
        TOO_UNIFORM if pair.unanimous else pair.reasons.get("estimate") or pair.reasons.get("interval", ""),
    )


def _note(metric: str, report: Report, settings: Experiment, names: Names) -> str:
    """What people should know about a metric, such as that the verdict is based on it."""
    if metric == WEIGHTED:
        return " + ".join(f"{weight:g} × {names[kind]}" for kind, weight in settings.events.items())
    notes = ["the verdict is based on this"] * (metric == settings.primary and len(settings.metrics) > 1)
    if settings.events.get(metric, 1.0) < 0:
        notes = ["counts against"]
    if report.value_cap is not None and report.value_cut is not None:
        notes.append(f"up to {report.value_cap:.6g} a unit, which cuts off {percent(report.value_cut, 1)} of all value")
    return "; ".join(notes)


def _bar(pair: Comparison, reach: float, said: str) -> Bar | None:
    if pair.estimate is None:
        return None
    ends = None if pair.interval is None else (_at(pair.interval[0], reach), _at(pair.interval[1], reach))
    within = "" if pair.interval is None else f", interval {span(pair.interval)}"
    return Bar(ends, _at(pair.estimate, reach), f"estimate {format_signed(pair.estimate)}{within}: {said}")


def _at(value: float, reach: float) -> float:
    """A position on the bar, clipped to its ends."""
    return round(min(max(WIDTH / 2 * (1 + value / reach), 0.0), WIDTH), 1)


def say_adjusted(settings: Experiment) -> str:
    """That intervals are adjusted for several metrics; empty if they are not.

    >>> weights = {"click": 1.0, "purchase": 5.0}
    >>> say_adjusted(Experiment.of({"name": "shoes", "rankers": ["old", "new"], "events": weights}))
    'The intervals of the 2 other metrics are adjusted: each is wider than for one metric alone, so that all hold \
together.'
    """
    others = settings.secondary("")
    if others < 2:
        return ""
    wider = "each is wider than for one metric alone, so that all hold together"
    return f"The intervals of the {others} other metrics are adjusted: {wider}."


def summarise_metrics(settings: Experiment, reports: Mapping[str, Report]) -> Table | None:
    """What each metric shows in a choice of the best of many rankers; None if there is only one metric."""
    names = Names(settings.rankers)
    rows = tuple(
        (names[metric], names.within(report.verdict.sentence) if metric == settings.primary else _say_leader(report))
        for metric, report in reports.items()
        if report.choice is not None
    )
    return Table("metrics", "", ("metric", "so far"), rows) if len(rows) > 1 else None


def _say_leader(report: Report) -> str:
    """Who leads by a metric by which no ranker leaves."""
    if report.choice is None:
        return ""
    leader, *others = report.choice.rankers
    states = Counter(one.state for one in others)
    worse, no_gain = states[ChoiceState.WORSE], states[ChoiceState.NO_GAIN]
    shown = f"{worse} are shown to be worse, and {no_gain} to be no better by the margin"
    return f"{Names(report.rankers)[leader.ranker]} leads: of the {len(others)} other rankers, {shown}."


@dataclass(frozen=True)
class Trial:
    """A check of the set-up: what it should show, and what it shows so far."""

    title: str
    should: str
    shows: str


def trials(settings: Experiment, report: Report | None) -> tuple[Trial, ...]:
    """The checks that this experiment runs; or that it is an A/B test."""
    checks = [_one_list(settings, report)] if settings.mode == ONE_LIST else []
    if settings.mode == AA:
        checks.append(_alike("A/A", "All names show the control's ranking", report))
    if settings.mode == RELABELLED:
        how = "The names of the rankers are swapped at random for each unit"
        checks.append(_alike("Relabelled A/A", how, report))
    if settings.mode == LOSER:
        checks.append(_loser(settings, report))
    if settings.holdout:
        should = (
            f"{share(settings.holdout)} of the units see the control's list unchanged. Interleaved units should "
            "do no worse than these, unless a candidate is worse than the control: otherwise interleaving itself "
            "hurts, through latency or through how lists are shown."
        )
        wrong = [] if report is None else [check for check in report.health if check.status in (WARNING, FAILED)]
        shows = [f"{check.name}: {check.figure}." for check in wrong if check.code in _HOLDOUT_CHECKS]
        checks.append(Trial("Holdout", should, " ".join(shows) or "So far all checks of the holdout are fine."))
    return tuple(checks)


def _one_list(settings: Experiment, report: Report | None) -> Trial:
    should = (
        "Each unit sees the list of one ranker, drawn by a fair coin. The verdict is an A/B test on events per search, "
        "not interleaving: it needs more units, and compares whole lists."
    )
    names, sizes = Names(settings.rankers), {arm.name: arm.units or 0 for arm in report.arms} if report else {}
    counts = [f"{count(sizes[name])} units saw {names[name]}" for name in settings.rankers if name in sizes]
    return Trial("A/B test", should, f"So far {', '.join(counts)}." if counts else "There is nothing to see yet.")


def _alike(title: str, how: str, report: Report | None) -> Trial:
    should = (
        f"{how}, so there is no real difference: no winner should be shown, and the health check A/A should be "
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
        f"Every ranker but {control} shows {control}'s first page in reverse order: {control} should win soon. If it "
        "has not won at the planned size, clicks are lost or assigned to the wrong list."
    )
    if report is None:
        return Trial("Known loser", should, "There is nothing to see yet.")
    won = report.verdict.winner == settings.control
    lost = any(pair.winner not in (None, settings.control) for pair in report.comparisons)
    shows = f"{control} wins, as it should." if won else f"So far {control} has not won."
    return Trial("Known loser", should, "The ranker that is worse by design is preferred." if lost else shows)


@dataclass(frozen=True)
class Outlook:
    """Advice next to the numbers: time left, when it is decided, what to do, warnings; empty where there is none."""

    left: str = ""
    decision: str = ""
    advice: tuple[str, ...] = ()
    early: str = ""
    step: str = ""


def outlook(stored: Stored, settings: Experiment, report: Report | None, now: int) -> Outlook:
    """The outlook of an experiment."""
    if report is None or report.totals.since is None or report.totals.until is None:
        return Outlook()
    is_running = stored.state == RUNNING
    last = max(report.totals.until, datetime.fromtimestamp(now / 1e6, UTC)) if is_running else report.totals.until
    time = last - report.totals.since
    rate = None if time < MIN_TIME else report.totals.units / (time / DAY)  # units per day
    left = _time_left(report, rate) if is_running else ""
    decision = _expect_decision(report, rate or None, last) if is_running else ""
    advice, early = _advice(settings, report), early_warning(report)
    return Outlook(left, decision, advice, early, _next_step(stored, settings, report, bool(advice or early)))


def _next_step(stored: Stored, settings: Experiment, report: Report, is_advised: bool) -> str:
    """What to do next, unless the page already advises something else, or the experiment ended undecided."""
    verdict = report.verdict
    step = Names(report.rankers).within(verdict.next_step)
    if stored.state == DECIDED or settings.mode == LOSER:
        return ""
    if verdict.broken_guardrails or not verdict.trusted:
        return step
    is_decided = verdict.winner is not None or (report.choice is not None and report.choice.decided)
    return step if not is_advised and (stored.state == RUNNING or is_decided) else ""


def early_warning(report: Report) -> str:
    """A warning while a winner is based on less than a day of traffic."""
    since, until = report.totals.since, report.totals.until
    if report.verdict.winner is None or since is None or until is None or until - since >= DAY:
        return ""
    return (
        "This winner is based on less than a day of traffic. Users in the morning differ from users in the "
        "evening, and weekdays from weekends: wait for at least a whole day, better a week, before you decide."
    )


def _time_left(report: Report, rate: float | None) -> str:
    if report.planned_units is None or report.totals.units >= report.planned_units or rate == 0:
        return ""
    if rate is None:
        return "The time left can be estimated after an hour of traffic."
    days = _days((report.planned_units - report.totals.units) / rate)
    return (
        f"{days.capitalize()} left, at the average of {count(round(rate))} new units a day so far. "
        "It takes longer if most users have been seen already."
    )


def _days(days: float) -> str:
    if days < 1:
        return "less than a day"
    return f"about {count(round(days))} day{'s' if round(days) != 1 else ''}"


def _expect_decision(report: Report, rate: float | None, now: datetime) -> str:
    """When the one pair will be decided, with an interval; `rate` is how many new units come a day."""
    pair = report.comparisons[0] if len(report.comparisons) == 1 else None
    if pair is None or pair.estimate is None or not pair.error or not pair.units or rate is None or report.look:
        return ""
    if code_of_preference(report.verdict) not in (VerdictCode.UNDECIDED, VerdictCode.NO_WORSE):
        return ""
    planned, confidence, margin = report.planned_units, report.confidence, report.margin or 0.0
    ends = units_until_decision(
        pair.estimate,
        pair.error,
        pair.units,
        lambda units: multiplier(units, planned, confidence),
        margin,
    )
    days = [(units / pair.units - 1) * report.totals.units / rate for units in ends]
    low, middle, high = (f"{now + day * DAY:%Y-%m-%d}" if math.isfinite(day) else "" for day in days)
    until = f"to {high}" if high else "on, or never"
    about = f"about {middle}" if middle else f"after {low}"
    return f"A decision is expected {about} (8 of 10 cases: from {low} {until}), if as many new units come as so far."


def _advice(settings: Experiment, report: Report) -> tuple[str, ...]:
    """What to do if the planned size is reached without a winner."""
    is_reached = report.planned_units is not None and report.totals.units >= report.planned_units
    is_undecided = code_of_preference(report.verdict) in (VerdictCode.UNDECIDED, VerdictCode.DISAGREE)
    if not (is_reached and is_undecided) or settings.mode not in (COMPARE, ONE_LIST):
        return ()
    control = Names(settings.rankers)[settings.control]
    pairs = [pair for pair in report.comparisons if pair.estimate is not None and pair.interval is not None]
    differences = "a difference as small as these intervals allow"
    if len(report.comparisons) == 1 and pairs:
        differences = f"a difference from {span(pairs[0].interval or (0.0, 0.0))}"
    return (
        f"If {differences} would not matter to you, stop the experiment and keep {control}.",
        "Otherwise let the experiment run; intervals remain valid and get narrower.",
    )
