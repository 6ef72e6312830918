"""Health checks that no period of time, no bots and no single query cause the effect; and the A/A test."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.report import codes
from interleaf.report.codes import CheckCode, CheckInput, CheckResult, health_check
from interleaf.report.comparisons import ComparisonResult, RankerPairs, time_of
from interleaf.report.format import format_signed, moment, span
from interleaf.report.model import FAILED, OK, SKIPPED, WARNING
from interleaf.report.rule import interval_of
from interleaf.report.weights import QueryCells, why_no_cells
from interleaf.stats.compare import Estimate, difference, estimate
from interleaf.stats.multiplicity import holm, holm_levels
from interleaf.tables import percent
from interleaf.tally import Fact, Tally
from interleaf.tally.bucket_sums import ONE
from interleaf.tally.evidence import VISIT_CLICKS, VISIT_EVENTS
from interleaf.tally.units import CLICKED as VISITS, SUMS, pack, unpack

MIN_UNITS = 100  # units that came once, and units that came back
WARN_RATIO, FAIL_RATIO = 1.5, 3.0  # how much more units that came once click than others
SPLITS = (0.25, 0.5, 0.75)  # shares of all clicked impressions at which the log is split into early and late
MAX_PAIRS = 12  # pairs that are tested without a query
MAX_CLICKED = 0.99  # share of lists with a click: odds beyond it are too large to be meaningful


@health_check(CheckCode.UNITS_ONCE, "Units that came once")
def units_once(data: CheckInput) -> CheckResult:
    """Do units that came on a single day click far more than others, or for another ranker? If so, look for bots that
    take a new id for each visit. Real users who find something come back. Heavy users may also have another taste, so
    a different preference alone is a warning.
    """
    tally = data.tally
    units, days, (with_event, events, clicks) = _by_unit(tally)
    once, back = days == 1, days > 1
    if 2 * tally.facts.get(Fact.OWN_UNIT, 0) > tally.impressions:
        return CheckResult(SKIPPED, "most impressions have no unit")
    if min(once.sum(), back.sum()) < MIN_UNITS:
        figure = f"{once.sum():,} units came on one day and {back.sum():,} on several"
        return CheckResult(SKIPPED, f"{figure}: the check needs {MIN_UNITS} of each")
    clicked = events > 0
    # Count days, not impressions, because a user who finds nothing asks again on the same day.
    share, share_back, share_p = _compare_means(with_event[once], with_event[back] / days[back])
    per_list = [clicks[some & clicked] / events[some & clicked] for some in (once, back)]
    many, many_back, many_p = _compare_means(*per_list)
    ratios = [(share_p, _odds(share) / max(_odds(share_back), 1e-9)), (many_p, many / max(many_back, 1e-9))]
    odd = [ratio for p_value, ratio in ratios if p_value < codes.FAIL_BELOW and ratio > WARN_RATIO]
    p_value = _effect_p_value(tally, units, days)
    differs = p_value is not None and p_value < codes.FAIL_BELOW
    fails = len(odd) + differs > 1 or max(odd, default=0.0) > FAIL_RATIO
    effect = "" if p_value is None else f"; the two groups differ in which ranker they prefer with p = {p_value:.2g}"
    return CheckResult(
        FAILED if fails else WARNING if odd or differs else OK,
        f"{once.sum():,} units came on one day: {percent(share, 1)} of them clicked, {many:.2f} documents per list; "
        f"{back.sum():,} came again: they clicked on {percent(share_back, 1)} of days, "
        f"{many_back:.2f} per list{effect}",
        "look for bots that take a new id for each visit, and exclude them (exclude)",
    )


def _compare_means(once: Array, back: Array) -> tuple[float, float, float]:
    """The mean of units that came once, that of units that came back, and the p-value that the first is larger."""
    from scipy.special import ndtr

    if not len(once) or not len(back):
        return 0.0, 0.0, 1.0
    error = math.sqrt(float(once.var() / len(once) + back.var() / len(back)))
    first, second = float(once.mean()), float(back.mean())
    return first, second, float(ndtr(-float(once.mean() - back.mean()) / error)) if error else 1.0


def _by_unit(tally: Tally) -> tuple[Array, Array, Array]:
    """The sampled units, the number of days of each, and their days, impressions and clicks with an event."""
    keys, values = tally.evidence.visits.entries
    units, places = np.unique(unpack(keys)[0], return_inverse=True)
    events, clicks = (values[:, SUMS + of] / ONE for of in (VISIT_EVENTS, VISIT_CLICKS))
    sums = np.stack([np.bincount(places, of, len(units)) for of in (events > 0, events, clicks)])
    return units, np.bincount(places, minlength=len(units)), sums


def _odds(share: float) -> float:
    return min(share, MAX_CLICKED) / (1 - min(share, MAX_CLICKED))


def _effect_p_value(tally: Tally, units: Array, days: Array) -> float | None:
    """The p-value that units that came once and units that came back prefer the same ranker."""
    if not tally.about.method or tally.about.sessions is not None:
        return None
    hashes, values = tally.units.entries
    all_units = unpack(pack(hashes, np.zeros(len(hashes), np.int64)))[0]
    places = np.minimum(np.searchsorted(units, all_units), len(units) - 1)
    used = (units[places] == all_units) & (values[:, VISITS] > 0)
    rows, once = values[used], days[places[used]] == 1
    counts = rows[:, VISITS].astype(np.float64)
    means = RankerPairs.of(tally.about.rankers, None).scores(rows[:, SUMS:], tally.about.linear) / counts[:, None]
    if min(once.sum(), (~once).sum()) < MIN_UNITS:
        return None
    p_values = [
        difference(pair * once, once.astype(np.float64), pair * ~once, (~once).astype(np.float64)).p_value
        for pair in means.T
    ]
    worst = codes.smallest(holm(p_values))
    return None if worst is None else worst[0]


@health_check(CheckCode.EFFECT_OVER_TIME, "Same effect over time", interleaved=True)
def effect_over_time(data: CheckInput) -> CheckResult:
    """Do early and late lists prefer the same ranker? If not, look for a release, or for ranker names that changed
    midway, and analyse each part by itself.
    """
    tally, slices = data.tally, data.tally.slices
    pairs, total = RankerPairs.of(tally.about.rankers, None), slices.clicked.sum()
    if len(slices.clicked) < 2 or not total:
        return CheckResult(SKIPPED, "the log is too short to compare its parts")
    ends = np.unique(np.searchsorted(np.cumsum(slices.clicked) / total, SPLITS) + 1)
    keys, values = slices.cells.entries
    units, slice_of = unpack(keys)
    unit_of = np.unique(units, return_inverse=True)[1]
    scores = pairs.scores(values[:, SUMS:], tally.about.linear)
    cells = [(end, pair) for end in ends[ends < len(slices.clicked)].tolist() for pair in range(scores.shape[1])]
    parts = [_sums(unit_of, scores[:, pair], values[:, VISITS], slice_of < end) for end, pair in cells]
    later = [_sums(unit_of, scores[:, pair], values[:, VISITS], slice_of >= end) for end, pair in cells]
    gaps = [difference(*early, *late) for early, late in zip(parts, later, strict=True)]
    adjusted = holm([gap.p_value for gap in gaps])
    is_turned = [
        p is not None and p < codes.FAIL_BELOW and _turns(*two) for p, *two in zip(adjusted, parts, later, strict=True)
    ]
    turned = codes.smallest([p if is_one else None for p, is_one in zip(adjusted, is_turned, strict=True)])
    worst = turned or codes.smallest(adjusted)
    if worst is None:
        return CheckResult(SKIPPED, gaps[0].reason if gaps else "all events fall into one stretch of time")
    p_value, place = worst
    before, after = (estimate(*part[place]) for part in (parts, later))
    first, second = pairs.names(cells[place][1])
    until = moment(time_of(int(slices.ends[cells[place][0] - 1])))
    return CheckResult(
        FAILED if turned else WARNING if p_value < codes.WARN_BELOW else OK,
        f"{first} over {second}: {before.value or 0.0:+.3f} up to {until}, "
        f"{after.value or 0.0:+.3f} from then on, adjusted p = {p_value:.2g}",
        "find out what changed then: a ranker, its name, the way teams are logged; analyse each part by itself",
    )


def _sums(unit_of: Array, scores: Array, counts: Array, used: Array) -> tuple[Array, Array]:
    """Scores and impressions of each unit in a part of the log."""
    return np.bincount(unit_of, scores * used), np.bincount(unit_of, counts * used)


def _turns(early: tuple[Array, Array], late: tuple[Array, Array]) -> bool:
    """Whether both parts have a significant preference, for different rankers."""
    one, other = estimate(*early), estimate(*late)
    if one.p_value is None or other.p_value is None:
        return False
    return max(one.p_value, other.p_value) < codes.WARN_BELOW and (one.value or 0.0) * (other.value or 0.0) < 0


@health_check(CheckCode.HOLDS_WITHOUT_QUERY, "Holds without any one query", interleaved=True)
def holds_without_query(data: CheckInput) -> CheckResult | None:
    """Is the preference still significant without the query that adds most to it? If not, look at what the rankers
    show for this query.
    """
    tally, result, reason = data.tally, data.result, why_no_cells(data.tally)
    if result is None:
        return None
    shown = [place for place, one in enumerate(result.comparisons) if one.winner is not None][:MAX_PAIRS]
    if reason or not shown:
        return CheckResult(SKIPPED, reason or "no preference is shown")
    cells = QueryCells.of(tally)
    scores = result.pairs.scores(cells.sums, tally.about.linear)
    levels = holm_levels([one.p_value for one in result.comparisons], data.settings.alpha)
    results = []
    for place in shown:
        one = result.comparisons[place]
        sign = 1 if one.winner == one.first else -1
        query, share = cells.influential(scores[:, place], sign)
        rest = _without(cells, query, tally, result, place)
        interval = None if rest is None else interval_of(*rest, data.settings, levels[place])[0]
        text = data.find_text(int(cells.numbers[query])) if data.find_text else None
        figure = (
            f"without {'one query' if text is None else f'the query {text!r}'} "
            f"({percent(share, 1)} of impressions with an event), {one.first} over {one.second} is "
        )
        if rest is None or interval is None:
            results.append((False, figure + "unknown"))
            continue
        figure += f"{format_signed(rest[0].value or 0.0)} ({span(interval)})"
        results.append((min(sign * interval[0], sign * interval[1]) > 0, figure))
    holds, figure = min(results, key=lambda one: one[0])
    remedy = "look at what the rankers show for this query: it may decide the verdict"
    return CheckResult(OK if holds else WARNING, figure, remedy)


def _without(
    cells: QueryCells, query: int, tally: Tally, result: ComparisonResult, place: int
) -> tuple[Estimate, int] | None:
    """The comparison without a query, and its number of units, extrapolated from the sample of units."""
    parts = []
    for sums, weights, count in (cells.weighted_sums(), cells.weighted_sums(query)):
        column = result.pairs.weighted_scores(sums, weights, tally.about.linear)[:, place]
        parts.append((estimate(column, weights), count))
    ((whole, before), (rest, after)), one = parts, result.comparisons[place]
    if one.estimate is None or one.error is None or one.effective_units is None or whole.value is None:
        return None
    if not whole.error or not whole.effective_units or rest.value is None or rest.error is None:
        return None
    changed = replace(
        rest,
        value=one.estimate + rest.value - whole.value,
        error=one.error * rest.error / whole.error,
        effective_units=max(2.0, one.effective_units * (rest.effective_units or 0.0) / whole.effective_units),
    )
    return changed, max(1, round((one.units or 0) * after / before))


@health_check(CheckCode.AA, "A/A: {}", interleaved=True)
def aa(data: CheckInput) -> Iterator[CheckResult]:
    """With `--aa`: does the A/A test find no difference? If it finds one, go through all checks above, and do not
    trust other comparisons of this set-up.
    """
    for one in data.result.comparisons if data.result and data.settings.aa else ():
        yield CheckResult(
            codes.grade_p_value(one.adjusted_p_value),
            "no estimate" if one.estimate is None else format_signed(one.estimate),
            "rankers that are the same look different: do not trust other comparisons of this set-up",
            f"{one.first} and {one.second}",
        )
