"""Compares rankers of which each unit sees one list: an A/B test on clicks per search, clustered by unit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.kernels.buckets import BUCKETS
from interleaf.methods.registry import ONE_LIST
from interleaf.report.comparisons import ComparisonResult, RankerPairs
from interleaf.report.model import UNIT, Comparison
from interleaf.report.rule import HOLM, Decision, ReportSettings, decide
from interleaf.report.weights import ValueCap, buckets_of, cut, value_cap
from interleaf.stats.compare import Estimate, difference
from interleaf.tally import Tally
from interleaf.tally.page_sums import CLICKED, QUERIES, ArmSums
from interleaf.tally.score_sums import ONE
from interleaf.tally.tally import MAX_ARMS
from interleaf.tally.units import ARMS, SUMS

DIFFERENT_PEOPLE = "each person sees the list of one ranker, so no list and no person can prefer one"
NOT_COMPUTED = (
    *("per_person_estimate", "per_person_interval", "per_search_estimate", "per_search_interval"),
    *("bootstrap_interval", "sign_flip_p_value", "delta", "wins", "losses", "ties", "sign_test_p_value"),
    *("unit_wins", "unit_losses", "unit_sign_test_p_value", "z_score", "z_score_per_query"),
)
MEANING = (
    "Each person sees the list of one ranker, drawn by chance (one_list). The verdict is an A/B test on {0}, "
    "with errors clustered by unit; it is not interleaving, and needs more people. An estimate is the "
    "difference in {0}. Wins and losses, segments, the history and checks of mixed lists are left out."
)


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
        units, rows = tally.units.unordered
        buckets, columns = buckets_of(units), np.rint(cut(rows[:, SUMS:], cap.cap)) / ONE
        sums = np.stack([np.bincount(buckets, column, BUCKETS) for column in columns.T], axis=1)
        places = {name: number for number, name in enumerate(tally.arms)}
        seen = [rows[:, ARMS] >> places.get(name, MAX_ARMS) & 1 for name in tally.about.rankers]
        counts = [np.bincount(buckets, one, BUCKETS) for one in seen]
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
    figures: dict[str, Any] = {**totals, **values, "reasons": dict.fromkeys(NOT_COMPUTED, DIFFERENT_PEOPLE) | reasons}
    return Comparison(first=names[0], second=names[1], **figures)
