"""Models of how people click on a shown list. Each can draw clicks, and give the exact distribution of click patterns.

Each model has one kernel, `click(inputs, randomness, clicks)`. Compiled, it draws clicks. With `Tree` as randomness, it
gives every pattern with its exact probability. The named models of the literature are rows of click and stop
probabilities by grade, for the cascade.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from interleaf import spec
from interleaf.errors import ClickError, MethodError, did_you_mean, join_names, suggest
from interleaf.interleaving.rankings import Document
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import kernel, plain, ready, reseed, start
from interleaf.kernels.randomness import Key, Randomness, Tree, key_names, key_of, pick_weighted, toss

_RELEASED = "the code released with O17"
_OLDER = f"{_RELEASED}, and an older framework for online evaluation"
_H11 = (
    "H11, sections 5.1 and 6.3: clicks follow from the text (.8 for the best grade, halved with every grade below); "
    "the stop probabilities are unverified: the text says no more than that they rise with the grade"
)


class ClickModel(ABC):
    """Clicks are ranks in the shown list, 1 = top, as `interleaf.credit` takes them."""

    kernel: ClassVar[Callable[..., None]]

    @abstractmethod
    def inputs(self, documents: Sequence[Document], exact: bool) -> Any:
        """The arguments of the kernel for a shown list, in floats or in fractions."""

    def sample(self, documents: Sequence[Document], key: Key | None = None) -> tuple[int, ...]:
        """The ranks that one person clicks; the same key gives the same clicks."""
        kernel = ready(type(self).kernel)
        clicks = np.zeros(len(documents), np.bool_)
        kernel(self.inputs(documents, exact=False), start(key_of(key), kernel), clicks)
        return _ranks(clicks)

    def sample_lists(self, lists: Sequence[Sequence[Document]], keys: Array, longest: int) -> Array:
        """Clicks `[row, position]`, `longest` positions wide: row i is `sample` with the two words of `keys[i]`."""
        clicks = np.zeros((len(lists), longest), np.bool_)
        for row, (documents, key) in enumerate(zip(lists, key_names(keys.astype("<u8").tobytes()), strict=True)):
            ranks = self.sample(documents, key)
            clicks[row, [rank - 1 for rank in ranks]] = True
        return clicks

    def distribution(self, documents: Sequence[Document]) -> dict[tuple[int, ...], Fraction]:
        """Every pattern of clicked ranks that can happen, with its exact probability."""
        kernel, inputs = plain(type(self).kernel), self.inputs(documents, exact=True)

        def click_once(randomness: Randomness) -> tuple[int, ...]:
            clicks = np.zeros(len(documents), np.bool_)
            kernel(inputs, randomness, clicks)
            return _ranks(clicks)

        patterns: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
        for probability, ranks in Tree().branches(click_once):
            patterns[ranks] += probability
        return dict(patterns)


class CascadeInputs(NamedTuple):
    """The shown documents' grades, and the model's tables by grade."""

    grades: Array
    click: Array
    stop: Array
    stop_needs_click: bool


@kernel
def click_cascade(inputs: CascadeInputs, randomness: Randomness, clicks: Array) -> None:
    """Read from the top, until the person stops."""
    for position in range(len(clicks)):
        grade = inputs.grades[position]
        clicks[position] = toss(randomness, inputs.click[grade])
        if (clicks[position] or not inputs.stop_needs_click) and toss(randomness, inputs.stop[grade]):
            break


@kernel
def _click_cascade_batch(inputs: CascadeInputs, counts: Array, keys: Array, clicks: Array) -> None:
    grades, click, stop, needs_click = inputs
    randomness: Any = np.zeros(3, np.uint64)
    for row in range(len(counts)):
        reseed(randomness, keys, row)
        count = counts[row]
        click_cascade(CascadeInputs(grades[row, :count], click, stop, needs_click), randomness, clicks[row, :count])


@dataclass(frozen=True)
class Cascade(ClickModel):
    """People read from the top, click and stop (H11; O17 Table 2); also called the dependent click model.

    `click` and `stop` are probabilities by grade 0, 1, 2, ...; a document without a grade has grade 0. People can stop
    after each click, and with `stop_needs_click=False` after each document.

    >>> person = Cascade(click=(0, 1), stop=(0, 1), grades={"good": 1})
    >>> person.distribution(["bad", "good", "worse"])
    {(2,): Fraction(1, 1)}
    """

    kernel = click_cascade
    click: Sequence[Any]
    stop: Sequence[Any]
    stop_needs_click: bool = True
    grades: Mapping[Any, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_table(self.click, "click")
        _check_table(self.stop, "stop")
        if len(self.click) != len(self.stop):
            raise ClickError(f"click knows {len(self.click)} grades and stop {len(self.stop)}; give both the same")

    def inputs(self, documents: Sequence[Document], exact: bool) -> CascadeInputs:
        grades = _grades_of(documents, self.grades, len(self.click))
        return CascadeInputs(grades, numbers(self.click, exact), numbers(self.stop, exact), self.stop_needs_click)

    def sample_batch(self, grades: Array, counts: Array, keys: Array) -> Array:
        """Clicks `[row, position]` on lists whose documents have these grades, with a key for each row."""
        _check_batch(grades, counts, len(self.click))
        clicks = np.zeros(grades.shape, np.bool_)
        inputs = CascadeInputs(grades, numbers(self.click, False), numbers(self.stop, False), self.stop_needs_click)
        _click_cascade_batch(inputs, counts, keys, clicks)
        return clicks


@kernel
def click_independent(inputs: Array, randomness: Randomness, clicks: Array) -> None:
    """Toss a coin for each position."""
    for position in range(len(clicks)):
        clicks[position] = toss(randomness, inputs[position])


@kernel
def _click_independent_batch(probabilities: Array, counts: Array, keys: Array, clicks: Array) -> None:
    randomness: Any = np.zeros(3, np.uint64)
    for row in range(len(counts)):
        reseed(randomness, keys, row)
        click_independent(probabilities[row, : counts[row]], randomness, clicks[row, : counts[row]])


@dataclass(frozen=True)
class Independent(ClickModel):
    """Each document is clicked on its own, with a probability that is a function of rank and document.

    >>> Independent(lambda rank, document: document == "good").distribution(["bad", "good"])
    {(2,): Fraction(1, 1)}
    """

    kernel = click_independent
    probability: Callable[[int, Document], Any]

    def inputs(self, documents: Sequence[Document], exact: bool) -> Array:
        probabilities = [self.probability(rank, document) for rank, document in enumerate(documents, 1)]
        check_probabilities(probabilities, "the click probabilities of the shown list")
        return numbers(probabilities, exact)


@dataclass(frozen=True)
class PositionBased(ClickModel):
    """A document is clicked if it is examined, which depends on the rank, and attractive, which depends on the grade.

    `examination` by rank, the last value for all ranks below; `attraction` by grade 0, 1, 2, ... With one attraction
    for all grades, clicks depend on the rank only.

    >>> PositionBased(examination=(1, 0.5), attraction=(0.5,)).distribution(["a", "b"])[(1, 2)]
    Fraction(1, 8)
    """

    kernel = click_independent
    examination: Sequence[Any]
    attraction: Sequence[Any]
    grades: Mapping[Any, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_table(self.examination, "examination")
        _check_table(self.attraction, "attraction")

    def inputs(self, documents: Sequence[Document], exact: bool) -> Array:
        grades = _grades_of(documents, self.grades, len(self.attraction))
        looks = numbers(_by_rank(self.examination, len(documents)), exact)
        return looks * numbers(self.attraction, exact)[grades]

    def sample_batch(self, grades: Array, counts: Array, keys: Array) -> Array:
        """Clicks `[row, position]` on lists whose documents have these grades, with a key for each row."""
        _check_batch(grades, counts, len(self.attraction))
        looks = numbers(_by_rank(self.examination, grades.shape[1]), False)
        clicks = np.zeros(grades.shape, np.bool_)
        probabilities = looks * numbers(self.attraction, False)[np.maximum(grades, 0)]
        _click_independent_batch(probabilities, counts, keys, clicks)
        return clicks


@kernel
def click_by_weight(inputs: Array, randomness: Randomness, clicks: Array) -> None:
    """Exactly one rank, if any of the shown ones has a weight."""
    is_clickable = False
    for position in range(len(clicks)):
        is_clickable = is_clickable or inputs[position] > 0
    if is_clickable:
        clicks[pick_weighted(randomness, inputs, len(clicks))] = True


@dataclass(frozen=True)
class OneClick(ClickModel):
    """One click, at a rank drawn by weight; the last weight holds for all ranks below it.

    No click if every shown rank has weight 0.

    >>> OneClick().distribution(["a", "b"])
    {(1,): Fraction(1, 2), (2,): Fraction(1, 2)}
    """

    kernel = click_by_weight
    weights: Sequence[Any] = (1,)

    def __post_init__(self) -> None:
        _check_weights(self.weights, "the weights of the ranks")

    def inputs(self, documents: Sequence[Document], exact: bool) -> Array:
        return numbers(_by_rank(self.weights, len(documents)), exact)


@kernel
def click_first_match(inputs: tuple[Array, Array], randomness: Randomness, clicks: Array) -> None:
    """The first document that serves the person's intent, if any does.

    `inputs` are the share of each intent, and whether a document serves it, `[intent, position]`.
    """
    shares, serves = inputs
    intent = pick_weighted(randomness, shares, len(shares))
    for position in range(len(clicks)):
        if serves[intent, position]:
            clicks[position] = True
            break


@dataclass(frozen=True)
class Intents(ClickModel):
    """An ambiguous query: each person has one intent, and clicks once, on the first document that serves it.

    `intents` are pairs: a share of the people, and the documents they want (C12 section 3.2: 49, 49 and 2 per cent).

    >>> people = Intents([(49, {"a"}), (49, {"b"}), (2, {"c"})])
    >>> people.distribution(["b", "c"])[(1,)]
    Fraction(49, 100)
    """

    kernel = click_first_match
    intents: Sequence[tuple[Any, Collection[Document]]]

    def __post_init__(self) -> None:
        _check_weights([share for share, _ in self.intents], "the shares of the intents")

    def inputs(self, documents: Sequence[Document], exact: bool) -> tuple[Array, Array]:
        serves = [[document in wants for document in documents] for _, wants in self.intents]
        return numbers([share for share, _ in self.intents], exact), np.array(serves, np.bool_)


def numbers(values: Sequence[Any], exact: bool) -> Array:
    """Numbers as kernels take them; a float counts as the decimal that it prints, so 0.1 is exactly a tenth."""
    if not exact:
        return np.array([float(value) for value in values])
    plain_values = [value.item() if isinstance(value, np.generic) else value for value in values]
    return np.array([Fraction(repr(one)) if isinstance(one, float) else Fraction(one) for one in plain_values], object)


def _ranks(clicks: Array) -> tuple[int, ...]:
    return tuple((np.flatnonzero(clicks) + 1).tolist())


def _by_rank(values: Sequence[Any], count: int) -> Sequence[Any]:
    """The value at each of `count` ranks; the last one holds for all ranks below it."""
    return [values[min(rank, len(values) - 1)] for rank in range(count)]


def check_probabilities(values: Sequence[Any], what: str) -> None:
    """Each value must lie between 0 and 1."""
    for value in values:
        if not 0 <= value <= 1:
            raise ClickError(f"{what} holds {value!r}, which is not a probability; give numbers from 0 to 1")


def _check_table(values: Sequence[Any], what: str) -> None:
    if not len(values):
        raise ClickError(f"{what} is empty; give at least one probability")
    check_probabilities(values, what)


def _check_weights(weights: Sequence[Any], what: str) -> None:
    if not len(weights) or not all(0 <= weight < float("inf") for weight in weights) or not sum(weights) > 0:
        raise ClickError(f"{what} are {tuple(weights)!r}; give numbers from 0 up, one of them above 0")


def _grades_of(documents: Sequence[Document], grades: Mapping[Any, int], count: int) -> Array:
    """The grade of each shown document, 0 if it has none; a grade that is not in the model's table is an error."""
    values = [grades.get(document, 0) for document in documents]
    for document, grade in zip(documents, values, strict=True):
        if not 0 <= grade < count:
            problem = f"document {document!r} has grade {grade!r}"
            raise ClickError(f"{problem}, but the click model knows grades 0 to {count - 1}")
    return np.array(values, np.int64)


