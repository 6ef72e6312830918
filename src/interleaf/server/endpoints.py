"""Endpoints to manage experiments: create, read, edit, start, stop, decide, archive, delete, report, export."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from interleaf.errors import ExperimentError, join_names
from interleaf.experiment import Experiment
from interleaf.log import schema
from interleaf.log.parquet import parquet_pieces
from interleaf.server import schemas
from interleaf.server.auth import OPEN
from interleaf.server.ingest import hash_if_secret
from interleaf.server.reports import CurrentReports
from interleaf.server.schemas import ApiError, JsonResponse, refuse_nulls
from interleaf.server.service import Service, log
from interleaf.store.database import is_kept
from interleaf.store.records import STATES, AccessKey, Search, Stored

DEFAULT_LIMIT, MAX_LIMIT, MAX_PAGE, MAX_SEARCH = 100, 1000, 10**6, 200
_decode_decision = msgspec.json.Decoder(schemas.DecisionRequest).decode


def to_response(stored: Stored) -> schemas.ExperimentResponse:
    """An experiment as a response body."""
    times = (stored.started, stored.stopped, stored.archived)
    started, stopped, archived = (None if time is None else to_iso(time) for time in times)
    history = [
        schemas.HistoryEntry(to_iso(entry.time), entry.version, entry.what, entry.who, entry.note)
        for entry in stored.history
    ]
    return schemas.ExperimentResponse(
        *(stored.settings.name, stored.version, stored.state, stored.settings.to_dict(), to_iso(stored.created)),
        *(started, stopped, archived, history),
    )


def to_iso(time: int) -> str:
    """A time of the store in ISO 8601."""
    return datetime.fromtimestamp(time / 1e6, UTC).isoformat()


async def list_experiments(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """A page of the experiments that the key may see."""
    search = read_search(request, who)
    limit = read_number(request, "limit", DEFAULT_LIMIT, MAX_LIMIT)
    number = read_number(request, "page", 1, MAX_PAGE)
    experiments = await asyncio.to_thread(service.store.experiments, search, limit + 1, (number - 1) * limit)
    total = await asyncio.to_thread(service.store.count_experiments, search)
    further = number + 1 if len(experiments) > limit else None
    bodies = [to_response(stored) for stored in experiments[:limit]]
    return JsonResponse(schemas.ExperimentsResponse(bodies, *total, further))


def read_search(request: Request, who: AccessKey | None) -> Search:
    """The search parameters of a request, limited to the experiments that the key may see."""
    query = request.query_params
    state, archived = query.get("state") or None, query.get("archived") or "false"
    if state not in (None, *STATES):
        raise ApiError(422, "invalid", f"state is {state[:20]!r}; give {join_names(STATES)}", "state")
    if archived not in ("false", "true"):
        raise ApiError(422, "invalid", f"archived is {archived[:20]!r}; give true or false", "archived")
    text = query.get("search", "")[:MAX_SEARCH]
    return Search(text if is_kept(text) else "\ufffd", state, archived == "true", who.experiment if who else None)


def read_number(request: Request, field: str, default: int, max_value: int) -> int:
    """A positive whole number from the query string."""
    text = request.query_params.get(field) or str(default)
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= max_value):
        raise ApiError(422, "invalid", f"{field} is {text[:20]!r}; give a whole number from 1 to {max_value:,}", field)
    return int(text)


async def read(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """One experiment."""
    return JsonResponse(to_response(await service.experiment(request.path_params["name"])))


async def create(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """Create an experiment, as a draft."""
    return await _change(service, who, "created", service.store.create, read_settings(body), status=201)


async def edit(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """Change the settings of a draft, or create a new version of a running experiment."""
    settings = read_settings(body)
    name = (await service.experiment(request.path_params["name"])).settings.name
    if settings.name != name:
        raise ExperimentError("name", settings.name, f"an experiment keeps its name, {name!r}")
    await service.warm(settings)
    return await _change(service, who, "edited", service.store.edit, settings)


async def start(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """Start an experiment; its kernels are compiled before the first list is requested."""
    await service.warm((await service.experiment(request.path_params["name"])).settings)
    return await _change_state(service, request, who, "started", service.store.start)


async def stop(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """Stop an experiment; events on lists that were shown still count."""
    return await _change_state(service, request, who, "stopped", service.store.stop)


async def decide(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """Record the decision."""
    decision = _decode_decision(body)
    refuse_nulls(body, decision)
    return await _change_state(service, request, who, "decided", service.store.decide, decision.decision)


async def archive(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """Stop an experiment if it is running, and hide it from lists."""
    return await _change_state(service, request, who, "archived", service.store.archive)


async def unarchive(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """Show an archived experiment in lists again."""
    return await _change_state(service, request, who, "unarchived", service.store.unarchive)


async def _change_state(
    service: Service, request: Request, who: AccessKey, what: str, change: Callable[..., Stored], *arguments: Any
) -> Response:
    name = (await service.experiment(request.path_params["name"])).settings.name
    return await _change(service, who, what, change, name, *arguments)


async def delete(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """Delete an experiment with all its rows, if the request confirms its name."""
    impressions = await delete_confirmed(service, request, request.query_params.get("confirm", ""))
    return JsonResponse(schemas.DeleteResponse(impressions))


async def delete_confirmed(service: Service, request: Request, confirmed: str) -> int:
    """Delete an experiment whose name was confirmed; returns how many impressions it had."""
    name = (await service.experiment(request.path_params["name"])).settings.name
    if confirmed != name:
        problem = f"{name!r} would be permanently deleted with all its rows; to confirm that, repeat its name"
        raise ApiError(422, "not_confirmed", problem, "confirm")
    try:
        impressions = await asyncio.to_thread(service.store.delete, name, service.clock())
    except KeyError:
        raise ApiError(404, "unknown", f"there is no experiment {name!r}", "name") from None
    service.experiments.clear()
    service.access.forget()
    log.info("deleted", extra={"experiment": name})
    return impressions


async def _change(
    service: Service, who: AccessKey, what: str, change: Callable[..., Stored], *arguments: Any, status: int = 200
) -> Response:
    """Change the store and respond with the experiment. Its history names the key's label, never its secret."""
    signature = "someone on this machine" if who is OPEN else f"{who.label} ({who.role} key {who.id})"
    stored = await asyncio.to_thread(change, *arguments, service.clock(), signature)
    service.experiments.put(stored.settings.name, stored)
    log.info(what, extra={"experiment": stored.settings.name, "version": stored.version, "by": who.id})
    return JsonResponse(to_response(stored), status)


