"""Computes comparisons from a tally: every pair with its estimate, intervals and p-values, or reasons.

Also by segment, with a test whether segments differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, groupby
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array, pairs
from interleaf.methods.schemes import LEARNED
from interleaf.report.model import (
    UNIT,
    UNIT_AND_QUERY,
    Comparison,
    Figure,
    Point,
    Segment,
    SegmentComparison,
    VerdictCode,
)
from interleaf.report.outcomes import list_sides, unit_sides
from interleaf.report.rule import (
    HOLM,
    ONE_LOOK,
    ONE_LOOK_ONLY,
    Decision,
    ReportSettings,
    clip_to_possible,
    decide,
    interval_of,
)
from interleaf.report.weights import (
    PER_PERSON,
    QueryCells,
    ValueCap,
    max_weight,
    units_with_event,
    value_cap,
    weigh,
    weighted_sums,
    why_no_cells,
    with_queries,
)
from interleaf.stats import bootstrap, compare, multiplicity, sequence, signs
from interleaf.stats.compare import ALIKE, Estimate, Interval
from interleaf.stats.ranking import pair_sums
from interleaf.tally import About, Tally
from interleaf.tally.bucket_sums import ONE
from interleaf.tally.units import CLICKED, SINCE

PREFERENCES = (VerdictCode.PREFERRED, VerdictCode.WORSE)
BY_VALUE = "values are added up and cut by unit"
NOT_BY_QUERY = "it is not computed if errors are clustered by query"
MAX_PAIRS = 12  # pairs that have a history
POWER = 0.8  # power for the smallest effect of a segment


@dataclass(frozen=True, eq=False)
class RankerPairs:
    """All pairs as the report names them: `first[pair]` over `second[pair]`; `turn` is -1 if its sums flip sign."""

    rankers: tuple[str, ...]
    first: Array
    second: Array
    turn: Array
    order: Array

    @classmethod
    def of(cls, rankers: tuple[str, ...], control: str | None) -> RankerPairs:
        """Each ranker over the later ones, but candidates over the control; pairs with the control come first."""
        first, second = pairs(len(rankers))
        place = rankers.index(control) if control is not None else -1
        turn = np.where(first == place, -1, 1)
        one, other = np.where(turn < 0, second, first), np.where(turn < 0, first, second)
        order = np.argsort(other != place, kind="stable") if control is not None else np.arange(len(first))
        return cls(rankers, one[order], other[order], turn[order], order)

    def reverse(self, lost: Array) -> RankerPairs:
        """The same with these pairs reversed."""
        first, second = np.where(lost, self.second, self.first), np.where(lost, self.first, self.second)
        return replace(self, first=first, second=second, turn=np.where(lost, -self.turn, self.turn))

    def scores(self, sums: Array, linear: bool) -> Array:
        """Sums `[row, pair]` as numbers, from a tally's columns."""
        numbers = sums / ONE
        by_pair = pair_sums(numbers) if linear else numbers
        return by_pair[:, self.order] * self.turn

    def weighted_scores(self, sums: Array, weights: Array, linear: bool) -> Array:
        """Weighted sums of pairs `[bucket, pair]` as numbers; rounding errors become 0."""
        scores = self.scores(sums, linear)
        scores[np.abs(scores) * ONE <= 2 * weights[:, None]] = 0.0
        return scores

    def names(self, pair: int) -> tuple[str, str]:
        """The first and the second ranker."""
        return self.rankers[self.first[pair]], self.rankers[self.second[pair]]


@dataclass(frozen=True, eq=False)
class ComparisonResult:
    """All pairs of a tally, and the sums that they were computed from."""

    pairs: RankerPairs
    comparisons: tuple[Comparison, ...]
    sums: Array
    weights: Array
    means: Array
    cap: ValueCap | None = None


def compare_pairs(tally: Tally, settings: ReportSettings) -> ComparisonResult:
    """Compare all pairs. Without a control, the winner of a pair comes first."""
    pairs = RankerPairs.of(tally.about.rankers, settings.control)
    cap = value_cap(tally, settings.cap)
    voices, weights = weighted_sums(tally, cap=cap and cap.cap)
    units = units_with_event(tally)
    decided = _decide_pairs(tally, pairs, voices, weights, units, settings)
    lost = np.array([one.interval is not None and one.interval[1] < 0 for one in decided.decisions])
    if settings.control is None and lost.any():
        pairs = pairs.reverse(lost)
        decided = _decide_pairs(tally, pairs, voices, weights, units, settings)
    clicked = int(tally.scores.clicked.sum())
    totals = {"impressions": int(tally.scores.impressions.sum()), "clicked": clicked, "units": units}
    parts = zip(
        map(_by_the_rule, decided.estimates, decided.decisions),
        _one_look(decided, settings),
        list_sides(tally, pairs, settings),
        unit_sides(tally, pairs, settings),
        _z_scores(tally, pairs),
        _other_voices(tally, pairs, decided.estimates, settings, units),
        strict=True,
    )
    comparisons = [_comparison(pairs.names(pair), totals, chain(*figures)) for pair, figures in enumerate(parts)]
    return ComparisonResult(pairs, tuple(comparisons), voices, weights, decided.means, cap)


