"""The inverse z-test (Yue et al. 2010; C12, section 10.2): weights of features that make the z-test most sensitive.

With Psi_j the features of page j, those of the better ranker's clicks less those of the other's,

    S = sum_j Psi_j Psi_j^T,   s = sum_j Psi_j,   w = (S + Gamma)^-1 s / sqrt(s^T (S + Gamma)^-1 s)

maximises mean / deviation of the scores w Psi_j where Gamma = 0; a ridge Gamma, diagonal, guards against chance. All of
it comes from sums, kept by user group: so parts of a log add up, and resampled groups tell how sure the weights are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from interleaf.buckets import BUCKETS
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
