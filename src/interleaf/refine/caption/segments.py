"""Kinds of queries (H12c, section 4.2): by how often they are asked, and by what people want.

Head and tail are the 20 % of the queries that are asked most and least often, the body is between. A query is
navigational if its clicks fall on few documents: their entropy is at most one bit. Where the log flags results that got
more room because nearly all want them ("enhanced navigational"), such pages are a kind of their own.
"""

from __future__ import annotations

import numpy as np

from interleaf.methods.arrays import Array
from interleaf.refine.caption.patterns import grouped
from interleaf.refine.caption.results import Results

ALL = "all queries"
HEAD, BODY, TAIL = FREQUENCIES = ("head", "body", "tail")
ENHANCED, NAVIGATIONAL, REST = TYPES = ("enhanced navigational", "navigational", "non-navigational")
SEGMENTS = (ALL, *FREQUENCIES, *TYPES)
SHARE = 0.2
BITS = 1.0
FEWEST_CLICKS = 5  # entropy says nothing of a query with fewer: it counts as non-navigational


class Queries:
    """Counts of queries, and of clicks on their documents, while a log is read; then the kind of each."""

    def __init__(self) -> None:
        self._asked: list[list[Array]] = []
        self._clicked: list[list[Array]] = []

    def add(self, results: Results) -> None:
        """Count pages in."""
        asked = results.queries
        self._asked.append(grouped([asked], [(np.ones(len(asked), np.int64), "sum")]))
        clicked = np.flatnonzero(results.clicked)
        keys = [asked[results.page[clicked]], results.documents[clicked]]
        self._clicked.append(grouped(keys, [(np.ones(len(clicked), np.int64), "sum")]))

    def kinds(self) -> Kinds:
        """The kinds of all queries that were counted."""
        queries, asked = grouped(*_merged(self._asked, 1))
        order = np.lexsort((queries, asked))  # of queries that are asked alike, the hash decides
        place = np.empty(len(order))
        place[order] = np.arange(len(order)) + 0.5
        share = place / max(1, len(order))
        frequency = np.where(share > 1 - SHARE, HEAD, np.where(share < SHARE, TAIL, BODY))
        sort = np.argsort(queries)
        return Kinds(queries[sort], frequency[sort], self._navigational())

    def _navigational(self) -> Array:
        """The queries whose clicks have an entropy of at most one bit."""
        queries, _, clicks = grouped(*_merged(self._clicked, 2))
        places, whose = np.unique(queries, return_inverse=True)
        total = np.bincount(whose, clicks, len(places))
        shares = clicks / total[whose] if len(clicks) else np.zeros(0)
        entropy = np.bincount(whose, -shares * np.log2(shares), len(places))
        found: Array = places[(entropy <= BITS) & (total >= FEWEST_CLICKS)]
        return found


def _merged(parts: list[list[Array]], keys: int) -> tuple[list[Array], list[tuple[Array, str]]]:
    whole = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    return whole[:keys], [(column, "sum") for column in whole[keys:]]


class Kinds:
    """The kind of every query of a log."""

    def __init__(self, queries: Array, frequency: Array, navigational: Array) -> None:
        self._queries, self._frequency, self._navigational = queries, frequency, navigational

    def of(self, results: Results, flag: tuple[str, str] | None = None) -> dict[str, Array]:
        """Which pages belong to each segment; `flag` is the attribute and value of enhanced navigational pages."""
        asked = results.queries
        frequency = self._frequency[np.searchsorted(self._queries, asked)]
        enhanced = results.has(*flag) if flag else np.zeros(len(asked), np.bool_)
        navigational = np.isin(asked, self._navigational) & ~enhanced
        return {
            ALL: np.ones(len(asked), np.bool_),
            **{name: frequency == name for name in FREQUENCIES},
            **{ENHANCED: enhanced, NAVIGATIONAL: navigational, REST: ~enhanced & ~navigational},
        }
