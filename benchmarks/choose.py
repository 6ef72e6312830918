"""Choices of the best of many rankers, measured: `python -m benchmarks.choose`, for the page with `--full`.

    worlds (plain numpy) ──▶ outcomes of impressions ──▶ plans and exits of the package ──▶ regret, false statements

The worlds know nothing of the package: a matrix of the probability that one ranker beats another, and people, who may
come again and have lasting tastes. The package plans each epoch from the results that it may know, as the service does.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.calibration import COLUMNS, RIGHT, cells
from benchmarks.claims import AT_MOST, Row
from interleaf import Experiment
from interleaf.experiment.choose import last_known
from interleaf.experiment.epochs import EpochPlan, RankerExit, plan_epoch
from interleaf.kernels.arrays import Array
from interleaf.report.choice import ChoiceHistory, choice_verdict, choose_best, count_wins, next_step
from interleaf.report.model import Verdict
from interleaf.report.rule import ReportSettings
from interleaf.stats.elimination import NO_GAIN, WORSE
from interleaf.stats.power import MARGIN
from interleaf.tables import Table
from interleaf.tally.choice_sums import ChoiceSums

RANKERS, EPOCHS, IMPRESSIONS = 20, 100, 20_000
LATE = 0.1  # the part of the epochs at the end in which it counts whom the people see


@dataclass(frozen=True)
class ChoiceWorld:
    """`wins[i, j]` is the probability that i beats j if an impression is not even, which it is with `ties`.

    `people` come again and again, each equally often or as a Pareto law says; None: each impression has a new one.
    `tastes` is the standard deviation of how much a person likes a ranker, as log odds; it lasts.
    """

    name: str
    wins: Array
    people: int | None = None
    tastes: float = 0.0
    ties: float = 0.0
    is_heavy_tailed: bool = False
    margin: float = MARGIN

    @property
    def best(self) -> int | None:
        """The ranker that beats all others, if there is one."""
        beaten = (self.wins > 0.5).sum(axis=1)
        return int(beaten.argmax()) if beaten.max() == len(self.wins) - 1 else None

    @property
    def gaps(self) -> Array:
        """The probability that the best beats a ranker, minus 1/2."""
        return np.asarray(self.wins[self.best or 0] - 0.5)


def from_strengths(name: str, strengths: Array, **more: Any) -> ChoiceWorld:
    """A world in which the log odds are differences of strengths."""
    return ChoiceWorld(name, 1 / (1 + np.exp(strengths[None] - strengths[:, None])), **more)


def three_in_a_cycle(rankers: int, edge: float = 0.4, margin: float = MARGIN) -> ChoiceWorld:
    """Each of the first three rankers beats the next one, the third beats the first, and all three beat all others.

    `edge` is by how much people prefer one of the three to the next one.
    """
    wins = np.full((rankers, rankers), 0.5)
    wins[:3, 3:], wins[3:, :3] = 0.75, 0.25
    for one in range(3):
        wins[one, (one + 1) % 3], wins[(one + 1) % 3, one] = 0.5 + edge / 2, 0.5 - edge / 2
    return ChoiceWorld(f"three of {rankers} rankers beat each other in a cycle", wins, margin=margin)


def condorcet_not_borda(rankers: int) -> ChoiceWorld:
    """Ranker 0 beats everyone by a little; ranker 1 beats all but it by far, and wins most against a random one."""
    wins = np.tril(np.full((rankers, rankers), 0.45), -1) + np.triu(np.full((rankers, rankers), 0.55), 1)
    np.fill_diagonal(wins, 0.5)
    wins[1, 2:], wins[2:, 1] = 0.8, 0.2
    return ChoiceWorld("Condorcet winner is not the Borda winner", wins)


class Outcome(NamedTuple):
    """What came of a run: regret, who leads at the end, what is stated, and whom people saw in the last epochs."""

    regret: float
    leader: int
    exits: tuple[RankerExit, ...]
    seen_most: int
    verdict: Verdict


def run(world: ChoiceWorld, algorithm: str, seed: int) -> Outcome:
    """One experiment, epoch by epoch."""
    chance, rankers = np.random.default_rng(seed), len(world.wins)
    names = [f"r{place:03d}" for place in range(rankers)]
    settings = {
        "name": f"run-{seed}",
        "rankers": names,
        "mode": "choose",
        "algorithm": algorithm,
        "margin": world.margin,
    }
    experiment, sums = Experiment.of(settings), ChoiceSums()
    crowd = Crowd(world, chance)
    regret, late, exits = 0.0, np.zeros(rankers), tuple[RankerExit, ...]()
    for epoch in range(EPOCHS):
        known = last_known(experiment, epoch)
        nearly: list[tuple[int, int]] = []
        if known >= 0:
            step = next_step(ChoiceHistory(sums, names, 0.95), known, exits, experiment.margin)
            exits, nearly = step.exits, step.nearly
        plan = plan_epoch(experiment, 1, epoch, count_wins(sums, names, known), exits, known, "", nearly)
        shown = crowd.visit(plan, sums, epoch, IMPRESSIONS // EPOCHS)
        regret += float(shown @ world.gaps)
        late += shown * (epoch >= (1 - LATE) * EPOCHS)
    step = next_step(ChoiceHistory(sums, names, 0.95), EPOCHS, exits, experiment.margin)
    result = choose_best(sums, names, ReportSettings(start_rankers=names, margin=world.margin))
    verdict = choice_verdict(result, (), None, experiment.margin)
    return Outcome(regret, step.leader, step.exits, int(late.argmax()), verdict)


class Crowd:
    """The people of a world."""

    def __init__(self, world: ChoiceWorld, chance: np.random.Generator) -> None:
        self._world, self._chance = world, chance
        number = world.people or IMPRESSIONS
        self._units = chance.integers(2**63, size=number, dtype=np.int64).astype(np.uint64) << np.uint64(1)
        self._tastes = chance.normal(0, world.tastes, (number, len(world.wins)))
        activity = chance.pareto(1.2, number) + 1 if world.is_heavy_tailed else np.ones(number)
        self._activity = activity / activity.sum()

    def visit(self, plan: EpochPlan, sums: ChoiceSums, epoch: int, impressions: int) -> Array:
        """Show lists to people, and add what they do to the sums; returns how often each ranker was shown."""
        world, chance = self._world, self._chance
        if world.people is None:
            people = np.arange(epoch * impressions, (epoch + 1) * impressions)
        else:
            people = chance.choice(world.people, impressions, p=self._activity)
        ends = np.cumsum([group.draws for group in plan.groups])
        place = np.searchsorted(ends, chance.integers(plan.draws, size=len(self._units)), "right")[people]
        shown = np.zeros(len(world.wins))
        for number, group in enumerate(plan.groups):
            some, epochs = people[place == number], np.full((place == number).sum(), epoch)
            rankers = [int(name[1:]) for name in group.rankers]
            shown[rankers] += len(some) / len(rankers)
            sums.add_shown(group.rankers, epochs)
            if len(rankers) == 2 and len(some):
                one, other = rankers
                odds = np.log(world.wins[one, other] / world.wins[other, one])
                odds += self._tastes[some, one] - self._tastes[some, other]
                sides = np.where(chance.random(len(some)) < 1 / (1 + np.exp(-odds)), 1, -1)
                sides *= chance.random(len(some)) >= world.ties
                sums.add_scores(group.rankers, self._units[some], epochs, sides[:, None].astype(float), sides[:, None])
        return shown


def worlds_with_a_best(seed: int) -> list[ChoiceWorld]:
    """Worlds in which one ranker beats all others."""
    chance = np.random.default_rng(seed)
    spread = np.sort(chance.normal(0, 0.5, RANKERS))[::-1]
    return [
        from_strengths("normal strengths", spread),
        from_strengths("evenly spaced strengths", np.linspace(1, -1, RANKERS)),
        from_strengths("normal strengths, half of impressions even", spread, ties=0.5),
        from_strengths("normal strengths, 2,000 people with tastes", spread, people=2_000, tastes=1.0),
        condorcet_not_borda(RANKERS),
    ]


def worlds_without_a_best() -> list[ChoiceWorld]:
    """Worlds in which the mean preference of each pair is 0."""
    even = np.zeros(RANKERS)
    return [
        from_strengths("A/A, 20 copies", even, people=2_000, ties=0.4),
        from_strengths("200 people with lasting tastes", even, people=200, tastes=1.0, ties=0.4),
        from_strengths("the same, heavy-tailed activity", even, people=2_000, tastes=1.0, is_heavy_tailed=True),
    ]


def main() -> None:
    """Print both tables."""
    options = argparse.ArgumentParser(description="Choices of the best of many rankers, measured.")
    options.add_argument("--full", action="store_true", help="500 runs instead of 50")
    options.add_argument("--runs", type=int, help="another number of runs")
    options.add_argument("--processes", type=int, default=os.cpu_count())
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    runs, start = given.runs or (500 if given.full else 50), time.monotonic()
    with ProcessPoolExecutor(given.processes) as pool:
        every = partial(run_all, pool, runs, given.seed)
        print(regret_table(every, given.seed).to_markdown(), end="\n\n")
        rows = tuple(cells(row) for row in false_statements(every))
        print(Table("false", "", COLUMNS, rows, RIGHT).to_markdown())
    print(f"\n{runs} runs of each row, {time.monotonic() - start:.0f} s")


Runs = Callable[[ChoiceWorld, str], list[Outcome]]


def run_all(pool: ProcessPoolExecutor, runs: int, seed: int, world: ChoiceWorld, algorithm: str) -> list[Outcome]:
    """All runs of a world."""
    seeds = range(seed * 10**6, seed * 10**6 + runs)
    return list(pool.map(partial(run, world, algorithm), seeds, chunksize=5))


def regret_table(every: Runs, seed: int) -> Table:
    """Regret as a share of that of uniform pairs, and how often the best ranker leads at the end."""
    rows = []
    for world in worlds_with_a_best(seed):
        # Uniform pairs show all rankers equally often.
        uniform = float(world.gaps.mean()) * IMPRESSIONS
        for algorithm in ("double_thompson", "self_sparring"):
            outcomes = every(world, algorithm)
            regret = np.array([one.regret for one in outcomes]) / uniform
            best, seen = (
                [one == world.best for one in some]
                for some in ([one.leader for one in outcomes], [one.seen_most for one in outcomes])
            )
            wrong = sum(any(one.ranker == f"r{world.best:03d}" for one in outcome.exits) for outcome in outcomes)
            out = np.mean([len(one.exits) for one in outcomes])
            figures = (f"{100 * regret.mean():.0f} %", f"{100 * np.quantile(regret, 0.95):.0f} %")
            shares = (f"{100 * np.mean(best):.0f} %", f"{100 * np.mean(seen):.0f} %")
            rows.append((world.name, algorithm, *figures, *shares, f"{out:.1f}", str(wrong), str(len(outcomes))))
    columns = (
        *("world", "algorithm", "regret of uniform pairs", "95 % of runs below", "best leads at the end"),
        *("best is seen most", "left", "best left", "runs"),
    )
    return Table("regret", "", columns, tuple(rows), columns[2:])


def false_statements(every: Runs) -> Iterator[Row]:
    """How often a ranker is called worse, or one is named the winner, where no ranker is better than all others."""
    exact = three_in_a_cycle(3, edge=0.2, margin=0.2)
    for world in (*worlds_without_a_best(), three_in_a_cycle(RANKERS), exact):
        for algorithm in ("double_thompson", "self_sparring"):
            outcomes = every(world, algorithm)
            size = f"{len(world.wins)} rankers, {IMPRESSIONS:,} impressions, {EPOCHS} epochs"
            where = f"{world.name}, {algorithm}"
            counts = {"a false winner is named": [one.verdict.winner is not None for one in outcomes]}
            if world is exact:
                what = "a ranker better by exactly the margin leaves for no gain"
                counts[what] = [has_false_no_gain(world, one) for one in outcomes]
            elif (world.wins == 0.5).all():
                called = [any(gone.code == WORSE for gone in one.exits) for one in outcomes]
                counts["some ranker is called worse"] = called
            for what, wrong in counts.items():
                yield Row(what, where, size, *AT_MOST, sum(wrong), len(outcomes))


def has_false_no_gain(world: ChoiceWorld, outcome: Outcome) -> bool:
    """Whether a ranker left for lack of a gain that is better than that leader by the margin."""
    return any(
        2 * world.wins[int(one.ranker[1:]), int(one.leader[1:])] - 1 >= world.margin - 1e-9
        for one in outcome.exits
        if one.code == NO_GAIN
    )


if __name__ == "__main__":
    main()
