"""O'Brien-Fleming boundaries for planned looks, and Lan-DeMets spending for looks at any time.

After a share t of the planned information, z sqrt(t) is a Brownian motion B(t) if nothing is preferred. O'Brien and
Fleming (1979) reject if |B(t)| >= c, with the c that is reached with probability alpha; Lan and DeMets (1983) spend

    alpha(t) = 2 - 2 Phi(z_{alpha/2} / sqrt t)

by the time t, whenever the looks are. Probabilities are computed by recursive integration over paths that have not
crossed yet (Armitage, McPherson and Rowe 1969).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.stats.compare import significance

NEAREST = 1e-3  # of the planned information: looks nearer to each other are one look
MAX_LOOKS = 200  # the boundary of more planned looks takes many seconds to compute, and hardly differs
FAR = 9.0  # standard deviations beyond which the probability is negligible
POINTS, PANEL = 12, 2.5  # Gauss-Legendre points per panel, and its width in steps of the motion: nine digits


def space_evenly(looks: int) -> tuple[float, ...]:
    """The fractions of evenly spaced looks.

    >>> space_evenly(4)
    (0.25, 0.5, 0.75, 1.0)
    """
    return tuple(look / looks for look in range(1, looks + 1))


def crossing(boundaries: Sequence[float], fractions: Sequence[float]) -> tuple[float, ...]:
    """The probability that |z| has reached its boundary by each look, if nothing is preferred.

    >>> crossing([2.413] * 5, space_evenly(5))[-1]  # Pocock's five looks
    0.05
    """
    _check(fractions)
    walk, crossed, total = _Walk(fractions), [], 0.0
    for boundary, fraction in zip(boundaries, fractions, strict=True):
        total += walk.beyond(boundary * math.sqrt(fraction))
        walk.stop_at(boundary * math.sqrt(fraction))
        crossed.append(total)
    return tuple(crossed)


def obrien_fleming(fractions: Sequence[float], confidence: float = 0.95) -> tuple[float, ...]:
    """The boundaries of |z| at planned looks: c / sqrt(t).

    >>> obrien_fleming(space_evenly(5))
    (4.56, 3.23, 2.63, 2.28, 2.04)
    """
    _check(fractions)
    constant = _constant(tuple(fractions), significance(confidence))
    return tuple(constant / math.sqrt(fraction) for fraction in fractions)


def spending(fractions: Sequence[float], confidence: float = 0.95) -> tuple[float, ...]:
    """The boundaries of |z| at looks at any time, by the spending of Lan and DeMets that resembles O'Brien-Fleming.

    A boundary does not depend on later looks. It is infinite if nothing can be spent yet.

    >>> spending([0.3, 0.55, 1.0])
    (3.58, 2.65, 1.99)
    """
    _check(fractions)
    edge = NormalDist().inv_cdf(1 - significance(confidence) / 2)
    return spent_by([math.erfc(edge / math.sqrt(2 * fraction)) for fraction in fractions], fractions)


def spending_p_value(deviate: float, fractions: Sequence[float]) -> float:
    """The smallest alpha whose spending rejects at the last of these looks, interpolated in a table.

    >>> round(spending_p_value(1.99, (0.3, 0.55, 1.0)), 3)
    0.05
    """
    low, high, logarithm = _spending_table(tuple(fractions))
    return 1.0 if deviate**2 < low else math.exp(float(logarithm(min(deviate**2, high))))


@lru_cache(maxsize=64)
def _spending_table(fractions: tuple[float, ...]) -> tuple[float, float, Callable[[float], float]]:
    """The smallest and the largest square of the last boundary, and the logarithm of alpha between them."""
    from scipy.interpolate import PchipInterpolator

    levels = -np.concatenate([np.geomspace(1e-3, 0.7, 20), np.linspace(0.8, 27, 40)])
    edges = [spending(fractions, -math.expm1(level))[-1] for level in levels.tolist()]
    squares = np.square(np.array(edges)[np.isfinite(edges)])
    return float(squares[0]), float(squares[-1]), PchipInterpolator(squares, levels[np.isfinite(edges)])


def spent_by(spent: Sequence[float], fractions: Sequence[float]) -> tuple[float, ...]:
    """The boundaries of |z| that are reached by each look with the probability spent by then."""
    _check(fractions)
    walk, boundaries = _Walk(fractions), []
    for step, fraction in zip(pairwise([0.0, *spent]), fractions, strict=True):
        bound = walk.bound_for(step[1] - step[0])
        walk.stop_at(bound)
        boundaries.append(bound / math.sqrt(fraction))
    return tuple(boundaries)


@lru_cache(maxsize=256)
def _constant(fractions: tuple[float, ...], alpha: float) -> float:
    """The c that |B| reaches at one of the looks with probability alpha."""
    from scipy.optimize import brentq

    def excess(bound: float) -> float:
        return crossing([bound / math.sqrt(fraction) for fraction in fractions], fractions)[-1] - alpha

    single = NormalDist().inv_cdf(1 - alpha / 2) * math.sqrt(fractions[-1])
    split = NormalDist().inv_cdf(1 - alpha / (2 * len(fractions))) * math.sqrt(fractions[-1])
    return float(brentq(excess, single - 1e-6, split + 1e-6, xtol=1e-9))


class _Walk:
    """The paths that have not crossed before the current look: their density at integration points."""

    def __init__(self, fractions: Sequence[float]) -> None:
        self.steps = iter([(now, math.sqrt(now - before)) for before, now in pairwise((0.0, *fractions))])
        self.fraction, self.step = next(self.steps)
        self.points, self.mass = np.zeros(1), np.ones(1)  # it starts at 0

    def beyond(self, bound: float) -> float:
        """The probability that the motion is beyond the bound for the first time at this look."""
        from scipy.special import ndtr

        tails = ndtr((self.points - bound) / self.step) + ndtr((-self.points - bound) / self.step)
        return float(self.mass @ tails)

    def bound_for(self, probability: float) -> float:
        """The bound for which `beyond` has this probability, by bisection; infinite for 0."""
        low, high = 0.0, 40 * math.sqrt(self.fraction)
        if self.beyond(high) >= probability:
            return math.inf
        while high - low > 1e-10:
            middle = (low + high) / 2
            low, high = (middle, high) if self.beyond(middle) > probability else (low, middle)
        return high

    def stop_at(self, bound: float) -> None:
        """Remove paths beyond the bound at this look, and continue to the next look."""
        following = next(self.steps, None)
        if following is None:
            return
        fraction, step = following
        points, weights = _grid(min(bound, FAR * math.sqrt(self.fraction)), min(step, self.step))
        density = np.exp(-(((points[:, None] - self.points) / self.step) ** 2) / 2) @ self.mass
        self.points, self.mass = points, weights * density / (self.step * math.sqrt(2 * math.pi))
        self.fraction, self.step = fraction, step


def _grid(bound: float, step: float) -> tuple[Array, Array]:
    """Gauss-Legendre points and weights on [-bound, bound], in panels as fine as the steps of the motion need."""
    points, weights = np.polynomial.legendre.leggauss(POINTS)
    panels = max(1, math.ceil(2 * bound / (PANEL * step)))
    half = bound / panels
    centres = -bound + half * (2 * np.arange(panels) + 1)
    return (centres[:, None] + half * points).ravel(), np.tile(half * weights, panels)


def _check(fractions: Sequence[float]) -> None:
    if not fractions:
        raise DataError("no look is given; give fractions of the planned information that rise to at most 1")
    close = next((now for before, now in pairwise((0.0, *fractions)) if now - before < NEAREST), None)
    if close is not None or fractions[-1] > 1 + 1e-12:
        wrong = f"{fractions[-1]:g} is above 1" if close is None else f"{close:g} is too close to the one before it"
        raise DataError(
            f"of {len(fractions):,} looks, the one at {wrong}; give fractions of the planned information that rise to "
            f"at most 1, each at least {NEAREST:g} after the one before"
        )
