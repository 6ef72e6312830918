"""Absolute metrics of interleaved lists, holdout and A/B arms, and their clustered differences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.log.schema import HOLDOUT, INTERLEAVED
from interleaf.metrics.absolute import METRICS
from interleaf.report.model import Metric, ReportArm
from interleaf.report.rule import HOLM, ReportSettings, decide
from interleaf.stats.compare import Estimate, difference, estimate
from interleaf.tally import Tally, page_sums
from interleaf.tally.score_sums import ONE
from interleaf.tally.units import ARMS

NO_SESSIONS = "impressions were not grouped into sessions (sessions=1800 groups them)"
MEDIAN = "a median of a histogram, without an error"


def arms(tally: Tally, settings: ReportSettings) -> tuple[ReportArm, ...]:
    """Every arm with its metrics; differences are to the control's own arm, or else to the holdout."""
    base = baseline(tally, settings)
    marks, numbers = tally.units.rows[:, ARMS], list(tally.arms)
    measured = {
        name: list(_metrics(tally.arms[name], tally.arms[base] if base and base != name else None, settings.confidence))
        for name in sorted(tally.arms, key=lambda name: (name != INTERLEAVED, name))
    }
    differences = [one for metrics in measured.values() for _, one in metrics if one is not None]
    # All differences are corrected together, apart from the comparisons of rankers.
    decisions = iter(decide(differences, tally.units.count(), replace(settings, correction=HOLM, secondary=0)))
    arms = []
    for name, pairs in measured.items():
        metrics = []
        for metric, gap in pairs:
            if gap is not None:
                decided = next(decisions)
                reason = metric.reason or decided.reason
                metric = replace(metric, interval=decided.interval, p_value=decided.adjusted_p_value, reason=reason)
            metrics.append(metric)
        measures, units = tally.arms[name].measures.sum(axis=0), tally.units.count(marks >> numbers.index(name) & 1)
        queries, clicked = int(measures[page_sums.QUERIES]), int(measures[page_sums.CLICKED])
        arms.append(ReportArm(name, queries, clicked, units, tuple(metrics)))
    return tuple(arms)


def baseline(tally: Tally, settings: ReportSettings) -> str | None:
    """The arm that the others are compared with, if there is one."""
    own = [ranker for ranker in tally.about.rankers if ranker in tally.arms]
    if settings.control in own:
        return settings.control
    return own[0] if own else HOLDOUT if HOLDOUT in tally.arms else None


def _metrics(
    arm: page_sums.ArmSums, base: page_sums.ArmSums | None, confidence: float
) -> Iterator[tuple[Metric, Estimate | None]]:
    """Each metric, and its difference to the base if there is one."""
    for name in METRICS:
        if name in ("first_click", "last_click"):
            bins = arm.delays[int(name == "last_click")]
            middle = page_sums.quantile(bins, 0.5) if bins.any() else None
            yield Metric(name, middle, reason=f"no {METRICS[name].over}" if middle is None else MEDIAN), None
            continue
        sums, counts = ratio(arm, name)
        if not counts.any():
            of_sessions = name in ("reformulation", "session_queries") and not arm.sessions.any()
            yield Metric(name, None, reason=NO_SESSIONS if of_sessions else f"no {METRICS[name].over}"), None
        elif base is None:
            yield Metric(name, estimate(sums, counts, confidence).value), None
        else:
            gap = difference(sums, counts, *ratio(base, name), confidence)
            yield Metric(name, float(sums.sum() / counts.sum()), gap.value, reason=gap.reason), gap


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
