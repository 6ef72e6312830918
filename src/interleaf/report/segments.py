"""Comparisons by segment (value of an attribute), and tests whether segments differ.

A segment's estimate is shrunk towards the mean of its attribute's segments; the less these differ beyond chance, the
more (DerSimonian and Laird 1986). Whether a segment differs from the others is tested by the rule of the report, with a
correction for all segments. The limit on weights follows from the segment's own number of units: with the limit of the
whole log, intervals of small segments were wrong too often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from statistics import NormalDist

from interleaf.report.comparisons import ComparisonResult, max_score, segment_comparison
from interleaf.report.model import Segment
from interleaf.report.rule import HOLM, ReportSettings, decide
from interleaf.report.weights import max_weight, weigh
from interleaf.stats import compare
from interleaf.stats.compare import Estimate
from interleaf.tally import Tally

POWER = 0.8  # power for the smallest effect of a segment


def segments(tally: Tally, settings: ReportSettings, result: ComparisonResult) -> tuple[Segment, ...]:
    """Each value of each attribute with its own comparisons; p-values are adjusted for all of them."""
    keys = sorted(tally.segments)
    found = []
    for key in keys:
        own, clicked, columns = tally.segments.units_of(key)
        limit = max_weight(len(own) << tally.segments.cells.level)
        sums, weights = weigh(own, clicked, columns, limit)
        voices = result.pairs.weighted_scores(sums, weights, tally.about.linear)
        found.append(compare.estimates(voices, weights, settings.confidence))
    # The anytime interval depends on the number of all units; the units of a segment grow with them.
    units = max((one.units or 0 for one in result.comparisons), default=0)
    rule = replace(settings, correction=HOLM)
    decisions = iter(decide([one for row in found for one in row], units, rule, max_score(tally.about)))
    pooled = []  # by segment and pair
    for _, rows in groupby(zip(keys, found, strict=True), key=lambda row: row[0][0]):
        pairs = [_pooled(column) for column in zip(*(row for _, row in rows), strict=True)]
        pooled += [part for parts in zip(*pairs, strict=True) for part in parts]
    differing = iter(decide([difference for difference, _ in pooled], units, rule))
    shrunk = iter([shrunken for _, shrunken in pooled])
    made = []
    for key, estimates in zip(keys, found, strict=True):
        shown, number = tally.segments.impressions[key], tally.segments.clicked[key]
        comparisons = []
        for pair, estimate in enumerate(estimates):
            one = segment_comparison(result.pairs.names(pair), estimate, next(decisions), shown, number)
            differs = next(differing).adjusted_p_value
            smallest = _smallest_effect(one.interval, one.error)
            comparisons.append(
                replace(one, shrunken_estimate=next(shrunk), smallest_effect=smallest, differs_p_value=differs)
            )
        made.append(Segment(*key, shown, tuple(comparisons)))
    return tuple(made)


def _pooled(estimates: Sequence[Estimate]) -> list[tuple[Estimate, float | None]]:
    """For one pair, each segment's difference to the other segments of the attribute, and its shrunken estimate."""
    precisions = [1 / one.error**2 if one.error and one.value is not None else 0.0 for one in estimates]
    values = [one.value or 0.0 for one in estimates]
    total = sum(precisions)
    mean = sum(precision * value for precision, value in zip(precisions, values, strict=True)) / (total or 1.0)
    excess = sum(precision * (value - mean) ** 2 for precision, value in zip(precisions, values, strict=True))
    excess -= sum(precision > 0 for precision in precisions) - 1
    scale = total - sum(precision**2 for precision in precisions) / (total or 1.0)
    spread = max(0.0, excess / scale) if scale > 0 else 0.0
    return [
        (
            _against_others(one, precision, value, mean, total, estimates),
            (value * spread + mean / precision) / (spread + 1 / precision) if precision else None,
        )
        for one, precision, value in zip(estimates, precisions, values, strict=True)
    ]


def _against_others(
    one: Estimate, precision: float, value: float, mean: float, total: float, estimates: Sequence[Estimate]
) -> Estimate:
    """The difference of a segment to the mean of the others."""
    rest = total - precision
    if not precision or rest <= 1e-12 * total:
        return Estimate(None, None, None, None, None, 0, "there is no other segment to compare with")
    others = (mean * total - precision * value) / rest
    error = math.sqrt(1 / precision + 1 / rest)
    units = [other.effective_units or 0.0 for other in estimates if other is not one]
    effective = min(one.effective_units or 0.0, sum(units))
    if effective <= 1:
        return Estimate(value - others, None, None, None, effective, 0, "fewer than two effective units")
    from scipy.special import stdtr

    p_value = 2 * float(stdtr(effective - 1, -abs(value - others) / error))
    return Estimate(value - others, error, None, p_value, effective, 0)


def _smallest_effect(interval: tuple[float, float] | None, error: float | None) -> float | None:
    """The smallest effect that a segment of this size detects with a power of 80 %."""
    if interval is None or error is None:
        return None
    return (interval[1] - interval[0]) / 2 + NormalDist().inv_cdf(POWER) * error
