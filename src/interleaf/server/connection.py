"""One HTTP/1.1 connection: uvicorn's protocol, with limits on what a client sends and on its time to send and read.

The limits hold before a key is checked. An `Upgrade` header is ignored: the service speaks HTTP/1.1 only.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import httptools
from starlette.responses import Response
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from interleaf.server.schemas import RETRY, ApiError, error_response

SERVICE = "service"  # the name in the state of the application of what a connection needs
IDLE, HEAD, BODY = "idle", "head", "body"  # what the client is sending
MAX_DISCARDED = 1_000_000  # bytes that a client may send after its request was answered
LINGER_SECONDS = 2.0  # a refused client gets this long to read the answer while it still sends


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of connections.

    `max_url`, `max_head`: bytes. `head_seconds`, `body_seconds`: maximum time to send headers and body.
    `write_seconds`: a connection is aborted if its client reads nothing for this time (at most twice as long).
    `max_connections`: open connections of each worker.
    """

    max_url: int = 8_000
    max_head: int = 32_000
    max_headers: int = 100
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    write_seconds: float = 30.0
    max_connections: int = 2_000


class RequestCounter(Protocol):
    """Counts requests that a connection refuses."""

    def count_request(self, route: str, status: int, seconds: float, /) -> None:
        """Count a request."""


class ConnectionOwner(Protocol):
    """What a connection needs of its application."""

    @property
    def settings(self) -> ConnectionLimits:
        """The limits."""

    @property
    def metrics(self) -> RequestCounter:
        """Counts refused requests."""


