"""Logistic regression on counts of results that look alike, by Newton's method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from interleaf.caption_bias.features import FIRST, GRADE, POSITION, Patterns
from interleaf.methods.arrays import Array

STEPS = 60
TOLERANCE = 1e-12  # of what a further step promises to gain in log-likelihood
ROUNDING = 1e-11  # of a log-likelihood, as a share of it
LARGEST = 15.0  # a weight beyond it is on its way to infinity: e^15 is three million
RIDGE = 0.15  # as if weights were drawn with a deviation of 2.6: no click in a hundred counts as half a one
HELD = 0.5  # weights that move farther with a hundredth of the penalty are on their way to infinity
_CHUNK = 65_536


class Fit(NamedTuple):
    """Weights, their covariance, the log-likelihood, and which weights are `held`: infinite but for a penalty."""

    weights: Array
    covariance: Array
    log_likelihood: float
    held: Array

    @property
    def separated(self) -> bool:
        """Whether clicks can be told from no clicks without a mistake, somewhere."""
        return bool(self.held.any())


def fit(design: Array, rows: Array, clicks: Array, start: Array | None = None) -> Fit:
    """The weights that make the clicks likeliest; the columns of the design must not follow from each other.

    >>> found = fit(np.array([[1.0, 0], [1, 1]]), np.array([4, 4]), np.array([1, 3]))
    >>> found.weights.tolist()
    [-1.0986, 2.1972]
    """
    found = _climb(design, rows, clicks, start, 0.0)
    if found is not None:
        return found
    found, loose = (_climb(design, rows, clicks, None, ridge) for ridge in (RIDGE, RIDGE / 100))
    if found is None or loose is None:  # a penalised likelihood has one top, and Newton's steps reach it
        raise ArithmeticError("logistic regression did not converge")
    return found._replace(held=np.abs(loose.weights - found.weights) > HELD)


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
            likelihood = height + _penalty(weights, ridge)
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
    """The log-likelihood, less the penalty: clicks x - rows log(1 + e^x)."""
    total = 0.0
    for part, some in _chunks(design):
        scores = part @ weights
        total += float(clicks[some] @ scores - rows[some] @ np.logaddexp(0, scores))
    return total - _penalty(weights, ridge)


def _penalty(weights: Array, ridge: float) -> float:
    return ridge * float(weights @ weights) / 2


def _sums(design: Array, rows: Array, clicks: Array, weights: Array) -> tuple[Array, Array]:
    """Gradient and information, chunk by chunk: sums that merge."""
    size = design.shape[1]
    gradient, information = np.zeros(size), np.zeros((size, size))
    for part, some in _chunks(design):
        chances = probability(part @ weights)
        gradient += part.T @ (clicks[some] - rows[some] * chances)
        information += part.T @ (part * (rows[some] * chances * (1 - chances))[:, None])
    return gradient, information


def gram(design: Array, rows: Array) -> Array:
    """X' diag(rows) X."""
    found = np.zeros((design.shape[1], design.shape[1]))
    for part, some in _chunks(design):
        found += part.T @ (part * rows[some][:, None])
    return found


def _chunks(design: Array) -> Iterator[tuple[Array, slice]]:
    """Parts of the design as numbers: it may be held in bytes."""
    for begin in range(0, len(design), _CHUNK):
        some = slice(begin, begin + _CHUNK)
        yield design[some].astype(np.float64), some


def probability(scores: Array) -> Array:
    """1 / (1 + e^-x), without overflow."""
    chances: Array = np.exp(-np.logaddexp(0, -scores))
    return chances


NEVER, ALWAYS = "no result has it", "all results have it"
NO_CLICK = "none of the few results that have it was clicked"
ALL_CLICKED = "all of the few results that have it were clicked"
FOLLOWS = "follows from the features before it"
P_VALUE = 0.001  # features with a larger one are left out
_ALIASED = 1e-9  # of a column's square, what is left of it after those before it are taken out


