"""The two endpoints for search traffic: `interleave` mixes rankings into a list, `events` takes clicks."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from time import time_ns
from typing import Any

import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from interleaf.errors import ExperimentError, StateError, join_names
from interleaf.experiment import Experiment, Request, extend_list
from interleaf.experiment.assignment import OUTSIDE
from interleaf.experiment.serving import ChosenGroup, Shown, chance_key, plan_list, unmixed_page
from interleaf.experiment.settings import CHOOSE
from interleaf.interleaving.rankings import collapse
from interleaf.log.drop_reasons import EventFate
from interleaf.methods.registry import resolve
from interleaf.server import schemas
from interleaf.server.auth import BROWSER
from interleaf.server.schemas import RETRY, ApiError, JsonResponse, refuse_nulls
from interleaf.server.service import MAX_EVENTS, SECOND, Service
from interleaf.store.impression_rows import encode_lists
from interleaf.store.privacy import HASH, KEEP, hash_unit
from interleaf.store.records import RUNNING, AccessKey, Event, Stored, StoredImpression

NO_TOKEN = (None, "", "None", "null", "undefined")  # how template engines write a missing value
AHEAD = 300 * SECOND  # how far a caller's clock may be ahead of ours
MAX_DOCUMENTS_IN_LOOP = 5000  # documents in all rankings of a request; above this, drawing a list takes milliseconds
LATE = 300 * SECOND  # events may follow an impression that arrived late by this long
_decode_interleave = schemas.decoder(schemas.InterleaveRequest)
_decode_events = schemas.decoder(schemas.EventsRequest)


async def interleave(service: Service, http: HttpRequest, body: bytes, who: AccessKey) -> Response:
    """Draw a list, store it, and answer with it."""
    data = _decode_interleave(body)
    refuse_nulls(body, data)
    stored = await service.experiment(http.path_params["name"])
    now = service.clock()
    time = now if data.time is None else to_microseconds(data.time)
    if data.time is not None and not 0 <= time <= now + AHEAD:
        raise ApiError(422, "invalid", f"{data.time.isoformat()} is in the future, or before 1970", "time")
    _check_state(stored, data.time is not None, time)
    version = data.version or stored.version
    if version not in stored.versions:
        raise ApiError(422, "invalid", f"the latest version is {stored.version}", "version")
    settings, fixed = stored.versions[version], data.fixed or {}
    rankings = collapse(data.rankings, data.groups, fixed.values()) if data.groups else data.rankings
    request = Request(data.impression or new_id(), data.unit, data.query, rankings, data.k, data.page, fixed)
    if data.page > 1:
        return await _next_page(service, stored, data, request)
    group = None
    if settings.mode == CHOOSE:
        group = await _find_group(service, settings, version, request, now if data.time is None else None)
    shown = plan_list(settings, version, request, group)
    if shown.record is None:
        service.metrics.count_impression(settings.name, shown.arm, None)
        return JsonResponse(schemas.InterleaveResponse(None, shown.documents, shown.arm, version, None))
    until = time + settings.window
    closes = max(until, now + LATE) if data.time else until
    impression = StoredImpression(
        *(request.impression, settings.name, version, hash_if_secret(service, data.unit), time, closes, {}, until),
        shown=shown,
        extras=_collect_extras(service, settings, data, shown.rankers),
    )
    documents = sum(map(len, filter(None, rankings.values())))
    if settings.resolved_method.method.depends_on_k or documents > MAX_DOCUMENTS_IN_LOOP:
        await asyncio.to_thread(encode_lists, [impression])  # so that other requests do not wait
    unit, excluded = data.unit, impression.extras.get("excluded")
    del body, data, request, rankings  # many requests wait here, and the next ones use this memory again
    before = await service.write_queue.put(impression)
    service.metrics.count_impression(settings.name, shown.arm, excluded)
    if before is None:
        service.bots.count_impression(settings, unit)
        return _respond(service, impression.id, settings.name, shown, version, 201)
    if before["experiment"] != settings.name:
        raise ApiError(422, "invalid", "this impression id is another experiment's; give a fresh one", "impression")
    return _respond(service, impression.id, settings.name, extend_list(before, 1), before["version"])


async def _find_group(
    service: Service, settings: Experiment, version: int, request: Request, now: int | None
) -> ChosenGroup | None:
    """The rankers of a unit, if the best of many is chosen; None if the control is shown, as for a list from before."""
    if request.unit is None:
        remedy = "rankers are chosen by user; give the user's id, the same as in the request for the rankers to run"
        raise ExperimentError("unit", None, remedy)
    if now is None:
        return None
    rankers = [ranker for ranker, ranking in request.rankings.items() if ranking is not None]
    choice = await service.choosing.find_group(settings, version, request.unit, now, rankers)
    return None if choice is None else choice[1]


def _check_state(stored: Stored, late: bool, time: int) -> None:
    """Raise StateError unless the experiment is running, or was running when a late list was drawn."""
    if late and stored.started is not None and stored.started - AHEAD <= time < (stored.stopped or time + 1):
        return
    if stored.state != RUNNING or late:
        when = " at that time" if late else ""
        problem = f"the experiment is {stored.state}, but lists are only composed while it is running{when}"
        raise StateError(f"{problem}; show the control's list, or start an experiment")


async def _next_page(service: Service, stored: Stored, data: schemas.InterleaveRequest, request: Request) -> Response:
    """Respond with a page after the first. It uses the rankings and the impression of the first page."""
    name = data.impression
    row = await asyncio.to_thread(service.store.row, name) if name is not None else None
    if name is None or row is None or row["experiment"] != stored.settings.name:
        if all(ranking is None for ranking in request.rankings.values()):
            message = "no first page has this impression id; give the id of the first page, or the rankings"
            raise ApiError(404, "unknown", message, "impression")
        control = unmixed_page(stored.settings, request)  # the unit is outside the experiment, so nothing was stored
        return JsonResponse(schemas.InterleaveResponse(None, control, OUTSIDE, stored.version, None))
    if row["key"] is None:
        chosen = resolve(row["method"])
        key = chance_key(chosen, row["experiment"], row["version"], data.unit or name, data.query)
        row = {**row, "key": key}
    shown = extend_list(row, data.page, data.fixed, data.groups)
    if shown.row is not None and shown.row["page"] > (row["page"] or 1):
        if shown.row["documents"][: len(row["documents"])] != row["documents"]:
            raise ApiError(422, "invalid", "give the unit and the query of the first page", "query")
        if data.captions:
            more = [data.captions.get(document) for document in shown.row["documents"][len(row["documents"]) :]]
            shown.row["captions"] = [*(row["captions"] or [None] * len(row["documents"])), *msgspec.to_builtins(more)]
        if data.characters:
            lengths = [data.characters.get(document) for document in shown.row["documents"][len(row["documents"]) :]]
            shown.row["characters"] = [*(row["characters"] or [None] * len(row["documents"])), *lengths]
        if service.hides:
            shown.row["key"] = None  # as in `_collect_extras`
        await asyncio.to_thread(service.store.extend, name, shown.row)
    return _respond(service, name, stored.settings.name, shown, row["version"])


def _respond(
    service: Service, impression: str, experiment: str, shown: Shown, version: int, status: int = 200
) -> JsonResponse:
    """The response with the list and the token for its events; the token is signed for this experiment."""
    signature = service.tokens.sign(f"{impression}\0{experiment}")
    token = f"{signature}.{experiment}"
    return JsonResponse(schemas.InterleaveResponse(impression, shown.documents, shown.arm, version, token), status)


def _collect_extras(
    service: Service, settings: Experiment, data: schemas.InterleaveRequest, rankers: Iterable[str]
) -> dict[str, Any]:
    """The columns of a request that are stored besides the list."""
    extras: dict[str, Any] = {"attributes": data.attributes, "captions": data.captions}
    extras["characters"] = data.characters
    if data.session is not None:
        extras["session"] = hash_if_secret(service, data.session)
    if service.hides:
        extras["key"] = None  # it is a digest of unit and query, so guesses of them could be checked
    if service.settings.queries != KEEP:
        extras["query"] = hash_if_secret(service, data.query) if service.settings.queries == HASH else None
    if data.latency:
        extras["latency"] = [data.latency.get(ranker) for ranker in rankers]
    rule = service.bots.rule(settings, data.unit, data.user_agent)
    if rule is not None:
        extras["excluded"] = rule
    return extras


def hash_if_secret(service: Service, unit: str | None) -> str | None:
    """The stored form of a user id: the id itself, or a hash of it if there is a secret."""
    return None if unit is None else hash_unit(unit, service.settings.unit_secret)


async def events(service: Service, request: HttpRequest, body: bytes, who: AccessKey) -> Response:
    """Store a batch of events; events that match no list are stored separately, and reported by reason."""
    data = _decode_events(body)
    refuse_nulls(body, data)
    if data.token not in NO_TOKEN:
        await _check_token(service, data, str(data.token))
    elif who is BROWSER:
        problem = "give a key, as the header Authorization: Bearer KEY, or a token"
        if data.token is not None:
            problem += "; the token is empty: a list that was made while the service was away has none, so send its "
            problem += "events to your own server, which reports them with its key"
        raise ApiError(401, "no_key", problem)
    else:
        request.scope["head"].check_kind()
    now = service.clock()
    rows = [_to_event(service, event, now, place, who.experiment) for place, event in enumerate(data.events)]
    fates = Counter(await service.write_queue.put_events(rows))
    service.metrics.count_events(fates)
    accepted, repeated = fates.pop(EventFate.ACCEPTED, 0), fates.pop(EventFate.REPEATED, 0)
    return JsonResponse(schemas.EventsResponse(accepted, repeated, fates.total(), dict(fates)), 202)


async def _check_token(service: Service, data: schemas.EventsRequest, token: str) -> None:
    """Check that a browser may report these events: of its impression, of an allowed kind, and not too many."""
    impression = data.events[0].impression
    signature, _, experiment = token.partition(".")
    is_valid = impression is not None and await service.tokens.accept(f"{impression}\0{experiment}", signature)
    for place, event in enumerate(data.events):
        if not is_valid or event.impression != impression:
            problem = "this token belongs to another impression, or its secret was rotated; request the list again"
            raise ApiError(403, "wrong_token", problem, f"events[{place}].impression")
    allowed = (await service.experiment(experiment)).settings.browser_events
    for place, event in enumerate(data.events):
        if event.kind not in allowed:
            problem = f"browsers may send {join_names(allowed)}; send {event.kind!r} with a key"
            raise ApiError(403, "wrong_kind", f"{problem}, or allow it: browser_events", f"events[{place}].kind")
    if not service.impressions.take(str(impression), len(data.events)):
        problem = f"more than {MAX_EVENTS:,} events of this impression in an hour; send them with a key"
        raise ApiError(429, "too_many", problem, headers={RETRY: "3600"})


def _to_event(service: Service, event: schemas.EventBody, now: int, place: int, scope: str | None) -> Event:
    if (event.impression is None) == (event.unit is None):
        problem = "an event belongs to an impression or to a unit; give one of the two"
        raise ApiError(422, "invalid", problem, f"events[{place}]")
    if event.rank is None and event.document is None:
        problem = "an event needs a document; give its rank in the shown list, or its id as document"
        raise ApiError(422, "invalid", problem, f"events[{place}]")
    if event.unit is not None and event.document is None:
        problem = "an event with a unit needs a document, because a rank is of one list; give its id as document"
        raise ApiError(422, "invalid", problem, f"events[{place}].document")
    return Event(
        id=event.event or new_id(),
        kind=event.kind,
        received=now,
        time=now if event.time is None else to_microseconds(event.time),
        impression=event.impression,
        unit=hash_if_secret(service, event.unit),
        rank=event.rank,
        document=event.document,
        dwell=event.dwell,
        value=event.value,
        scope=scope,
    )


def new_id() -> str:
    """A new id: the time in milliseconds and 80 random bits, as hexadecimal digits.

    Ids of one moment are near each other in the index of the store, which makes writes cheaper. Random bytes are read
    for a thousand ids at a time.
    """
    if not _ids:
        digits = os.urandom(10 * 1000).hex()
        _ids.extend(digits[place : place + 20] for place in range(0, len(digits), 20))
    return f"{time_ns() // 1_000_000:012x}{_ids.pop()}"


_ids: list[str] = []
os.register_at_fork(after_in_child=_ids.clear)


def to_microseconds(time: datetime) -> int:
    """Microseconds since 1970."""
    return round(time.timestamp() * 1e6)
