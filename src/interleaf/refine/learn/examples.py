"""Experiments as examples: who is taken for better, and which are left out to see what was learned from the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from interleaf.errors import DataError, listed
from interleaf.methods.arrays import Array
from interleaf.refine.learn.fitting import Fitting
from interleaf.refine.learn.inverse_z import GROUPS, Moments, Total
from interleaf.refine.learn.learned import fold_of
from interleaf.refine.learn.training import Pair, Training
from interleaf.stats.compare import estimate
from interleaf.stats.signs import ZScore

LEVEL = 0.05  # of the test by equal credit that decides an experiment
PARTS = 8  # of users, where there is one group of experiments to cross-validate in


@dataclass(frozen=True, eq=False)
class Example:
    """A pair of rankers with its moments, those of the better over the worse.

    `decided`: equal credit tells them apart. `reason` says why nothing is learned from it: '' where it is.
    """

    pair: Pair
    group: str
    better: str
    worse: str
    moments: Moments
    decided: bool
    reason: str = ""


def examples_of(training: Training, better: Mapping[str, str], groups: Mapping[str, str]) -> list[Example]:
    """All pairs: the better ranker is named by experiment, or the one that equal credit decides for."""
    experiments = {pair.experiment for pair in training.pairs}
    for name, given in (("better", better), ("groups", groups)):
        if unknown := sorted(set(given) - experiments):
            raise DataError(f"{name} names experiment {unknown[0]!r}; the log holds {listed(sorted(experiments))}")
    return [_example(pair, moments, better, groups) for pair, moments in sorted(training.pairs.items())]


def _example(pair: Pair, moments: Moments, better: Mapping[str, str], groups: Mapping[str, str]) -> Example:
    found = estimate(moments.sums[:, 0], moments.count)
    decided = found.p_value is not None and found.p_value < LEVEL
    named = better.get(pair.experiment)
    if named not in (None, pair.first, pair.second):
        raise DataError(
            f"better says {named!r} of experiment {pair.experiment!r}; that one compares "
            f"{pair.first!r} and {pair.second!r}"
        )
    leads = named == pair.first if named else (found.value or 0) >= 0
    reason = ""
    if not moments.count.any():
        reason = "no page with a click"
    elif not named and not decided:
        p_value = "" if found.p_value is None else f" (p = {found.p_value:.2g})"
        reason = f"undecided by equal credit{p_value}, and no ranker was named the better one"
    sides = (pair.first, pair.second) if leads else (pair.second, pair.first)
    oriented = moments if leads else moments.turned()
    return Example(pair, groups.get(pair.experiment, pair.experiment), *sides, oriented, decided, reason)


def learned_from(
    examples: Sequence[Example], fitting: Fitting, ridge: float | None, times: Array | None = None
) -> tuple[Array | None, float, dict[float, float]]:
    """Weights, their ridge, and the mean z-score a page by ridge where it was chosen; of some groups of users alone."""
    totals = [(example, example.moments.total(times)) for example in examples if not example.reason]
    there = [(example, total) for example, total in totals if total.count > 0]
    known: dict[float, float] = {}
    if ridge is None:
        ridge, known = fitting.ridge(_left_out_together(there, times))
    return fitting.weights([total for _, total in there], ridge), ridge, known


def _left_out_together(there: Sequence[tuple[Example, Total]], times: Array | None) -> list[list[Total]]:
    """Totals by group; where there is one, parts of its users."""
    groups: dict[str, list[Total]] = {}
    for example, total in there:
        groups.setdefault(example.group, []).append(total)
    if len(groups) > 1:
        return list(groups.values())
    drawn = np.ones(GROUPS) if times is None else np.asarray(times, np.float64)
    pages = drawn * np.sum([example.moments.count for example, _ in there], axis=0)
    used = np.flatnonzero(pages)
    found = []
    for part in np.array_split(used, PARTS):
        some = [example.moments.total(drawn * np.isin(np.arange(GROUPS), part)) for example, _ in there]
        found.append([total for total in some if total.count > 0])
    return [some for some in found if some]


def fold_weights(examples: Sequence[Example], fitting: Fitting, ridge: float | None, folds: int) -> list[Array]:
    """Weights of each fold, from people of those before it; equal credit in the first, and where they tell nothing."""
    if folds and not 2 <= folds <= GROUPS:
        raise DataError(f"folds is {folds!r}; give 2 to {GROUPS}, or 0 for none")
    equal = np.eye(len(fitting.penalized))[0]
    place = fold_of(np.arange(GROUPS), folds) if folds else np.zeros(0)
    found = []
    for fold in range(folds):
        weights, _, _ = learned_from(examples, fitting, ridge, place < fold)
        found.append(equal if weights is None else weights)
    return found


@dataclass(frozen=True)
class HeldOut:
    """An experiment scored by weights from other groups: z-scores a page by equal and by learned credit (C12, Eq. 21).

    `relative` is learned over equal. None where `reason` says why. `flipped`: a decided one, decided the other way.
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
    def flipped(self) -> bool:
        """Whether learned credit contradicts a decision of equal credit."""
        return self.decided and self.relative is not None and self.relative < 0


def held_out(examples: Sequence[Example], fitting: Fitting, ridge: float | None) -> list[HeldOut]:
    """Leave-one-group-out: each group by weights, and a ridge, from the others; undecided experiments, too."""
    found = []
    for group in dict.fromkeys(example.group for example in examples):
        others = [example for example in examples if example.group != group]
        weights, _, _ = learned_from(others, fitting, ridge)
        found += [_scored(example, weights) for example in examples if example.group == group]
    return found


def _scored(example: Example, weights: Array | None) -> HeldOut:
    total = example.moments.total()
    equal = total.z_score(np.eye(len(total.sums))[0])
    learned = ZScore(None, None, "no other experiment to learn from") if weights is None else total.z_score(weights)
    return HeldOut(
        *example.pair[:2], example.group, example.better, example.worse, round(total.count), example.decided,
        equal.per_query, learned.per_query, equal.reason or learned.reason,
    )  # fmt: skip
