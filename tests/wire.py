"""Services on a port, asked byte by byte: behind the short way, and behind the long way alone."""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from interleaf.experiment import Experiment
from interleaf.serve.app import create_app
from interleaf.serve.settings import Settings
from interleaf.serve.short_way import ShortWay
from interleaf.store import opened
from interleaf.store.contract import Store
from tests.services import RANKINGS, SHOES, START, Turned, listening

LIST, EVENTS = "/v1/experiments/shoes/interleave", "/v1/events"
JSON = {"Content-Type": "application/json"}


class Served:
    """A service on a port, and which requests came through its application."""

    def __init__(self, stack: ExitStack, store: Store, protocol: type, **options: Any) -> None:
        self.store, self.long_way = store, list[str]()
        app = create_app(store, Turned(), Settings(**{"fold_seconds": 3600.0, "most_body": 5000} | options))
        self.service = app.state.service

        async def watched(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                self.long_way.append(scope["path"])
            await app(scope, receive, send)

        self.url = stack.enter_context(listening(watched, protocol))
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


class Both(NamedTuple):
    """The same store twice, behind the short way and behind the long way alone; both have been asked before."""

    short: Served
    long: Served
    secret: str | None


def both(stack: ExitStack, folder: Path, key: str | None = None, **options: Any) -> Both:
    store = stored(folder / "one.sqlite")
    secret = store.add_key(key, key, START)[1] if key else None
    store.close()
    shutil.copy(folder / "one.sqlite", folder / "other.sqlite")
    found = []
    for name, protocol in (("one", ShortWay), ("other", HttpToolsProtocol)):
        again = opened(folder / f"{name}.sqlite")
        stack.callback(again.close)
        found.append(Served(stack, again, protocol, **options))
        remember(found[-1], secret)
    return Both(found[0], found[1], secret)


def stored(path: Path) -> Store:
    store = opened(path)
    store.create(Experiment.of(SHOES), START, "test")
    store.start("shoes", START, "test")
    return store


def remember(one: Served, secret: str | None = None) -> None:
    """Ask once, so that everything is known."""
    one.ask(raw(LIST, wanted(-1), Authorization=f"Bearer {secret}" if secret else None))
    one.long_way.clear()
