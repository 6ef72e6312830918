"""A running proxy in tests: uvicorn in a thread, as `interleaf proxy` starts it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import uvicorn

from interleaf.proxy.app import ProxyApp
from interleaf.proxy.config_file import parse_config
from interleaf.server.connection import Connection

CONFIG = """
[proxy]
{proxy}

[upstream]
engine = "{engine}"
url = "{url}"
{upstream}

[experiment]
name = "shop"
{experiment}

[requests]
paths = ["{path}"]
{query}
{requests}

[unit]
{unit}

{clicks}

[[rankers]]
name = "production"

[[rankers]]
name = "candidate"
{candidate}
"""
PATCH = 'patch = { query.multi_match.fields = ["title^3", "text"] }'
BODY: dict[str, Any] = {"query": {"multi_match": {"query": "shoes", "fields": ["title", "text"]}}}


@dataclass
class Reply:
    """An answer of the proxy."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def ids(self) -> list[str]:
        data = self.json
        return (
            [hit["_id"] for hit in data["hits"]["hits"]]
            if "hits" in data
            else [d["id"] for d in data["response"]["docs"]]
        )

    @property
    def note(self) -> dict[str, Any]:
        data = self.json
        found: dict[str, Any] = data["ext"]["interleaf"] if "ext" in data else data["interleaf"]
        return found


@dataclass
class RunningProxy:
    """A proxy on a port of this machine."""

    app: ProxyApp
    port: int

    def ask(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, target, body, dict(headers or {}))
            response = connection.getresponse()
            return Reply(response.status, response.getheaders(), response.read())
        finally:
            connection.close()

    def search(self, body: Any = None, unit: str = "user-7", path: str = "/products/_search", **headers: str) -> Reply:
        text = json.dumps(BODY if body is None else body).encode()
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", path, text, {"Content-Type": "application/json", "X-User": unit} | more)

    @property
    def bypassed(self) -> dict[str, int]:
        return dict(self.app.metrics.bypassed)

    @property
    def failures(self) -> dict[str, int]:
        return dict(self.app.metrics.failures)


def config_text(url: str, folder: Path, **parts: str) -> str:
    """A configuration with a log in a folder, changed where `parts` say so."""
    defaults = {
        **dict.fromkeys(("proxy", "upstream", "requests", "clicks"), ""),
        "engine": "opensearch",
        "query": "" if parts.get("engine") == "solr" else 'query = "/query/multi_match/query"',
        "unit": 'header = "X-User"',
        "path": "/products/_search",
        "experiment": f'log = "{folder / "log"}"',
        "candidate": PATCH,
    }
    return CONFIG.format(url=url, **defaults | parts)


@contextmanager
def running_proxy(url: str, folder: Path, **parts: str) -> Iterator[RunningProxy]:
    """A proxy in front of an engine, in a thread."""
    app = ProxyApp(parse_config(config_text(url, folder, **parts), str(folder / "proxy.toml")))
    config = uvicorn.Config(
        app, port=0, http=Connection, log_level="error", access_log=False, server_header=False, date_header=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 10
    while not server.started and time.monotonic() < until:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield RunningProxy(app, port)
    finally:
        server.should_exit = True
        thread.join(10)
