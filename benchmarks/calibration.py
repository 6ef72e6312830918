"""All that a report claims in one table, measured: `python -m benchmarks.calibration`, for the page with `--full`.

    worlds (plain numpy) ──▶ estimates, intervals, plans, checks of a report ──▶ counts, held against the claim

A row says what is claimed, in which world, the limits, and what was measured, with its exact 95 % interval (Clopper and
Pearson 1934). It `misses` only where that interval lies outside of the limits. To add rows, write a function that
yields them and add it to `claims.CLAIMS`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable

from benchmarks.claims import CLAIMS, FULL, QUICK, Row
from interleaf.tables import Table

COLUMNS = ("claim", "world", "size", "limit", "measured", "exact 95 % interval", "runs", "")
RIGHT = ("size", "limit", "measured", "exact 95 % interval", "runs")


def table(rows: Iterable[Row]) -> Table:
    """The rows in words."""
    return Table("calibration", "", COLUMNS, tuple(map(cells, rows)), RIGHT)


def cells(row: Row) -> tuple[str, ...]:
    """One row in words."""
    low, high = row.exact
    interval = f"{100 * low:.1f} to {100 * high:.1f} %"
    measured = f"{100 * row.happened / row.runs:.1f} %"
    return (row.claim, row.world, row.size, row.limits, measured, interval, f"{row.runs:,}", row.answer)


def main() -> None:
    """Print the table, and what missed."""
    options = argparse.ArgumentParser(description="All claims of a report, measured.")
    options.add_argument("--full", action="store_true", help="more runs and sizes; takes much longer")
    options.add_argument("--only", metavar="WORD", help="only functions with this word in their names")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    start, rows = time.monotonic(), []
    for claim in CLAIMS:
        if given.only is None or given.only in claim.__name__:
            rows += list(claim(FULL if given.full else QUICK, given.seed))
    print(table(rows).to_markdown())
    missed = sum(row.answer.startswith("misses") for row in rows)
    print(f"\n{len(rows)} rows, {missed} miss their limits; {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
