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

from interleaf.caption_bias.captions import MEASURES
from interleaf.compiled import kernel
from interleaf.engines.groups import grouped
from interleaf.errors import DataError, listed
from interleaf.methods.arrays import Array

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


_BITS, _PER_WORD = 2, 32
_MASK = np.uint64(3)


@dataclass(frozen=True, eq=False)
class Patterns:
    """`codes[pattern]` (position, grade, features) of `rows[pattern]` results, `clicks[pattern]` of them clicked."""

    codes: Array
    rows: Array
    clicks: Array

    @classmethod
    def of(cls, codes: Array, clicked: Array) -> Patterns:
        """The patterns of results, one code a result."""
        return cls(*_grouped(codes, np.ones(len(codes), np.int64), clicked.astype(np.int64)))

    def __add__(self, other: Patterns) -> Patterns:
        return Patterns(*_grouped(*(np.concatenate(parts) for parts in zip(self._parts, other._parts, strict=True))))

    @property
    def _parts(self) -> tuple[Array, Array, Array]:
        return self.codes, self.rows, self.clicks

    def only(self, features: Sequence[int]) -> Patterns:
        """With these features alone: fewer patterns."""
        return Patterns(*_grouped(self.codes[:, [*range(FIRST), *(FIRST + one for one in features)]], *self._parts[1:]))

    def ordered(self) -> Patterns:
        """In an order of their own, so that fits to them are the same, however the results came."""
        order = np.lexsort(_packed(self.codes))
        return Patterns(*(part[order] for part in self._parts))

    def __len__(self) -> int:
        return len(self.rows)


def _grouped(codes: Array, rows: Array, clicks: Array) -> tuple[Array, Array, Array]:
    words = _packed(codes)
    *keys, rows, clicks = grouped(words, [(rows, "sum"), (clicks, "sum")])
    return _unpacked(keys, codes.shape[1]), rows, clicks


def _packed(codes: Array) -> list[Array]:
    """Position and grade in a word of their own, then 32 features a word."""
    words = [codes[:, 0].astype(np.uint64) | codes[:, 1].astype(np.uint64) << np.uint64(8)]
    for start in range(FIRST, codes.shape[1], _PER_WORD):
        word = np.zeros(len(codes), np.uint64)
        for place in range(min(_PER_WORD, codes.shape[1] - start)):
            word |= (codes[:, start + place] + 1).astype(np.uint64) << np.uint64(_BITS * place)
        words.append(word)
    return words


def _unpacked(words: Sequence[Array], columns: int) -> Array:
    codes = np.zeros((len(words[0]), columns), np.int8)
    codes[:, 0], codes[:, 1] = words[0] & np.uint64(0xFF), words[0] >> np.uint64(8)
    for column in range(FIRST, columns):
        word, place = divmod(column - FIRST, _PER_WORD)
        codes[:, column] = (words[1 + word] >> np.uint64(_BITS * place) & _MASK).astype(np.int8) - 1
    return codes