class Connection(HttpToolsProtocol):
    """The protocol that `interleaf serve` and `interleaf proxy` give to uvicorn."""

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: Any = None) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._service: ConnectionOwner = app_state[SERVICE]
        self._limits = self._service.settings
        self._stage, self._number = IDLE, 0  # number: of the request on this connection
        self._head_bytes = 0  # of the headers so far
        self._pending = 0  # bytes of an incomplete header, which the parser holds back
        self._discarded = 0  # bytes of a request that was answered before it was complete
        self._timer: asyncio.TimerHandle | None = None
        self._timed = 0, IDLE  # what the timer is for
        self._waiting_since = 0.0
        self._refusal: Response | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._unsent: int | None = None  # bytes at the last check, if nothing was added since
        self._is_aborted = False
        self._held = b""  # the head of a response

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._write_timer = self.loop.call_later(self._limits.write_seconds, self._check_writing)
        if len(self.connections) > self._limits.max_connections and not self._close_another():
            problem = f"more than {self._limits.max_connections:,} connections; try again"
            self._write(error_response(ApiError(503, "too_many", problem, headers={RETRY: "1"})))
            transport.close()
            return
        self._start_timer(self._limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self._write_timer is not None:
            self._write_timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._waiting_since = perf_counter()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unsent = None

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._refusal is not None:
            self._discarded += len(data)
            if self._discarded > MAX_DISCARDED:
                self.transport.close()
            return
        self._pending += len(data)
        try:
            while data:
                data = self._parse(data)
            if self._pending > self._limits.max_head:
                raise self._too_large()
        except ApiError as problem:
            self._refuse(problem)
        else:
            self._watch()

    def _parse(self, data: bytes) -> bytes:
        """Parse the data; returns data that must be parsed again."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._without_upgrade() + data[upgrade.args[0] :]
        except httptools.HttpParserInvalidURLError:
            problem = "the URL has a byte that no URL may have; write it with a percent sign, such as %C3%A9 for é"
            raise ApiError(400, "malformed", problem) from None
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, ApiError):  # raised below
                raise error.__context__ from None
            raise ApiError(400, "malformed", "this is not an HTTP/1.1 request") from None
        return b""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._stage, self._head_bytes, self._pending = HEAD, 0, 0
        self._number += 1

    def on_url(self, url: bytes) -> None:
        self._pending = 0
        self.url += url
        if len(self.url) > self._limits.max_url:
            problem = f"the URL has more than {self._limits.max_url:,} bytes; send data in the body"
            raise ApiError(414, "url_too_long", problem)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._pending = 0
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > self._limits.max_head or len(self.headers) >= self._limits.max_headers:
            raise self._too_large()
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.get_method() == b"CONNECT":
            raise ApiError(501, "not_a_proxy", "this is not a proxy; CONNECT is not possible")
        super().on_headers_complete()
        if self.cycle is not None:
            self.cycle.transport = self  # type: ignore[assignment]  # it calls the next methods
        self._stage = BODY

    def write(self, data: bytes) -> None:
        """Write the head of a response together with its body: every system call takes time."""
        if self._held:
            self._flush(data)
        else:
            self._held = data
            self.loop.call_soon(self._flush)

    def _flush(self, more: bytes = b"") -> None:
        if self._held:
            data, self._held = self._held, b""
            self.transport.write(data + more)

    def close(self) -> None:
        self._flush()
        self.transport.close()

    def is_closing(self) -> bool:
        return self.transport.is_closing()

    def on_body(self, body: bytes) -> None:
        self._pending = 0
        super().on_body(body)
        if self.cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > MAX_DISCARDED:
                raise ApiError(413, "too_large", "the request was answered already, but its body goes on")

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._stage, self._pending, self._discarded = IDLE, 0, 0

    def on_response_complete(self) -> None:
        self._flush()  # a response to HEAD has no body
        super().on_response_complete()
        self._waiting_since = perf_counter()
        self._answer_refusal()

    def _should_upgrade(self) -> bool:
        """Keep uvicorn from handling an upgrade: the request is parsed again without it."""
        return True

    def _without_upgrade(self) -> bytes:
        """The head of the request without its `Upgrade` header: with it, the parser does not read the body."""
        version = self.parser.get_http_version()
        head = [self.parser.get_method(), b" ", self.url, f" HTTP/{version}\r\n".encode()]
        for name, value in self.headers:
            if name != b"upgrade":
                head += name, b": ", value, b"\r\n"
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        return b"".join(head) + b"\r\n"

    def _too_large(self) -> ApiError:
        limits = self._limits
        problem = f"the headers are more than {limits.max_headers} or have more than {limits.max_head:,} bytes"
        return ApiError(431, "headers_too_large", problem)

    def _watch(self) -> None:
        """Limit the time until what the client is sending is complete."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if self._stage is IDLE and is_answering:
            self._stop_timer()
        elif self._timer is None or self._timed != (self._number, self._stage):
            is_body = self._stage is BODY
            self._start_timer(self._limits.body_seconds if is_body else self._limits.head_seconds)

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timed, self._waiting_since = (self._number, self._stage), perf_counter()
        self._timer = self.loop.call_later(seconds, self._time_out, seconds)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self, seconds: float) -> None:
        self._timer = None
        if self._refusal is not None or self._stage is IDLE:
            self.transport.close()
        elif self.flow.read_paused:  # we make the client wait
            self._start_timer(seconds)
        else:
            problem = f"the {self._stage} of the request was not complete after {seconds:g} seconds"
            self._refuse(ApiError(408, "too_slow", problem))

    def _refuse(self, problem: ApiError) -> None:
        """Send this error after the responses to earlier requests, and close."""
        self._refusal = error_response(problem)
        if self._stage is BODY:
            if self.cycle.response_started:  # the answer to this request is on its way, or sent
                self.transport.close()
                return
            self.cycle.disconnected = True  # so that the application stops working on it
            self.cycle.message_event.set()
        self._answer_refusal()

    def _answer_refusal(self) -> None:
        cycle = self.cycle
        is_answering = cycle is not None and not cycle.response_complete and not cycle.disconnected
        if self._refusal is None or self.pipeline or is_answering or self.transport.is_closing():
            return
        self._write(self._refusal)
        self.transport.write_eof()
        self.flow.resume_reading()  # a client that still sends could not read the answer if we closed at once
        self._start_timer(LINGER_SECONDS)

    def _write(self, answer: Response) -> None:
        self._service.metrics.count_request("other", answer.status_code, 0.0)
        content = [STATUS_LINE[answer.status_code]]
        for name, value in (*self.server_state.default_headers, *answer.raw_headers, (b"connection", b"close")):
            content += name, b": ", value, b"\r\n"
        self.transport.write(b"".join(content) + b"\r\n" + bytes(answer.body))

    def _close_another(self) -> bool:
        """Close the connection that has waited longest for its client, if there is one."""
        waiting = [one for one in self.connections if isinstance(one, Connection) and one._is_waiting()]
        if not waiting:
            return False
        longest = min(waiting, key=lambda one: one._waiting_since)
        if longest._is_blocked():
            longest._abort()
        else:
            longest.transport.close()
        return True

    def _is_waiting(self) -> bool:
        if self._is_blocked():
            return not self._is_aborted
        is_timed = self._timer is not None or self.timeout_keep_alive_task is not None
        return is_timed and not self.transport.is_closing()

    def _is_blocked(self) -> bool:
        """Whether the client has to read before the service writes more, or before the connection is closed."""
        is_unsent = self.transport.get_write_buffer_size() > 0
        return is_unsent and (self.flow.write_paused or self.transport.is_closing())

    def _check_writing(self) -> None:
        """Abort if the client has read nothing since the last check. While writing is blocked, nothing is added."""
        unsent = self.transport.get_write_buffer_size() if self._is_blocked() else None
        if unsent is not None and self._unsent is not None and unsent >= self._unsent:
            self._abort()
            return
        self._unsent = unsent
        self._write_timer = self.loop.call_later(self._limits.write_seconds, self._check_writing)

    def _abort(self) -> None:
        """Close without sending the rest: `close` would wait for a client that does not read."""
        self._is_aborted = True
        self.transport.abort()
