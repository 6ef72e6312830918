"""How many users an experiment needs, computed from a pilot log, a simulation, or numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from interleaf.errors import DataError, join_names, raise_errors
from interleaf.execution.options import LogOptions
from interleaf.kernels.arrays import Array
from interleaf.stats import power as powers
from interleaf.stats.power import MIN_EFFECTIVE, Pilot, Plan
from interleaf.tables import percent

if TYPE_CHECKING:
    from interleaf.click_value.learned_credit import LearnedCredit
    from interleaf.decode.columns import Exclusion
    from interleaf.log import Progress

MAX_COUNTED = 100_000  # visits up to which the distribution of activity is summed
MIN_PILOT = 6  # effective units of a pilot
MIN_DEGREES = 5  # of freedom, of its variance
SMALL = 50  # degrees of freedom of the variance below which the text calls a pilot small
PilotAt = Callable[[int], Pilot]  # the pilot if the weight of each unit is at most this number


@dataclass(frozen=True)
class Planned:
    """A plan for one look at the end, and the number of users needed if you check repeatedly and stop early.

    If you watch the report until `watched_units_with_event` users have an event, which takes about `watched_units`
    users, it shows the effect with a power of `watched_power`. If events count by their values, `value_cap` is the cap
    that the pilot proposes.
    """

    fixed: Plan
    watched_units: int
    watched_units_with_event: int
    watched_power: float
    pilot: str
    small: bool = False
    value_cap: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        watched = {name: value for name, value in vars(self).items() if name.startswith("watched")}
        pilot = {"pilot": self.pilot, "small_pilot": self.small, "value_cap": self.value_cap}
        return asdict(self.fixed) | watched | pilot

    def __str__(self) -> str:
        plan = self.fixed
        lines = [str(plan)]
        if plan.at_minimum:
            lines.append(
                "Fewer people would be enough for the power, but intervals are unreliable below "
                f"{MIN_EFFECTIVE} effective units."
            )
        lines.append(
            "That is for one look at the end. If you check repeatedly and stop early, it takes "
            f"{self.watched_units:,} people for a power of {percent(self.watched_power, 0)}; "
            f"plan until {self.watched_units_with_event:,} of them have an event "
            f"(--planned-units {self.watched_units_with_event})."
        )
        if plan.min_units < plan.max_units:
            why = "The pilot is small" if self.small else "A pilot only estimates how much people differ"
            lines.append(
                f"{why}: if its variance were known, it could take {plan.min_units:,} to {plan.max_units:,} people "
                "(80 % of cases)."
            )
        lines.append(
            f"Based on {self.pilot}: each person who comes makes {plan.impressions_per_unit:.4g} impressions with an "
            f"event on average, and the score of n such people has a variance of {plan.variance:.4g} / n. (--variance "
            "is that of the score of one impression.)"
        )
        return "\n".join(lines)


def plan(
    effect: float | None = None,
    pilot: Any = None,
    *,
    units: int | None = None,
    power: float = 0.8,
    confidence: float = 0.95,
    variance: float = 0.5,
    correlation: float = 0.0,
    impressions_per_unit: float = 1.0,
    share_with_event: float = 1.0,
    even_activity: bool = False,
    scheme: str | None = None,
    method: str | None = None,
    events: str | Mapping[str, float] = "click",
    dwell: float | None = None,
    first: bool = False,
    window: float | None = None,
    values: bool = False,
    sessions: float | None = None,
    experiment: str | None = None,
    version: int | None = None,
    exclude: Exclusion | Mapping[str, Collection[str]] | None = None,
    credit: LearnedCredit | str | PathLike[str] | None = None,
    engine: str | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> Planned:
    """How many units an experiment needs to detect an effect, or with `units`, which effect that many units detect.

    The effect is a mean score, such as 0.02. A unit is a user who comes, with or without an event. `pilot` is a log or
    a tally, also of a simulation: it says how much users differ and how often they come, and is scored by the options
    of `analyze`. Without a pilot, a share of `share_with_event` of the users have an event, and these have
    `impressions_per_unit` impressions with an event on average. Their scores have this `variance`, and this
    `correlation` between the scores of one user. A few users come far more often than most, by a Pareto law with that
    mean; with `even_activity` all come equally often.

    >>> print(plan(0.05).fixed.units, plan(0.05, impressions_per_unit=4, correlation=0.1).fixed.units)
    1576 1073
    """
    options = LogOptions.of_arguments(locals())
    if pilot is None and options.changed:
        raise DataError(f"without a pilot log, nothing is scored; leave out {join_names(options.changed)}")
    if pilot is None:
        numbers = variance, correlation, impressions_per_unit, share_with_event
        pilot_at, source, cap = _pilot_of_numbers(effect, *numbers, even_activity), "given numbers", None
    else:
        pilot_at, source, cap = _pilot_of_log(pilot, options)
    return replace(plan_by_pilot(effect, units, pilot_at, source, power, confidence), value_cap=cap)


def plan_by_pilot(
    effect: float | None, units: int | None, pilot_at: PilotAt, source: str, power: float, confidence: float
) -> Planned:
    """The plan for an effect, or for a number of units; `source` says in words what the pilot is."""
    from interleaf.report.weights import max_weight

    if units is None:
        if effect is None:
            raise DataError(
                "give the effect to detect: the smallest score that matters to you, such as 0.02; do not use the score "
                "of a pilot, which may be too high by chance, so that the plan would be too small"
            )
        fixed = settle(partial(powers.units_needed, effect, power=power, confidence=confidence), pilot_at)
    else:
        weighted = pilot_at(max_weight(max(0, round(units * pilot_at(1).with_event))))
        if effect is None:
            fixed = powers.detectable_effect(units, weighted, power, confidence)
        else:
            fixed = powers.power_at(units, effect, weighted, confidence)
    watched = settle(partial(powers.units_watched, fixed.effect, power=power, confidence=confidence), pilot_at)
    is_small = pilot_at(max_weight(fixed.units_with_event)).degrees < SMALL
    return Planned(fixed, watched.units, watched.units_with_event, power, source, is_small)


def settle(make: Callable[[Pilot], Plan], pilot_at: PilotAt) -> Plan:
    """The plan whose weight limit is the one that a report of the planned number of units has.

    A higher limit may need fewer units, and fewer units have a lower limit. If plans alternate, the largest is used.
    """
    from interleaf.report.weights import max_weight

    plans: dict[int, Plan] = {}
    limit = max_weight(0)
    while limit not in plans:
        plans[limit] = make(pilot_at(limit))
        limit = max_weight(plans[limit].units_with_event)
    repeating = list(plans).index(limit)
    return max(list(plans.values())[repeating:], key=lambda one: one.units)


def _pilot_of_numbers(
    effect: float | None, variance: float, correlation: float, each: float, share: float, is_even: bool
) -> PilotAt:
    numbers = {
        "variance": (variance, variance > 0, "a number above 0"),
        "correlation": (correlation, 0 <= correlation <= 1, "a number from 0 to 1"),
        "impressions_per_unit": (each, each >= 1, "a number from 1 up"),
        "share_with_event": (share, 0 < share <= 1, "a share above 0 and up to 1"),
    }
    raise_errors(
        DataError(f"{name} is {value!r}; give {remedy}")
        for name, (value, is_valid, remedy) in numbers.items()
        if not is_valid
    )
    visits, chances = (np.full(1, each), np.ones(1)) if is_even else pareto_visits(each)

    def pilot_at(limit: int) -> Pilot:
        weights = np.minimum(visits, limit)
        mean, squares = float(weights @ chances), float(weights**2 @ chances)
        within, between = float((weights**2 / visits) @ chances) / mean**2 / share, squares / mean**2 / share
        return Pilot(
            variance * ((1 - correlation) * within + correlation * between),
            each * share,
            effective=1 / between,
            with_event=share,
            mean_square=effect**2 if effect else 0.0,
            square=within if effect else 0.0,
        )

    return pilot_at


def pareto_visits(mean: float) -> tuple[Array, Array]:
    """Numbers of visits and their probabilities, P(visits >= k) = k^-tail, with the tail that gives this mean."""
    from scipy.optimize import brentq
    from scipy.special import zeta

    visits = np.arange(1.0, MAX_COUNTED + 1)
    if mean == 1:
        return visits[:1], np.ones(1)
    tail = brentq(lambda index: zeta(index) - mean, 1 + 0.5 / mean, 60) if mean > zeta(60) else 60
    reached = np.append(visits**-tail, 0.0)
    return visits, reached[:-1] - reached[1:]


def _pilot_of_log(pilot: Any, options: LogOptions) -> tuple[PilotAt, str, float | None]:
    """The pilot, what it is in words, and the cap of values."""
    from interleaf.analysis.analyze import read_tally
    from interleaf.log.schema import INTERLEAVED
    from interleaf.methods.registry import ONE_LIST
    from interleaf.report.build import report
    from interleaf.report.comparisons import RankerPairs, max_score
    from interleaf.report.rule import ReportSettings
    from interleaf.report.verdict import verdict
    from interleaf.report.weights import cut, value_cap
    from interleaf.tally.bucket_sums import ONE
    from interleaf.tally.units import ARMS, CLICKED, SUMS

    tally = read_tally(pilot, options)
    if len(tally.about.rankers) != 2:
        raise DataError(f"a plan is made for two rankers; the pilot compares {len(tally.about.rankers)}")
    if tally.about.composed == ONE_LIST:
        raise DataError(f"a plan is made for interleaved lists, and the pilot's are of {ONE_LIST}; give another pilot")
    if not tally.scores.clicked.any():
        ours = report(tally, ReportSettings())
        why = verdict(ours.comparisons, (), ReportSettings(), ours.totals).sentence
        raise DataError(" ".join(["the pilot log has no event to plan by.", why, *ours.notes]))
    rows = tally.units.values  # in one order, so that sums are the same for every way to read a log
    rows = rows[rows[:, ARMS] >> tally.number_of(INTERLEAVED) & 1 == 1]
    clicked, each = rows[:, CLICKED], float(rows[:, CLICKED].mean())
    cap = value_cap(tally, None)
    if cap is not None:  # the value of a person counts once, and is cut
        rows = np.hstack([rows[:, :SUMS], cut(rows[:, SUMS:], cap.cap)])
        clicked = np.minimum(clicked, 1)
    sums = RankerPairs.of(tally.about.rankers, None).scores(rows[:, SUMS:], tally.about.linear)[:, 0]

    def pilot_at(limit: int) -> Pilot:
        pilot = pilot_of_units(clicked, sums, max_score(tally.about) == 1, limit)
        return pilot if pilot.variance is None else replace(pilot, impressions_per_unit=each)

    units, clicking = (tally.units.count(some) for some in (np.ones(len(rows), np.bool_), clicked > 0))
    source = (
        f"a pilot of {units:,} people who came, {clicking:,} with an event, and "
        f"{int(tally.scores.clicked.sum()):,} impressions with an event"
    )
    proposed = None if cap is None else cap.cap / ONE
    if proposed is not None:
        source += f", whose total value is cut at {proposed:.6g} (--cap {proposed:.6g})"
    return pilot_at, source, proposed


def pilot_of_units(clicked: Array, sums: Array, are_signs: bool, limit: int) -> Pilot:
    """A pilot from the units' impressions with an event and sums of scores, if the weight of a unit is at most `limit`.

    `are_signs` says that scores are 1, 0 or -1, so that their variance depends on their mean.

    >>> pilot_of_units(np.tile([1, 2, 0, 1], 9), np.tile([1, 0, 0, -1], 9), are_signs=True, limit=10).with_event
    0.75
    """
    weights, visits = np.minimum(clicked, limit), np.maximum(clicked, 1)
    pilot = powers.pilot(sums * weights / visits, weights, len(weights))
    if pilot.variance is None:
        return pilot
    effective = pilot.effective * len(weights)
    if effective < MIN_PILOT or pilot.degrees < MIN_DEGREES:
        reason = (
            f"the pilot has {effective:.1f} effective units, too few to say how much people differ: at least "
            f"{MIN_PILOT} are needed, and more where a few people make most of the visits"
        )
        return Pilot(None, None, reason)
    square = float((weights**2 / visits).mean() / weights.mean() ** 2) if are_signs else 0.0
    return replace(pilot, impressions_per_unit=float(clicked.mean()), square=square)
