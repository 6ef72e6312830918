"""A stand-in for the service: real HTTP, lists by the same code, everything it was told in plain dictionaries."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from interleaf.experiment import Experiment, Request, show

KEY = "il_ingest_test"


class StandIn:
    """Answers like the service; `trouble` says instead how to answer, `stop` and `start` make outages."""

    def __init__(self, **settings: Any) -> None:
        given = {"name": "shoes", "rankers": ["production", "candidate"], "k": 3} | settings
        self.settings, self.version, self.state = Experiment.of(given), 1, "running"
        self.impressions: dict[str, dict[str, Any]] = {}
        self.events: dict[str, dict[str, Any]] = {}
        self.unmatched: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str]] = []
        self.heard: list[float] = []  # when requests came, whatever became of them
        self.connections = 0
        self.trouble: tuple[int, dict[str, str]] | float | bytes | None = None
        self.troubled: Callable[[str, str], bool] = lambda method, path: True
        self.key, self._place = KEY, reserved()
        self._port = self._place.getsockname()[1]
        show(self.settings, 1, Request("warm", "warm", "warm", {name: ["a", "b"] for name in self.settings.rankers}))
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        class Handler(_Handler):
            service = self

        self._server = _Server(("127.0.0.1", self._port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        """Refuse connections, and cut those that are open."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        for connection in list(self._server.open):
            connection.close_connection = True
            with suppress(OSError):  # it has ended meanwhile
                connection.connection.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        self.stop()
        self._place.close()

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.asked.append((method, path))
        if path == "/v1/events":
            return 202, self._take(body["events"])
        name = unquote(path.split("/")[3])
        if name != self.settings.name:
            return 404, _problem("unknown", f"there is no experiment {name!r}", "name")
        if method == "GET":
            plain = {"settings": self.settings.to_dict(), "version": self.version, "state": self.state}
            return 200, {"name": name, "history": []} | plain
        return self._list(body)

    def _list(self, body: dict[str, Any]) -> tuple[int, Any]:
        if self.state != "running":
            return 409, _problem("wrong_state", f"the experiment is {self.state}")
        if unknown := sorted(set(body["rankings"]) - set(self.settings.rankers)):
            return 422, _problem("invalid", f"the experiment has no ranker {unknown[0]!r}", "rankings")
        name, page = body["impression"], body["page"]
        if page > 1 and name not in self.impressions:
            return 404, _problem("unknown", "no first page has this impression id", "impression")
        fixed = {int(rank): document for rank, document in body.get("fixed", {}).items()}
        request = Request(name, body.get("unit"), body.get("query"), body["rankings"], body.get("k"), page, fixed)
        version = body.get("version") or self.version
        shown = show(self.settings, version, request)
        logged = name if shown.row is not None else None
        status = 200 if logged is None or name in self.impressions else 201
        if logged is not None:
            self.impressions.setdefault(name, body | {"documents": shown.documents})
        answer = {"impression": logged, "documents": shown.documents, "arm": shown.arm, "version": version}
        return status, answer | {"token": None if logged is None else f"token-of-{name}"}

    def _take(self, events: list[dict[str, Any]]) -> dict[str, Any]:
        counts = {"accepted": 0, "repeated": 0, "unmatched": 0}
        for event in events:
            if event["event"] in self.events:
                counts["repeated"] += 1
            elif event.get("impression") in self.impressions:
                counts["accepted"] += 1
                self.events[event["event"]] = event
            else:
                counts["unmatched"] += 1
                self.unmatched.append(event)
        return counts


def _problem(code: str, message: str, field: str | None = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message} | ({"field": field} if field else {})}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        self.open: set[BaseHTTPRequestHandler] = set()
        super().__init__(*arguments)

    def handle_error(self, *arguments: object) -> None:
        """A client that did not wait for the answer, or an outage that cut it."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    service: StandIn
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.service.connections += 1
        self.server.open.add(self)

    def finish(self) -> None:
        self.server.open.discard(self)
        super().finish()

    def do_GET(self) -> None:
        self._do("GET")

    def do_POST(self) -> None:
        self._do("POST")

    def _do(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        trouble = self.service.trouble if self.service.troubled(method, self.path) else None
        self.service.heard.append(time.monotonic())
        if isinstance(trouble, float):
            self.service.asked.append((method, self.path))
            time.sleep(trouble)
        if isinstance(trouble, bytes):
            return self._reply(200, trouble, {})
        if isinstance(trouble, tuple):
            return self._reply(trouble[0], b"<p>trouble</p>", trouble[1])
        if self.headers.get("Authorization") != f"Bearer {self.service.key}":
            status, data = 401, _problem("no_key", "give a key")
        else:
            status, data = self.service.answer(method, self.path, json.loads(body) if body else None)
        return self._reply(status, json.dumps(data).encode(), {})

    def _reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


def reserved() -> socket.socket:
    """A socket with a port that no other process is given, and that a server of ours can have as often as it starts.

    While none listens, connections are refused. It is closed with whoever holds it.
    """
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind(("127.0.0.1", 0))
    return place


def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait for something that another thread or process does."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("it never came to be")
        time.sleep(0.005)


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server of this machine that answers so, in a thread; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
