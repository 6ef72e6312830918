"""The named click models of the literature: each is a row of click and stop probabilities by grade, for the cascade."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from interleaf import spec
from interleaf.clicks.click_models import Cascade, numbers
from interleaf.errors import ClickError, MethodError, did_you_mean, join_names, suggest

Probabilities = tuple[float | Fraction, ...]


@dataclass(frozen=True)
class ClickTable:
    """One row: probabilities by grade 0, 1, 2, ...

    A row for any number of grades (None) has the probabilities of the lowest and of the best grade; those between are
    interpolated linearly.
    """

    name: str
    grades: int | None
    click: Probabilities
    stop: Probabilities
    source: str

    def by_grade(self, grades: int) -> tuple[Probabilities, Probabilities]:
        """Click and stop probabilities for this many grades."""
        if self.grades is not None:
            return self.click, self.stop
        return _evenly(self.click, grades), _evenly(self.stop, grades)


_RELEASED = "the code released with O17"
_OLDER = f"{_RELEASED}, and an older framework for online evaluation"
_H11 = (
    "H11, sections 5.1 and 6.3: clicks follow from the text (.8 for the best grade, halved with every grade below); "
    "the stop probabilities are unverified: the text says no more than that they rise with the grade"
)

TABLES = (
    ClickTable("perfect", 5, (0, 0.2, 0.4, 0.8, 1), (0, 0, 0, 0, 0), f"O17, Table 2; {_RELEASED}"),
    ClickTable("perfect", 3, (0, 0.5, 1), (0, 0, 0), _OLDER),
    ClickTable("perfect", 2, (0, 1), (0, 0), _OLDER),
    ClickTable(
        "perfect_linear", None, (0, 1), (0, 0), 'H12h, in words: clicks rise "linearly" with the grade, no stop'
    ),
    ClickTable("realistic", 5, (0.05, 0.1, 0.2, 0.4, 0.8), (0, 0.2, 0.4, 0.6, 0.8), _H11),
    ClickTable("realistic", 3, (0.05, 0.2, 0.8), (0, 0.4, 0.8), _H11),
    ClickTable("realistic", 2, (0.05, 0.8), (0, 0.8), _H11),
    ClickTable("navigational", 5, (0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9), f"O17, Table 2; {_RELEASED}"),
    ClickTable("navigational", 3, (0.05, 0.5, 0.95), (0.2, 0.5, 0.9), _OLDER),
    ClickTable("navigational", 2, (0.05, 0.95), (0.2, 0.9), _OLDER),
    ClickTable("informational", 5, (0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5), f"O17, Table 2; {_RELEASED}"),
    ClickTable("informational", 3, (0.4, 0.7, 0.9), (0.1, 0.3, 0.5), _OLDER),
    ClickTable("informational", 2, (0.4, 0.9), (0.1, 0.5), _OLDER),
    ClickTable("almost_random", None, (0.4, 0.6), (0.5, 0.5), _RELEASED),
    ClickTable("random", None, (0.5, 0.5), (0, 0), _RELEASED),
)


def named(
    name: str, grades: int = 5, stop_needs_click: bool = True, judged: Mapping[Any, int] | None = None
) -> Cascade:
    """The cascade with this name; `judged` gives documents their grades.

    The name may be a spec that sets `grades` and `stop_needs_click`: what it sets wins over the arguments.

    >>> named("navigational(grades=3)", judged={"good": 2}).click
    (0.05, 0.5, 0.95)
    """
    settings: dict[str, Any] = {"grades": grades, "stop_needs_click": stop_needs_click}
    try:
        name, changed = spec.parse(name)
    except MethodError as error:
        raise ClickError(f"click table: {error}") from error
    for parameter in changed:
        if parameter not in settings:
            known = suggest(parameter, settings)
            raise ClickError(f"{name} has no parameter {parameter!r}; a click table knows {known}")
    grades, stop_needs_click = (settings | changed).values()
    if type(grades) is not int or grades < 2:
        raise ClickError(f"{name}: the number of grades cannot be {grades!r}; give a whole number from 2 up")
    if type(stop_needs_click) is not bool:
        raise ClickError(f"{name}: stop_needs_click cannot be {stop_needs_click!r}; give True or False")
    click, stop = _row(name, grades).by_grade(grades)
    return Cascade(click, stop, stop_needs_click, judged or {})


def scale_of(max_grade: int) -> int:
    """The number of grades of the scale; a small sample may lack the best grade, so `max_grade` is not enough."""
    sizes = [table.grades for table in TABLES if table.grades is not None and table.grades > max_grade]
    return min(sizes, default=max_grade + 1)


def _row(name: str, grades: int) -> ClickTable:
    rows = [table for table in TABLES if table.name == name]
    if not rows:
        names = list(dict.fromkeys(table.name for table in TABLES))
        known = f"known are {join_names(names)}, or build Cascade(click=..., stop=...){did_you_mean(name, names)}"
        raise ClickError(f"there is no click table {name!r}; {known}")
    for table in rows:
        if table.grades in (None, grades):
            return table
    known = join_names(sorted(table.grades or 0 for table in rows))
    raise ClickError(
        f"the click table {name!r} is for {known} grades, not {grades}; build Cascade(click=..., stop=...) for others"
    )


def _evenly(ends: Probabilities, grades: int) -> Probabilities:
    """Exact fractions, because most even steps have no short decimal."""
    low, high = numbers(ends, exact=True)
    return tuple(low + (high - low) * Fraction(grade, grades - 1) for grade in range(grades))
