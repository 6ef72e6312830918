"""What the algorithms know of each pair of rankers: confidence bounds, and draws from the posterior distribution.

`wins[row, i, j]` counts the comparisons that ranker i has won against ranker j; a tie counts half for both, or not at
all. The diagonal counts the impressions for which one ranker was shown alone. Rows are independent of each other: they
are repeats of a simulation, or several choices from the same wins.
"""

from __future__ import annotations

import numpy as np

from interleaf.kernels.arrays import Array


def confidence_bounds(wins: Array, alpha: float, times: Array) -> tuple[Array, Array]:
    """Bounds `[row, i, j]` of the probability that i beats j: W_ij / N_ij -+ sqrt(alpha log t / N_ij), N = W_ij + W_ji.

    They are 0 and 1 for rankers that were never compared, and 1/2 for a ranker against itself. `times[row]` is t.

    >>> lower, upper = confidence_bounds(np.array([[[0.0, 6.0], [2.0, 0.0]]]), 0.51, np.array([8.0]))
    >>> lower[0, 0, 1].round(3), upper[0, 0, 1].round(3)
    (np.float64(0.386), np.float64(1.114))
    """
    compared = wins + wins.swapaxes(1, 2)
    known = compared > 0
    means = np.divide(wins, compared, out=np.zeros(wins.shape), where=known)
    widths = (alpha * np.log(np.maximum(times, 1)))[:, None, None]
    radii = np.sqrt(np.divide(widths, compared, out=np.zeros(wins.shape), where=known))
    lower, upper = means - radii, np.where(known, means + radii, 1.0)
    itself = np.arange(wins.shape[1])
    lower[:, itself, itself] = upper[:, itself, itself] = 0.5
    return lower, upper


def draw_chances(wins: Array, needed: Array, generator: np.random.Generator) -> Array:
    """Draws `[row, i, j]` of the probability that i beats j, from Beta(1 + W_ij, 1 + W_ji).

    `needed[row, i, j]` says which pairs are drawn, and is symmetric. All others are 1/2. Both
    directions of a pair are one draw: theta_ji = 1 - theta_ij.
    """
    chances = np.full(wins.shape, 0.5)
    row, i, j = np.nonzero(np.triu(needed, 1))
    drawn = generator.beta(1 + wins[row, i, j], 1 + wins[row, j, i])
    chances[row, i, j], chances[row, j, i] = drawn, 1 - drawn
    return chances


def pick_largest(values: Array, generator: np.random.Generator) -> Array:
    """The position of the largest value of each row, one of them by chance if several are equal.

    >>> pick_largest(np.array([[1, 5, 2], [0, 3, 9]]), np.random.default_rng(1))
    array([1, 2])
    """
    is_largest = values == values.max(axis=1, keepdims=True)
    return np.asarray(np.where(is_largest, generator.random(values.shape), -1.0).argmax(axis=1))
