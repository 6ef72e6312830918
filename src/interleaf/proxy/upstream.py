"""HTTP/1.1 requests to the engine: connections stay open, and bodies are streamed as they come, never decoded."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

import httptools

from interleaf.errors import InterleafError
from interleaf.proxy.codes import UpstreamCode, UpstreamError

MAX_BUFFERED = 256 * 1024  # bytes of a body that wait for the reader; above it, the engine has to wait
MAX_HEAD = 64 * 1024  # bytes of the headers of an answer
IDLE_SECONDS = 20.0  # an idle connection is used again within this time: engines close idle ones later
VIA = b"\r\nvia: 1.1 interleaf\r\n"
IDEMPOTENT = {b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE"}  # may be sent again on another connection
SEARCHES = {b"_search", b"_msearch", b"select"}  # ends of paths that only read, whatever the method
# Headers that concern one connection only (RFC 9110, 7.6.1). `expect` is answered by the proxy's own server.
HOP_BY_HOP = {
    *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    *(b"proxy-authenticate", b"proxy-authorization", b"expect"),
}


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


Headers = Sequence[tuple[bytes, bytes]]
Body = bytes | AsyncIterator[bytes]


@dataclass(frozen=True)
class UpstreamSettings:
    """The address of the engine, and how long to wait for it."""

    url: str
    connect_seconds: float = 5.0
    read_seconds: float = 300.0
    max_connections: int = 256
    ca_file: str | None = None


def drop_hop_by_hop(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Headers without those that concern one connection only.

    >>> drop_hop_by_hop([(b"connection", b"close, x-own"), (b"x-own", b"1"), (b"accept", b"*/*")])
    [(b'accept', b'*/*')]
    """
    dropped = HOP_BY_HOP
    for name, value in headers:
        if name.lower() == b"connection":
            dropped = dropped | {token.strip().lower() for token in value.split(b",")}
    return [(name, value) for name, value in headers if name.lower() not in dropped]


def make_context(ca_file: str | None) -> ssl.SSLContext:
    """How the engine's certificate is checked: by the certificates in a file, else by those of the system."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise InterleafError(f"cannot read the certificates {ca_file}: {error.strerror}; correct ca_file") from None


@dataclass
class UpstreamAnswer:
    """An answer whose head has come; the body is read as it comes. `close` it if the body is not read to its end."""

    status: int
    headers: list[tuple[bytes, bytes]]
    _connection: UpstreamConnection
    _upstream: Upstream
    _seconds: float
    _is_done: bool = field(default=False)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The pieces of the body."""
        try:
            while chunk := await self._connection.read(self._seconds):
                yield chunk
            self._finish(reusable=True)
        finally:
            self.close()

    async def read(self, max_bytes: int) -> bytes | None:
        """The whole body; None if it is larger."""
        parts, size = list[bytes](), 0
        try:
            while chunk := await self._connection.read(self._seconds):
                size += len(chunk)
                if size > max_bytes:
                    return None
                parts.append(chunk)
            self._finish(reusable=True)
        finally:
            self.close()
        return b"".join(parts)

    def close(self) -> None:
        """Close the connection, unless the body was read to its end."""
        self._finish(reusable=False)

    def _finish(self, *, reusable: bool) -> None:
        if not self._is_done:
            self._is_done = True
            self._upstream.release(self._connection, reusable=reusable)


class Upstream:
    """Connections to one engine."""

    def __init__(self, settings: UpstreamSettings) -> None:
        parts = urlsplit(settings.url)
        self._settings, self._host = settings, parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._netloc = parts.netloc.rpartition("@")[2].encode("idna" if not parts.netloc.isascii() else "ascii")
        self._prefix = parts.path.rstrip("/").encode()
        self._context = make_context(settings.ca_file) if parts.scheme == "https" else None
        self._idle: list[tuple[UpstreamConnection, float]] = []
        self._places = asyncio.Semaphore(settings.max_connections)

    async def send(self, method: bytes, target: bytes, headers: Headers, body: Body, *, again: bool) -> UpstreamAnswer:
        """Send a request. With `again`, it is sent once more if an idle connection turns out to be closed.

        `headers` are those of the caller without the hop-by-hop ones; a Content-Length is used if there is one.
        """
        await self._take_place()
        connection: UpstreamConnection | None = None
        try:
            while True:
                connection = self._take_idle()
                is_fresh = connection is None
                connection = connection or await self._connect()
                try:
                    head = await self._exchange(connection, method, target, headers, body)
                    break
                except UpstreamError:
                    connection.abort()
                    if is_fresh or connection.has_received or not again or not isinstance(body, bytes):
                        raise
        except BaseException:
            if connection is not None:
                connection.abort()
            self._places.release()
            raise
        return UpstreamAnswer(head.status, head.headers, connection, self, self._settings.read_seconds)

    async def _exchange(
        self, connection: UpstreamConnection, method: bytes, target: bytes, headers: Headers, body: Body
    ) -> AnswerHead:
        """Send the request, and wait for the head of the answer."""
        lines = [method, b" ", self._prefix, target, b" HTTP/1.1\r\nhost: ", self._netloc, VIA]
        has_length = False
        for name, value in headers:
            if name != b"host":
                has_length = has_length or name == b"content-length"
                lines += name, b": ", value, b"\r\n"
        seconds = self._settings.read_seconds
        if isinstance(body, bytes):
            if not has_length and (body or method not in IDEMPOTENT):
                lines.append(b"content-length: %d\r\n" % len(body))
            connection.begin(b"".join(lines) + b"\r\n" + body, is_head=method == b"HEAD")
        else:
            framing = b"" if has_length else b"transfer-encoding: chunked\r\n"
            connection.begin(b"".join(lines) + framing + b"\r\n", is_head=method == b"HEAD")
            await connection.write_body(body, is_chunked=not has_length, seconds=seconds)
        return await connection.read_head(seconds)

    async def _take_place(self) -> None:
        """Wait until there are not too many requests to the engine."""
        if not self._places.locked():
            await self._places.acquire()  # it does not wait
            return
        try:
            await asyncio.wait_for(self._places.acquire(), self._settings.connect_seconds)
        except TimeoutError:
            raise UpstreamError(UpstreamCode.BUSY) from None

    def _take_idle(self) -> UpstreamConnection | None:
        while self._idle:
            connection, since = self._idle.pop()
            if connection.is_open and time.monotonic() - since < IDLE_SECONDS:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> UpstreamConnection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._settings.connect_seconds):
                connecting = loop.create_connection(UpstreamConnection, self._host, self._port, ssl=self._context)
                return (await connecting)[1]
        except (OSError, TimeoutError) as problem:
            raise UpstreamError(UpstreamCode.REFUSED, type(problem).__name__) from problem

    def release(self, connection: UpstreamConnection, *, reusable: bool) -> None:
        """Give back the connection of an answer."""
        self._places.release()
        if reusable and connection.is_reusable:
            self._idle.append((connection, time.monotonic()))
        else:
            connection.abort()

    def close(self) -> None:
        """Close all idle connections."""
        while self._idle:
            self._idle.pop()[0].abort()
