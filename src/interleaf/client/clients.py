"""`Client` for threads and `AsyncClient` for event loops."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
import secrets
import ssl
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from urllib.parse import quote
from weakref import WeakSet

from interleaf.client.connections import AwayError, Connections, Reply
from interleaf.client.delivery_thread import EVENTS, LISTED, MAX_EVENTS, TAKEN, DeliveryThread, LatencyBreaker
from interleaf.client.fallback import (
    Answer,
    EventCounts,
    KnownExperiment,
    KnownExperiments,
    RankerChoice,
    Status,
    compose,
)
from interleaf.client.spool import FolderSpool, MemorySpool, Spool
from interleaf.client.visitors import Visitors, whole
from interleaf.errors import ClientError, ExperimentError
from interleaf.experiment import Request, limits
from interleaf.interleaving.rankings import collapse, text_id, text_rankings
from interleaf.log.schema import FALLBACK

Rankings = Mapping[str, Sequence[str | int] | None]
# Fields whose values come from visitors or from documents. If the service refuses one, the control is shown.
FROM_VISITORS = {
    *("unit", "query", "session", "k", "page", "attributes", "captions", "characters", "impression", "user_agent")
}
WARN_AGAIN = 60.0  # seconds after which a refusal is logged again
CHOSEN = ("rankers", "arm", "version", "epoch")  # fields of the answer
log = logging.getLogger("interleaf.client")
BEGAN: ContextVar[float | None] = ContextVar("BEGAN", default=None)  # when the caller started to wait for this thread


class Client:
    """Requests lists from a service and reports events to it. Thread-safe; use one per process.

    If the service does not answer within `timeout` seconds, this process composes the list as the service would, and
    spools the record: in the folder `spool`, or in memory, at most `max_spooled` records. A thread delivers spooled
    records, with their original times, when the service is back. Until then, no call waits for the service.
    Only wrong arguments of the caller raise `ClientError`, with the service's message. Values from visitors never
    raise: those that the service would refuse are cleaned or dropped, and counted.

    `timeout` covers the whole call, with DNS, TCP and TLS. With `slow=(0.5, 20)`, the service also counts as away if
    more than half of the last 20 answers took longer than 0.5 of `timeout`. The thread tries it again after
    `backoff[1]` seconds, and calls wait for it again when it answers quickly. None: only failures count.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 1.0,
        spool: str | Path | None = None,
        max_spooled: int = 100_000,
        refresh: float = 60.0,
        backoff: tuple[float, float] = (0.5, 15.0),
        slow: tuple[float, int] | None = (0.5, 20),
        context: ssl.SSLContext | None = None,
    ) -> None:
        folder = None if spool is None else Path(spool)
        self._connections = Connections(url, key, timeout, context)
        self._spool: Spool = MemorySpool(max_spooled) if folder is None else FolderSpool(folder, max_spooled)
        self._known, self._visitors = KnownExperiments(folder), Visitors()
        breaker = LatencyBreaker.of(slow, timeout)
        self._delivery = DeliveryThread(self._connections, self._spool, self._known, refresh, backoff, breaker)
        self._timeout, self._is_closed, self._has_worked = timeout, False, False
        self._warned: dict[tuple[str, str, int], float] = {}  # when refusals were logged last
        if not self._spool.is_empty():  # records of an earlier process
            self._delivery.wake()
        _OPEN.add(self)

    def interleave(
        self,
        experiment: str,
        rankings: Rankings,
        *,
        unit: str | None = None,
        query: str | None = None,
        session: str | None = None,
        k: int | None = None,
        page: int = 1,
        attributes: Mapping[str, str] | None = None,
        captions: Mapping[str, Mapping[str, Any]] | None = None,
        characters: Mapping[str, int] | None = None,
        impression: str | None = None,
        fixed: Mapping[int, str | int] | None = None,
        groups: Mapping[str | int, str | int] | None = None,
        latency: Mapping[str, float] | None = None,
        user_agent: str | None = None,
    ) -> Answer:
        """The list to show for the rankings of one query; None stands for a ranking that failed, [] for an empty one.

        For a `page` after the first, pass the `impression` of the first. `fixed` are documents at fixed ranks, such as
        ads; they belong to no ranker. `groups` maps documents to groups, such as variants of a product: a list shows
        one document of each group, and none of a group with a fixed document.
        `characters` are the lengths of texts by document. Document ids are texts or whole numbers; the answer has them
        as texts.
        """
        self._check_open()
        visitors = self._visitors
        name = visitors.id("impression", impression) or secrets.token_hex(16)
        unit, query = visitors.id("unit", unit), visitors.text("query", query, limits.MAX_QUERY)
        k, page = visitors.k(k), visitors.page(page)
        texts, places = text_rankings(rankings), _text_by_rank(fixed or {})
        if groups:
            texts = collapse(texts, groups, places.values())
        request = Request(name, unit, query, texts, k, page, places)
        optional = {
            **{"unit": unit, "query": query, "k": k, "latency": latency},
            "session": visitors.id("session", session),
            "attributes": visitors.attributes(attributes),
            "captions": visitors.captions(captions),
            "characters": visitors.characters(characters),
            "fixed": places or None,
            "groups": groups if page > 1 and places else None,  # further pages use the rankings of the first
            "user_agent": visitors.text("user_agent", user_agent, limits.MAX_USER_AGENT),
        }
        body: dict[str, Any] = {"impression": name, "rankings": texts, "page": page}
        body |= {field: value for field, value in optional.items() if value is not None}
        if self._known.want(experiment):
            self._delivery.wake(soon=True)
        if page > limits.MAX_PAGE:
            visitors.note("page", f"is above {limits.MAX_PAGE}, and shows the control")
            return self._compose(experiment, request, body, is_running=False)
        try:
            reply = self._post(f"/v1/experiments/{quote(experiment, safe='')}/interleave", body, LISTED)
        except AwayError:
            return self._compose(experiment, request, body)
        if reply.is_success:
            return self._read_answer(experiment, reply)
        return self._handle_refusal(experiment, request, body, reply)

    def choose(self, experiment: str, *, unit: str | None, control: str) -> RankerChoice:
        """The rankers to run for a user now, so that with 40 rankers not all 40 have to run for each search.

        Then call `interleave` with the rankings of these rankers and the same `unit`. If the service is away, or the
        experiment is not running, it is the control: that of the settings, or else the given one.
        """
        self._check_open()
        settings = self._known.get(experiment)
        alone = RankerChoice((control if settings is None else settings.settings.control,), FALLBACK)
        if self._known.want(experiment):
            self._delivery.wake(soon=True)
        user = self._visitors.id("unit", unit)
        if user is None:
            return alone
        try:
            reply = self._post(f"/v1/experiments/{quote(experiment, safe='')}/choose", {"unit": user}, CHOSEN)
        except AwayError:
            return alone
        if reply.is_success:
            data = reply.data
            return RankerChoice(tuple(data["rankers"]), data["arm"], data["version"], data["epoch"])
        if reply.is_key_rejected and settings is not None:
            self._delivery.miss(reply.error)
        elif reply.status not in (409, 422) and settings is None:
            raise reply.error
        self._warn(experiment, "the control is run", reply)
        return alone

    def click(self, impression: str | None, rank: int, dwell: float | None = None) -> EventCounts:
        """Report a click at a rank of a shown list. `impression` is None for a list that is not logged."""
        return self.events([{"impression": impression, "rank": rank, "kind": "click", "dwell": dwell}])

    def events(self, events: Iterable[Mapping[str, Any]]) -> EventCounts:
        """Report events. Each has `impression` or `unit`, `rank` or `document`, and `kind`; optional: `time`, `dwell`,
        `value`, and its own id as `event`. Events whose `impression` is None are ignored: their list is not logged.
        """
        self._check_open()
        many = events if isinstance(events, Iterable) and not isinstance(events, (str, bytes, Mapping)) else [events]
        logged = [one for one in many if not _is_unlogged(one)]
        usable = [event for event in map(self._visitors.event, logged) if event is not None]
        counts, deadline = EventCounts(unusable=len(logged) - len(usable)), _since() + self._timeout
        for start in range(0, len(usable), MAX_EVENTS):
            counts += self._send_events(usable[start : start + MAX_EVENTS], deadline)
        return counts

    def call(self, method: str, path: str, body: Any = None, *, timeout: float = 60.0) -> dict[str, Any]:
        """Make any other call of the API, such as `call("POST", "/v1/experiments/shoes/start")`. For scripts: it raises
        if the service does not answer.
        """
        self._check_open()
        try:
            deadline = _since() + timeout
            reply = self._connections.ask(method, path, None if body is None else _encode(body), (), deadline)
        except AwayError as problem:
            raise ClientError(f"the service is away: {problem}") from None
        if not reply.is_success:
            raise reply.error
        return reply.data

    def find_experiment(self, experiment: str) -> KnownExperiment | None:
        """The settings of an experiment as the service last described them, without waiting for it."""
        if self._known.want(experiment):
            self._delivery.wake(soon=True)
        return self._known.get(experiment)

    def deliver(self, experiment: str, body: Mapping[str, Any]) -> bool:
        """Spool an impression that this process composed, as the API takes it; False if the spool is full.

        Give it its `time` and `version`: the service composes the list again.
        """
        self._check_open()
        return self._put(experiment, dict(body))

    def status(self) -> Status:
        """Whether the service is away, and what waits for it."""
        delivery, spool = self._delivery, self._spool
        counts = delivery.refused, self._visitors.cleaned, delivery.quarantined
        return Status(delivery.away or delivery.is_failing, len(spool.names()), spool.dropped, *counts)

    def close(self) -> None:
        """Deliver what can be delivered now, and stop. The next process delivers what stays in a spool folder."""
        if self._is_closed:
            return
        self._is_closed = True
        self._delivery.close(5 * self._timeout)
        self._connections.close()
        if isinstance(self._spool, MemorySpool) and not self._spool.is_empty():
            log.warning("%d records were never delivered; give the client a spool folder", len(self._spool.names()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientError("this client is closed; make another")

    def _post(self, path: str, body: dict[str, Any], fields: Iterable[str], deadline: float | None = None) -> Reply:
        since = _since()
        return self._delivery.post(path, _encode(body), fields, since, deadline or since + self._timeout)

    def _read_answer(self, experiment: str, reply: Reply) -> Answer:
        data = reply.data
        self._has_worked = True
        settings = self._known.get(experiment)
        if settings is None or settings.version != data["version"]:
            self._delivery.wake(soon=True)
        name = data["impression"]
        return Answer(name, data["documents"], data["arm"], data["token"], data["version"], name is not None)

    def _compose(self, experiment: str, request: Request, body: dict[str, Any], *, is_running: bool = True) -> Answer:
        settings = self._known.get(experiment)
        try:
            answer, is_logged = compose(settings, request, is_running=is_running)
        except ExperimentError as error:
            if error.field not in FROM_VISITORS:
                raise
            self._visitors.note(error.field, f"cannot be used, so the control is shown: {error.remedy}")
            answer, is_logged = compose(settings, request, is_running=False)
        if is_logged:
            # The service composes the list again, with this time and version.
            self._put(experiment, body | {"time": _now(), "version": answer.version})
        return answer

    def _handle_refusal(self, experiment: str, request: Request, body: dict[str, Any], reply: Reply) -> Answer:
        """Raise errors of the caller. Values of visitors, and changes in the service, must not break a search."""
        error, settings, is_running = reply.error, self._known.get(experiment), False
        field = re.split(r"[.\[]", error.field or "")[0]
        if reply.status == 422 and field in FROM_VISITORS:
            self._visitors.note(field, f"was refused, so the control is shown: {error}")
        elif reply.status == 409:  # a draft, or stopped
            try:
                if settings is None:
                    self._delivery.learn(experiment)
            except AwayError:
                self._warn(experiment, "its control is not known yet, so the first ranking is shown", reply)
        elif reply.status == 404 and error.field == "impression":  # the first page may still be in the spool
            is_running = True
        elif settings is None:
            raise error
        elif reply.is_key_rejected:
            self._delivery.miss(error)
            is_running = True
        elif reply.is_out_of_scope:
            self._delivery.note_out_of_scope(f"experiment {experiment!r} shows the control", error)
        elif reply.status == 404:
            self._warn(experiment, "the control is shown", reply)
        else:
            raise error
        return self._compose(experiment, request, body, is_running=is_running)

    def _warn(self, experiment: str, what: str, reply: Reply) -> None:
        """Log why a request was refused, once a minute for each experiment and reason: searches are many."""
        about, now = (experiment, what, reply.status), time.monotonic()
        if now >= self._warned.get(about, -math.inf) + WARN_AGAIN:
            self._warned[about] = now
            log.warning("experiment %r: %s (logged once a minute): %s", experiment, what, reply.error)

    def _send_events(self, events: list[dict[str, Any]], deadline: float) -> EventCounts:
        """Send events. Spool them if time is over, or if earlier records, perhaps their impressions, are spooled."""
        try:
            if not self._spool.is_empty() or time.monotonic() >= deadline:
                return self._spool_events(events)
            reply = self._post(EVENTS, {"events": events}, TAKEN, deadline)
        except AwayError:
            return self._spool_events(events)
        if reply.is_success:
            self._has_worked = True
            data = reply.data
            return EventCounts(data["accepted"], data["repeated"], data["unmatched"])
        if reply.is_key_rejected and self._has_worked:
            self._delivery.miss(reply.error)
            return self._spool_events(events)
        if reply.status != 422:
            raise reply.error
        if len(events) > 1:  # a refused event must not block the others
            return sum((self._send_events([event], deadline) for event in events), EventCounts())
        self._visitors.note("an event", f"was refused: {reply.error}")
        return EventCounts(unusable=1)

    def _spool_events(self, events: list[dict[str, Any]]) -> EventCounts:
        now = _now()
        is_spooled = self._put(None, {"events": [{"time": now} | event for event in events]})
        return EventCounts(spooled=len(events) if is_spooled else 0)

    def _put(self, experiment: str | None, body: dict[str, Any]) -> bool:
        is_spooled = self._spool.put(_encode({"experiment": experiment, "body": body}))
        if not is_spooled and self._spool.dropped == 1:
            log.error("records are dropped from now on: %s", self._spool.problem)
        self._delivery.wake()
        return is_spooled


_OPEN: WeakSet[Client] = WeakSet()


def _forget_all() -> None:
    """Start again in the child of a fork, where the parent's threads do not run."""
    for client in _OPEN:
        client._connections.forget()
        client._spool.forget()
        client._delivery.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _text_by_rank(fixed: Mapping[int, str | int]) -> dict[int, str]:
    """Fixed documents by rank, with ids as text."""
    places = dict[int, str]()
    for rank, document in fixed.items():
        place, text = whole(rank), text_id(document)
        if place is None or not 1 <= place <= limits.MAX_FIXED or not text:
            problem = f"give a rank from 1 to {limits.MAX_FIXED}, and the id of a document as text or whole number"
            raise ClientError(f"fixed holds {document!r:.100} at rank {rank!r:.100}; {problem}")
        places[place] = text
    return places


def _is_unlogged(event: Any) -> bool:
    """Whether an event belongs to a list that is not logged."""
    return isinstance(event, Mapping) and event.get("impression", "") is None and event.get("unit") is None


def _since() -> float:
    return BEGAN.get() or time.monotonic()


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _encode(body: Any) -> bytes:
    try:
        return json.dumps(body, default=_plain, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        raise ClientError(f"the request cannot be written as JSON: {problem}") from None


def _plain(value: Any) -> Any:
    """Times, sequences and mappings as types that JSON can hold."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return list(value)
    raise TypeError(f"{type(value).__name__} {value!r:.100} cannot be written as JSON")


_P = ParamSpec("_P")
_R = TypeVar("_R")


def _run_in_thread(
    method: Callable[Concatenate[Client, _P], _R],
) -> Callable[Concatenate[AsyncClient, _P], Coroutine[Any, Any, _R]]:
    """A method of `Client` as a coroutine, which runs it in a thread."""

    @wraps(method)
    async def run(self: AsyncClient, /, *arguments: _P.args, **options: _P.kwargs) -> _R:
        began = time.monotonic()

        def call() -> _R:
            BEGAN.set(began)
            return method(self._client, *arguments, **options)

        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    return run


class AsyncClient:
    """`Client` with coroutines: the same arguments, and `threads`, the maximum number of concurrent requests."""

    def __init__(self, url: str, key: str | None = None, *, threads: int = 32, **options: Any) -> None:
        self._client = Client(url, key, **options)
        self._threads = ThreadPoolExecutor(threads, "interleaf-client")

    interleave = _run_in_thread(Client.interleave)
    choose = _run_in_thread(Client.choose)
    click = _run_in_thread(Client.click)
    events = _run_in_thread(Client.events)
    call = _run_in_thread(Client.call)
    status = _run_in_thread(Client.status)
    _close = _run_in_thread(Client.close)

    async def close(self) -> None:
        """As `Client.close`."""
        await self._close()
        self._threads.shutdown()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self.close()
