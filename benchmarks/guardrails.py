"""How often a watched guardrail is wrong if the true harm is exactly the margin: any statement is wrong then.

Users come as a Pareto law says, each in one of two arms for good, and each has a lasting taste: a probability of its
own that a search is abandoned, or that it has a rare event; or a lasting delay. The searches of the first arm are worse
by the margin. The generator is plain numpy; differences, intervals and statements are those of a report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.people import LEVEL, World
from interleaf.kernels.arrays import Array
from interleaf.kernels.buckets import BUCKETS
from interleaf.report.guardrails import code_of
from interleaf.report.model import GuardrailCode
from interleaf.stats import compare, sequence

LOOKS = 50
CODES = (GuardrailCode.OK, GuardrailCode.BROKEN)
SHAPE = 0.5  # of the gamma law of the delay of one search, whose skewness is 2.8
AT_ONCE = 3_000_000  # users of all runs that are in memory at a time

Draw = Callable[[np.random.Generator, Array, Array], Array]  # sums over so many searches of users with these tastes


class Metric(NamedTuple):
    """A metric: lasting tastes of users of a shape, the sum over their searches, and the margin."""

    name: str
    margin: float
    tastes: Callable[[np.random.Generator, tuple[int, ...]], Array]
    sums: Draw


def _delays(chance: np.random.Generator, came: Array, lasting: Array) -> Array:
    """Total milliseconds: a lasting delay, and a random part with a mean of 50 ms and a long tail."""
    return np.asarray(came * lasting + chance.gamma(SHAPE * came, 50 / SHAPE))


def _visits_with(chance: np.random.Generator, came: Array, probability: Array) -> Array:
    return np.asarray(chance.binomial(came, probability))


METRICS = (
    Metric("abandonment, half of searches", 0.05, lambda c, shape: c.uniform(0.2, 0.75, shape), _visits_with),
    Metric(
        "empty lists, 0.4 % of searches", 0.005, lambda c, shape: 0.001 + 0.009 * c.random(shape) ** 2, _visits_with
    ),
    Metric("latency, log-normal between users", 20.0, lambda c, shape: c.lognormal(4, 1, shape), _delays),
)


def wrong_when_watched(
    metric: Metric, tail: float, share: float, users: int, plans: Sequence[int | None], runs: int, seed: int
) -> list[dict[GuardrailCode, int]]:
    """By plan, how many experiments ever state each code; `share` of the users are in the first arm."""
    chance = np.random.default_rng(seed)
    wrong = [dict.fromkeys(CODES, 0) for _ in plans]
    most = max(1, AT_ONCE // users)
    for start in range(0, runs, most):
        some = _watch(chance, metric, tail, share, (users, min(most, runs - start)), plans)
        for counts, stated in zip(wrong, some, strict=True):
            for code in CODES:
                counts[code] += int(stated[code].sum())
    return wrong


def _watch(
    chance: np.random.Generator,
    metric: Metric,
    tail: float,
    share: float,
    shape: tuple[int, int],
    plans: Sequence[int | None],
) -> list[dict[GuardrailCode, Array]]:
    """By plan and code, which of these experiments ever state it."""
    waiting = World(tail).visits(chance, shape)
    is_first = chance.random(shape) < share
    tastes = metric.tastes(chance, shape) + metric.margin * is_first
    visits, sums = np.zeros(shape), np.zeros(shape)
    stated = [{code: np.zeros(shape[1], np.bool_) for code in CODES} for _ in plans]
    for look in range(LOOKS):
        came = chance.binomial(waiting, 1 / (LOOKS - look))
        waiting -= came
        visits += came
        sums += metric.sums(chance, came, tastes)
        ours, theirs = ([by_bucket(values * side) for values in (sums, visits)] for side in (is_first, ~is_first))
        found = compare.differences(ours[0], ours[1], theirs[0], theirs[1], 1 - LEVEL, cautious=True)
        present = np.maximum((visits > 0).sum(axis=0), 1)
        for of_plan, planned in zip(stated, plans, strict=True):
            for run, one in enumerate(sequence.anytimes(found, present, planned, 1 - LEVEL)):
                if (code := code_of(one.interval, metric.margin)) in CODES:
                    of_plan[code][run] = True
    return stated


def by_bucket(values: Array) -> Array:
    """Values `[user, run]` as sums `[bucket, run]`."""
    padded = np.zeros((-(-len(values) // BUCKETS) * BUCKETS, values.shape[1]))
    padded[: len(values)] = values
    return np.asarray(padded.reshape(-1, BUCKETS, values.shape[1]).sum(axis=0))
