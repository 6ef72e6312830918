"""Reading LETOR text: rows and bytes a second, against what else reads it; `python -m benchmarks.letor [ROWS]`."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from interleaf.simulate import read_letor

ROWS = 50_000
FEATURES = 136
DOCUMENTS = 120  # a query
DIFFERENT = 2000  # rows; the rest repeats them
REPEATS = 5
PLAIN_ROWS = 2000  # what the baseline in Python is measured on


class Cost(NamedTuple):
    """Seconds a row: on the clock, and of all processors together, which other work on the machine disturbs less."""

    wall: float
    processor: float


def tables(rows: int = ROWS) -> Iterator[str]:
    """A dense file with values as in MSLR, from plain text, from the cache, and by others."""
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, INTERLEAF_CACHE=folder):
        path = Path(folder) / "rows.txt"
        write(path, rows)
        size = path.stat().st_size / 1e6
        yield f"\nLETOR text, {rows:,} rows of {FEATURES} features, {size:,.0f} MB"
        yield f"{'':32}{'rows/s':>12}{'MB/s':>8}{'times longer':>14}{'in processor time':>20}"
        ours = cost(lambda: read_letor(path, cache=False), rows)
        yield _line("read_letor, no cache", ours, ours, size / rows)
        yield _line("read_letor, from the cache", cost(lambda: read_letor(path), rows), ours, size / rows)
        yield _line("float() and split(), in Python", _python_cost(path), ours, size / rows)
        if find_spec("sklearn") is None:
            yield "sklearn is not installed here, so its load_svmlight_file was not measured"
        else:
            yield _line("sklearn's load_svmlight_file", _sklearn_cost(path, rows), ours, size / rows)


def cost(function: Callable[[], object], rows: int, repeats: int = REPEATS) -> Cost:
    """The least of a few runs, after one that compiles."""
    function()
    walls, processors = [], []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        function()
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return Cost(min(walls) / rows, min(processors) / rows)


def write(path: Path, rows: int) -> None:
    """Counts, zeros and numbers with six decimals, in queries of equal size."""
    generator = np.random.default_rng(1)
    bodies = [" ".join(_pairs(generator)) for _ in range(min(rows, DIFFERENT))]
    with path.open("w", encoding="ascii") as file:
        file.writelines(f"{row % 5} qid:{row // DOCUMENTS} {bodies[row % len(bodies)]}\n" for row in range(rows))


def _pairs(generator: np.random.Generator) -> Iterator[str]:
    kinds, values = generator.random(FEATURES), generator.normal(0, 10, FEATURES)
    for number, (kind, value) in enumerate(zip(kinds.tolist(), values.tolist(), strict=True), 1):
        yield f"{number}:0" if kind < 0.4 else f"{number}:{abs(value):.0f}" if kind < 0.6 else f"{number}:{value:.6f}"


def _line(name: str, one: Cost, ours: Cost, megabytes: float) -> str:
    ratios = f"{one.wall / ours.wall:>14.2f}{one.processor / ours.processor:>20.2f}"
    return f"{name:32}{1 / one.wall:>12,.0f}{megabytes / one.wall:>8,.0f}{ratios}"


def _python_cost(path: Path) -> Cost:
    with path.open(encoding="ascii") as file:
        lines = list(islice(file, PLAIN_ROWS))

    def read() -> None:
        values = np.zeros((len(lines), FEATURES), np.float32)
        for row, line in enumerate(lines):
            for word in line.split()[2:]:
                number, _, value = word.partition(":")
                values[row, int(number) - 1] = float(value)

    return cost(read, len(lines))


def _sklearn_cost(path: Path, rows: int) -> Cost:
    load: Callable[..., object] = import_module("sklearn.datasets").load_svmlight_file

    def read() -> None:
        load(str(path), n_features=FEATURES, dtype=np.float32, zero_based=False, query_id=True)

    return cost(read, rows, repeats=1)


if __name__ == "__main__":
    for line in tables(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS):
        print(line, flush=True)
