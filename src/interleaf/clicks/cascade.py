"""The cascade, or dependent click model (H11; O17 Table 2): read from the top, click by grade, stop by grade.

After a click the person stops with a probability that depends on the grade; with `stop_needs_click=False` the stop
coin is tossed after every document that was read, clicked or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from interleaf.clicks.model import ClickModel, check_batch, check_table, grades_of, numbers
from interleaf.errors import ClickError
from interleaf.interleaving.rankings import Document
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import kernel, reseed
from interleaf.kernels.randomness import Randomness, toss


class Inputs(NamedTuple):
    """The shown documents' grades, and the model's tables by grade."""

    grades: Array
    click: Array
    stop: Array
    stop_needs_click: bool


@kernel
def click(inputs: Inputs, chance: Randomness, clicks: Array) -> None:
    """Read down the list until the stop coin ends it."""
    for position in range(len(clicks)):
        grade = inputs.grades[position]
        clicks[position] = toss(chance, inputs.click[grade])
        if (clicks[position] or not inputs.stop_needs_click) and toss(chance, inputs.stop[grade]):
            break


@kernel
def click_batch(
    grades: Array, counts: Array, keys: Array, click_by: Array, stop_by: Array, needs: bool, clicks: Array
) -> None:
    """One person a row of grades, by the chance of the row's key."""
    chance: Any = np.zeros(3, np.uint64)
    for row in range(len(counts)):
        reseed(chance, keys, row)
        count = counts[row]
        click(Inputs(grades[row, :count], click_by, stop_by, needs), chance, clicks[row, :count])


@dataclass(frozen=True)
class Cascade(ClickModel):
    """Click and stop probabilities by grade 0, 1, 2, ...; a document without a grade has grade 0.

    >>> person = Cascade(click=(0, 1), stop=(0, 1), grades={"good": 1})
    >>> person.distribution(["bad", "good", "worse"])
    {(2,): Fraction(1, 1)}
    """

    kernel = click
    click: Sequence[Any]
    stop: Sequence[Any]
    stop_needs_click: bool = True
    grades: Mapping[Any, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_table(self.click, "click")
        check_table(self.stop, "stop")
        if len(self.click) != len(self.stop):
            raise ClickError(f"click knows {len(self.click)} grades and stop {len(self.stop)}; give both the same")

    def inputs(self, documents: Sequence[Document], exact: bool) -> Inputs:
        grades = grades_of(documents, self.grades, len(self.click))
        return Inputs(grades, numbers(self.click, exact), numbers(self.stop, exact), self.stop_needs_click)

    def sample_batch(self, grades: Array, counts: Array, keys: Array) -> Array:
        """Clicks `[row, position]` on lists whose documents have these grades, one key a row."""
        check_batch(grades, counts, len(self.click))
        clicks = np.zeros(grades.shape, np.bool_)
        tables = numbers(self.click, False), numbers(self.stop, False)
        click_batch(grades, counts, keys, *tables, self.stop_needs_click, clicks)
        return clicks
