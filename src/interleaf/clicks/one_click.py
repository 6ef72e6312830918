"""One click an impression: at a rank drawn by weight, or on the first document that the person's intent asks for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from interleaf.clicks.model import ClickModel, by_rank, numbers
from interleaf.errors import ClickError
from interleaf.interleaving.rankings import Document
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import kernel
from interleaf.kernels.randomness import Randomness, pick_weighted


@kernel
def click_by_weight(inputs: Array, chance: Randomness, clicks: Array) -> None:
    """Exactly one rank, if any of the shown ones has a weight."""
    is_clickable = False
    for position in range(len(clicks)):
        is_clickable = is_clickable or inputs[position] > 0
    if is_clickable:
        clicks[pick_weighted(chance, inputs, len(clicks))] = True


@dataclass(frozen=True)
class OneClick(ClickModel):
    """One click, at a rank drawn by weight; the last weight holds for all ranks below it.

    No click where every shown rank has weight 0.

    >>> OneClick().distribution(["a", "b"])
    {(1,): Fraction(1, 2), (2,): Fraction(1, 2)}
    """

    kernel = click_by_weight
    weights: Sequence[Any] = (1,)

    def __post_init__(self) -> None:
        _check_weights(self.weights, "the weights of the ranks")

    def inputs(self, documents: Sequence[Document], exact: bool) -> Array:
        return numbers(by_rank(self.weights, len(documents)), exact)


class Wants(NamedTuple):
    """How common each intent is, and `wanted[intent, position]`."""

    shares: Array
    wanted: Array


@kernel
def click_first_wanted(inputs: Wants, chance: Randomness, clicks: Array) -> None:
    """The first document that serves the person's intent, if any does."""
    intent = pick_weighted(chance, inputs.shares, len(inputs.shares))
    for position in range(len(clicks)):
        if inputs.wanted[intent, position]:
            clicks[position] = True
            break


@dataclass(frozen=True)
class Intents(ClickModel):
    """An ambiguous query: each person has one intent, and clicks once, on the first document that serves it.

    `intents` pairs a share of the people with the documents they want (C12 section 3.2: 49, 49 and 2 per cent).

    >>> people = Intents([(49, {"a"}), (49, {"b"}), (2, {"c"})])
    >>> people.distribution(["b", "c"])[(1,)]
    Fraction(49, 100)
    """

    kernel = click_first_wanted
    intents: Sequence[tuple[Any, Collection[Document]]]

    def __post_init__(self) -> None:
        _check_weights([share for share, _ in self.intents], "the shares of the intents")

    def inputs(self, documents: Sequence[Document], exact: bool) -> Wants:
        wanted = [[document in wants for document in documents] for _, wants in self.intents]
        return Wants(numbers([share for share, _ in self.intents], exact), np.array(wanted, np.bool_))


def _check_weights(weights: Sequence[Any], what: str) -> None:
    if not len(weights) or not all(0 <= weight < float("inf") for weight in weights) or not sum(weights) > 0:
        raise ClickError(f"{what} are {tuple(weights)!r}; give numbers from 0 up, one of them above 0")