def _check_batch(grades: Array, counts: Array, count: int) -> None:
    """Every grade of a batch, down to the end of each list, must be in the model's table: kernels do not check it."""
    shown = grades[np.arange(grades.shape[1]) < np.asarray(counts)[:, None]]
    if len(counts) != len(grades) or not np.issubdtype(grades.dtype, np.integer) or shown.min(initial=0) < 0:
        raise ClickError("a batch of clicks takes whole grades from 0 up, and how many documents each list shows")
    if shown.max(initial=0) >= count:
        raise ClickError(f"a document has grade {shown.max()}, but the click model knows grades 0 to {count - 1}")


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


def find_cascade(
    name: str, grades: int = 5, stop_needs_click: bool = True, judged: Mapping[Any, int] | None = None
) -> Cascade:
    """The cascade with this name; `judged` gives documents their grades.

    The name may be a spec that sets `grades` and `stop_needs_click`: what it sets wins over the arguments.

    >>> find_cascade("navigational(grades=3)", judged={"good": 2}).click
    (0.05, 0.5, 0.95)
    """
    settings: dict[str, Any] = {"grades": grades, "stop_needs_click": stop_needs_click}
    try:
        name, changed = spec.parse(name)
    except MethodError as error:
        raise ClickError(f"click table: {error}") from error
    for parameter in changed:
        if parameter not in settings:
            names = suggest(parameter, settings)
            raise ClickError(f"{name} has no parameter {parameter!r}; a click table knows {names}")
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
        remedy = f"known are {join_names(names)}, or build Cascade(click=..., stop=...){did_you_mean(name, names)}"
        raise ClickError(f"there is no click table {name!r}; {remedy}")
    for table in rows:
        if table.grades in (None, grades):
            return table
    table_grades = join_names(sorted(table.grades or 0 for table in rows))
    raise ClickError(
        f"the click table {name!r} is for {table_grades} grades, not {grades}; "
        "build Cascade(click=..., stop=...) for others"
    )


def _evenly(ends: Probabilities, grades: int) -> Probabilities:
    """Exact fractions, because most even steps have no short decimal."""
    low, high = numbers(ends, exact=True)
    return tuple(low + (high - low) * Fraction(grade, grades - 1) for grade in range(grades))
