"""Weights by the inverse z-test (Yue et al. 2010; C12, section 10.2), from one experiment or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from interleaf.errors import DataError, join_names
from interleaf.kernels.arrays import Array
from interleaf.kernels.buckets import BUCKETS
from interleaf.stable_codes import Code, Note
from interleaf.stats.compare import estimate
from interleaf.stats.signs import ZScore, z_score

GROUPS = 64  # groups of user buckets; fewer than the buckets of a tally, since each holds a matrix
_RANK = 1e-10  # smaller eigenvalues, relative to the largest, count as 0: they come from linearly dependent features


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over pages with a click: their `count`, s = `sums[feature]` of Psi, S = `products[feature, feature]` of Psi.

    All have one more leading axis for groups of users; `total` sums over the groups.
    """

    count: Array
    sums: Array
    products: Array

    @classmethod
    def empty(cls, features: int) -> Moments:
        return cls(np.zeros(GROUPS), np.zeros((GROUPS, features)), np.zeros((GROUPS, features, features)))

    def add(self, buckets: Array, values: Array) -> None:
        """Add pages of users in these buckets, with values `[page, feature]`."""
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

    def total(self, times: Array | None = None) -> Moments:
        """The total of all groups of users; `times[group]` is a mask, or how often a group was resampled."""
        factors = np.ones(GROUPS) if times is None else np.asarray(times, np.float64)
        return Moments(np.asarray(factors @ self.count), factors @ self.sums, np.tensordot(factors, self.products, 1))

    def z_score(self, weights: Array) -> ZScore:
        """The z-score (C12) of a total's scores by these weights."""
        return z_score(float(weights @ self.sums), float(weights @ self.products @ weights), round(float(self.count)))


def group_of(buckets: Array) -> Array:
    """The group of each user bucket.

    >>> group_of(np.array([0, 15, 16, 1023]))
    array([ 0,  0,  1, 63])
    """
    return np.asarray(buckets, np.int64) * GROUPS // BUCKETS


def inverse_z(products: Array, sums: Array, ridge: float | Array = 0.0) -> Array:
    """w = (S + Gamma)^-1 s / sqrt(s^T (S + Gamma)^-1 s), Gamma the ridge on the diagonal; zeros if s is zero.

    `ridge` is a number for all features, or an array with one per feature (C12, footnote 13). If S has no inverse,
    because features are linearly dependent or constant, the pseudo-inverse gives the smallest of the best weights.

    >>> inverse_z(np.array([[4.0, 0.0], [0.0, 4.0]]), np.array([2.0, 0.0]))
    array([0.5, 0. ])
    """
    regular = products + np.diag(np.broadcast_to(np.asarray(ridge, np.float64), sums.shape))
    nothing = np.diag(regular) <= 0
    scale = np.where(nothing, 1.0, np.sqrt(np.abs(np.diag(regular))))
    weights: Array = _solve(regular / np.outer(scale, scale) + np.diag(nothing), sums / scale) / scale
    weights[nothing] = 0.0  # on some machines the solver returns rounding errors instead of 0
    quality = float(sums @ weights)
    return weights / np.sqrt(quality) if quality > 0 else np.zeros_like(weights)


def _solve(matrix: Array, right: Array) -> Array:
    """The smallest solution of matrix x = right for a symmetric positive semidefinite matrix."""
    try:
        if np.linalg.cholesky(matrix).diagonal().min() > _RANK**0.5:
            return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(matrix)
    regular = values > _RANK * max(float(values.max(initial=0.0)), 1.0)
    solution: Array = (vectors[:, regular] / values[regular]) @ (vectors[:, regular].T @ right)
    return solution


POOLED, EACH = "pooled", "each"
EXAMPLES = (POOLED, EACH)
RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, np.inf)
NEARLY = 0.99  # share of the best mean z-score
_LEVEL = 1e-9  # share of a variance; linearly dependent features have no variance of their own


