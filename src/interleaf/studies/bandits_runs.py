"""Runs of the study `bandits`: an algorithm chooses, people compare, and the regret adds up.

The worlds say with which probability a comparison of two rankers is won, lost or tied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from interleaf.clicks import find_cascade, scale_of
from interleaf.dueling_bandits import ALGORITHMS, draw_epoch
from interleaf.errors import DataError
from interleaf.interleaving import batch
from interleaf.kernels.arrays import Array
from interleaf.methods.registry import DEFAULT, resolve
from interleaf.simulate.data import Judged
from interleaf.simulate.people import streams, words_of
from interleaf.simulate.run import Stage

K = 10
MAX_TRIES = 10_000
SMALL, MIDDLE, LARGE = 0.55, 0.6, 0.8  # probabilities to win in the synthetic worlds
TIE_RULES = COIN, HALF, NOT_COUNTED = "a fair coin", "half a win each", "not counted"
LAST = 0.1  # the share of the impressions in which a run ends


@dataclass(frozen=True)
class PreferenceWorld:
    """`wins[row, i, j]` is the probability that ranker i wins a comparison with j; each row is a repeat of the study.

    The comparison is tied with the rest of the probability. A comparison of a ranker with itself is always tied.
    """

    wins: Array

    def first(self, rows: int) -> PreferenceWorld:
        """The world in the first repeats only."""
        return PreferenceWorld(self.wins[:rows])

    @cached_property
    def ties(self) -> Array:
        """The probability of a tie, `[row, i, j]`."""
        return np.asarray(1 - self.wins - self.wins.swapaxes(1, 2))

    @cached_property
    def preferences(self) -> Array:
        """The probability that i is preferred to j, with ties split."""
        return np.asarray((1 + self.wins - self.wins.swapaxes(1, 2)) / 2)

    @cached_property
    def _beaten_counts(self) -> Array:
        return np.asarray((self.preferences > 0.5).sum(axis=2))

    @cached_property
    def winners(self) -> Array:
        """Whether a ranker beats as many others as no other does, `[row, ranker]`: the Copeland winners."""
        return np.asarray(self._beaten_counts == self._beaten_counts.max(axis=1, keepdims=True))

    @cached_property
    def has_condorcet_winner(self) -> bool:
        """Whether in each row one ranker beats all others; it is the only Copeland winner."""
        return bool((self._beaten_counts.max(axis=1) == self.wins.shape[1] - 1).all())

    @cached_property
    def borda_winners(self) -> Array:
        """The ranker of each row that wins most often against a ranker drawn at random."""
        return np.asarray(self.preferences.sum(axis=2).argmax(axis=1))

    @cached_property
    def gaps(self) -> Array:
        """How much worse than the best a ranker is, `[row, ranker]`.

        It is the probability that the Condorcet winner is preferred to it, minus 1/2. Without a Condorcet winner it is
        the share of the other rankers that a Copeland winner beats, minus the share that this ranker beats (W16).
        """
        if not self.has_condorcet_winner:
            return np.asarray(
                (self._beaten_counts.max(axis=1, keepdims=True) - self._beaten_counts) / (self.wins.shape[1] - 1)
            )
        best = self.winners.argmax(axis=1)
        return np.asarray(self.preferences[np.arange(len(best)), best] - 0.5)


def compare_with_later(
    data: Judged, rankings: Array, first: int, people: Sequence[str], repeats: int, seed: int
) -> Array:
    """The shares of comparisons that a ranker wins and loses against each later ranker, `[people, later, 2]`.

    Each query is shown `repeats` times, by the default method and scheme; all people see the same lists.
    """
    queries = np.tile(np.arange(len(data)), repeats)
    numbers, chosen = np.arange(len(queries), dtype=np.uint64), resolve(DEFAULT)
    models = [find_cascade(name, scale_of(data.max_grade)) for name in people]
    shares = np.empty((len(people), rankings.shape[1] - first - 1, 2))
    for later in range(first + 1, rankings.shape[1]):
        stage, key = Stage(data, rankings[:, [first, later]], chosen, K), (seed, first, later)
        lists = stage.compose(queries, streams(words_of((*key, "lists")), numbers), stage.settings(queries), 1)
        shown, grades = stage.look_up(queries, lists)
        for number, (name, model) in enumerate(zip(people, models, strict=True)):
            clicks = model.sample_batch(grades, lists.counts, streams(words_of((*key, name)), numbers))
            scores = batch.preferences(chosen, chosen.scheme(None, 2), shown, lists.counts, clicks, 1)[:, 0, 1]
            shares[number, later - first - 1] = (scores > 0).mean(), (scores < 0).mean()
    return shares


def matrix_of(shares: Sequence[Array]) -> Array:
    """The probabilities `[i, j]` that i wins, from the shares `[later, 2]` of each ranker but the last."""
    rankers = len(shares) + 1
    wins = np.zeros((rankers, rankers))
    for first, of_first in enumerate(shares):
        wins[first, first + 1 :], wins[first + 1 :, first] = of_first.T
    return wins


def judged_world(matrix: Array, rankers: int, repeats: int, generator: np.random.Generator) -> PreferenceWorld:
    """In each row, this many rankers of a matrix, drawn until one of them beats all others; or all of the matrix."""
    if rankers == len(matrix):
        return PreferenceWorld(np.tile(matrix, (repeats, 1, 1)))
    rows: list[Array] = []
    for _ in range(MAX_TRIES):
        chosen = generator.permutation(len(matrix))[:rankers]
        world = PreferenceWorld(matrix[np.ix_(chosen, chosen)][None])
        rows += [world.wins[0]] if world.has_condorcet_winner else []
        if len(rows) == repeats:
            return PreferenceWorld(np.array(rows))
    problem = f"of {MAX_TRIES:,} sets of {rankers} rankers, {len(rows)} have a ranker that beats all others"
    raise DataError(f"{problem}; the study needs {repeats}: give queries with better features")


def synthetic_world(winners: int, rankers: int, repeats: int) -> PreferenceWorld:
    """The first rankers beat all others by a little, but the one after them beats the rest by far, and wins by Borda.

    A single first ranker is the Condorcet winner. Three or more beat each other in a cycle. There are no ties.
    """
    wins = np.tril(np.full((rankers, rankers), 1 - SMALL), -1) + np.triu(np.full((rankers, rankers), SMALL), 1)
    wins[winners, winners + 1 :], wins[winners + 1 :, winners] = LARGE, 1 - LARGE
    for one in range(winners if winners > 1 else 0):
        other = (one + 1) % winners
        wins[one, other], wins[other, one] = MIDDLE, 1 - MIDDLE
    return PreferenceWorld(np.tile(wins, (repeats, 1, 1)))


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
