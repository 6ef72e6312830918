"""One ranker's list unchanged: the lists of an A/B arm or of a holdout. Nothing is compared inside an impression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from interleaf.errors import MethodError, suggest
from interleaf.kernels.arrays import Array, EncodedRankings, Lengths, Parameters
from interleaf.kernels.jit import kernel
from interleaf.kernels.randomness import Randomness

if TYPE_CHECKING:
    from interleaf.interleaving.rankings import CheckedRankings


class SingleSettings(NamedTuple):
    ranker: int


def settings(lengths: Lengths, parameters: Parameters, exact: bool) -> SingleSettings:
    return SingleSettings(0)


def prepare(
    problem: CheckedRankings, names: list[Any], encoded: EncodedRankings, k: int, parameters: Parameters, exact: bool
) -> SingleSettings:
    name = parameters["ranker"]
    if name is not None and name not in problem.rankers:
        raise MethodError(f"single: no ranker is named {name!r}; there are {suggest(name, problem.rankers)}")
    return SingleSettings(0 if name is None else problem.rankers.index(name))


@kernel
def compose(
    encoded: EncodedRankings, k: int, randomness: Randomness, shown: Array, teams: Array, settings: SingleSettings
) -> int:
    count = min(k, encoded.depths[settings.ranker])
    for position in range(count):
        shown[position] = encoded.rankings[settings.ranker, position]
        teams[position] = settings.ranker
    return count
