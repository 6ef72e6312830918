"""Independent clicks: each shown document has its own coin; the position-based model and pure rank bias are such."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from interleaf.clicks.model import (
    ClickModel,
    by_rank,
    check_batch,
    check_probabilities,
    check_table,
    grades_of,
    numbers,
)
from interleaf.interleaving.rankings import Document
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import kernel, reseed
from interleaf.kernels.randomness import Randomness, toss


@kernel
def click(inputs: Array, chance: Randomness, clicks: Array) -> None:
    """A coin a position."""
    for position in range(len(clicks)):
        clicks[position] = toss(chance, inputs[position])


@kernel
def click_batch(probabilities: Array, counts: Array, keys: Array, clicks: Array) -> None:
    """One person a row of probabilities, by the chance of the row's key."""
    chance: Any = np.zeros(3, np.uint64)
    for row in range(len(counts)):
        reseed(chance, keys, row)
        click(probabilities[row, : counts[row]], chance, clicks[row, : counts[row]])


@dataclass(frozen=True)
class Independent(ClickModel):
    """Clicks with a probability that is a function of rank and document.

    >>> Independent(lambda rank, document: document == "good").distribution(["bad", "good"])
    {(2,): Fraction(1, 1)}
    """

    kernel = click
    probability: Callable[[int, Document], Any]

    def inputs(self, documents: Sequence[Document], exact: bool) -> Array:
        chances = [self.probability(rank, document) for rank, document in enumerate(documents, 1)]
        check_probabilities(chances, "the click probabilities of the shown list")
        return numbers(chances, exact)


@dataclass(frozen=True)
class PositionBased(ClickModel):
    """A click needs a look, which depends on the rank, and attraction, which depends on the grade.

    `examination` by rank, the last value for all ranks below; `attraction` by grade 0, 1, 2, ... One attraction for
    all is pure position bias: such clicks depend on the rank only.

    >>> PositionBased(examination=(1, 0.5), attraction=(0.5,)).distribution(["a", "b"])[(1, 2)]
    Fraction(1, 8)
    """

    kernel = click
    examination: Sequence[Any]
    attraction: Sequence[Any]
    grades: Mapping[Any, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_table(self.examination, "examination")
        check_table(self.attraction, "attraction")

    def inputs(self, documents: Sequence[Document], exact: bool) -> Array:
        grades = grades_of(documents, self.grades, len(self.attraction))
        looks = numbers(by_rank(self.examination, len(documents)), exact)
        return looks * numbers(self.attraction, exact)[grades]

    def sample_batch(self, grades: Array, counts: Array, keys: Array) -> Array:
        """Clicks `[row, position]` on lists whose documents have these grades, one key a row."""
        check_batch(grades, counts, len(self.attraction))
        looks = numbers(by_rank(self.examination, grades.shape[1]), False)
        clicks = np.zeros(grades.shape, np.bool_)
        click_batch(looks * numbers(self.attraction, False)[np.maximum(grades, 0)], counts, keys, clicks)
        return clicks
