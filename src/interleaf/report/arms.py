"""Absolute metrics of interleaved lists, holdout and A/B buckets, and their clustered differences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.log.schema import HOLDOUT, INTERLEAVED
from interleaf.metrics.absolute import METRICS
from interleaf.report.model import Metric, ReportArm
from interleaf.report.rule import HOLM, Decision, ReportSettings, decide
from interleaf.stats.compare import Estimate, difference, estimate
from interleaf.tally import Tally, page_sums
from interleaf.tally.score_sums import ONE
from interleaf.tally.units import ARMS

NO_SESSIONS = "impressions were not grouped into sessions; ask for it (sessions=1800)"
MEDIAN = "a median of a histogram, without an error"


def arms(tally: Tally, settings: ReportSettings) -> tuple[ReportArm, ...]:
    """Every arm with its metrics; differences are to the control's bucket, or else to the holdout."""
    base = baseline(tally, settings)
    seen = tally.units.rows[:, ARMS]
    ordered = sorted(enumerate(tally.arms.items()), key=lambda arm: (arm[1][0] != INTERLEAVED, arm[1][0]))
    measured = [
        list(_metrics(arm, tally.arms[base] if base and base != name else None, settings.confidence))
        for _, (name, arm) in ordered
    ]
    differences = [found for metrics in measured for _, found in metrics if found is not None]
    # All differences are corrected together, apart from the comparisons of rankers.
    decisions = iter(decide(differences, tally.units.count(), replace(settings, correction=HOLM)))
    return tuple(
        ReportArm(
            name,
            int(arm.measures[:, page_sums.QUERIES].sum()),
            int(arm.measures[:, page_sums.CLICKED].sum()),
            tally.units.count((seen >> place & 1) == 1),
            tuple(metric if found is None else _decided(metric, next(decisions)) for metric, found in metrics),
        )
        for (place, (name, arm)), metrics in zip(ordered, measured, strict=True)
    )


def _decided(metric: Metric, decision: Decision) -> Metric:
    """The metric with the interval and the adjusted p-value of its difference."""
    reason = metric.reason or decision.reason
    return replace(metric, interval=decision.interval, p_value=decision.adjusted_p_value, reason=reason)


def baseline(tally: Tally, settings: ReportSettings) -> str | None:
    """The arm that the others are compared with, if there is one."""
    buckets = [ranker for ranker in tally.about.rankers if ranker in tally.arms]
    if settings.control in buckets:
        return settings.control
    return buckets[0] if buckets else HOLDOUT if HOLDOUT in tally.arms else None


def _metrics(
    arm: page_sums.ArmSums, base: page_sums.ArmSums | None, confidence: float
) -> Iterator[tuple[Metric, Estimate | None]]:
    """Each metric, and its difference to the base if there is one."""
    for name in METRICS:
        if name in ("first_click", "last_click"):
            bins = arm.delays[0 if name == "first_click" else 1]
            value, reason = (
                (page_sums.quantile(bins, 0.5), MEDIAN) if bins.any() else (None, f"no {METRICS[name].over}")
            )
            yield Metric(name, value, reason=reason), None
            continue
        sums, counts = ratio(arm, name)
        if not counts.any():
            of_sessions = name in ("reformulation", "session_queries") and not arm.sessions.any()
            yield Metric(name, None, reason=NO_SESSIONS if of_sessions else f"no {METRICS[name].over}"), None
        elif base is None:
            yield Metric(name, estimate(sums, counts, confidence).value), None
        else:
            found = difference(sums, counts, *ratio(base, name), confidence)
            yield Metric(name, float(sums.sum() / counts.sum()), found.value, reason=found.reason), found


def ratio(arm: page_sums.ArmSums, name: str) -> tuple[Array, Array]:
    """The numerator and the denominator of a metric, by bucket."""
    measures = arm.measures.T.astype(np.float64)
    queries, clicked = measures[page_sums.QUERIES], measures[page_sums.CLICKED]
    sessions = arm.sessions.T.astype(np.float64)
    if name == "abandonment":
        return queries - clicked, queries
    if name == "reformulation":
        return sessions[page_sums.FOLLOWED], queries if sessions.any() else np.zeros_like(queries)
    if name == "session_queries":
        return queries, sessions[page_sums.SESSIONS]
    if name in ("clicks", "clicks_at_1"):
        return measures[page_sums.CLICKS if name == "clicks" else page_sums.AT_1], queries
    return measures[page_sums.MEASURES.index(name)] / ONE, clicked


def interleaved_against_holdout(tally: Tally, name: str, confidence: float) -> Metric | None:
    """A metric of the interleaved arm, with its difference to the holdout: the effect of interleaving itself."""
    if INTERLEAVED not in tally.arms or HOLDOUT not in tally.arms:
        return None
    names = INTERLEAVED, HOLDOUT
    first, second = (ratio(tally.arms[arm], name) for arm in names)
    found = difference(*first, *second, confidence, names)
    return Metric(name, None, found.value, found.interval, found.p_value, found.reason)
