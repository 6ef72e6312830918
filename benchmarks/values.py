"""How often the interval of a report covers the truth if events count by their values, with few very large ones.

Users come as a Pareto law says; each visit with an event has a value for one of two rankers, log-normal or Pareto, and
each user has a lasting taste. The generator is plain numpy; the cap, the cut totals and the interval are those of a
report. The truth is the mean of cut totals over two million users, with the same cap: the given one, or the quantile
of all users where a report takes that of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.people import LEVEL, World
from interleaf.kernels.arrays import Array
from interleaf.report.weights import PERCENTILE, cut
from interleaf.stats import compare

EVERYBODY = 2_000_000
TASTES = 0.4  # the largest distance between the preferences of a user and of all users
PREFERENCE = 0.1


class Values(NamedTuple):
    """The law of the values: log-normal with this spread, or Pareto with this tail; and the tail of visits."""

    law: str
    shape: float
    tail: float

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.law} values ({self.shape:g}), visits with tail {self.tail:g}, tastes"

    def totals(self, chance: np.random.Generator, users: int) -> Array:
        """The total value of each user for each ranker, `[user, ranker]`."""
        visits = np.minimum(World(self.tail).visits(chance, (users,)), 1_000)
        user = np.repeat(np.arange(users), visits)
        preferences = (1 + PREFERENCE + chance.uniform(-TASTES, TASTES, users)) / 2
        first = chance.random(len(user)) < preferences[user]
        if self.law == "log-normal":
            values = chance.lognormal(0, self.shape, len(user))
        else:
            values = chance.pareto(self.shape, len(user)) + 1
        return np.stack([np.bincount(user, values * side, users) for side in (first, ~first)], axis=1)


WORLDS = [
    Values(law, shape, tail)
    for law, shape in (("log-normal", 1.0), ("log-normal", 2.0), ("Pareto", 1.5), ("Pareto", 2.5))
    for tail in (1.5, 3.0)
]


def covered(world: Values, users: int, is_given: bool, runs: int, seed: int) -> int:
    """In how many experiments the interval of one look has the truth in it; the cap is given, or a quantile."""
    chance = np.random.default_rng(seed)
    everybody = world.totals(chance, EVERYBODY)
    cap = float(np.quantile(everybody.sum(axis=1), PERCENTILE))
    truth = float(np.diff(_cut(everybody, cap), axis=1).mean())
    inside = 0
    for _ in range(runs):
        totals = world.totals(chance, users)
        own = cap if is_given else float(np.sort(totals.sum(axis=1))[int(np.ceil(PERCENTILE * users)) - 1])
        gaps = np.diff(_cut(totals, own), axis=1)[:, 0]
        (found,) = compare.estimates(gaps[:, None], np.ones((users, 1)), 1 - LEVEL)
        inside += found.interval is not None and found.interval[0] <= truth <= found.interval[1]
    return inside


def _cut(totals: Array, cap: float) -> Array:
    """The totals, cut as in a report, which holds them as whole numbers of 2^-24."""
    return cut(np.rint(totals * 2**24), round(cap * 2**24)) / 2**24
