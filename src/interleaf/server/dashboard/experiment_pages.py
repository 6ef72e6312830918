"""The list of experiments with state, progress and verdict of each; and the page of one experiment.

The page also shows example lists that users saw: the ranker of each document, and its clicks.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from interleaf.experiment import Experiment
from interleaf.experiment.serving import build_whole_list
from interleaf.experiment.settings import AA, CHOOSE, COMPARE, LOSER, RELABELLED, SETTINGS
from interleaf.log.drop_reasons import EventFate
from interleaf.methods.registry import ONE_LIST
from interleaf.report.format import Names, count
from interleaf.report.layout import EVEN, MARKS, UNTRUSTED, WINNER, lay_out, tone_and_headline
from interleaf.report.model import FAILED, WARNING
from interleaf.report.report import Report
from interleaf.server.dashboard import downloads, static_files
from interleaf.server.dashboard.downloads import table_names
from interleaf.server.dashboard.result_summary import (
    conflicts,
    early_warning,
    outlook,
    say_adjusted,
    scorecard,
    summarise_metrics,
    trials,
)
from interleaf.server.dashboard.visit import DashboardState, Visit, moment, page, part, short
from interleaf.server.endpoints import MAX_PAGE, export_name, read_number, read_search, read_version
from interleaf.server.ingest import to_microseconds
from interleaf.server.reports import CurrentReports
from interleaf.store.records import DRAFT, RUNNING, STATES, STOPPED, Stored
from interleaf.tables import Table

FRESH, SLOW = 3.0, 15.0  # maximum age in seconds of a report in the list; SLOW: if it takes long to compute
STALE = 60.0  # the same for a stopped or decided experiment
PAGE = 30  # experiments on a page: a report is computed for each
SHARE = 0.01  # maximum share of one core that the report of an experiment takes while the list is open
# Labels of the modes other than a comparison in mixed lists.
MODES = {CHOOSE: "Choice", ONE_LIST: "A/B test", AA: "A/A", RELABELLED: "relabelled A/A", LOSER: "known loser"}
COLOURS = 6  # colours of teams; each team has a letter, too
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MAX_EXAMPLES = 8
# Sections after the leaderboard, the scorecard, the estimate over time and the progress, in this order.
NUMBERS = ("lift", "neutrality", "slots", "arms", "segments")
WRONG = {MARKS[FAILED], MARKS[WARNING]}


async def show_list(visit: Visit) -> Response:
    """The whole page."""
    static_files.prepare()
    return page(visit, "list.html", **await _list_values(visit))


async def refresh_list(visit: Visit) -> Response:
    """The part of the page that is refreshed."""
    return part(visit, "lines.html", **await _list_values(visit))


async def _list_values(visit: Visit) -> dict[str, Any]:
    """The experiments on this page of the search results, each with its report."""
    service, store = visit.service, visit.service.store
    search = read_search(visit.request, visit.who)
    total, is_exact = await asyncio.to_thread(store.count_experiments, search)
    last = max(1, -(-total // PAGE))
    number = min(read_number(visit.request, "page", 1, MAX_PAGE), last)
    experiments = await asyncio.to_thread(store.experiments, search, PAGE, (number - 1) * PAGE)
    await service.wait_for_kernels(stored for stored in experiments if stored.state != DRAFT)
    lines = await service.run_report(lambda: [_line(stored, visit.shared) for stored in experiments])
    unplaced = await asyncio.to_thread(store.count_unplaced) if search.only is None else {}
    query = {"search": search.text, "state": search.state, "archived": "true" if search.archived else None}
    return {
        "lines": lines,
        "total": total,
        "is_exact": is_exact,
        "page": number,
        "last": last,
        "search": search,
        "states": STATES,
        "query": urlencode({name: value for name, value in query.items() if value}),
        "is_empty": total == 0 and (await asyncio.to_thread(store.count_experiments)).number == 0,
        "first": downloads.first_experiment(visit.address, visit.is_open),
        "address": visit.address,
        "unplaced": {EventFate(fate).text: number for fate, number in unplaced.items()},
    }


def _line(stored: Stored, shared: DashboardState) -> dict[str, Any]:
    """An experiment with the reports of all metrics, which may be older than those on the experiment's page."""

    def max_age(seconds: float) -> float:
        return min(max(FRESH, seconds / SHARE), SLOW) if stored.state == RUNNING else STALE

    reports = {}
    if stored.state != DRAFT:
        reports = shared.service.reports.get_blocking(stored.settings.name, stored.version, max_age).reports
    report = next(iter(reports.values()), None)
    tone, word = judgement(report)
    return {
        "stored": stored,
        "report": report,
        "tone": tone,
        "word": word,
        "is_disputed": bool(conflicts(stored.settings, reports)),
        "mode": MODES.get(stored.settings.mode, ""),
        "is_early": report is not None and bool(early_warning(report)),
    }


