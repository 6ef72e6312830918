"""Files to download (the log, tables as CSV), and commands to copy."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import cycle
from typing import Any

from starlette.responses import Response

from interleaf.experiment import Experiment
from interleaf.experiment.settings import CHOOSE
from interleaf.report.report import Report
from interleaf.server import endpoints
from interleaf.server.auth import OPEN
from interleaf.server.dashboard.visit import HEADERS, Visit
from interleaf.server.schemas import ApiError
from interleaf.stats.power import MARGIN
from interleaf.store.fold import report_settings_of

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would run a text that begins with one of these


def analysis(settings: Experiment, version: int, metric: str) -> str:
    """The command that makes the report of a metric from the exported log.

    >>> analysis(Experiment.of({"name": "shoes", "rankers": ["a", "b"], "by": ["device"]}), 1, "click")
    'interleaf analyze shoes-1.parquet --control a --events click --by device'
    >>> analysis(Experiment.of({"name": "best", "rankers": ["a", "b", "c"], "mode": "choose"}), 1, "click")
    'interleaf analyze best-1.parquet --control a --events click --start-rankers a b c'
    """
    read, usual = (
        report_settings_of(settings, metric),
        Experiment.of({"name": settings.name, "rankers": settings.rankers[:2]}),
    )
    words = [endpoints.export_name(settings, version), "--control", settings.control, "--events"]
    weights = settings.metrics[metric].items()
    words += [kind if weight == 1 else f"{kind}={weight!r}" for kind, weight in weights if weight]
    if (scheme := settings.scheme_of(metric)) is not None:
        words += ["--scheme", scheme]
    words += ["--values"] if settings.counts_values(metric) else []
    words += [] if read.cap is None else ["--cap", repr(read.cap)]
    words += ["--secondary", str(read.secondary)] if read.secondary else []
    for option, name in (("--confidence", "confidence"), ("--planned-units", "planned_units")):
        if getattr(read, name) != getattr(usual, name):
            words += [option, str(getattr(read, name))]
    if read.margin not in (None, MARGIN):
        words += ["--margin", repr(read.margin)]
    if read.guardrails:
        words += ["--guardrails", *(f"{metric}={margin!r}" for metric, margin in read.guardrails.items())]
    words += ["--aa"] if read.aa else []
    words += [] if read.holdout is None else ["--holdout", str(read.holdout)]
    words += ["--by", *settings.by] if settings.by else []
    words += ["--start-rankers", *read.start_rankers] if read.start_rankers else []
    return shlex.join(["interleaf", "analyze", *words])


def first_list(settings: Experiment, address: str, is_open: bool) -> list[str]:
    """The commands that ask for a list; without a key if the service has no keys.

    If the best of many rankers is chosen, the first one asks which rankers to run, and the reader writes these into the
    second one.

    >>> settings = Experiment.of({"name": "best", "rankers": ["a", "b", "c"], "mode": "choose"})
    >>> print(first_list(settings, "http://127.0.0.1:8080", is_open=True)[0])
    curl http://127.0.0.1:8080/v1/experiments/best/choose -H 'Content-Type: application/json' -d '{"unit": "user-7"}'
    """
    orders = cycle((["doc-1", "doc-2", "doc-3"], ["doc-3", "doc-2", "doc-1"]))
    names: Sequence[str] = settings.rankers
    if settings.mode == CHOOSE:
        names = [f"RANKER {number} FROM THE ANSWER" for number in range(1, settings.rankers_per_list + 1)]
    rankings = dict(zip(names, orders, strict=False))
    body = {"unit": "user-7", "query": "trail shoes", "rankings": rankings}
    commands = [_post(f"{address}/v1/experiments/{settings.name}/interleave", body, is_open)]
    if settings.mode == CHOOSE:
        commands.insert(0, _post(f"{address}/v1/experiments/{settings.name}/choose", {"unit": "user-7"}, is_open))
    return commands


def first_event(settings: Experiment, address: str, is_open: bool) -> str:
    """The command that reports an event."""
    event = {"impression": "THE ID FROM THE ANSWER", "rank": 1, "kind": settings.primary}
    return _post(f"{address}/v1/events", {"events": [event]}, is_open)


def first_experiment(address: str, is_open: bool) -> str:
    """The command that creates an experiment."""
    return _post(f"{address}/v1/experiments", {"name": "shoes", "rankers": ["production", "candidate"]}, is_open)


def _post(address: str, body: dict[str, Any], is_open: bool) -> str:
    key = [] if is_open else ["-H", "Authorization: Bearer KEY"]
    data = json.dumps(body, ensure_ascii=False)
    return shlex.join(["curl", address, *key, "-H", "Content-Type: application/json", "-d", data])


async def export(visit: Visit) -> Response:
    """The log as Parquet."""
    return await endpoints.export(visit.service, visit.request, b"", visit.who or OPEN)


async def table(visit: Visit) -> Response:
    """One table as CSV, with the rows of all metrics."""
    stored = await visit.service.experiment(visit.name)
    version, name = endpoints.read_version(visit.request, stored), visit.request.path_params["table"]
    current = await visit.service.current_reports(stored.settings.name, version)
    text = await visit.service.run_report(csv_of, current.reports, name)
    if text is None:
        raise ApiError(404, "unknown", f"there is no table {name[:40]!r} with rows", "table")
    file = f"{stored.settings.name}-{version}-{name}.csv"
    headers = HEADERS | {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(text, headers=headers, media_type="text/csv; charset=utf-8")


def table_names(report: Report | None) -> tuple[str, ...]:
    """The tables of a report that have rows."""
    parts = ("choice", "comparisons", "health", "guardrails", "arms", "slots", "neutrality", "over_time", "segments")
    return tuple(name for name in parts if getattr(report, name, ()))


def csv_of(reports: Mapping[str, Report], name: str) -> str | None:
    """A table as CSV with unrounded numbers and the metric in the first column; None if it has no rows."""
    rows = []
    for metric, report in reports.items():
        table = report.to_frames().get(name)
        for row in table.to_pylist() if table is not None else ():
            values = {("event_metric" if column == "metric" else column): _cell(value) for column, value in row.items()}
            rows.append({"metric": _cell(metric)} | values)
    if not rows:
        return None
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """A value that is safe in a spreadsheet: text is never run as a formula."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):  # reasons, or codes
        value = "; ".join(one if isinstance(one, str) else ": ".join(one) for one in value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
