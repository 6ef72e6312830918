"""Absolute metrics of interleaved lists, holdout and A/B arms, and their clustered differences.

Rankers of which each unit sees one list are compared by an A/B test on clicks per search, clustered by unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.kernels.buckets import BUCKETS
from interleaf.log.schema import HOLDOUT, INTERLEAVED
from interleaf.methods.registry import ONE_LIST
from interleaf.metrics.absolute import METRICS
from interleaf.report.comparisons import ComparisonResult, RankerPairs
from interleaf.report.model import UNIT, Comparison, Metric, ReportArm
from interleaf.report.rule import HOLM, Decision, ReportSettings, decide
from interleaf.report.weights import ValueCap, buckets_of, cut, value_cap
from interleaf.stats.compare import ALIKE, Estimate, difference, estimate
from interleaf.tally import Tally, bucket_sums
from interleaf.tally.bucket_sums import CLICKED, ONE, QUERIES, ArmSums
from interleaf.tally.tally import MAX_ARMS
from interleaf.tally.units import ARMS, SUMS

NO_SESSIONS = "impressions were not grouped into sessions (sessions=1800 groups them)"
MEDIAN = "a median of a histogram, without an error"
DIFFERENT_PEOPLE = "each person sees the list of one ranker, so no list and no person can prefer one"
NOT_COMPUTED = (
    *("per_person_estimate", "per_person_interval", "per_search_estimate", "per_search_interval"),
    *("bootstrap_interval", "sign_flip_p_value", "delta", "wins", "losses", "ties", "sign_test_p_value"),
    *("unit_wins", "unit_losses", "unit_sign_test_p_value", "z_score", "z_score_per_query"),
)
ONE_LIST_MEANING = (
    "Each person sees the list of one ranker, drawn by chance (one_list). The verdict is an A/B test on {0}, "
    "with errors clustered by unit; it is not interleaving, and needs more people. An estimate is the "
    "difference in {0}. Wins and losses, segments, the history and checks of mixed lists are left out."
)


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
        queries, clicked = int(measures[bucket_sums.QUERIES]), int(measures[bucket_sums.CLICKED])
        arms.append(ReportArm(name, queries, clicked, units, tuple(metrics)))
    return tuple(arms)


def baseline(tally: Tally, settings: ReportSettings) -> str | None:
    """The arm that the others are compared with, if there is one."""
    own = [ranker for ranker in tally.about.rankers if ranker in tally.arms]
    if settings.control in own:
        return settings.control
    return own[0] if own else HOLDOUT if HOLDOUT in tally.arms else None


def _metrics(
    arm: bucket_sums.ArmSums, base: bucket_sums.ArmSums | None, confidence: float
) -> Iterator[tuple[Metric, Estimate | None]]:
    """Each metric, and its difference to the base if there is one."""
    for name in METRICS:
        if name in ("first_click", "last_click"):
            bins = arm.delays[int(name == "last_click")]
            middle = bucket_sums.quantile(bins, 0.5) if bins.any() else None
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


def ratio(arm: bucket_sums.ArmSums, name: str) -> tuple[Array, Array]:
    """The numerator and the denominator of a metric, by bucket."""
    measures = arm.measures.T.astype(np.float64)
    queries, clicked = measures[bucket_sums.QUERIES], measures[bucket_sums.CLICKED]
    sessions = arm.sessions.T.astype(np.float64)
    if name == "abandonment":
        return queries - clicked, queries
    if name == "reformulation":
        return sessions[bucket_sums.FOLLOWED], queries if sessions.any() else np.zeros_like(queries)
    if name == "session_queries":
        return queries, sessions[bucket_sums.SESSIONS]
    if name in ("clicks", "clicks_at_1"):
        return measures[bucket_sums.CLICKS if name == "clicks" else bucket_sums.AT_1], queries
    return measures[bucket_sums.MEASURES.index(name)] / ONE, clicked


def compare_lists(tally: Tally, settings: ReportSettings) -> ComparisonResult:
    """Compare all pairs by clicks per search, or by values per unit. Without a control, a pair's winner comes first."""
    if settings.cluster != UNIT:
        raise DataError(f"errors of lists of {ONE_LIST} are clustered by unit; leave out cluster={settings.cluster!r}")
    pairs = RankerPairs.of(tally.about.rankers, settings.control)
    units = tally.units.count(_in_arms(tally))
    rule = replace(settings, correction=HOLM)
    cap = value_cap(tally, settings.cap)
    estimates = _differences(tally, pairs, settings, cap)
    decisions = decide(estimates, units, rule)
    lost = np.array([one.interval is not None and one.interval[1] < 0 for one in decisions])
    if settings.control is None and lost.any():
        pairs = pairs.reverse(lost)
        estimates = _differences(tally, pairs, settings, cap)
        decisions = decide(estimates, units, rule)
    arms = [tally.arms[name].measures for name in tally.about.rankers if name in tally.arms]
    totals = {
        "impressions": sum(int(measures[:, QUERIES].sum()) for measures in arms),
        "clicked": sum(int(measures[:, CLICKED].sum()) for measures in arms),
        "units": units,
    }
    parts = enumerate(zip(estimates, decisions, strict=True))
    comparisons = tuple(_comparison(pairs.names(pair), totals, *figures) for pair, figures in parts)
    none = np.zeros((0, len(comparisons)))
    return ComparisonResult(pairs, comparisons, none, none, none, cap)


