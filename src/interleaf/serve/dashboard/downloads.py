"""Files to take away: the log as Parquet, and the tables of the page as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from starlette.responses import Response

from interleaf.render.frames import to_frames
from interleaf.report.report import Report
from interleaf.serve import endpoints
from interleaf.serve.access import OPEN
from interleaf.serve.dashboard.pages import HEADERS, Visit
from interleaf.serve.responses import ApiError

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a text that begins so would be run by a spreadsheet


async def export(visit: Visit) -> Response:
    """The log."""
    return await endpoints.export(visit.service, visit.request, b"", visit.who or OPEN)


async def table(visit: Visit) -> Response:
    """One table, with the rows of all metrics."""
    stored = await visit.service.experiment(visit.name)
    version, name = endpoints.version_of(visit.request, stored), visit.request.path_params["table"]
    standing = await visit.service.standing(stored.settings.name, version)
    text = await visit.service.reported(csv_of, standing.reports, name)
    if text is None:
        raise ApiError(404, "unknown", f"there is no table {name[:40]!r} with rows", "table")
    file = f"{stored.settings.name}-{version}-{name}.csv"
    headers = HEADERS | {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(text, headers=headers, media_type="text/csv; charset=utf-8")


def table_names(report: Report | None) -> tuple[str, ...]:
    """The tables of a report that have rows."""
    if report is None:
        return ()
    parts = ("comparisons", "health", "arms", "slots", "neutrality", "over_time", "segments")
    return tuple(name for name in parts if getattr(report, name))


def csv_of(reports: Mapping[str, Report], name: str) -> str | None:
    """A table as CSV, numbers as they are, the metric as the first column; None if no metric has rows of it."""
    rows = list(_rows(reports, name))
    if not rows:
        return None
    written = io.StringIO()
    writer = csv.DictWriter(written, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()


def _rows(reports: Mapping[str, Report], name: str) -> Iterator[dict[str, Any]]:
    for metric, report in reports.items():
        frame = to_frames(report).get(name)
        for row in frame.to_pylist() if frame is not None else ():
            yield {"metric": _cell(metric)} | {
                ("event_metric" if column == "metric" else column): _cell(value) for column, value in row.items()
            }


def _cell(value: Any) -> Any:
    """A value as a spreadsheet may open it: no text of strangers is a formula."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):  # reasons
        value = "; ".join(f"{name}: {reason}" for name, reason in value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
