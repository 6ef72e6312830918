"""All experiments: what each is doing, how far it is, and its verdict in a word."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from interleaf.experiment.settings import AA, LOSER, RELABELLED
from interleaf.render.figures import Names
from interleaf.render.layout import EVEN, UNTRUSTED, WINNER
from interleaf.report.report import Report
from interleaf.serve.dashboard import commands, files
from interleaf.serve.dashboard.pages import Shared, Visit, page, part
from interleaf.serve.dashboard.scores import conflicts
from interleaf.store.contract import DRAFT, RUNNING, Stored

FRESH, SLOW = 3.0, 15.0  # seconds that a report of the list is remembered: at least, and one that took long at most
STALE = 60.0  # and one of what is over
MOST_JUDGED = 30  # experiments whose reports are made for the list
SHARE = 0.01  # of a processor's time that the report of one should take while the list is watched
ORDER = (RUNNING, DRAFT)
MODES = {AA: "A/A", RELABELLED: "relabelled A/A", LOSER: "known loser"}  # what is no plain comparison


@dataclass(frozen=True)
class Line:
    """An experiment in the list; without a report where it has none."""

    stored: Stored
    report: Report | None
    tone: str
    word: str
    is_disputed: bool
    mode: str


async def shown(visit: Visit) -> Response:
    """The whole page."""
    files.prepare()
    return page(visit, "list.html", **await _values(visit))


async def live(visit: Visit) -> Response:
    """What changes."""
    return part(visit, "lines.html", **await _values(visit))


async def _values(visit: Visit) -> dict[str, Any]:
    """What runs first, then drafts, then the rest, the latest first."""
    service = visit.service
    found = await asyncio.to_thread(service.store.experiments)
    found.sort(key=lambda stored: -stored.created)
    found.sort(key=lambda stored: ORDER.index(stored.state) if stored.state in ORDER else len(ORDER))
    judged = {stored.settings.name for stored in [one for one in found if one.state != DRAFT][:MOST_JUDGED]}
    lines = await service.reported(
        lambda: [_line(stored, visit.shared, stored.settings.name in judged) for stored in found]
    )
    first = commands.first_experiment(visit.address, visit.is_open)
    unplaced = await asyncio.to_thread(service.store.unplaced)
    return {"lines": lines, "first": first, "address": visit.address, "unplaced": unplaced}


def _line(stored: Stored, shared: Shared, judged: bool) -> Line:
    reports = _reports(stored, shared) if judged else {}
    report = next(iter(reports.values()), None)
    is_disputed, mode = bool(conflicts(stored.settings, reports)), MODES.get(stored.settings.mode, "")
    return Line(stored, report, *judgement(report), is_disputed, mode)


def _reports(stored: Stored, shared: Shared) -> Mapping[str, Report]:
    """The reports of all metrics, the primary one first, remembered for a while: a list of many is opened often."""
    place = stored.settings.name, stored.version
    until, reports = shared.listed.get(place, (-1.0, {}))
    if time.monotonic() >= until:
        began = time.monotonic()
        reports = shared.service.reports.standing(*place).reports
        ended = time.monotonic()
        stands = min(max(FRESH, (ended - began) / SHARE), SLOW) if stored.state == RUNNING else STALE
        shared.listed[place] = ended + stands, reports
    return reports


def judgement(report: Report | None) -> tuple[str, str]:
    """The verdict's tone and its word, with the mark that says it without colour."""
    if report is None:
        return "none", "○ nothing to see yet"
    verdict = report.verdict
    if not verdict.trusted:
        return UNTRUSTED, "✗ do not trust this"
    if verdict.winner is not None:
        return WINNER, f"✓ {Names(report.rankers)[verdict.winner]} is preferred"
    uniform = [pair.unanimous for pair in report.comparisons if pair.unanimous is not None]
    if len(report.comparisons) == 1 and uniform:
        return EVEN, f"= all favour {Names(report.rankers)[uniform[0]]}: too uniform"
    return EVEN, "= no winner shown"
