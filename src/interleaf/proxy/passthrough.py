"""Requests that pass through: the engine's answer as it is, streamed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Message, Receive, Send

from interleaf.proxy.codes import UpstreamCode, UpstreamError
from interleaf.proxy.search_requests import Incoming, RawHeaders, decompress
from interleaf.proxy.upstream import IDEMPOTENT, SEARCHES, Upstream, drop_hop_by_hop
from interleaf.server.schemas import RETRY, ApiError, error_response

STATUS_OF = {UpstreamCode.REFUSED: 502, UpstreamCode.BROKEN: 502, UpstreamCode.SILENT: 504, UpstreamCode.BUSY: 503}
Result = TypeVar("Result")


class CallerGoneError(Exception):
    """The caller closed the connection."""


class HalfAnswerError(Exception):
    """The engine's answer broke off after a part of it was sent to the caller, who has to see that."""

    def __init__(self, code: UpstreamCode) -> None:
        super().__init__(code.text)
        self.code = code


class BodyReader:
    """The body of a request: what was read already, and the rest as it comes."""

    def __init__(self, receive: Receive, has_body: bool) -> None:
        self._receive, self._read = receive, list[bytes]()
        self._complete = asyncio.Event()
        if not has_body:
            self._complete.set()

    async def read(self, max_bytes: int) -> bytes | None:
        """The whole body; None if it is larger. What was read is kept for `content`."""
        while not self._complete.is_set():
            self._read.append(await self._next())
            if sum(map(len, self._read)) > max_bytes:
                return None
        return b"".join(self._read)

    @property
    def start(self) -> bytes:
        """What was read so far."""
        return b"".join(self._read)

    @property
    def content(self) -> bytes | AsyncIterator[bytes]:
        """The body to send on."""
        return b"".join(self._read) if self._complete.is_set() else self._chunks()

    async def _chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._read:
            yield chunk
        while not self._complete.is_set():
            yield await self._next()

    async def wait_for_disconnect(self) -> None:
        """Return when the caller closes the connection."""
        await self._complete.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _next(self) -> bytes:
        message: Message = await self._receive()
        if message["type"] == "http.disconnect":
            raise CallerGoneError
        if not message.get("more_body", False):
            self._complete.set()
        chunk: bytes = message.get("body", b"")
        return chunk


class AnswerCopy:
    """Sends an answer to the caller, and keeps a copy of its body, unless it is larger than `max_bytes`."""

    def __init__(self, send: Send, max_bytes: int) -> None:
        self._send, self._max_bytes = send, max_bytes
        self._coding, self._parts, self._left = "", list[bytes](), max_bytes

    async def __call__(self, message: Message) -> None:
        """Send a part on."""
        for name, value in message.get("headers", ()):
            if name.lower() == b"content-encoding":
                self._coding = value.decode("latin-1")
        body: bytes = message.get("body", b"")
        self._left -= len(body)
        if self._left >= 0:
            self._parts.append(body)
        await self._send(message)

    def read(self) -> bytes:
        """The whole body without its content coding; empty if it is too large, or cannot be read."""
        whole = None if self._left < 0 else decompress(b"".join(self._parts), self._coding, self._max_bytes)
        return whole or b""


@dataclass
class Exchange:
    """One request, and where its answer goes; `began` is when it came."""

    incoming: Incoming
    body: BodyReader
    send: Send
    began: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """The time since the request came."""
        return time.perf_counter() - self.began


async def forward(upstream: Upstream, exchange: Exchange, more: RawHeaders = ()) -> int:
    """Send the request to the engine, and its answer to the caller; returns the status. `more` are headers to add.

    Raises UpstreamError if nothing was sent to the caller yet, and HalfAnswerError after that.
    """
    incoming, send = exchange.incoming, exchange.send
    last_part = incoming.target.partition(b"?")[0].rstrip(b"/").rpartition(b"/")[2]
    again = incoming.method in IDEMPOTENT or last_part in SEARCHES
    answer = await upstream.send(incoming.method, incoming.target, incoming.headers, exchange.body.content, again=again)
    try:
        headers = drop_hop_by_hop(answer.headers)
        if answer.status in (204, 304):
            headers = [pair for pair in headers if pair[0].lower() != b"content-length"]
        await send({"type": "http.response.start", "status": answer.status, "headers": [*headers, *more]})
        try:
            async for chunk in answer.chunks():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except UpstreamError as problem:
            raise HalfAnswerError(problem.code) from problem
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        answer.close()
    return answer.status


def explain(problem: UpstreamError) -> Response:
    """The response of the proxy if the engine does not answer."""
    status = STATUS_OF[problem.code]
    headers = {RETRY: "1"} if problem.code == UpstreamCode.BUSY else None
    return error_response(ApiError(status, problem.code.value, str(problem), headers=headers))


async def run_until_disconnect(work: Coroutine[Any, Any, Result], body: BodyReader) -> Result:
    """Run a coroutine; cancel it when the caller closes the connection."""
    task, is_gone = asyncio.current_task(), False
    assert task is not None

    async def watch() -> None:
        nonlocal is_gone
        await body.wait_for_disconnect()
        is_gone = True
        task.cancel()

    watcher = asyncio.ensure_future(watch())
    try:
        return await work
    except asyncio.CancelledError:
        if is_gone:
            task.uncancel()
            raise CallerGoneError from None
        raise
    finally:
        watcher.cancel()
