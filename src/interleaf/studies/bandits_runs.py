"""Runs of the study `bandits`: an algorithm chooses, people compare, and the regret adds up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from interleaf.dueling_bandits.algorithms import ALGORITHMS, draw_epoch
from interleaf.kernels.arrays import Array
from interleaf.studies.bandits_worlds import PreferenceWorld

TIE_RULES = COIN, HALF, NOT_COUNTED = "a fair coin", "half a win each", "not counted"
LAST = 0.1  # the share of the impressions in which a run ends


class Schedule(NamedTuple):
    """`impressions` in epochs of `epoch` impressions, each for `draws` pairs in equal parts."""

    impressions: int
    epoch: int
    draws: int


@dataclass(frozen=True)
class BanditRun:
    """All repeats of one algorithm in one world.

    `regret[point, row]` is the regret after `points[point]` impressions: the sum of the mean gap of the two rankers.
    `shown[row, ranker]` is the share of the places of the last tenth of the impressions that a ranker had.
    """

    points: Array
    regret: Array
    shown: Array

    @property
    def ends(self) -> Array:
        """The ranker of each row that was shown most in the last tenth of the impressions."""
        return np.asarray(self.shown.argmax(axis=1))


def simulate(
    world: PreferenceWorld,
    algorithm: str,
    schedule: Schedule,
    tie_rule: str,
    points: Array,
    generator: np.random.Generator,
) -> BanditRun:
    """Let an algorithm choose pairs, epoch by epoch; it learns the wins of an epoch after its end."""
    bandit = ALGORITHMS[algorithm]
    rows, rankers = world.gaps.shape
    row, size = np.arange(rows)[:, None], schedule.epoch // schedule.draws
    wins, state = np.zeros((rows, rankers, rankers)), bandit.start(rows, rankers, generator)
    regret, shown = np.zeros((schedule.impressions // schedule.epoch + 1, rows)), np.zeros((rows, rankers))
    for epoch in range(1, len(regret)):
        pairs, state = draw_epoch(bandit, state, wins, schedule.draws, generator)
        first, second = pairs[..., 0], pairs[..., 1]
        won, lost = draw_outcomes(world, row, first, second, size, tie_rule, generator)
        np.add.at(wins, (row, first, second), won)
        np.add.at(wins, (row, second, first), lost)
        regret[epoch] = regret[epoch - 1] + size * (world.gaps[row, first] + world.gaps[row, second]).sum(axis=1) / 2
        if epoch > (1 - LAST) * (len(regret) - 1):
            np.add.at(shown, (row[..., None], pairs), 1)
    return BanditRun(points, regret[points // schedule.epoch], shown / shown.sum(axis=1, keepdims=True))


def draw_outcomes(
    world: PreferenceWorld,
    row: Array,
    first: Array,
    second: Array,
    size: int,
    tie_rule: str,
    generator: np.random.Generator,
) -> tuple[Array, Array]:
    """The wins of the first and of the second ranker of each pair in `size` comparisons; ties count by the rule.

    A ranker that is shown alone gets half a win for each side, so that the sum of wins counts these impressions, too.
    """
    if tie_rule == COIN:
        won = generator.binomial(size, world.preferences[row, first, second]).astype(np.float64)
        lost = size - won
    else:
        chances = np.stack([world.wins[row, first, second], world.wins[row, second, first]], axis=-1)
        chances = np.concatenate([chances, np.maximum(1 - chances.sum(axis=-1, keepdims=True), 0)], axis=-1)
        won, lost, tied = np.moveaxis(generator.multinomial(size, chances), -1, 0).astype(np.float64)
        if tie_rule == HALF:
            won, lost = won + tied / 2, lost + tied / 2
    is_alone = first == second
    return np.where(is_alone, size / 2, won), np.where(is_alone, size / 2, lost)
