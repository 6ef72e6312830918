"""Print every table: `python -m benchmarks [ROWS]`."""

from __future__ import annotations

import os
import sys
from itertools import chain

from benchmarks import analysis, calls, first_use, imports, kernels, letor, service, simulation, store


def main(rows: int) -> None:
    """Batch first, then single calls."""
    print(f"{rows:,} rows a batch, {os.cpu_count()} cores; rankers order the same documents, with noise")
    parts = (kernels.tables(rows), calls.tables(), simulation.tables(rows), letor.tables(), analysis.tables())
    for line in chain(*parts, imports.tables(), store.tables(), service.tables(), first_use.tables()):
        print(line, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