class _Decided(NamedTuple):
    """Pairs with their sums by bucket, estimates and decisions."""

    sums: Array
    estimates: tuple[Estimate, ...]
    means: Array
    decisions: tuple[Decision, ...]


def _decide_pairs(
    tally: Tally, pairs: RankerPairs, voices: Array, weights: Array, units: int, settings: ReportSettings
) -> _Decided:
    sums = pairs.weighted_scores(voices, weights, tally.about.linear)
    estimates = compare.estimates(sums, weights, settings.confidence)
    if settings.cluster == UNIT_AND_QUERY:
        if reason := why_no_cells(tally):
            raise DataError(f"errors cannot be clustered by query: {reason}; leave out cluster={UNIT_AND_QUERY!r}")
        cells = QueryCells.of(tally)
        scores = pairs.scores(cells.sums, tally.about.linear)
        estimates = with_queries(estimates, cells, scores, settings.confidence)
    means = np.zeros((0, sums.shape[1]))
    # Only tests for one look and the strengths of many rankers need resamples.
    if settings.cluster == UNIT and (settings.look == ONE_LOOK or len(pairs.rankers) > 2):
        means = bootstrap.resample(sums, weights, seed=settings.seed)
    return _Decided(sums, estimates, means, decide(estimates, units, settings, max_score(tally.about), means))


def max_score(about: About) -> float:
    """The largest score of an impression if the scheme has a limit, such as 1 for signs; else infinite."""
    return math.inf if about.linear or about.scheme.startswith(LEARNED) else 1.0


def _comparison(names: tuple[str, str], totals: dict[str, int], figures: Iterable[Figure]) -> Comparison:
    values, reasons = dict[str, Any](totals), {}
    for name, value, reason in figures:
        values[name] = value
        if value is None:
            reasons[name] = reason
    if values.get("people_and_visits_disagree"):
        values["statements"] = tuple(code for code in values["statements"] if code not in PREFERENCES)
    return Comparison(*names, is_uniform=reasons.get("interval") == ALIKE, reasons=reasons, **values)


def segment_comparison(
    names: tuple[str, str], estimate: Estimate, decision: Decision, impressions: int, clicked: int
) -> SegmentComparison:
    """A comparison of a part of the log."""
    uncounted = [(name, None, "not counted by segment") for name in ("units", "wins", "losses", "ties")]
    totals = {"impressions": impressions, "clicked": clicked}
    return SegmentComparison(**vars(_comparison(names, totals, [*_by_the_rule(estimate, decision), *uncounted])))


def _by_the_rule(estimate: Estimate, decision: Decision) -> list[Figure]:
    of_rule = [(name, getattr(decision, name), decision.reason) for name in ("interval", "p_value", "adjusted_p_value")]
    chance = ("chance_decided", decision.chance, decision.why_no_chance)
    return [
        ("error", estimate.error, estimate.reason),
        ("effective_units", estimate.effective_units, estimate.reason),
        ("estimate", estimate.value, estimate.reason),
        ("statements", decision.statements, ""),
        chance,
        *of_rule,
    ]


def _one_look(decided: _Decided, settings: ReportSettings) -> Iterator[list[Figure]]:
    """Tests that are valid for one look only."""
    if settings.look != ONE_LOOK or settings.cluster != UNIT:
        reason = ONE_LOOK_ONLY if settings.cluster == UNIT else NOT_BY_QUERY
        unknown = [(name, None, reason) for name in ("bootstrap_interval", "sign_flip_p_value")]
        yield from [unknown] * len(decided.estimates)
        return
    means = decided.means
    resampled = bootstrap.intervals(means, settings.confidence) if len(means) else [None] * len(decided.estimates)
    flips = signs.sign_flips(decided.sums, seed=settings.seed)
    for estimate, interval, flip in zip(decided.estimates, resampled, flips, strict=True):
        yield [
            ("bootstrap_interval", None if estimate.reason else interval, estimate.reason),
            ("sign_flip_p_value", flip.value, flip.reason),
        ]


