"""The ASGI application of the proxy: searches that take part are interleaved, all other requests pass through."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial

from starlette.types import Receive, Scope, Send

from interleaf.proxy.codes import BypassCode, BypassError, FailureCode, UpstreamError
from interleaf.proxy.config import SOLR, ProxyConfig
from interleaf.proxy.endpoints import PREFIX, Endpoints, EventSources
from interleaf.proxy.fan_out import FanOut
from interleaf.proxy.monitoring import ProxyMetrics
from interleaf.proxy.multi_search import END as MULTI_SEARCH, MultiSearch
from interleaf.proxy.passthrough import (
    AnswerCopy,
    BodyReader,
    CallerGoneError,
    Exchange,
    HalfAnswerError,
    explain,
    forward,
    run_until_disconnect,
)
from interleaf.proxy.recorders import LogRecorder, Recorder, ServiceRecorder
from interleaf.proxy.search import Accepted, Built, Searches, ServedLists, parser_of
from interleaf.proxy.search_requests import Incoming, RawHeaders, decompress, find_unit, is_selected
from interleaf.proxy.tokens import read_signer
from interleaf.proxy.upstream import Upstream, UpstreamSettings, drop_hop_by_hop
from interleaf.server.connection import SERVICE, ConnectionLimits
from interleaf.server.rate_limits import Rates

IMPRESSION, TOKEN = b"x-interleaf-impression", b"x-interleaf-token"
PASSED, INTERLEAVED, BYPASSED, OWN = "passed", "interleaved", "bypassed", "own"  # how a request is answered
# Headers of the engine's answer that do not fit the body that the proxy builds.
NOT_OF_BUILT = {
    b"content-length",
    b"content-encoding",
    b"etag",
    b"last-modified",
    b"accept-ranges",
    b"cache-control",
    b"date",
}
log = logging.getLogger("interleaf.proxy")


class ProxyApp:
    """One proxy. `settings` and `metrics` are also what the connections of callers use."""

    def __init__(self, config: ProxyConfig) -> None:
        self.config, self.metrics = config, ProxyMetrics()
        own, engine = config.proxy, config.upstream
        self.settings = ConnectionLimits(
            max_connections=own.max_connections, body_seconds=own.body_seconds, max_url=65_536, max_head=65_536
        )
        self.upstream = Upstream(
            UpstreamSettings(
                engine.url,
                engine.connect_seconds,
                engine.read_seconds,
                engine.max_connections,
                None if engine.ca_file is None else str(engine.ca_file),
            )
        )
        self._fan_out = FanOut(self.upstream, engine.max_answer, config.requests.time_budget_ms / 1000)
        self.recorder, lists, signer = self._make_recorder(), ServedLists(), read_signer(own.secret_file)
        self.searches = Searches(config, parser_of(config), self._fan_out, self.recorder, lists, signer)
        self.metrics.watch_recorder(self.recorder.status)
        ubi_index = config.clicks.ubi_index
        self._events = EventSources(self.metrics, self.recorder, lists, signer, ubi_index)
        self._endpoints = Endpoints(config, self._events)
        self._complaints = Rates(1 / 60, 1)
        self._selected = is_selected(config.requests)

    def _make_recorder(self) -> Recorder:
        dropped = partial(self.metrics.count_failure, FailureCode.NOT_RECORDED.value)
        section, local = self.config.experiment, self.config.local
        return ServiceRecorder(section, dropped) if local is None else LogRecorder(section, local, dropped)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(scope, receive, send)
        elif scope["type"] == "http":
            with suppress(CallerGoneError, HalfAnswerError):  # the connection is closed after a half answer
                await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw_headers, path, method = scope["headers"], scope["raw_path"].decode("latin-1"), scope["method"]
        body = BodyReader(receive, any(name in (b"content-length", b"transfer-encoding") for name, _ in raw_headers))
        incoming = Incoming(method.encode(), path, scope["query_string"], drop_hop_by_hop(raw_headers))
        exchange = Exchange(incoming, body, send)
        if path.startswith(PREFIX):
            response = await self._endpoints.answer(incoming, body)
            await response(scope, receive, send)
            self.metrics.count_request(OWN, response.status_code, exchange.seconds)
        elif self._selected(method, path) or self._is_multi_search(method, path):
            await run_until_disconnect(self._search(exchange), body)
        elif method in ("POST", "PUT") and self._events.is_ubi(path):
            await self._pass_ubi(exchange)
        else:
            await run_until_disconnect(self._pass(PASSED, exchange), body)

    def _is_multi_search(self, method: str, path: str) -> bool:
        return path.endswith(MULTI_SEARCH) and method in ("GET", "POST") and self.config.upstream.engine != SOLR

    async def _pass_ubi(self, exchange: Exchange) -> None:
        """Pass records of UBI through; read their events if the engine has stored them."""
        incoming, max_body = exchange.incoming, self.config.proxy.max_body
        raw = await exchange.body.read(max_body)
        exchange.send = copy = AnswerCopy(exchange.send, self.config.upstream.max_answer)
        status = await run_until_disconnect(self._pass(PASSED, exchange), exchange.body)
        if not 200 <= status < 300:
            return
        plain = None if raw is None else decompress(raw, incoming.header(b"content-encoding"), max_body)
        is_known = plain is not None and self._events.take_ubi(incoming.path, plain, copy.read())
        if not is_known and self._events.may_have_ubi(incoming, exchange.body.start):
            self._count_failure(FailureCode.EVENTS_NOT_READ, FailureCode.EVENTS_NOT_READ.text)

    async def _search(self, exchange: Exchange) -> None:
        """Answer a search that the configuration selects."""
        incoming = exchange.incoming
        unit = find_unit(self.config.unit, incoming.headers)
        incoming.unit = unit.id
        more = [] if unit.set_cookie is None else [(b"set-cookie", unit.set_cookie)]
        try:
            built = await self._build(incoming, exchange.body)
        except BypassError as problem:
            self._count_bypass(problem)
            await self._pass(BYPASSED, exchange, more if problem.code == BypassCode.OUTSIDE else [])
        except UpstreamError as problem:
            self._count_bypass(BypassError(FailureCode.CONTROL_FAILED, str(problem)))
            await self._explain(BYPASSED, exchange, problem)
        except CallerGoneError:
            raise
        except Exception:
            self.metrics.count_failure(FailureCode.INTERNAL.value)
            log.exception("a search could not be interleaved; the caller gets the engine's answer")
            await self._pass(BYPASSED, exchange)
        else:
            if built is None:
                await self._pass(PASSED, exchange)
                return
            await self._send_built(built, exchange.send, more)
            self.metrics.count_request(INTERLEAVED, 200, exchange.seconds)

    async def _build(self, incoming: Incoming, body: BodyReader) -> Built | None:
        """The answer to the caller, after its lists are recorded; None if no search of an `_msearch` is selected."""
        raw = await body.read(self.config.proxy.max_body)
        if raw is None:
            raise BypassError(BypassCode.BODY_TOO_LARGE)
        plain = decompress(raw, incoming.header(b"content-encoding"), self.config.proxy.max_body)
        if plain is None:
            raise BypassError(BypassCode.NOT_JSON)
        incoming.plain = plain
        if incoming.path.endswith(MULTI_SEARCH):
            searches = MultiSearch(incoming, self._fan_out, self._count_bypass)
            built = await searches.answer(self._selected, self.searches.accept, self._answer_search)
        else:
            built = await self._answer_search(await self.searches.accept(incoming))
        if built is not None:
            built.record()
        return built

    async def _answer_search(self, accepted: Accepted) -> Built:
        built = await self.searches.answer(accepted)
        return built._replace(record=partial(self._record, built))

    def _record(self, built: Built) -> None:
        self.metrics.count_list(built.arm)
        for ranker, problem in built.result.failures.items():
            self._count_bypass(problem, ranker)
        for ranker, answer in built.result.answers.items():
            self.metrics.time_ranker(ranker, answer.took / 1000)
        for ranker, seconds in built.result.late.items():
            self.metrics.time_ranker(ranker, seconds)
        built.record()

    def _count_bypass(self, problem: BypassError, ranker: str = "") -> None:
        """Count a search that is not interleaved, or the failure of a ranker."""
        what = f"ranker {ranker}: {problem}" if ranker else str(problem)
        if not isinstance(problem.code, BypassCode):
            self._count_failure(problem.code, what, ranker)
            return
        self.metrics.count_bypass(problem.code.value)
        if problem.detail:
            self.metrics.latest[problem.code.value] = what

    def _count_failure(self, code: FailureCode, what: str, ranker: str = "") -> None:
        """Count a failure; log one of each kind in a minute."""
        self.metrics.count_failure(code.value, ranker)
        self.metrics.latest[f"{code} {ranker}".rstrip()] = what
        if self._complaints.take(f"{code} {ranker}"):
            log.warning("%s; further ones are counted, and logged once a minute", what, extra={"code": code.value})

    async def _send_built(self, built: Built, send: Send, more: list[tuple[bytes, bytes]]) -> None:
        headers = [pair for pair in drop_hop_by_hop(built.headers) if pair[0].lower() not in NOT_OF_BUILT]
        headers += [*more, (b"content-length", b"%d" % len(built.body)), (b"cache-control", b"private, no-store")]
        if built.impression is not None:
            token = self.searches.signer.sign("token", built.impression)
            headers += [(IMPRESSION, built.impression.encode()), (TOKEN, token.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": built.body})

    async def _pass(self, kind: str, exchange: Exchange, more: RawHeaders = ()) -> int:
        """Pass a request through; if the engine does not answer, the caller gets an error. Returns the status."""
        try:
            status = await forward(self.upstream, exchange, more)
        except UpstreamError as problem:
            return await self._explain(kind, exchange, problem)
        except HalfAnswerError as problem:
            self.metrics.count_upstream_error(problem.code.value)
            raise
        self.metrics.count_request(kind, status, exchange.seconds)
        return status

    async def _explain(self, kind: str, exchange: Exchange, problem: UpstreamError) -> int:
        self.metrics.count_upstream_error(problem.code.value)
        response = explain(problem)
        await exchange.send(
            {"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers}
        )
        await exchange.send({"type": "http.response.body", "body": response.body})
        self.metrics.count_request(kind, response.status_code, exchange.seconds)
        return response.status_code

    async def _run_lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        scope["state"][SERVICE] = self
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.upstream.close()
        self.recorder.close()
        await send({"type": "lifespan.shutdown.complete"})
