"""How a unit should be weighed: levels, coverage and cost in worlds of heavy and light users.

Units come N times, N from a Pareto law; each visit favours one of two rankers, or neither in four of ten. In a world
with `tastes` each unit has a lasting preference. In `heavy against light` worlds, units with at least so many visits
lean to one ranker and the others to the other one, and the mean of the estimand is 0. The generator is plain numpy; the
estimates are those of a report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from interleaf.methods.arrays import Array
from interleaf.report.people import MAX_WEIGHT
from interleaf.stats import compare, sequence
from interleaf.tables import Table

LEVEL = 0.05
LOOKS = 60
TAILS = (1.05, 1.2, 1.5, 3.0)
SIZES = (30, 100, 1_000)
DECIDED = 0.6  # visits that favour one of the rankers
MAX_VISITS = 100_000
CALIBRATION_UNITS = 2_000_000
PER_SEARCH, BOUNDED, PER_PERSON = "one voice per search", f"visits up to {MAX_WEIGHT}", "one voice per person"
WEIGHTS: dict[str, Callable[[Array], Array]] = {
    PER_SEARCH: lambda visits: visits,
    BOUNDED: lambda visits: np.minimum(visits, MAX_WEIGHT),
    PER_PERSON: lambda visits: np.minimum(visits, 1),
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


def estimates(visits: Array, sums: Array, weigh: Callable[[Array], Array]) -> tuple[compare.Estimate, ...]:
    """The estimate of each column of units."""
    weights = weigh(visits).astype(float)
    return compare.estimates(sums * weights / np.maximum(visits, 1), weights, 1 - LEVEL)


def wrong_at_one_look(world: World, units: int, runs: int, weight: str, seed: int) -> float:
    """The share of experiments whose interval leaves out the truth."""
    chance, weigh = np.random.default_rng(seed), WEIGHTS[weight]
    visits = world.visits(chance, (units, runs))
    sums = scores(chance, visits, world.preferences(chance, visits, weigh))
    found = estimates(visits, sums, weigh)
    return float(np.mean([one.interval is not None and not one.interval[0] <= 0 <= one.interval[1] for one in found]))


def wrong_when_watched(world: World, units: int, runs: int, seed: int) -> float:
    """The share of experiments whose anytime interval ever leaves out the truth, in 60 looks over their time.

    The truth is that of all people and their visits so far: early on, heavy users have not come often yet.
    """
    chance, weigh = np.random.default_rng(seed), WEIGHTS[BOUNDED]
    waiting = world.visits(chance, (units, runs))
    preferences = world.preferences(chance, waiting, weigh)
    everybody = world.visits(chance, (CALIBRATION_UNITS // 10,))
    tastes = world.preferences(chance, everybody, weigh) * DECIDED
    visits, sums = np.zeros_like(waiting), np.zeros_like(waiting)
    wrong = np.zeros(runs, np.bool_)
    for look in range(LOOKS):
        came = chance.binomial(waiting, 1 / (LOOKS - look))
        waiting -= came
        visits += came
        sums += scores(chance, came, preferences)
        present = np.maximum((visits > 0).sum(axis=0), 1)
        found = sequence.anytimes(estimates(visits, sums, weigh), present, units, 1 - LEVEL)
        weights = weigh(chance.binomial(everybody, (look + 1) / LOOKS))
        truth = float((weights * tastes).sum() / weights.sum())
        intervals = [one.interval for one in found]
        wrong |= np.array([known is not None and not known[0] <= truth <= known[1] for known in intervals])
    return float(wrong.mean())


def level_table(runs: int, seed: int, worlds: Sequence[World]) -> Table:
    """Wrong intervals in every world."""
    rows = []
    for world in worlds:
        for units in SIZES:
            count = runs if units < 1_000 else max(runs // 5, 50)
            weighed = [wrong_at_one_look(world, units, count, weight, seed) for weight in WEIGHTS]
            watched = wrong_when_watched(world, units, max(runs // 5, 50), seed) if units <= 100 else None
            cells = [f"{100 * one:.1f} %" for one in weighed]
            last = "" if watched is None else f"{100 * watched:.1f} %"
            rows.append((f"{world.tail:g}", world.name, f"{units:,}", f"{count:,}", *cells, last))
    columns = ("runs", *WEIGHTS, f"visits up to {MAX_WEIGHT}, {LOOKS} looks")
    return Table("levels", "", ("tail", "world", "units", *columns), tuple(rows), ("units", *columns))


def power(world: World, units: int, runs: int, weight: str, seed: int) -> float:
    """The share of experiments that find the shared preference at one look."""
    return wrong_at_one_look(world, units, runs, weight, seed)


def units_needed(world: World, weight: str, runs: int, seed: int, guess: int = 100) -> float:
    """Units for a power of 80 %, between two sizes whose ratio is 1.2."""
    low, reached = guess, power(world, guess, runs, weight, seed)
    step = 1.2 if reached < 0.8 else 1 / 1.2
    while True:
        high = max(int(low * step), 5)
        found = power(world, high, runs, weight, seed)
        if (found < 0.8) != (reached < 0.8):
            share = (0.8 - reached) / (found - reached)
            return float(low * (high / low) ** share)
        low, reached = high, found


def cost_table(runs: int, seed: int) -> Table:
    """Units that each way of weighing needs, as a multiple of one voice per search."""
    rows = []
    for tail in TAILS:
        for tastes in (0.0, 0.15, 0.5):
            for shared in (0.2, 0.1):
                world = World(tail, shared, tastes)
                base = units_needed(world, PER_SEARCH, runs, seed, 300)
                others = [units_needed(world, weight, runs, seed, int(base)) / base for weight in (BOUNDED, PER_PERSON)]
                cells = (f"{one:.2f}" for one in others)
                rows.append((f"{tail:g}", f"{tastes:g}", f"{shared:g}", f"{runs:,}", f"{base:,.0f}", *cells))
    columns = ("runs", f"units, {PER_SEARCH}", BOUNDED, PER_PERSON)
    return Table("cost", "", ("tail", "spread of tastes", "effect", *columns), tuple(rows), columns)


def tables(runs: int, seed: int) -> Iterator[Table]:
    """Levels, then cost."""
    yield level_table(runs, seed, WORLDS)
    yield cost_table(max(runs // 2, 100), seed)
