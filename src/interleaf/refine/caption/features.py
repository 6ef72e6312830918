"""The features of H12c in one table: what a caption is like (0, 1), and how it differs from its neighbours (-1, 0, 1).

The paper names ten per-document features that remained of 25, and no threshold: those here are a start, and `tuning`
finds better ones in the data. Matches of query terms are left out on purpose, as in the paper: a better document has
more of them, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from interleaf.compiled import kernel
from interleaf.errors import DataError, listed
from interleaf.methods.arrays import Array
from interleaf.refine.caption.measures import MEASURES

MOST = 2**31 - 1
ABOVE, BELOW = "above", "below"
POSITIONS = ("1", "2", "3", "4-5", "6-9", "10+")
UNJUDGED = "unjudged"
MOST_GRADE = 13
GRADES = (UNJUDGED, *(str(grade) for grade in range(MOST_GRADE + 1)))
POSITION, GRADE, FIRST = 0, 1, 2  # columns of `codes`: position, grade, then the features


@dataclass(frozen=True)
class Feature:
    """One feature of captions: whether a measure is from `least` to `most`; `tuned` bounds may be found in data.

    With a `neighbour` it is the sign of the difference to the result above or below, 0 where there is none.
    """

    name: str
    measure: str
    least: int = 0
    most: int = MOST
    tuned: str = ""
    neighbour: str = ""
    meaning: str = ""

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise DataError(f"feature {self.name!r}: unknown measure {self.measure!r}; known are {listed(MEASURES)}")
        if self.tuned not in ("", "least", "most") or self.neighbour not in ("", ABOVE, BELOW):
            raise DataError(
                f"feature {self.name!r}: tuned is {self.tuned!r} and neighbour {self.neighbour!r}; "
                "give 'least' or 'most', and 'above' or 'below', or leave them out"
            )

    def at(self, threshold: int) -> Feature:
        """The same with another threshold, where it has one that can be tuned."""
        return replace(self, least=threshold) if self.tuned == "least" else replace(self, most=threshold)

    @property
    def is_highlighting(self) -> bool:
        """Whether it compares what is set in bold, as Yue et al. (2010) do."""
        return bool(self.neighbour) and " bold " in self.measure

    @property
    def rule(self) -> str:
        """How it is computed, in words.

        >>> Feature("short URL", "url length", most=30).rule, Feature("more links", "deep links", neighbour=ABOVE).rule
        ('url length at most 30', 'deep links against the result above')
        """
        if self.neighbour:
            return f"{self.measure} against the result {self.neighbour}"
        if self.least == self.most:
            return f"{self.measure} is {self.least}"
        low = f"at least {self.least}" if self.least > 0 else ""
        high = f"at most {self.most}" if self.most < MOST else ""
        return f"{self.measure} {' and '.join(part for part in (low, high) if part)}"


DOCUMENT_FEATURES = (
    Feature("deep links", "deep links", least=1, meaning="links into the site stand below the title"),
    Feature("short URL", "url length", most=30, tuned="most", meaning="few characters"),
    Feature("long URL", "url length", least=80, tuned="least", meaning="many characters"),
    Feature("many URL slashes", "url slashes", least=6, tuned="least", meaning="deep inside a site"),
    Feature("URL bold", "url bold sections", least=1, meaning="something in the URL is highlighted"),
    Feature("short title", "title length", most=4, tuned="most", meaning="few words"),
    Feature("long title", "title length", least=10, tuned="least", meaning="many words"),
    Feature("title bold", "title bold sections", least=1, meaning="something in the title is highlighted"),
    Feature("much title bold", "title bold sections", least=3, tuned="least", meaning="several sections are"),
    Feature("missing snippet", "snippet length", most=0, meaning="no snippet was shown"),
    Feature("short snippet", "snippet length", least=1, most=45, tuned="most", meaning="about half a line"),
    Feature("long snippet", "snippet length", least=165, tuned="least", meaning="flows onto a third line"),
    Feature("snippet bold", "snippet bold sections", least=1, meaning="something in the snippet is highlighted"),
    Feature("much snippet bold", "snippet bold sections", least=5, tuned="least", meaning="many sections are"),
)
PAIRWISE_FEATURES = tuple(
    Feature(
        f"Δ {measure} {neighbour}", measure, neighbour=neighbour, meaning="more than the neighbour (1), or less (-1)"
    )
    for measure in MEASURES
    if measure != "deep links"
    for neighbour in (ABOVE, BELOW)
)
FEATURES = DOCUMENT_FEATURES + PAIRWISE_FEATURES


class Encoder:
    """Measures of captions to codes `[result, column]`: position, grade, and a column a feature."""

    def __init__(self, features: Sequence[Feature] = FEATURES) -> None:
        names = [feature.name for feature in features]
        for name in names:
            if names.count(name) > 1:
                raise DataError(f"two features are named {name!r}; give each a name of its own")
        self.features = tuple(features)

    @cached_property
    def _table(self) -> Array:
        """By feature: measure, bounds, and -1 or 1 for the neighbour."""
        side = {"": 0, ABOVE: -1, BELOW: 1}
        rows = [(MEASURES.index(one.measure), one.least, one.most, side[one.neighbour]) for one in self.features]
        return np.array(rows, np.int64).reshape(-1, 4)

    def encode(self, measures: Array, counts: Array, grades: Array) -> Array:
        """Codes of results that stand page after page; grades below 0 are unknown."""
        codes = np.zeros((len(measures), FIRST + len(self.features)), np.int8)
        codes[:, GRADE] = np.clip(grades, -1, MOST_GRADE) + 1
        _encode(measures, np.asarray(counts, np.int64), self._table, codes)
        return codes


@kernel
def _encode(measures: Array, counts: Array, table: Array, codes: Array) -> None:
    start = 0
    for page in range(len(counts)):
        end = start + counts[page]
        for row in range(start, end):
            place = row - start
            codes[row, POSITION] = place if place < 3 else 3 if place < 5 else 4 if place < 9 else 5
            for feature in range(len(table)):
                measure, side = table[feature, 0], table[feature, 3]
                value = measures[row, measure]
                if side == 0:
                    codes[row, FIRST + feature] = table[feature, 1] <= value <= table[feature, 2]
                elif start <= row + side < end:
                    other = measures[row + side, measure]
                    codes[row, FIRST + feature] = (value > other) - (value < other)
        start = end
