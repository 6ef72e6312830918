"""The middleware around the router, and the checks of headers and bodies."""

from __future__ import annotations

import time
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route, Router
from starlette.types import Message, Receive, Scope, Send

from interleaf.server.schemas import ApiError, error_response
from interleaf.server.service import Service, log

HEADERS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]


class Head:
    """The headers of a request; `route` is the path pattern that it matched, for the metrics."""

    __slots__ = ("headers", "route")

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self.headers, self.route = dict(headers), "other"

    def get(self, name: bytes) -> str:
        """The value of a header without the space around it; the name is in lower case."""
        value = self.headers.get(name)
        return "" if value is None else value.decode("latin-1").strip(" \t")

    @property
    def key(self) -> str | None:
        """The key that the request carries."""
        scheme, _, key = self.get(b"authorization").partition(" ")
        return key.strip() if scheme.lower() == "bearer" else None

    @property
    def is_own_origin(self) -> bool:
        """Whether the request comes from a page of this service, or not from a page at all."""
        origin = self.get(b"origin")
        try:
            return not origin or urlsplit(origin).netloc == self.get(b"host")
        except ValueError:  # not a URL
            return False

    def check_kind(self) -> None:
        """Refuse a body that is not declared as JSON: HTML forms of other sites cannot send JSON."""
        if (
            self.headers.get(b"content-type") != b"application/json"  # as most clients write it
            and self.get(b"content-type").partition(";")[0].strip().lower() != "application/json"
        ):
            raise ApiError(415, "not_json", "give the body as JSON, with the header Content-Type: application/json")


class Middleware:
    """The one ASGI layer around the router: it checks the host, turns errors into responses, and counts requests."""

    def __init__(self, router: Router, service: Service) -> None:
        self._router, self._service = router, service
        self._has_warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        began, head, status = time.perf_counter(), Head(scope["headers"]), 0
        scope["head"] = head
        if b"x-forwarded-for" in head.headers and not self._has_warned:
            self._warn_about_proxy(scope, head)

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] += HEADERS
            await send(message)

        try:
            is_elsewhere = self._service.settings.loopback_only and not is_loopback(head.get(b"host"))
            if is_elsewhere and await self._service.access.is_open(True):
                message = "without keys this service answers to 127.0.0.1 and localhost only; make keys first"
                raise ApiError(403, "wrong_host", message)
            await self._router.app(scope, receive, send_and_note)
        except Exception as error:
            if status:  # the response has started, so the connection must be closed
                raise
            response = error_response(self._name_allowed(error, scope), head.route)
            await response(scope, receive, send_and_note)
        self._service.metrics.count_request(head.route, status, time.perf_counter() - began)

    def _name_allowed(self, error: Exception, scope: Scope) -> Exception:
        """Add the allowed methods, or a pointer to the list of URLs, to an error of the router."""
        if not isinstance(error, HTTPException):
            return error
        if error.status_code == 404:
            return ApiError(404, "unknown", "there is nothing at this address; /openapi.json lists what there is")
        routes = [route for route in self._router.routes if isinstance(route, Route)]
        here = [route.methods or set() for route in routes if route.matches(scope)[0] is not Match.NONE]
        allowed = ", ".join(sorted(set[str]().union(*here)))
        problem = f"{scope['method']} is not possible here; give {allowed}"
        return ApiError(405, "wrong_method", problem, headers={"Allow": allowed})

    def _warn_about_proxy(self, scope: Scope, head: Head) -> None:
        """Warn once if X-Forwarded-For is ignored. For a trusted proxy, uvicorn has applied it already."""
        forwarded, client = head.get(b"x-forwarded-for"), scope.get("client")
        if forwarded and client and client[0] not in forwarded:
            self._has_warned = True
            remedy = f"give --trusted-proxies {client[0]}; else all its clients share a rate limit"
            log.warning("X-Forwarded-For of %s is ignored; if this is your proxy, %s", client[0], remedy)


def is_loopback(host: str) -> bool:
    """Whether a Host header names this machine as localhost; other DNS names that point here do not count."""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    return name in ("127.0.0.1", "localhost", "[::1]")


async def read_body(head: Head, receive: Receive, max_body: int) -> bytes:
    """Read the body of a request; 413 as soon as its Content-Length or what was read is above the limit."""
    length, body, is_complete = head.get(b"content-length") or "0", b"", False
    is_too_large = not length.isdecimal() or int(length) > max_body
    while not is_too_large and not is_complete:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        is_too_large, is_complete = len(body) > max_body, not message.get("more_body", False)
    if is_too_large:
        raise ApiError(413, "too_large", f"the body is too large; send at most {max_body:,} bytes")
    return body
