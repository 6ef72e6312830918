"""The inverse z-test (Yue et al. 2010; C12, section 10.2), and weights from the sums of several experiments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from interleaf.buckets import BUCKETS
from interleaf.errors import DataError, listed
from interleaf.methods.arrays import Array
from interleaf.stats.signs import ZScore, z_score

GROUPS = 64  # of user buckets: fewer than those of a tally, since every one holds a matrix
_RANK = 1e-10  # eigenvalues below this share of the largest are zero on paper: some features sum up to others


@dataclass(frozen=True, eq=False)
class Total:
    """The number of pages, s = sum Psi, and S = sum Psi Psi^T."""

    count: float
    sums: Array
    products: Array

    def z_score(self, weights: Array) -> ZScore:
        """C12's z of the scores that these weights give."""
        return z_score(float(weights @ self.sums), float(weights @ self.products @ weights), round(self.count))


def total_of(parts: Iterable[Total]) -> Total:
    """All together; there must be one."""
    first, *others = parts
    for part in others:
        first = Total(first.count + part.count, first.sums + part.sums, first.products + part.products)
    return first


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over pages with a click: `count[group]`, `sums[group, feature]`, `products[group, feature, feature]`.

    Added floats may differ in their last digits with the order of parts; nothing else does.
    """

    count: Array
    sums: Array
    products: Array

    @classmethod
    def empty(cls, features: int) -> Moments:
        """Nothing seen yet."""
        return cls(np.zeros(GROUPS), np.zeros((GROUPS, features)), np.zeros((GROUPS, features, features)))

    def add(self, buckets: Array, values: Array) -> None:
        """Count pages in, of users in these buckets, with values `[page, feature]`."""
        groups = group_of(buckets)
        order = np.argsort(groups, kind="stable")
        edges = np.searchsorted(groups[order], np.arange(GROUPS + 1))
        ordered = values[order]
        for group in np.flatnonzero(np.diff(edges)):
            some = ordered[edges[group] : edges[group + 1]]
            self.count[group] += len(some)
            self.sums[group] += some.sum(axis=0)
            self.products[group] += some.T @ some

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.count + other.count, self.sums + other.sums, self.products + other.products)

    def turned(self) -> Moments:
        """The same with the other ranker first."""
        return replace(self, sums=-self.sums)

    def total(self, times: Array | None = None) -> Total:
        """Of all groups of users; or of each as many times as this says: a mask, or how often it was drawn."""
        drawn = np.ones(GROUPS) if times is None else np.asarray(times, np.float64)
        return Total(float(drawn @ self.count), drawn @ self.sums, np.tensordot(drawn, self.products, 1))


def group_of(buckets: Array) -> Array:
    """The group of each user bucket.

    >>> group_of(np.array([0, 15, 16, 1023]))
    array([ 0,  0,  1, 63])
    """
    return np.asarray(buckets, np.int64) * GROUPS // BUCKETS


def inverse_z(products: Array, sums: Array, ridge: float | Array = 0.0) -> Array:
    """w = (S + Gamma)^-1 s / sqrt(s^T (S + Gamma)^-1 s), Gamma the ridge on the diagonal; zeros where s is zero.

    A number is a ridge on all features, an array on each its own (C12, footnote 13). Where S has no inverse, because
    features sum up to others or never vary, the pseudo-inverse gives the smallest of the best weights.

    >>> inverse_z(np.array([[4.0, 0.0], [0.0, 4.0]]), np.array([2.0, 0.0]))
    array([0.5, 0. ])
    """
    regular = products + np.diag(np.broadcast_to(np.asarray(ridge, np.float64), sums.shape))
    nothing = np.diag(regular) <= 0
    scale = np.where(nothing, 1.0, np.sqrt(np.abs(np.diag(regular))))
    weights: Array = _solved(regular / np.outer(scale, scale) + np.diag(nothing), sums / scale) / scale
    quality = float(sums @ weights)
    return weights / np.sqrt(quality) if quality > 0 else np.zeros_like(weights)


def _solved(matrix: Array, right: Array) -> Array:
    """The least solution of matrix x = right, of a matrix that is symmetric and not negative."""
    try:
        if np.linalg.cholesky(matrix).diagonal().min() > _RANK**0.5:
            return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(matrix)
    kept = values > _RANK * max(float(values.max(initial=0.0)), 1.0)
    solution: Array = (vectors[:, kept] / values[kept]) @ (vectors[:, kept].T @ right)
    return solution


POOLED, EACH = "pooled", "each"
EXAMPLES = (POOLED, EACH)
RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, np.inf)
NEARLY = 0.99  # of the best mean z-score
_LEVEL = 1e-9  # of a variance: features that sum up to others have none of their own


@dataclass(frozen=True, eq=False)
class Fitting:
    """How weights are fitted: `penalized[feature]` says where the ridge is, in units of the feature's own size.

    Feature 0 is equal credit. Without a ridge on it, a larger ridge pulls towards equal credit, and an infinite one
    leaves nothing else. `examples`: all experiments as one (C12), or the mean z-score of each (its footnote 12).
    """

    penalized: Array
    examples: str = POOLED

    def __post_init__(self) -> None:
        if self.examples not in EXAMPLES:
            raise DataError(f"unknown examples {self.examples!r}; known are {listed(EXAMPLES)}")

    @property
    def ridges(self) -> tuple[float, ...]:
        """The ridges that are tried: an infinite one must leave something."""
        return RIDGES if not self.penalized.all() else RIDGES[:-1]

    def weights(self, experiments: Sequence[Total], ridge: float) -> Array | None:
        """The weights, scaled so that scores are as large as those of equal credit; None where nothing is preferred."""
        if not experiments:
            return None
        pooled = total_of(experiments)
        sums, products = pooled.sums, pooled.products
        if np.isinf(ridge):
            free = np.flatnonzero(~self.penalized)
            found = np.zeros(len(sums))
            found[free] = inverse_z(products[np.ix_(free, free)], sums[free])
        else:
            found = inverse_z(products, sums, ridge * self.penalized * np.diag(products))
            if self.examples == EACH and found.any():
                found = self._each(experiments, ridge, found)
        size = float(found @ products @ found)
        return found * np.sqrt(products[0, 0] / size) if size > 0 else None

    def _each(self, experiments: Sequence[Total], ridge: float, start: Array) -> Array:
        """The weights with the largest mean of mu / sqrt(variance + ridge) over experiments, from a start."""
        from scipy.optimize import minimize

        means = np.array([one.sums / one.count for one in experiments])
        spreads = np.array([one.products / one.count for one in experiments])
        sizes = np.array([np.diag(np.diag(spread)) for spread in spreads])
        variances = spreads - means[:, :, None] * means[:, None, :] + ridge * self.penalized * sizes
        level = np.linalg.cholesky(variances.mean(axis=0) + _LEVEL * (sizes.mean(axis=0) + np.eye(len(start))))
        turn = np.linalg.inv(level)  # weights w = turn^T v: in v all directions vary alike, which is quickly climbed
        means, variances = means @ turn.T, turn @ variances @ turn.T

        def loss(place: Array) -> tuple[float, Array]:
            pulls = variances @ place
            squares = np.maximum(pulls @ place, _LEVEL)
            scores = means @ place / np.sqrt(squares)
            slopes = means / np.sqrt(squares)[:, None] - (scores / squares)[:, None] * pulls
            return -float(scores.mean()), -slopes.mean(axis=0)

        begin = level.T @ start
        best = minimize(loss, begin / np.linalg.norm(begin), jac=True, method="L-BFGS-B")
        return np.asarray(turn.T @ best.x)

    def ridge(self, groups: Sequence[Sequence[Total]]) -> tuple[float, dict[float, float]]:
        """The ridge by cross-validation: the largest that is nearly the best, and the score of every one.

        The score is the mean z-score a page on groups that were left out; a larger ridge gives steadier weights.
        """
        pooled = Fitting(self.penalized)  # to choose a ridge, the closed form does
        found = {ridge: _left_out(pooled, groups, ridge) for ridge in self.ridges}
        known = {ridge: value for ridge, value in found.items() if value is not None}
        best = max(known.values(), default=0.0)
        return max((ridge for ridge in known if known[ridge] >= NEARLY * best), default=self.ridges[-1]), known


def _left_out(fitting: Fitting, groups: Sequence[Sequence[Total]], ridge: float) -> float | None:
    """The mean z-score a page of experiments whose group was left out; None where none can be told."""
    found = []
    for place, group in enumerate(groups):
        others = [total for other, some in enumerate(groups) if other != place for total in some]
        weights = fitting.weights(others, ridge)
        if weights is not None:
            scores = [total.z_score(weights).per_query for total in group]
            found += [score for score in scores if score is not None]
    return float(np.mean(found)) if found else None
