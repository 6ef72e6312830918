"""The list of experiments: state, progress and verdict of each."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from interleaf.experiment.settings import AA, CHOOSE, LOSER, RELABELLED
from interleaf.log.drop_reasons import EventFate
from interleaf.methods.registry import ONE_LIST
from interleaf.report.format import Names
from interleaf.report.layout import EVEN, UNTRUSTED, WINNER, tone_and_headline
from interleaf.report.report import Report
from interleaf.server.dashboard import downloads, static_files
from interleaf.server.dashboard.result_summary import conflicts, early_warning
from interleaf.server.dashboard.visit import DashboardState, Visit, page, part
from interleaf.server.endpoints import MAX_PAGE, read_number, read_search
from interleaf.store.records import DRAFT, RUNNING, STATES, Stored

FRESH, SLOW = 3.0, 15.0  # maximum age in seconds of a report in the list; SLOW: if it takes long to compute
STALE = 60.0  # the same for a stopped or decided experiment
PAGE = 30  # experiments on a page: a report is computed for each
SHARE = 0.01  # maximum share of one core that the report of an experiment takes while the list is open
# Labels of the modes other than a comparison in mixed lists.
MODES = {CHOOSE: "Choice", ONE_LIST: "A/B test", AA: "A/A", RELABELLED: "relabelled A/A", LOSER: "known loser"}


async def show(visit: Visit) -> Response:
    """The whole page."""
    static_files.prepare()
    return page(visit, "list.html", **await _values(visit))


async def live(visit: Visit) -> Response:
    """The part of the page that is refreshed."""
    return part(visit, "lines.html", **await _values(visit))


async def _values(visit: Visit) -> dict[str, Any]:
    """The experiments on this page of the search results, each with its report."""
    service, store = visit.service, visit.service.store
    search = read_search(visit.request, visit.who)
    total, is_exact = await asyncio.to_thread(store.count_experiments, search)
    last = max(1, -(-total // PAGE))
    number = min(read_number(visit.request, "page", 1, MAX_PAGE), last)
    experiments = await asyncio.to_thread(store.experiments, search, PAGE, (number - 1) * PAGE)
    await service.wait_for_kernels(stored for stored in experiments if stored.state != DRAFT)
    lines = await service.run_report(lambda: [_line(stored, visit.shared) for stored in experiments])
    unplaced = await asyncio.to_thread(store.unplaced) if search.only is None else {}
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
