"""All experiments: what each is doing, how far it is, and its verdict in a word."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from starlette.responses import Response

from interleaf.render.figures import Names
from interleaf.render.layout import EVEN, UNTRUSTED, WINNER
from interleaf.report.report import Report
from interleaf.serve.dashboard import commands, files
from interleaf.serve.dashboard.pages import Shared, Visit, page
from interleaf.store.contract import DRAFT, RUNNING, Stored

FRESH, STALE = 3.0, 60.0  # seconds that a report of the list is remembered, while it runs and after that
MOST_JUDGED = 30  # experiments whose reports are made for the list
ORDER = (RUNNING, DRAFT)


@dataclass(frozen=True)
class Line:
    """An experiment in the list; without a report where it has none."""

    stored: Stored
    report: Report | None
    tone: str
    word: str


async def shown(visit: Visit) -> Response:
    """The page: what runs first, then drafts, then the rest, the latest first."""
    files.prepare()
    service = visit.service
    found = await asyncio.to_thread(service.store.experiments)
    found.sort(key=lambda stored: -stored.created)
    found.sort(key=lambda stored: ORDER.index(stored.state) if stored.state in ORDER else len(ORDER))
    judged = {stored.settings.name for stored in [one for one in found if one.state != DRAFT][:MOST_JUDGED]}
    lines = await asyncio.to_thread(
        lambda: [_line(stored, visit.shared, stored.settings.name in judged) for stored in found]
    )
    first = commands.first_experiment(visit.address, visit.is_open)
    unplaced = await asyncio.to_thread(service.store.unplaced)
    return page(visit, "list.html", lines=lines, first=first, address=visit.address, unplaced=unplaced)


def _line(stored: Stored, shared: Shared, judged: bool) -> Line:
    report = _report(stored, shared) if judged else None
    return Line(stored, report, *judgement(report))


def _report(stored: Stored, shared: Shared) -> Report | None:
    """The report of the primary metric, remembered for a while: a list of many is opened often."""
    place = stored.settings.name, stored.version
    until, report = shared.listed.get(place, (-1.0, None))
    if time.monotonic() >= until:
        report = next(iter(shared.service.reports.standing(*place).reports.values()), None)
        shared.listed[place] = time.monotonic() + (FRESH if stored.state == RUNNING else STALE), report
    return report


def judgement(report: Report | None) -> tuple[str, str]:
    """The verdict's tone and its word, with the mark that says it without colour."""
    if report is None:
        return "none", "○ nothing to see yet"
    verdict = report.verdict
    if not verdict.trusted:
        return UNTRUSTED, "✗ do not trust this"
    if verdict.winner is not None:
        return WINNER, f"✓ {Names(report.rankers)[verdict.winner]} is preferred"
    return EVEN, "= no winner shown"
