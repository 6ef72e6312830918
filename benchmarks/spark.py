"""Spark on this machine against the local engine; `python -m benchmarks.spark [ROWS] [PARTS ...]`.

Both run on all cores, by turns, and the least of a few runs counts; the session and the first run, which loads
compiled kernels, are left out. What the driver gets is measured as it comes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.analysis import _log
from interleaf.engines import local, spark
from interleaf.engines.packed import of_bytes
from interleaf.engines.spark.session import session
from interleaf.engines.spark.tallies import added_sums, counted
from interleaf.engines.work import Task

ROWS = 1_000_000
PARTS = (1, 2, 4, 8)
REPEATS = 3


def tables(rows: int = ROWS, parts: Sequence[int] = PARTS, frame: bool = True) -> Iterator[str]:
    """A log of two rankers by each number of parts, and as a data frame."""
    running = session()
    running.sparkContext.setLogLevel("ERROR")
    cores = running.sparkContext.defaultParallelism
    with tempfile.TemporaryDirectory() as folder:
        path = _log(Path(folder) / "log.parquet", rows)
        yield f"\nSpark, {running.sparkContext.master}, {cores} cores: {rows:,} impressions, 10 results, 2 rankers"
        yield f"{'':24}{'s per million':>15}{'times local':>13}{'MiB to driver':>15}"
        for number in parts:
            taken, here = _least(partial(_bytes, path, number), partial(local.tally_log, path, Task()))
            sent = len(_bytes(path, number)) / 2**20
            yield f"{f'paths, {number} parts':24}{taken / rows * 1e6:>15.2f}{taken / here:>13.2f}{sent:>15.2f}"
        yield f"{'local engine':24}{here / rows * 1e6:>15.2f}{1:>13.2f}"
        if frame:
            given = running.read.parquet(str(path))
            taken = _time(lambda: spark.tally_log(given, Task()))
            yield f"{'data frame':24}{taken / rows * 1e6:>15.2f}{taken / here:>13.2f}"


def _bytes(path: Path, parts: int) -> bytes:
    packed = spark.summed(spark.opened(path, parts), Task(), counted, added_sums)
    of_bytes(packed).book.close()
    return packed


def _least(one: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    """The least times of both, by turns: whatever else runs here slows both down."""
    one(), other()
    times = [(_time(one), _time(other)) for _ in range(REPEATS)]
    return min(mine for mine, _ in times), min(theirs for _, theirs in times)


def _time(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    asked = [int(text) for text in sys.argv[1:]]
    size = asked[0] if asked else ROWS
    for line in tables(size, asked[1:] or PARTS, frame=size <= ROWS):
        print(line, flush=True)
