"""The rule by which a report decides: intervals that are valid at any time, or planned looks.

Every interval and p-value of a report follows its rule. With several comparisons, Holm's correction holds for all of
them together, and each interval has the confidence level that the correction gives its comparison. So an interval
excludes zero exactly if the adjusted p-value is small enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from interleaf.errors import DataError, join_names, raise_errors, suggest
from interleaf.kernels.arrays import Array
from interleaf.metrics.guardrail_metrics import find_problems
from interleaf.report.model import UNIT, UNIT_AND_QUERY, VerdictCode
from interleaf.stats import looks, multiplicity, power, sequence
from interleaf.stats.compare import Estimate, Interval, significance, statistic
from interleaf.tally import Tally
from interleaf.tally.units import CLICKED, SINCE

HOLM, MAX_T = "holm", "max_t"
ONE_LOOK = (1, 1)
POPULATIONS = {UNIT: "valid for the queries in this log", UNIT_AND_QUERY: "valid for queries like these"}
MIN_CAP, MAX_CAP = 1e-6, 1e11  # of the total value of a unit: sums are whole numbers of 2^-24 in 64 bits
ONE_LOOK_ONLY = "this test is valid for one planned look only (look 1/1)"
MIN_SLICES = 4  # slices of time needed to decide whether new units still come
MIN_NEW_UNITS = 0.2  # share of units that are new in the later half of the impressions with an event


@dataclass(frozen=True)
class ReportSettings:
    """How a tally becomes a report.

    `look` is (which, of how many), if looks were planned. `aa` marks an A/A test, in which no difference is expected.
    `holdout` is the planned share of units that see the control unchanged. `split` has the planned shares of A/B
    buckets, relative to each other; without it, they should be of equal size. `cluster` says for which queries the
    result holds: with `unit` for those of the log, with `unit_and_query` for similar queries. `margin` is the smallest
    preference that matters: rankers whose interval is inside of it are alike (default: 0.01, none for values). `cap`:
    if events count by their values, the largest total value of a unit that counts (default: the 99th percentile of
    units with an event). `secondary`: if this is not the primary metric, the number of all other metrics; intervals and
    p-values hold for them together. `guardrails` are metrics of arms, each with the largest harm that is acceptable
    (`metrics.guardrail_metrics` has them). If the best of many is chosen, `start_rankers` are those at the start
    (default: those in the log), and `known_epoch` is the last epoch by whose results rankers leave (default: all).
    """

    control: str | None = None
    confidence: float = 0.95
    planned_units: int | None = None
    correction: str = HOLM
    look: tuple[int, int] | None = None
    aa: bool = False
    holdout: float | None = None
    seed: int = 0
    split: Mapping[str, float] | None = None
    cluster: str = UNIT
    margin: float | None = None
    cap: float | None = None
    secondary: int = 0
    guardrails: Mapping[str, float] | None = None
    start_rankers: Sequence[str] = ()
    known_epoch: int | None = None

    def __post_init__(self) -> None:
        raise_errors(self._find_problems())

    def _find_problems(self) -> Iterator[DataError]:
        """What is wrong whatever the log."""
        if not 0.5 <= self.confidence < 1:
            yield DataError(f"confidence is {self.confidence!r}; give a share from 0.5 to below 1, such as 0.95")
        if self.planned_units is not None and self.planned_units < 1:
            planned = self.planned_units
            yield DataError(f"planned_units is {planned!r}; give a whole number from 1 up, or None without a plan")
        if self.look is not None and not 1 <= self.look[0] <= self.look[1] <= looks.MAX_LOOKS:
            which, of = self.look
            yield DataError(
                f"there is no look {which} of {of}; give which look of how many, such as 2 of 5. At most "
                f"{looks.MAX_LOOKS:,} can be planned; without a planned look, intervals are valid at any time"
            )
        if self.cluster not in POPULATIONS:
            yield DataError(f"unknown cluster {self.cluster!r}; known are {suggest(self.cluster, POPULATIONS)}")
        yield from self._find_correction_problems()
        if self.margin is not None and not 0 < self.margin < math.inf:
            remedy = "give the smallest preference that matters to you, a number above 0, such as 0.01"
            yield DataError(f"the margin is {self.margin!r}; {remedy}")
        if self.cap is not None and not MIN_CAP <= self.cap <= MAX_CAP:
            yield DataError(f"cap is {self.cap!r}; give a number from {MIN_CAP:g} to {MAX_CAP:g}")
        if self.secondary < 0:
            yield DataError(f"secondary is {self.secondary!r}; give the number of secondary metrics")
        if self.holdout is not None and not 0 < self.holdout < 1:
            yield DataError(f"holdout is {self.holdout!r}; give the planned share of units, such as 0.05")
        for arm, share in (self.split or {}).items():
            if not 0 < share < math.inf:
                yield DataError(f"the planned share of {arm!r} is {share!r}; give a number above 0, such as 0.5")
        if len(set(self.start_rankers)) < len(self.start_rankers):
            yield DataError(f"start_rankers is {join_names(self.start_rankers)}; name each of them once")
        yield from map(DataError, find_problems(self.guardrails or {}))

    def _find_correction_problems(self) -> Iterator[DataError]:
        if self.correction not in (HOLM, MAX_T):
            corrections = suggest(self.correction, (HOLM, MAX_T))
            yield DataError(f"unknown correction {self.correction!r}; known are {corrections}")
        if self.correction == MAX_T and self.look != ONE_LOOK:
            problem = "the correction max_t holds for one look at a planned time"
            yield DataError(f"{problem}; give look=(1, 1), or use the correction holm")
        if self.correction == MAX_T and self.cluster == UNIT_AND_QUERY:
            yield DataError(f"the correction max_t resamples units alone; use holm with cluster={UNIT_AND_QUERY!r}")

    @property
    def metrics(self) -> int:
        """How many metrics share the significance level."""
        return max(1, self.secondary)

    @property
    def alpha(self) -> float:
        """The significance level of this metric."""
        return significance(self.confidence) / self.metrics


def without_stalled_plan(tally: Tally, settings: ReportSettings) -> ReportSettings:
    """The settings, without the number of planned units if new units have nearly stopped coming.

    A plan counts units. If only the same people come again, the data grow but the number of units does not, and an
    anytime interval tuned to the plan is too narrow: in closed groups of 100 and 400 people with 10 to 50 visits, 7.6
    to 19.4 % of experiments showed a false winner (500 runs each), and 1.8 to 4.4 % with this function.
    """
    slices = tally.slices
    if settings.planned_units is None or settings.look or np.count_nonzero(slices.clicked) < MIN_SLICES:
        return settings
    shown = np.cumsum(slices.clicked)
    half = slices.ends[int(np.argmax(2 * shown >= shown[-1]))]
    since = tally.units.rows[tally.units.rows[:, CLICKED] > 0, SINCE]
    return settings if np.mean(since >= half) >= MIN_NEW_UNITS else replace(settings, planned_units=None)


class Decision(NamedTuple):
    """The interval and p-values of an estimate by the rule; if one is None, `reason` says why.

    `statements` are what the estimate shows, and `chance` is the chance that it shows one by the planned end; if that
    is None, `why_no_chance` says why.
    """

    interval: Interval | None
    p_value: float | None
    adjusted_p_value: float | None
    reason: str = ""
    statements: tuple[str, ...] = ()
    chance: float | None = None
    why_no_chance: str = ""


def decide(
    estimates: Sequence[Estimate],
    units: Array | int,
    settings: ReportSettings,
    max_score: float = math.inf,
    means: Array | None = None,
) -> tuple[Decision, ...]:
    """Decide on several comparisons, with a correction for all of them.

    `units` are those with an event, of all comparisons or of each. `max_score` is the largest score that an
    impression can have. `means` are resamples of the same comparisons, for the correction max_t.
    """
    clock = np.maximum(np.broadcast_to(units, len(estimates)), 1)
    p_values, reasons = _p_values(estimates, clock, settings)
    alpha = settings.alpha
    if settings.correction == MAX_T and means is not None and len(means):
        adjusted = multiplicity.max_t(estimates, means)
        levels = _levels(p_values, adjusted, alpha)
    else:
        adjusted, levels = multiplicity.holm(p_values), multiplicity.holm_levels(p_values, alpha)
    decisions = []
    for place, estimate in enumerate(estimates):
        interval, reason = interval_of(estimate, int(clock[place]), settings, levels[place])
        shared = None if (one := adjusted[place]) is None else min(1.0, one * settings.metrics)
        figures = clip_to_possible(interval, max_score), p_values[place], shared
        level = alpha / len(estimates)
        joint = interval if level == levels[place] else interval_of(estimate, int(clock[place]), settings, level)[0]
        statements = state(interval, joint, settings.margin)
        chance = _chance_at_end(estimate, int(clock[place]), settings, level)
        if {VerdictCode.ALIKE, VerdictCode.PREFERRED, VerdictCode.WORSE} & set(statements):
            chance = None, "it is decided"
        decisions.append(Decision(*figures, reason or reasons[place], statements, *chance))
    return tuple(decisions)


def state(interval: Interval | None, joint: Interval | None, margin: float | None) -> tuple[str, ...]:
    """The codes that hold for the first ranker of a pair; without a margin only whether one is preferred.

    Holm's correction holds for preferences only: with several pairs, its intervals become too short for other
    statements. So these use `joint`, an interval by Bonferroni's correction; with one pair, both are the same.

    >>> state((0.002, 0.008), (0.002, 0.008), margin=0.01), state((-0.004, 0.03), (-0.004, 0.03), margin=0.01)
    (('alike', 'preferred', 'no_worse'), ('no_worse',))
    """
    low, high = interval or (-math.inf, math.inf)
    lower, upper = joint or (-math.inf, math.inf)
    has_margin, margin = margin is not None, margin or 0.0
    shown = {
        VerdictCode.ALIKE: has_margin and -margin < lower and upper < margin,
        VerdictCode.PREFERRED: low > 0,
        VerdictCode.WORSE: high < 0,
        VerdictCode.NO_WORSE: has_margin and lower > -margin,
    }
    return tuple(code.value for code, holds in shown.items() if holds)


def _chance_at_end(estimate: Estimate, units: int, settings: ReportSettings, level: float) -> tuple[float | None, str]:
    """The chance that the estimate is decided when the planned units have come, or why it is not known."""
    if estimate.value is None or estimate.error is None or not estimate.error or estimate.reason:
        return None, estimate.reason
    if settings.look is not None:
        share = fractions(units, settings)[-1]
    elif settings.planned_units is None:
        return None, "no number of units is planned"
    else:
        share = units / settings.planned_units
    if share >= 1:
        return None, "the planned units have come"
    width = _last_width(None if settings.look is None else settings.look[1], level)
    return power.chance_at_end(estimate.value, estimate.error, share, width, settings.margin or 0.0), ""


@lru_cache(maxsize=128)
def _last_width(planned_looks: int | None, level: float) -> float:
    """The half-width of the interval in standard errors at the planned end, which no plan's size changes."""
    if planned_looks is None:
        return float(sequence.multiplier(1.0, 1.0, 1 - level))
    return looks.spending(looks.space_evenly(planned_looks), 1 - level)[-1]


