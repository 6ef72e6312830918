"""What a report claims, one function for each kind of claim; `calibration.py` prints their rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks import (
    checks,
    exposure,
    guardrails,
    margins,
    method_plans,
    people,
    plans,
    queries,
    rules,
    schemes,
    values,
    watching,
)
from benchmarks.people import BOUNDED, PER_SEARCH
from interleaf.report.model import FAILED, WARNING
from interleaf.report.rule import ONE_LOOK, ReportSettings
from interleaf.stats.power import Plan

LOOKS = 20
NOMINAL = (0.04, 0.06)  # a level of 5 %, by one point
AT_MOST = (0.0, 0.05)
ENOUGH = (0.8, 1.0)
FALSE_ALARMS = (0.0, 0.01)
NO_LIMIT = (0.0, 1.0)
GUARDED = (0.5, 300), (0.9, 300), (0.95, 10_000)  # the share of users in the arm that a guardrail watches, and users
PARTIAL = {  # faults of which checks see only a part
    "half lost, rankers that differ much",
    "A/B arms 55 to 45",
    "5 % bots that come once",
    "20 % lost in a segment",
}


class Effort(NamedTuple):
    """Runs of cheap rows, of rows that are watched or read a log, and sizes of experiments."""

    runs: int
    few: int
    logs: int
    sizes: tuple[int, ...]
    watched: tuple[int, ...]


QUICK = Effort(1_000, 200, 10, (30, 100, 1_000), (100,))
FULL = Effort(10_000, 1_000, 50, (30, 100, 300, 1_000), (30, 100, 300, 1_000))


class Row(NamedTuple):
    """A claim in a world, the limits of its share, and in how many of the runs it happened.

    `safe_below` says that a share below the limits harms nobody.
    """

    claim: str
    world: str
    size: str
    low: float
    high: float
    happened: int
    runs: int
    safe_below: bool = True

    @property
    def exact(self) -> tuple[float, float]:
        """The interval of Clopper and Pearson."""
        from scipy.special import betaincinv

        low = float(betaincinv(self.happened, self.runs - self.happened + 1, 0.025)) if self.happened else 0.0
        high = (
            float(betaincinv(self.happened + 1, self.runs - self.happened, 0.975)) if self.happened < self.runs else 1.0
        )
        return low, high

    @property
    def limits(self) -> str:
        """In words."""
        low, high = f"{100 * self.low:.0f}", f"{100 * self.high:.0f}"
        if (self.low, self.high) == NO_LIMIT:
            return "-"
        if self.low == 0 or self.high == 1:
            return f"at most {high} %" if self.low == 0 else f"at least {low} %"
        return f"{low} to {high} %"

    @property
    def answer(self) -> str:
        """Whether the limits hold."""
        low, high = self.exact
        if (self.low, self.high) == NO_LIMIT:
            return ""
        if high < self.low:
            return "misses, to the safe side" if self.safe_below else "misses"
        return "misses" if low > self.high else "holds"


Claim = Callable[[Effort, int], Iterator[Row]]


def tail(world: people.World) -> str:
    """A world of heavy and light users in words."""
    return f"tail {world.tail:g}, {world.name}"


def one_look(effort: Effort, seed: int) -> Iterator[Row]:
    """False positives of one look, which are also what its interval leaves uncovered."""
    for world in people.WORLDS:
        for units in effort.sizes:
            runs = effort.runs if units < 1_000 else effort.runs // 5
            wrong = people.wrong_at_one_look(world, units, runs, BOUNDED, seed)
            yield Row("one look shows a false winner", tail(world), f"{units:,}", *NOMINAL, int(wrong.sum()), runs)


def coverage(effort: Effort, seed: int) -> Iterator[Row]:
    """How often the interval of one look has the true preference in it."""
    for index in people.TAILS:
        for units in effort.sizes:
            runs = effort.runs if units < 1_000 else effort.runs // 5
            found = people.covered(people.World(index, 0.3, 0.2), units, runs, seed)
            world = f"tail {index:g}, a preference of 0.18, tastes"
            yield Row("one look covers the truth", world, f"{units:,}", 0.94, 0.96, int(found.sum()), runs, False)


def watched(effort: Effort, seed: int) -> Iterator[Row]:
    """False winners of a page that is looked at 60 times while visits come."""
    for world in people.WORLDS:
        for units in effort.watched:
            found = people.wrong_when_watched(world, units, effort.few, (units, None), seed)
            for name, wrong in zip(("with a plan", "without a plan"), found, strict=True):
                claim = f"{people.LOOKS} looks {name} show a false winner"
                yield Row(claim, tail(world), f"{units:,}", *AT_MOST, int(wrong.sum()), effort.few)


def watched_after_every_user(effort: Effort, seed: int) -> Iterator[Row]:
    """False winners of a page that is looked at after every user, to three times the plan."""
    for name, world in watching.WORLDS.items():
        for planned in (100, 400):
            rules_of: dict[str, watching.Rule] = {
                "with a plan": partial(watching.interleaf_rule, planned),
                "without a plan": partial(watching.interleaf_rule, None),
            }
            for rule, shown in watching.first_shown(rules_of, world, 3 * planned, effort.few, seed).items():
                claim = f"watched after every user {rule}: a false winner"
                yield Row(claim, name, f"{planned:,}", *AT_MOST, int(np.isfinite(shown).sum()), effort.few)


def planned_looks(effort: Effort, seed: int) -> Iterator[Row]:
    """False winners of five planned looks by their spending function, also with late data, or more than planned."""
    for index in (1.05, 1.5, 3.0):
        for planned in (100, 400):
            for name, arrived in {
                "on time": rules.ON_TIME,
                "late, and more at the end": rules.LATE,
                "of twice the plan": rules.TWICE,
            }.items():
                wrong = rules.wrong_at_planned_looks(index, planned, arrived, effort.few, seed)
                world = f"tail {index:g}, tastes, data {name}"
                yield Row("5 planned looks show a false winner", world, f"{planned:,}", 0, 0.06, wrong, effort.few)


def schemes_at_one_look(effort: Effort, seed: int) -> Iterator[Row]:
    """False positives of one look at averaged credit and at competitive pairs, with real lists, clicks and credit."""
    for method in schemes.SCHEMES:
        for index in (1.05, 1.5):
            for units in (units for units in effort.sizes if units < 1_000):
                wrong = schemes.wrong_at_one_look(method, index, units, effort.runs, seed)
                for scheme, count in wrong.items():
                    world = f"tail {index:g}, lists with tastes, {method} by {scheme}"
                    yield Row("one look shows a false winner", world, f"{units:,}", *NOMINAL, count, effort.runs)


def schemes_when_watched(effort: Effort, seed: int) -> Iterator[Row]:
    """False winners of the same experiments if they are watched."""
    runs = 2 * effort.few
    for method in schemes.SCHEMES:
        for index in (1.05, 1.5):
            for units in (units for units in effort.watched if units < 1_000):
                wrong = schemes.wrong_when_watched(method, index, units, runs, (units, None), seed)
                for scheme, counts in wrong.items():
                    world = f"tail {index:g}, lists with tastes, {method} by {scheme}"
                    for name, count in zip(("with a plan", "without a plan"), counts, strict=True):
                        claim = f"{schemes.LOOKS} looks {name} show a false winner"
                        yield Row(claim, world, f"{units:,}", *AT_MOST, count, runs)


def many_rankers(effort: Effort, seed: int) -> Iterator[Row]:
    """Any false winner among all pairs of five rankers."""
    for index in (1.05, 1.5):
        for units in (100, 400):
            world, runs = f"tail {index:g}, 5 rankers, tastes", effort.few
            differ, best = rules.wrong_of_many(index, units, 1, ReportSettings(look=ONE_LOOK), runs, seed)
            yield Row("one look shows a false difference in any pair", world, f"{units:,}", 0, 0.06, differ, runs)
            yield Row("one look shows a ranker that beats all", world, f"{units:,}", 0, 0.06, best, runs)
            differ, _ = rules.wrong_of_many(index, units, LOOKS, ReportSettings(planned_units=units), runs // 4, seed)
            claim = f"{LOOKS} looks show a false difference in any pair"
            yield Row(claim, world, f"{units:,}", *AT_MOST, differ, runs // 4)


def segments(effort: Effort, seed: int) -> Iterator[Row]:
    """Any false winner among three segments of a page that is watched."""
    for index in (1.05, 1.5, 3.0):
        for units in (100, 400):
            wrong = rules.wrong_of_segments(index, units, LOOKS, effort.few // 2, seed)
            claim, world = f"{LOOKS} looks show a false winner in any segment", f"tail {index:g}, 3 segments, tastes"
            yield Row(claim, world, f"{units:,}", *AT_MOST, wrong, effort.few // 2)


def margins_when_watched(effort: Effort, seed: int) -> Iterator[Row]:
    """False statements that rankers are alike, or that one is no worse, of a page that is looked at 50 times."""
    for index in (1.05, 1.5, 3.0):
        for margin in (0.05, 0.15):
            for units in (3_000,) if effort is QUICK else (300, 3_000):
                world = f"tail {index:g}, tastes, worse by the margin, {margin:g}"
                wrong = margins.wrong_when_watched(index, margin, units, (units, None), effort.few, seed)
                for rule, counts in zip(("with a plan", "without a plan"), wrong, strict=True):
                    for code, count in counts.items():
                        claim = f"{margins.LOOKS} looks {rule} state `{code}`"
                        yield Row(claim, world, f"{units:,}", *AT_MOST, count, effort.few)


def guardrails_when_watched(effort: Effort, seed: int) -> Iterator[Row]:
    """False statements that a guardrail is ok, or broken, of a page that is looked at 50 times."""
    for metric in guardrails.METRICS:
        for index in (1.05, 1.5, 3.0):
            for share, users in GUARDED[: 2 if effort is QUICK else 3]:
                runs = effort.few if effort is QUICK or users > 300 else effort.runs
                world = f"tail {index:g}, tastes, {metric.name}, worse by the margin, {1 - share:.0%} in the holdout"
                wrong = guardrails.wrong_when_watched(metric, index, share, users, (users, None), runs, seed)
                for rule, counts in zip(("with a plan", "without a plan"), wrong, strict=True):
                    for code, count in counts.items():
                        claim = f"{guardrails.LOOKS} looks {rule} state that a guardrail is `{code}`"
                        yield Row(claim, world, f"{users:,}", *AT_MOST, count, runs)


def values_covered(effort: Effort, seed: int) -> Iterator[Row]:
    """How often the interval of one look has the truth in it if events count by their values."""
    for world in values.WORLDS if effort is FULL else values.WORLDS[::3]:
        for users in (300, 3_000):
            for is_given in (True, False):
                runs = effort.runs if users == 300 else effort.few
                found = values.covered(world, users, is_given, runs, seed)
                rule = "a given cap" if is_given else "a cap at the 99th percentile"
                claim = f"one look covers the value per person, with {rule}"
                yield Row(claim, world.name, f"{users:,}", 0.94, 0.96, found, runs, False)


def clustered_by_query(effort: Effort, seed: int) -> Iterator[Row]:
    """Queries that repeat by Zipf's law: about these queries by unit, about queries like these by unit and query."""
    for world in queries.WORLDS:
        if world.units in (100, 1_000) and world.spread:
            name = f"{world.queries:,} queries, Zipf {world.exponent:g}"
            runs = effort.few // 2
            these, naive, both = queries.wrong(world, runs, seed).tolist()
            size = f"{world.units:,}"
            yield Row("by unit: wrong about these queries", name, size, *NOMINAL, these, runs)
            yield Row("by unit: wrong about queries like these", name, size, *NO_LIMIT, naive, runs)
            yield Row("by unit and query: wrong about queries like these", name, size, *NO_LIMIT, both, runs)


