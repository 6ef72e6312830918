"""The page of an experiment; all but its frame is sent again while people look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from interleaf.experiment import Experiment
from interleaf.experiment.settings import COMPARE, SETTINGS
from interleaf.render.layout import MARKS, Page, lay_out
from interleaf.render.sections import Section
from interleaf.report.record import FAILED, WARNING
from interleaf.report.report import Report
from interleaf.serve.dashboard import commands, files
from interleaf.serve.dashboard.downloads import table_names
from interleaf.serve.dashboard.drawings import Drawn
from interleaf.serve.dashboard.examples import example, teams
from interleaf.serve.dashboard.listing import MODES, judgement
from interleaf.serve.dashboard.outlook import outlook
from interleaf.serve.dashboard.pages import Visit, page, part
from interleaf.serve.dashboard.scores import Scorecard, scorecard
from interleaf.serve.dashboard.trials import trials
from interleaf.serve.endpoints import version_of
from interleaf.serve.reports import Standing
from interleaf.store.contract import DRAFT, RUNNING, STOPPED, Stored
from interleaf.tables import Table

MAX_EXAMPLES = 8
# What follows the leaderboard of many rankers, the scorecard, the estimate over time and the progress, in this order.
NUMBERS = ("neutrality", "slots", "arms", "segments")
WRONG = {MARKS[FAILED], MARKS[WARNING]}


@dataclass(frozen=True)
class Numbers:
    """What a report says, part by part."""

    report: Report
    page: Page
    sections: Mapping[str, Section]
    scorecard: Scorecard
    drawn: Drawn

    @property
    def wrong(self) -> Table | None:
        """The checks that are not fine."""
        return self._checks(lambda row: row[0] in WRONG)

    @property
    def fine(self) -> Table | None:
        """The other checks."""
        return self._checks(lambda row: row[0] not in WRONG)

    def _checks(self, wanted: Any) -> Table | None:
        for table in self.sections["health"].tables:
            rows = tuple(row for row in table.rows if wanted(row))
            return Table(table.name, "", table.columns, rows, table.right) if rows else None
        return None

    @property
    def share(self) -> float | None:
        """How much of the planned size there is; None without a plan."""
        return None if self.report.planned_units is None else self.report.totals.units / self.report.planned_units


async def shown(visit: Visit) -> Response:
    """The whole page."""
    files.prepare()
    return page(visit, "experiment.html", vega=files.vega_address(), **await _values(visit))


async def live(visit: Visit) -> Response:
    """What changes."""
    return part(visit, "live.html", **await _values(visit))


async def _values(visit: Visit) -> dict[str, Any]:
    stored = await visit.service.experiment(visit.name)
    version = version_of(visit.request, stored)
    standing = await visit.service.standing(stored.settings.name, version)  # one for all that wait
    return await visit.service.reported(_gathered, visit, stored, version, standing)


def _gathered(visit: Visit, stored: Stored, version: int, standing: Standing) -> dict[str, Any]:
    """Everything that the page shows; this reads the store."""
    service, settings = visit.service, stored.versions[version]
    report = next(iter(standing.reports.values()), None)
    rows = service.store.examples(settings.name, version, MAX_EXAMPLES)
    marked = teams(settings.rankers)
    tone, word = judgement(report)
    return {
        "stored": stored,
        "settings": settings,
        "version": version,
        "is_latest": version == stored.version,
        "tone": tone,
        "word": word,
        "numbers": None if report is None else _numbers(visit, settings, version, standing, report),
        "number_sections": NUMBERS,
        "reason": standing.reason or "",
        "counts": standing.counts,
        "apart": _apart(standing),
        "trials": trials(settings, report),
        "is_trial": settings.mode != COMPARE,
        "mode": MODES.get(settings.mode, ""),
        "teams": marked,
        "examples": [example(row, marked) for row in rows],
        "decision": next((one for one in reversed(stored.history) if one.what == "decided"), None),
        "can": _possible(stored),
        "told": _told(settings),
        "outlook": outlook(stored, settings, report, service.clock()),
        "csv_tables": table_names(report),
        "analyses": {metric: commands.analysis(settings, version, metric) for metric in settings.metrics},
        "exported": commands.exported(settings, version),
        "first_list": commands.first_list(settings, visit.address, visit.is_open),
        "first_event": commands.first_event(settings, visit.address, visit.is_open),
    }  # fmt: skip


def _possible(stored: Stored) -> dict[str, bool]:
    """What can be done to an experiment in its state."""
    is_listed = stored.archived is None
    return {
        "start": is_listed and stored.state == DRAFT,
        "stop": stored.state == RUNNING,
        "decide": is_listed and stored.state == STOPPED,
        "edit": is_listed and stored.state in (DRAFT, RUNNING),
    }


def _numbers(visit: Visit, settings: Experiment, version: int, standing: Standing, report: Report) -> Numbers:
    laid_out = lay_out(report)
    sections = {section.name: section for section in laid_out.sections}
    drawings = visit.shared.drawings.get_blocking(settings.name, version)
    return Numbers(report, laid_out, sections, scorecard(settings, standing.reports), drawings)


def _apart(standing: Standing) -> Table | None:
    """Events that count for nobody, and why."""
    rows = tuple((reason, f"{number:,}") for reason, number in standing.counts.apart.items() if number)
    return Table("apart", "Events kept apart", ("reason", "how many"), rows, ("how many",)) if rows else None


def _told(settings: Experiment) -> Table:
    """The settings as a table, with what each means."""
    rows = tuple(
        (SETTINGS[name].metadata["label"], _written(value), SETTINGS[name].metadata["meaning"])
        for name, value in settings.to_dict().items()
    )
    return Table("settings", "", ("setting", "value", "meaning"), rows)


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{kind} = {weight:g}" for kind, weight in value.items())
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
