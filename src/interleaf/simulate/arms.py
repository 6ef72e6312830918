"""Who sees which kind of list: interleaved, a holdout with the control unchanged, or an A/B bucket of one ranker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from interleaf.chance import bytes_of, key_of
from interleaf.errors import DataError, listed
from interleaf.methods import single
from interleaf.methods.arrays import Array
from interleaf.methods.table import Chosen, unchanged
from interleaf.schema import FALLBACK, HOLDOUT, INTERLEAVED


class Arm(NamedTuple):
    """A share of the units, and how their lists are composed."""

    name: str
    share: float
    chosen: Chosen
    settings: Any


def arms_of(shares: Mapping[str, float], rankers: Sequence[str], chosen: Chosen, settings: Any) -> tuple[Arm, ...]:
    """The arms, the interleaved one first: it has what the others leave. The holdout shows the first ranker's list."""
    for ranker in rankers:
        if ranker in (INTERLEAVED, HOLDOUT, FALLBACK):
            raise DataError(f"a ranker cannot be named {ranker!r}: that is the name of an arm; give it another name")
    for name, share in shares.items():
        if name != HOLDOUT and name not in rankers:
            raise DataError(f"there can be no arm {name!r}; an arm is {listed([HOLDOUT, *rankers])}")
        if not 0 <= share <= 1:
            raise DataError(f"arm {name!r} has the share {share!r}; give a number from 0 to 1")
    left = 1 - sum(shares.values())
    if left < -1e-9:
        raise DataError(f"the arms {dict(shares)!r} take more than all units; give shares that sum to at most 1")
    others = [_single(name, share, rankers) for name, share in shares.items()]
    return Arm(INTERLEAVED, max(left, 0.0), chosen, settings), *others


def _single(name: str, share: float, rankers: Sequence[str]) -> Arm:
    ranker = rankers[0] if name == HOLDOUT else name
    return Arm(name, share, unchanged(ranker), single.Settings(rankers.index(ranker)))


def assign(arms: Sequence[Arm], salt: str, units: Sequence[str]) -> Array:
    """The number of each unit's arm, by a hash of its name with a salt of its own."""
    if len(arms) == 1:
        return np.zeros(len(units), np.int64)
    digests = b"".join([bytes_of(key_of((salt, "arm", unit))) for unit in units])
    places = np.frombuffer(digests, "<u8")[::2] / 2.0**64
    edges = np.cumsum([arm.share for arm in arms])[:-1]
    found: Array = np.searchsorted(edges, places, side="right")
    return found