def planned_power(effort: Effort, seed: int) -> Iterator[Row]:
    """Whether experiments of the planned size show the effect as often as the plan says."""
    for world in plans.WORLDS:
        found = plans.kept(world, effort.few, seed)
        made, name = len(found.plans), f"effect {world.effect:g}, " + ", ".join(world.names)
        if found.refused > made:
            yield Row("a plan is refused", name, "-", 0.95, 1.0, found.refused, found.refused + made, False)
            continue
        middle = sorted(found.plans, key=lambda one: one.units)[made // 2]
        low, high = power_limits(middle, found.claim, world.power)
        shown, runs = round(found.shown.sum() * plans.REPEATS), found.shown.size * plans.REPEATS
        yield Row("planned power is reached", name, f"{middle.units:,}", low, high, shown, runs, False)


def planned_methods(effort: Effort, seed: int) -> Iterator[Row]:
    """Whether experiments of the planned size show the lift as often as the plan of their method and scheme says."""
    for world in method_plans.WORLDS:
        for one in method_plans.achieved(world, 2 * effort.few, seed):
            low, high = power_limits(one.plan, one.plan.power, method_plans.POWER)
            name = f"{one.setting}; {world.name}, lift {100 * world.lift:g} %"
            claim = "planned power of a method is reached"
            yield Row(claim, name, f"{one.plan.units:,}", low, high, one.shown, one.runs, False)


def power_limits(made: Plan, claim: float, asked: float) -> tuple[float, float]:
    """Three points around the claim; at least what was asked for where a plan has more units than its power needs."""
    return (asked, 1.0) if made.at_minimum else (claim - plans.TOLERANCE, claim + plans.TOLERANCE)


def cost_of_watching(effort: Effort, seed: int) -> Iterator[Row]:
    """Whether what one look shows with 80 % is shown by 1.3 times its users, or 2.2 times without a plan."""
    for size in watching.SIZES[: 3 if effort is QUICK else 4]:
        rules_of: dict[str, watching.Rule] = {
            "with a plan, by 1.3": partial(watching.interleaf_rule, round(1.3 * size)),
            "without a plan, by 2.2": partial(watching.interleaf_rule, None),
        }
        last = round(2.2 * size)
        for (name, shown), most in zip(
            watching.first_shown(rules_of, watching.preferring(size), last, effort.few, seed).items(),
            (1.3, 2.2),
            strict=True,
        ):
            claim = f"watched {name} times the users of one look: shown"
            count = int((shown <= most * size).sum())
            yield Row(claim, "one visit, half of them ties", f"{size:,}", *ENOUGH, count, shown.size, False)


def cost_of_weights(effort: Effort, seed: int) -> Iterator[Row]:
    """Whether weights up to the limit show by 1.1 times the users what one vote per search shows with 80 %."""
    for index in (1.5, 3.0):
        for shared in (0.4, 0.1) if effort is QUICK else people.EFFECTS[:4]:
            world = people.World(index, shared)
            sizes = [round(step * people.expected_units(world, seed)) for step in people.STEPS[:9]]
            found = people.shown(world, sizes, effort.few, seed)
            base = people.units_needed(found[PER_SEARCH].mean(axis=0), sizes)
            if math.isnan(base):
                continue
            shown = people.shown(world, [round(1.1 * base)], effort.few, seed + 1)[BOUNDED]
            claim = "one look, by 1.1 times the users of one vote per search: shown"
            name = f"tail {index:g}, no tastes, a preference of {shared * people.DECIDED:g}"
            yield Row(claim, name, f"{1.1 * base:,.0f}", *ENOUGH, int(shown.sum()), effort.few, False)


def lift_covers(effort: Effort, seed: int) -> Iterator[Row]:
    """How often the interval of the lift has the truth in it, and whether lifts that are not 0 have the right sign."""
    for kind in exposure.KINDS:
        found = [one for one in exposure.lifts(kind, 3_000, 8 * effort.logs, seed) if one.interval is not None]
        claim, covered = "the interval of the lift covers the truth", sum(one.is_covered for one in found)
        yield Row(claim, kind.name, "3,000", 0.93, 0.97, covered, len(found), False)
        clear = [one for one in found if one.direction]
        right = sum(one.direction == np.sign(one.truth) for one in clear)
        claim = "a lift whose interval leaves out 0 has the right sign"
        if clear:
            yield Row(claim, kind.name, "3,000", 0.97, 1.0, right, len(clear), False)


def false_alarms(effort: Effort, seed: int) -> Iterator[Row]:
    """Sound logs of which a health check fails."""
    counts = [checks.alarms(maker, fault, effort.logs)[2] for maker, fault in checks.SOUND.values()]
    runs = effort.logs * len(counts)
    yield Row("any health check fails", f"{len(counts)} kinds of sound logs", "-", *FALSE_ALARMS, sum(counts), runs)


def faults(effort: Effort, seed: int) -> Iterator[Row]:
    """Logs with a fault that its health check sees: it fails, or warns."""
    for name, (maker, fault, code) in checks.FAULTS.items():
        counts = checks.caught(maker, fault, code, effort.logs)
        seen = counts[FAILED] + counts[WARNING]
        limits = NO_LIMIT if name in PARTIAL else ENOUGH
        yield Row(f"`{code}` fails or warns", name, f"{maker.units:,}", *limits, seen, effort.logs, False)


CLAIMS: list[Claim] = [
    one_look,
    coverage,
    watched,
    watched_after_every_user,
    planned_looks,
    schemes_at_one_look,
    schemes_when_watched,
    many_rankers,
    segments,
    margins_when_watched,
    guardrails_when_watched,
    values_covered,
    clustered_by_query,
    planned_power,
    planned_methods,
    cost_of_watching,
    cost_of_weights,
    lift_covers,
    false_alarms,
    faults,
]