def _levels(p_values: Sequence[float | None], adjusted: Sequence[float | None], alpha: float) -> tuple[float, ...]:
    """The level at which each p-value decides like the adjusted one; at least Bonferroni's for a rejection."""
    levels = []
    for p_value, corrected in zip(p_values, adjusted, strict=True):
        level = alpha * (p_value or 0.0) / corrected if corrected else alpha
        levels.append(max(level, alpha / len(p_values)) if corrected is None or corrected <= alpha else level)
    return tuple(levels)


def interval_of(estimate: Estimate, units: int, settings: ReportSettings, level: float) -> tuple[Interval | None, str]:
    """The interval of one estimate by the rule at this level, or the reason why there is none."""
    if settings.look is None:
        anytime = sequence.anytime(estimate, units, settings.planned_units, 1 - level)
        return anytime.interval, anytime.reason
    if estimate.value is None or estimate.error is None or estimate.effective_units is None or estimate.reason:
        return None, estimate.reason
    degrees = estimate.effective_units - 1
    if settings.look == ONE_LOOK:
        from scipy.special import stdtrit

        width = float(stdtrit(degrees, 1 - level / 2))
    else:
        width = float(statistic(looks.spending(fractions(units, settings), 1 - level)[-1], degrees))
    if not math.isfinite(width):
        return None, sequence.EARLY
    return (estimate.value - estimate.error * width, estimate.value + estimate.error * width), ""


