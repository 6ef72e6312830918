"""`interleaf serve` as it is typed: it says where it is, ends when told to, and loses nothing even when killed."""

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from interleaf.analysis.analyze import tally_log
from interleaf.cli import VERBS, main
from interleaf.errors import DataError
from interleaf.log.arrow import gather_batches
from interleaf.store import open_store
from tests.support.services import RANKINGS, SHOES
from tests.support.stand_in import reserved, until
from tests.tally.test_tally import contents

EXAMPLE = next(verb.example for verb in VERBS if verb.name == "serve")


@contextmanager
def serving(folder: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The example of `interleaf serve --help` on a port that is free; the process, and its address."""
    place = reserved()  # until it has ended: no other process is given this port
    port = place.getsockname()[1]
    words = EXAMPLE.replace("8080", str(port)).split()
    command = [str(Path(sys.executable).with_name(words[0])), *words[1:], *more]
    server = subprocess.Popen(
        command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: server.poll() is not None or answers(address), 300)
        yield server, address
    finally:
        with suppress(ProcessLookupError):  # with its workers, who have the pipes, too
            os.killpg(server.pid, signal.SIGKILL)
        server.communicate()
        place.close()


def answers(address: str) -> bool:
    try:
        return ask(address, "GET", "/healthz")[0] == 200
    except OSError:
        return False


def ask(address: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_it_says_where_it_is_and_ends_when_told_to(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, address):
        assert ask(address, "POST", "/v1/experiments", SHOES)[0] == 201
        assert ask(address, "POST", "/v1/experiments/shoes/start")[0] == 200
        status, shown = ask(address, "POST", "/v1/experiments/shoes/interleave", {"rankings": RANKINGS, "unit": "u"})
        server.send_signal(signal.SIGTERM)
        out, err = server.communicate(timeout=60)
    assert status == 201
    assert server.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["interleaf.sqlite"]  # closed: nothing stands beside it
    assert out == f"interleaf serves {address}/ from interleaf.sqlite\n"
    lines = [json.loads(line) for line in err.splitlines()]
    assert {"ready", "stopped", "created", "started"} <= {line["what"] for line in lines}
    store = open_store(tmp_path / "interleaf.sqlite")
    assert store.row(shown["impression"]) is not None
    store.close()


def test_logs_hold_nothing_of_people(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, address):
        ask(address, "POST", "/v1/experiments", SHOES)
        ask(address, "POST", "/v1/experiments/shoes/start")
        body = {"rankings": RANKINGS, "unit": "very-private", "query": "embarrassing"}
        ask(address, "POST", "/v1/experiments/shoes/interleave", body)
        ask(address, "POST", "/v1/experiments/shoes/interleave", body | {"k": "wrong"})
        server.send_signal(signal.SIGTERM)
        out, err = server.communicate(timeout=60)
    assert "private" not in out + err
    assert "embarrassing" not in out + err


def test_a_port_that_is_taken_is_no_traceback(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, address), serving(tmp_path, "--port", address.rpartition(":")[2]) as (second, _):
        out, err = second.communicate(timeout=60)
    assert second.returncode == 2
    assert out == ""
    assert re.fullmatch(r"interleaf serve: cannot listen on 127.0.0.1, port \d+: .*; give another --port\n", err)


@pytest.mark.parametrize("action", ["list", "revoke abc"])
def test_keys_of_a_store_that_is_not_there_make_none(
    action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", *action.split(), "--store", str(tmp_path / "nope.sqlite")]) == 2
    assert "there is no store" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "log.parquet").write_bytes(b"PAR1" * 500)
    with pytest.raises(DataError, match="not an SQLite database; give another file"):
        open_store(tmp_path / "log.parquet")


class Traffic(threading.Thread):
    """Sends impressions and clicks until the server is gone; remembers what was acknowledged."""

    def __init__(self, address: str, number: int, round_: int) -> None:
        super().__init__()
        self._address, self._name = address, f"{round_}-{number}"
        self.impressions: dict[str, list[str]] = {}
        self.events: set[str] = set()

    def run(self) -> None:
        try:
            for count in range(100_000):
                name = f"i-{self._name}-{count}"
                body = {"impression": name, "unit": f"user-{count % 50}", "query": f"q{count}", "rankings": RANKINGS}
                status, shown = ask(self._address, "POST", "/v1/experiments/shoes/interleave", body)
                assert status in (200, 201)
                self.impressions[name] = shown["documents"]
                event: dict[str, Any] = {"event": f"e-{name}", "impression": name, "rank": 1 + count % 3}
                status, taken = ask(self._address, "POST", "/v1/events", {"events": [event]})
                assert status == 202
                assert taken["accepted"] + taken["repeated"] + taken["unmatched"] == 1
                self.events.add(event["event"])  # accepted, or kept apart where it came after the short window
        except (OSError, ValueError, HTTPException):
            return  # the server was killed in the middle of an answer


@pytest.mark.parametrize("rounds", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_in_the_middle_of_load_it_has_everything_that_it_acknowledged_once(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(7)
    impressions: dict[str, list[str]] = {}
    events: set[str] = set()
    for round_ in range(rounds):
        with serving(tmp_path) as (server, address):
            if round_ == 0:
                assert ask(address, "POST", "/v1/experiments", SHOES | {"window_minutes": 0.02})[0] == 201
                assert ask(address, "POST", "/v1/experiments/shoes/start")[0] == 200
            load = [Traffic(address, number, round_) for number in range(8)]
            for one in load:
                one.start()
            until(lambda load=load: sum(len(one.impressions) for one in load) > 20)  # type: ignore[misc]
            time.sleep(0.1 + 0.4 * chance.random())
            if round_ == rounds - 1:  # folding begins when a server does, with what those before it have shown
                until(lambda: is_folded(tmp_path / "interleaf.sqlite"))
            os.kill(server.pid, signal.SIGKILL)
            for one in load:
                one.join()
                impressions |= one.impressions
                events |= one.events
    assert len(impressions) > 20 * rounds
    _check(tmp_path / "interleaf.sqlite", impressions, events)


def is_folded(path: Path) -> bool:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as beside:  # one who reads is in nobody's way
        return bool(beside.execute("SELECT 1 FROM impressions WHERE folded = 1 LIMIT 1").fetchall())


def _check(path: Path, impressions: dict[str, list[str]], events: set[str]) -> None:
    """Every acknowledged row is there once; the folded sums and the open rows are those of a recount."""
    store = open_store(path)
    rows = [row for batch in store.export("shoes") for row in batch.to_pylist()]
    assert len({row["impression"] for row in rows}) == len(rows)
    shown = {row["impression"]: row["documents"] for row in rows}
    assert impressions.items() <= shown.items()
    there = [event["event"] for row in rows for event in row["events"]]
    assert len(set(there)) == len(there)
    apart = sum(store.counts("shoes").apart.values())
    assert len(events - set(there)) <= apart
    recount = tally_log(gather_batches(store.export("shoes"), 10**6))
    assert contents(store.tallies("shoes")["click"]) == contents(recount)
    assert store.counts("shoes").folded > 0
    store.close()
