"""What the number of experiments costs; `python -m benchmarks.experiments 100 5000 100000 [--store postgresql://...]`.

One experiment in a hundred runs, one in ten is a draft, the rest are stopped. Times are medians, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from starlette.testclient import TestClient

from interleaf.experiment import Experiment, Request, show
from interleaf.server.app import create_app
from interleaf.server.service import ServiceSettings
from interleaf.store import experiments, open_store
from interleaf.store.records import DRAFT, RUNNING, STOPPED, Event, StoredImpression
from interleaf.store.sql import SqlStore

START = 1_800_000_000 * 1_000_000
MINUTE = 60_000_000
RUNS = 9


def rows(numbers: list[int], address: str | None) -> Iterator[str]:
    """A line for each number of experiments."""
    columns = (
        "experiments",
        "event by unit",
        "list page",
        "bytes",
        "search",
        "common word",
        "last page",
        "fold",
        "delete unit",
    )
    yield " ".join(f"{name:>13}" for name in columns)
    for number in numbers:
        with tempfile.TemporaryDirectory() as folder:
            store = open_store(address or Path(folder) / "store.db")
            try:
                yield _measured(store, number)
            finally:
                store.close()


def _measured(store: SqlStore, number: int) -> str:
    _fill(store, number)
    settings = store.experiment("experiment-0").settings
    shown = [_impression(settings, place) for place in range(200)]
    store.write(shown, [])
    events = iter(range(10**9))

    def tell() -> None:
        place = next(events)
        document = shown[place % 200].row["documents"][0]
        unit = shown[place % 200].unit
        fates = store.write([], [Event(f"e{place}", "click", START, START, unit=unit, document=document)])[1]
        assert fates == ["accepted"]

    app = create_app(store, lambda: START + MINUTE, ServiceSettings(fold_seconds=3600.0))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        size = len(client.get("/").content)
        times = [
            _median(tell),
            _median(lambda: client.get("/")),
            _median(lambda: client.get("/", params={"search": "needle"})),
            _median(lambda: client.get("/", params={"search": "production candidate"})),
            _median(lambda: client.get("/", params={"page": "1000000"})),
            _median(lambda: store.fold(START)),
            _median(lambda: store.forget("nobody")),
        ]
    event, page, *rest = (f"{1000 * seconds:.1f}" for seconds in times)
    figures = (f"{number:,}", event, page, f"{size:,}", *rest)
    return " ".join(f"{figure:>13}" for figure in figures)


def _fill(store: SqlStore, number: int) -> None:
    """Experiments without traffic, as many rows as `create` and `start` would leave, but in one transaction."""
    with store._database.writing() as transaction:
        for place in range(number):
            name, state = f"experiment-{place}", _state(place)
            settings = Experiment.of(
                {"name": name, "rankers": ["production", f"candidate-{place}"], "attribution": "last_impression",
                 "owner": "needle" if place % 1000 == 7 else f"team {place % 20}"}
            )  # fmt: skip
            transaction.change(
                "INSERT INTO experiments (name, version, state, created, started) VALUES (?, 1, ?, ?, ?)",
                *(name, state, START + place, None if state == DRAFT else START - MINUTE),
            )
            experiments.index(transaction, name, settings.words)
            transaction.change(
                "INSERT INTO versions (experiment, version, settings) VALUES (?, 1, ?)",
                *(name, json.dumps(settings.to_dict())),
            )
            transaction.change(
                "INSERT INTO history (experiment, time, version, what, who, note) VALUES (?, ?, 1, 'created', '', '')",
                *(name, START),
            )


def _state(place: int) -> str:
    return RUNNING if place % 100 == 0 else DRAFT if place % 10 == 1 else STOPPED


def _impression(settings: Experiment, place: int) -> StoredImpression:
    rankings = {name: [f"d{rank}" for rank in range(10)] for name in settings.rankers}
    shown = show(settings, 1, Request(f"i{place}", f"u{place}", "q", rankings))
    assert shown.row is not None
    return StoredImpression(f"i{place}", settings.name, 1, f"u{place}", START, START + 30 * MINUTE, shown.row)


def _median(work: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, default=[100, 5000, 100_000])
    parser.add_argument("--store", help="of PostgreSQL, and empty; SQLite in a temporary folder by default")
    options = parser.parse_args()
    for line in rows(options.numbers, options.store):
        print(line, flush=True)
