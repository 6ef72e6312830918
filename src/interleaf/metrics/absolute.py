"""The ten absolute metrics of C12 (section 6.1, Table V): what users do with the lists of one ranker.

Every metric has a value per query, nan if the query does not count. The metric is the mean or the median of these
values; or, as in C12 on arXiv, the mean over users of each user's mean or median, so that all users count the same.
Some metrics are of sessions: the queries of a unit are split into sessions at gaps of some length (sections 6.1, 9.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.stats.compare import Estimate, difference, jackknife

GAP = 30 * 60  # seconds, C12's
MEAN, MEDIAN = "mean", "median"
_QUERIES, _CLICKED, _SESSIONS = "queries", "queries with a click", "sessions"
LEVEL = 0.05


class Sessions(NamedTuple):
    """By query: the number of its session, whether it is the first or last query of it, and how many queries it has."""

    number: Array
    is_first: Array
    is_last: Array
    queries: Array


def sessions(units: Array, times: Array, ends: Array | None = None, gap: float = GAP) -> Sessions:
    """The sessions of queries that `units` asked at `times`; a query lasts until its last click, at `ends`.

    A session continues while less than `gap` passes between the last action of the unit and its next query; the clicks
    of a query belong to its session, however late. Without `ends`, the gap is measured from query to query, as in
    C12's Table XIII, where a gap of 0 makes every query a session. Times and gap have the same unit of time.

    >>> sessions(np.array([7, 7, 8, 7]), np.array([0, 1700, 1750, 3600]), np.array([90, 1900, 1750, 3600])).number
    array([0, 0, 1, 0])
    >>> sessions(np.array([7, 7, 8, 7]), np.array([0, 1700, 1750, 3600])).number
    array([0, 0, 2, 1])
    """
    ends = times if ends is None else ends
    if not len(units) == len(times) == len(ends):
        raise DataError(f"{len(units)} units, {len(times)} times and {len(ends)} ends; give one of each per query")
    if (ends < times).any():
        row = int(np.argmax(ends < times))
        raise DataError(f"query {row} ends at {ends[row]}, before it was asked at {times[row]}")
    if not len(units):
        nothing = np.zeros(0, np.int64)
        return Sessions(nothing, nothing.astype(bool), nothing.astype(bool), nothing)
    order = np.lexsort((times, units))
    starts = _starts(units[order], times[order], ends[order], gap)
    number, is_first, is_last = np.empty(len(order), np.int64), np.empty_like(starts), np.empty_like(starts)
    number[order], is_first[order], is_last[order] = np.cumsum(starts) - 1, starts, np.append(starts[1:], True)
    return Sessions(number, is_first, is_last, np.bincount(number)[number])


def _starts(units: Array, times: Array, ends: Array, gap: float) -> Array:
    """Which queries, sorted by unit and time, start a session.

    The last action of a unit need not be on its last page, so we take the running maximum of the ends. It restarts with
    each unit, because it is taken over (unit, rank of the end) as one number.
    """
    count = len(units)
    other = np.append(False, units[1:] != units[:-1])
    by_end = np.argsort(ends, kind="stable")
    rank = np.empty(count, np.int64)
    rank[by_end] = np.arange(count)
    latest = ends[by_end[np.maximum.accumulate(np.cumsum(other) * count + rank) % count]]
    starts = other
    starts[0] = True
    starts[1:] |= times[1:] - latest[:-1] >= gap
    return starts


def totals(number: Array, counts: Array) -> Array:
    """Sum counts of queries over sessions, `[session, ...]`: C12 scores a session by the sums of its clicks.

    >>> totals(np.array([0, 0, 1]), np.array([[1, 0], [2, 1], [0, 1]]))
    array([[3, 1],
           [0, 1]])
    """
    summed = np.zeros((int(number.max(initial=-1)) + 1, *counts.shape[1:]), counts.dtype)
    np.add.at(summed, number, counts)
    return summed


@dataclass(frozen=True, eq=False)
class QueryPages:
    """The queries of one arm, and what users did with the results.

    `clicked[query, position]`, top first; seconds from the query to its `first` and `last` click, nan if there is none;
    the `units` that asked, and the `times`, in seconds.
    """

    clicked: Array
    first: Array
    last: Array
    units: Array
    times: Array

    def __post_init__(self) -> None:
        shape = self.clicked.shape
        if len(shape) != 2 or not shape[1]:
            raise DataError(f"clicked has the shape {shape}; give one row per query, one column per position")
        lengths = {name: len(getattr(self, name)) for name in ("clicked", "first", "last", "units", "times")}
        if len(set(lengths.values())) > 1:
            raise DataError(f"the columns of pages have the lengths {lengths}; give one value per query in each")
        without = ~self.any_click
        for name in ("first", "last"):
            wrong = np.flatnonzero(np.isnan(getattr(self, name)) != without)
            if len(wrong):
                has = "no click" if without[wrong[0]] else "a click"
                value = getattr(self, name)[wrong[0]]
                raise DataError(f"query {wrong[0]} has {has}, but {name!r} is {value}; it is nan where nobody clicked")

    def __len__(self) -> int:
        return len(self.units)

    @property
    def any_click(self) -> Array:
        """Whether anything was clicked."""
        return np.asarray(self.clicked.any(axis=1))


@dataclass(frozen=True)
class AbsoluteMetric:
    """A row of Table V: whether the metric `rises` when quality drops, and `why`; `over` is what it averages over.

    The arrows of C12's Table V are lost. The directions follow from its rationale, and from its Table VI, in which E
    over B and B over A give E over A only with these directions.
    """

    name: str
    title: str
    rises: bool
    why: str
    over: str
    statistic: str
    values: Callable[[QueryPages], Array]


def _sessions(pages: QueryPages) -> Sessions:
    """Sessions in which a page ends with its last click."""
    return sessions(pages.units, pages.times, pages.times + np.where(pages.any_click, pages.last, 0.0))


def _mark_reformulated(pages: QueryPages) -> Array:
    return 1.0 - _sessions(pages).is_last


def _session_lengths(pages: QueryPages) -> Array:
    """A value per session, at its first query."""
    by_query = _sessions(pages)
    return np.where(by_query.is_first, by_query.queries, np.nan)


def _skip_rates(pages: QueryPages) -> Array:
    lowest = pages.clicked.shape[1] - np.argmax(pages.clicked[:, ::-1], axis=1)
    return np.where(pages.any_click, 1 - pages.clicked.sum(axis=1) / lowest, np.nan)


def _max_inverse(pages: QueryPages) -> Array:
    return np.where(pages.any_click, 1 / (np.argmax(pages.clicked, axis=1) + 1), np.nan)


def _mean_inverse(pages: QueryPages) -> Array:
    gains = pages.clicked @ (1 / np.arange(1, pages.clicked.shape[1] + 1))
    return np.where(pages.any_click, gains / np.maximum(pages.clicked.sum(axis=1), 1), np.nan)


METRICS: dict[str, AbsoluteMetric] = {
    name: AbsoluteMetric(name, title, rises, why, over, MEDIAN if name.endswith("_click") else MEAN, values)
    for name, title, rises, why, over, values in (
        ("abandonment", "Abandonment rate", True, "more bad result sets", _QUERIES, lambda p: 1.0 - p.any_click),
        ("reformulation", "Reformulation rate", True, "more need to reformulate", _QUERIES, _mark_reformulated),
        ("session_queries", "Queries per session", True, "more need to reformulate", _SESSIONS, _session_lengths),
        ("clicks", "Clicks per query", False, "fewer relevant results", _QUERIES, lambda p: 1.0 * p.clicked.sum(1)),
        ("clicks_at_1", "Clicks@1", False, "top result is worse", _QUERIES, lambda p: 1.0 * p.clicked[:, 0]),
        ("skipped", "pSkip", True, "more skipped results", _CLICKED, _skip_rates),
        ("max_reciprocal_rank", "Max reciprocal rank", False, "top results are worse", _CLICKED, _max_inverse),
        ("mean_reciprocal_rank", "Mean reciprocal rank", False, "more need for many clicks", _CLICKED, _mean_inverse),
        ("first_click", "Time to first click", True, "good results are lower", _CLICKED, lambda p: p.first),
        ("last_click", "Time to last click", False, "fewer relevant results", _CLICKED, lambda p: p.last),
    )
}


def by_user(values: Array, units: Array, statistic: str) -> tuple[Array, Array]:
    """The users with values that count, and the mean or median of each.

    >>> by_user(np.array([1.0, 2.0, 4.0, np.nan]), np.array([7, 7, 8, 9]), MEAN)
    (array([7, 8]), array([1.5, 4. ]))
    """
    counted = ~np.isnan(values)
    users, numbers, counts = np.unique(units[counted], return_inverse=True, return_counts=True)
    if statistic == MEAN:
        return users, np.bincount(numbers, values[counted]) / counts
    ordered = values[counted][np.lexsort((values[counted], numbers))]
    starts = np.cumsum(counts) - counts
    return users, (ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) / 2


def value(metric: AbsoluteMetric, pages: QueryPages, per_user: bool = False) -> float | None:
    """The metric of an arm: over all values, or per user first; None if nothing counts.

    >>> clicked = np.array([[True, False], [False, True], [False, False]])
    >>> seconds = np.array([2.0, 5.0, np.nan])
    >>> pages = QueryPages(clicked, seconds, seconds, units=np.array([1, 1, 2]), times=np.array([0.0, 60.0, 0.0]))
    >>> value(METRICS["clicks_at_1"], pages), value(METRICS["clicks_at_1"], pages, per_user=True)
    (0.333..., 0.25)
    """
    values = metric.values(pages)
    if np.isnan(values).all():
        return None
    if per_user:
        return float(by_user(values, pages.units, metric.statistic)[1].mean())
    return float(np.nanmean(values) if metric.statistic == MEAN else np.nanmedian(values))


@dataclass(frozen=True)
class MetricComparison:
    """A metric of a better and a worse ranker; differences are positive if they are in the direction C12 expects.

    `relative` is the difference as a share of the worse ranker's value; None if that value is 0.
    """

    metric: AbsoluteMetric
    better: float | None
    worse: float | None
    difference: Estimate
    relative: float | None

    @property
    def is_significant(self) -> bool:
        """Whether the difference is significant, in either direction."""
        return self.difference.p_value is not None and self.difference.p_value < LEVEL


def relative_difference(one: float, other: float) -> float | None:
    """(one - other) / other, where the other is the inferior ranking function; None if its value is 0.

    C12's text names the inferior ranking function, but its formula has min(a, b). These differ if a metric rises as
    quality drops. Its Table VI divides by the inferior function: only then E over B and B over A give E over A.

    >>> relative_difference(0.6, 0.5), relative_difference(0.5, 0.6)
    (0.2, -0.1666...)
    """
    return (one - other) / other if other else None


def compare(metric: AbsoluteMetric, better: QueryPages, worse: QueryPages, per_user: bool = False) -> MetricComparison:
    """Compare two arms, that of the better ranker first: over queries, or per user first."""
    one, other = (value(metric, pages, per_user) for pages in (better, worse))
    if one is None or other is None:
        reason = f"an arm has no {metric.over} to take {metric.title} over"
        return MetricComparison(metric, one, other, Estimate(None, None, None, None, None, 0, reason), None)
    units, numbers = np.unique(np.concatenate([better.units, worse.units]), return_inverse=True)
    of_better = _by_unit(metric, better, numbers[: len(better)], len(units), per_user)
    of_worse = _by_unit(metric, worse, numbers[len(better) :], len(units), per_user)
    gain = difference(*of_worse, *of_better) if metric.rises else difference(*of_better, *of_worse)
    relative = relative_difference(one, other)
    return MetricComparison(metric, one, other, gain, -relative if relative and metric.rises else relative)


def _by_unit(
    metric: AbsoluteMetric, pages: QueryPages, numbers: Array, units: int, per_user: bool
) -> tuple[Array, Array]:
    """Sums and counts of the values that make up the metric, by unit."""
    values = metric.values(pages)
    if per_user:
        users, means = by_user(values, numbers, metric.statistic)
        sums, counts = np.zeros(units), np.zeros(units)
        sums[users], counts[users] = means, 1
        return sums, counts
    counted = ~np.isnan(values)
    values, numbers = values[counted], numbers[counted]
    if metric.statistic != MEAN and counted.any():  # replace them by values whose mean is the median, to first order
        median = np.median(values)
        above = (values > median) + (values == median) / 2
        reach = min(1.96 * jackknife(*_sums(above, numbers, units)).errors[0], 0.5)
        low, high = np.quantile(values, [0.5 - reach, 0.5 + reach])
        values = median + (above - 0.5) * ((high - low) / (2 * reach) if reach else 0.0)
    return _sums(values, numbers, units)


def _sums(values: Array, numbers: Array, units: int) -> tuple[Array, Array]:
    return np.bincount(numbers, values, units), np.bincount(numbers, minlength=units)
