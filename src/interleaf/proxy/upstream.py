"""HTTP/1.1 requests to the engine: connections stay open, and bodies are streamed as they come, never decoded."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from interleaf.errors import InterleafError
from interleaf.proxy.codes import UpstreamCode, UpstreamError
from interleaf.proxy.upstream_connection import AnswerHead, UpstreamConnection

Headers = Sequence[tuple[bytes, bytes]]
Body = bytes | AsyncIterator[bytes]
IDLE_SECONDS = 20.0  # an idle connection is used again within this time: engines close idle ones later
VIA = b"\r\nvia: 1.1 interleaf\r\n"
IDEMPOTENT = {b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE"}  # may be sent again on another connection
SEARCHES = {b"_search", b"_msearch", b"select"}  # ends of paths that only read, whatever the method
# Headers that concern one connection only (RFC 9110, 7.6.1). `expect` is answered by the proxy's own server.
HOP_BY_HOP = {
    *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    *(b"proxy-authenticate", b"proxy-authorization", b"expect"),
}


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
                made = loop.create_connection(UpstreamConnection, self._host, self._port, ssl=self._context)
                return (await made)[1]
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
