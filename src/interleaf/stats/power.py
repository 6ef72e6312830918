"""How many units a comparison needs, and what so many can show.

    units = (z_{alpha/2} + z_beta)^2 Var(S_u - D N_u) / (mean N^2 effect^2)

over units u with sums S_u and counts N_u; `effect` is a difference of D from 0. A pilot is known by bucket. Residuals
S_u - D N_u are 0 on average, so those of a bucket add up to a variance of as many as it has units, however these fall
into buckets: sum_b (S_b - D N_b)^2 estimates units times the variance of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.stats.compare import ALIKE, EMPTY, ONE_BUCKET, jackknife
from interleaf.stats.sums import significance

NORMAL = NormalDist()


@dataclass(frozen=True)
class Pilot:
    """What planning has to know of a unit: the variance of S_u - D N_u, and its mean impressions with an event.

    From a log or a simulation by `pilot`, or given; None where `reason` says why.
    """

    variance: float | None
    impressions_per_unit: float | None
    reason: str = ""


@dataclass(frozen=True)
class Plan:
    """A size, an effect, and the power to show it; what was asked for follows from the rest."""

    effect: float
    units: int
    impressions: int
    power: float
    confidence: float
    variance: float
    impressions_per_unit: float

    def __str__(self) -> str:
        return (
            f"{self.units:,} units (about {self.impressions:,} impressions with an event) show a preference of "
            f"{self.effect:.4g} in {self.power:.0%} of experiments, at a confidence of {self.confidence:.4g}."
        )


def pilot(sums: Array, counts: Array, units: int) -> Pilot:
    """The variance of a unit from `sums[bucket]` and `counts[bucket]` of so many units; a bucket may be one unit.

    >>> pilot(np.array([1, -1, 2, 0]), np.array([1, 1, 2, 2]), units=4)
    Pilot(variance=1.48, impressions_per_unit=1.5, reason='')
    """
    found = jackknife(np.asarray(sums).reshape(-1, 1), np.asarray(counts).reshape(-1, 1))
    buckets = int(found.buckets[0])
    if buckets < 2:
        return Pilot(None, None, ONE_BUCKET if buckets else EMPTY)
    if units < buckets:
        raise DataError(f"{units} units cannot fill {buckets} buckets; give how many units the sums are of")
    total = float(np.sum(counts))
    residuals = found.deviations[:, 0] * (total - np.asarray(counts, np.float64))  # rid of rounding
    if not residuals.any():
        return Pilot(None, total / units, ALIKE)
    # D comes from the same buckets, which costs one of them.
    return Pilot(float((residuals**2).sum()) / units * buckets / (buckets - 1), total / units)


def units_needed(effect: float, known: Pilot, power: float = 0.8, confidence: float = 0.95) -> Plan:
    """How many units show this effect with this power.

    >>> plan = units_needed(0.05, Pilot(variance=2.0, impressions_per_unit=2.0))
    >>> plan.units, plan.impressions
    (1570, 3140)
    >>> print(plan)
    1,570 units (about 3,140 impressions with an event) show a preference of 0.05 in 80% of experiments, at a ...
    """
    _check_effect(effect)
    units = (_distance(power, confidence) * _spread(known) / effect) ** 2
    return _plan(effect, math.ceil(round(units, 9)), power, confidence, known)


def power_at(units: int, effect: float, known: Pilot, confidence: float = 0.95) -> Plan:
    """With which power so many units show this effect.

    >>> power_at(1570, 0.05, Pilot(variance=2.0, impressions_per_unit=2.0)).power
    0.80
    """
    _check_effect(effect)
    _check_units(units)
    reached = abs(effect) * math.sqrt(units) / _spread(known) - NORMAL.inv_cdf(1 - significance(confidence) / 2)
    return _plan(effect, units, NORMAL.cdf(reached), confidence, known)


def detectable_effect(units: int, known: Pilot, power: float = 0.8, confidence: float = 0.95) -> Plan:
    """The smallest effect that so many units show with this power.

    >>> detectable_effect(1570, Pilot(variance=2.0, impressions_per_unit=2.0)).effect
    0.0500
    """
    _check_units(units)
    return _plan(_distance(power, confidence) * _spread(known) / math.sqrt(units), units, power, confidence, known)


def _plan(effect: float, units: int, power: float, confidence: float, known: Pilot) -> Plan:
    variance, each = _known(known)
    return Plan(effect, units, math.ceil(round(units * each, 9)), power, confidence, variance, each)


def _distance(power: float, confidence: float) -> float:
    """z_{alpha/2} + z_beta."""
    alpha = significance(confidence)
    if not alpha / 2 < power < 1:
        raise DataError(f"a power of {power!r} cannot be planned for; give a share such as 0.8")
    return NORMAL.inv_cdf(1 - alpha / 2) + NORMAL.inv_cdf(power)


def _spread(known: Pilot) -> float:
    """The standard error of D for one unit."""
    variance, each = _known(known)
    return math.sqrt(variance) / each


def _known(known: Pilot) -> tuple[float, float]:
    variance, each = known.variance, known.impressions_per_unit
    if not (variance and variance > 0 and each and each > 0):
        why = f" ({known.reason})" if known.reason else ""
        raise DataError(
            f"nothing can be planned with a variance of {variance!r} and {each!r} impressions a unit{why}; "
            "take both from a larger pilot, or give numbers above 0"
        )
    return variance, each


def _check_effect(effect: float) -> None:
    if not (effect and math.isfinite(effect)):
        raise DataError(f"an effect of {effect!r} needs no plan; give the preference to be shown, such as 0.02")


def _check_units(units: int) -> None:
    if units < 1:
        raise DataError(f"{units!r} units can show nothing; give at least 1")
