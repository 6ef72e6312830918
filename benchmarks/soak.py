"""Memory of `interleaf serve` over SQLite under a mixed load; `python -m benchmarks.service --soak SECONDS`.

Connections ask for lists and report a click on every second one with its token, as browsers do; one more reads the
report, the list of experiments and the metrics again and again. Impressions close after a minute, so that they are
folded during the run.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from benchmarks.service import REQUESTS, connect, post, running_command

CONNECTIONS = 24
STEP = 30.0  # seconds between two lines
PAUSE = 2.0  # seconds between two reports
WATCHED = ("/v1/experiments/bench/report", "/", "/metrics")
SERVE = ("-c", "import sys; from interleaf.cli import main; sys.exit(main(sys.argv[1:]))", "serve")
UNLIMITED = ("--max-requests", "1e9", "--max-browser-requests", "1e9")


def soak(seconds: float) -> Iterator[str]:
    """Resident memory every thirty seconds, and its slope over the last half."""
    points = list[tuple[float, float]]()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as generator:
        store = str(Path(folder) / "store.sqlite")
        _start_experiment(store)
        with running_command([*SERVE, "--store", store, *UNLIMITED, "--port"]) as server:
            counts, began = Counter[str](), time.monotonic()
            yield f"\n{'seconds':>8}{'lists':>12}{'clicks':>12}{'reports':>10}{'resident, MiB':>16}"
            load = generator.submit(asyncio.run, _all_connections(server.port, began + seconds, counts))
            while not load.done():
                elapsed, memory = time.monotonic() - began, server.memory()
                points.append((elapsed, memory))
                numbers = f"{counts['lists']:12,}{counts['clicks']:12,}{counts['reports']:10,}"
                yield f"{elapsed:8.0f}{numbers}{memory:16.1f}"
                time.sleep(STEP)
            load.result()
    half = [point for point in points if point[0] >= seconds / 2]
    if len(half) > 1:
        slope = statistics.linear_regression(*zip(*half, strict=True)).slope
        yield f"slope over the last half: {60 * slope:+.2f} MiB a minute"


def _start_experiment(address: str) -> None:
    from interleaf.experiment import Experiment
    from interleaf.store import open_store

    settings = {"name": "bench", "rankers": ["production", "candidate"], "window_minutes": 1, "by": ["device"]}
    with closing(open_store(address)) as store:
        store.create(Experiment.of(settings), 0, "benchmark")
        store.start("bench", 0, "benchmark")


async def _all_connections(port: int, until: float, counts: Counter[str]) -> None:
    people = (_people(port, 83 * number, until, counts) for number in range(CONNECTIONS))
    await asyncio.gather(_watcher(port, until, counts), *people)


async def _people(port: int, number: int, until: float, counts: Counter[str]) -> None:
    connection = await connect(port)
    while time.monotonic() < until:
        shown = json.loads(await connection.ask(REQUESTS[number % len(REQUESTS)]))
        counts["lists"] += 1
        if number % 2:
            click = {"impression": shown["impression"], "kind": "click", "rank": 1 + number % 7}
            await connection.ask(post("/v1/events", {"events": [click], "token": shown["token"]}))
            counts["clicks"] += 1
        number += 1
    connection.close()


async def _watcher(port: int, until: float, counts: Counter[str]) -> None:
    connection = await connect(port)
    while time.monotonic() < until:
        for path in WATCHED:
            await connection.ask(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        counts["reports"] += 1
        await asyncio.sleep(PAUSE)
    connection.close()
