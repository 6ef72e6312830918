"""Spark on this machine against the local engine; `python -m benchmarks.spark [ROWS] [PARTS ...]`.

Both run on all cores, by turns, and the least of a few runs counts (one, of logs above a million); the start of the
session and a run on a small log, which loads compiled kernels, are left out. What the driver gets is measured as it
comes. Of a large log the first million is simulated, and the others are copies with other impressions and other people.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.analysis import _log
from interleaf.errors import DataError
from interleaf.execution import local, spark
from interleaf.execution.spark.partitions import to_bytes
from interleaf.execution.spark.tallies import count_part, session
from interleaf.execution.task import Task

ROWS = 1_000_000
PARTS = (1, 2, 4, 8)
REPEATS = 3
BYTES = 90  # of disk, an impression


def tables(rows: int = ROWS, parts: Sequence[int] = PARTS) -> Iterator[str]:
    """A log of two rankers by each number of parts, and as a data frame, if it is small."""
    running = session()
    running.sparkContext.setLogLevel("ERROR")
    cores = running.sparkContext.defaultParallelism
    with tempfile.TemporaryDirectory() as folder:
        small = _log(Path(folder) / "small.parquet", 2_000)
        path = _large_log(Path(folder) / "log", rows)
        _bytes(small, cores), local.tally_log(small, Task())
        yield f"\nSpark, {running.sparkContext.master}, {cores} cores: {rows:,} impressions, 10 results, 2 rankers"
        yield f"{'':24}{'s per million':>15}{'times local':>13}{'MiB to driver':>15}"
        for number in parts:
            taken, here, sent = _least(path, number, REPEATS if rows <= ROWS else 1)
            yield _line(f"paths, {number} parts", taken, here, rows) + f"{sent / 2**20:>15.2f}"
        yield _line("local engine", here, here, rows)
        if rows <= ROWS:
            frame = running.read.parquet(str(path))
            yield _line("data frame", _time(lambda: spark.tally_log(frame, Task()))[0], here, rows)


def _line(name: str, taken: float, here: float, rows: int) -> str:
    return f"{name:24}{taken / rows * 1e6:>15.2f}{taken / here:>13.2f}"


def _large_log(folder: Path, rows: int) -> Path:
    """Files of at most a million impressions."""
    folder.mkdir()
    if rows * BYTES > shutil.disk_usage(folder).free:
        raise DataError(f"{rows:,} impressions take {rows * BYTES / 1e9:.1f} GB in {folder}; free some, or set TMPDIR")
    first = _log(folder / "0.parquet", min(rows, ROWS))
    for number in range(1, -(-rows // ROWS)):
        _copy(first, folder / f"{number}.parquet", f"{number}-", min(ROWS, rows - number * ROWS))
    return folder


def _copy(source: Path, target: Path, prefix: str, rows: int) -> None:
    """The same impressions, of other ids and units."""
    with pq.ParquetFile(source) as file, pq.ParquetWriter(target, file.schema_arrow, compression="zstd") as writer:
        for batch in file.iter_batches(65_536):
            batch = batch.slice(0, rows)
            for name in ("impression", "unit"):
                values = pc.binary_join_element_wise(prefix, batch.column(name).cast(pa.string()), "")
                place = batch.schema.get_field_index(name)
                batch = batch.set_column(place, batch.schema.field(name), values.cast(batch.schema.field(name).type))
            writer.write_batch(batch)
            rows -= batch.num_rows


def _bytes(path: Path, parts: int) -> bytes:
    """A tally by Spark: what the driver got."""
    sums = spark.sum_parts(spark.open_log(path, parts), Task(), count_part)
    packed = to_bytes(sums)
    sums.close()
    return packed


def _least(path: Path, parts: int, repeats: int) -> tuple[float, float, int]:
    """The least times of Spark and of the local engine, by turns, as whatever else runs here slows both down; and the
    bytes that the driver got."""
    runs = [
        (*_time(lambda: _bytes(path, parts)), _time(lambda: local.tally_log(path, Task()))[0]) for _ in range(repeats)
    ]
    there, sent, here = zip(*runs, strict=True)
    return min(there), min(here), len(sent[0])


def _time(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


if __name__ == "__main__":
    asked = [int(text) for text in sys.argv[1:]]
    for line in tables(asked[0] if asked else ROWS, asked[1:] or PARTS):
        print(line, flush=True)
