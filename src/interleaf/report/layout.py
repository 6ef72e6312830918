"""The content of a report in its order: the verdict, the health checks, then the numbers. All formats show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from interleaf.report import sections
from interleaf.report.choice_result import ChoiceResult, ChoiceState, RankerState
from interleaf.report.format import Names, count, digits, format_signed, several, share, span
from interleaf.report.model import FAILED, OK, SKIPPED, WARNING, GuardrailCode, ReportData, Verdict, VerdictCode
from interleaf.report.sections import MAX_ROWS, Grid, Section, explain_missing, interval_name, say_left_out, write
from interleaf.tables import Table, percent

GUARDRAIL_MARKS: dict[str, str] = {
    GuardrailCode.OK: "✓ ok",
    GuardrailCode.BROKEN: "✗ broken",
    GuardrailCode.UNDECIDED: "○ undecided",
    GuardrailCode.UNKNOWN: "○ unknown",
}
GUARDRAIL_WORDS = (
    "Harm is the difference between an arm and the one that it is compared with, above 0 if the arm is worse. A "
    "guardrail is ok if the whole interval is below the margin, and broken if it is above. Each interval holds for its "
    "guardrail alone, and the preference between the rankers does not depend on it.",
)

MAX_BRIEF = 10  # rankers in a terminal
MAX_NAMED = 6  # rankers with a colour of their own in a chart
MAX_STEPS = 100  # of a chart over epochs
OTHERS = "all others"
ENDS = (
    "A ranker left because the upper end of its interval against the leader at that time was below 0, or below the "
    "margin (upper end then). The intervals shown are current ones against the current leader, and may be wider."
)
WINNER, EVEN, SPLIT, HARMFUL, UNTRUSTED = "winner", "even", "split", "harmful", "untrusted"
# The tone of each verdict, which is also a CSS class, and the verdict in a few words.
VERDICTS: dict[str, tuple[str, str]] = {
    VerdictCode.BROKEN: (UNTRUSTED, "✗ DO NOT TRUST THIS"),
    VerdictCode.GUARDRAIL: (HARMFUL, "✗ A guardrail is broken"),
    VerdictCode.DISAGREE: (SPLIT, "≠ People and visits disagree"),
    VerdictCode.ALIKE: (EVEN, "= Alike"),
    VerdictCode.PREFERRED: (WINNER, "✓ Winner"),
    VerdictCode.WORSE: (WINNER, "✓ Winner"),
    VerdictCode.NO_WORSE: (EVEN, "≥ No worse"),
    VerdictCode.NO_BEST: (SPLIT, "≠ No best ranker shown"),
    VerdictCode.UNDECIDED: (EVEN, "= No winner shown"),
}
GREY = (HARMFUL, UNTRUSTED)  # tones of verdicts that nobody should act on yet
# The worst first. Marks and words make them readable without colours.
MARKS = {FAILED: "✗ failed", WARNING: "! warning", OK: "✓ ok", SKIPPED: "○ skipped"}
STATUS_OF_MARK = {mark: status for status, mark in MARKS.items()} | {GUARDRAIL_MARKS[GuardrailCode.BROKEN]: FAILED}
READING = (
    "An estimate is the mean score of people. The score of a unit is the mean over its impressions with an event. Its "
    "weight is the number of these impressions, up to a limit, so that no heavy user decides alone. The limit is the "
    "square root of the number of units with an event, but at least 5 and at most 40. Above 0 people prefer the first "
    'ranker of a pair, below 0 the second. "Per person" counts each unit once, "per search" each impression.',
    "An interval is the range of values that the data allow. An anytime interval is valid even if you check "
    "repeatedly: you may watch it, and stop once it excludes 0. With planned looks, intervals are valid at these looks "
    "only. With several comparisons, intervals and adjusted p-values hold for all of them together.",
    "The verdict holds for similar people and for the queries of this log, in their shares. With another mix of "
    "queries, people may prefer another ranker. For a statement about similar queries, cluster errors by unit and "
    "query (--cluster unit_and_query): intervals become wider.",
    "Health comes first because a broken experiment gives wrong numbers that look certain: after a failed check, do "
    "not rely on anything below it.",
    "A dash is a number that could not be computed; the reason is below its table.",
)


def guardrails(report: ReportData, names: Names) -> Section | None:
    """Every guardrail with its harm, interval and margin."""
    if not report.guardrails:
        return None
    columns = ("value", "compared", "harm", interval_name(report), "margin")
    grid = Grid("guardrails", "", ("status", "guardrail", "arm", "against"), columns)
    for one in report.guardrails:
        arm, base = (None if name is None else names[name] for name in (one.arm, one.base))
        values = (write(lambda value: f"{value:.4g}", value) for value in (one.value, one.base_value))
        figures = *values, write(format_signed, one.harm), write(span, one.interval), f"{one.margin:g}"
        label = names[one.metric] if arm is None else f"{names[one.metric]} of {arm}"
        mark = GUARDRAIL_MARKS.get(one.code, one.code)  # a later version may have other codes
        grid.add(label, mark, names[one.metric], arm, base, *figures, reason=one.reason)
    reasons = tuple(map(names.within, explain_missing(grid.missing)))
    return Section("guardrails", "Guardrails", GUARDRAIL_WORDS, (grid.table(),), reasons)


def choice(report: ReportData, names: Names, brief: bool = False) -> Section | None:
    """Who leads, who is in, who left when and why, and the regret that was saved."""
    result = report.choice
    if result is None:
        return None
    rows = result.rankers[: MAX_BRIEF if brief else MAX_ROWS]
    titles = ["share now", "lists", "over the leader", f"{percent(report.confidence)} anytime interval", "units"]
    grid = Grid("choice", "", ["ranker", "so far", "left after epoch", "upper end then"], titles)
    numbers = {epoch: place for place, epoch in enumerate(sorted({one.epoch for one in result.shares}), 1)}
    for one in rows:
        so_far = ChoiceState(one.state).text.format(one.left_against and names[one.left_against])
        after = "" if one.left_after is None else f"{numbers[one.left_after]}"
        end = "" if one.bound is None else format_signed(one.bound)
        cells = [names[one.ranker], so_far, after, end, *_figures(one)]
        grid.add(names[one.ranker], *cells, reason=one.reason or "it leads")
    epochs = f"{result.epochs} epoch{'s' * (result.epochs != 1)} so far."
    ends = (ENDS,) if any(one.bound is not None for one in rows) else ()
    sentences = (
        epochs,
        *say_left_out("Shown are", len(rows), len(result.rankers), "rankers"),
        *ends,
        say_regret(result),
    )
    reasons = explain_missing(missing for missing in grid.missing if missing[2] != "it leads")
    return Section("choice", "The choice", sentences, (grid.table(),), tuple(map(names.within, reasons)))


def _figures(one: RankerState) -> list[str | None]:
    return [
        share(one.share),
        count(one.lists),
        write(format_signed, one.estimate),
        write(span, one.interval),
        write(count, one.units),
    ]


def say_regret(result: ChoiceResult) -> str:
    """The regret that was saved, in a sentence.

    >>> say_regret(ChoiceResult("a", False, 9, 1, (), (), 6.0, 20.0, 0.7, 3))
    'Regret so far is 6; with equal shares it would be 20, so 70.0 % was saved. It is the sum over lists of how much \
people prefer the leader to the rankers of the list, by the estimates for 3 rankers.'
    """
    if result.regret is None or result.regret_equal_shares is None or result.regret_saved is None:
        return f"The regret is not known: {result.reason}."
    regret, even = (digits(one) if one < 1000 else count(one) for one in (result.regret, result.regret_equal_shares))
    amounts = f"{regret}; with equal shares it would be {even}"
    saved = result.regret_saved
    change = f"{share(saved)} was saved" if saved >= 0 else f"nothing was saved ({share(-saved)} more)"
    return (
        f"Regret so far is {amounts}, so {change}. It is the sum over lists of how much people prefer the leader to "
        f"the rankers of the list, by the estimates for {result.regret_rankers} rankers."
    )


def share_rows(report: ReportData, names: Names) -> list[dict[str, Any]]:
    """A row for each ranker with much traffic, and for all others together, in each epoch, or in several together."""
    result = report.choice
    if result is None or not result.shares:
        return []
    lists = {one.ranker: one.lists for one in result.rankers}
    named = sorted(lists, key=lambda ranker: -lists[ranker])[:MAX_NAMED]
    width = -(-result.epochs // MAX_STEPS)
    epochs = sorted({one.epoch for one in result.shares})
    place = {epoch: number // width for number, epoch in enumerate(epochs)}
    sums: Counter[tuple[int, str]] = Counter()
    for one in result.shares:
        sums[place[one.epoch], names[one.ranker] if one.ranker in named else OTHERS] += one.share  # type: ignore[assignment]
    sizes = Counter(place.values())
    order = [names[ranker] for ranker in named] + [OTHERS] * (len(lists) > len(named))
    return [
        {"epoch": number * width + 1, "ranker": ranker, "share": sums[number, ranker] / sizes[number], "place": rank}
        for number in sorted(sizes)
        for rank, ranker in enumerate(order)
    ]


NUMBERS = (
    guardrails,
    choice,
    sections.standing,
    sections.comparisons,
    sections.lift,
    sections.over_time,
    sections.outcomes,
    sections.other_tests,
    sections.activity,
    sections.arms,
    sections.slots,
    sections.neutrality,
    sections.segments,
)


@dataclass(frozen=True)
class ReportPage:
    """The whole report in words and tables; `tone` is winner, even, split, harmful or untrusted."""

    title: str
    tone: str
    headline: str
    sentence: str
    why: tuple[str, ...]
    facts: tuple[str, ...]
    sections: tuple[Section, ...]


def lay_out(report: ReportData, brief: bool = False) -> ReportPage:
    """The whole report in reading order; with `brief`, only the parts that fit a terminal."""
    names = Names(report.rankers)
    verdict, step = report.verdict, names.within(report.verdict.next_step)
    if brief:
        numbers = [
            choice(report, names, brief),
            sections.standing(report, names),
            None if report.choice else sections.comparisons(report, names, brief),
            sections.lift(report, names, brief),
            guardrails(report, names),
            sections.segments(report, names),
            None if report.comparisons or report.choice else sections.arms(report, names),
        ]
        dropped = "; ".join(f"{names.within(text)}: {count(n)}" for text, n in _by_text(report, report.totals.dropped))
        parts = [
            _health(report, names, brief),
            *filter(None, numbers),
            *([Section("dropped", "Dropped", (f"Rows dropped: {dropped}.",))] if dropped else []),
            *([Section("notes", "Notes", tuple(map(names.within, report.notes)))] if report.notes else []),
        ]
        step = f"What to do next: {step}" if step else ""
    else:
        parts = [_health(report, names, brief)]
        makers = [make for make in NUMBERS if report.choice is None or make is not sections.comparisons]
        for section in filter(None, [make(report, names) for make in makers]):
            # With many rankers, only guardrails and the leaderboard are open.
            is_open = report.standing is None or section.name in ("standing", "guardrails")
            parts.append(replace(section, closed=not is_open))
        parts += [_input(report, names), Section("reading", "How to read this", READING)]
    parts += [Section("next", "What to do next", (step,))] if step else []
    tone, headline = tone_and_headline(verdict)
    reasons = tuple(map(names.within, (*verdict.why, *verdict.broken_guardrails)))
    title = f"{names.within(report.experiment)}, version {report.version}"
    return ReportPage(title, tone, headline, names.within(verdict.sentence), reasons, _facts(report), tuple(parts))


def tone_and_headline(verdict: Verdict) -> tuple[str, str]:
    """The tone and the headline of a verdict; those of an undecided one for codes of later versions."""
    code = verdict.code if verdict.trusted else VerdictCode.BROKEN
    return VERDICTS.get(code, VERDICTS[VerdictCode.UNDECIDED])


def _by_text(report: ReportData, counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Counts by the texts of their codes."""
    return [(report.totals.texts.get(code, code), number) for code, number in counts.items()]