def judgement(report: Report | None) -> tuple[str, str]:
    """The CSS class of the verdict and its short text, with a symbol for readers who do not see colours."""
    if report is None:
        return "none", "○ nothing to see yet"
    tone, headline = tone_and_headline(report.verdict)
    if tone == UNTRUSTED:
        return tone, "✗ do not trust this"
    if tone == WINNER:
        winner = report.verdict.winner
        return tone, f"✓ {Names(report.rankers)[winner]} is preferred" if winner else "✓ better than the control"
    uniform = [pair.unanimous for pair in report.comparisons if pair.unanimous is not None]
    if len(report.comparisons) == 1 and uniform:
        return EVEN, f"= all favour {Names(report.rankers)[uniform[0]]}: too uniform"
    return tone, headline.lower()


@dataclass(frozen=True)
class Team:
    """The mark of a ranker's documents: a letter (a number after Z) and a colour."""

    name: str
    letter: str
    colour: int


def teams(rankers: Iterable[str]) -> dict[str, Team]:
    """The marks of all rankers."""
    names = Names(rankers)
    return {
        ranker: Team(names[ranker], LETTERS[place] if place < len(LETTERS) else str(place + 1), place % COLOURS)
        for place, ranker in enumerate(rankers)
    }


def example(row: Mapping[str, Any], marked: Mapping[str, Team]) -> dict[str, Any]:
    """A row of the log, prepared for the page; it may have some of the rankers only."""
    facts = [(name, row.get(name)) for name in ("query", "unit", "arm")]
    facts += [*dict(row.get("attributes") or {}).items(), ("does not count", row.get("excluded"))]
    happened: dict[int, Counter[str]] = {}
    for event in row.get("events") or ():
        happened.setdefault(event["rank"], Counter())[event["kind"]] += 1
    places = {document: place for place, document in enumerate(row["documents"])}
    owners = [marked[ranker] for ranker in row["rankers"]]
    shown = [
        _to_document(row, places[document], owners, happened.get(places[document] + 1))
        if document in places
        else {"document": short(document), "title": "", "team": None, "ranks": "", "events": "", "is_fixed": True}
        for document in build_whole_list(row)
    ]
    texts = [(short(str(name), 40), short(str(value))) for name, value in facts if value not in (None, "")]
    time = row["time"] if isinstance(row["time"], int) else to_microseconds(row["time"])
    return {"time": moment(time), "facts": texts, "documents": shown}


def _to_document(
    row: Mapping[str, Any], place: int, owners: Sequence[Team], events: Counter[str] | None
) -> dict[str, Any]:
    """A document of a list: its team, its rank in each ranking, and its events."""
    owner = (row.get("teams") or [-1] * (place + 1))[place]
    caption = (row.get("captions") or [None] * (place + 1))[place] or {}
    ranks = zip(owners, [own[place] for own in row.get("ranks") or ()], strict=False)
    kinds = [short(kind, 40) + f" × {count(number)}" * (number > 1) for kind, number in (events or {}).items()]
    return {
        "document": short(row["documents"][place]),
        "title": short(caption.get("title") or ""),
        "team": owners[owner] if 0 <= owner < len(owners) else None,
        "ranks": ", ".join(f"{team.letter} {rank or 'not'}" for team, rank in ranks),
        "events": ", ".join(kinds),
        "is_fixed": False,
    }


async def show_experiment(visit: Visit) -> Response:
    """The whole page."""
    static_files.prepare()
    return page(visit, "experiment.html", vega=static_files.vega_address(), **await _experiment_values(visit))


async def refresh_experiment(visit: Visit) -> Response:
    """The part of the page that is refreshed."""
    return part(visit, "live.html", **await _experiment_values(visit))


