"""The two endpoints for search traffic: `interleave` mixes rankings into a list, `events` takes clicks."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from time import time_ns
from typing import Any

import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from interleaf.errors import StateError, listed
from interleaf.experiment import Experiment, Request, extended, show
from interleaf.experiment.assignment import OUTSIDE
from interleaf.experiment.serving import Noted, Shown, chance_key, unmixed
from interleaf.interleaving.rankings import collapse
from interleaf.server import schemas
from interleaf.server.auth import BROWSER
from interleaf.server.schemas import RETRY, ApiError, JsonResponse
from interleaf.server.service import MAX_EVENTS, SECOND, Service
from interleaf.store.codec import encoded_note
from interleaf.store.contract import ACCEPTED, REPEATED, RUNNING, AccessKey, Event, Impression, Stored
from interleaf.store.privacy import DROP, HASH, hash_unit

NO_TOKEN = (None, "", "None", "null", "undefined")  # as template engines write that there is none
AHEAD = 300 * SECOND  # how far a caller's clock may be ahead of ours
MAX_DOCUMENTS_IN_LOOP = 5000  # of all rankings of a request: drawing from so many takes some milliseconds
LATE = 300 * SECOND  # how long events may follow an impression that itself came late
_decode_interleave = schemas.decoder(schemas.Interleave)
_decode_events = schemas.decoder(schemas.Events)


async def interleave(service: Service, request: HttpRequest, body: bytes, who: AccessKey) -> Response:
    """Draw a list, store it, and answer with it."""
    asked = _decode_interleave(body)
    refuse_nulls(body, asked)
    stored = await service.experiment(request.path_params["name"])
    now = service.clock()
    time = _check_time(asked.time, now, "time")
    _check_state(stored, asked.time is not None, time)
    version = asked.version or stored.version
    if version not in stored.versions:
        raise ApiError(422, "invalid", f"the latest version is {stored.version}", "version")
    settings = stored.versions[version]
    wanted = _to_request(asked)
    if asked.page > 1:
        return await _further_page(service, stored, asked, wanted)
    shown = await _draw(settings, version, wanted)
    if not isinstance(shown.noted, Noted):
        service.metrics.count_impression(settings.name, shown.arm, None)
        return JsonResponse(schemas.Shown(None, shown.documents, shown.arm, version, None))
    until = time + settings.window
    closes = max(until, now + LATE) if asked.time else until
    extras = _collect_extras(service, settings, asked)
    impression = Impression(
        *(wanted.impression, settings.name, version, hash_if_secret(service, asked.unit), time, closes, {}, until),
        parts=encoded_note(shown.noted, **extras),
    )
    before = await service.write_queue.put(impression)
    service.metrics.count_impression(settings.name, shown.arm, extras.get("excluded"))
    if before is None:
        service.bots.came(settings, asked.unit)
        return JsonResponse(_shown(service, impression.id, settings.name, shown.documents, shown.arm, version), 201)
    if before["experiment"] != settings.name:
        raise ApiError(422, "invalid", "this impression id is another experiment's; give a fresh one", "impression")
    again = extended(before, 1)
    return JsonResponse(_shown(service, impression.id, settings.name, again.documents, again.arm, before["version"]))


def _to_request(asked: schemas.Interleave) -> Request:
    rankings = collapse(asked.rankings, asked.groups, (asked.fixed or {}).values()) if asked.groups else asked.rankings
    name = asked.impression or new_id()
    return Request(name, asked.unit, asked.query, rankings, asked.k, asked.page, asked.fixed or {})


async def _draw(settings: Experiment, version: int, wanted: Request) -> Shown:
    """The list of a request: drawn in a thread if that takes long, so that other requests do not wait for it."""
    documents = sum(len(ranking) for ranking in wanted.rankings.values() if ranking)
    if settings.chosen.method.depends_on_k or documents > MAX_DOCUMENTS_IN_LOOP:
        return await asyncio.to_thread(show, settings, version, wanted)
    return show(settings, version, wanted)


def _check_state(stored: Stored, late: bool, time: int) -> None:
    """Lists are drawn while an experiment runs; one that was drawn then may be reported later."""
    if late and stored.started is not None and stored.started - AHEAD <= time < (stored.stopped or time + 1):
        return
    if stored.state != RUNNING or late:
        when = " at that time" if late else ""
        raise StateError(
            f"the experiment is {stored.state}, and lists are composed while it is running{when}; "
            "show the control's list, or start an experiment"
        )


async def _further_page(service: Service, stored: Stored, asked: schemas.Interleave, wanted: Request) -> Response:
    """A page after the first: the rankings are those of the first page, and so is the impression."""
    name = asked.impression
    row = await asyncio.to_thread(service.store.row, name) if name is not None else None
    if name is None or row is None or row["experiment"] != stored.settings.name:
        return _unlogged_page(stored, wanted)
    if row["key"] is None:
        row = {**row, "key": chance_key(row["experiment"], row["version"], asked.unit or name, asked.query)}
    shown = extended(row, asked.page, asked.fixed, asked.groups)
    if shown.row is not None and shown.row["page"] > (row["page"] or 1):
        if shown.row["documents"][: len(row["documents"])] != row["documents"]:
            raise ApiError(422, "invalid", "give the unit and the query of the first page", "query")
        await asyncio.to_thread(service.store.extend, name, _as_kept(service, asked, row, shown.row))
    return JsonResponse(_shown(service, name, stored.settings.name, shown.documents, shown.arm, row["version"]))


def _unlogged_page(stored: Stored, wanted: Request) -> Response:
    """Whoever has no first page in the store, because the unit is outside, sees the control's list go on."""
    if not any(wanted.rankings.values()):
        problem = "no first page has this impression id; give it, or the rankings"
        raise ApiError(404, "unknown", problem, "impression")
    return JsonResponse(schemas.Shown(None, unmixed(stored.settings, wanted), OUTSIDE, stored.version, None))