def _facts(report: ReportData) -> tuple[str, ...]:
    totals = report.totals
    days = "no times known"
    if totals.since is not None and totals.until is not None:
        number = (totals.until.date() - totals.since.date()).days + 1
        last = f" to {totals.until:%Y-%m-%d}" if number > 1 else ""
        days = f"{count(number)} day{'s' * (number != 1)} ({totals.since:%Y-%m-%d}{last})"
    units = f"{'' if totals.units_are_exact else 'about '}{count(totals.units)} unit{'s' * (totals.units != 1)}"
    planned = "" if report.planned_units is None else f" ({count(report.planned_units)} planned)"
    return (
        days,
        f"{units}{planned}",
        f"{count(totals.impressions)} impression{'s' * (totals.impressions != 1)}",
        f"{count(totals.clicked)} with an event",
        *([f"the result is {report.population}"] if report.population else []),
    )


def _health(report: ReportData, names: Names, brief: bool) -> Section:
    """All checks, the worst first; in brief, only those that warn or failed, one line each."""
    short, order = _health_in_short(report, names), list(MARKS)
    checks = sorted(report.health, key=lambda check: order.index(check.status))
    rows = [(MARKS[one.status], *map(names.within, (one.name, one.figure, one.remedy))) for one in checks]
    if brief:
        lines = [
            f"{mark}  {name}: {figure}" + (f"\n  To do: {remedy}" if remedy else "")
            for mark, name, figure, remedy in rows
            if mark != MARKS[OK]
        ]
        return Section("health", "Health", (short, *lines))
    table = Table("health", "", ("status", "check", "result", "what to do"), tuple(rows))
    return Section("health", "Health", (short,), (table,) if rows else ())


