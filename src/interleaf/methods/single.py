"""One ranker's list unchanged: the lists of an A/B bucket or of a holdout. Nothing is compared inside an impression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from interleaf.errors import MethodError, suggest
from interleaf.kernels.arrays import Array, EncodedRankings, Lengths
from interleaf.kernels.jit import kernel, rankings_at, reseed
from interleaf.kernels.randomness import Randomness

if TYPE_CHECKING:
    from interleaf.interleaving.rankings import CheckedRankings, Document


class Settings(NamedTuple):
    ranker: int


def settings(lengths: Lengths, parameters: Mapping[str, Any], exact: bool) -> Settings:
    return Settings(0)


def prepare(
    problem: CheckedRankings,
    names: list[Document],
    given: EncodedRankings,
    size: int,
    parameters: Mapping[str, Any],
    exact: bool,
) -> Settings:
    name = parameters["ranker"]
    if name is not None and name not in problem.rankers:
        raise MethodError(f"single: no ranker is named {name!r}; there are {suggest(name, problem.rankers)}")
    return Settings(0 if name is None else problem.rankers.index(name))


@kernel
def compose(given: EncodedRankings, k: int, chance: Randomness, shown: Array, teams: Array, settings: Settings) -> int:
    count = min(k, given.depths[settings.ranker])
    for position in range(count):
        shown[position] = given.rankings[settings.ranker, position]
        teams[position] = settings.ranker
    return count


@kernel
def compose_batch(
    given: EncodedRankings,
    queries: Array,
    keys: Array,
    k: int,
    shown: Array,
    teams: Array,
    counts: Array,
    settings: Settings,
) -> None:
    chance: Any = np.zeros(3, np.uint64)
    for row in range(len(queries)):
        reseed(chance, keys, row)
        counts[row] = compose(rankings_at(given, queries[row]), k, chance, shown[row], teams[row], settings)
