"""Counts of results with the same features, and the design matrix of the logistic regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interleaf.caption_bias.features import FIRST, GRADE, POSITION
from interleaf.caption_bias.logistic_model import design_matrix
from interleaf.execution.passes import group_rows
from interleaf.kernels.arrays import Array
from interleaf.stats.logistic import Fit, fit, gram

_BITS, _PER_WORD, _MASK = 2, 32, np.uint64(3)


@dataclass(frozen=True, eq=False)
class Patterns:
    """`codes[pattern]` (position, grade, features) of `rows[pattern]` results, `clicks[pattern]` of them clicked."""

    codes: Array
    rows: Array
    clicks: Array

    @classmethod
    def of(cls, codes: Array, clicked: Array) -> Patterns:
        """The patterns of results, given the codes of each result."""
        return cls.group(codes, np.ones(len(codes), np.int64), clicked.astype(np.int64))

    @classmethod
    def group(cls, codes: Array, rows: Array, clicks: Array) -> Patterns:
        """The patterns of counts, some of which may have the same codes."""
        *keys, rows, clicks = group_rows(_pack(codes), [(rows, "sum"), (clicks, "sum")])
        return cls(_unpack(keys, codes.shape[1]), rows, clicks)

    def __add__(self, other: Patterns) -> Patterns:
        return self.group(*(np.concatenate(parts) for parts in zip(self._parts, other._parts, strict=True)))

    @property
    def _parts(self) -> tuple[Array, Array, Array]:
        return self.codes, self.rows, self.clicks

    def only(self, features: Sequence[int]) -> Patterns:
        return self.group(self.codes[:, [*range(FIRST), *(FIRST + one for one in features)]], *self._parts[1:])

    def sort(self) -> Patterns:
        """Sorted, so that fits do not depend on the order in which results were read."""
        order = np.lexsort(_pack(self.codes))
        return Patterns(*(part[order] for part in self._parts))


def _pack(codes: Array) -> list[Array]:
    """Pack codes into words: one for position and grade, then one per 32 features."""
    words = [codes[:, 0].astype(np.uint64) | codes[:, 1].astype(np.uint64) << np.uint64(8)]
    for start in range(FIRST, codes.shape[1], _PER_WORD):
        word = np.zeros(len(codes), np.uint64)
        for place in range(min(_PER_WORD, codes.shape[1] - start)):
            word |= (codes[:, start + place] + 1).astype(np.uint64) << np.uint64(_BITS * place)
        words.append(word)
    return words


def _unpack(words: Sequence[Array], columns: int) -> Array:
    codes = np.zeros((len(words[0]), columns), np.int8)
    codes[:, 0], codes[:, 1] = words[0] & np.uint64(0xFF), words[0] >> np.uint64(8)
    for column in range(FIRST, columns):
        word, place = divmod(column - FIRST, _PER_WORD)
        codes[:, column] = (words[1 + word] >> np.uint64(_BITS * place) & _MASK).astype(np.int8) - 1
    return codes


NEVER, ALWAYS = "no result has it", "all results have it"
NO_CLICK = "none of the few results that have it was clicked"
ALL_CLICKED = "all of the few results that have it were clicked"
FOLLOWS = "follows from the features before it"
P_VALUE = 0.001  # features with a larger one are left out
_ALIASED = 1e-9  # the share of a column's sum of squares that earlier columns do not explain


@dataclass(frozen=True, eq=False)
class DesignMatrix:
    """Patterns and the names of their features.

    Indicators of positions and of grades both sum to 1, so the first grade has none.
    """

    patterns: Patterns
    names: tuple[str, ...]

    def only(self, names: Sequence[str]) -> DesignMatrix:
        if tuple(names) == self.names:
            return self
        return DesignMatrix(self.patterns.only([self.names.index(name) for name in names]), tuple(names))

    @cached_property
    def positions(self) -> list[tuple[int, ...]]:
        """Groups of positions that share a column."""
        return _levels(self.patterns, POSITION)

    @cached_property
    def grades(self) -> list[tuple[int, ...]]:
        """Groups of grades that share a column; the first group has none."""
        return _levels(self.patterns, GRADE)

    @property
    def start(self) -> int:
        return len(self.positions) + len(self.grades) - 1

    @cached_property
    def matrix(self) -> Array:
        """One row per pattern; all values are -1, 0 or 1."""
        return design_matrix(self.patterns.codes, self.positions, self.grades, slice(FIRST, None))

    def fit(self, start: Array | None = None) -> Fit:
        return fit(self.matrix, self.patterns.rows, self.patterns.clicks, start)

    def useless(self) -> dict[str, str]:
        """Features that cannot have a weight, and why."""
        reasons = {name: reason for name in self.names if (reason := self._uselessness(name))}
        others = self.only([name for name in self.names if name not in reasons])
        return reasons | dict.fromkeys(others.followers(), FOLLOWS)

    def _uselessness(self, name: str) -> str:
        values = self.patterns.codes[:, FIRST + self.names.index(name)]
        has = values != 0
        rows, clicks = (counts[has].sum() for counts in (self.patterns.rows, self.patterns.clicks))
        if rows == 0:
            return NEVER
        if (values == values[0]).all():
            return ALWAYS
        if 0 < clicks < rows:
            return ""
        # The probability that all results with this feature are clicked, or none, by position and relevance.
        scores = self.matrix[has, : self.start] @ self.only([]).fit().weights
        chance = np.exp(-self.patterns.rows[has] @ np.logaddexp(0, -scores if clicks else scores))
        return "" if chance < P_VALUE else ALL_CLICKED if clicks else NO_CLICK

    def followers(self) -> list[str]:
        """Features that are linear combinations of earlier columns."""
        squares = gram(self.matrix, self.patterns.rows)
        independent, followers = list(range(self.start)), []
        for column in range(self.start, len(squares)):
            among, along = squares[np.ix_(independent, independent)], squares[independent, column]
            rest = squares[column, column] - along @ np.linalg.lstsq(among, along, rcond=None)[0]
            if rest > _ALIASED * squares[column, column]:
                independent.append(column)
            else:
                followers.append(self.names[column - self.start])
        return followers


def _levels(patterns: Patterns, block: int) -> list[tuple[int, ...]]:
    """Groups of the codes that occur; one that was never clicked, or always, joins the one before it.

    Otherwise its best weight would be infinite.
    """
    rows = np.bincount(patterns.codes[:, block], patterns.rows)
    clicks = np.bincount(patterns.codes[:, block], patterns.clicks)

    def is_mixed(level: Sequence[int]) -> bool:
        return bool(0 < clicks[list(level)].sum() < rows[list(level)].sum())

    levels: list[tuple[int, ...]] = []
    for code in np.flatnonzero(rows).tolist():
        if levels and not (is_mixed(levels[-1]) and is_mixed([code])):
            levels[-1] = (*levels[-1], code)
        else:
            levels.append((code,))
    return levels
