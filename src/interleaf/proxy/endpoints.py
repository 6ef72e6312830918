"""The proxy's own addresses, below /_interleaf/: health, metrics, the script for result pages, events and links.

Events also come as UBI records, in requests to the engine that pass through.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from importlib.resources import files
from typing import Any

import msgspec
from starlette.responses import RedirectResponse, Response

from interleaf.errors import join_names
from interleaf.proxy.codes import BypassError
from interleaf.proxy.config import ProxyConfig
from interleaf.proxy.monitoring import ProxyMetrics
from interleaf.proxy.passthrough import BodyReader
from interleaf.proxy.recorders import Recorder
from interleaf.proxy.search import ServedLists
from interleaf.proxy.search_requests import Incoming
from interleaf.proxy.tokens import CLICK, Signer, read_link
from interleaf.server.rate_limits import Rates
from interleaf.server.schemas import RETRY, ApiError, EventBody, EventsRequest, JsonResponse, decoder, error_response

MAX_EVENTS = 1000  # of an impression in an hour, from browsers
BROWSER, LINK, UBI = "browser", "link", "ubi"  # where an event comes from
TAKEN, IGNORED, UNMATCHED = "taken", "ignored", "unmatched"
_decode_events = decoder(EventsRequest)
BULK = "/_bulk"
PREFIX = "/_interleaf/"
MAX_EVENTS_BODY = 100_000  # bytes
_SERVICE_EVENTS, _OWN_EVENTS = b'"/v1/events"', b'"/_interleaf/events"'  # where the script sends events
_SAFE = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
_SCRIPT = {"Cache-Control": "public, max-age=3600", "Access-Control-Allow-Origin": "*"}


@dataclass
class EventSources:
    """Checks events, and hands them to the recorder."""

    metrics: ProxyMetrics
    recorder: Recorder
    lists: ServedLists
    signer: Signer
    ubi_index: str

    def __post_init__(self) -> None:
        self._rates = Rates(MAX_EVENTS / 3600, MAX_EVENTS)
        index = re.escape(self.ubi_index)
        pattern = rf"/{index}/(_doc|_create|_bulk)(/[^/]*)?|/_bulk" if self.ubi_index else "(?!)"
        self.is_ubi = re.compile(pattern).fullmatch

    def take_browser_events(self, body: bytes) -> int:
        """Take the events of one impression with its token, as the service does; returns how many."""
        data = _decode_events(body)
        impression = data.events[0].impression
        token = data.token or ""
        if impression is None or not self.signer.is_valid(token, "token", impression):
            raise ApiError(403, "wrong_token", "this token belongs to another impression, or the proxy was restarted")
        running = self.recorder.running()
        allowed = running.settings.browser_events if running else ()
        for event in data.events:
            if event.impression != impression or event.rank is None:
                raise ApiError(403, "wrong_token", "give the rank of each event, and the impression of the token")
            if event.kind not in allowed:
                raise ApiError(403, "wrong_kind", f"browsers may send {join_names(allowed)}; allow it: browser_events")
        if not self._rates.take(impression, len(data.events)):
            problem = f"more than {MAX_EVENTS:,} events of this impression in an hour"
            raise ApiError(429, "too_many", problem, headers={RETRY: "3600"})
        for event in data.events:
            self._take(BROWSER, _plain(event))
        return len(data.events)

    def take_click(self, impression: str, rank: int) -> None:
        """Take a click on a link."""
        if self._rates.take(impression):
            self._take(LINK, {"impression": impression, "rank": rank, "kind": "click"})

    def take_ubi(self, path: str, body: bytes, answer: bytes) -> bool:
        """Take the events of UBI records that the engine has stored; False if it does not say which these are."""
        running = self.recorder.running()
        kinds = running.settings.events if running else {}
        records = read_records(path, body, answer, self.ubi_index)
        for record in records or ():
            if isinstance(record, dict) and "action_name" in record:
                self._take_record(record, kinds)
        return records is not None

    def _take_record(self, record: dict[str, Any], kinds: Container[str]) -> None:
        kind, query_id = record["action_name"], record.get("query_id")
        if not isinstance(query_id, str) or not isinstance(kind, str) or kind not in kinds:
            self.metrics.count_event(UBI, IGNORED)
            return
        served = self.lists.find(f"query {query_id}")
        rank = None if served is None else _find_rank(record.get("event_attributes"), served.documents)
        if served is None or rank is None:
            self.metrics.count_event(UBI, UNMATCHED)
            return
        name = blake2b(msgspec.json.encode(record), digest_size=16).hexdigest()  # a record sent twice counts once
        self._take(UBI, {"impression": served.impression, "rank": rank, "kind": kind, "event": name})

    def may_have_ubi(self, incoming: Incoming, start: bytes) -> bool:
        """Whether a request to write documents may have records of UBI, by its path and the start of its body."""
        index = self.ubi_index.encode()
        return bool(incoming.header(b"content-encoding")) or index in incoming.path.encode("latin-1") + start

    def _take(self, source: str, event: Mapping[str, Any]) -> None:
        """Hand over an event, unless its rank is beyond the list: there, results belong to no ranker."""
        served = self.lists.find(event["impression"])
        if served is not None and event["rank"] > len(served.documents):
            self.metrics.count_event(source, UNMATCHED)
            return
        self.metrics.count_event(source, TAKEN)
        self.recorder.record_event(event)


def _plain(event: EventBody) -> dict[str, Any]:
    fields = ("event", "impression", "rank", "kind", "dwell", "value")
    return {name: value for name in fields if (value := getattr(event, name)) is not None}


def _find_rank(attributes: Any, documents: list[str]) -> int | None:
    """The rank of the document of an event; of its position if it has no document of the list."""
    if not isinstance(attributes, dict):
        return None
    item, position = attributes.get("object"), attributes.get("position")
    name = item.get("object_id") if isinstance(item, dict) else None
    if name is not None and str(name) in documents:
        return documents.index(str(name)) + 1
    ordinal = position.get("ordinal") if isinstance(position, dict) else None
    is_rank = isinstance(ordinal, int) and not isinstance(ordinal, bool) and 1 <= ordinal <= len(documents)
    return ordinal if is_rank and name is None else None


def read_records(path: str, body: bytes, answer: bytes, index: str) -> list[Any] | None:
    """The records that the engine has stored in this index; None if its answer does not say which these are.

    >>> body = b'{"index":{"_index":"ubi"}}\\n{"n":1}\\n{"index":{"_index":"other"}}\\n{"n":2}\\n'
    >>> read_records("/_bulk", body, b'{"errors":false}', "ubi")
    [{'n': 1}]
    """
    own = path.partition(BULK)[0].strip("/") if BULK in path else None
    if own is None:  # one document
        return [_decode(body)]
    items = list(_read_items(body, own))
    stored = _read_stored(answer, len(items))
    if stored is None:
        return None
    return [record for (name, record), is_stored in zip(items, stored, strict=True) if is_stored and name == index]


def _read_items(body: bytes, default: str) -> Iterator[tuple[str | None, Any]]:
    """The index and the document of each action of a bulk request; no index if it writes no new document."""
    lines = iter(body.split(b"\n"))
    for line in lines:
        action = _decode(line)
        if not isinstance(action, dict) or len(action) != 1:
            continue  # such as an empty line; the engine refuses others
        ((kind, about),) = action.items()
        document = None if kind == "delete" else _decode(next(lines, b""))
        is_new = kind in ("index", "create") and isinstance(about, dict)
        yield (about.get("_index", default) if is_new else None), document


def _read_stored(answer: bytes, count: int) -> list[bool] | None:
    """Whether each item was stored, as the answer to a bulk request says."""
    data = _decode(answer)
    if not isinstance(data, dict):
        return None
    if data.get("errors") is False:
        return [True] * count
    try:
        stored = [200 <= about["status"] < 300 for item in data["items"] for about in item.values()]
    except (KeyError, TypeError, AttributeError):
        return None
    return stored if len(stored) == count else None


def _decode(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class Endpoints:
    """Answers requests to the proxy itself."""

    def __init__(self, config: ProxyConfig, events: EventSources) -> None:
        self._config, self._events = config, events

    async def answer(self, incoming: Incoming, body: BodyReader) -> Response:
        """The response to a request."""
        page, is_read = incoming.path.removeprefix(PREFIX), incoming.method in (b"GET", b"HEAD")
        try:
            match page:
                case "health" if is_read:
                    return self._answer_health()
                case "metrics" if is_read:
                    return Response(self._events.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
                case "interleaf.js" if is_read:
                    return Response(self._script, media_type="text/javascript; charset=utf-8", headers=_SCRIPT)
                case "click" if is_read:
                    return self._follow_link(incoming)
                case "events" if incoming.method == b"POST":
                    return await self._take_events(body)
        except (ApiError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            return error_response(problem)
        except BypassError as problem:
            return error_response(ApiError(400, problem.code.value, problem.code.text))
        return error_response(ApiError(404, "unknown", "there is nothing at this address of the proxy"))

    @cached_property
    def _script(self) -> bytes:
        """The service's script for result pages; it sends events to the proxy."""
        text = files("interleaf.server").joinpath("static", "interleaf.js").read_bytes()
        return text.replace(_SERVICE_EVENTS, _OWN_EVENTS)

    async def _take_events(self, body: BodyReader) -> Response:
        data = await body.read(MAX_EVENTS_BODY)
        if data is None:
            raise ApiError(413, "too_large", f"the body is too large; send at most {MAX_EVENTS_BODY:,} bytes")
        return JsonResponse({"taken": self._events.take_browser_events(data)}, 202)

    def _follow_link(self, incoming: Incoming) -> Response:
        """Count the click, and redirect. Programs that only look where a link leads are not counted."""
        target = read_link(self._events.signer, dict(incoming.parameters))
        if target is None:
            raise ApiError(403, "wrong_link", f"this proxy did not make this link; take it from the answer ({CLICK})")
        purpose = incoming.header(b"sec-purpose") + incoming.header(b"purpose")
        if incoming.method == b"GET" and "prefetch" not in purpose:
            self._events.take_click(target.impression, target.rank)
        return RedirectResponse(target.url, 302, headers={"Cache-Control": "no-store"})  # shops read the referrer

    def _answer_health(self) -> Response:
        counts = self._events.metrics
        recording = self._events.recorder.status()
        data: dict[str, Any] = {
            "status": "not running" if self._events.recorder.running() is None else "running",
            "experiment": self._config.experiment.name,
            "recording": recording,
            "lists": dict(counts.lists),
            "bypassed": dict(counts.bypassed),
            "failures": dict(counts.failures),
            "latest": dict(counts.latest),
            "events": dict(counts.events),
        }
        return JsonResponse(data, headers=_SAFE)
