"""The store: grouped writes, and what tallies cost; `python -m benchmarks.store [ADDRESS [ROWS]]`.

Without an address it is SQLite, in a folder of the system's for temporary files: name a path on the disk that matters.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from interleaf.experiment import Experiment, Request, show
from interleaf.report.build import report
from interleaf.serve.writing import Writing
from interleaf.store import opened
from interleaf.store.contract import Event, Impression, Store
from interleaf.store.encoding import encoded
from interleaf.store.tasks import report_settings_of

CALLERS = 64
ROWS = 20_000
OPEN = 10_000
HOUR = 3600 * 1_000_000
Call = tuple[list[Impression], list[Event]]
SHOP = Experiment.of({"name": "shop", "rankers": ["production", "candidate"]})


def tables(address: str | None = None, rows: int = ROWS) -> Iterator[str]:
    """Writing, then reading while some are open and more and more are folded."""
    with tempfile.TemporaryDirectory() as folder:
        store = opened(address or Path(folder) / "store.db")
        store.create(SHOP, 0, "benchmark")
        store.start("shop", 0, "benchmark")
        try:
            yield from _written(store, rows)
            yield from _tallied(store, rows)
        finally:
            store.close()


def _written(store: Store, rows: int) -> Iterator[str]:
    made = impressions(rows, "grouped", 0)
    start = time.process_time()
    for one in made[:2000]:
        encoded(one.row)
    yield f"\nThe store: {CALLERS} callers, one impression or event each at a time, durable when answered"
    yield f"{'encode an impression':28}{(time.process_time() - start) / 2000 * 1e6:>12,.1f} microseconds"
    kinds: dict[str, list[Call]] = {
        "impressions": [([one], []) for one in made],
        "events": [([], [_click(one)]) for one in made],
    }
    for name, calls in kinds.items():
        wall, processor, latencies = asyncio.run(_grouped(store, calls))
        cuts = statistics.quantiles(latencies, n=100)
        yield (
            f"{name:28}{rows / wall:>12,.0f} a second{rows / processor:>12,.0f} a second of processor time"
            f"{cuts[49] * 1e3:>10.1f} ms median{cuts[98] * 1e3:>10.1f} ms p99"
        )


async def _grouped(store: Store, calls: list[Call]) -> tuple[float, float, list[float]]:
    writer, waiting, latencies = Writing(store), iter(calls), list[float]()

    async def caller() -> None:
        for shown, events in waiting:
            start = time.perf_counter()
            await writer.write(shown, events)
            latencies.append(time.perf_counter() - start)

    wall, processor = time.perf_counter(), time.process_time()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    spent = time.perf_counter() - wall, time.process_time() - processor
    await writer.close()
    return *spent, latencies


def _tallied(store: Store, rows: int) -> Iterator[str]:
    yield f"\nA tally of {OPEN:,} open impressions and so many folded ones; the least of five"
    yield f"{'folded':>12}{'tallies, ms':>14}{'and report, ms':>16}{'folded a second':>18}"
    _fill(store, impressions(OPEN, "open", 10 * HOUR))
    folded = 0
    for more in (rows, 9 * rows):
        spent = 0.0
        for number in range(0, more, rows // 2):
            if folded:  # else those of the writers are there
                _fill(store, impressions(rows // 2, f"{folded}-{number}", 0))
            start = time.perf_counter()
            while store.fold(9 * HOUR):
                pass
            spent += time.perf_counter() - start
        folded += more
        yield f"{folded:>12,}{_least(store, False):>14.1f}{_least(store, True):>16.1f}{more / spent:>18,.0f}"


def _fill(store: Store, made: list[Impression]) -> None:
    for place in range(0, len(made), 1000):
        part = made[place : place + 1000]
        store.write(part, [_click(one) for one in part])


def _least(store: Store, with_report: bool) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        for tally in store.tallies("shop").values():
            if with_report:
                report(tally, report_settings_of(SHOP))
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def impressions(count: int, name: str, time: int) -> list[Impression]:
    """Lists of ten of a hundred documents, a unit for every third."""
    chance = random.Random(name)
    documents = [f"document-{number}" for number in range(100)]
    samples = []
    for number in range(min(count, 1000)):
        rankings = {ranker: chance.sample(documents, k=10) for ranker in SHOP.rankers}
        samples.append(show(SHOP, 1, Request("", f"unit-{number}", "trail shoes", rankings)).row)
    found = []
    for number in range(count):
        unit, row = f"{name}-{number // 3}", samples[number % 1000]
        assert row is not None
        found.append(Impression(f"{name}-{number}", "shop", 1, unit, time + number, time + number + HOUR, row))
    return found


def _click(one: Impression) -> Event:
    return Event(f"click-{one.id}", "click", one.time + 5_000_000, one.time + 5_000_000, one.id, rank=1 + one.time % 3)


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else None
    for line in tables(given, int(sys.argv[2]) if len(sys.argv) > 2 else ROWS):
        print(line, flush=True)
