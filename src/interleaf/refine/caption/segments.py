"""Kinds of queries (H12c, section 4.2): by how often they are asked, and by what people want.

Head and tail are the 20 % of the queries that are asked most and least often, the body is between. A query is
navigational if its clicks fall on few documents: their entropy is at most one bit. Where the log flags results that got
more room because nearly all want them ("enhanced navigational"), such pages are a kind of their own.
"""

from __future__ import annotations

import numpy as np

from interleaf.engines.groups import Groups
from interleaf.methods.arrays import Array
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
        self._asked, self._clicked = Groups(1, ["sum"]), Groups(2, ["sum"])

    def add(self, results: Results) -> None:
        """Count pages in."""
        asked = results.queries
        self._asked.add([asked, np.ones(len(asked), np.int64)])
        clicked = np.flatnonzero(results.clicked)
        self._clicked.add([asked[results.page[clicked]], results.documents[clicked], np.ones(len(clicked), np.int64)])

    def merge(self, other: Queries) -> None:
        """Count those of other pages in."""
        self._asked.merge(other._asked)
        self._clicked.merge(other._clicked)

    def kinds(self) -> Kinds:
        """The kinds of all queries that were counted."""
        queries, asked = self._asked.columns
        order = np.lexsort((queries, asked))  # of queries that are asked alike, the hash decides
        place = np.empty(len(order))
        place[order] = np.arange(len(order)) + 0.5
        share = place / max(1, len(order))
        frequency = np.where(share > 1 - SHARE, HEAD, np.where(share < SHARE, TAIL, BODY))
        return Kinds(queries, frequency, self._navigational())

    def _navigational(self) -> Array:
        """The queries whose clicks have an entropy of at most one bit."""
        queries, _, clicks = self._clicked.columns
        places, whose = np.unique(queries, return_inverse=True)
        total = np.bincount(whose, clicks, len(places))
        shares = clicks / total[whose] if len(clicks) else np.zeros(0)
        entropy = np.bincount(whose, -shares * np.log2(shares), len(places))
        found: Array = places[(entropy <= BITS) & (total >= FEWEST_CLICKS)]
        return found


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
