"""Connections with one deadline for all steps of a request: look-up, TCP, TLS, every byte sent and received.

`http.client` limits each read. A server that sends a byte now and then could hold a request for any time.
"""

from __future__ import annotations

import io
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from http.client import HTTPConnection, HTTPSConnection
from typing import Any

Addresses = list[tuple[Any, ...]]


class TimedConnection(HTTPConnection):
    """An HTTP connection whose `deadline`, in seconds of the monotonic clock, holds for all that it does."""

    def __init__(self, host: str, port: int | None, context: ssl.SSLContext | None) -> None:
        if context is not None:
            self.default_port = HTTPSConnection.default_port
        super().__init__(host, port or self.default_port)
        self._context, self.deadline = context, time.monotonic()

    def connect(self) -> None:
        """Try the host's addresses in turn, each for an equal part of the time that is left."""
        addresses = _addresses(self.host, self.port, self._left())
        for number, address in enumerate(addresses):
            try:
                sock = _connected(address, self._left() / (len(addresses) - number))
                break
            except OSError:
                if number == len(addresses) - 1:
                    raise
        if self._context is not None:
            sock.settimeout(self._left())
            sock = self._context.wrap_socket(sock, server_hostname=self.host)
        self.sock = _TimedSocket(sock, self._left)  # it has all that http.client calls

    def _left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time for this request is over")
        return left


class _TimedSocket:
    """A socket that asks before each step how much time is left."""

    def __init__(self, sock: socket.socket, left: Callable[[], float]) -> None:
        self._sock, self._left = sock, left

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._sock.settimeout(self._left())
            rest = rest[self._sock.send(rest) :]

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._sock, self._left))

    def close(self) -> None:
        self._sock.close()


class _TimedReader(io.RawIOBase):
    def __init__(self, sock: socket.socket, left: Callable[[], float]) -> None:
        self._sock, self._left = sock, left
        self._stream = sock.makefile("rb", buffering=0)  # the socket stays open until this is closed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._left())
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _connected(address: tuple[Any, ...], seconds: float) -> socket.socket:
    family, kind, protocol, _, place = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.settimeout(seconds)
        sock.connect(place)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def _addresses(host: str, port: int, seconds: float) -> Addresses:
    """The addresses of a host; the system's look-up cannot be interrupted, so a thread waits for it."""
    answer: Future[Addresses] = Future()

    def look_up() -> None:
        try:
            answer.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except BaseException as problem:
            answer.set_exception(problem)

    threading.Thread(target=look_up, name="interleaf-look-up", daemon=True).start()
    return answer.result(seconds)
