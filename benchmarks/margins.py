"""How often a watched report is wrong about a margin, if a ranker is worse by exactly the margin.

It is wrong if it states that the rankers are alike, or that this one is no worse. Users come as a Pareto law says, and
each has a lasting taste. Each visit favours a ranker, or nobody in four of ten. The generator is plain numpy;
estimates, intervals and statements are those of a report.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.people import BOUNDED, DECIDED, LEVEL, WEIGHTS, World, estimates, scores
from interleaf.report.model import VerdictCode
from interleaf.report.rule import state
from interleaf.stats import sequence

LOOKS = 50
TASTES = 0.5  # the largest distance between the preferences of a user and of all users
CODES = (VerdictCode.ALIKE, VerdictCode.NO_WORSE)


def wrong_when_watched(
    tail: float, margin: float, units: int, plans: Sequence[int | None], runs: int, seed: int
) -> list[dict[VerdictCode, int]]:
    """By plan, how many experiments ever state each code."""
    chance = np.random.default_rng(seed)
    waiting = World(tail).visits(chance, (units, runs))
    preferences = chance.uniform(-TASTES, TASTES, waiting.shape) - margin / DECIDED
    visits, sums = np.zeros_like(waiting), np.zeros_like(waiting)
    stated: list[list[set[str]]] = [[set() for _ in range(runs)] for _ in plans]
    for look in range(LOOKS):
        came = chance.binomial(waiting, 1 / (LOOKS - look))
        waiting -= came
        visits += came
        sums += scores(chance, came, preferences)
        present = np.maximum((visits > 0).sum(axis=0), 1)
        by_run = estimates(visits, sums, WEIGHTS[BOUNDED])
        for of_plan, planned in zip(stated, plans, strict=True):
            for run, one in zip(of_plan, sequence.anytimes(by_run, present, planned, 1 - LEVEL), strict=True):
                run.update(state(one.interval, one.interval, margin))
    return [{code: sum(code in run for run in of_plan) for code in CODES} for of_plan in stated]
