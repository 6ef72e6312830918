"""Many rankers: who beats whom and how surely, who beats everyone (Condorcet), how many each beats (Copeland)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.stats.compare import Estimate
from interleaf.stats.cycles import Cycle, cycles
from interleaf.stats.pairs import matrix, pairs
from interleaf.stats.sums import significance


@dataclass(frozen=True)
class Standing:
    """Where each ranker stands among the others.

    `preference[i][j]` above 0: i beats j, by this estimate, None where there is none; `significant[i][j]`: surely so,
    or surely not. `copeland` counts pairs won less pairs lost. `condorcet` surely beats every other ranker; if there is
    none, `reason` says why. `cycles` are those of the estimates.
    """

    rankers: tuple[str, ...]
    preference: tuple[tuple[float | None, ...], ...]
    significant: tuple[tuple[bool, ...], ...]
    copeland: tuple[int, ...]
    condorcet: str | None
    cycles: tuple[Cycle, ...]
    reason: str = ""


def standing(
    rankers: Sequence[str],
    estimates: Sequence[Estimate],
    adjusted_p_values: Sequence[float | None],
    confidence: float = 0.95,
) -> Standing:
    """From estimates of all pairs, in the order of `pairs`, and their p-values, adjusted for many.

    >>> from interleaf.stats.compare import estimates
    >>> found = estimates(np.array([[3, 4, 1], [2, 4, 1], [2, 3, 2]] * 9), np.full(27, 5))
    >>> standing(["A", "B", "C"], found, [found.p_value for found in found]).condorcet
    'A'
    """
    count = len(pairs(len(rankers))[0])
    if not count == len(estimates) == len(adjusted_p_values):
        raise DataError(
            f"{len(rankers)} rankers make {count} pairs, but there are {len(estimates)} estimates and "
            f"{len(adjusted_p_values)} p-values; give one of each a pair"
        )
    values = np.array([found.value if found.value is not None else np.nan for found in estimates], np.float64)
    level = significance(confidence)
    marks = matrix(np.array([p_value is not None and p_value <= level for p_value in adjusted_p_values])) != 0
    preference = matrix(values)
    beats = preference > 0
    best = np.flatnonzero((beats & marks).sum(axis=1) == len(rankers) - 1)
    return Standing(
        rankers=tuple(rankers),
        preference=tuple(tuple(None if np.isnan(one) else float(one) for one in row) for row in preference),
        significant=tuple(tuple(map(bool, row)) for row in marks),
        copeland=tuple(int(score) for score in beats.sum(axis=1) - beats.sum(axis=0)),
        condorcet=rankers[best[0]] if len(best) else None,
        cycles=cycles(rankers, beats),
        reason="" if len(best) else _reason(rankers, values),
    )


def _reason(rankers: Sequence[str], values: Array) -> str:
    missing = np.flatnonzero(np.isnan(values))
    if len(missing):
        first, second = (part[missing[0]] for part in pairs(len(rankers)))
        return f"there is no estimate of {rankers[first]!r} against {rankers[second]!r}"
    return "no ranker surely beats all others"
