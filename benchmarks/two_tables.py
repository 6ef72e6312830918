"""A table of impressions and a table of events to a native log; `python -m benchmarks.two_tables [IMPRESSIONS]`.

Both tables are Parquet, with four events for each impression, in random order. Each import runs in a process of its
own, over a tenth and over all of the impressions, which shows whether memory grows.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from interleaf.importers.two_tables.convert import import_tables

IMPRESSIONS = 1_000_000
EVENTS, SHOWN, DOCUMENTS = 4, 10, 1_000_000  # events of an impression, results of a list, documents
SHAPES = ("lists", "results", "JSON")
PART = 100_000  # impressions made at a time


def tables(impressions: int = IMPRESSIONS) -> Iterator[str]:
    """A row for each shape and size."""
    yield f"\ntwo tables to a native log, {EVENTS} events and {SHOWN} results an impression"
    head = f"{'shape':>8}{'impressions':>13}{'events':>11}{'MB':>6}"
    yield head + f"{'events/s':>11}{'of processor':>14}{'impressions/s':>15}  MiB"
    with tempfile.TemporaryDirectory() as folder:
        for shape in SHAPES:
            for count in (impressions // 10, impressions):
                place = Path(folder) / f"{shape}-{count}"
                write_tables(place, shape, count)
                size = sum(file.stat().st_size for file in place.iterdir()) / 1e6
                command = [sys.executable, "-m", "benchmarks.two_tables", "measure", str(place)]
                seconds, processor, memory = json.loads(subprocess.check_output(command))
                events = count * EVENTS
                rates = f"{events / seconds:>11,.0f}{events / processor:>14,.0f}{count / processor:>15,.0f}"
                yield f"{shape:>8}{count:>13,}{events:>11,}{size:>6,.0f}{rates}{memory:>5,.0f}"


def measure(folder: str) -> tuple[float, float, float]:
    """Seconds on the clock and of all processors, and the peak of memory in MiB, in this process."""
    with tempfile.TemporaryDirectory() as out:
        start, processor = time.perf_counter(), time.process_time()
        import_tables(f"{folder}/impressions.parquet", f"{folder}/events.parquet", Path(out) / "log.parquet")
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
    return seconds, processor, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write_tables(folder: Path, shape: str, impressions: int) -> None:
    """Both tables as Parquet, in parts, so that this process stays small; events are in random order."""
    folder.mkdir()
    draw = np.random.default_rng(1)
    writers: dict[str, pq.ParquetWriter] = {}
    for start in range(0, impressions, PART):
        numbers = np.arange(start, min(start + PART, impressions))
        shown = draw.integers(0, DOCUMENTS, (len(numbers), SHOWN))
        for name, table in (
            ("impressions", shown_table(shape, numbers, shown)),
            ("events", event_table(numbers, shown, draw)),
        ):
            if name not in writers:
                writers[name] = pq.ParquetWriter(folder / f"{name}.parquet", table.schema)
            writers[name].write_table(table)
    for writer in writers.values():
        writer.close()


def shown_table(shape: str, numbers: np.ndarray, shown: np.ndarray) -> pa.Table:
    """Impressions of two rankers that own every other document."""
    owners = np.array(["old", "new"])[(np.arange(shown.size).reshape(shown.shape) + numbers[:, None]) % 2]
    names = [f"sku-{number}" for number in shown.ravel().tolist()]
    repeats = SHOWN if shape == "results" else 1
    columns = {
        "request_id": [f"request-{number:09d}" for number in np.repeat(numbers, repeats).tolist()],
        "visitor_id": [f"visitor-{number // 3}" for number in np.repeat(numbers, repeats).tolist()],
        "ts": times(np.repeat(numbers, repeats)),
    }
    if shape == "results":
        places = np.tile(np.arange(1, SHOWN + 1), len(numbers))
        return pa.table(columns | {"position": places, "sku": names, "ranker": owners.ravel()})
    lists = [names[start : start + SHOWN] for start in range(0, len(names), SHOWN)]
    if shape == "JSON":
        texts = [list(map(json.dumps, one)) for one in (lists, owners.tolist())]
        return pa.table(columns | {"results": texts[0], "ranker": texts[1]})
    return pa.table(columns | {"results": lists, "ranker": owners.tolist()})


def event_table(numbers: np.ndarray, shown: np.ndarray, draw: np.random.Generator) -> pa.Table:
    """Clicks on random results."""
    rows = draw.permutation(np.repeat(np.arange(len(numbers)), EVENTS))
    documents = shown[rows, draw.integers(0, SHOWN, len(rows))]
    return pa.table(
        {
            "request_id": [f"request-{number:09d}" for number in numbers[rows].tolist()],
            "sku": [f"sku-{number}" for number in documents.tolist()],
            "clicked_at": pa.array(
                np.asarray(times(numbers[rows])) + np.timedelta64(5, "s"), pa.timestamp("us", "UTC")
            ),
        }
    )


def times(numbers: np.ndarray) -> pa.Array:
    """A minute of a day of 2026 for each impression."""
    start = np.datetime64("2026-11-02T12:00:00", "us")
    return pa.array(start + (numbers % 1_000_000).astype("timedelta64[s]"), pa.timestamp("us", "UTC"))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(sys.argv[2])))
    else:
        for line in tables(int(sys.argv[1]) if len(sys.argv) > 1 else IMPRESSIONS):
            print(line, flush=True)
