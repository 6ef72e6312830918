"""The store: grouped writes, and what tallies cost; `python -m benchmarks.store [ADDRESS [ROWS]]`.

Without an address it is SQLite, in a folder of the system's for temporary files: name a path on the disk that matters.
With `--report N ...` it is what one whole answer with the report costs, of N folded impressions and some open ones.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from interleaf.experiment import Experiment, Request, show
from interleaf.report.build import report
from interleaf.server.write_queue import WriteQueue
from interleaf.store import open_store
from interleaf.store.codec import encode_row
from interleaf.store.fold import FoldedSums, report_settings_of, task_of
from interleaf.store.records import Event, StoredImpression
from interleaf.store.sql import SqlStore

if TYPE_CHECKING:
    from starlette.testclient import TestClient

CALLERS = 64
ROWS = 20_000
OPEN = 10_000
COPIES = 10  # of them, folded at a time
READS = 21
HOUR = 3600 * 1_000_000
NOW = 10**5 * HOUR
SHOP = Experiment.of({"name": "shop", "rankers": ["production", "candidate"]})


def tables(address: str | None = None, rows: int = ROWS) -> Iterator[str]:
    """WriteQueue, then reading while some are open and more and more are folded."""
    with _begun(address) as store:
        yield from _written(store, rows)
        yield from _tallied(store, rows)


@contextmanager
def _begun(address: str | None) -> Iterator[SqlStore]:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(address or Path(folder) / "store.db")
        store.create(SHOP, 0, "benchmark")
        store.start("shop", 0, "benchmark")
        try:
            yield store
        finally:
            store.close()


def _written(store: SqlStore, rows: int) -> Iterator[str]:
    made = impressions(rows, "grouped", 0)
    start = time.process_time()
    for one in made[:2000]:
        encode_row(one.row)
    yield f"\nThe store: {CALLERS} callers, one impression or event each at a time, durable when answered"
    yield f"{'encode an impression':28}{(time.process_time() - start) / 2000 * 1e6:>12,.1f} microseconds"
    kinds: dict[str, Sequence[StoredImpression | Event]] = {
        "impressions": [replace(one, parts=encode_row(one.row)) for one in made],
        "events": [_click(one) for one in made],
    }
    for name, items in kinds.items():
        wall, processor, latencies = asyncio.run(_grouped(store, items))
        cuts = statistics.quantiles(latencies, n=100)
        yield (
            f"{name:28}{rows / wall:>12,.0f} a second{rows / processor:>12,.0f} a second of processor time"
            f"{cuts[49] * 1e3:>10.1f} ms median{cuts[98] * 1e3:>10.1f} ms p99"
        )


async def _grouped(store: SqlStore, items: Sequence[StoredImpression | Event]) -> tuple[float, float, list[float]]:
    writer, waiting, latencies = WriteQueue(store), iter(items), list[float]()

    async def caller() -> None:
        for one in waiting:
            start = time.perf_counter()
            await (writer.put(one) if isinstance(one, StoredImpression) else writer.put_events([one]))
            latencies.append(time.perf_counter() - start)

    wall, processor = time.perf_counter(), time.process_time()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    spent = time.perf_counter() - wall, time.process_time() - processor
    await writer.close()
    return *spent, latencies


def _tallied(store: SqlStore, rows: int) -> Iterator[str]:
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


def _fill(store: SqlStore, made: list[StoredImpression]) -> None:
    for place in range(0, len(made), 1000):
        part = made[place : place + 1000]
        store.write(part, [_click(one) for one in part])


def _least(store: SqlStore, with_report: bool) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        for tally in store.tallies("shop").values():
            if with_report:
                report(tally, report_settings_of(SHOP))
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def report_tables(address: str | None, sizes: list[int]) -> Iterator[str]:
    """What one whole answer with the report costs, stores of several sizes taking turns.

    Of the answer before, nothing is remembered but sums.
    """
    yield f"\nGET /v1/experiments/shop/report of {OPEN:,} open impressions and so many folded ones; medians of {READS}"
    yield f"{'folded':>12}{'clock, ms':>14}{'processor, ms':>16}"
    with ExitStack() as stack:
        clients = [(folded, stack.enter_context(_answering(address, folded))) for folded in sizes]
        spent: dict[int, list[tuple[float, float]]] = {folded: [] for folded in sizes}
        for _ in range(1 + READS):
            for folded, client in clients:
                client.app.state.service.reports._cache.clear()  # type: ignore[attr-defined]
                clock, processor = time.perf_counter(), time.process_time()
                client.get("/v1/experiments/shop/report").raise_for_status()
                spent[folded].append((time.perf_counter() - clock, time.process_time() - processor))
    for folded, (_first, *times) in spent.items():
        clocks, processors = zip(*times, strict=True)
        yield f"{folded:>12,}{statistics.median(clocks) * 1e3:>14,.0f}{statistics.median(processors) * 1e3:>16,.0f}"


@contextmanager
def _answering(address: str | None, folded: int) -> Iterator[TestClient]:
    """A service over a store of that size."""
    from starlette.testclient import TestClient

    from interleaf.server.app import create_app
    from interleaf.server.service import ServiceSettings

    with _begun(address) as store:
        _fill(store, impressions(OPEN, "open", NOW))
        _fold_others(store, folded)
        app = create_app(store, lambda: NOW, ServiceSettings(fold_seconds=3600, own_process=True))
        with TestClient(app, "http://127.0.0.1") as client:
            yield client


def _fold_others(store: SqlStore, count: int) -> None:
    """Sums of so many impressions: the open ones again and again, of other people, hours before.

    They are kept as a fold keeps them. Their rows, which no report reads, are not made: that takes far longer.
    """
    (batch,) = pa.Table.from_batches(store.export("shop")).combine_chunks().to_batches()
    for first in range(0, count // OPEN, COPIES):
        sums = FoldedSums(task_of(SHOP, 1, "click"))
        for number in range(first, min(first + COPIES, count // OPEN)):
            sums.add(_of_others(batch, number))
        with store._database.writing() as transaction:
            store._folding._keep(transaction, SHOP, 1, "click", sums)


def _of_others(batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
    before = pa.scalar((number + 1) * HOUR, pa.duration("us"))
    columns = {name: batch.column(name) for name in batch.schema.names}
    for name in ("impression", "unit"):
        columns[name] = pc.binary_join_element_wise(columns[name], str(number), "-")
    columns["time"] = pc.subtract(columns["time"], before)
    events = columns["events"]
    fields = {field.name: events.values.field(field.name) for field in events.values.type}
    fields["time"] = pc.subtract(fields["time"], before)
    inner = pa.StructArray.from_arrays(list(fields.values()), fields=list(events.values.type))
    columns["events"] = pa.ListArray.from_arrays(events.offsets, inner).cast(events.type)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema)


def impressions(count: int, name: str, time: int) -> list[StoredImpression]:
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
        found.append(StoredImpression(f"{name}-{number}", "shop", 1, unit, time + number, time + number + HOUR, row))
    return found


def _click(one: StoredImpression) -> Event:
    return Event(f"click-{one.id}", "click", one.time + 5_000_000, one.time + 5_000_000, one.id, rank=1 + one.time % 3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("address", nargs="?")
    parser.add_argument("rows", nargs="?", type=int, default=ROWS)
    parser.add_argument("--report", type=int, nargs="+", metavar="N")
    given = parser.parse_args()
    for line in (
        tables(given.address, given.rows) if given.report is None else report_tables(given.address, given.report)
    ):
        print(line, flush=True)
