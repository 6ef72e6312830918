"""One connection to the engine: sends a request, and parses the answer while it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import httptools

from interleaf.proxy.codes import UpstreamCode, UpstreamError

MAX_BUFFERED = 256 * 1024  # bytes of a body that wait for the reader; above it, the engine has to wait
MAX_HEAD = 64 * 1024  # bytes of the headers of an answer


class AnswerHead(NamedTuple):
    """The head of an answer."""

    status: int
    headers: list[tuple[bytes, bytes]]


class UpstreamConnection(asyncio.Protocol):
    """A connection to the engine. Requests follow each other: `begin`, `write_body`, `read_head`, `read`."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._changed: asyncio.Future[None] | None = None  # somebody waits for the next change
        self._may_write = True
        self._is_idle = True
        self._reset(is_head=False)

    def _reset(self, *, is_head: bool) -> None:
        self._is_head = is_head
        self._headers: list[tuple[bytes, bytes]] = []
        self._head: AnswerHead | None = None
        self._head_bytes = 0
        self._parts: list[bytes] = []
        self._buffered = 0
        self._is_complete, self._is_paused, self._ends_with_connection = False, False, False
        self._wrote_all = True
        self.has_received = False
        self._problem: UpstreamError | None = None

    @property
    def is_open(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_reusable(self) -> bool:
        """Whether the answer is complete, and the connection stays open."""
        return self._is_idle and self.is_open and self._problem is None

    def begin(self, data: bytes, *, is_head: bool) -> None:
        """Send the head of a request, and perhaps its body."""
        self._reset(is_head=is_head)
        self._is_idle, self._parser = False, httptools.HttpResponseParser(self)
        self._write(data)

    async def write_body(self, body: AsyncIterator[bytes], *, is_chunked: bool, seconds: float) -> None:
        """Send a body piece by piece; stop if the engine has answered already."""
        self._wrote_all = False
        async for piece in body:
            if self._head is not None or self._problem is not None:
                return
            if piece:
                self._write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
            while not self._may_write and self._head is None:
                await self._wait(seconds)
        if is_chunked:
            self._write(b"0\r\n\r\n")
        self._wrote_all = True

    async def read_head(self, seconds: float) -> AnswerHead:
        """Wait for the head of the answer."""
        while self._head is None:
            await self._wait(seconds)
        return self._head

    async def read(self, seconds: float) -> bytes:
        """Wait for the next piece of the body; empty at its end."""
        while not self._parts:
            if self._is_complete:
                return b""
            await self._wait(seconds)
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._buffered = [], 0
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def _write(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            raise self._problem or UpstreamError(UpstreamCode.BROKEN, "the connection is closed")
        self._transport.write(data)

    async def _wait(self, seconds: float) -> None:
        """Wait until something changes; raises when the connection is broken, or nothing came for so long."""
        if self._problem is not None:
            raise self._problem
        loop = asyncio.get_running_loop()
        self._changed = changed = loop.create_future()
        timer = loop.call_later(seconds, self._fail, UpstreamError(UpstreamCode.SILENT, f"after {seconds:g} s"))
        try:
            await changed
        finally:
            timer.cancel()
            self._changed = None
        if self._problem is not None and not self._parts:
            raise self._problem

    def _notify(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def _fail(self, problem: UpstreamError) -> None:
        if self._problem is None:
            self._problem = problem
        self.abort()
        self._notify()

    # asyncio calls these

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._ends_with_connection and exc is None and not self._is_complete:
            self.on_message_complete()
        elif not self._is_complete:
            self._fail(UpstreamError(UpstreamCode.BROKEN, "the connection was closed"))

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        self._notify()

    def data_received(self, data: bytes) -> None:
        if self._parser is None or self._is_idle or self._is_complete:  # nobody asked for this
            self.abort()
            return
        self.has_received = True
        if self._head is None:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as problem:
            self._fail(UpstreamError(UpstreamCode.BROKEN, type(problem).__name__))
        if self._head is None and self._head_bytes > MAX_HEAD:
            self._fail(UpstreamError(UpstreamCode.BROKEN, "the headers of the answer are too large"))

    # httptools calls these

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > 2 * MAX_HEAD:  # the bytes that came are counted, too
            raise ValueError("the headers of the answer are too large")
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 200:
            self._headers = []
            return
        if status > 599:
            raise ValueError("there is no such status")
        self._head = AnswerHead(status, self._headers)
        names = {name.lower() for name, _ in self._headers}
        self._ends_with_connection = not names & {b"content-length", b"transfer-encoding"}
        if self._is_head:
            self._complete()
        self._notify()

    def on_body(self, body: bytes) -> None:
        if self._is_complete:
            return
        self._parts.append(body)
        self._buffered += len(body)
        if self._buffered > MAX_BUFFERED and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._notify()

    def on_message_complete(self) -> None:
        if self._head is not None:
            self._complete()
            self._notify()

    def _complete(self) -> None:
        self._is_complete = True
        assert self._parser is not None
        self._is_idle = self._wrote_all and self._parser.should_keep_alive()
