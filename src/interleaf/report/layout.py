"""The content of a report in its order: the verdict, the health checks, then the numbers. All formats show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from interleaf.report import sections
from interleaf.report.choice_sections import choice
from interleaf.report.format import Names, count, several, share
from interleaf.report.guardrail_table import GUARDRAIL_MARKS, guardrails
from interleaf.report.model import FAILED, OK, SKIPPED, WARNING, GuardrailCode, ReportData, Verdict, VerdictCode
from interleaf.report.sections import Grid, Section
from interleaf.tables import Table

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
        *([report.population] if report.population else []),
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
