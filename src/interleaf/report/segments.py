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
from itertools import chain, groupby
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
    estimates = {}  # of all pairs, by segment
    for key in sorted(tally.segments):
        own, clicked, columns = tally.segments.units_of(key)
        limit = max_weight(len(own) << tally.segments.cells.level)
        sums, weights = weigh(own, clicked, columns, limit)
        voices = result.pairs.weighted_scores(sums, weights, tally.about.linear)
        estimates[key] = compare.estimates(voices, weights, settings.confidence)
    # The anytime interval depends on the number of all units; the units of a segment grow with them.
    units = max((one.units or 0 for one in result.comparisons), default=0)
    rule = replace(settings, correction=HOLM)
    decisions = iter(decide(list(chain(*estimates.values())), units, rule, max_score(tally.about)))
    pooled: list[tuple[Estimate, float | None]] = []  # by segment and pair
    for _, keys in groupby(estimates, key=lambda key: key[0]):
        pairs = [_pool(column) for column in zip(*(estimates[key] for key in keys), strict=True)]
        pooled += chain(*zip(*pairs, strict=True))
    differing = decide([difference for difference, _ in pooled], units, rule)
    shrunk = iter([(shrunken, one.adjusted_p_value) for (_, shrunken), one in zip(pooled, differing, strict=True)])
    segments = []
    for key, row in estimates.items():
        shown, number = tally.segments.impressions[key], tally.segments.clicked[key]
        comparisons = []
        for pair, estimate in enumerate(row):
            shrunken, differs = next(shrunk)
            one = segment_comparison(result.pairs.names(pair), estimate, next(decisions), shown, number)
            smallest = None  # the smallest effect that a segment of this size detects
            if one.interval is not None and one.error is not None:
                smallest = (one.interval[1] - one.interval[0]) / 2 + NormalDist().inv_cdf(POWER) * one.error
            comparisons.append(
                replace(one, shrunken_estimate=shrunken, smallest_effect=smallest, differs_p_value=differs)
            )
        segments.append(Segment(*key, shown, tuple(comparisons)))
    return tuple(segments)


def _pool(estimates: Sequence[Estimate]) -> list[tuple[Estimate, float | None]]:
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
    from scipy.special import stdtr

    rest = total - precision
    if not precision or rest <= 1e-12 * total:
        return Estimate(None, None, None, None, None, 0, "there is no other segment to compare with")
    others = (mean * total - precision * value) / rest
    error = math.sqrt(1 / precision + 1 / rest)
    units = [other.effective_units or 0.0 for other in estimates if other is not one]
    effective = min(one.effective_units or 0.0, sum(units))
    if effective <= 1:
        return Estimate(value - others, None, None, None, effective, 0, "fewer than two effective units")
    p_value = 2 * float(stdtr(effective - 1, -abs(value - others) / error))
    return Estimate(value - others, error, None, p_value, effective, 0)
