"""The application: calls, dashboard and files, over one store."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import AsyncIterator, Mapping
from functools import lru_cache

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from interleaf.serve import dashboard, openapi
from interleaf.serve import service as serving
from interleaf.serve.access import BROWSER, OPEN, check_scope
from interleaf.serve.answers import JSON, RETRY, RefusedError, refusal
from interleaf.serve.gate import Endpoint, Gate, Head, Shortcut, body_of
from interleaf.serve.rates import network_of
from interleaf.serve.routes import CALLS, EITHER, EVENTS, PUBLIC, Call, hot_call
from interleaf.serve.service import SERVICE, Clock, Service, log
from interleaf.serve.settings import Settings
from interleaf.store.contract import INGEST, READ, AccessKey, Store

COLLECTED_AFTER = 50_000  # objects more than before
SWITCHED_AFTER = 1e-4  # seconds that the writer waits for the interpreter, rather than 5 ms


def create_app(
    store: Store,
    clock: Clock = serving.now,
    settings: Settings | None = None,
    monotonic: Clock = serving.monotonic,
) -> Starlette:
    """The service over a store; `clock` gives microseconds since 1970, `monotonic` those of one that nobody can set."""
    service = Service(store, clock, settings or Settings(), monotonic)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Service]]:
        await service.start()
        if service.settings.own_process:
            _tune()
        log.info("ready")
        yield {SERVICE: service}
        await service.stop()
        log.info("stopped")

    endpoints = {call: endpoint(service, call) for call in CALLS}
    routes = [Route(call.path, run, methods=[call.method]) for call, run in endpoints.items()]
    routes.append(Route("/openapi.json", _described, methods=["GET"]))
    routes += dashboard.routes(service)
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={404: _unknown, 405: _unknown},
    )
    app.state.service = service
    app.router.redirect_slashes = False  # it would redirect to whatever host the request names
    app.middleware_stack = Gate(app.build_middleware_stack(), service, _shortcut(endpoints))
    return app


def _tune() -> None:
    """Let the interpreter work for this process's one purpose."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER, 20, 20)  # looking for cycles, of which requests leave none, took a sixth of all
    sys.setswitchinterval(SWITCHED_AFTER)


def endpoint(service: Service, call: Call) -> Endpoint:
    """A call as Starlette wants it: the key is checked, the body read, and whatever goes wrong is said."""
    most, reads = service.settings.most_body, call.method in ("POST", "PUT")
    changes = call.method != "GET" and call.path != EVENTS
    checks_kind = call.takes is not None and call.path != EVENTS  # which does so itself: browsers cannot say JSON

    async def run(request: Request) -> Response:
        head: Head = request.scope["head"]
        head.route = call.path
        try:
            who = await _admitted(service, call, head.key, request)
            if not call.narrows:
                check_scope(who, request.path_params.get("name"))
            if changes and who is OPEN:
                head.check_origin()
            if checks_kind:
                head.check_kind()
            return await call.run(service, request, await body_of(request, most) if reads else b"", who)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:
            return refusal(error, call.path)

    return run


def _shortcut(endpoints: Mapping[Call, Endpoint]) -> Shortcut:
    """Finds the two calls that traffic goes through, without a look at all routes."""

    def found(scope: Scope) -> Endpoint | None:
        hot = hot_call(scope["method"], scope["path"])
        if hot is None:
            return None
        call, name = hot
        scope["path_params"] = {"name": name}
        return endpoints[call]

    return found


async def _admitted(service: Service, call: Call, secret: str | None, request: Request) -> AccessKey:
    """Whose request it is, if it may be made; events may come without a key, from browsers, with a token."""
    access, wanted = service.access, call.role
    if wanted == PUBLIC:
        return OPEN
    if secret is None and call.path == EVENTS and not await access.is_open():
        address = network_of(request.client.host if request.client else "unknown")
        if not service.addresses.take(address):
            rate = f"{service.settings.browser_requests_per_second:g} requests a second from {address}"
            raise RefusedError(429, "too_many", f"more than {rate} without a key; slow down", headers={RETRY: "1"})
        return BROWSER
    if wanted == EITHER:
        key = await access.known(secret) if secret is not None else None
        wanted = INGEST if key is not None and key.role == INGEST else READ
    return await access.key(secret, wanted, call.during_outage)


async def _described(request: Request) -> Response:
    return Response(_document(), media_type=JSON)


@lru_cache(maxsize=1)
def _document() -> bytes:
    return msgspec.json.encode(openapi.description())


async def _unknown(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    if status == 405:
        allowed = _allowed(request)
        problem = f"{request.method} is not possible here; give {allowed}"
        return refusal(RefusedError(405, "wrong_method", problem, headers={"Allow": allowed}))
    return refusal(RefusedError(404, "unknown", "there is nothing at this address; /openapi.json lists what there is"))


def _allowed(request: Request) -> str:
    """The methods of all routes at a request's address."""
    routes: list[Route] = [route for route in request.app.routes if isinstance(route, Route)]
    here = [route.methods or set() for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted(set[str]().union(*here)))
