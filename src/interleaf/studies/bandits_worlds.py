"""The worlds of the study `bandits`: the probability that a comparison of two rankers is won, lost or tied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interleaf.clicks import named, scale_of
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
    def _beaten(self) -> Array:
        return np.asarray((self.preferences > 0.5).sum(axis=2))

    @cached_property
    def winners(self) -> Array:
        """Whether a ranker beats as many others as no other does, `[row, ranker]`: the Copeland winners."""
        return np.asarray(self._beaten == self._beaten.max(axis=1, keepdims=True))

    @cached_property
    def has_condorcet_winner(self) -> bool:
        """Whether in each row one ranker beats all others; it is the only Copeland winner."""
        return bool((self._beaten.max(axis=1) == self.wins.shape[1] - 1).all())

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
            return np.asarray((self._beaten.max(axis=1, keepdims=True) - self._beaten) / (self.wins.shape[1] - 1))
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
    models = [named(name, scale_of(data.max_grade)) for name in people]
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
        drawn = generator.permutation(len(matrix))[:rankers]
        world = PreferenceWorld(matrix[np.ix_(drawn, drawn)][None])
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
