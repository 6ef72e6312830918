"""Reports made by hand: healthy, undecided, broken, many rankers, nothing computed, names from strangers, very many."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations

from interleaf.report.model import (
    DRAWN_OWNERS,
    FAILED,
    OK,
    SKIPPED,
    WARNING,
    Check,
    Comparison,
    Examination,
    Lift,
    Metric,
    Neutrality,
    Point,
    ReportArm,
    Segment,
    SegmentComparison,
    Slot,
    Standing,
    Strength,
    Totals,
    Verdict,
)
from interleaf.report.report import Report

SINCE = datetime(2026, 11, 1, tzinfo=UTC)
SCRIPT = "<script>alert(1)</script>"
HOSTILE = (
    SCRIPT,
    "two\nlines | and a pipe",
    "`ticks` *stars* _lines_ [red]bold[/red] [link](javascript:alert(1))",
    "long" * 1250,
    "محرك البحث \u202eabc",
    "\x1b[31mred & <b>bold</b> &amp;",
)
REASON = "fewer than two units, so nothing can be said of their spread"


def in_segment(pair: Comparison) -> SegmentComparison:
    """The pair as if it were a segment's."""
    return SegmentComparison(**vars(pair))


def comparison(first: str, second: str, estimate: float, error: float = 0.01, decisions: int = 5000) -> Comparison:
    """A pair with every figure, in proportion to its estimate."""
    wins = round(decisions * (0.4 + estimate / 2))
    losses = round(decisions * (0.4 - estimate / 2))
    p_value = 0.0004 if abs(estimate) > 3 * error else 0.21
    return Comparison(
        first,
        second,
        estimate=estimate,
        error=error,
        interval=(estimate - 1.96 * error, estimate + 1.96 * error),
        p_value=p_value,
        adjusted_p_value=min(1.0, 2 * p_value),
        sign_flip_p_value=p_value,
        delta=estimate / 2,
        wins=wins,
        losses=losses,
        ties=decisions - wins - losses,
        sign_test_p_value=p_value,
        unit_wins=wins // 3,
        unit_losses=losses // 3,
        unit_sign_test_p_value=p_value,
        z_score=estimate / error,
        impressions=2 * decisions,
        clicked=decisions,
        units=2100,
        effective_units=1480.25,
    )


def points(first: str, second: str, estimate: float, days: int = 14) -> tuple[Point, ...]:
    """An estimate that settles; nothing on the first day."""
    noise = random.Random(f"{first} {second}")
    made = [Point(SINCE, first, second, 40, None, None)]
    for day in range(1, days):
        error = 0.09 / day**0.75
        now = estimate + noise.gauss(0, error / 4)
        made.append(
            Point(SINCE + timedelta(days=day), first, second, 700 * day, now, (now - 2 * error, now + 2 * error))
        )
    return tuple(made)


def slots(rankers: tuple[str, ...], positions: int = 10, drift: float = 0.0) -> tuple[Slot, ...]:
    """Shares that add up at each position, near the expected ones; the first ranker has more by the drift."""
    noise, expected, made = random.Random(7), 1 / len(rankers), []
    for place in range(1, positions + 1):
        shares = [expected * (1 + noise.gauss(0, 0.03)) + drift * (number == 0) for number in range(len(rankers))]
        made += [
            Slot(place, r, s / sum(shares), expected, noise.random()) for r, s in zip(rankers, shares, strict=True)
        ]
    return tuple(made)


CHECKS = (
    Check("first pick", OK, "candidate picked first in 50.2 % of 9,412 lists, p = 0.71"),
    Check("slots by position", OK, "smallest adjusted p over 10 positions: 0.34"),
    Check(
        "holdout", SKIPPED, "the log has no holdout", "Set a holdout share to learn whether interleaving itself hurts."
    ),
    Check("competitive coverage", OK, "rankings differ in 83.0 % of impressions"),
    Check("duplicate events", OK, "12 of 41,200"),
)


