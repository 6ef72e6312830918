"""A service in tests: over a real SQLite store, with a clock that the test turns."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import uvicorn
from starlette.testclient import TestClient

from interleaf.log import schema
from interleaf.server.app import create_app
from interleaf.server.connection import Connection
from interleaf.server.service import ServiceSettings
from interleaf.store import open_store
from tests.support.stand_in import until

START = 1_800_000_000_000_000  # microseconds since 1970
MINUTE = 60_000_000
SHOES: dict[str, Any] = {"name": "shoes", "rankers": ["production", "candidate"], "k": 3}
OLD, NEW = list("abcdefgh"), list("hgfedcba")
RANKINGS = {"production": OLD, "candidate": NEW}


class Turned:
    """A clock that stands still until it is turned."""

    def __init__(self) -> None:
        self.now, self._jumped = START, 0

    def __call__(self) -> int:
        return self.now

    def jump(self, time: int) -> None:
        """Set the clock; less time than that has passed."""
        self.now += time
        self._jumped += time

    def monotonic(self) -> int:
        """What has passed since the start, whatever the clock was set to."""
        return self.now - self._jumped


class Live:
    """A running service, asked over HTTP; with keys, if any were made."""

    def __init__(self, client: TestClient, store: Any, clock: Turned) -> None:
        self.client, self.store, self.clock = client, store, clock
        self.keys: dict[str, str] = {}

    def ask(self, method: str, path: str, body: Any = None, key: str | None = None, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        if body is not None:
            more["json"] = body
        return self.client.request(method, path, headers=headers | more.pop("headers", {}), **more)

    def make(self, start: bool = True, key: str | None = None, **settings: Any) -> None:
        made = self.ask("POST", "/v1/experiments", SHOES | settings, key)
        assert made.status_code == 201, made.text
        if start:
            name = settings.get("name", SHOES["name"])
            assert self.ask("POST", f"/v1/experiments/{name}/start", key=key).status_code == 200

    def show(self, unit: str = "user-7", query: str = "trail", key: str | None = None, **more: Any) -> Any:
        body = {"unit": unit, "query": query, "rankings": RANKINGS} | more
        return self.ask("POST", "/v1/experiments/shoes/interleave", body, key)

    def tell(self, *events: dict[str, Any], key: str | None = None, **more: Any) -> Any:
        return self.ask("POST", "/v1/events", {"events": list(events)} | more, key)

    def report(self, **more: Any) -> Any:
        return self.ask("GET", "/v1/experiments/shoes/report", **more)

    def make_keys(self) -> None:
        for role in ("ingest", "read", "admin"):
            _, self.keys[role] = self.store.add_key(role, role, START)
        self.client.app.state.service.access.forget()  # type: ignore[attr-defined]


@contextmanager
def live(folder: Path, **settings: Any) -> Iterator[Live]:
    """A service over a fresh store."""
    store, clock = open_store(folder / "store.sqlite"), Turned()
    rarely = dict.fromkeys(("fold_seconds", "watch_seconds", "send_seconds"), 3600.0)
    app = create_app(store, clock, ServiceSettings(**rarely | settings), clock.monotonic)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield Live(client, store, clock)
    store.close()


def click(shown: dict[str, Any], rank: int = 1, **more: Any) -> dict[str, Any]:
    """An event on a shown list."""
    return {"impression": shown["impression"], "rank": rank} | more


def exported(service: Live, **more: Any) -> Any:
    """The log of the experiment, as the service gives it."""
    answer = service.ask("GET", "/v1/experiments/shoes/log", **more)
    assert answer.status_code == 200
    table = pq.read_table(io.BytesIO(answer.content))
    assert table.schema.equals(schema.SCHEMA)
    return table


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """The same service on a port of this machine, in a thread; its address."""
    options: dict[str, Any] = {"log_config": None, "access_log": False, "timeout_keep_alive": 600}
    server = uvicorn.Server(uvicorn.Config(app, port=0, http=Connection, **options))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive(), 600)  # it may have to compile
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
