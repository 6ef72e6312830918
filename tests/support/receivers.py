"""A receiver of webhooks: a real HTTP server on this machine, which answers as a test tells it to."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


class Received(NamedTuple):
    """A request that came."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def event(self) -> Any:
        return json.loads(self.body)

    def is_signed(self, key: bytes = KEY) -> bool:
        """Whether the first signature is that of the key, computed by the text of the specification."""
        content = b".".join(
            [self.headers["webhook-id"].encode(), self.headers["webhook-timestamp"].encode(), self.body]
        )
        expected = b"v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256))
        return hmac.compare_digest(expected, self.headers["webhook-signature"].split()[0].encode())


class Receiver:
    """What came, and how to answer: `answer` writes to the connection."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answer: Callable[[BaseHTTPRequestHandler], object] = answered(204)
        self.ended = threading.Event()
        self.url = ""

    @property
    def ids(self) -> list[str]:
        return [one.headers["webhook-id"] for one in self.received]

    @property
    def kinds(self) -> list[str]:
        return [one.event["type"] for one in self.received]


def answered(status: int, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """Answer with this status."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()

    return answer


def answered_endlessly(handler: BaseHTTPRequestHandler) -> None:
    """Answer 200, with a body that does not end as long as somebody reads it."""
    handler.send_response(200)
    handler.end_headers()
    for _ in range(10_000):
        handler.wfile.write(b"x" * 100_000)


def answered_byte_by_byte(handler: BaseHTTPRequestHandler) -> None:
    """Send a header without an end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    for _ in range(600):
        handler.wfile.write(b"x")
        time.sleep(0.05)


@contextmanager
def receiving(context: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Iterator[Receiver]:
    """A receiver that listens, with TLS if there is a context."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.received.append(Received(self.path, dict(self.headers.items()), body))
            with suppress(OSError):  # the sender may not wait
                receiver.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A sender that refused the certificate."""

    server = Server((host, 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    receiver.url = f"http{'s' * (context is not None)}://{host}:{server.server_address[1]}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
