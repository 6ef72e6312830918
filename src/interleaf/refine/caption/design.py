"""The design matrix of a model: columns for positions and grades, then one a feature, over patterns of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interleaf.methods.arrays import Array
from interleaf.refine.caption.features import FIRST, GRADE, POSITION
from interleaf.refine.caption.logistic import Fit, fit, gram
from interleaf.refine.caption.patterns import Patterns

NEVER, ALWAYS = "no result has it", "all results have it"
NO_CLICK = "none of the few results that have it was clicked"
ALL_CLICKED = "all of the few results that have it were clicked"
FOLLOWS = "follows from the features before it"
P_VALUE = 0.001  # features with a larger one are left out
_ALIASED = 1e-9  # of a column's square, what is left of it after those before it are taken out


@dataclass(frozen=True, eq=False)
class Design:
    """Patterns whose features are these, by name. Both blocks of indicators sum to one, so the first grade has none."""

    patterns: Patterns
    names: tuple[str, ...]

    def only(self, names: Sequence[str]) -> Design:
        """With these features alone."""
        return Design(self.patterns.only([self.names.index(name) for name in names]), tuple(names))

    @cached_property
    def positions(self) -> list[tuple[int, ...]]:
        """The positions that have a column together."""
        return _levels(self.patterns, POSITION)

    @cached_property
    def grades(self) -> list[tuple[int, ...]]:
        """The grades that have a column together; the first of these has none."""
        return _levels(self.patterns, GRADE)

    @property
    def start(self) -> int:
        """The column of the first feature."""
        return len(self.positions) + len(self.grades) - 1

    @cached_property
    def matrix(self) -> Array:
        """A row a pattern; all values are -1, 0 or 1."""
        codes = self.patterns.codes
        blocks = [(POSITION, level) for level in self.positions] + [(GRADE, level) for level in self.grades[1:]]
        made = np.empty((len(codes), len(blocks) + len(self.names)), np.int8)
        for column, (block, level) in enumerate(blocks):
            made[:, column] = np.isin(codes[:, block], level)
        made[:, len(blocks) :] = codes[:, FIRST:]
        return made

    def fit(self, start: Array | None = None) -> Fit:
        """The weights of all columns."""
        return fit(self.matrix, self.patterns.rows, self.patterns.clicks, start)

    def useless(self) -> dict[str, str]:
        """Features that cannot have a weight of their own, and why."""
        found = {name: reason for name in self.names if (reason := self._uselessness(name))}
        left = self.only([name for name in self.names if name not in found])
        return found | dict.fromkeys(left.followers(), FOLLOWS)

    def _uselessness(self, name: str) -> str:
        values = self.patterns.codes[:, FIRST + self.names.index(name)]
        has = values != 0
        rows, clicks = (counts[has].sum() for counts in (self.patterns.rows, self.patterns.clicks))
        if rows == 0:
            return NEVER
        if (values == values[0]).all():
            return ALWAYS
        if 0 < clicks < rows or self._chance_of_all(has, clicks > 0) < P_VALUE:
            return ""
        return ALL_CLICKED if clicks else NO_CLICK

    def _chance_of_all(self, has: Array, clicked: bool) -> float:
        """How likely all results of these patterns are clicked, or none, where position and relevance alone decide."""
        scores = self.matrix[has, : self.start] @ self.only([]).fit().weights
        return float(np.exp(-self.patterns.rows[has] @ np.logaddexp(0, -scores if clicked else scores)))

    def followers(self) -> list[str]:
        """Features that follow from columns before them."""
        squares = gram(self.matrix, self.patterns.rows)
        kept, found = list(range(self.start)), []
        for column in range(self.start, len(squares)):
            among, along = squares[np.ix_(kept, kept)], squares[kept, column]
            left = squares[column, column] - along @ np.linalg.lstsq(among, along, rcond=None)[0]
            if left > _ALIASED * squares[column, column]:
                kept.append(column)
            else:
                found.append(self.names[column - self.start])
        return found


def _levels(patterns: Patterns, block: int) -> list[tuple[int, ...]]:
    """Codes that occur, each alone; one that was never clicked, or always, joins the one before it.

    Alone, its best weight would be infinite.
    """
    rows = np.bincount(patterns.codes[:, block], patterns.rows)
    clicks = np.bincount(patterns.codes[:, block], patterns.clicks)

    def is_mixed(level: Sequence[int]) -> bool:
        return bool(0 < clicks[list(level)].sum() < rows[list(level)].sum())

    found: list[tuple[int, ...]] = []
    for code in np.flatnonzero(rows).tolist():
        if found and not (is_mixed(found[-1]) and is_mixed([code])):
            found[-1] = (*found[-1], code)
        else:
            found.append((code,))
    return found
