"""Connections to a service that stay open between requests, for any number of threads."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterable
from http.client import CannotSendRequest, HTTPException, RemoteDisconnected
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from interleaf.client.deadline import TimedConnection
from interleaf.errors import ClientError

MAX_IDLE = 32
MAX_WAIT = 300.0  # seconds, whatever the other side asks for
# A connection that the other side closed while it was idle fails like this, before anything is answered.
_STALE = (RemoteDisconnected, ConnectionError, CannotSendRequest)
_AWAY = (408, 425, 429)


class AwayError(Exception):
    """The service did not answer, or asks to come again later: after so many seconds, if it says.

    `status` is the status of its answer, if there was one.
    """

    def __init__(self, reason: str, retry_after: float | None = None, status: int | None = None) -> None:
        super().__init__(reason)
        self.retry_after, self.status = retry_after, status


class Reply(NamedTuple):
    """The status of an answer, and its fields: of a success those that were asked for, else those of an error."""

    status: int
    data: dict[str, Any]

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class Connections:
    """Asks one service; a request takes at most `timeout` seconds, from the look-up of the host to the last byte.

    Proxies are not looked for.
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
            raise ClientError("key holds characters that no key has; give it as it was shown")
        self._host, self._port, self._prefix = parts.hostname, port, parts.path.rstrip("/")
        self._context = context or (ssl.create_default_context() if parts.scheme == "https" else None)
        self._timeout = timeout
        self._headers = {"Content-Type": "application/json", "User-Agent": "interleaf"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._max_idle = MAX_IDLE
        self.forget()

    def forget(self) -> None:
        """Leave open connections to whoever else has them: the parent of a fork."""
        self._lock = threading.Lock()
        self._idle: list[TimedConnection] = []

    def end(self) -> None:
        """Close what is open, and what is in use as soon as it is answered: the thread of a client may come late."""
        with self._lock:
            self._max_idle = 0
        self.close()

    def close(self) -> None:
        """Close what is open and not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def ask(
        self, method: str, path: str, body: bytes | None, fields: Iterable[str], deadline: float | None = None
    ) -> Reply:
        """One request whose success has these fields; `AwayError` where there is no answer, or one that asks to come
        again, or where something else than the service answered: a proxy, a portal, another program.

        `deadline` is in seconds of the monotonic clock; None is `timeout` from now. All requests are harmless to
        repeat, so one that meets a connection which has gone stale is sent again.
        """
        try:
            reply = self._kept_or_fresh(method, path, body, deadline or time.monotonic() + self._timeout)
        except (OSError, HTTPException, ValueError, RecursionError) as problem:
            raise AwayError(f"{type(problem).__name__}: {problem}") from problem
        wanted, data = (set(fields), reply.data) if reply.is_success else ({"code", "message"}, _error(reply.data))
        if not isinstance(data, dict) or not data.keys() >= wanted:
            raise AwayError(f"what answered {reply.status} is not a service of ours")
        return Reply(reply.status, data)

    def _kept_or_fresh(self, method: str, path: str, body: bytes | None, deadline: float) -> Reply:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            try:
                return self._asked(connection, method, path, body, deadline)
            except _STALE:
                self.close()  # those that were idle longer are stale, too
        fresh = TimedConnection(self._host, self._port, self._context)
        return self._asked(fresh, method, path, body, deadline)

    def _asked(self, connection: TimedConnection, method: str, path: str, body: bytes | None, deadline: float) -> Reply:
        connection.deadline = deadline
        try:
            connection.request(method, self._prefix + path, body, self._headers)
            reply = connection.getresponse()
            text = reply.read()
        except BaseException:
            connection.close()
            raise
        if reply.will_close:
            connection.close()
        else:
            self._keep(connection)
        if reply.status >= 500 or reply.status in _AWAY:
            wait = reply.headers.get("Retry-After", "")
            seconds = min(float(wait), MAX_WAIT) if wait.isdecimal() else None
            raise AwayError(f"the service answered {reply.status}", seconds, reply.status)
        return Reply(reply.status, json.loads(text))

    def _keep(self, connection: TimedConnection) -> None:
        with self._lock:
            if len(self._idle) < self._max_idle:
                self._idle.append(connection)
                return
        connection.close()


def _error(data: Any) -> Any:
    return data.get("error") if isinstance(data, dict) else None