def read_settings(body: bytes) -> Experiment:
    """The settings in a request's body."""
    data = msgspec.json.decode(body)
    refuse_nulls(body, data)
    return Experiment.of(data)


async def report(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """The report as JSON, with the same numbers as the page."""
    stored = await service.experiment(request.path_params["name"])
    current = await service.current_reports(stored.settings.name, read_version(request, stored))
    return await service.run_report(_encode_reports, current)


def _encode_reports(current: CurrentReports) -> Response:
    reports = {metric: msgspec.Raw(one.to_json().encode()) for metric, one in current.reports.items()}
    counts = (current.counts.open, current.counts.folded, dict(current.counts.apart))
    return JsonResponse(schemas.ReportResponse(current.version, reports, current.reason, *counts))


def read_version(request: Request, stored: Stored) -> int:
    """The requested version; the latest one by default."""
    text = request.query_params.get("version")
    if text is None:
        return stored.version
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or int(text) not in stored.versions:
        raise ApiError(404, "unknown", f"there is no version {text[:20]!r}; the latest is {stored.version}", "version")
    return int(text)


async def plans(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """The plans of epochs: which rankers were chosen, with which shares, and who left."""
    stored = await service.experiment(request.path_params["name"])
    version = read_version(request, stored)
    epoch_plans = await asyncio.to_thread(service.store.epoch_plans, stored.settings.name, version)
    return JsonResponse(schemas.PlansResponse(version, [plan.to_dict() for plan in epoch_plans]))


def export_name(settings: Experiment, version: int) -> str:
    """The file name of an exported log."""
    return f"{settings.name}-{version}.parquet"


async def export(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """All rows of a version as Parquet, streamed."""
    stored = await service.experiment(request.path_params["name"])
    version = read_version(request, stored)
    headers = {"Content-Disposition": f'attachment; filename="{export_name(stored.settings, version)}"'}
    rows = parquet_pieces(schema.SCHEMA, service.store.export(stored.settings.name, version))
    return StreamingResponse(rows, headers=headers, media_type="application/vnd.apache.parquet")


async def forget(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """Delete all rows of a user."""
    unit = hash_if_secret(service, request.path_params["unit"]) or ""
    deleted = await asyncio.to_thread(service.store.forget, unit)
    log.info("forgot a unit", extra={"impressions": deleted, "by": who.id})
    return JsonResponse(schemas.ForgetResponse(deleted))


async def live(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """Whether this process answers; the store is not checked."""
    return JsonResponse(schemas.HealthResponse("ok"))


async def ready(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """Whether the store answers in time."""
    await service.check_store()
    return JsonResponse(schemas.HealthResponse("ok"))


async def metrics(service: Service, request: Request, body: bytes, who: AccessKey) -> Response:
    """Metrics of all workers. The running experiments are omitted while the store does not answer."""
    running = await service.running()
    service.measure()
    text = await asyncio.to_thread(service.metrics.text, running)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")
