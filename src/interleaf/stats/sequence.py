"""For a page that people watch: an asymptotic confidence sequence, which holds at every look, and its p-value.

    D +- se m,  m^2 = 2 (n r + 1) / (n r) * log(sqrt(n r + 1) / alpha),
    r = (-2 log alpha + log(1 - 2 log alpha)) / planned

n is any clock that grows with information, and `planned` the size at which the interval is to be tightest, in the same
currency: units, or impressions that carry a preference (Waudby-Smith and others 2021). The p-value inverts it with r as
it is. m is meant for a normal D / se. With few units it is none: where few people make most of the visits, and the page
is watched through its first 30 to 200 people, 13 to 19 % of cases would be wrong. So m becomes the t-statistic that is
as unlikely, which leaves at most 2 %, and changes nothing where units are many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.stats.compare import Estimate
from interleaf.stats.deviates import deviate, statistic
from interleaf.stats.figure import Interval
from interleaf.stats.sums import significance

EARLY = "so few units allow no interval yet"
WIDEST = 50  # standard errors to each side; a wider interval says nothing


@dataclass(frozen=True)
class Anytime:
    """The interval and two-sided p-value that hold however often one looks; None where `reason` says why."""

    interval: Interval | None
    p_value: float | None
    reason: str = ""


def multiplier(units: Array | float, planned: float, confidence: float = 0.95) -> Array:
    """How many standard errors the sequence is wide to each side, after so many units; n se^2 taken as known.

    >>> multiplier(np.array([100, 1_000, 10_000]), planned=1_000)
    array([3.86, 3.04, 3.24])
    """
    clock, alpha = _clock(units, planned, confidence), significance(confidence)
    widths: Array = np.sqrt((clock + 1) / clock * (np.log1p(clock) - 2 * math.log(alpha)))
    return widths


def anytime_p_value(deviates: Array | float, units: Array | float, planned: float, confidence: float = 0.95) -> Array:
    """The smallest alpha whose sequence leaves out zero: min(1, sqrt(n r + 1) exp(-z^2 n r / (2 (n r + 1)))).

    It is below 1 - confidence exactly where the interval leaves out zero.
    """
    clock = _clock(units, planned, confidence)
    p_values: Array = np.exp((np.log1p(clock) - np.square(deviates) * clock / (clock + 1)) / 2)
    return np.minimum(1.0, p_values)


def anytime(estimate: Estimate, units: float, planned: float, confidence: float = 0.95) -> Anytime:
    """The sequence of one estimate after so many units.

    >>> from interleaf.stats.compare import estimate
    >>> found = estimate(np.tile([1, 1, 0], 100), np.ones(300))
    >>> anytime(found, units=300, planned=1_000).interval
    (0.57, 0.76)
    """
    return anytimes([estimate], np.array([units]), planned, confidence)[0]


def anytimes(
    estimates: Sequence[Estimate], units: Array | float, planned: float, confidence: float = 0.95
) -> tuple[Anytime, ...]:
    """Many estimates at once: of several pairs, or of one at several times, each with its own `units`."""
    sound = np.array([found.p_value is not None for found in estimates], bool)
    values = np.array([found.value or 0.0 for found in estimates])
    errors = np.array([found.error or 1.0 for found in estimates])
    degrees = np.where(sound, [(found.effective_units or 2.0) - 1 for found in estimates], 1.0)
    clock = np.where(sound, np.broadcast_to(units, len(estimates)), 1.0)  # where nothing is, no unit need be
    width = statistic(multiplier(clock, planned, confidence), degrees)
    radius = np.where(width > WIDEST, np.inf, errors * width)
    p_values = anytime_p_value(deviate(values / errors, degrees), clock, planned, confidence)
    return tuple(
        _record(found, float(half), float(p_value))
        for found, half, p_value in zip(estimates, radius, p_values, strict=True)
    )


def _record(found: Estimate, radius: float, p_value: float) -> Anytime:
    if found.value is None or found.p_value is None:
        return Anytime(None, None, found.reason)
    if not math.isfinite(radius):
        return Anytime(None, p_value, EARLY)
    return Anytime((found.value - radius, found.value + radius), p_value)


def _clock(units: Array | float, planned: float, confidence: float) -> Array:
    """n r: how far the clock is, in the sequence's own time."""
    passed = np.asarray(units, np.float64)
    if not (planned > 0 and (passed > 0).all()):
        raise DataError(f"{units!r} of {planned!r} planned units cannot be; give numbers above 0")
    twice = -2 * math.log(significance(confidence))
    return passed * ((twice + math.log1p(twice)) / planned)
