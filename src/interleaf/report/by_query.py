"""How far the result depends on queries: errors clustered by unit and by query, and the result without one query.

A tally has the sums S_uq of each unit u in each query q, and the number N_uq of its impressions with an event there, of
a sample of units. N_u = sum_q N_uq, w_u is the weight of a unit (people.py), W = sum_u w_u is the sum of weights, of
which W_q = sum_u w_u N_uq / N_u are of query q, and D is the estimate:

    r_uq = w_u / N_u (S_uq - D N_uq)
    se^2 = se_units^2 + sum_q ((sum_u r_uq)^2 - sum_u r_uq^2) / (W - W_q)^2

The added sum runs over pairs of different units with the same query (Cameron, Gelbach and Miller 2011), and a sample of
units estimates it without a scale factor: numerator and denominator shrink alike. If it is below 0, it counts as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.report import people
from interleaf.stats import compare
from interleaf.stats.compare import Estimate
from interleaf.stats.sums import quotient
from interleaf.tally import Tally
from interleaf.tally.units import CLICKED, SUMS, unpack

FEW_QUERIES = "fewer than two effective queries: one query has nearly all impressions with an event"
MIN_KNOWN = 0.9  # of impressions with an event: fewer with a query are too few to speak of queries


class Cells(NamedTuple):
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
    def of(cls, tally: Tally) -> Cells:
        """Those of a tally for which `why_no_cells` has no reason."""
        keys, values = tally.queries.unordered
        units, numbers = unpack(keys)
        units, unit_of = np.unique(units, return_inverse=True)
        numbers, query_of = np.unique(numbers, return_inverse=True)
        limit = people.max_weight(people.units_with_event(tally))
        return cls(units, numbers, unit_of, query_of, values[:, CLICKED], values[:, SUMS:], limit)

    @property
    def factors(self) -> Array:
        """What each impression with an event counts: w_u / N_u."""
        visits = np.bincount(self.unit_of, self.clicked)
        return np.asarray((np.minimum(visits, self.limit) / np.maximum(visits, 1))[self.unit_of])

    def influential(self, scores: Array, sign: int) -> tuple[int, float]:
        """The place of the query that adds most to a mean score of this sign, and its share of impressions."""
        sums, weights = (np.bincount(self.query_of, self.factors * of) for of in (scores, self.clicked))
        rest = sign * quotient(sums.sum() - sums, weights.sum() - weights)
        query, clicked = int(np.argmin(rest)), np.bincount(self.query_of, self.clicked)
        return query, float(clicked[query] / clicked.sum())

    def voices(self, without: int | None = None) -> tuple[Array, Array, int]:
        """Weighted sums and weights by bucket, as `people.weigh` has them, and the number of units with an event;
        without the query in this place.
        """
        used = self.query_of != without if without is not None else np.ones(len(self.query_of), np.bool_)
        clicked = np.bincount(self.unit_of[used], self.clicked[used], len(self.units)).astype(np.int64)
        columns = (np.bincount(self.unit_of[used], column[used], len(self.units)) for column in self.sums.T)
        sums, weights = people.weigh(self.units, clicked, np.stack(list(columns), axis=1), self.limit)
        return sums, weights, int((clicked > 0).sum())


def why_no_cells(tally: Tally) -> str:
    """Why a tally cannot say what depends on queries; empty if it can."""
    if tally.about.sessions is not None:
        return "sessions are not split by query"
    known = int(tally.queries.rows[:, CLICKED].sum()) << tally.queries.level
    if known < MIN_KNOWN * int(tally.scores.clicked.sum()):
        return "the log has no queries" if not known else "many impressions with an event have no query"
    return ""


def with_queries(estimates: Sequence[Estimate], cells: Cells, scores: Array, confidence: float) -> tuple[Estimate, ...]:
    """Estimates by units, with errors clustered by query, too; `scores[cell, pair]` are the sums of the cells."""
    factors = cells.factors
    weights = factors * cells.clicked
    total, by_query = weights.sum(), np.bincount(cells.query_of, weights)
    queries = float(quotient(total**2, (by_query**2).sum()))
    made = []
    for pair, estimate in enumerate(estimates):
        if estimate.error is None or estimate.effective_units is None or estimate.value is None:
            made.append(estimate)
            continue
        if queries < 2:
            made.append(replace(estimate, error=None, interval=None, p_value=None, reason=FEW_QUERIES))
            continue
        residuals = factors * scores[:, pair] - float((factors * scores[:, pair]).sum() / total) * weights
        squares = np.bincount(cells.query_of, residuals) ** 2 - np.bincount(cells.query_of, residuals**2)
        added = max(0.0, float(quotient(squares, (total - by_query) ** 2).sum()))
        error = float(np.sqrt(estimate.error**2 + added))
        made.append(compare.with_error(estimate, error, min(estimate.effective_units, queries), confidence))
    return tuple(made)