def _as_kept(service: Service, asked: schemas.Interleave, row: Any, longer: dict[str, Any]) -> dict[str, Any]:
    """The longer row with the captions of its new documents, and without what is hidden."""
    if asked.captions:
        more = [asked.captions.get(document) for document in longer["documents"][len(row["documents"]) :]]
        longer["captions"] = [*(row["captions"] or [None] * len(row["documents"])), *msgspec.to_builtins(more)]
    return longer | {"key": None} if service.hides else longer


def _shown(service: Service, name: str, experiment: str, documents: list[str], arm: str, version: int) -> schemas.Shown:
    return schemas.Shown(name, documents, arm, version, _token(service, name, experiment))


def _collect_extras(service: Service, settings: Experiment, asked: schemas.Interleave) -> dict[str, Any]:
    """What is stored of a request besides the list."""
    kept: dict[str, Any] = {"attributes": asked.attributes, "captions": asked.captions}
    if asked.session is not None:
        kept["session"] = hash_if_secret(service, asked.session)
    if service.hides:
        kept["query"] = _query(service, asked.query)
        kept["key"] = None  # a digest of unit and query: who guesses them could check the guess
    if asked.latency:
        kept["latency"] = [asked.latency.get(ranker) for ranker in settings.rankers]
    rule = service.bots.rule(settings, asked.unit, asked.user_agent)
    if rule is not None:
        kept["excluded"] = rule
    return kept


def hash_if_secret(service: Service, unit: str | None) -> str | None:
    """A unit as it is stored: itself, or a hash that only who has the secret can make."""
    return None if unit is None else hash_unit(unit, service.settings.unit_secret)


def _query(service: Service, query: str | None) -> str | None:
    if query is None or service.settings.queries == DROP:
        return None
    if service.settings.queries == HASH:
        return hash_if_secret(service, query)
    return query


async def events(service: Service, request: HttpRequest, body: bytes, who: AccessKey) -> Response:
    """Store a batch of events; events that match no list are stored apart, and counted."""
    taken = _decode_events(body)
    refuse_nulls(body, taken)
    if taken.token not in NO_TOKEN:
        await _check_token(service, taken, str(taken.token))
    elif who is BROWSER:
        problem = "give a key, as the header Authorization: Bearer KEY, or a token"
        if taken.token is not None:
            problem += "; the token is empty: a list that was made while the service was away has none, so send its "
            problem += "events to your own server, which reports them with its key"
        raise ApiError(401, "no_key", problem)
    else:
        request.scope["head"].check_kind()
    return _count_fates(service, await service.write_queue.put_events(_to_events(service, taken, who.experiment)))


def _to_events(service: Service, taken: schemas.Events, scope: str | None) -> list[Event]:
    now = service.clock()
    return [_event(service, event, now, place, scope) for place, event in enumerate(taken.events)]


