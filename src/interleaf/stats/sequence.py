"""Confidence sequences: intervals and p-values that are valid even if you check repeatedly.

If nothing is preferred, z sqrt(n) is a Brownian motion in the number of units n. If this motion ever reaches a boundary
for |z| with a probability of at most alpha, the boundary may be checked after every unit. The p-value is the smallest
alpha whose boundary is reached.

**Without a plan**, alpha is spread over sizes on a logarithmic scale, by a fixed density w of log n:

    a boundary where |z| phi(z) = alpha w(log n),   so that   p = |z| phi(z) / w(log n)

A motion reaches a concave boundary b(n) at n with at most the density of its tangent there, (b - n b') phi(z) / n^1.5,
because a path below b is below its tangents (Lerche 1986). With b = sqrt(n) |z(n)| and both sides, the sum is the
integral of |z| phi(z) over log n, which is alpha.

**With a plan** of N units, t = n / N:

    t <= 1:  p = P(sup_{s <= 1} |B(s)| >= |z| sqrt t) / PLAN_SHARE,    or |z| phi(z) / v(log t), if it is less
    t > 1:   p = |z| phi(z) / v(log t),    or P(sup_{s <= 1} |B(s)| >= |z|) / PLAN_SHARE, if it is more

Up to N the boundary is flat in |B|, which detects the planned effect soonest; beyond N it rises by a small step, and
then slowly. By numerical integration, the boundaries are reached with probability 0.74 alpha to 0.98 alpha, for alpha
from 0.5 to 1e-6.

With few units D / se is not normal. So |z| is the normal deviate of a t-statistic, with fewer degrees of freedom than
units: f^2 / (f + 40), where f is effective units - 1. The 40 was measured (`python -m benchmarks.watching`): with f
itself, there are too many false winners below 100 units if frequent users prefer another ranker than the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.stats.compare import Estimate, Interval, deviate, significance, statistic

EARLY = "there are too few units for an interval yet"
WIDEST = 50  # standard errors to each side; a wider interval is useless
MISSING_DEGREES = 40  # the number of effective units at which the degrees of freedom are halved

CENTRE, SPREAD = 8.0, 5.0  # of log n without a plan: nearly even from 30 to 300,000 units
PLAN_SHARE = 0.7  # of alpha, for the flat boundary up to the planned size
BEFORE_HEIGHT, BEFORE_WIDTH = 0.012, 4.0  # of v, so that a plan that is far too large costs little
AFTER_HEIGHT, AFTER_WIDTH = 0.75, 0.35
NORMAL = NormalDist()


@dataclass(frozen=True)
class Anytime:
    """An interval and a p-value (two-sided), valid even if you check repeatedly; if one is None, `reason` says why."""

    interval: Interval | None
    p_value: float | None
    reason: str = ""


def multiplier(units: Array | float, planned: float | None, confidence: float = 0.95) -> Array:
    """The half-width of the interval in standard errors, after this many units; `planned=None`: no plan.

    >>> multiplier(np.array([500, 1_000, 2_000, 10_000]), planned=1_000)
    array([3.36, 2.38, 3.20, 3.88])
    >>> multiplier(np.array([500, 1_000, 2_000, 10_000]), planned=None)
    array([3.38, 3.38, 3.38, 3.38])
    """
    alpha, size = significance(confidence), _check_units(units, planned)
    if planned is None:
        return _edge(alpha * _density(size))
    share = size / planned
    flat, spread = _supremum_quantile(alpha * PLAN_SHARE), _edge(alpha * _density_around_plan(share))
    return np.where(share <= 1, np.minimum(flat / np.sqrt(share), spread), np.maximum(flat, spread))


def anytime_p_value(deviates: Array | float, units: Array | float, planned: float | None) -> Array:
    """The smallest alpha whose boundary these normal deviates reach; below alpha exactly if the interval excludes 0."""
    size, reached = _check_units(units, planned), np.abs(deviates)
    if planned is None:
        return np.minimum(1.0, _rate(reached) / _density(size))
    share = size / planned
    flat = supremum_p_value(reached * np.sqrt(np.minimum(share, 1.0))) / PLAN_SHARE
    spread = _rate(reached) / _density_around_plan(share)
    return np.minimum(1.0, np.where(share <= 1, np.minimum(flat, spread), np.maximum(flat, spread)))


def supremum_p_value(level: Array | float) -> Array:
    """P(sup |B(s)| >= level, s <= 1) = 4 sum_k (-1)^k Phi(-(2 k + 1) level), exact for levels from 0.8 up.

    Below 0.8 it is the value at 0.8, which is more than PLAN_SHARE.

    >>> float(supremum_p_value(2.2414))
    0.05
    """
    from scipy.special import ndtr

    reached = np.maximum(level, 0.8)
    return np.asarray(4 * (ndtr(-reached) - ndtr(-3 * reached) + ndtr(-5 * reached) - ndtr(-7 * reached)))


def cost_of_watching(power: float = 0.8, confidence: float = 0.95) -> float:
    """The units needed to detect an effect with this power by the planned size, as a multiple of those of one look.

    A motion with drift d reaches c by time 1 with probability Phi(d - c) + exp(2 c d) Phi(-d - c).

    >>> cost_of_watching()
    1.17
    """
    from scipy.optimize import brentq
    from scipy.special import log_ndtr, ndtr

    alpha = significance(confidence)
    level = _supremum_quantile(alpha * PLAN_SHARE)

    def excess(drift: float) -> float:
        return float(ndtr(drift - level) + np.exp(2 * level * drift + log_ndtr(-drift - level))) - power

    one_look = NORMAL.inv_cdf(1 - alpha / 2) + NORMAL.inv_cdf(power)
    return (float(brentq(excess, 0.0, 2 * level + 20)) / one_look) ** 2


def anytime(estimate: Estimate, units: float, planned: float | None, confidence: float = 0.95) -> Anytime:
    """The anytime interval and p-value of one estimate after this many units.

    >>> from interleaf.stats.compare import estimate
    >>> anytime(estimate(np.tile([1, 1, 0], 100), np.ones(300)), units=300, planned=None).interval
    (0.57, 0.76)
    """
    return anytimes([estimate], np.array([units]), planned, confidence)[0]


def anytimes(
    estimates: Sequence[Estimate], units: Array | float, planned: float | None, confidence: float = 0.95
) -> tuple[Anytime, ...]:
    """The same for many estimates: of several pairs, or of one pair at several times, each with its own `units`."""
    sound = np.array([one.p_value is not None for one in estimates], bool)
    values = np.array([one.value or 0.0 for one in estimates])
    errors = np.array([one.error or 1.0 for one in estimates])
    degrees = degrees_of_freedom(np.where(sound, [one.effective_units or 2.0 for one in estimates], 2.0))
    size = np.where(sound, np.broadcast_to(units, len(estimates)), 1.0)  # without an estimate there may be no unit
    width = statistic(multiplier(size, planned, confidence), degrees)
    radius = np.where(width > WIDEST, np.inf, errors * width)
    p_values = anytime_p_value(deviate(values / errors, degrees), size, planned)
    rows = []
    for one, half, p_value in zip(estimates, radius.tolist(), p_values.tolist(), strict=True):
        if one.value is None or one.p_value is None:
            rows.append(Anytime(None, None, one.reason))
        elif math.isfinite(half):
            rows.append(Anytime((one.value - half, one.value + half), p_value))
        else:
            rows.append(Anytime(None, p_value, EARLY))
    return tuple(rows)


def degrees_of_freedom(effective_units: Array | float) -> Array:
    """Degrees of freedom of D / se, fewer than for a single look.

    >>> float(degrees_of_freedom(101))
    71.4
    """
    free = np.asarray(effective_units, np.float64) - 1
    return free * free / (free + MISSING_DEGREES)


def _check_units(units: Array | float, planned: float | None) -> Array:
    size = np.asarray(units, np.float64)
    if not ((planned is None or planned > 0) and (size > 0).all()):
        raise DataError(f"units are {units!r}, and planned units {planned!r}; give numbers above 0")
    return size


def _density(size: Array) -> Array:
    """w(log n), which integrates to 1."""
    height = 1 / (math.pi / math.sqrt(2) * SPREAD)
    return height / (1 + ((np.log(size) - CENTRE) / SPREAD) ** 4)


def _density_around_plan(share: Array) -> Array:
    """v(log t), which differs before and after the planned size."""
    distance = np.log(share)
    before = BEFORE_HEIGHT / (1 + (distance / BEFORE_WIDTH) ** 4)
    return np.where(share <= 1, before, AFTER_HEIGHT / (1 + (distance / AFTER_WIDTH) ** 2))


def _rate(reached: Array) -> Array:
    """|z| phi(z), which falls from |z| = 1 on; for |z| below 1, its value at 1."""
    beyond = np.maximum(reached, 1.0)
    return beyond * np.exp(-beyond * beyond / 2) / math.sqrt(2 * math.pi)


def _edge(rate: Array) -> Array:
    """The |z| of at least 1 that has this rate: z^2 = -W(-2 pi rate^2), on the lower branch of Lambert's W."""
    from scipy.special import lambertw

    inner = np.minimum(2 * math.pi * np.square(rate), math.exp(-1) * (1 - 1e-12))  # W is undefined beyond
    return np.asarray(np.sqrt(-lambertw(-inner, -1).real))


def _supremum_quantile(probability: float) -> float:
    """The level for which `supremum_p_value` is this probability, which is at most PLAN_SHARE."""
    level = 2.0
    for _ in range(20):
        rest = float(supremum_p_value(level)) / 4 - NORMAL.cdf(-level)
        level = -NORMAL.inv_cdf(probability / 4 - rest)
    return level
