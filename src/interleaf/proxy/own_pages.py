"""The proxy's own addresses, below /_interleaf/: health, metrics, the script for result pages, events and links."""

from __future__ import annotations

from functools import cached_property
from importlib.resources import files
from typing import Any

import msgspec
from starlette.responses import RedirectResponse, Response

from interleaf.proxy.click_links import CLICK, read_link
from interleaf.proxy.codes import BypassError
from interleaf.proxy.config import ProxyConfig
from interleaf.proxy.event_sources import EventSources
from interleaf.proxy.passthrough import BodyReader
from interleaf.proxy.search_requests import Incoming
from interleaf.server.schemas import ApiError, JsonResponse, error_response

PREFIX = "/_interleaf/"
MAX_EVENTS_BODY = 100_000  # bytes
_SERVICE_EVENTS, _OWN_EVENTS = b'"/v1/events"', b'"/_interleaf/events"'  # where the script sends events
_SAFE = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}

_SCRIPT = {"Cache-Control": "public, max-age=3600", "Access-Control-Allow-Origin": "*"}


class OwnPages:
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