def clip_to_possible(interval: Interval | None, max_score: float) -> Interval | None:
    """The interval cut to possible scores: no mean lies outside of them, so the confidence level holds."""
    return None if interval is None else (max(interval[0], -max_score), min(interval[1], max_score))


def fractions(units: int, settings: ReportSettings) -> tuple[float, ...]:
    """The information at the looks so far, as shares of all: what was collected, not what was planned.

    Earlier looks are assumed to be evenly spaced, and so is this one if no number of units was planned. Look k of K has
    at most k / K, even if more units came than were planned; otherwise the last look could not know how much of the
    level earlier looks have used. The last look has all information.

    >>> (
    ...     fractions(400, ReportSettings(look=(2, 5), planned_units=500)),
    ...     fractions(50, ReportSettings(look=(1, 5), planned_units=500)),
    ... )
    ((0.2, 0.4), (0.1,))
    """
    which, of = settings.look or ONE_LOOK
    planned = units * of / which if settings.planned_units is None else settings.planned_units
    now = 1.0 if which == of else min(units / planned, which / of)
    return tuple(now * look / which for look in range(1, which + 1))


def _p_values(
    estimates: Sequence[Estimate], clock: Array, settings: ReportSettings
) -> tuple[list[float | None], list[str]]:
    if settings.look is None:
        anytimes = sequence.anytimes(estimates, clock, settings.planned_units, settings.confidence)
        return [one.p_value for one in anytimes], [one.reason for one in anytimes]
    p_values = [one.p_value for one in estimates]
    if settings.look != ONE_LOOK:
        p_values = [
            None if one.deviate is None else looks.spending_p_value(one.deviate, fractions(int(units), settings))
            for one, units in zip(estimates, clock, strict=True)
        ]
    return p_values, [one.reason for one in estimates]
