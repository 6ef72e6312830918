"""One ranker's list unchanged: the lists of an A/B bucket or of a holdout. Nothing is compared inside an impression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from interleaf.chance import Chance
from interleaf.compiled import given_at, kernel, seat
from interleaf.errors import MethodError, suggest
from interleaf.methods.arrays import Array, Given, Lengths

if TYPE_CHECKING:
    from interleaf.problem import Document, Problem


class Settings(NamedTuple):
    ranker: int


def settings(lengths: Lengths, parameters: Mapping[str, Any], exact: bool) -> Settings:
    return Settings(0)


def prepare(
    problem: Problem, names: list[Document], given: Given, size: int, parameters: Mapping[str, Any], exact: bool
) -> Settings:
    name = parameters["ranker"]
    if name is not None and name not in problem.rankers:
        raise MethodError(f"single: no ranker is named {name!r}; there are {suggest(name, problem.rankers)}")
    return Settings(0 if name is None else problem.rankers.index(name))


@kernel
def compose(given: Given, k: int, chance: Chance, shown: Array, teams: Array, settings: Settings) -> int:
    count = min(k, given.depths[settings.ranker])
    for position in range(count):
        shown[position] = given.rankings[settings.ranker, position]
        teams[position] = settings.ranker
    return count


@kernel
def compose_batch(
    given: Given, queries: Array, keys: Array, k: int, shown: Array, teams: Array, counts: Array, settings: Settings
) -> None:
    chance: Any = np.zeros(3, np.uint64)
    for row in range(len(queries)):
        seat(chance, keys, row)
        counts[row] = compose(given_at(given, queries[row]), k, chance, shown[row], teams[row], settings)
