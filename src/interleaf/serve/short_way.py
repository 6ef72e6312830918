"""A short way for plain traffic: from the parser's last byte to the writer, with no task, no scope and no routes.

The long way, through the application, is the reference. What is in any respect unusual takes it, whatever goes wrong
before something is written goes there to be refused, and the answers are the same.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache, partial
from time import perf_counter
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from interleaf.serve.access import OPEN
from interleaf.serve.answers import JSON, refusal
from interleaf.serve.gate import HEADERS, bearer
from interleaf.serve.hot import Begun
from interleaf.serve.routes import Call, HotCall, hot_call
from interleaf.serve.service import SERVICE, Service

MOST_ADDRESS = 200  # letters of a path that is remembered; names have at most 100
_KIND = JSON.encode()
_UNUSUAL = frozenset((b"transfer-encoding", b"expect", b"upgrade", b"origin"))


class _Cycle(RequestResponseCycle):
    """What uvicorn asks of a request that is under way: whether to wait for it, and what to do after it."""

    message_event = asyncio.Event()  # nobody waits for it

    def __init__(self, keep_alive: bool) -> None:
        self.keep_alive, self.disconnected, self.response_complete = keep_alive, False, False


class ShortWay(HttpToolsProtocol):
    """uvicorn's protocol of one connection, with the short way beside it."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._service: Service = app_state[SERVICE]
        self._taken: tuple[HotCall, _Cycle] | None = None
        self._secret: str | None = None
        self._body = bytearray()

    def on_headers_complete(self) -> None:
        found = self._found()
        if found is None:
            self._taken = None
            super().on_headers_complete()
            return
        self.cycle = cycle = _Cycle(self.parser.should_keep_alive())
        self._taken, self._body = (found, cycle), bytearray()

    def _found(self) -> HotCall | None:
        """Which call it is, if its head has nothing unusual: who may not make it is refused before its body is read."""
        found = _call(self.parser.get_method(), self.url) if len(self.url) <= MOST_ADDRESS else None
        if found is None or self.flow.write_paused or not (self.cycle is None or self.cycle.response_complete):
            return None
        head, settings = dict(self.headers), self._service.settings
        length = head.get(b"content-length", b"0")
        if head.get(b"content-type") != _KIND or not _UNUSUAL.isdisjoint(head):
            return None
        if not length.isdigit() or int(length) > settings.most_body or self.parser.get_http_version() != "1.1":
            return None
        if settings.loopback_only and not self._service.is_loopback(head.get(b"host", b"").decode("latin-1")):
            return None
        self._secret = bearer(head.get(b"authorization", b"").decode("latin-1"))
        return found if self._service.access.at_once(self._secret, found.call.role) else None

    def on_body(self, body: bytes) -> None:
        if self._taken is None:
            super().on_body(body)
        else:
            self._body += body

    def on_message_complete(self) -> None:
        if self._taken is None:
            super().on_message_complete()
            return
        (hot, cycle), body = self._taken, bytes(self._body)
        self._taken, self._body = None, bytearray()
        if self._is_begun(hot, body, cycle):
            return
        cycle.response_complete = True
        super().on_headers_complete()
        self.cycle.keep_alive &= cycle.keep_alive
        super().on_body(body)
        super().on_message_complete()

    def _is_begun(self, hot: HotCall, body: bytes, cycle: _Cycle) -> bool:
        """Whether it waits to be written."""
        began, service = perf_counter(), self._service
        who = service.access.at_once(self._secret, hot.call.role)
        if who is None:
            return False
        try:
            begun = hot.begin(service, hot.name, body)
            if begun is None:
                return False
            service.writing.add(begun.draft, begun.events, partial(self._answer, hot.call, begun, cycle, began))
        except Exception:  # the long way finds the same, and says it
            return False
        if who is not OPEN:
            service.access.spend(who.id)
        return True

    def _answer(self, call: Call, begun: Begun, cycle: _Cycle, began: float, result: Any) -> None:
        """Send the answer to what was written, or could not be."""
        try:
            answer = refusal(result, call.path) if isinstance(result, Exception) else begun.answer(result)
        except Exception as error:
            answer = refusal(error, call.path)
        cycle.response_complete = True
        self._service.metrics.served(call.path, answer.status_code, perf_counter() - began)
        if cycle.disconnected or self.transport.is_closing():
            return
        content = [STATUS_LINE[answer.status_code]]
        for name, value in (*self.server_state.default_headers, *answer.raw_headers, *HEADERS):
            content += name, b": ", value, b"\r\n"
        content += b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n", bytes(answer.body)
        self.transport.write(b"".join(content))
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()


@lru_cache(maxsize=1024)
def _call(method: bytes, url: bytes) -> HotCall | None:
    """As the application would find it, but for addresses with more than a path: no name has `%`, `?` or `#`."""
    return hot_call(method.decode(), url.decode("latin-1"))