def _in_arms(tally: Tally) -> Array:
    """Which units saw the list of a ranker, and not that of the holdout or a fallback only."""
    marks = sum(1 << number for number, name in enumerate(tally.arms) if name in tally.about.rankers)
    return np.asarray(tally.units.rows[:, ARMS] & marks > 0)


def _differences(
    tally: Tally, pairs: RankerPairs, settings: ReportSettings, cap: ValueCap | None
) -> tuple[Estimate, ...]:
    """The difference in events per search, or in values per unit, of each pair."""
    sums = tally.scores.sums / ONE
    counts = [tally.arms.get(name, ArmSums.empty()).measures[:, QUERIES] for name in tally.about.rankers]
    if cap is not None:
        units, rows = tally.units.entries
        buckets, columns = buckets_of(units), np.rint(cut(rows[:, SUMS:], cap.cap)) / ONE
        sums = np.stack([np.bincount(buckets, column, BUCKETS) for column in columns.T], axis=1)
        places = {name: number for number, name in enumerate(tally.arms)}
        is_in_arm = [rows[:, ARMS] >> places.get(name, MAX_ARMS) & 1 for name in tally.about.rankers]
        counts = [np.bincount(buckets, one, BUCKETS) for one in is_in_arm]
    estimates = []
    for pair, (first, second) in enumerate(zip(pairs.first, pairs.second, strict=True)):
        both = sums[:, first], counts[first], sums[:, second], counts[second]
        estimates.append(difference(*both, settings.confidence, pairs.names(pair)))
    return tuple(estimates)


def _comparison(names: tuple[str, str], totals: dict[str, int], estimate: Estimate, decision: Decision) -> Comparison:
    values = {
        "estimate": estimate.value,
        "error": estimate.error,
        "effective_units": estimate.effective_units,
        "interval": decision.interval,
        "statements": decision.statements,
        "chance_decided": decision.chance,
        "p_value": decision.p_value,
        "adjusted_p_value": decision.adjusted_p_value,
    }
    reasons = {name: decision.reason or estimate.reason for name, value in values.items() if value is None}
    if decision.chance is None:
        reasons["chance_decided"] = decision.why_no_chance
    values["is_uniform"] = reasons.get("interval") == ALIKE
    figures: dict[str, Any] = {**totals, **values, "reasons": dict.fromkeys(NOT_COMPUTED, DIFFERENT_PEOPLE) | reasons}
    return Comparison(first=names[0], second=names[1], **figures)
