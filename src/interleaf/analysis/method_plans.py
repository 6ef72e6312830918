"""How many people each method and scheme needs until it shows that a ranker gets so many more clicks.

    rankings + visits + clicked ranks ──tilt──▶ people ──each method──▶ lists, clicks ──each scheme──▶ mean, variance
                                       └── so that the second ranker's own lists get the lift           └──▶ people

All methods and schemes meet the same people, whose clicks are so much better on the second ranker's own lists as the
lift says. Scores of different schemes have different scales, and the lift has not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from interleaf.analysis.plan import Planned, plan_by_pilot
from interleaf.analysis.planned_traffic import Rankings, Setting, traffic_of_log, traffic_of_rankings
from interleaf.analysis.tilted_world import TiltedWorld
from interleaf.errors import DataError, join_names
from interleaf.execution.options import LogOptions
from interleaf.interleaving.rankings import check_k
from interleaf.methods.registry import DEFAULT, METHODS, ResolvedMethod, resolve
from interleaf.report.weights import MIN_LIMIT
from interleaf.tables import Table, percent

if TYPE_CHECKING:
    from interleaf.click_value.learned_credit import LearnedCredit
    from interleaf.decode.columns import Exclusion
    from interleaf.log import Progress

CLICK_RATES = (0.3,)
HOPELESS = 4.0  # standard errors above 0 that a mean score must have
UNFAIR = "clicks that depend on the rank only prefer a ranker"
BLIND = "no preference is expected for the better ranker"
DEEP = "it needs the rankings below the shown documents, which the log does not have"


@dataclass(frozen=True)
class MethodPlan:
    """The people that one method needs with one scheme; no plan if `reason` says why.

    `evidence` is mean^2 / variance of the score for each impression that is shown.
    """

    method: str
    scheme: str
    plan: Planned | None
    evidence: float | None = None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        data = {"method": self.method, "scheme": self.scheme, "evidence": self.evidence, "reason": self.reason}
        return data | {"plan": self.plan.to_dict() if self.plan else None}


@dataclass(frozen=True)
class MethodPlans:
    """A plan for each method and scheme, fewest people first, and the settings of all of them.

    `identical` is the share of impressions with the same top of both rankings; `ab_units` are the people that an A/B
    test on clicks needs; `current` are the method and scheme of the log, or the default ones.
    """

    plans: tuple[MethodPlan, ...]
    lift: float
    power: float
    confidence: float
    rankers: tuple[str, ...]
    current: Setting
    identical: float
    ab_units: int
    taste_spread: float
    is_log: bool
    source: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return vars(self) | {
            "plans": [one.to_dict() for one in self.plans],
            "rankers": list(self.rankers),
            "current": list(self.current),
        }

    def table(self) -> Table:
        """The plans that could be made."""
        columns = ("people", "watched", "evidence per 1,000 impressions", "expected score")
        rows: list[tuple[str, ...]] = []
        for one in self.plans:
            if one.plan is not None and one.evidence is not None:
                mark = " *" if (one.method, one.scheme) == self.current else ""
                people = f"{one.plan.fixed.units:,}", f"{one.plan.watched_units:,}"
                score = f"{one.plan.fixed.effect:.3g}"
                rows.append((f"{one.method} {one.scheme}{mark}", *people, f"{1000 * one.evidence:.3g}", score))
        rows.append(("A/B test on clicks", f"{self.ab_units:,}", "-", "-", "-"))
        return Table("method-plans", "", ("method and scheme", *columns), tuple(rows), columns)

    def __str__(self) -> str:
        first, second = self.rankers
        clicks = "as in the log" if self.is_log else "as given"
        tastes = (
            f"; personal preferences have a standard deviation of {self.taste_spread:.2g}" if self.taste_spread else ""
        )
        head = (
            f"People needed to show that people prefer {second}, if its own list would get "
            f"{percent(self.lift, 1, signed=True)} clicks "
            f"against {first}, with a power of {percent(self.power, 0)} at a confidence of {self.confidence:.4g}:"
        )
        lines = [head, "", str(self.table()), ""]
        marked = "the method and scheme of the log" if self.is_log else "the method and scheme to compare with"
        lines += [
            f"* {marked}. People: who come, for one look at the end; watched: if you check repeatedly and stop early.",
            f"In {percent(self.identical, 0)} of impressions both rankings have the same top results; these give no "
            "information.",
            f"Assumptions: clicks per rank are {clicks}; the higher {second} ranks a document compared with {first}, "
            f"the more it is clicked{tastes}.",
            f"Based on {self.source}.",
        ]
        for reason in dict.fromkeys(one.reason for one in self.plans if one.reason):
            names = [f"{one.method} {one.scheme}" for one in self.plans if one.reason == reason]
            lines.append(f"No plan for {', '.join(names)}: {reason}.")
        return "\n".join(lines)


def plan_methods(
    log: Any = None,
    lift: float = 0.05,
    *,
    rankings: Mapping[str, Rankings] | None = None,
    k: int = 10,
    click_rates: Sequence[float] = CLICK_RATES,
    taste_spread: float | None = None,
    impressions_per_unit: float = 1.0,
    even_activity: bool = False,
    power: float = 0.8,
    confidence: float = 0.95,
    scheme: str | None = None,
    method: str | None = None,
    events: str | Mapping[str, float] = "click",
    dwell: float | None = None,
    first: bool = False,
    window: float | None = None,
    experiment: str | None = None,
    version: int | None = None,
    exclude: Exclusion | Mapping[str, Collection[str]] | None = None,
    credit: LearnedCredit | str | PathLike[str] | None = None,
    engine: str | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> MethodPlans:
    """How many people each method and scheme needs, from a log or from two rankings of each query.

    `lift` is the true difference that they have to show: so many more clicks would the second ranker get if it were
    live, 0.05 for 5 %. `rankings` are given instead of a log, `{ranker: {query: documents}}`; then `k` documents are
    shown to people who come as `plan` says, and who click rank 1, 2, ... at the rates `click_rates`; below the last
    one given, rates fall as 1 / rank. `taste_spread` is the standard deviation of personal preferences for either
    ranker, in the logarithm of the click rate (default: that of the log, else 0). `method` and `scheme` are those of
    the current experiment. The other options say how the log is read, as in `plan`.
    """
    options = LogOptions.of_arguments(locals())
    if (log is None) == (rankings is None):
        raise DataError("give either a log or the rankings of two rankers")
    if taste_spread is not None and not 0 <= taste_spread < np.inf:
        raise DataError(f"taste_spread is {taste_spread!r}; give a number from 0 up, such as 0.5")
    if credit is not None:
        raise DataError("a plan of methods cannot use learned credit; leave credit out")
    if rankings is None:
        traffic = traffic_of_log(log, options, taste_spread)
    else:
        if more := [name for name in options.changed if name not in ("method", "scheme", "threads")]:
            raise DataError(f"without a log, nothing is read; leave out {join_names(more)}")
        spread = taste_spread or 0.0
        traffic = traffic_of_rankings(rankings, check_k(k), click_rates, spread, impressions_per_unit, even_activity)
    world = TiltedWorld(traffic, lift)
    current = resolve(method or DEFAULT) if traffic.current is None else resolve(traffic.current[0])
    name = traffic.current[1] if traffic.current else current.scheme(scheme, 2).name
    methods = {str(one): one for one in (*map(resolve, METHODS), current) if one.method.claims.fair or one is current}
    plans = [one for chosen in methods.values() for one in _plans(world, chosen, power, confidence, threads)]
    return MethodPlans(
        tuple(sorted(plans, key=lambda one: one.plan.fixed.units if one.plan else np.inf)),
        *(lift, power, confidence, traffic.rankers, (str(current), name), world.identical),
        *(world.ab_units(power, confidence), traffic.taste_spread, traffic.users is not None, traffic.source),
    )


def _plans(
    world: TiltedWorld, chosen: ResolvedMethod, power: float, confidence: float, threads: int
) -> Iterator[MethodPlan]:
    """A plan for each scheme of a method."""
    schemes, traffic = chosen.method.schemes_for(2), world.traffic
    is_fair = chosen.method.claims.fair and not set(chosen.method.unfair_values) & set(chosen.parameters.values())
    reason = UNFAIR if not is_fair else DEEP if chosen.method.whole_rankings and not traffic.are_whole else ""
    if reason:
        yield from (MethodPlan(str(chosen), scheme, None, reason=reason) for scheme in schemes)
        return
    for scheme, scores in world.scores(chosen, threads).items():
        if scores.mean < HOPELESS * scores.error:
            yield MethodPlan(str(chosen), scheme, None, reason=BLIND)
            continue
        if vague := scores.pilot_at(MIN_LIMIT).reason:
            yield MethodPlan(str(chosen), scheme, None, reason=vague)
            continue
        plan = plan_by_pilot(scores.effect, None, scores.pilot_at, traffic.source, power, confidence)
        evidence = scores.effect**2 / plan.fixed.variance * scores.units / scores.impressions
        yield MethodPlan(str(chosen), scheme, plan, evidence)
