"""Whether plans keep their claim: pilots, plans and experiments of made-up people; `python -m benchmarks.plans`.

    pilot ──▶ plan ──▶ experiments of the planned size ──▶ share that shows the effect, held against the claim

A share of the people who come have an event, once or as often as a Pareto law says. Each impression with an event
favours one of two rankers, or neither in one of ten. With tastes, every person leans to either side by as much.
The generator is plain numpy, and tests are those of a report.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.people import BOUNDED, MAX_VISITS, WEIGHTS, estimates
from interleaf.analysis.plan import pilot_of_units, plan, settle
from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.stats.power import Plan, units_needed
from interleaf.tables import Table

RUNS = 4_000
REPEATS = 4  # experiments by each plan
AT_ONCE = 100  # experiments in one array
DECIDED = 0.9  # impressions that favour a ranker
TOLERANCE = 0.03
ZETA = {1.05: 20.5808, 1.5: 2.61238, 3.0: 1.20206}  # the mean of floor(Pareto + 1) by its tail index


class World(NamedTuple):
    """People, the pilot's size, or None where true numbers are given, and what is asked for.

    `tail` is the tail index of visits, 0 where all come `visits` times. The pilot's own effect is `pilot_effect`, or
    the true one.
    """

    effect: float
    tail: float
    tastes: float
    pilot: int | None
    power: float = 0.8
    visits: int = 1
    share: float = 0.6
    pilot_effect: float | None = None

    def people(self, chance: np.random.Generator, shape: tuple[int, int], effect: float) -> tuple[Array, Array]:
        """Impressions with an event, and the sum of their scores, of each person who comes."""
        visits = np.full(shape, self.visits)
        if self.tail:
            visits = np.minimum(np.floor(chance.pareto(self.tail, shape) + 1), MAX_VISITS).astype(np.int64)
        visits = np.where(chance.random(shape) < self.share, visits, 0)
        preferences = effect / DECIDED + np.where(chance.random(shape) < 0.5, self.tastes, -self.tastes)
        decided = chance.binomial(visits, DECIDED)
        return visits, 2 * chance.binomial(decided, (1 + preferences) / 2) - decided

    def plans(self, chance: np.random.Generator, number: int) -> Iterator[Plan | str]:
        """A plan by each of so many pilots, or the reason why there is none; one plan where numbers are given."""
        if self.pilot is None:
            variance = DECIDED - self.effect**2
            yield plan(
                self.effect,
                power=self.power,
                variance=variance,
                correlation=(DECIDED * self.tastes) ** 2 / variance,
                impressions_per_unit=ZETA[self.tail] if self.tail else self.visits,
                share_with_event=self.share,
                even_activity=not self.tail,
            ).fixed
            return
        own = self.effect if self.pilot_effect is None else self.pilot_effect
        visits, sums = self.people(chance, (self.pilot, number), own)
        for column in range(number):
            try:
                known = partial(pilot_of_units, visits[:, column], sums[:, column], True)
                yield settle(partial(units_needed, self.effect, power=self.power), known)
            except DataError as problem:
                yield str(problem)

    @property
    def names(self) -> tuple[str, str, str]:
        """Activity, tastes and pilot in words."""
        activity = f"Pareto {self.tail:g}" if self.tail else f"{self.visits} each"
        pilot = "given numbers" if self.pilot is None else f"{self.pilot:,} people"
        pilot += "" if self.pilot_effect is None else f", effect {self.pilot_effect:g}"
        return activity, "lasting" if self.tastes else "none", pilot


WORLDS = (
    World(0.05, 1.05, 0.3, 1_000),
    World(0.05, 1.5, 0.0, 100),
    World(0.1, 1.5, 0.3, 30),
    World(0.1, 1.5, 0.3, 100),
    World(0.1, 1.5, 0.3, 1_000, power=0.9),
    World(0.1, 3.0, 0.0, 30),
    World(0.1, 1.05, 0.0, 30),
    World(0.1, 0.0, 0.0, 100),
    World(0.2, 1.05, 0.3, 30),
    World(0.2, 1.05, 0.0, 100),
    World(0.2, 1.05, 0.0, 1_000, pilot_effect=0.0),
    World(0.3, 3.0, 0.3, 100),
    World(0.3, 3.0, 0.3, 1_000),
    World(0.3, 0.0, 0.0, 30),
    World(0.3, 0.0, 0.0, 1_000, pilot_effect=0.0),
    World(0.1, 0.0, 0.0, 1_000, pilot_effect=0.5),
    World(0.5, 0.0, 0.0, 100),
    World(0.7, 3.0, 0.0, 100),
    World(0.7, 1.05, 0.0, 1_000),
    World(0.3, 1.5, 0.3, 6),
    World(0.05, 3.0, 0.3, None),
    World(0.1, 1.5, 0.3, None),
    World(0.2, 1.05, 0.3, None),
    World(0.2, 1.05, 0.0, None),
    World(0.3, 0.0, 0.3, None, visits=4),
    World(0.3, 0.0, 0.0, None),
    World(0.7, 0.0, 0.0, None, share=1.0),
)


class Kept(NamedTuple):
    """Plans that were made, how many were refused, and by plan the share of experiments that show the effect."""

    plans: tuple[Plan, ...]
    refused: int
    shown: Array

    @property
    def claim(self) -> float:
        """The mean of the claims."""
        return float(np.mean([made.power for made in self.plans]))

    @property
    def error(self) -> float:
        """The standard error of the achieved power."""
        if len(self.plans) == 1:
            return 0.0
        return float(self.shown.std(ddof=1)) / math.sqrt(len(self.shown))


def kept(world: World, runs: int, seed: int) -> Kept:
    """Plan by pilots, and run experiments of the planned sizes."""
    chance = np.random.default_rng(seed)
    answers = list(world.plans(chance, runs // REPEATS))
    plans = sorted((made for made in answers if isinstance(made, Plan)), key=lambda made: made.units)
    refused = len(answers) - len(plans)
    if world.pilot is None:
        plans *= runs // REPEATS
    sizes = np.repeat([made.units for made in plans], REPEATS)
    shown: list[bool] = []
    for start in range(0, len(sizes), AT_ONCE):
        some = sizes[start : start + AT_ONCE]
        visits, sums = world.people(chance, (int(some.max()), len(some)), world.effect)
        absent = np.arange(len(visits))[:, None] >= some
        visits[absent], sums[absent] = 0, 0
        found = estimates(visits, sums, WEIGHTS[BOUNDED])
        shown += [one.interval is not None and one.interval[0] > 0 for one in found]
    return Kept(tuple(plans), refused, np.array(shown, float).reshape(-1, REPEATS).mean(axis=1))


def table(runs: int, seed: int) -> Table:
    """Claimed and achieved power in every world."""
    rows = []
    for world in WORLDS:
        found = kept(world, runs, seed)
        cells: tuple[str, ...] = ("-", "-", "-")
        if len(found.plans) > found.refused:
            low, middle, high = np.percentile([made.units for made in found.plans], (10, 50, 90))
            sizes = f"{middle:,.0f}" + (f" ({low:,.0f} to {high:,.0f})" if high > low else "")
            is_minimum = np.mean([made.at_minimum for made in found.plans]) > 0.5
            claim = f"{'at least ' if is_minimum else ''}{100 * (world.power if is_minimum else found.claim):.0f} %"
            cells = (sizes, claim, f"{100 * found.shown.mean():.1f} ± {100 * found.error:.1f} %")
        refused = found.refused / (found.refused + len(found.plans))
        rows.append(
            (f"{world.effect:g}", *world.names, *cells, f"{100 * refused:.1f} %", f"{found.shown.size * REPEATS:,}")
        )
    right = ("effect", "people planned (80 % of plans)", "claimed", "achieved", "refused", "runs")
    return Table("plans", "", (right[0], "activity", "tastes", "pilot", *right[1:]), tuple(rows), right)


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description="Whether plans keep their claim.")
    options.add_argument("--runs", type=int, default=RUNS, help="experiments in each world")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    print(
        f"`python -m benchmarks.plans --runs {given.runs} --seed {given.seed}`: {REPEATS} experiments by each plan.\n"
    )
    print(table(given.runs, given.seed).to_markdown())


if __name__ == "__main__":
    main()
