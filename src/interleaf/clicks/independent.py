"""Independent clicks: each shown document has its own coin; the position-based model and pure rank bias are such."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interleaf.chance import Chance, toss
from interleaf.clicks.model import ClickModel, by_rank, check_probabilities, check_table, grades_of, numbers
from interleaf.compiled import kernel
from interleaf.methods.arrays import Array
from interleaf.problem import Document


@kernel
def click(inputs: Array, chance: Chance, clicks: Array) -> None:
    """A coin a position."""
    for position in range(len(clicks)):
        clicks[position] = toss(chance, inputs[position])


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
