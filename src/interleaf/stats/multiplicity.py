"""P-values for many pairs, adjusted so that the probability of any false positive stays at its level.

In simulations with five equal rankers, some pair is significant in 20 to 40 % of runs without a correction, and in at
most 6 % with either correction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.stats.compare import Estimate, quotient


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Holm's step-down adjustment (1979), for any dependence; None is a test that could not be made, and not counted.

    The i-th smallest of m becomes the largest of (m - j + 1) p_(j) over j <= i, at most 1.

    >>> holm([0.01, 0.04, None, 0.03])
    (0.03, 0.06, None, 0.06)
    """
    places = [place for place, p_value in enumerate(p_values) if p_value is not None]
    numbers = np.array([p_value for p_value in p_values if p_value is not None])
    if not ((numbers >= 0) & (numbers <= 1)).all():
        raise DataError(f"p-values must lie between 0 and 1, or be None: {list(p_values)}")
    order = np.argsort(numbers, kind="stable")
    grown = np.maximum.accumulate(numbers[order] * np.arange(len(numbers), 0, -1))
    adjusted: list[float | None] = [None] * len(p_values)
    for place, p_value in zip(order, grown, strict=True):
        adjusted[places[place]] = min(1.0, float(p_value))
    return tuple(adjusted)


def holm_levels(p_values: Sequence[float | None], alpha: float, hypotheses: int | None = None) -> tuple[float, ...]:
    """The level at which Holm's correction holds each p-value.

    `hypotheses` is the number of all, if there are others, none of which is rejected.

    >>> [round(0.05 / level) for level in holm_levels([0.01, 0.04, None, 0.03], 0.05)]
    [3, 2, 1, 2]
    >>> [round(0.05 / level) for level in holm_levels([0.01, 0.0001, 0.4], 0.05, 190)]
    [189, 190, 189]
    """
    in_order = sorted((p_value, place) for place, p_value in enumerate(p_values) if p_value is not None)
    left, goes_on = len(in_order) if hypotheses is None else hypotheses, True
    levels = [alpha] * len(p_values)
    for p_value, place in in_order:
        levels[place] = alpha / left
        goes_on = goes_on and p_value <= alpha / left
        left -= goes_on
    return tuple(levels)


def max_t(estimates: Sequence[Estimate], means: Array) -> tuple[float | None, ...]:
    """Step-down max-T (Westfall and Young 1993): p-values that account for the dependence between pairs.

    `means[resample, pair]` come from `bootstrap.resample`, of the same pairs. A pair's resampled means are centred and
    divided by their standard deviation; the largest over pairs is the reference distribution. Estimates are compared
    with it as normal deviates of t, which are valid for few units. p = (1 + those as large) / (1 + resamples).

    >>> from interleaf.stats import bootstrap, compare
    >>> sums, counts = np.array([[1, 1], [1, -1], [2, 1], [1, 0], [2, -1]] * 20), np.full(100, 3)
    >>> max_t(compare.estimates(sums, counts), bootstrap.resample(sums, counts, 999))
    (0.001, 1.0)
    """
    if means.ndim != 2 or means.shape[1] != len(estimates):
        raise DataError(f"resamples of shape {means.shape} are not of {len(estimates)} pairs; give them of the same")
    deviates = [estimate.deviate for estimate in estimates]
    places = [place for place, reached in enumerate(deviates) if reached is not None]
    sizes = np.abs(np.array([reached for reached in deviates if reached is not None], np.float64))
    order = np.argsort(sizes, kind="stable")  # the smallest first: each is compared with those that are no larger
    adjusted: list[float | None] = [None] * len(estimates)
    largest, p_values = np.zeros(len(means)), []
    for place in order:
        resampled = means[:, places[place]] - means[:, places[place]].mean()
        np.maximum(largest, quotient(np.abs(resampled), resampled.std()), out=largest)
        p_values.append((1 + int((largest >= sizes[place]).sum())) / (1 + len(means)))
    for place, p_value in zip(order[::-1], np.maximum.accumulate(p_values[::-1]), strict=True):
        adjusted[places[place]] = float(p_value)
    return tuple(adjusted)
