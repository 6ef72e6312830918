"""The plan of an epoch: the groups of rankers, each with its share of the users, and the group of a user.

A plan is a function of the experiment, its version, the number of the epoch and the results so far, so that every
process that makes it gets the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from interleaf.dueling_bandits import ALGORITHMS, draw_epoch
from interleaf.experiment.assignment import assign
from interleaf.experiment.choose import UNIFORM_PAIRS
from interleaf.experiment.settings import Experiment
from interleaf.kernels.arrays import Array
from interleaf.kernels.buckets import hash_of
from interleaf.kernels.randomness import bytes_of, key_of
from interleaf.log.schema import INTERLEAVED

MIN_GROUPS, MAX_GROUPS = 20, 100  # drawn for an epoch: with fewer, shares are too rough, and rankers starve
MIN_COMPARED = 0.1  # part of the draws that compare rankers: a leader that is always shown alone proves nothing
MAX_NEARLY = 0.25  # part of the draws that compare the leader with rankers that have nearly left, at most
_SALT = "interleaf-epoch"


@dataclass(frozen=True)
class RankerExit:
    """A ranker that left, after the results of an epoch: the reason (a code), and the upper end of its interval
    against the ranker that led.
    """

    ranker: str
    code: str
    leader: str
    after: int
    bound: float


@dataclass(frozen=True)
class RankerGroup:
    """Rankers that are mixed for some users, and their part of the draws of an epoch; a single one is shown alone."""

    rankers: tuple[str, ...]
    draws: int


@dataclass(frozen=True)
class EpochPlan:
    """The groups of an epoch. `known` is the last epoch whose results were used, and `results` a digest of these."""

    experiment: str
    version: int
    epoch: int
    known: int
    results: str
    algorithm: str
    groups: tuple[RankerGroup, ...]
    exits: tuple[RankerExit, ...] = ()

    @cached_property
    def draws(self) -> int:
        """The draws of all groups."""
        return sum(group.draws for group in self.groups)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; `of` reads it back."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> EpochPlan:
        """A plan from plain data."""
        return msgspec.convert(data, cls)


def plan_epoch(
    experiment: Experiment,
    version: int,
    epoch: int,
    wins: Array,
    exits: Sequence[RankerExit],
    known: int,
    results: str,
    nearly: Sequence[tuple[int, int]] = (),
) -> EpochPlan:
    """The plan of an epoch from the results until the epoch `known`.

    `wins[i, j]` are the impressions that ranker i won against j, in the order of the settings; on the diagonal are
    those that showed a ranker alone. `nearly` has pairs of the leader and a ranker that has nearly left.
    """
    gone = {one.ranker for one in exits}
    left = [place for place, ranker in enumerate(experiment.rankers) if ranker not in gone]
    about = experiment.name, version, epoch, known, results, experiment.algorithm
    places = {ranker: place for place, ranker in enumerate(left)}
    learns = experiment.algorithm != UNIFORM_PAIRS
    pairs = [(places[one], places[other]) for one, other in nearly if learns]
    groups = _draw_groups(experiment, version, epoch, wins[np.ix_(left, left)], left, pairs)
    return EpochPlan(*about, groups, tuple(exits))


def _draw_groups(
    experiment: Experiment,
    version: int,
    epoch: int,
    wins: Array,
    left: Sequence[int],
    nearly: Sequence[tuple[int, int]],
) -> tuple[RankerGroup, ...]:
    """The groups, by Thompson sampling: each is the first different rankers of some drawn pairs."""
    names = [experiment.rankers[place] for place in left]
    number = min(max(MIN_GROUPS, len(left)), MAX_GROUPS)
    if len(left) == 1:
        return (RankerGroup((names[0],), number),)
    key = key_of((experiment.name, version, _SALT, epoch))
    generator = np.random.Generator(np.random.PCG64(int.from_bytes(bytes_of(key))))
    size = min(experiment.rankers_per_list, len(left))
    per_group = -(-size // 2)
    algorithm = ALGORITHMS[experiment.algorithm]
    state = algorithm.start(1, len(left), generator)
    pairs, _ = draw_epoch(algorithm, state, wins[None].astype(np.float64), number * per_group, generator)
    rows = _with_comparisons(pairs[0].reshape(number, 2 * per_group), len(left), nearly, generator)
    draw_counts = Counter(_groups(rows, size))
    return tuple(
        RankerGroup(tuple(names[place] for place in group), draws) for group, draws in sorted(draw_counts.items())
    )


def _with_comparisons(
    rows: Array, rankers: int, nearly: Sequence[tuple[int, int]], generator: np.random.Generator
) -> Array:
    """The draws, of which some are of the leader and rankers that have nearly left instead.

    In enough of them, different rankers are compared: the leader meets another one, by chance, instead of itself.
    """
    some = math.ceil(MIN_COMPARED * len(rows))
    alone = np.flatnonzero((rows == rows[:, :1]).all(axis=1))
    others = np.setdiff1d(np.arange(len(rows)), alone)
    places = np.concatenate([generator.permutation(alone), generator.permutation(others)])[
        : math.ceil(MAX_NEARLY * len(rows))
    ]
    for place, pair in zip(places, nearly, strict=False):
        rows[place] = np.resize(pair, rows.shape[1])
    alone = np.flatnonzero((rows == rows[:, :1]).all(axis=1))
    excess = alone[: max(0, len(alone) - len(rows) + some)]
    rows[excess, 1] = (rows[excess, 0] + generator.integers(1, rankers, len(excess))) % rankers
    return rows


def _groups(drawn: Array, size: int) -> Iterator[tuple[int, ...]]:
    """The first `size` different rankers of each row, in the order of the settings."""
    for row in drawn.tolist():
        yield tuple(sorted(list(dict.fromkeys(row))[:size]))


def find_group(experiment: Experiment, plan: EpochPlan, unit: str) -> tuple[str, tuple[str, ...]]:
    """The arm of a user in an epoch, and the rankers to run: the control, if the user sees no mixed list."""
    arm = assign(experiment, unit)
    if arm != INTERLEAVED:
        return arm, (experiment.control,)
    place = hash_of(f"{_SALT} {plan.experiment} {plan.version} {plan.epoch}", unit) * plan.draws >> 64
    for group in plan.groups:
        place -= group.draws
        if place < 0:
            return arm, group.rankers
    raise AssertionError("the draws of all groups add up to those of the plan")  # pragma: no cover
