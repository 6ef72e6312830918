"""Several worker processes on one PostgreSQL, which may go away and come back."""

import os
import re
import signal
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from interleaf.analysis.analyze import tally_log
from interleaf.log.arrow import gather_batches
from interleaf.server.monitoring import FOLDER, Metrics
from interleaf.store import open_store
from tests.server.test_serve import ask, serving
from tests.support.services import RANKINGS, SHOES
from tests.support.stand_in import until
from tests.support.stores import address_of, server
from tests.tally.test_tally import contents


def test_workers_share_a_store_and_lose_nothing_when_they_are_told_to_end(tmp_path: Path) -> None:
    address_of_store = address_of("postgres", tmp_path)
    acknowledged: dict[str, list[str]] = {}
    with serving(tmp_path, "--store", address_of_store, "--workers", "2") as (process, address):
        assert answered(address, "/v1/experiments", SHOES | {"window_minutes": 0.01})[0] == 201
        assert answered(address, "/v1/experiments/shoes/start", {})[0] == 200

        def traffic(number: int) -> None:
            for count in range(40):
                name = f"i-{number}-{count}"
                body = {"impression": name, "unit": f"u{count}", "query": f"q{number}", "rankings": RANKINGS}
                status, shown = answered(address, "/v1/experiments/shoes/interleave", body)
                if status == 409:  # the other worker may be a second behind
                    time.sleep(0.2)
                    continue
                assert status in (200, 201)
                acknowledged[name] = shown["documents"]
                event = {"event": f"e-{name}", "impression": name, "rank": 1}
                assert answered(address, "/v1/events", {"events": [event, event]})[0] == 202

        threads = [threading.Thread(target=traffic, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        answers = [metrics_of(address) for _ in range(8)]
        before = pids_of(answers[0])
        os.kill(min(before), signal.SIGKILL)
        until(lambda: len(pids_of(metrics_of(address)) - before) == 1)  # another worker was started
        after = metrics_of(address)
        process.send_signal(signal.SIGTERM)
        process.wait(120)
    for text in answers:  # whichever worker gave it
        assert count_impressions(text) == len(acknowledged)
        assert len(pids_of(text)) == 2
        assert float(re.findall(r'(?m)^interleaf_store_connections{state="open"} (.*)$', text)[0]) >= 2
    assert min(before) not in pids_of(after)  # the gauges of the killed one are left out,
    assert count_impressions(after) == len(acknowledged)  # and its counts are not
    assert len(acknowledged) > 200
    store = open_store(address_of_store)
    rows = [row for batch in store.export("shoes") for row in batch.to_pylist()]
    assert {row["impression"]: row["documents"] for row in rows} == acknowledged
    assert contents(store.tallies("shoes")["click"]) == contents(
        tally_log(gather_batches(store.export("shoes"), 10**6))
    )
    store.close()


def answered(address: str, path: str, body: Any) -> tuple[int, Any]:
    """What is answered; asked again while the store is said to be away: a server that stands still for seconds is."""
    for _ in range(100):
        status, answer = ask(address, "POST", path, body)
        if status != 503:
            break
        time.sleep(0.1)
    return status, answer


def count_impressions(metrics: str) -> float:
    return sum(map(float, re.findall(r"(?m)^interleaf_impressions_total{.*} (.*)$", metrics)))


def pids_of(metrics: str) -> set[int]:
    """The workers whose gauges are there."""
    return set(map(int, re.findall(r'(?m)^interleaf_resident_memory_bytes{pid="(\d+)"} [\d.e+]+$', metrics)))


def metrics_of(address: str) -> str:
    with urllib.request.urlopen(address + "/metrics", timeout=120) as answer:
        return str(answer.read().decode())


def test_a_worker_that_starts_or_was_killed_is_left_out_of_the_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    (tmp_path / "counter_1.db").touch()  # made, and nothing is written yet
    ended = subprocess.Popen(["true"])
    ended.wait()
    gauges = tmp_path / f"gauge_liveall_{ended.pid}.db"
    gauges.touch()
    assert b"interleaf_build_info" in Metrics().text(None)
    assert not gauges.exists()


def test_while_postgres_is_away_the_answer_is_503_and_afterwards_all_is_there(tmp_path: Path) -> None:
    body = {"unit": "u", "rankings": RANKINGS}
    path = "/v1/experiments/shoes/interleave"
    with serving(tmp_path, "--store", address_of("postgres", tmp_path)) as (_, address):
        assert answered(address, "/v1/experiments", SHOES)[0] == 201
        assert answered(address, "/v1/experiments/shoes/start", {})[0] == 200
        assert answered(address, path, body | {"impression": "before"})[0] in (200, 201)
        server().stop()
        try:
            status, answer = ask(address, "POST", path, body | {"impression": "during"})
            assert (status, answer["error"]["code"]) == (503, "store_away")
            assert ask(address, "GET", "/readyz")[0] == 503
            assert ask(address, "GET", "/livez")[0] == 200
        finally:
            server().start()
        assert answered(address, path, body | {"impression": "during"})[0] == 201
        assert answered(address, path, body | {"impression": "before"})[0] == 200
        assert ask(address, "GET", "/v1/experiments/shoes/report")[1]["open"] == 2
