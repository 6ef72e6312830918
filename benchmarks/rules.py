"""How often the rule of a report is wrong where nothing is preferred: planned looks, many rankers, segments.

Users come as a Pareto law says and have lasting tastes. Each visit favours a ranker, or nobody in four of ten. The
generator is plain numpy; estimates and decisions are those of a report.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from benchmarks.people import DECIDED, LEVEL, World, scores
from interleaf.kernels.arrays import Array
from interleaf.report.rule import Decision, ReportSettings, decide
from interleaf.report.weights import max_weight
from interleaf.stats import compare
from interleaf.stats.compare import Estimate

ON_TIME = (0.2, 0.4, 0.6, 0.8, 1.0)  # shares of the planned units that are there at each look
LATE = (0.05, 0.15, 0.5, 0.7, 1.3)
TWICE = (0.4, 0.8, 1.2, 1.6, 2.0)
RANKERS = 5
SEGMENTS = 3
TASTES = 0.5


def weighed(visits: Array, sums: Array, units: int) -> tuple[Estimate, ...]:
    """The estimate of each column, by weights up to the limit of so many units."""
    weights = np.minimum(visits, max_weight(units)).astype(float)
    return compare.estimates(sums * weights / np.maximum(visits, 1), weights, 1 - LEVEL)


def is_wrong(decisions: Sequence[Decision]) -> bool:
    """Whether an interval leaves out 0."""
    return any(one.interval is not None and not one.interval[0] <= 0 <= one.interval[1] for one in decisions)


def wrong_at_planned_looks(tail: float, planned: int, arrived: Sequence[float], runs: int, seed: int) -> int:
    """How many experiments show a winner at one of the looks, when so many of the planned users have come."""
    chance, world = np.random.default_rng(seed), World(tail, tastes=TASTES)
    sizes = [round(share * planned) for share in arrived]
    visits = world.visits(chance, (sizes[-1], runs))
    sums = scores(chance, visits, world.preferences(chance, visits, lambda seen: seen))
    wrong = np.zeros(runs, np.bool_)
    for look, units in enumerate(sizes, 1):
        settings = ReportSettings(planned_units=planned, look=(look, len(sizes)))
        found = weighed(visits[:units], sums[:units], units)
        wrong |= np.array([is_wrong(decide([one], units, settings)) for one in found])
    return int(wrong.sum())


def wrong_of_many(
    tail: float, units: int, looks: int, settings: ReportSettings, runs: int, seed: int
) -> tuple[int, int]:
    """How many experiments with five equal rankers ever show a pair that differs, and a ranker that beats all."""
    chance, world = np.random.default_rng(seed), World(tail)
    pairs = np.array(list(combinations(range(RANKERS), 2)))
    differ, best = 0, 0
    for _ in range(runs):
        visits = world.visits(chance, (units,))
        likes = chance.dirichlet(np.ones(RANKERS), units)  # of each user
        credit = chance.multinomial(chance.binomial(visits, DECIDED), likes)
        sums = credit[:, pairs[:, 0]] - credit[:, pairs[:, 1]]
        decided = [
            decide(weighed(np.repeat(visits[:end, None], len(pairs), axis=1), sums[:end], end), end, settings)
            for end in np.linspace(0, units, looks + 1)[1:].astype(int).tolist()
        ]
        differ += any(map(is_wrong, decided))
        best += any(beats_all(decisions, pairs) for decisions in decided)
    return differ, best


def beats_all(decisions: Sequence[Decision], pairs: Array) -> bool:
    """Whether one ranker beats every other."""
    won = np.zeros(RANKERS, np.int64)
    for (first, second), one in zip(pairs.tolist(), decisions, strict=True):
        if one.interval is not None and not one.interval[0] <= 0 <= one.interval[1]:
            won[first if one.interval[0] > 0 else second] += 1
    return bool((won == RANKERS - 1).any())


def wrong_of_segments(tail: float, units: int, looks: int, runs: int, seed: int) -> int:
    """How many experiments ever show a winner in one of three segments, between which the visits of a user spread."""
    chance, world = np.random.default_rng(seed), World(tail, tastes=TASTES)
    wrong = 0
    for _ in range(runs):
        visits = world.visits(chance, (units,))
        preferences = world.preferences(chance, visits, lambda seen: seen)
        parts = chance.multinomial(visits, np.full(SEGMENTS, 1 / SEGMENTS))
        sums = scores(chance, parts, np.repeat(preferences[:, None], SEGMENTS, axis=1))
        for end in np.linspace(0, units, looks + 1)[1:].astype(int).tolist():
            found = [
                weighed(parts[:end, [part]], sums[:end, [part]], int((parts[:end, part] > 0).sum()))[0]
                for part in range(SEGMENTS)
            ]
            if is_wrong(decide(found, end, ReportSettings(planned_units=units))):
                wrong += 1
                break
    return wrong