def healthy() -> Report:
    """A candidate that wins, and everything there is to show."""
    rankers = ("production", "candidate")
    pair = comparison("candidate", "production", 0.042)
    metrics = (
        Metric("clicks per query", 0.8312, 0.0121, (-0.004, 0.028), 0.14),
        Metric("abandonment", 0.231, -0.008, (-0.015, -0.001), 0.031),
    )
    return Report(
        experiment="search-2026-11",
        version=2,
        method="team_draft",
        scored_as="team_draft",
        scheme="binary_deduped",
        events="click",
        rankers=rankers,
        control="production",
        confidence=0.95,
        planned_units=2000,
        correction="holm",
        rule="anytime",
        look=None,
        verdict=Verdict(
            "People prefer candidate to production: of the impressions that decide, 55 % go to candidate, and this "
            "is valid even if you check repeatedly.",
            "candidate",
            True,
            code="preferred",
        ),
        totals=Totals(
            10_412, 5_000, 2_100, True, SINCE, SINCE + timedelta(days=13, hours=20),
            {"impressions without an id": 12, "events past the window": 88}, {"click": 7_420, "purchase": 310},
        ),
        health=CHECKS,
        comparisons=(pair,),
        arms=(
            ReportArm("holdout", 1_040, 490, 212, tuple(Metric(m.name, m.value) for m in metrics)),
            ReportArm("interleaved", 10_412, 5_000, 2_100, metrics),
        ),
        slots=slots(rankers),
        neutrality=(Neutrality("production", 5.02, 0.498, 0.292), Neutrality("candidate", 4.98, 0.502, 0.294)),
        over_time=points("candidate", "production", 0.042),
        segments=tuple(
            Segment("device", value, size, (in_segment(comparison("candidate", "production", estimate, 0.02)),))
            for value, size, estimate in (("desktop", 6_100, 0.071), ("phone", 4_000, 0.004), ("tablet", 312, -0.03))
        ),
        notes=("Units are users where one was logged, else sessions.",),
        lifts=(Lift("candidate", "production", 0.021, (0.004, 0.038), 0.84, 0.823, 0.01, 0.02),),
        examination=(
            Examination(1, 1.0, None, 0, True),
            Examination(2, 0.6, (0.55, 0.66), 812, True),
            Examination(3, 0.4, (0.3, 0.53), 31, False),
        ),
    )  # fmt: skip


def undecided() -> Report:
    """No difference yet, and a warning."""
    report = healthy()
    return replace(
        report,
        verdict=Verdict(
            "No difference between candidate and production yet; 1,400 more units are planned.", None, True
        ),
        totals=replace(report.totals, units=600, units_are_exact=False),
        health=(
            *CHECKS[:3],
            Check("competitive coverage", WARNING, "rankings differ in 4.1 % of impressions", "Wait."),
        ),
        comparisons=(comparison("candidate", "production", 0.011, 0.02),),
        over_time=points("candidate", "production", 0.011),
        segments=(),
    )


def counted_by_owners() -> Report:
    """Credit is averaged over owners, so lists are counted by the drawn owners, and people are not counted."""
    reasons = dict.fromkeys(("unit_wins", "unit_losses", "unit_sign_test_p_value"), "the sign is not fair")
    pair = replace(healthy().comparisons[0], counted_by=DRAWN_OWNERS, reasons=reasons)
    pair = replace(pair, unit_wins=None, unit_losses=None, unit_sign_test_p_value=None)
    return replace(healthy(), scheme="click_list", comparisons=(pair,))


def broken() -> Report:
    """A check failed: the verdict is not to be trusted."""
    report = healthy()
    slot_check = Check(
        "slots by position",
        FAILED,
        "production owns 58.1 % of position 1, expected 50.0 %, p < 0.001",
        "Look for code that reorders lists after interleaving; analyse again from the day of the fix.",
    )
    late = Check("late events", WARNING, "7.2 % came past the window", "Widen the window.")
    return replace(
        report,
        verdict=replace(
            report.verdict, trusted=False, why=("slots by position: production owns 58.1 % of position 1.",)
        ),
        health=(*CHECKS[:1], late, slot_check, *CHECKS[2:]),
        slots=slots(("production", "candidate"), drift=0.08),
    )


def with_cycle() -> Report:
    """Five rankers without a control, of which three beat each other in a circle."""
    rankers = ("bm25", "dense", "hybrid", "learned", "random")
    estimates = (-0.05, -0.02, 0.06, 0.31, -0.07, 0.03, 0.34, -0.04, 0.29, 0.36)
    pairs = tuple(comparison(a, b, e) for (a, b), e in zip(combinations(rankers, 2), estimates, strict=True))
    places = (("dense", 2, 0.31), ("learned", 2, 0.22), ("hybrid", 0, 0.2), ("bm25", 0, 0.12), ("random", -4, -0.85))
    strengths = tuple(Strength(name, score, s, (s - 0.06, s + 0.06)) for name, score, s in places)
    cycle = ("dense", "learned", "hybrid")
    return replace(
        healthy(),
        experiment="five rankers",
        method="pairwise_preference",
        scheme="click",
        rankers=rankers,
        control=None,
        verdict=Verdict(
            "No ranker beats all others: dense, learned and hybrid beat each other in a circle.", None, True
        ),
        comparisons=pairs,
        standing=Standing(None, strengths, (cycle,), {"condorcet": "three of them go round in a circle"}),
        arms=(),
        slots=slots(rankers, 5),
        neutrality=tuple(Neutrality(name, 2.0, 0.2, None) for name in rankers),
        over_time=tuple(point for pair in pairs for point in points(pair.first, pair.second, pair.estimate or 0.0)),
        segments=(),
        lifts=tuple(Lift(pair.first, pair.second, 0.1, (0.0, 0.2), 1.1, 1.0, 0.0, 0.0) for pair in pairs),
    )