async def _experiment_values(visit: Visit) -> dict[str, Any]:
    stored = await visit.service.experiment(visit.name)
    version = read_version(visit.request, stored)
    current = await visit.service.current_reports(stored.settings.name, version)  # computed once for all who wait
    return await visit.service.run_report(_gather, visit, stored, version, current)


def _gather(visit: Visit, stored: Stored, version: int, current: CurrentReports) -> dict[str, Any]:
    """All values of the page; this reads the store."""
    service, settings = visit.service, stored.versions[version]
    report = next(iter(current.reports.values()), None)
    rows = service.store.examples(settings.name, version, MAX_EXAMPLES)
    marked = teams(settings.rankers)
    apart = tuple((EventFate(fate).text, f"{number:,}") for fate, number in current.counts.apart.items() if number)
    tone, word = judgement(report)
    return {
        "stored": stored,
        "settings": settings,
        "version": version,
        "is_latest": version == stored.version,
        "tone": tone,
        "word": word,
        "numbers": None if report is None else _parts(visit, settings, version, current, report),
        "number_sections": NUMBERS,
        "reason": current.reason or "",
        "counts": current.counts,
        "apart": Table("apart", "Unmatched events", ("reason", "how many"), apart, ("how many",)) if apart else None,
        "trials": trials(settings, report),
        "is_trial": settings.mode != COMPARE,
        "mode": MODES.get(settings.mode, ""),
        "teams": [marked[ranker] for ranker in settings.rankers if any(ranker in row["rankers"] for row in rows)],
        "examples": [example(row, marked) for row in rows],
        "decision": next((one for one in reversed(stored.history) if one.what == "decided"), None),
        "can": _possible(stored),
        "settings_table": _settings_table(settings),
        "outlook": outlook(stored, settings, report, service.clock()),
        "csv_tables": table_names(report),
        "analyses": {metric: downloads.analysis(settings, version, metric) for metric in settings.metrics},
        "exported": export_name(settings, version),
        "first_commands": [
            *downloads.first_list(settings, visit.address, visit.is_open),
            downloads.first_event(settings, visit.address, visit.is_open),
        ],
    }  # fmt: skip


def _possible(stored: Stored) -> dict[str, bool]:
    """The actions that the state of an experiment allows."""
    is_listed = stored.archived is None
    return {
        "start": is_listed and stored.state == DRAFT,
        "stop": stored.state == RUNNING,
        "decide": is_listed and stored.state == STOPPED,
        "edit": is_listed and stored.state in (DRAFT, RUNNING),
    }


def _parts(visit: Visit, settings: Experiment, version: int, current: CurrentReports, report: Report) -> dict[str, Any]:
    """The parts of a report that the page shows."""
    laid_out = lay_out(report)
    sections = {section.name: section for section in laid_out.sections}
    checks = sections["health"].tables
    is_known = len(report.lifts) == 1 and report.lifts[0].lift is not None
    drawings, missing = visit.shared.charts.get_blocking((settings.name, version))
    return {
        "report": report,
        "page": laid_out,
        "sections": sections,
        "scorecard": scorecard(settings, current.reports),
        "metrics": summarise_metrics(settings, current.reports) if report.choice else None,
        "adjusted": say_adjusted(settings),
        "lift": sections["lift"].words[0] if is_known else "",
        "charts": drawings,
        "missing": missing,
        "wrong": _select_checks(checks, is_wrong=True),
        "fine": _select_checks(checks, is_wrong=False),
    }


def _select_checks(checks: Sequence[Table], is_wrong: bool) -> Table | None:
    """The health checks that failed or warn, or those that passed."""
    rows = tuple(row for row in checks[0].rows if (row[0] in WRONG) == is_wrong) if checks else ()
    return Table(checks[0].name, "", checks[0].columns, rows, checks[0].right) if rows else None


def _settings_table(settings: Experiment) -> Table:
    """The settings as a table, each with its meaning."""
    rows = tuple(
        (SETTINGS[name].label, _format(value), SETTINGS[name].meaning) for name, value in settings.to_dict().items()
    )
    return Table("settings", "", ("setting", "value", "meaning"), rows)


def _format(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{kind} = {weight:g}" for kind, weight in value.items())
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