def _health_in_short(report: ReportData, names: Names) -> str:
    checks = {status: [names.within(c.name) for c in report.health if c.status == status] for status in MARKS}
    lists = {status: f"{status.capitalize()}: {several(some)}." for status, some in checks.items() if some}
    bad, skipped = [lists[status] for status in (FAILED, WARNING) if status in lists], lists.get(SKIPPED)
    number = len(report.health) - len(checks[SKIPPED])
    fine = f"{len(checks[OK])} of {number} checks are fine." if bad else f"All {number} checks are fine."
    if not number:
        fine = "No check could be made." if report.health else "No check was made."
    return " ".join(filter(None, [*bad, fine, skipped]))


def _input(report: ReportData, names: Names) -> Section:
    settings = Grid("settings", "How it was analysed", ("setting", "value"), ())
    for setting, value in (
        ("method", report.method),
        ("scored as", report.scored_as),
        ("scheme", report.scheme),
        ("events", report.events),
        ("rankers", several((names[name] for name in report.rankers), limit=10)),
        ("control", "none" if report.control is None else names[report.control]),
        ("confidence", share(report.confidence)),
        ("planned units", "none" if report.planned_units is None else count(report.planned_units)),
        ("margin", "none" if report.margin is None else f"{report.margin:g}"),
        ("correction", report.correction),
        ("errors clustered by", report.cluster.replace("_", " ")),
    ):
        settings.add(setting, setting, names.within(value))
    counted = Grid("events", "What happened to the events", ["event"], ["how many"])
    for text, number in _by_text(report, report.totals.events):
        counted.add(text, names[text], count(number))
    dropped = Grid("dropped", "What was dropped", ["what"], ["how many"])
    for text, number in _by_text(report, report.totals.dropped):
        dropped.add(text, names.within(text), count(number))
    words = tuple(map(names.within, report.notes)) + (() if dropped.rows else ("Nothing was dropped.",))
    tables = tuple(grid.table() for grid in (dropped, counted, settings) if grid.rows)
    return Section("input", "Notes, and what went in", words, tables)