def _count_fates(service: Service, fates: Sequence[str]) -> Response:
    """The response to events: how many have which fate."""
    apart = Counter(fate for fate in fates if fate not in (ACCEPTED, REPEATED))
    accepted, repeated = fates.count(ACCEPTED), fates.count(REPEATED)
    service.metrics.count_events({ACCEPTED: accepted, REPEATED: repeated} | apart)
    return JsonResponse(schemas.Taken(accepted, repeated, apart.total(), dict(apart)), 202)


def _token(service: Service, impression: str, experiment: str) -> str:
    """What lets a browser report events of this impression; it names the experiment, whose settings hold for them."""
    return f"{service.tokens.sign(_signed_text(impression, experiment))}.{experiment}"


def _signed_text(impression: str, experiment: str) -> str:
    return f"{impression}\0{experiment}"


async def _check_token(service: Service, taken: schemas.Events, token: str) -> None:
    """Whether a browser may report these events: of its impression, of a kind that it may send, not too many."""
    impression = taken.events[0].impression
    signature, _, experiment = token.partition(".")
    is_valid = impression is not None and await service.tokens.accept(_signed_text(impression, experiment), signature)
    for place, event in enumerate(taken.events):
        if not is_valid or event.impression != impression:
            problem = "this token is of another impression, or its secret was rotated; ask for the list again"
            raise ApiError(403, "wrong_token", problem, f"events[{place}].impression")
    allowed = (await service.experiment(experiment)).settings.browser_events
    for place, event in enumerate(taken.events):
        if event.kind not in allowed:
            problem = (
                f"browsers may send {listed(allowed)}; send {event.kind!r} with a key, or allow it: browser_events"
            )
            raise ApiError(403, "wrong_kind", problem, f"events[{place}].kind")
    if not service.impressions.take(str(impression), len(taken.events)):
        problem = f"more than {MAX_EVENTS:,} events of this impression in an hour; send them with a key"
        raise ApiError(429, "too_many", problem, headers={RETRY: "3600"})


def _event(service: Service, event: schemas.Happened, now: int, place: int, scope: str | None) -> Event:
    if (event.impression is None) == (event.unit is None):
        problem = "an event is of an impression or of a unit; give one of the two"
        raise ApiError(422, "invalid", problem, f"events[{place}]")
    if event.rank is None and event.document is None:
        problem = "an event is on a document; give its rank in the shown list, or its id as document"
        raise ApiError(422, "invalid", problem, f"events[{place}]")
    if event.unit is not None and event.document is None:
        problem = "an event of a unit is on a document, whichever list it was in; give its id as document"
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
    """The time in milliseconds and 80 random bits, as hexadecimal digits: ids of one moment are near each other in a
    store's index, which is so written in few places. The system is asked for a thousand at a time.
    """
    if not _ids:
        drawn = os.urandom(10 * 1000).hex()
        _ids.extend(drawn[place : place + 20] for place in range(0, len(drawn), 20))
    return f"{time_ns() // 1_000_000:012x}{_ids.pop()}"


_ids: list[str] = []
os.register_at_fork(after_in_child=_ids.clear)


def to_microseconds(time: datetime) -> int:
    """Since 1970."""
    return round(time.timestamp() * 1e6)


def _check_time(time: datetime | None, now: int, field: str) -> int:
    if time is None:
        return now
    found = to_microseconds(time)
    if not 0 <= found <= now + AHEAD:
        raise ApiError(422, "invalid", f"{time.isoformat()} is in the future, or before 1970", field)
    return found


def refuse_nulls(body: bytes, asked: Any) -> None:
    """Databases and terminals stumble over the character NUL; no id has one."""
    if b"\\u0000" in body and (field := _null_field(msgspec.to_builtins(asked))) is not None:
        raise ApiError(422, "invalid", "the request holds the character NUL; leave it out", field or None)


def _null_field(value: Any, field: str = "") -> str | None:
    """The field that holds the character NUL, such as `events[3].unit`; None if there is none."""
    if isinstance(value, dict):
        if any(isinstance(key, str) and "\0" in key for key in value):
            return field
        places = ((f"{field}.{key}" if field else str(key), item) for key, item in value.items())
    elif isinstance(value, list):
        places = ((f"{field}[{index}]", item) for index, item in enumerate(value))
    else:
        return field if isinstance(value, str) and "\0" in value else None
    return next((found for place, item in places if (found := _null_field(item, place)) is not None), None)
