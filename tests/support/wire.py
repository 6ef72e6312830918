"""A service on a port, asked byte by byte."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from interleaf.experiment import Experiment
from interleaf.server.app import create_app
from interleaf.server.service import ServiceSettings
from interleaf.store import open_store
from tests.support.services import RANKINGS, SHOES, START, Turned, listening

LIST, EVENTS = "/v1/experiments/shoes/interleave", "/v1/events"
JSON = {"Content-Type": "application/json"}


class Served:
    """A service on a port, with a running experiment."""

    def __init__(self, stack: ExitStack, folder: Path, key: str | None = None, **options: Any) -> None:
        self.store = store = open_store(folder / "store.sqlite")
        stack.callback(store.close)
        store.create(Experiment.of(SHOES), START, "test")
        store.start("shoes", START, "test")
        self.secret = store.add_key(key, key, START)[1] if key else None
        app = create_app(store, Turned(), ServiceSettings(**{"fold_seconds": 3600.0, "max_body": 5000} | options))
        self.service = app.state.service
        self.url = stack.enter_context(listening(app))
        self.port = int(self.url.rpartition(":")[2])

    def connection(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=120)

    def ask(self, *pieces: bytes, answers: int = 1) -> list[bytes]:
        """What is answered to these bytes, sent piece by piece, without the date."""
        with self.connection() as connection:
            for piece in pieces:
                connection.sendall(piece)
            return [without_date(answer) for answer in read(connection, answers)]


def read(connection: socket.socket, answers: int) -> Iterator[bytes]:
    """So many answers, or as many as come before the connection is closed."""
    data = b""
    while answers:
        head, end, rest = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0) if end else 0
        if end and len(rest) >= length:
            data = rest[length:]
            answers -= not head.startswith(b"HTTP/1.1 100")
            yield head + end + rest[:length]
            continue
        more = connection.recv(65536)
        if not more:
            return
        data += more


def without_date(answer: bytes) -> bytes:
    return re.sub(rb"date: [^\r]*\r\n", b"", answer)


def raw(path: str, body: bytes | dict[str, Any], *, version: str = "1.1", **more: str | None) -> bytes:
    """A request, with these headers besides, or without those that are None."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers: dict[str, str | None] = {"Host": "127.0.0.1", **JSON, "Content-Length": str(len(data))}
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    lines = [f"{name}: {value}\r\n" for name, value in headers.items() if value is not None]
    return f"POST {path} HTTP/{version}\r\n{''.join(lines)}\r\n".encode() + data


def wanted(number: int = 0, **more: Any) -> dict[str, Any]:
    return {"impression": f"i-{number}", "unit": f"u-{number}", "query": "trail", "rankings": RANKINGS} | more


def clicked(number: int = 0, **more: Any) -> dict[str, Any]:
    return {"events": [{"event": f"e-{number}", "impression": f"i-{number}", "rank": 1}]} | more