@dataclass(frozen=True, eq=False)
class Design:
    """Patterns whose features are these, by name. Both blocks of indicators sum to one, so the first grade has none."""

    patterns: Patterns
    names: tuple[str, ...]

    def only(self, names: Sequence[str]) -> Design:
        """With these features alone."""
        return Design(self.patterns.only([self.names.index(name) for name in names]), tuple(names))

    @cached_property
    def positions(self) -> list[tuple[int, ...]]:
        """The positions that have a column together."""
        return _levels(self.patterns, POSITION)

    @cached_property
    def grades(self) -> list[tuple[int, ...]]:
        """The grades that have a column together; the first of these has none."""
        return _levels(self.patterns, GRADE)

    @property
    def start(self) -> int:
        """The column of the first feature."""
        return len(self.positions) + len(self.grades) - 1

    @cached_property
    def matrix(self) -> Array:
        """A row a pattern; all values are -1, 0 or 1."""
        codes = self.patterns.codes
        blocks = [(POSITION, level) for level in self.positions] + [(GRADE, level) for level in self.grades[1:]]
        made = np.empty((len(codes), len(blocks) + len(self.names)), np.int8)
        for column, (block, level) in enumerate(blocks):
            made[:, column] = np.isin(codes[:, block], level)
        made[:, len(blocks) :] = codes[:, FIRST:]
        return made

    def fit(self, start: Array | None = None) -> Fit:
        """The weights of all columns."""
        return fit(self.matrix, self.patterns.rows, self.patterns.clicks, start)

    def useless(self) -> dict[str, str]:
        """Features that cannot have a weight of their own, and why."""
        found = {name: reason for name in self.names if (reason := self._uselessness(name))}
        left = self.only([name for name in self.names if name not in found])
        return found | dict.fromkeys(left.followers(), FOLLOWS)

    def _uselessness(self, name: str) -> str:
        values = self.patterns.codes[:, FIRST + self.names.index(name)]
        has = values != 0
        rows, clicks = (counts[has].sum() for counts in (self.patterns.rows, self.patterns.clicks))
        if rows == 0:
            return NEVER
        if (values == values[0]).all():
            return ALWAYS
        if 0 < clicks < rows or self._chance_of_all(has, clicks > 0) < P_VALUE:
            return ""
        return ALL_CLICKED if clicks else NO_CLICK

    def _chance_of_all(self, has: Array, clicked: bool) -> float:
        """How likely all results of these patterns are clicked, or none, where position and relevance alone decide."""
        scores = self.matrix[has, : self.start] @ self.only([]).fit().weights
        return float(np.exp(-self.patterns.rows[has] @ np.logaddexp(0, -scores if clicked else scores)))

    def followers(self) -> list[str]:
        """Features that follow from columns before them."""
        squares = gram(self.matrix, self.patterns.rows)
        kept, found = list(range(self.start)), []
        for column in range(self.start, len(squares)):
            among, along = squares[np.ix_(kept, kept)], squares[kept, column]
            left = squares[column, column] - along @ np.linalg.lstsq(among, along, rcond=None)[0]
            if left > _ALIASED * squares[column, column]:
                kept.append(column)
            else:
                found.append(self.names[column - self.start])
        return found


def _levels(patterns: Patterns, block: int) -> list[tuple[int, ...]]:
    """Codes that occur, each alone; one that was never clicked, or always, joins the one before it.

    Alone, its best weight would be infinite.
    """
    rows = np.bincount(patterns.codes[:, block], patterns.rows)
    clicks = np.bincount(patterns.codes[:, block], patterns.clicks)

    def is_mixed(level: Sequence[int]) -> bool:
        return bool(0 < clicks[list(level)].sum() < rows[list(level)].sum())

    found: list[tuple[int, ...]] = []
    for code in np.flatnonzero(rows).tolist():
        if found and not (is_mixed(found[-1]) and is_mixed([code])):
            found[-1] = (*found[-1], code)
        else:
            found.append((code,))
    return found
