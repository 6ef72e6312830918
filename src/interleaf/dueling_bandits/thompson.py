"""Algorithms that need nothing but the wins: double Thompson sampling, Self-Sparring, and pairs at random.

`wins[row, i, j]` is described in `estimates.py`. Every function returns the chosen rankers of each row.
"""

from __future__ import annotations

import numpy as np

from interleaf.dueling_bandits.estimates import confidence_bounds, draw_chances, pick_largest
from interleaf.kernels.arrays import Array

ALPHA = 0.51  # of Wu & Liu: regret is proved for more than 1/2


def choose_double_thompson(wins: Array, generator: np.random.Generator, alpha: float = ALPHA) -> Array:
    """Two rankers `[row, 2]` by double Thompson sampling (W16); the same one twice means to show it alone.

    The first is one that may beat the most others by its upper bounds, and beats the most others in a draw of all
    probabilities. The second has the largest drawn probability to beat the first, among those whose lower bound allows
    that they lose to it. In the bounds, t is the sum of all wins, which is the number of impressions if ties count.

    >>> wins = np.array([[[0.0, 60.0, 80.0], [20.0, 0.0, 40.0], [10.0, 40.0, 0.0]]])
    >>> choose_double_thompson(wins, np.random.default_rng(1))
    array([[0, 0]])
    """
    rows, rankers = np.arange(len(wins)), np.arange(wins.shape[1])
    lower, upper = confidence_bounds(wins, alpha, wins.sum(axis=(1, 2)))
    scores = (upper > 0.5).sum(axis=2)
    candidates = scores == scores.max(axis=1, keepdims=True)
    drawn = candidates & (candidates.sum(axis=1) > 1)[:, None]  # a single candidate needs no draws
    beaten = (draw_chances(wins, drawn[:, :, None] | drawn[:, None, :], generator) > 0.5).sum(axis=2)
    first = pick_largest(np.where(candidates, beaten, -1), generator)
    allowed = (lower[rows, :, first] <= 0.5) & (rankers != first[:, None])
    row, ranker = np.nonzero(allowed)
    chances = np.full(allowed.shape, -1.0)
    chances[row, ranker] = generator.beta(1 + wins[row, ranker, first[row]], 1 + wins[row, first[row], ranker])
    chances[rows, first] = 0.5
    return np.stack([first, chances.argmax(axis=1)], axis=1)


def choose_self_sparring(wins: Array, generator: np.random.Generator, count: int = 2) -> Array:
    """`count` rankers `[row, count]` by Self-Sparring (S17); a ranker may be chosen several times.

    For each place, every ranker draws from Beta(1 + its wins, 1 + its losses), and the largest draw takes the place.
    """
    itself = np.diagonal(wins, axis1=1, axis2=2)
    won, lost = wins.sum(axis=2) - itself, wins.sum(axis=1) - itself
    drawn = generator.beta(1 + won[:, None], 1 + lost[:, None], (len(wins), count, wins.shape[1]))
    return np.asarray(drawn.argmax(axis=2))


def choose_at_random(wins: Array, generator: np.random.Generator) -> Array:
    """Two different rankers `[row, 2]`, each pair with the same probability, whatever the wins."""
    rankers = wins.shape[1]
    first = generator.integers(rankers, size=len(wins))
    return np.stack([first, (first + generator.integers(1, rankers, size=len(wins))) % rankers], axis=1)
