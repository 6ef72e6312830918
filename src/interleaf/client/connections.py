"""Connections to a service that stay open between requests, with one deadline for all steps of a request.

`http.client` has a timeout for each read, so a server that sends a byte now and then could block a request forever.
Here, DNS, TCP, TLS, and all reads and writes share the deadline.
"""

from __future__ import annotations

import io
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from http.client import CannotSendRequest, HTTPConnection, HTTPException, HTTPSConnection, RemoteDisconnected
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from interleaf.errors import ClientError

Addresses = list[tuple[Any, ...]]


class TimedConnection(HTTPConnection):
    """An HTTP connection with a `deadline`, in seconds of the monotonic clock, for all its steps."""

    def __init__(self, host: str, port: int | None, context: ssl.SSLContext | None) -> None:
        if context is not None:
            self.default_port = HTTPSConnection.default_port
        super().__init__(host, port or self.default_port)
        self._context, self.deadline = context, time.monotonic()

    def connect(self) -> None:
        """Try the host's addresses in turn, each for an equal part of the time that is left."""
        addresses = self.find_addresses()
        for number, address in enumerate(addresses):
            try:
                sock = _open_socket(address, self._time_left() / (len(addresses) - number))
                break
            except OSError:
                if number == len(addresses) - 1:
                    raise
        if self._context is not None:
            sock.settimeout(self._time_left())
            sock = self._context.wrap_socket(sock, server_hostname=self.host)
        self.sock = _TimedSocket(sock, self._time_left)  # it has all methods that http.client calls

    def find_addresses(self) -> Addresses:
        """The addresses of the host that the connection may use."""
        return _addresses(self.host, self.port, self._time_left())

    def _time_left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time for this request is over")
        return left


class _TimedSocket:
    """A socket that checks before each step how much time is left."""

    def __init__(self, sock: socket.socket, left: Callable[[], float]) -> None:
        self._sock, self._time_left = sock, left

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._sock.settimeout(self._time_left())
            rest = rest[self._sock.send(rest) :]

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._sock, self._time_left))

    def close(self) -> None:
        self._sock.close()


class _TimedReader(io.RawIOBase):
    def __init__(self, sock: socket.socket, left: Callable[[], float]) -> None:
        self._sock, self._time_left = sock, left
        self._stream = sock.makefile("rb", buffering=0)  # the socket stays open until this is closed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._time_left())
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _open_socket(address: tuple[Any, ...], seconds: float) -> socket.socket:
    family, kind, protocol, _, place = address
    with ExitStack() as stack:
        sock = stack.enter_context(socket.socket(family, kind, protocol))
        sock.settimeout(seconds)
        sock.connect(place)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stack.pop_all()  # it stays open
    return sock


def _addresses(host: str, port: int, seconds: float) -> Addresses:
    """The addresses of a host. The system's DNS lookup cannot be interrupted, so a thread waits for it."""
    answer: Future[Addresses] = Future()

    def look_up() -> None:
        try:
            answer.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except BaseException as problem:
            answer.set_exception(problem)

    threading.Thread(target=look_up, name="interleaf-look-up", daemon=True).start()
    return answer.result(seconds)


MAX_IDLE = 32
MAX_WAIT = 300.0  # seconds; limits the Retry-After header
# Errors of a connection that the server closed while it was idle.
_STALE = (RemoteDisconnected, ConnectionError, CannotSendRequest)
_AWAY = (408, 425, 429)


class AwayError(Exception):
    """The service did not answer, or asked to retry later, after `retry_after` seconds if given.

    `status` is the status of its answer, if there was one.
    """

    def __init__(self, reason: str, retry_after: float | None = None, status: int | None = None) -> None:
        super().__init__(reason)
        self.retry_after, self.status = retry_after, status


