"""Logistic regression on counts of trials and successes, by Newton's method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array

STEPS = 60
TOLERANCE = 1e-12  # stop if a further step would gain less log-likelihood
ROUNDING = 1e-11  # relative rounding error of a log-likelihood
LARGEST = 15.0  # a larger weight is taken to diverge: e^15 is three million
RIDGE = 0.15  # a prior with a standard deviation of 2.6: no click in a hundred trials counts as half a click
HELD = 0.5  # a weight that moves farther with a hundredth of the penalty would diverge without it
_CHUNK = 65_536


class Fit(NamedTuple):
    """Weights, their covariance, the log-likelihood, and which weights are `diverging` without a penalty."""

    weights: Array
    covariance: Array
    log_likelihood: float
    diverging: Array

    @property
    def separated(self) -> bool:
        """Whether some feature separates clicks from no clicks perfectly."""
        return bool(self.diverging.any())


def fit(design: Array, rows: Array, clicks: Array, start: Array | None = None) -> Fit:
    """The maximum likelihood weights; the columns of the design must be linearly independent.

    >>> fit(np.array([[1.0, 0], [1, 1]]), np.array([4, 4]), np.array([1, 3])).weights.tolist()
    [-1.0986, 2.1972]
    """
    plain = _climb(design, rows, clicks, start, 0.0)
    if plain is not None:
        return plain
    firm, loose = (_climb(design, rows, clicks, None, ridge) for ridge in (RIDGE, RIDGE / 100))
    if firm is None or loose is None:  # a penalised likelihood has one maximum, which Newton's steps reach
        raise ArithmeticError("logistic regression did not converge")
    return firm._replace(diverging=np.abs(loose.weights - firm.weights) > HELD)


def _climb(design: Array, rows: Array, clicks: Array, start: Array | None, ridge: float) -> Fit | None:
    weights = np.zeros(design.shape[1]) if start is None else np.array(start, np.float64)
    height = _height(design, rows, clicks, weights, ridge)
    for _ in range(STEPS):
        gradient, information = _sums(design, rows, clicks, weights)
        gradient -= ridge * weights
        information[np.diag_indices_from(information)] += ridge
        try:
            step = np.linalg.solve(information, gradient)
        except np.linalg.LinAlgError:
            return None
        if gradient @ step < TOLERANCE:
            likelihood = height + ridge * float(weights @ weights) / 2
            return Fit(weights, np.linalg.inv(information), likelihood, np.zeros(len(weights), np.bool_))
        size, lost = 2.0, -np.inf
        while size > 1e-9 and lost < height - ROUNDING * max(1.0, abs(height)):
            size /= 2
            lost = _height(design, rows, clicks, weights + size * step, ridge)
        weights, height = weights + size * step, lost
        if not ridge and np.abs(weights).max(initial=0) > LARGEST:
            return None
    return None


def _height(design: Array, rows: Array, clicks: Array, weights: Array, ridge: float) -> float:
    """The log-likelihood, clicks x - rows log(1 + e^x), minus the penalty."""
    total = 0.0
    for part, some in _chunks(design):
        scores = part @ weights
        total += float(clicks[some] @ scores - rows[some] @ np.logaddexp(0, scores))
    return total - ridge * float(weights @ weights) / 2


def _sums(design: Array, rows: Array, clicks: Array, weights: Array) -> tuple[Array, Array]:
    """The gradient and the information matrix, summed over chunks."""
    size = design.shape[1]
    gradient, information = np.zeros(size), np.zeros((size, size))
    for part, some in _chunks(design):
        chances = probability(part @ weights)
        gradient += part.T @ (clicks[some] - rows[some] * chances)
        information += part.T @ (part * (rows[some] * chances * (1 - chances))[:, None])
    return gradient, information


def gram(design: Array, rows: Array) -> Array:
    """X' diag(rows) X."""
    total = np.zeros((design.shape[1], design.shape[1]))
    for part, some in _chunks(design):
        total += part.T @ (part * rows[some][:, None])
    return total


def _chunks(design: Array) -> Iterator[tuple[Array, slice]]:
    """Parts of the design as floats, because it may be stored as bytes."""
    for begin in range(0, len(design), _CHUNK):
        some = slice(begin, begin + _CHUNK)
        yield design[some].astype(np.float64), some


def probability(scores: Array) -> Array:
    """1 / (1 + e^-x), without overflow."""
    chances: Array = np.exp(-np.logaddexp(0, -scores))
    return chances
