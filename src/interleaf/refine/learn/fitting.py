"""Weights from the sums of several experiments: pooled or each an example, with a ridge that is cross-validated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from interleaf.errors import DataError, listed
from interleaf.methods.arrays import Array
from interleaf.refine.learn.inverse_z import Total, inverse_z, total_of

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