@dataclass(frozen=True, eq=False)
class Fitting:
    """How weights are fitted. `penalized[feature]` says which features have the ridge, relative to their own size.

    Feature 0 is equal credit. Without a ridge on it, a larger ridge pulls the weights towards equal credit, and an
    infinite one gives equal credit. `examples` is `pooled`: all experiments as one (C12); or `each`: their mean z-score
    (footnote 12).
    """

    penalized: Array
    examples: str = POOLED

    def __post_init__(self) -> None:
        if self.examples not in EXAMPLES:
            raise DataError(f"unknown examples {self.examples!r}; known are {join_names(EXAMPLES)}")

    @property
    def ridges(self) -> tuple[float, ...]:
        """The ridges to try; an infinite one only if some feature is not penalized."""
        return RIDGES if not self.penalized.all() else RIDGES[:-1]

    def weights(self, experiments: Sequence[Moments], ridge: float) -> Array | None:
        """The weights, scaled so that scores are as large as those of equal credit; None if there is no preference."""
        if not experiments:
            return None
        pooled = reduce(Moments.__add__, experiments)
        sums, products = pooled.sums, pooled.products
        if np.isinf(ridge):
            free = np.flatnonzero(~self.penalized)
            weights = np.zeros(len(sums))
            weights[free] = inverse_z(products[np.ix_(free, free)], sums[free])
        else:
            weights = inverse_z(products, sums, ridge * self.penalized * np.diag(products))
            if self.examples == EACH and weights.any():
                weights = self._each(experiments, ridge, weights)
        size = float(weights @ products @ weights)
        return weights * np.sqrt(products[0, 0] / size) if size > 0 else None

    def _each(self, experiments: Sequence[Moments], ridge: float, start: Array) -> Array:
        """The weights with the largest mean of mu / sqrt(variance + ridge) over experiments, from a start."""
        from scipy.optimize import minimize

        means = np.array([one.sums / one.count for one in experiments])
        spreads = np.array([one.products / one.count for one in experiments])
        sizes = np.array([np.diag(np.diag(spread)) for spread in spreads])
        variances = spreads - means[:, :, None] * means[:, None, :] + ridge * self.penalized * sizes
        level = np.linalg.cholesky(variances.mean(axis=0) + _LEVEL * (sizes.mean(axis=0) + np.eye(len(start))))
        turn = np.linalg.inv(level)  # w = turn^T v: all directions of v have equal variance
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

    def ridge(self, groups: Sequence[Sequence[Moments]]) -> tuple[float, dict[float, float]]:
        """The ridge by cross-validation: the largest that scores nearly as well as the best, and the score of each.

        The score is the mean z-score per page on groups that were left out. A larger ridge gives more stable weights.
        """
        pooled = Fitting(self.penalized)  # the closed form is good enough to choose a ridge
        scores = {ridge: _left_out(pooled, groups, ridge) for ridge in self.ridges}
        by_ridge = {ridge: score for ridge, score in scores.items() if score is not None}
        best = max(by_ridge.values(), default=0.0)
        return max((ridge for ridge in by_ridge if by_ridge[ridge] >= NEARLY * best), default=self.ridges[-1]), by_ridge


def _left_out(fitting: Fitting, groups: Sequence[Sequence[Moments]], ridge: float) -> float | None:
    """The mean z-score per page of experiments whose group was left out; None if there is none."""
    scores = []
    for place, group in enumerate(groups):
        others = [total for other, some in enumerate(groups) if other != place for total in some]
        weights = fitting.weights(others, ridge)
        if weights is not None:
            scores += [total.z_score(weights).per_query for total in group]
    numbers = [score for score in scores if score is not None]
    return float(np.mean(numbers)) if numbers else None


def fold_of(groups: Array, folds: int) -> Array:
    """The fold of each group of users.

    >>> fold_of(np.array([0, 3, 4, 63]), 16)
    array([ 0,  0,  1, 15])
    """
    return np.asarray(groups) * folds // GROUPS


class RankerPair(NamedTuple):
    """An experiment and its rankers, by name in order; moments are those of the first over the second."""

    experiment: str
    version: int
    first: str
    second: str


LEVEL = 0.05  # significance level of equal credit for the better ranker of an experiment
PARTS = 8  # parts of users for cross-validation, if there is only one group of experiments


class LearningNote(Code):
    """What was learned from, and why something was not."""

    LEARNED_FROM = "learned_from", "Learned from {:,} pages with a click, of {}; ridge {}, {}. {}"
    NO_PAGE = "no_page", "no page with a click"
    UNDECIDED = "undecided", "undecided by equal credit{}, and no ranker was named the better one"
    NOT_TWO_RANKERS = "not_two_rankers", "experiment {} rankers; learning takes two"


@dataclass(frozen=True, eq=False)
class TrainingExample:
    """A pair of rankers with the moments of the better over the worse.

    `decided` says whether equal credit finds a significant difference, `reason` why nothing is learned from the pair.
    """

    pair: RankerPair
    group: str
    better: str
    worse: str
    moments: Moments
    decided: bool
    reason: Note | None = None

    @property
    def pages(self) -> int:
        return round(float(self.moments.count.sum()))


def examples_of(
    pairs: Mapping[RankerPair, Moments], better: Mapping[str, str], groups: Mapping[str, str]
) -> list[TrainingExample]:
    """All pairs; the better ranker is named in `better`, else decided by a significant test of equal credit."""
    experiments = {pair.experiment for pair in pairs}
    for name, by_experiment in (("better", better), ("groups", groups)):
        if unknown := sorted(set(by_experiment) - experiments):
            raise DataError(f"{name} names experiment {unknown[0]!r}; the log holds {join_names(sorted(experiments))}")
    return [_example(pair, moments, better, groups) for pair, moments in sorted(pairs.items())]


