"""The comparisons as they stood over time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.report import people
from interleaf.report.compare import Compared, Pairs, max_score
from interleaf.report.record import Point
from interleaf.report.rule import ANYTIME, Settings, holm_levels, possible
from interleaf.stats import compare, sequence
from interleaf.stats.sums import Interval, significance
from interleaf.tally import Tally
from interleaf.tally.units import CLICKED, SINCE

MAX_PAIRS = 12  # whose history is kept


def over_time(tally: Tally, settings: Settings, result: Compared) -> tuple[Point, ...]:
    """Each pair as it stood at the end of every slice; the last point is the comparison itself.

    With planned looks, only the last point has an interval: there was no look before it.
    """
    slices, ends = tally.slices, tally.slices.ends
    if not len(ends) or tally.until is None:
        return ()
    shown = np.cumsum(slices.clicked).tolist()
    sums, weights = _history(tally, result.pairs)
    since = tally.units.rows[tally.units.rows[:, CLICKED] > 0, SINCE]
    units = np.maximum(slices.before_ends(since) << tally.units.level, 1)
    levels = holm_levels([one.p_value for one in result.comparisons], significance(settings.confidence))
    points = []
    for pair in range(sums.shape[2]):
        first, second = result.pairs.names(pair)
        estimates = compare.estimates(sums[:, :, pair].T, weights.T, settings.confidence)
        intervals: list[Interval | None] = [None] * len(ends)
        if settings.rule == ANYTIME:
            found = sequence.anytimes(estimates, units, settings.planned_units, 1 - levels[pair])
            intervals = [possible(one.interval, max_score(tally.about)) for one in found]
        for place in range(len(ends) - 1):
            figures = (shown[place], estimates[place].value, intervals[place])
            points.append(Point(moment(int(ends[place])), first, second, *figures))
        last = result.comparisons[pair]
        points.append(Point(moment(tally.until), first, second, last.clicked, last.estimate, last.interval))
    return tuple(points)


def _history(tally: Tally, pairs: Pairs) -> tuple[Array, Array]:
    """Sums `[slice, bucket, pair]` of the first pairs and weights `[slice, bucket]`, as of the end of each slice."""
    sums, weights = [], []
    for units, clicked, columns in tally.slices.totals():
        present = int((clicked > 0).sum()) << tally.slices.cells.level
        voices, weight = people.weigh(units, clicked, columns, people.max_weight(present))
        sums.append(pairs.voices(voices, weight, tally.about.linear)[:, :MAX_PAIRS])
        weights.append(weight)
    return np.array(sums), np.array(weights)


def moment(microseconds: int) -> datetime:
    """A time of the log."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
