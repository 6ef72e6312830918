"""Queries repeat, too: how often a verdict is wrong about queries like those of the log, and about those of the log.

Units come N times, N from a Pareto law with tail 1.5. Each visit asks a query, by Zipf's law; each query has a lasting
effect, normal with mean 0 over all queries that could be asked. A visit favours one of two rankers, or neither in four
of ten. The generator is plain numpy; estimates and errors are those of a report at one look.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.report.weights import QueryCells, max_weight, with_queries
from interleaf.stats import sequence
from interleaf.stats.compare import Estimate, estimate
from interleaf.tables import Table
from interleaf.tally.bucket_sums import ONE

TAIL, DECIDED, MAX_VISITS, CONFIDENCE = 1.5, 0.6, 1_000, 0.95
LOOKS = 20
BY_UNIT, BY_QUERY = "clustered by unit", "by unit and query"


class World(NamedTuple):
    """Units that come, different queries, Zipf's exponent, and the standard deviation of their effects."""

    units: int
    queries: int
    exponent: float
    spread: float

    def visits(self, chance: np.random.Generator) -> tuple[Array, float]:
        """Unit, query and score of each visit, in random order; and the mean effect of these queries."""
        visits = np.minimum(np.floor(chance.pareto(TAIL, self.units) + 1), MAX_VISITS).astype(np.int64)
        shares = np.arange(1, self.queries + 1.0) ** -self.exponent
        shares /= shares.sum()
        effects = np.clip(chance.normal(0, self.spread, self.queries), -1, 1)
        owner = np.repeat(np.arange(self.units), visits)
        asked = np.searchsorted(np.cumsum(shares), chance.random(len(owner))).clip(max=self.queries - 1)
        decided = chance.random(len(owner)) < DECIDED
        scores = np.where(chance.random(len(owner)) < (1 + effects[asked]) / 2, 1, -1) * decided
        return chance.permutation(np.stack([owner, asked, scores]), axis=1), float(shares @ effects) * DECIDED

    def cells(self, visits: Array) -> QueryCells:
        """Visits as a tally has them."""
        owner, asked, scores = visits
        cells, place = np.unique(owner * self.queries + asked, return_inverse=True)
        sums = np.bincount(place, scores).astype(np.int64)[:, None] * ONE
        owners, unit_of = np.unique(cells // self.queries, return_inverse=True)
        names = np.random.default_rng(self.units).integers(0, 2**44, self.units, dtype=np.uint64)[owners]
        numbers, query_of = np.unique(cells % self.queries, return_inverse=True)
        return QueryCells(names, numbers, unit_of, query_of, np.bincount(place), sums, max_weight(len(owners)))


WORLDS = [
    World(units, queries, exponent, spread)
    for units in (100, 300, 1_000)
    for queries, exponent in ((100, 1.0), (1_000, 1.0), (10_000, 1.0), (10_000, 0.7))
    for spread in (0.0, 0.5)
]


def both(cells: QueryCells) -> tuple[Estimate, Estimate]:
    """The estimate with errors clustered by unit, and by unit and query."""
    sums, weights, _ = cells.weighted_sums()
    by_unit = estimate(sums[:, 0] / ONE, weights, CONFIDENCE)
    return by_unit, with_queries([by_unit], cells, cells.sums / ONE, CONFIDENCE)[0]


def misses(found: Estimate, truth: float) -> bool:
    """Whether the interval leaves out the truth."""
    return found.interval is not None and not found.interval[0] <= truth <= found.interval[1]


def wrong(world: World, runs: int, seed: int) -> Array:
    """How many runs are wrong: by unit about these queries, by unit about all queries, by both about all queries."""
    chance, counts = np.random.default_rng(seed), np.zeros(3, np.int64)
    for _ in range(runs):
        visits, truth = world.visits(chance)
        by_unit, by_query = both(world.cells(visits))
        counts += [misses(by_unit, truth), misses(by_unit, 0.0), misses(by_query, 0.0)]
    return counts


def wrong_when_watched(world: World, runs: int, seed: int) -> tuple[int, int]:
    """How many runs ever are wrong about queries like these in 20 looks: with a plan of all units, and without."""
    chance, counts = np.random.default_rng(seed), [0, 0]
    for _ in range(runs):
        visits, _ = world.visits(chance)
        looks = []
        for end in np.linspace(0, visits.shape[1], LOOKS + 1)[1:].astype(int).tolist():
            cells = world.cells(visits[:, :end])
            looks.append((both(cells)[1], len(cells.units)))
        found, units = [one for one, _ in looks], np.array([number for _, number in looks])
        for place, planned in enumerate((world.units, None)):
            intervals = [one.interval for one in sequence.anytimes(found, units, planned, CONFIDENCE)]
            counts[place] += any(one is not None and not one[0] <= 0 <= one[1] for one in intervals)
    return counts[0], counts[1]


def rows(runs: int, seed: int) -> Iterator[tuple[str, ...]]:
    """A row for each world."""
    for world in WORLDS:
        shares = (f"{100 * one / runs:.1f} %" for one in wrong(world, runs, seed).tolist())
        facts = f"{world.units:,}", f"{world.queries:,}", f"{world.exponent:g}", f"{world.spread:g}", f"{runs:,}"
        yield (*facts, *shares)


WATCHED = [WORLDS[place] for place in (1, 9, 11, 10, 17, 21)]


def watched_rows(runs: int, seed: int) -> Iterator[tuple[str, ...]]:
    """A row for each world that is watched."""
    for world in WATCHED:
        shares = (f"{100 * one / runs:.1f} %" for one in wrong_when_watched(world, runs, seed))
        facts = f"{world.units:,}", f"{world.queries:,}", f"{world.exponent:g}", f"{world.spread:g}", f"{runs:,}"
        yield (*facts, *shares)


def main() -> None:
    """Print both tables."""
    options = argparse.ArgumentParser(description="How often verdicts are wrong about queries.")
    options.add_argument("--runs", type=int, default=1_000)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    facts = ("units", "queries", "Zipf exponent", "spread of effects", "runs")
    columns = (
        *facts,
        f"wrong about these queries, {BY_UNIT}",
        f"wrong about queries like these, {BY_UNIT}",
        f"wrong about queries like these, {BY_QUERY}",
    )
    print(Table("queries", "", columns, tuple(rows(given.runs, given.seed)), columns).to_markdown(), flush=True)
    looks = (*facts, f"wrong in {LOOKS} looks, with a plan", "without a plan")
    watched = tuple(watched_rows(max(given.runs // 10, 50), given.seed))
    print(Table("watched", "", looks, watched, looks).to_markdown())


if __name__ == "__main__":
    main()