class Reply(NamedTuple):
    """The status of an answer and its fields: the requested ones on success, otherwise those of an error."""

    status: int
    data: dict[str, Any]

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def error(self) -> ClientError:
        """An error response as an exception, with the service's message."""
        code, field = self.data["code"], self.data.get("field")
        place = f" (at {field})" if field else ""
        return ClientError(f"{self.data['message']}{place} [{self.status} {code}]", self.status, code, field)

    @property
    def is_out_of_scope(self) -> bool:
        """Whether the key is valid but does not allow this request."""
        return self.data.get("code") in ("wrong_experiment", "wrong_role")

    @property
    def is_key_rejected(self) -> bool:
        """Whether the key itself is refused: missing, unknown, revoked or expired. An admin can fix that."""
        return self.status in (401, 403) and not self.is_out_of_scope


class Connections:
    """Connections to one service. A request takes at most `timeout` seconds, from the DNS lookup to the last byte.

    Proxy settings of the environment are ignored.
    """

    def __init__(self, url: str, key: str | None, timeout: float, context: ssl.SSLContext | None = None) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
                raise ValueError
        except ValueError:
            problem = f"url is {url!r}; give the address of the service, such as 'http://127.0.0.1:8080'"
            raise ClientError(problem) from None
        if not timeout > 0:
            raise ClientError(f"timeout is {timeout!r}; give seconds, more than 0")
        if key is not None and (not key.isascii() or not key.isprintable()):
            raise ClientError("key contains characters that no key has; give it as it was shown")
        self._host, self._port, self._prefix = parts.hostname, port, parts.path.rstrip("/")
        self._context = context or (ssl.create_default_context() if parts.scheme == "https" else None)
        self._timeout = timeout
        self._headers = {"Content-Type": "application/json", "User-Agent": "interleaf"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._max_idle = MAX_IDLE
        self.forget()

    def forget(self) -> None:
        """After a fork: drop open connections without closing them, because the parent uses them."""
        self._lock = threading.Lock()
        self._idle: list[TimedConnection] = []

    def close(self) -> None:
        """Close all connections: idle ones now, and those in use after their response."""
        self._max_idle = 0
        self._close_idle()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def ask(
        self, method: str, path: str, body: bytes | None, fields: Iterable[str], deadline: float | None = None
    ) -> Reply:
        """Send a request whose successful response has these fields.

        Raises `AwayError` if there is no answer, if the service asks to retry later, or if something else answered,
        such as a proxy. `deadline` is in seconds of the monotonic clock; None: `timeout` from now. All requests are
        idempotent, so a request on a stale connection is sent again.
        """
        try:
            reply = self._send_once_more_if_stale(method, path, body, deadline or time.monotonic() + self._timeout)
        except (OSError, HTTPException, ValueError, RecursionError) as problem:
            raise AwayError(f"{type(problem).__name__}: {problem}") from problem
        data: Any = reply.data
        required = set(fields)
        if not reply.is_success:
            data, required = data.get("error") if isinstance(data, dict) else None, {"code", "message"}
        if not isinstance(data, dict) or not data.keys() >= required:
            raise AwayError(f"the answer {reply.status} does not come from an interleaf service")
        return Reply(reply.status, data)

    def _send_once_more_if_stale(self, method: str, path: str, body: bytes | None, deadline: float) -> Reply:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            try:
                return self._send(connection, method, path, body, deadline)
            except _STALE:
                self._close_idle()  # the others are probably stale, too
        return self._send(TimedConnection(self._host, self._port, self._context), method, path, body, deadline)

    def _send(self, connection: TimedConnection, method: str, path: str, body: bytes | None, deadline: float) -> Reply:
        connection.deadline = deadline
        try:
            connection.request(method, self._prefix + path, body, self._headers)
            reply = connection.getresponse()
            text = reply.read()
        except BaseException:
            connection.close()
            raise
        with self._lock:
            is_kept = not reply.will_close and len(self._idle) < self._max_idle
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()
        if reply.status >= 500 or reply.status in _AWAY:
            wait = reply.headers.get("Retry-After", "")
            seconds = min(float(wait), MAX_WAIT) if wait.isdecimal() else None
            raise AwayError(f"the service answered {reply.status}", seconds, reply.status)
        return Reply(reply.status, json.loads(text))
