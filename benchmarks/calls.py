"""One call from Python, against the plain form of the same kernel, and the cost of importing."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from interleaf import Interleaving, credit, interleave
from interleaf.interleaving.rankings import CheckedRankings
from interleaf.kernels.arrays import Array, EncodedRankings
from interleaf.methods import linear_program
from interleaf.methods.registry import Method, methods, resolve

CALLS = 2000
CLICKS = [1, 3]


def tables() -> Iterator[str]:
    """Medians in microseconds; uncached programmes a second; import times."""
    yield "\none call from Python: two rankings of 50 strings, k = 10; median microseconds"
    yield f"{'':22}{'interleave':>12}{'credit':>12}{'to_dict':>12}"
    for row in methods():
        yield f"{row.name:22}" + "".join(f"{'-' if cell is None else f'{cell:.1f}':>12}" for cell in call_medians(row))
    yield "\noptimized, not cached: programmes a second on one core"
    for rankers, documents in ((2, 10), (2, 100), (5, 10), (40, 10), (40, 100)):
        yield f"{f'{rankers} rankings of {documents}':22}{1 / programme_seconds(rankers, documents):>12,.0f}"
    numpy_alone, package = import_seconds("numpy"), import_seconds("interleaf")
    yield f"\nimport interleaf: {(package - numpy_alone) * 1e3:.0f} ms beyond numpy ({numpy_alone * 1e3:.0f} ms)"


def call_medians(row: Method) -> tuple[float, float | None, float]:
    """Median microseconds of `interleave`, of `credit` where the method offers it, and of `to_dict`."""
    documents = [f"document-{number}" for number in range(50)]
    shuffled = random.Random(1).sample(documents, k=50)

    def compose() -> Interleaving:
        return interleave(
            {"production": documents, "candidate": shuffled}, row.name, 10, ("experiment", "unit", "query")
        )

    shown = compose()
    credited = _median(lambda: credit(shown, CLICKS)) if row.schemes else None
    return _median(compose), credited, _median(shown.to_dict)


def _median(function: Callable[[], object]) -> float:
    function()
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def programme_seconds(rankers: int, documents: int, problems: int = 20) -> float:
    """What it costs to enumerate or draw the lists, and to solve for their probabilities."""
    encoded = [_encoded(rankers, documents, seed) for seed in range(problems + 1)]
    times = []
    for given, ranks in encoded:
        start = time.perf_counter()
        linear_program.solution_of(given, ranks, min(10, given.documents), linear_program.INVERSE, 50, exact=False)
        times.append(time.perf_counter() - start)
    return statistics.mean(times[1:])


def _encoded(rankers: int, documents: int, seed: int) -> tuple[EncodedRankings, Array]:
    noise = np.random.default_rng(seed).normal(0, documents / 4, (rankers, documents))
    problem = CheckedRankings.of(np.argsort(np.arange(documents) + noise).tolist(), resolve("optimized"))
    names, given = problem.encode(10)
    return given, problem.ranks_or_next(names)


def import_seconds(module: str) -> float:
    """The shortest of five imports in processes of their own."""
    code = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return min(float(run.stdout) for run in runs)
