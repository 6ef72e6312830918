"""Logs to a report, against pyarrow reading the same columns; `python -m benchmarks.analysis [ROWS]`.

Each figure is the least of a few runs in processes of their own, so that peaks of memory are those of one run.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from interleaf.analysis.analyze import tally_log
from interleaf.execution.task import Task
from interleaf.log.schema import leaves
from interleaf.report.build import report
from interleaf.report.rule import ReportSettings
from interleaf.simulate import People, World, synthetic
from interleaf.tally import Tally

ROWS = 1_000_000
MANY_ROWS = 100_000
REPEATS = 3
SCHEMES = ("click", "click_deduped", "click_list", "click_place")


class Cost(NamedTuple):
    """Seconds on the clock and of all processors, seconds of the report that follows, and the peak of memory in MiB."""

    wall: float
    processor: float
    report: float
    memory: float


def tables(rows: int = ROWS) -> Iterator[str]:
    """Two rankers, a tenth and all of the rows; then forty rankers."""
    with tempfile.TemporaryDirectory() as folder:
        small = _log(Path(folder) / "small.parquet", 2_000)
        yield f"\nA log to a report: {rows:,} impressions, 10 results, 2 rankers (team_draft)"
        yield f"{'':24}{'rows/s':>12}{'times read':>12}{'in processor time':>20}{'MiB':>8}{'report, s':>12}"
        for part in (rows // 10, rows):
            path = _log(Path(folder) / "log.parquet", part)
            read, ours = (_least(what, path, small) for what in ("read", "tally"))
            yield _line(f"pyarrow reads {part:,}", part, read, read)
            yield _line(f"analyze {part:,}", part, ours, read)
        yield f"\n{rows:,} impressions by scheme of team_draft, and the time over that of click"
        costs = {scheme: _least(scheme, path, small) for scheme in SCHEMES}
        yield from (_line(scheme, rows, cost, costs["click"]) for scheme, cost in costs.items())
        path = _log(Path(folder) / "many.parquet", MANY_ROWS, "pairwise_preference", 40)
        read, ours = (_least(what, path, path) for what in ("read", "tally"))
        yield f"\n{MANY_ROWS:,} impressions of 40 rankers (pairwise_preference)"
        yield _line("pyarrow reads them", MANY_ROWS, read, read)
        yield _line("analyze", MANY_ROWS, ours, read)


def _log(path: Path, rows: int, method: str = "team_draft", rankers: int = 2) -> Path:
    world = World(synthetic(queries=200, features=40, seed=1), range(1, rankers + 1), People(), method, seed=3)
    world.write(path, impressions=rows)
    return path


def _least(what: str, path: Path, small: Path) -> Cost:
    command = [sys.executable, "-m", "benchmarks.analysis", what, str(path), str(small)]
    runs = [Cost(*json.loads(subprocess.check_output(command))) for _ in range(REPEATS)]
    return Cost(*map(min, zip(*runs, strict=True)))


def measure(what: str, path: str, small: str) -> Cost:
    """In this process: a small log first, so that code is imported and compiled before the clock starts."""
    scheme = what if what in SCHEMES else None
    work: Callable[[str], Tally | None] = _read if what == "read" else partial(tally_log, scheme=scheme)
    work(small)
    wall, processor = time.perf_counter(), time.process_time()
    tally = work(path)
    spent = time.perf_counter() - wall, time.process_time() - processor
    wall = time.perf_counter()
    if tally is not None:
        report(tally, ReportSettings())
    return Cost(*spent, time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _read(path: str) -> None:
    with pq.ParquetFile(path) as file:
        paths = [file.schema.column(number).path for number in range(len(file.schema))]
        for _ in file.iter_batches(columns=leaves(paths, Task().columns)):
            pass


def _line(name: str, rows: int, one: Cost, read: Cost) -> str:
    ratios = f"{one.wall / read.wall:>12.2f}{one.processor / read.processor:>20.2f}"
    report = f"{one.report:>12.2f}" if one is not read else ""
    return f"{name:24}{rows / one.wall:>12,.0f}{ratios}{one.memory:>8,.0f}{report}"


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(measure(*sys.argv[1:])))
    else:
        for line in tables(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS):
            print(line, flush=True)
