"""How often tests that count clicks are wrong, beside those of a report; `python -m benchmarks.counting_clicks`.

    world ──▶ log ──▶ 20 parts by time ──▶ tallies, added up look by look ──▶ tests

People click whatever a document's grade is, and the two rankers exchange their names by a coin for each person. So
without tastes no list is preferred by anybody; with tastes around 0 every person prefers one of the rankers, and none
is preferred on average; and with a mean taste one is.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.analysis.analyze import tally_log
from interleaf.clicks import Cascade
from interleaf.report.comparisons import RankerPairs
from interleaf.report.weights import weighted_sums
from interleaf.simulate import People, World, synthetic
from interleaf.stats import looks, sequence, signs
from interleaf.stats.compare import Estimate, estimates
from interleaf.tables import Table
from interleaf.tally import Tally
from interleaf.tally.bucket_sums import ONE
from interleaf.tally.tally import absorb
from interleaf.tally.units import CLICKED

RUNS = 200
UNITS = 2_000
LOOKS = 20
LEVEL = 0.05
EDGE = NormalDist().inv_cdf(1 - LEVEL / 2)
SPREAD, STRONG = People().taste_spread, 2.0  # deviations of tastes
TASTE = 0.18  # found by the clustered test in about 85 % of experiments
CLICKS = Cascade(click=(0.4, 0.4), stop=(0.3, 0.3))  # the same for both grades


class Seen(NamedTuple):
    """One look: the clustered estimate; sum of scores and of their squares; clicked impressions, clicks, units."""

    estimate: Estimate
    total: float
    squares: float
    clicked: int
    clicks: float
    units: int


History = Sequence[Seen]


def world(taste: float, spread: float, seed: int, method: str = "team_draft") -> World:
    """People with such tastes in front of two rankers, neither of which is better."""
    data = synthetic(queries=1_000, documents=10, features=2, grades=2, strengths=(0.5, 0.5), seed=seed)
    visitors = People(units=UNITS, taste=taste, taste_spread=spread, clicks=CLICKS)
    return World(data, [1, 2], visitors, method, seed=seed, relabel=True)


def experiments(made: World, units: int, runs: int) -> Iterator[pa.Table]:
    """The log of so many people, that of the next ones, and so on; each in the order of time."""
    waiting: list[pa.RecordBatch] = []
    present = 0
    for batch in made.batches(units=units * runs, threads=1):
        owners = np.array([int(name[1:]) // units for name in batch.column("unit").to_pylist()])
        found = np.unique(owners, return_index=True, return_counts=True)
        for experiment, start, count in zip(*(part.tolist() for part in found), strict=True):
            if experiment != present:
                yield pa.Table.from_batches(waiting).sort_by("time")
                waiting, present = [], experiment
            waiting.append(batch.slice(start, count))
    yield pa.Table.from_batches(waiting).sort_by("time")


def history(log: pa.Table, number: int, scheme: str | None = None) -> History:
    """So many looks at a log, after equal numbers of impressions: tallies of its parts, added up."""
    edges = np.linspace(0, log.num_rows, number + 1).astype(int).tolist()
    parts = (tally_log(log.slice(start, end - start), scheme, threads=1) for start, end in pairwise(edges))
    return [look_at(tally) for tally in accumulate(parts, absorb)]


def look_at(tally: Tally) -> Seen:
    """What a report has of two rankers, without the parts that take time."""
    scores, linear = tally.scores, tally.about.linear
    pairs, (voices, weights) = RankerPairs.of(tally.about.rankers, None), weighted_sums(tally)
    sums = pairs.scores(scores.sums, linear)
    return Seen(
        estimates(pairs.weighted_scores(voices, weights, linear), weights, 1 - LEVEL)[0],
        float(sums.sum()),
        float(scores.squares[0]) / ONE,
        int(scores.clicked.sum()),
        float(scores.sums.sum()) / ONE if linear else math.nan,
        tally.units.count(tally.units.values[:, CLICKED] > 0),
    )


def click_test(seen: Seen) -> bool:
    """Every click counts for its ranker, and is taken for independent of all others."""
    return abs(seen.total) > EDGE * math.sqrt(seen.clicks)


def impression_test(seen: Seen) -> bool:
    """The z-score of C12: impressions are taken for independent."""
    return abs(signs.z_score(seen.total, seen.squares, seen.clicked).value or 0.0) > EDGE


def clustered_test(seen: Seen) -> bool:
    """The report's interval leaves out 0."""
    return seen.estimate.interval is not None and not seen.estimate.interval[0] <= 0 <= seen.estimate.interval[1]


def anytime_test(seen: Seen, clock: float, planned: float | None) -> bool:
    """The report's anytime interval leaves out 0."""
    p_value = sequence.anytime(seen.estimate, clock, planned, 1 - LEVEL).p_value
    return p_value is not None and p_value < LEVEL


def planned_test(seen: History) -> bool:
    """The estimate crosses the O'Brien-Fleming boundary at one of the looks."""
    boundaries = looks.obrien_fleming(looks.space_evenly(len(seen)), 1 - LEVEL)
    return any(abs(look.estimate.deviate or 0.0) >= edge for look, edge in zip(seen, boundaries, strict=True))


TESTS: dict[str, Callable[[History], bool]] = {
    "z-test on raw clicks, 1 look": lambda seen: click_test(seen[-1]),
    f"z-test on raw clicks, {LOOKS} looks": lambda seen: any(map(click_test, seen)),
    "impression-level z, 1 look": lambda seen: impression_test(seen[-1]),
    "clustered interval, 1 look": lambda seen: clustered_test(seen[-1]),
    f"clustered interval, {LOOKS} looks": lambda seen: any(map(clustered_test, seen)),
    f"O'Brien-Fleming, {LOOKS} looks": planned_test,
    f"anytime interval with a plan, {LOOKS} looks": lambda seen: watched(seen, UNITS),
    f"anytime interval without a plan, {LOOKS} looks": lambda seen: watched(seen, None),
}


def watched(seen: History, planned: float | None) -> bool:
    """Somebody who looks every time sees a difference once, by the clock of units that reports have."""
    return any(anytime_test(look, look.units, planned) for look in seen)


def table(runs: int, seed: int) -> Table:
    """Every test in four worlds of 2,000 people."""
    worlds = [world(0, 0, seed), world(0, SPREAD, seed), world(0, STRONG, seed), world(TASTE, SPREAD, seed)]
    found = [[history(log, LOOKS, "click") for log in experiments(made, UNITS, runs)] for made in worlds]
    columns = ("false positives: same tastes", "individual tastes", "strong tastes", "real preference found")
    rows = [(row, *(share([test(seen) for seen in made]) for made in found)) for row, test in TESTS.items()]
    return Table("tests", "", ("test", *columns), tuple(rows), columns)


def share(rejected: Sequence[bool]) -> str:
    """A share in per cent, with its standard error."""
    part = sum(rejected) / len(rejected)
    return f"{100 * part:.1f} ± {100 * math.sqrt(part * (1 - part) / len(rejected)):.1f} %"


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description="How often tests that count clicks are wrong.")
    options.add_argument("--runs", type=int, default=RUNS, help="experiments in each world")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    print(f"{given.runs:,} experiments in each world, nominal level {LEVEL:.0%}, shares with their standard error.")
    print(f"`python -m benchmarks.counting_clicks --runs {given.runs} --seed {given.seed}`\n")
    print(table(given.runs, given.seed).to_markdown())


if __name__ == "__main__":
    main()