def nothing_computed() -> Report:
    """Everything that may be None is None, with its reason."""
    numbers = [name for name, value in vars(Comparison("a", "b")).items() if value is None]
    reasons = {name: f"{REASON} ({name})" for name in numbers}
    pair = Comparison("candidate", "production", impressions=3, clicked=1, reasons=reasons)
    strengths = tuple(Strength(name, 0) for name in ("candidate", "production"))
    return replace(
        healthy(),
        verdict=Verdict("One unit is too few to say anything.", None, True),
        totals=Totals(3, 1, 1, True, None, None),
        health=tuple(Check(check.name, SKIPPED, "too few impressions") for check in CHECKS),
        comparisons=(pair,),
        standing=Standing(
            None, strengths, (), {name: f"no {name}: {REASON}" for name in ("condorcet", "strength", "interval")}
        ),
        arms=(ReportArm("interleaved", 3, 1, None, (Metric("clicks per query", None, reason="no query was logged"),)),),
        slots=(Slot(1, "candidate", 1.0, 0.5),),
        neutrality=(Neutrality("candidate", 3.0, 1.0, None),),
        over_time=(Point(SINCE, "candidate", "production", 3, None, None),),
        segments=(Segment("device", "phone", 3, (in_segment(pair),)),),
        notes=(),
        lifts=(Lift("candidate", "production", *(None,) * 6, None, f"{REASON} (lift)", "few_clicks"),),
        examination=(),
    )


def hostile() -> Report:
    """Six rankers, attributes, events and an experiment with the names that strangers give."""
    pairs = tuple(comparison(first, HOSTILE[0], 0.02 * number) for number, first in enumerate(HOSTILE[1:]))
    everything = " ".join(HOSTILE)
    return replace(
        healthy(),
        experiment=f"# {SCRIPT}\n| x |",
        events=everything,
        rankers=HOSTILE,
        control=HOSTILE[0],
        verdict=Verdict(f"People prefer {HOSTILE[3]} to {SCRIPT}.", HOSTILE[3], True, code="preferred"),
        totals=replace(healthy().totals, dropped={SCRIPT: 3, "a|b\nc": 4}, events=dict.fromkeys(HOSTILE, 1)),
        health=(Check(SCRIPT, FAILED, everything, "- not a list"), *CHECKS),
        comparisons=pairs,
        standing=Standing(
            HOSTILE[3], tuple(Strength(n, 1, 0.1, (0.0, 0.2)) for n in HOSTILE), (HOSTILE[:3],), {"x": SCRIPT}
        ),
        arms=(ReportArm(SCRIPT, 1, 1, 1, (Metric(SCRIPT, 1.0), Metric("a|b", None, reason=SCRIPT))),),
        slots=slots(HOSTILE, 3),
        neutrality=tuple(Neutrality(name, 1.0, 1.0, 0.5) for name in HOSTILE),
        over_time=tuple(point for pair in pairs for point in points(pair.first, pair.second, 0.02)),
        segments=tuple(Segment(SCRIPT, name, 9, (in_segment(pairs[0]),)) for name in HOSTILE),
        notes=(f"# {SCRIPT}", "1. one\n2. two", everything),
        lifts=tuple(Lift(pair.first, pair.second, *(None,) * 6, None, SCRIPT, "x") for pair in pairs),
    )


def very_many(rankers: int = 40, control: str | None = None) -> Report:
    """So many rankers that not every pair has a place on a page."""
    names = tuple(f"ranker-{number:02d}" for number in range(rankers))
    pairs = tuple(
        comparison(first, second, ((7 * i + 3) % 41 - 20) / 200)
        for i, (first, second) in enumerate(combinations(names, 2))
    )
    strengths = tuple(
        Strength(name, rankers - 2 * n, (rankers - 2 * n) / rankers, (0.0, 1.0)) for n, name in enumerate(names)
    )
    return replace(
        with_cycle(),
        rankers=names,
        control=control,
        comparisons=pairs,
        standing=Standing(names[0], strengths, ()),
        slots=slots(names, 10),
        neutrality=(),
        over_time=(),
        lifts=tuple(Lift(pair.first, pair.second, 0.1, (0.0, 0.2), 1.1, 1.0, 0.0, 0.0) for pair in pairs),
    )


EXAMPLES = {
    "healthy": healthy(),
    "undecided": undecided(),
    "broken": broken(),
    "counted_by_owners": counted_by_owners(),
    "with_cycle": with_cycle(),
    "nothing_computed": nothing_computed(),
    "hostile": hostile(),
    "very_many": very_many(),
}
