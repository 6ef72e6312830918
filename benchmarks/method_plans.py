"""Whether plans of methods keep their claim: `python -m benchmarks.method_plans`.

    pilot log, or rankings ──▶ people that each method and scheme needs ──▶ experiments of that size ──▶ power

People read from the top, look at a rank with a probability, and click a document if it appeals to them; they may stop
after a click. Documents that the second ranker has higher appeal more, so that its own lists get as many more clicks as
planned, which is computed exactly. The generator is plain numpy, and tests are those of a report.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from scipy.optimize import brentq
from scipy.special import expit, logit

from benchmarks.exposure import log_of
from benchmarks.people import BOUNDED, WEIGHTS, estimates
from interleaf.analysis.method_plans import MethodPlans, plan_methods
from interleaf.interleaving.batch import credit_batch, interleave_batch
from interleaf.kernels.arrays import Array
from interleaf.kernels.randomness import key_names
from interleaf.stats.power import Plan
from interleaf.tables import Table

K, DOCUMENTS, QUERIES = 10, 15, 3_000
MAX_VISITS = 200
AT_ONCE = 200_000  # lists at a time
RUNS, POWER = 2_000, 0.8
BY_RANK = tuple(1 / np.arange(1, K + 1))
SETTINGS = {
    "team_draft": ("binary_deduped", "click_place", "normalized_place"),
    "competitive_pairs": ("binary", "click", "normalized"),
}


@dataclass(frozen=True)
class PlannedWorld:
    """Two rankers and the people who see their lists.

    The second ranker has some documents of the first one at other ranks, up to `moves` in a query. People look at a
    rank with the probability `looks[rank]`, a document that neither ranker has higher appeals to them with the
    probability `appeal`, and they stop after a click with the probability `stops`. `differ` and `tastes` are standard
    deviations in the logit of the appeal: of documents, and of people between the two rankers. `tail` is the tail index
    of visits, 0 where each person comes once. The plan is made by a log of `pilot` people, or by the rankings and the
    click rates if it is 0.
    """

    name: str
    lift: float
    moves: int
    appeal: float = 0.35
    looks: tuple[float, ...] = BY_RANK
    stops: float = 0.0
    differ: float = 0.0
    tastes: float = 0.0
    tail: float = 0.0
    pilot: int = 0

    @cached_property
    def rankings(self) -> Array:
        """`[query, ranker, rank]`."""
        chance = np.random.default_rng(7)
        rankings = np.zeros((QUERIES, 2, DOCUMENTS), np.int64)
        for query in range(QUERIES):
            first = chance.permutation(DOCUMENTS)
            second = first.copy()
            for _ in range(chance.integers(0, self.moves + 1)):
                source, target = chance.integers(0, DOCUMENTS, 2)
                second = np.insert(np.delete(second, source), target, second[source])
            rankings[query] = first, second
        return rankings

    @cached_property
    def documents(self) -> tuple[Array, Array]:
        """The logit of each document's appeal, and how much higher the second ranker has it, `[query, document]`."""
        ranks = np.minimum(np.argsort(self.rankings, axis=2) + 1, K + 1)
        appeal = np.random.default_rng(8).normal(logit(self.appeal), self.differ, ranks[:, 0].shape)
        return appeal, (ranks[:, 0] - ranks[:, 1]) / ranks.sum(axis=1)

    @cached_property
    def tilt(self) -> float:
        """What the rank in the second ranking adds to the logit of a click, so that it has the lift."""
        return float(
            brentq(lambda tilt: self.clicks_alone(1, tilt) / self.clicks_alone(0, tilt) - 1 - self.lift, -9, 9)
        )

    def clicks_alone(self, ranker: int, tilt: float) -> float:
        """The exact number of clicks on a ranker's own list, on average over queries and tastes."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(40 if self.tastes else 1)
        appeal, leans = (np.take_along_axis(one, self.rankings[:, ranker, :K], axis=1) for one in self.documents)
        total = 0.0
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            clicks = self.looks * expit(appeal + (tilt + node * self.tastes) * leans)
            reach = np.cumprod(1 - self.stops * clicks, axis=1)[:, :-1]
            clicks[:, 1:] *= reach
            total += weight * clicks.sum(axis=1).mean()
        return float(total)

    def visits(self, chance: np.random.Generator, people: int) -> Array:
        """How often each person comes."""
        if not self.tail:
            return np.ones(people, np.int64)
        return np.minimum(np.floor(chance.pareto(self.tail, people) + 1), MAX_VISITS).astype(np.int64)

    def click(self, chance: np.random.Generator, documents: Array, queries: Array, people: Array) -> Array:
        """Clicks `[row, position]` on these lists."""
        appeal, leans = (np.take_along_axis(one[queries], documents, axis=1) for one in self.documents)
        tastes = self.tilt + chance.normal(0, self.tastes, people.max() + 1)
        chances = self.looks * expit(appeal + tastes[people, None] * leans)
        clicks = chance.random(documents.shape) < chances
        gone = np.zeros(len(clicks), np.bool_)
        for position in range(K if self.stops else 0):
            clicks[:, position] &= ~gone
            gone |= clicks[:, position] & (chance.random(len(clicks)) < self.stops)
        return np.asarray(clicks)

    def log(self, chance: np.random.Generator) -> pa.Table:
        """The log of a pilot."""
        people = np.repeat(np.arange(self.pilot), self.visits(chance, self.pilot))
        queries = chance.integers(0, QUERIES, len(people))
        shown = interleave_batch(self.rankings, "team_draft", K, keys_of(chance, len(people)), queries=queries)
        return log_of(shown, self.click(chance, shown.documents, queries, people), people)

    def plans(self, seed: int) -> MethodPlans:
        """The plans by the log of a pilot, or by the rankings."""
        if self.pilot:
            return plan_methods(self.log(np.random.default_rng(seed)), self.lift, power=POWER, threads=1)
        rankings = {
            name: {
                str(query): list(map(str, ranking)) for query, ranking in enumerate(self.rankings[:, ranker].tolist())
            }
            for ranker, name in enumerate("AB")
        }
        return plan_methods(
            rankings=rankings,
            lift=self.lift,
            power=POWER,
            k=K,
            click_rates=[self.appeal * look for look in self.looks],
            threads=1,
        )


def keys_of(chance: np.random.Generator, count: int) -> list[str]:
    """Random keys of lists."""
    return key_names(chance.integers(0, 2**63, (count, 2)).tobytes())


WORLDS = (
    PlannedWorld("a log, one visit", 0.06, 4, pilot=20_000),
    PlannedWorld("a log, one visit, many moves", 0.12, 20, pilot=20_000),
    PlannedWorld("a log, Pareto 1.5, lasting tastes", 0.08, 6, tastes=1.0, tail=1.5, pilot=8_000),
    PlannedWorld("a log, half of people stop after a click", 0.015, 6, 0.2, (1.0,) * K, stops=0.5, pilot=20_000),
    PlannedWorld("a log, documents of any appeal", 0.06, 4, differ=1.0, pilot=20_000),
    PlannedWorld("two rankings, one visit", 0.04, 6),
)


@dataclass(frozen=True)
class Achieved:
    """A plan of a method and scheme, and how many of the experiments of its size showed the better ranker."""

    setting: str
    plan: Plan
    shown: int
    runs: int


def achieved(world: PlannedWorld, runs: int, seed: int) -> Iterator[Achieved]:
    """Plan, and run experiments of the planned sizes."""
    plans = {(one.method, one.scheme): one.plan for one in world.plans(seed).plans}
    chance = np.random.default_rng(seed + 1)
    for method, schemes in SETTINGS.items():
        fixed = {scheme: one.fixed for scheme in schemes if (one := plans[method, scheme])}
        largest = max(one.units for one in fixed.values())
        shown, done = dict.fromkeys(fixed, 0), 0
        while done < runs:
            some = min(runs - done, max(1, AT_ONCE // largest // (3 if world.tail else 1)))
            visits, sums = experiments(world, method, tuple(fixed), largest, some, chance)
            for scheme, plan in fixed.items():
                found = estimates(visits[: plan.units], sums[scheme][: plan.units], WEIGHTS[BOUNDED])
                shown[scheme] += sum(one.interval is not None and one.interval[0] > 0 for one in found)
            done += some
        for scheme, plan in fixed.items():
            yield Achieved(f"{method} {scheme}", plan, shown[scheme], runs)


def experiments(
    world: PlannedWorld, method: str, schemes: tuple[str, ...], units: int, runs: int, chance: np.random.Generator
) -> tuple[Array, dict[str, Array]]:
    """Impressions with a click and sums of scores, `[person, experiment]`, for the second ranker."""
    people = np.repeat(np.arange(units * runs), world.visits(chance, units * runs))
    queries = chance.integers(0, QUERIES, len(people))
    shown = interleave_batch(world.rankings, method, K, keys_of(chance, len(people)), queries=queries, threads=1)
    clicks = world.click(chance, shown.documents, queries, people)
    visits = np.bincount(people, clicks.any(axis=1), units * runs).reshape(units, runs).astype(np.int64)
    sums = {}
    for scheme in schemes:
        scores = credit_batch(shown, clicks, scheme, threads=1).score
        sums[scheme] = -np.bincount(people, scores, units * runs).reshape(units, runs)
    return visits, sums


def table(runs: int, seed: int) -> Table:
    """Claimed and achieved power."""
    rows = []
    for world in WORLDS:
        for one in achieved(world, runs, seed):
            claim = f"{'at least ' if one.plan.at_minimum else ''}{100 * one.plan.power:.0f} %"
            cells = f"{one.plan.units:,}", claim, f"{100 * one.shown / one.runs:.1f} %", f"{one.runs:,}"
            rows.append((world.name, f"{100 * world.lift:g} %", one.setting, *cells))
    right = ("people planned", "claimed", "achieved", "runs")
    return Table("method-plans", "", ("world", "lift", "method and scheme", *right), tuple(rows), right)


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description="Whether plans of methods keep their claim.")
    options.add_argument("--runs", type=int, default=RUNS, help="experiments by each plan")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    print(table(given.runs, given.seed).to_markdown())


if __name__ == "__main__":
    main()
