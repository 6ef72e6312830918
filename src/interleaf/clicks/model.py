"""What every model of clicks can do: draw clicks on a shown list, and give the exact distribution of click patterns.

A model's kernel `click(inputs, chance, clicks)` is one source: compiled it samples, and walked by the tree of chance it
yields every pattern with its exact probability.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from interleaf.errors import ClickError
from interleaf.interleaving.rankings import Document
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import plain, ready, start
from interleaf.kernels.randomness import Key, Randomness, Tree, key_of


class ClickModel(ABC):
    """People in front of a result list; clicks are ranks in it, 1 = top, as `interleaf.credit` takes them."""

    kernel: ClassVar[Callable[..., None]]

    @abstractmethod
    def inputs(self, documents: Sequence[Document], exact: bool) -> Any:
        """What the kernel needs to know of a shown list, in floats or in fractions."""

    def sample(self, documents: Sequence[Document], key: Key | None = None) -> tuple[int, ...]:
        """The ranks that one person clicks; the same key gives the same clicks."""
        kernel = ready(type(self).kernel)
        clicks = np.zeros(len(documents), np.bool_)
        kernel(self.inputs(documents, exact=False), start(key_of(key), kernel), clicks)
        return _ranks(clicks)

    def sample_lists(self, lists: Sequence[Sequence[Document]], keys: Array, longest: int) -> Array:
        """Clicks `[row, position]`, `longest` positions wide: row i is `sample` with the two words of `keys[i]`."""
        clicks = np.zeros((len(lists), longest), np.bool_)
        for row, documents in enumerate(lists):
            ranks = self.sample(documents, f"k1:{keys[row].astype('<u8').tobytes().hex()}")
            clicks[row, [rank - 1 for rank in ranks]] = True
        return clicks

    def distribution(self, documents: Sequence[Document]) -> dict[tuple[int, ...], Fraction]:
        """Every pattern of clicked ranks that can happen, with its exact probability."""
        kernel, inputs = plain(type(self).kernel), self.inputs(documents, exact=True)

        def one_person(chance: Randomness) -> tuple[int, ...]:
            clicks = np.zeros(len(documents), np.bool_)
            kernel(inputs, chance, clicks)
            return _ranks(clicks)

        patterns: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
        for probability, ranks in Tree().branches(one_person):
            patterns[ranks] += probability
        return dict(patterns)


def _ranks(clicks: Array) -> tuple[int, ...]:
    return tuple((np.flatnonzero(clicks) + 1).tolist())


def check_probabilities(values: Sequence[Any], what: str) -> None:
    """Each value must lie between 0 and 1."""
    for value in values:
        if not 0 <= value <= 1:
            raise ClickError(f"{what} holds {value!r}, which is not a probability; give numbers from 0 to 1")


def check_table(values: Sequence[Any], what: str) -> None:
    """A table by rank or by grade: at least one probability."""
    if not len(values):
        raise ClickError(f"{what} is empty; give at least one probability")
    check_probabilities(values, what)


def numbers(values: Sequence[Any], exact: bool) -> Array:
    """Numbers as kernels take them; a float counts as the decimal it prints, so 0.1 is a tenth exactly."""
    if not exact:
        return np.array([float(value) for value in values])
    plain_values = [value.item() if isinstance(value, np.generic) else value for value in values]
    exact_values = [Fraction(repr(value)) if isinstance(value, float) else Fraction(value) for value in plain_values]
    return np.array(exact_values, object)


def grades_of(documents: Sequence[Document], grades: Mapping[Any, int], count: int) -> Array:
    """The grade of each shown document, 0 where it has none; one beyond the model's table is an error."""
    found = [grades.get(document, 0) for document in documents]
    for document, grade in zip(documents, found, strict=True):
        if not 0 <= grade < count:
            raise ClickError(
                f"document {document!r} has grade {grade!r}, but the click model knows grades 0 to {count - 1}"
            )
    return np.array(found, np.int64)


def check_batch(grades: Array, counts: Array, count: int) -> None:
    """Every grade of a batch, down to the end of each list, must be in the model's table: kernels do not look."""
    inside = np.arange(grades.shape[1]) < np.asarray(counts)[:, None]
    seen = grades[inside]
    if len(counts) != len(grades) or not np.issubdtype(grades.dtype, np.integer) or seen.min(initial=0) < 0:
        raise ClickError("a batch of clicks takes whole grades from 0 up, and how many documents each list shows")
    if seen.max(initial=0) >= count:
        raise ClickError(f"a document has grade {seen.max()}, but the click model knows grades 0 to {count - 1}")


def by_rank(values: Sequence[Any], count: int) -> Sequence[Any]:
    """The value at each of `count` ranks; the last one holds for all ranks below it."""
    return [values[min(rank, len(values) - 1)] for rank in range(count)]