def _other_voices(
    tally: Tally, pairs: RankerPairs, estimates: Sequence[Estimate], settings: ReportSettings, units: int
) -> Iterator[list[Figure]]:
    """Estimates per person and per search, and whether these two disagree."""
    if tally.about.values:
        names = "per_person_estimate", "per_person_interval", "per_search_estimate", "per_search_interval"
        yield from [[(name, None, BY_VALUE) for name in names]] * len(estimates)
        return
    voices, weights = weighted_sums(tally, PER_PERSON)
    sums = pairs.weighted_scores(voices, weights, tally.about.linear)
    per_person = compare.estimates(sums, weights, settings.confidence)
    sums = pairs.scores(tally.scores.sums, tally.about.linear)
    per_search = compare.estimates(sums, tally.scores.clicked, settings.confidence)
    for person, search, bounded in zip(per_person, per_search, estimates, strict=True):
        figures: list[Figure] = []
        for name, voice in (("per_person", person), ("per_search", search)):
            interval, reason = interval_of(voice, max(units, 1), settings, settings.alpha)
            figures.append((f"{name}_estimate", voice.value, voice.reason))
            if settings.cluster != UNIT:
                interval, reason = None, NOT_BY_QUERY
            figures.append((f"{name}_interval", clip_to_possible(interval, max_score(tally.about)), reason))
        sure = [
            (one.value or 0.0) * (one.p_value is not None and one.p_value <= 1 - settings.confidence)
            for one in (person, search, bounded)
        ]
        yield [*figures, ("people_and_visits_disagree", min(sure[0] * sure[1], sure[0] * sure[2]) < 0, "")]


def _z_scores(tally: Tally, pairs: RankerPairs) -> Iterator[list[Figure]]:
    if tally.about.values:
        yield from [[(name, None, BY_VALUE) for name in ("z_score", "z_score_per_query")]] * len(pairs.first)
        return
    clicked, sums = int(tally.scores.clicked.sum()), pairs.scores(tally.scores.sums, tally.about.linear)
    squares = tally.scores.squares[pairs.order] / ONE
    for total, square in zip(sums.sum(axis=0).tolist(), squares.tolist(), strict=True):
        z = signs.z_score(total, square, clicked)
        yield [("z_score", z.value, z.reason), ("z_score_per_query", z.per_query, z.reason)]


def over_time(tally: Tally, settings: ReportSettings, result: ComparisonResult) -> tuple[Point, ...]:
    """The comparison of each pair at the end of every slice of time; the last point is the comparison itself.

    With planned looks, only the last point has an interval, because there was no look before it.
    """
    slices, ends = tally.slices, tally.slices.ends
    if not len(ends) or tally.until is None:
        return ()
    shown = np.cumsum(slices.clicked).tolist()
    sums, weights = _history(tally, result)
    since = tally.units.rows[tally.units.rows[:, CLICKED] > 0, SINCE]
    units = np.maximum(slices.before_ends(since) << tally.units.level, 1)
    levels = multiplicity.holm_levels([one.p_value for one in result.comparisons], settings.alpha)
    points = []
    for pair in range(sums.shape[2]):
        first, second = result.pairs.names(pair)
        estimates = compare.estimates(sums[:, :, pair].T, weights.T, settings.confidence)
        intervals: list[Interval | None] = [None] * len(ends)
        if settings.look is None:
            anytimes = sequence.anytimes(estimates, units, settings.planned_units, 1 - levels[pair])
            intervals = [clip_to_possible(one.interval, max_score(tally.about)) for one in anytimes]
        for place in range(len(ends) - 1):
            figures = (shown[place], estimates[place].value, intervals[place])
            points.append(Point(time_of(int(ends[place])), first, second, *figures))
        last = result.comparisons[pair]
        points.append(Point(time_of(tally.until), first, second, last.clicked, last.estimate, last.interval))
    return tuple(points)


def _history(tally: Tally, result: ComparisonResult) -> tuple[Array, Array]:
    """Sums `[slice, bucket, pair]` of the first pairs and weights `[slice, bucket]`, as of the end of each slice."""
    sums, weights, cap = [], [], result.cap and result.cap.cap
    for units, clicked, columns in tally.slices.totals():
        present = int((clicked > 0).sum()) << tally.slices.cells.level
        voices, weight = weigh(units, clicked, columns, max_weight(present), cap)
        sums.append(result.pairs.weighted_scores(voices, weight, tally.about.linear)[:, :MAX_PAIRS])
        weights.append(weight)
    return np.array(sums), np.array(weights)


def time_of(microseconds: int) -> datetime:
    """A time of the log."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


def segments(tally: Tally, settings: ReportSettings, result: ComparisonResult) -> tuple[Segment, ...]:
    """Each value of each attribute with its own comparisons; p-values are adjusted for all of them."""
    estimates = {}  # of all pairs, by segment
    for key in sorted(tally.segments):
        own, clicked, columns = tally.segments.units_of(key)
        limit, cap = max_weight(len(own) << tally.segments.cells.level), result.cap and result.cap.cap
        sums, weights = weigh(own, clicked, columns, limit, cap)
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
            one = replace(one, shrunken_estimate=shrunken, smallest_effect=smallest, differs_p_value=differs)
            comparisons.append(one)
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
