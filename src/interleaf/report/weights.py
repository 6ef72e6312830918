"""Weights of units, and errors clustered by unit and query.

The estimate is the mean score of the units, each weighted by its impressions up to a limit:

    D = sum_u w_u m_u / sum_u w_u,   m_u = S_u / N_u,   w_u = min(N_u, c),   c = sqrt(n), from 5 to 40

over n units u with N_u impressions with an event and the sum S_u of their scores. With w_u = N_u (one vote per search),
a few heavy users decide. With w_u = 1 (one vote per person), an experiment needs up to twice as many people. A report
shows both beside D. docs/statistics.md has the measurements behind the limit c.

If events count by their values, D is the mean of S_u over units with an event. The few largest values would decide, so
if the absolute sums of a unit for all rankers together exceed a cap, they are all reduced by the same factor.

Errors clustered by unit and query: a tally has the sums S_uq of unit u in query q, and the number N_uq of its
impressions with an event there, for a sample of units. N_u = sum_q N_uq, W = sum_u w_u is the sum of weights, of which
W_q = sum_u w_u N_uq / N_u belong to query q:

    r_uq = w_u / N_u (S_uq - D N_uq)
    se^2 = se_units^2 + sum_q ((sum_u r_uq)^2 - sum_u r_uq^2) / (W - W_q)^2

The added sum runs over pairs of different units with the same query (Cameron, Gelbach and Miller 2011). A sample of
units estimates it without a scale factor: numerator and denominator shrink alike. A negative sum counts as 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.kernels.buckets import BUCKETS
from interleaf.report.model import Activity
from interleaf.stats import compare
from interleaf.stats.compare import Estimate, quotient
from interleaf.tally import Tally
from interleaf.tally.bucket_sums import ONE
from interleaf.tally.units import CLICKED, SUMS, unpack

MIN_LIMIT, MAX_LIMIT = 5, 40  # on the weight of a unit, with few units and with many
PERCENTILE = 0.99  # of the values of units with an event: the default cap
PER_PERSON = 1  # the limit that gives each unit the same weight
_BUCKET_SHIFT, _BUCKET_MASK = np.uint64(34), np.uint64(BUCKETS - 1)  # bits that are also in the keys of cells
FEW_QUERIES = "fewer than two effective queries: one query has nearly all impressions with an event"
MIN_KNOWN = 0.9  # share of impressions with an event that must have a query


def max_weight(units: int) -> int:
    """The largest weight of a unit: the square root of the number of units with an event, from 5 to 40.

    It depends only on that number, so it favours no ranker.

    >>> [max_weight(units) for units in (20, 300, 1_000, 1_000_000)]
    [5, 17, 31, 40]
    """
    return min(max(math.isqrt(units), MIN_LIMIT), MAX_LIMIT)


def units_with_event(tally: Tally) -> int:
    """How many units have an event; estimated if only a sample of units is stored."""
    return tally.units.count(tally.units.rows[:, CLICKED] > 0)


def weighted_sums(tally: Tally, limit: int | None = None, cap: int | None = None) -> tuple[Array, Array]:
    """Weighted sums `[bucket, column]`, in units of 2^-24, and weights `[bucket]` of all units.

    The weight of a unit is at most `limit` (default: `max_weight` of the tally's units); or see `weigh` for `cap`.
    """
    units, rows = tally.units.entries
    limit = max_weight(units_with_event(tally)) if limit is None else limit
    return weigh(units, rows[:, CLICKED], rows[:, SUMS:], limit, cap)


class ValueCap(NamedTuple):
    """The largest total value of a unit that counts, in units of 2^-24, and the share of all value that it cuts off."""

    cap: int
    cut: float


def value_cap(tally: Tally, cap: float | None) -> ValueCap | None:
    """The given cap, or the 99th percentile of units with a value; None if events do not count by their values."""
    if not tally.about.values:
        return None
    rows = tally.units.rows[tally.units.rows[:, CLICKED] > 0]
    totals = np.sort(np.abs(rows[:, SUMS:]).sum(axis=1))
    totals = totals[totals > 0]
    if cap is None:
        most = int(totals[math.ceil(PERCENTILE * len(totals)) - 1]) if len(totals) else 0
    else:
        most = round(cap * ONE)
    whole = float(totals.sum())
    return ValueCap(most, float(np.maximum(totals - most, 0).sum()) / whole if whole else 0.0)


def cut(sums: Array, cap: int) -> Array:
    """The sums of units by ranker, `[unit, ranker]`, reduced where their absolute values add up to more than the cap.

    >>> cut(np.array([[3, 1], [30, -10]]), cap=20).tolist()
    [[3.0, 1.0], [15.0, -5.0]]
    """
    totals = np.abs(sums).sum(axis=1, keepdims=True)
    return np.asarray(sums * np.minimum(1.0, cap / np.maximum(totals, 1)))


def buckets_of(units: Array) -> Array:
    """The bucket of each unit."""
    return np.asarray((units >> _BUCKET_SHIFT & _BUCKET_MASK).astype(np.int64))


def weigh(units: Array, clicked: Array, sums: Array, limit: int, cap: int | None = None) -> tuple[Array, Array]:
    """The sums of units, each weighted by its impressions with an event, but at most by `limit`.

    With a `cap`, each unit with an event has the same weight, and its sums are cut instead.
    Each unit's sum is rounded once to an integer, so the order of units does not matter.

    >>> sums, weights = weigh(np.zeros(2, np.uint64), np.array([2, 40]), np.array([[2], [-40]]), 10)
    >>> sums[0], int(weights[0])
    (array([-8]), 12)
    """
    buckets = buckets_of(units)
    weights = np.minimum(clicked, limit)
    visits = np.maximum(clicked, 1)
    if cap is not None:
        sums, weights = cut(sums, cap), np.minimum(clicked, 1)
        visits = np.ones_like(clicked)
    total = np.empty((BUCKETS, sums.shape[1]), np.int64)
    for column in range(sums.shape[1]):
        total[:, column] = np.bincount(buckets, np.rint(sums[:, column] * weights / visits), BUCKETS)
    return total, np.bincount(buckets, weights, BUCKETS).astype(np.int64)


def activity(tally: Tally, sign: int = 1) -> tuple[Activity, ...]:
    """Units with one impression with an event, with a few, and with more than the limit.

    With two rankers, they have a mean score, multiplied by `sign`; with more rankers, they have none.
    """
    units = tally.units.rows
    units = units[units[:, CLICKED] > 0]
    clicked, sums = units[:, CLICKED], units[:, SUMS:]
    scores = sums[:, 0] - sums[:, 1] if tally.about.linear else sums[:, 0]
    limit = max_weight(units_with_event(tally))
    classes = {"1": clicked == 1, f"2 to {limit}": (clicked > 1) & (clicked <= limit)}
    classes[f"more than {limit}"] = clicked > limit
    rows = []
    for name, some in classes.items():
        if some.any():
            # Integers, so that the sum does not depend on the order of units.
            mean = sign * float(np.rint(scores[some] / clicked[some]).sum()) / int(some.sum()) / ONE
            share, searches = float(some.mean()), float(clicked[some].sum() / clicked.sum())
            estimate = mean if len(tally.about.rankers) == 2 else None
            rows.append(Activity(name, tally.units.count(some), share, searches, estimate))
    return tuple(rows)


class QueryCells(NamedTuple):
    """Units in queries: hashes of units, and for each cell the unit's place, the query's place, impressions with an
    event, and sums.

    `numbers` are those of the queries, `limit` is the largest weight of a unit.
    """

    units: Array
    numbers: Array
    unit_of: Array
    query_of: Array
    clicked: Array
    sums: Array
    limit: int

    @classmethod
    def of(cls, tally: Tally) -> QueryCells:
        """The cells of a tally for which `why_no_cells` returns ''."""
        keys, values = tally.queries.entries
        units, numbers = unpack(keys)
        units, unit_of = np.unique(units, return_inverse=True)
        numbers, query_of = np.unique(numbers, return_inverse=True)
        limit = max_weight(units_with_event(tally))
        return cls(units, numbers, unit_of, query_of, values[:, CLICKED], values[:, SUMS:], limit)

    @property
    def factors(self) -> Array:
        """The weight of each impression with an event: w_u / N_u."""
        visits = np.bincount(self.unit_of, self.clicked)
        return np.asarray((np.minimum(visits, self.limit) / np.maximum(visits, 1))[self.unit_of])

    def influential(self, scores: Array, sign: int) -> tuple[int, float]:
        """The index of the query that adds most to a mean score of this sign, and its share of impressions."""
        sums, weights = (np.bincount(self.query_of, self.factors * of) for of in (scores, self.clicked))
        rest = sign * quotient(sums.sum() - sums, weights.sum() - weights)
        query, clicked = int(np.argmin(rest)), np.bincount(self.query_of, self.clicked)
        return query, float(clicked[query] / clicked.sum())

    def weighted_sums(self, without: int | None = None) -> tuple[Array, Array, int]:
        """Weighted sums and weights by bucket, as from `weigh`, and the number of units with an event; `without` is
        the index of a query to leave out.
        """
        used = self.query_of != (-1 if without is None else without)
        clicked = np.bincount(self.unit_of[used], self.clicked[used], len(self.units)).astype(np.int64)
        columns = (np.bincount(self.unit_of[used], column[used], len(self.units)) for column in self.sums.T)
        sums, weights = weigh(self.units, clicked, np.stack(list(columns), axis=1), self.limit)
        return sums, weights, int((clicked > 0).sum())


def why_no_cells(tally: Tally) -> str:
    """Why errors of a tally cannot be clustered by query; '' if they can."""
    if tally.about.sessions is not None:
        return "sessions are not split by query"
    if tally.about.values:
        return "values are not split by query"
    with_query = int(tally.queries.rows[:, CLICKED].sum()) << tally.queries.level
    if with_query < MIN_KNOWN * int(tally.scores.clicked.sum()):
        return "the log has no queries" if not with_query else "many impressions with an event have no query"
    return ""


def with_queries(
    estimates: Sequence[Estimate], cells: QueryCells, scores: Array, confidence: float
) -> tuple[Estimate, ...]:
    """Estimates with errors clustered by unit and query; `scores[cell, pair]` are the sums of the cells."""
    factors = cells.factors
    weights = factors * cells.clicked
    total, by_query = weights.sum(), np.bincount(cells.query_of, weights)
    queries = float(quotient(total**2, (by_query**2).sum()))
    clustered = []
    for pair, estimate in enumerate(estimates):
        if estimate.error is None or estimate.effective_units is None:
            clustered.append(estimate)
            continue
        if queries < 2:
            clustered.append(replace(estimate, error=None, interval=None, p_value=None, reason=FEW_QUERIES))
            continue
        residuals = factors * scores[:, pair] - float((factors * scores[:, pair]).sum() / total) * weights
        squares = np.bincount(cells.query_of, residuals) ** 2 - np.bincount(cells.query_of, residuals**2)
        added = max(0.0, float(quotient(squares, (total - by_query) ** 2).sum()))
        error = float(np.sqrt(estimate.error**2 + added))
        clustered.append(compare.with_error(estimate, error, min(estimate.effective_units, queries), confidence))
    return tuple(clustered)
