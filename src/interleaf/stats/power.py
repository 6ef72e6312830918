"""How many units a comparison needs, and which effect a number of units can detect.

    power = P(T > t),  T noncentral t with f degrees of freedom and mean effect * sqrt(units / variance)

f is units * effective - 1 and t the critical value of the test, as in `compare`; `variance` is units * se^2. A pilot
only estimates the variance, with g degrees of freedom. So the power is the mean over variance * g / chi^2_g: the share
of experiments that detect the effect, over all pilots of this size and the experiments planned from them.

Of an experiment that is undecided: whether it will be decided by the planned end, and when. An estimate is decided if
its interval leaves out 0, which shows a preference, or if it is inside the margin d, which shows that two rankers are
alike. If the true preference is today's estimate D, with standard error s after a share t of the planned units, the
estimate at the end is normal with mean D and variance s^2 t (1 - t), and its interval has the half-width
w = c s sqrt(t), where c is the boundary of the report's rule. It is not decided if its absolute value is between
max(0, d - w) and w. Without a margin this is the conditional power under the current trend. It is advice: it does not
change the level of the report.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.stats import sequence
from interleaf.stats.compare import ALIKE, EMPTY, ONE_BUCKET, jackknife, significance, statistic
from interleaf.tables import percent

MIN_EFFECTIVE = 20  # effective units below which an interval is rough; no plan is smaller
MIN_VARIANCE = 0.25  # as a share of the pilot's variance, for large effects
LOOKS = 60  # looks at a report that is watched
RANGE = (0.1, 0.9)  # quantiles of the true variance, given the pilot's
PILOTS = 64  # quantiles of the true variance
MARGIN = 0.01  # default; about the preferences between rankers of Yahoo! in C12, table IV: Delta of 0.5 %
NORMAL = NormalDist()
PATHS = 2_000  # simulated continuations of an experiment
PATH_LOOKS = 150  # of each path
MAX_FACTOR = 20  # times the units so far: how far paths go
QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Pilot:
    """What a plan needs to know about units. A unit is a user who comes, with or without an event.

    It is made by `pilot` from a log or a simulation, or from given numbers; if a number is None, `reason` says why.
    `variance` is the number of units times the squared standard error of D; `effective` is how many effective units
    each unit adds; `with_event` is the share of units with an event; `degrees` are the degrees of freedom of
    `variance`. If `square` is above 0, scores are signs: the variance is for a mean score of `mean`, and another mean
    changes it by `square` times the change of mean^2.
    """

    variance: float | None
    impressions_per_unit: float | None
    reason: str = ""
    effective: float = 1.0
    with_event: float = 1.0
    degrees: float = math.inf
    mean_square: float = 0.0
    square: float = 0.0


@dataclass(frozen=True)
class Plan:
    """A number of units, an effect, and the power to detect it; one of the three is computed from the others.

    `units` are users who come, `units_with_event` those of them who are expected to have an event. `min_units` and
    `max_units` are the units needed if the true variance is at either end of what the pilot allows; they equal `units`
    without a pilot. `at_minimum` says that fewer units have the power, but too few effective units for a reliable
    interval.
    """

    effect: float
    units: int
    units_with_event: int
    impressions: int
    power: float
    confidence: float
    variance: float
    impressions_per_unit: float
    min_units: int
    max_units: int
    at_minimum: bool = False

    def __str__(self) -> str:
        power = percent(self.power, 0) if self.power < 0.99 else "more than 99 %"
        return (
            f"You need {self.units:,} people (about {self.units_with_event:,} with an event, and about "
            f"{self.impressions:,} impressions with an event) to detect a preference of {self.effect:.4g} with {power} "
            f"power at {percent(self.confidence)} confidence."
        )


def pilot(sums: Array, counts: Array, units: int) -> Pilot:
    """A pilot from `sums[bucket]` and `counts[bucket]` of this many units; a bucket may be one unit without an event.

    >>> ours = pilot(np.array([1, -1, 2, 0, 0]), np.array([1, 1, 2, 2, 0]), units=5)
    >>> ours.variance, ours.impressions_per_unit, ours.with_event
    (0.82, 1.2, 0.80)
    """
    ours = jackknife(np.asarray(sums).reshape(-1, 1), np.asarray(counts).reshape(-1, 1))
    buckets, weights = int(ours.buckets[0]), np.asarray(counts, np.float64)
    if buckets < 2:
        return Pilot(None, None, ONE_BUCKET if buckets else EMPTY)
    if units < buckets:
        raise DataError(f"{units} units cannot fill {buckets} buckets; give how many units the sums are of")
    total = float(weights.sum())
    residuals = ours.deviations[:, 0] * (total - weights)  # without rounding errors
    if not residuals.any():
        return Pilot(None, total / units, ALIKE)
    squares, effective = residuals**2, float(ours.effective[0])
    error = float(ours.errors[0]) ** 2 * (1 - 1 / effective)  # corrects the bias of the jackknife
    # Each bucket's part of the logarithm of the variance.
    shares = squares / squares.sum() - 2 * weights / total + 1 / len(weights)
    return Pilot(
        units * error,
        total / units,
        effective=effective / units,
        with_event=buckets / units,
        degrees=1 / max(float((shares**2).sum()) / 2, 1 / (3 * effective)),
        mean_square=float(ours.values[0]) ** 2 - error,
    )


def units_needed(effect: float, pilot: Pilot, power: float = 0.8, confidence: float = 0.95) -> Plan:
    """How many units detect this effect with this power at one look, and at least enough for a reliable interval.

    >>> plan = units_needed(0.05, Pilot(variance=0.5, impressions_per_unit=2.0))
    >>> plan.units, plan.impressions
    (1573, 3146)
    >>> units_needed(0.72, Pilot(variance=0.5, impressions_per_unit=2.0)).units
    20
    """
    _check_effect(effect)
    _check_power(power, confidence)
    return _units(effect, pilot, power, confidence, _one_look(confidence))


def units_watched(effect: float, pilot: Pilot, power: float = 0.8, confidence: float = 0.95) -> Plan:
    """How many units detect this effect with this power if the report is watched and planned for that many.

    Between looks, a Brownian motion may pass a boundary and return. For evenly spaced looks, the effect is that of a
    boundary that is 0.583 / sqrt(looks) higher (Siegmund 1979). The power holds when `units_with_event` have come.

    >>> units_watched(0.05, Pilot(variance=0.5, impressions_per_unit=2.0)).units
    1927
    """
    _check_effect(effect)
    _check_power(power, confidence)
    beta = NormalDist().inv_cdf(power)
    width = math.sqrt(sequence.cost_of_watching(power, confidence)) * (_one_look(confidence) + beta) - beta
    width += 0.583 / math.sqrt(LOOKS)
    return _units(effect, pilot, power, confidence, width, sequence.MISSING_DEGREES)


def _units(
    effect: float, pilot: Pilot, power: float, confidence: float, width: float, missing_degrees: float = 0.0
) -> Plan:
    from scipy.special import gammaincinv

    min_units = max(2, math.ceil(round(MIN_EFFECTIVE / pilot.effective, 9)))

    def find_units(of: Pilot) -> int:
        """The smallest number of units that is enough, by bisection."""
        low, high = min_units - 1, min_units
        while _power(high, effect, of, width, missing_degrees) < power:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            is_enough = _power(middle, effect, of, width, missing_degrees) >= power
            low, high = (low, middle) if is_enough else (middle, high)
        return high

    units = find_units(pilot)
    span = units, units
    if math.isfinite(pilot.degrees):
        # The true variance as a multiple of the pilot's, at both ends of what the pilot allows.
        ratios = [float(pilot.degrees / (2 * gammaincinv(pilot.degrees / 2, 1 - part))) for part in RANGE]
        variance, _ = _numbers_of(pilot)
        ends = [replace(pilot, variance=variance * r, square=pilot.square * r, degrees=math.inf) for r in ratios]
        span = find_units(ends[0]), find_units(ends[1])
    reached = _power(units, effect, pilot, width, missing_degrees)
    return replace(_plan(effect, units, reached, confidence, pilot, span), at_minimum=units == min_units)


def power_at(units: int, effect: float, pilot: Pilot, confidence: float = 0.95) -> Plan:
    """The power with which this many units detect this effect.

    >>> power_at(1573, 0.05, Pilot(variance=0.5, impressions_per_unit=2.0)).power
    0.80
    """
    _check_effect(effect)
    _check_units(units, pilot)
    return _plan(effect, units, _power(units, effect, pilot, _one_look(confidence)), confidence, pilot)


def detectable_effect(units: int, pilot: Pilot, power: float = 0.8, confidence: float = 0.95) -> Plan:
    """The smallest effect that this many units detect with this power.

    >>> detectable_effect(1573, Pilot(variance=0.5, impressions_per_unit=2.0)).effect
    0.0500
    """
    _check_units(units, pilot)
    _check_power(power, confidence)
    width, low, high = _one_look(confidence), 0.0, math.sqrt(_variance(pilot, 0.0))
    while _power(units, high, pilot, width) < power:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _power(units, middle, pilot, width) >= power else (middle, high)
    return _plan(high, units, power, confidence, pilot)


def _power(units: int, effect: float, pilot: Pilot, width: float, missing_degrees: float = 0.0) -> float:
    """The mean power over the possible true variances.

    `width` is the half-width of an interval in standard errors, as a normal deviate. With f degrees of freedom, the
    interval is that of a t-test with f^2 / (f + missing_degrees).
    """
    from scipy.special import gammaincinv, nctdtr

    degrees = max(units * pilot.effective - 1, 1.0)
    # The squared error of a jackknife is too large, by one effective unit.
    precision, variance = units * degrees / (degrees + 1), _variance(pilot, effect)
    critical = float(statistic(width, degrees**2 / (degrees + missing_degrees))) ** 2
    # Signs vary more if their mean is smaller, so they vary more at the edge of significance than at `effect`.
    edge = critical * (1 + pilot.square * effect**2 / variance) / (1 + critical * pilot.square / precision)
    shift = abs(effect) * math.sqrt(precision / variance)
    ratios = np.ones(1)  # of a pilot's standard deviation to the true one
    if math.isfinite(pilot.degrees):
        ratios = np.sqrt(2 * gammaincinv(pilot.degrees / 2, (np.arange(PILOTS) + 0.5) / PILOTS) / pilot.degrees)
    return 1 - float(np.mean(nctdtr(degrees, shift * ratios, math.sqrt(edge))))


def _variance(pilot: Pilot, effect: float) -> float:
    """The variance if this is the effect."""
    variance, _ = _numbers_of(pilot)
    return max(variance + pilot.square * (pilot.mean_square - effect**2), MIN_VARIANCE * variance)


def _plan(
    effect: float, units: int, power: float, confidence: float, pilot: Pilot, span: tuple[int, int] | None = None
) -> Plan:
    _, each = _numbers_of(pilot)
    clicking, impressions = (math.ceil(round(units * share, 9)) for share in (pilot.with_event, each))
    min_units, max_units = span or (units, units)
    variance = _variance(pilot, effect)
    return Plan(effect, units, clicking, impressions, power, confidence, variance, each, min_units, max_units)


def _numbers_of(pilot: Pilot) -> tuple[float, float]:
    variance, each = pilot.variance, pilot.impressions_per_unit
    if pilot.reason:
        raise DataError(f"nothing can be planned: {pilot.reason}; take a larger pilot, or give numbers without one")
    if not (variance and variance > 0 and each and each > 0):
        problem = f"nothing can be planned with a variance of {variance!r} and {each!r} impressions per unit"
        raise DataError(f"{problem}; give numbers above 0")
    return variance, each


def _one_look(confidence: float) -> float:
    return NormalDist().inv_cdf(1 - significance(confidence) / 2)


def _check_effect(effect: float) -> None:
    if not (effect and math.isfinite(effect)):
        raise DataError(f"an effect of {effect!r} needs no plan; give the preference to be shown, such as 0.02")


def _check_power(power: float, confidence: float) -> None:
    if not significance(confidence) / 2 < power < 1:
        raise DataError(f"power is {power!r}; give a share between 0 and 1, such as 0.8")


def _check_units(units: int, pilot: Pilot) -> None:
    if units * pilot.effective < 2:
        raise DataError(f"{units!r} units are too few; give at least {math.ceil(2 / pilot.effective)}")


def chance_at_end(value: float, error: float, share: float, width: float, margin: float) -> float:
    """The probability that an estimate is decided at the planned end, if today's estimate is the truth.

    `share` of the planned units have come. The interval at the end is `width` standard errors to each side.

    >>> chance_at_end(0.01, 0.01, share=0.5, width=1.96, margin=0.001)
    0.22
    """
    half = width * error * math.sqrt(share)
    spread = error * math.sqrt(share * (1 - share))
    inner = max(0.0, margin - half)
    if inner >= half:
        return 1.0

    def below(end: float) -> float:
        return NORMAL.cdf((end - value) / spread)

    return 1 - (below(half) - below(inner) + below(-inner) - below(-half))


def units_until_decision(
    value: float, error: float, units: int, width: Callable[[Array], Array], margin: float, seed: int = 0
) -> tuple[float, float, float]:
    """How many units it takes until the estimate is decided: the quantiles 0.1, 0.5 and 0.9; infinite if unknown.

    The true preference is drawn from what today's estimate allows, normal with its error. `width` gives the half-width
    of the interval in standard errors after so many units. A path that is not decided by 20 times the units so far
    counts as infinite; with the boundaries of a report, more than a third are decided by then.
    """
    chance = np.random.default_rng(seed)
    sizes = np.append(units, units * np.geomspace(1 + 1 / PATH_LOOKS, MAX_FACTOR, PATH_LOOKS))
    steps = np.diff(sizes)
    truth = chance.normal(value, error, (PATHS, 1))
    moves = truth * steps + error * math.sqrt(units) * np.sqrt(steps) * chance.normal(size=(PATHS, PATH_LOOKS))
    estimates = np.abs(value * units + np.cumsum(moves, axis=1)) / sizes[1:]
    half = error * np.sqrt(units / sizes[1:]) * width(sizes[1:])
    decided = (estimates > half) | (estimates + half < margin)
    when = np.where(decided.any(axis=1), sizes[1:][np.argmax(decided, axis=1)], np.inf)
    low, middle, high = np.sort(when)[[math.ceil(quantile * PATHS) - 1 for quantile in QUANTILES]].tolist()
    return low, middle, high
