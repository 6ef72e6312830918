"""How a unit should be weighed: levels, coverage and cost in worlds of heavy and light users.

Units come N times, N from a Pareto law; each visit favours one of two rankers, or neither in four of ten. In a world
with `tastes` each unit has a lasting preference. In `heavy against light` worlds, units with at least so many visits
lean to one ranker and the others to the other one, and the mean of the estimand is 0. The generator is plain numpy; the
estimates are those of a report.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.report.weights import max_weight
from interleaf.stats import compare, sequence
from interleaf.tables import Table

LEVEL = 0.05
LOOKS = 60
TAILS = (1.05, 1.2, 1.5, 3.0)
SIZES = (30, 100, 300, 1_000)
DECIDED = 0.6  # visits that favour one of the rankers
MAX_VISITS = 100_000
CALIBRATION_UNITS = 2_000_000
PER_SEARCH, BOUNDED, PER_PERSON = "one vote per search", "visits up to the limit", "one voice per person"
POWER = 0.8
BATCHES = 10  # of runs, between which the standard error of a cost is taken
EFFECTS = (0.4, 0.2, 0.1, 0.06, 0.035)  # shared preferences whose costs are measured
STEPS = 0.6 * 1.15 ** np.arange(13)  # sizes of experiments around the expected one
AT_ONCE = 4_000_000  # units of all runs that are in memory at a time


def limits(units: Array | int) -> Array:
    """The largest weight of a unit in each experiment, by its number of units with an event."""
    return np.array([max_weight(int(number)) for number in np.atleast_1d(units)])


Weigh = Callable[[Array, Array | int], Array]  # weights by visits, in experiments of so many units with an event
WEIGHTS: dict[str, Weigh] = {
    PER_SEARCH: lambda visits, units: visits,
    BOUNDED: lambda visits, units: np.minimum(visits, limits(units)),
    PER_PERSON: lambda visits, units: np.minimum(visits, 1),
}


class World(NamedTuple):
    """How often units come, and whom they prefer: a shared preference, lasting ones, heavy users against light ones."""

    tail: float
    shared: float = 0.0
    tastes: float = 0.0
    heavy: int = 0

    @property
    def name(self) -> str:
        """In words."""
        if self.heavy:
            return f"{self.heavy} or more visits against fewer"
        return "lasting tastes" if self.tastes else "no tastes"

    def visits(self, chance: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """How often each unit comes."""
        return np.minimum(np.floor(chance.pareto(self.tail, shape) + 1), MAX_VISITS).astype(np.int64)

    def preferences(self, chance: np.random.Generator, visits: Array, weigh: Callable[[Array], Array]) -> Array:
        """The mean preference of each unit, from -1 to 1; its weighted mean over units is `shared`."""
        found = np.full(visits.shape, self.shared)
        if self.tastes:
            found += chance.normal(0, self.tastes, visits.shape)
        if self.heavy:
            many = self.visits(chance, (CALIBRATION_UNITS,))
            weights = weigh(many)
            mean = float((weights * self._lean(many)).sum() / weights.sum())
            found += self._lean(visits) - mean
        limited: Array = np.clip(found, -1, 1)
        return limited

    def _lean(self, visits: Array) -> Array:
        return np.where(visits >= self.heavy, 0.6, -0.3)


WORLDS = [
    World(tail, tastes=tastes, heavy=heavy)
    for tail in TAILS
    for tastes, heavy in ((0.0, 0), (0.5, 0), (0.0, 2), (0.0, 5), (0.0, 10))
]


def scores(chance: np.random.Generator, visits: Array, preferences: Array) -> Array:
    """The sum of so many scores, each 1, 0 or -1."""
    decided = chance.binomial(visits, DECIDED)
    return 2 * chance.binomial(decided, (1 + preferences) / 2) - decided


def estimates(visits: Array, sums: Array, weigh: Weigh) -> tuple[compare.Estimate, ...]:
    """The estimate of each column of units."""
    weights = weigh(visits, (visits > 0).sum(axis=0)).astype(float)
    return compare.estimates(sums * weights / np.maximum(visits, 1), weights, 1 - LEVEL)


def leaves_out(found: Sequence[compare.Estimate | sequence.Anytime], truths: Array | float = 0.0) -> Array:
    """Whose interval leaves out the truth."""
    rows = zip((one.interval for one in found), np.broadcast_to(truths, len(found)).tolist(), strict=True)
    return np.array([interval is not None and not interval[0] <= truth <= interval[1] for interval, truth in rows])


def wrong_at_one_look(world: World, units: int, runs: int, weight: str, seed: int) -> Array:
    """In which experiments the interval leaves out 0."""
    chance, weigh = np.random.default_rng(seed), WEIGHTS[weight]
    visits = world.visits(chance, (units, runs))
    sums = scores(chance, visits, world.preferences(chance, visits, lambda seen: weigh(seen, units)))
    return leaves_out(estimates(visits, sums, weigh))


def covered(world: World, units: int, runs: int, seed: int) -> Array:
    """In which experiments the interval of one look has the shared preference in it."""
    chance = np.random.default_rng(seed)
    visits = world.visits(chance, (units, runs))
    sums = scores(chance, visits, world.preferences(chance, visits, lambda seen: seen))
    return ~leaves_out(estimates(visits, sums, WEIGHTS[BOUNDED]), world.shared * DECIDED)


def wrong_when_watched(world: World, units: int, runs: int, plans: Sequence[int | None], seed: int) -> list[Array]:
    """By plan, in which experiments the anytime interval ever leaves out the truth, in 60 looks over their time.

    The truth is that of all people and their visits so far, weighed up to the limit of so many people: early on, heavy
    users have not come often yet.
    """
    chance, weigh = np.random.default_rng(seed), WEIGHTS[BOUNDED]
    waiting = world.visits(chance, (units, runs))
    preferences = world.preferences(chance, waiting, lambda seen: weigh(seen, units))
    everybody = world.visits(chance, (CALIBRATION_UNITS // 10,))
    tastes = world.preferences(chance, everybody, lambda seen: weigh(seen, units)) * DECIDED
    visits, sums = np.zeros_like(waiting), np.zeros_like(waiting)
    wrong = [np.zeros(runs, np.bool_) for _ in plans]
    for look in range(LOOKS):
        came = chance.binomial(waiting, 1 / (LOOKS - look))
        waiting -= came
        visits += came
        sums += scores(chance, came, preferences)
        present = np.maximum((visits > 0).sum(axis=0), 1)
        found = estimates(visits, sums, weigh)
        truths = _truths(chance.binomial(everybody, (look + 1) / LOOKS), tastes, limits(present))
        for one, planned in zip(wrong, plans, strict=True):
            one |= leaves_out(sequence.anytimes(found, present, planned, 1 - LEVEL), truths)
    return wrong


def _truths(visits: Array, tastes: Array, limit: Array) -> Array:
    """The weighted mean of tastes by each limit on weights."""
    means = {}
    for one in np.unique(limit).tolist():
        weights = np.minimum(visits, one)
        means[one] = float((weights * tastes).sum() / weights.sum())
    return np.array([means[one] for one in limit.tolist()])


def level_table(runs: int, seed: int, worlds: Sequence[World]) -> Table:
    """Wrong intervals in every world."""
    rows = []
    for world in worlds:
        for units in SIZES:
            count, watched = runs if units < 1_000 else max(runs // 5, 50), max(runs // 5, 50)
            wrong = [wrong_at_one_look(world, units, count, weight, seed) for weight in WEIGHTS]
            wrong += wrong_when_watched(world, units, watched, (units, None), seed)
            cells = [f"{100 * one.mean():.1f} %" for one in wrong]
            sizes = (f"{units:,}", str(max_weight(units)), f"{count:,} / {watched:,}")
            rows.append((f"{world.tail:g}", world.name, *sizes, *cells))
    columns = ("limit", "runs", *WEIGHTS, f"{LOOKS} looks, plan", f"{LOOKS} looks, no plan")
    return Table("levels", "", ("tail", "world", "units", *columns), tuple(rows), ("units", *columns))


def shown(world: World, sizes: Sequence[int], runs: int, seed: int) -> dict[str, Array]:
    """By weight, at which sizes `[run, size]` one look shows the shared preference; all of the same people."""
    chance = np.random.default_rng(seed)
    found: dict[str, list[Array]] = {weight: [] for weight in WEIGHTS}
    together = max(1, AT_ONCE // sizes[-1])
    for start in range(0, runs, together):
        visits = world.visits(chance, (sizes[-1], min(together, runs - start)))
        sums = scores(chance, visits, world.preferences(chance, visits, lambda seen: seen))
        for weight, weigh in WEIGHTS.items():
            parts = [leaves_out(estimates(visits[:size], sums[:size], weigh)) for size in sizes]
            found[weight].append(np.array(parts).T)
    return {weight: np.concatenate(parts) for weight, parts in found.items()}


def units_needed(powers: Array, sizes: Sequence[int]) -> float:
    """Units for a power of 80 %, between the sizes around it."""
    enough = np.flatnonzero(powers >= POWER)
    if not enough.size or enough[0] == 0:
        return math.nan
    high = int(enough[0])
    share = (POWER - powers[high - 1]) / (powers[high] - powers[high - 1])
    return float(sizes[high - 1] * (sizes[high] / sizes[high - 1]) ** share)


def expected_units(world: World, seed: int) -> int:
    """About how many units one vote per search needs: by doubling, in a few runs."""
    units = 16
    while wrong_at_one_look(world, units, 200, PER_SEARCH, seed).mean() < POWER:
        units = int(units * 1.3)
    return units


def cost(world: World, runs: int, seed: int) -> tuple[float, dict[str, tuple[float, float]]]:
    """Units that one vote per search needs, and by the other weights their multiple of it with its standard error."""
    sizes = [round(step * expected_units(world, seed)) for step in STEPS]
    found = shown(world, sizes, runs, seed)
    base = units_needed(found[PER_SEARCH].mean(axis=0), sizes)
    multiples = {}
    for weight in (BOUNDED, PER_PERSON):
        parts = [
            units_needed(one.mean(axis=0), sizes) / units_needed(other.mean(axis=0), sizes)
            for one, other in zip(*(np.array_split(found[name], BATCHES) for name in (weight, PER_SEARCH)), strict=True)
        ]
        error = float(np.nanstd(parts, ddof=1)) / math.sqrt(BATCHES)
        multiples[weight] = (units_needed(found[weight].mean(axis=0), sizes) / base, error)
    return base, multiples


def cost_table(runs: int, seed: int) -> Table:
    """Units that each way of weighing needs, as a multiple of one vote per search."""
    rows = []
    for tail in TAILS:
        for shared in EFFECTS:
            base, multiples = cost(World(tail, shared), runs, seed)
            cells = (f"{value:.2f} ± {error:.2f}" for value, error in multiples.values())
            rows.append((f"{tail:g}", f"{shared * DECIDED:.3g}", f"{base:,.0f}", *cells))
    columns = ("effect", f"units, {PER_SEARCH}", BOUNDED, PER_PERSON)
    return Table("cost", "", ("tail", *columns), tuple(rows), columns)


def tables(runs: int, seed: int) -> Iterator[Table]:
    """Levels, then cost."""
    yield level_table(runs, seed, WORLDS)
    yield cost_table(max(3 * runs // 10, 100), seed)


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description="How a unit should be weighed.")
    options.add_argument("--runs", type=int, default=1_000, help="experiments of each kind")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    print(f"`python -m benchmarks.people --runs {given.runs} --seed {given.seed}`\n")
    for table in tables(given.runs, given.seed):
        print(table.to_markdown() + "\n", flush=True)


if __name__ == "__main__":
    main()
