"""The ASGI application: API, dashboard and static files, over one store."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from interleaf.server import dashboard, openapi
from interleaf.server.auth import BROWSER, OPEN, check_scope
from interleaf.server.automation import Automation
from interleaf.server.connection import SERVICE
from interleaf.server.middleware import Middleware, read_body
from interleaf.server.openapi import CALLS, EITHER, EVENTS, PUBLIC, Call
from interleaf.server.process_tuning import tune_interpreter
from interleaf.server.rate_limits import network_of
from interleaf.server.schemas import RETRY, ApiError, JsonResponse
from interleaf.server.service import Clock, Service, ServiceSettings, log, monotonic, now
from interleaf.store.records import INGEST, READ, AccessKey
from interleaf.store.sql import SqlStore


def create_app(
    store: SqlStore, clock: Clock = now, settings: ServiceSettings | None = None, monotonic: Clock = monotonic
) -> Starlette:
    """The service over a store. `clock` returns microseconds since 1970, `monotonic` those of a monotonic clock."""
    service = Service(store, clock, settings or ServiceSettings(), monotonic)
    automation = Automation(service)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Service]]:
        await service.start()
        automation.start()
        if service.settings.own_process:  # nothing else runs here, so tune the interpreter for the service
            tune_interpreter()
        log.info("ready")
        yield {SERVICE: service}
        await automation.stop()
        await service.stop()
        log.info("stopped")

    routes = [Route(call.path, CallEndpoint(service, call), methods=[call.method]) for call in CALLS]
    routes.append(Route("/openapi.json", lambda request: JsonResponse(openapi.description()), methods=["GET"]))
    app = Starlette(routes=routes + dashboard.routes(service), lifespan=lifespan)
    app.state.service, app.state.automation = service, automation
    app.router.redirect_slashes = False  # a redirect would go to the host that the request names
    app.middleware_stack = Middleware(app.router, service)  # replaces Starlette's three layers
    return app


class CallEndpoint:
    """An API call as an ASGI application: it checks the key, reads the body and runs the call."""

    def __init__(self, service: Service, call: Call) -> None:
        self._service, self._call = service, call
        self._has_body = call.method in ("POST", "PUT")
        self._changes = call.method != "GET" and call.path != EVENTS
        self._is_json = call.takes is not None and call.path != EVENTS  # browsers send events as text/plain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service, call, head = self._service, self._call, scope["head"]
        head.route = call.path
        try:
            key = OPEN if call.role == PUBLIC else await self._check_key(head.key, scope)
            if key.experiment is not None and not call.narrows:
                check_scope(key, scope["path_params"].get("name"))
            if self._changes and key is OPEN and not head.is_own_origin:  # a user's browser may send it unnoticed
                problem = "this request comes from a page of another site; that is not allowed without keys"
                raise ApiError(403, "cross_site", problem)
            if self._is_json:
                head.check_kind()
            body = await read_body(head, receive, service.settings.max_body) if self._has_body else b""
            response = await call.run(service, Request(scope, receive), body, key)
        except ClientDisconnect:
            response = Response(status_code=400)
        await response(scope, receive, send)

    async def _check_key(self, secret: str | None, scope: Scope) -> AccessKey:
        """Return the key of a request if its role allows the call. Browsers send events with a token, without a key."""
        service, call = self._service, self._call
        role = call.role
        if secret is None and call.path == EVENTS and not await service.access.is_open():
            address = network_of(scope["client"][0] if scope.get("client") else "unknown")
            if not service.addresses.take(address):
                limit = f"{service.settings.browser_requests_per_second:g} requests per second without a key"
                message = f"{address} is above the rate limit of {limit}; slow down"
                raise ApiError(429, "too_many", message, headers={RETRY: "1"})
            return BROWSER
        if role == EITHER:
            key = await service.access.find_key(secret) if secret is not None else None
            role = INGEST if key is not None and key.role == INGEST else READ
        return await service.access.check_key(secret, role, call.during_outage)
