"""The client and the real service: one list for both, and after an outage everything is in the store exactly once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from interleaf.client import Client
from interleaf.errors import ClientError
from interleaf.experiment import Experiment
from interleaf.server.app import create_app
from interleaf.server.service import ServiceSettings
from interleaf.store import open_store
from interleaf.store.records import INGEST
from interleaf.store.sql import SqlStore
from tests.support.stand_in import reserved, until

RANKINGS = {"production": ["a", "b", "c", "d", "g"], "candidate": ["c", "e", "a", "f", "b"]}
SETTINGS = {"name": "shoes", "rankers": ["production", "candidate"], "k": 3, "holdout": 0.2, "share": 0.8}
SECRET = ServiceSettings(unit_secret=b"0123456789abcdef", queries="hash")


class Live:
    """The service in a thread, on a port that stays."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self._place = reserved()
        self.port = self._place.getsockname()[1]
        now = time.time_ns() // 1000
        store.create(Experiment.of(SETTINGS), now, "test")
        store.start("shoes", now, "test")
        self.key = store.add_key(INGEST, "test", now)[1]
        self.start()

    def start(self) -> None:
        app = create_app(self.store, settings=SECRET)
        config = uvicorn.Config(app, port=self.port, log_config=None, access_log=False, timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        until(lambda: self._server.started or not self._thread.is_alive(), 300)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    def end(self) -> None:
        self.stop()
        self._place.close()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    store = open_store(tmp_path / "store.sqlite")
    live = Live(store)
    yield live
    live.end()
    store.close()


def test_the_service_and_the_client_make_the_same_lists_and_an_outage_loses_nothing(live: Live, tmp_path: Path) -> None:
    units = [f"user-{n}" for n in range(40)]
    with Client(
        f"http://127.0.0.1:{live.port}", live.key, timeout=10, spool=tmp_path / "spool", backoff=(0.05, 0.2)
    ) as client:
        served = [client.interleave("shoes", RANKINGS, unit=unit, query="trail", fixed={2: "ad"}) for unit in units]
        until(lambda: client._known.get("shoes") is not None)
        live.stop()
        composed = [client.interleave("shoes", RANKINGS, unit=unit, query="trail", fixed={2: "ad"}) for unit in units]
        for answer in composed:
            client.click(answer.impression, 1)
        live.start()
        until(lambda: client.status().waiting == 0)
        assert client.status().refused == 0
    assert [(one.arm, one.documents) for one in served] == [(one.arm, one.documents) for one in composed]
    assert {one.arm for one in served} == {"interleaved", "holdout", "outside"}
    rows = [row for batch in live.store.export("shoes") for row in batch.to_pylist()]
    logged = [one for one in (*served, *composed) if one.impression is not None]
    assert sorted(row["impression"] for row in rows) == sorted(one.impression or "" for one in logged)
    clicked = {row["impression"] for row in rows if row["events"]}
    assert clicked == {one.impression for one in composed} - {None}
    assert all(len(row["events"] or []) <= 1 for row in rows)
    assert not {"trail", *units} & {text for row in rows for text in (row["unit"], row["query"])}


def test_pages_go_on_and_an_experiment_that_is_stopped_leaves_the_control(live: Live) -> None:
    with Client(f"http://127.0.0.1:{live.port}", live.key, timeout=10) as client:
        answers = [client.interleave("shoes", RANKINGS, unit=f"user-{n}", query="trail") for n in range(20)]
        for n, first in enumerate(answers):
            second = client.interleave(
                "shoes", RANKINGS, unit=f"user-{n}", query="trail", page=2, impression=first.impression
            )
            assert not set(first.documents) & set(second.documents)
            assert second.arm == first.arm
        live.store.stop("shoes", time.time_ns() // 1000, "test")
        until(lambda: client.interleave("shoes", RANKINGS, unit="user-1").arm == "outside")
        assert client.interleave("shoes", RANKINGS, unit="user-1").documents == ["a", "b", "c"]
        logged = next(one.impression for one in answers if one.impression)
        assert client.click(logged, 1).accepted == 1  # events of what was shown before still count


def test_a_browser_reports_a_click_with_the_token_and_completes_it_with_a_dwell(live: Live) -> None:
    with Client(f"http://127.0.0.1:{live.port}", live.key, timeout=10) as client:
        answers = [client.interleave("shoes", RANKINGS, unit=f"user-{n}", query="trail") for n in range(20)]
    shown, other = [one for one in answers if one.impression is not None][:2]
    click = {"event": "e-1", "impression": shown.impression, "rank": 2, "kind": "click"}
    assert beacon(live, {"events": [click], "token": shown.token}) == (202, 1, 0)
    assert beacon(live, {"events": [click | {"dwell": 12.5}], "token": shown.token}) == (202, 0, 1)
    assert beacon(live, {"events": [click], "token": other.token})[0] == 403
    assert beacon(live, {"events": [click]})[0] == 401
    rows = [row for batch in live.store.export("shoes") for row in batch.to_pylist()]
    (events,) = [row["events"] for row in rows if row["impression"] == shown.impression]
    assert [(event["rank"], event["dwell"]) for event in events] == [(2, 12.5)]


@pytest.mark.parametrize("role", ["ingest", "read"])
def test_a_record_that_the_key_is_not_for_is_set_aside_and_holds_up_no_other(
    live: Live, tmp_path: Path, role: str, caplog: pytest.LogCaptureFixture
) -> None:
    url, spool, now = f"http://127.0.0.1:{live.port}", tmp_path / "spool", time.time_ns() // 1000
    live.store.create(Experiment.of(SETTINGS | {"name": "boots"}), now, "test")
    live.store.start("boots", now, "test")
    with Client(url, live.key, timeout=10, spool=spool) as client:
        for name in ("shoes", "boots"):
            client.interleave(name, RANKINGS, unit="u", query="q")
        until(lambda: len(list(spool.glob("*.settings"))) == 2)
    live.stop()
    with Client(url, live.key, timeout=10, spool=spool, backoff=(600, 600)) as client:
        for name in ("boots", "shoes"):
            for n in range(20):
                client.interleave(name, RANKINGS, unit=f"user-{n}", query="q", impression=f"{name}-{n}")
    records = {file.stem: json.loads(file.read_bytes()) for file in spool.glob("*.json")}
    foreign = {name for name, record in records.items() if record["experiment"] == "boots"}
    waiting = {record["body"]["impression"] for name, record in records.items() if name not in foreign}
    assert foreign
    assert waiting
    live.start()
    key = live.store.add_key(role, "narrow", now, experiment="shoes")[1]
    with Client(url, key, timeout=10, spool=spool, backoff=(0.05, 0.2), refresh=0.1) as client:
        until(lambda: client.status().waiting == 0)
        refused = client.status().refused
        assert refused == len(list(spool.glob("*.bad"))) >= len(foreign)
        for _ in range(3):
            answer = client.interleave("boots", RANKINGS, unit="u", query="q")
            assert (answer.arm, answer.documents, answer.impression) == ("outside", ["a", "b", "c"], None)
        assert (client.status().refused, client.status().away) == (refused + 3, False)
        assert caplog.text.count("experiment 'boots' shows the control") == 1
        if role == "ingest":
            assert refused == len(foreign)
            assert {file.stem for file in spool.glob("*.bad")} == foreign
            rows = [row for batch in live.store.export("shoes") for row in batch.to_pylist()]
            assert {row["impression"] for row in rows} >= waiting
            assert client.interleave("shoes", RANKINGS, unit="u", query="q").version == 1
    with Client(url, key, timeout=10) as client, pytest.raises(ClientError, match=r"403 wrong_(experiment|role)"):
        client.interleave("boots", RANKINGS, unit="u", query="q")


def beacon(live: Live, body: dict[str, Any]) -> tuple[int, int | None, int | None]:
    """The answer to what a browser sends: its status, and how many events were accepted and repeated."""
    connection = HTTPConnection("127.0.0.1", live.port, timeout=10)
    connection.request("POST", "/v1/events", json.dumps(body), {"Content-Type": "text/plain;charset=UTF-8"})
    reply = connection.getresponse()
    data = json.load(reply)
    connection.close()
    return reply.status, data.get("accepted"), data.get("repeated")