def _example(
    pair: RankerPair, moments: Moments, better: Mapping[str, str], groups: Mapping[str, str]
) -> TrainingExample:
    equal = estimate(moments.sums[:, 0], moments.count)
    decided = equal.p_value is not None and equal.p_value < LEVEL
    named = better.get(pair.experiment)
    if named not in (None, pair.first, pair.second):
        problem = f"better says {named!r} of experiment {pair.experiment!r}"
        raise DataError(f"{problem}; that one compares {pair.first!r} and {pair.second!r}")
    leads = named == pair.first if named else (equal.value or 0) >= 0
    reason = None
    if not moments.count.any():
        reason = LearningNote.NO_PAGE.note()
    elif not named and not decided:
        p_value = "" if equal.p_value is None else f" (p = {equal.p_value:.2g})"
        reason = LearningNote.UNDECIDED.note(p_value)
    sides = (pair.first, pair.second) if leads else (pair.second, pair.first)
    oriented = moments if leads else replace(moments, sums=-moments.sums)
    return TrainingExample(pair, groups.get(pair.experiment, pair.experiment), *sides, oriented, decided, reason)


def learn_weights(
    examples: Sequence[TrainingExample], fitting: Fitting, ridge: float | None, times: Array | None = None
) -> tuple[Array | None, float, dict[float, float]]:
    """Weights, their ridge, and the mean z-score per page by ridge if it was chosen; `times` as for `Moments.total`."""
    totals = [(example, example.moments.total(times)) for example in examples if not example.reason]
    there = [(example, total) for example, total in totals if total.count > 0]
    by_ridge: dict[float, float] = {}
    if ridge is None:
        ridge, by_ridge = fitting.ridge(_left_out_together(there, times))
    return fitting.weights([total for _, total in there], ridge), ridge, by_ridge


def _left_out_together(there: Sequence[tuple[TrainingExample, Moments]], times: Array | None) -> list[list[Moments]]:
    """Totals by group; if there is only one group, totals of parts of its users."""
    groups: dict[str, list[Moments]] = {}
    for example, total in there:
        groups.setdefault(example.group, []).append(total)
    if len(groups) > 1:
        return list(groups.values())
    factors = np.ones(GROUPS) if times is None else np.asarray(times, np.float64)
    pages = factors * np.sum([example.moments.count for example, _ in there], axis=0)
    parts = []
    for part in np.array_split(np.flatnonzero(pages), PARTS):
        totals = [example.moments.total(factors * np.isin(np.arange(GROUPS), part)) for example, _ in there]
        parts.append([total for total in totals if total.count > 0])
    return [totals for totals in parts if totals]


def fold_weights(examples: Sequence[TrainingExample], fitting: Fitting, ridge: float | None, folds: int) -> list[Array]:
    """Weights of each fold, learned from the users of earlier folds; equal credit if nothing can be learned."""
    if folds and not 2 <= folds <= GROUPS:
        raise DataError(f"folds is {folds!r}; give 2 to {GROUPS}, or 0 for none")
    equal = np.eye(len(fitting.penalized))[0]
    fold_of_group = fold_of(np.arange(GROUPS), folds)
    by_fold = [learn_weights(examples, fitting, ridge, fold_of_group < fold)[0] for fold in range(folds)]
    return [equal if weights is None else weights for weights in by_fold]


@dataclass(frozen=True)
class HeldOutExperiment:
    """An experiment scored by weights from other groups: z-scores per page by equal and learned credit (C12, Eq. 21).

    `reason` says why a z-score is None.
    """

    experiment: str
    version: int
    group: str
    better: str
    worse: str
    pages: int
    decided: bool
    equal: float | None
    learned: float | None
    reason: str = ""

    @property
    def relative(self) -> float | None:
        """The learned z-score over that of equal credit."""
        return self.learned / self.equal if self.learned is not None and self.equal else None

    @property
    def is_flipped(self) -> bool:
        """Whether learned credit contradicts a decision of equal credit."""
        return self.decided and self.relative is not None and self.relative < 0


def held_out(examples: Sequence[TrainingExample], fitting: Fitting, ridge: float | None) -> list[HeldOutExperiment]:
    """Score each group by weights and a ridge from the other groups, including undecided experiments."""
    unknown = ZScore(None, None, "no other experiment to learn from")
    results = []
    for group in dict.fromkeys(example.group for example in examples):
        weights, _, _ = learn_weights([one for one in examples if one.group != group], fitting, ridge)
        for example in [one for one in examples if one.group == group]:
            total = example.moments.total()
            equal = total.z_score(np.eye(len(total.sums))[0])
            learned = unknown if weights is None else total.z_score(weights)
            names = (*example.pair[:2], group, example.better, example.worse)
            scores = equal.per_query, learned.per_query, equal.reason or learned.reason
            results.append(HeldOutExperiment(*names, round(float(total.count)), example.decided, *scores))
    return results
