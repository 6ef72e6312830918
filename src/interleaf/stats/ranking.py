"""Statistics of many rankers: pairs, cycles, Copeland scores, Bradley-Terry strengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.kernels.arrays import pairs as pairs
from interleaf.stats.bootstrap import intervals
from interleaf.stats.compare import Estimate
from interleaf.stats.sums import Interval, significance


def pair_sums(by_ranker: Array) -> Array:
    """Sums of pairs from sums of rankers `[bucket, ranker]`, for schemes that are linear in credit.

    >>> pair_sums(np.array([[3, 1, 0]]))
    array([[2, 3, 1]])
    """
    first, second = pairs(by_ranker.shape[1])
    sums: Array = by_ranker[:, first] - by_ranker[:, second]
    return sums


def matrix(values: Array) -> Array:
    """An antisymmetric matrix, or several, from values of pairs `[..., pair]`.

    >>> matrix(np.array([0.5, -0.25, 0.0]))
    array([[ 0.  ,  0.5 , -0.25],
           [-0.5 ,  0.  ,  0.  ],
           [ 0.25, -0.  ,  0.  ]])
    """
    values = np.asarray(values, np.float64)
    rankers = (1 + math.isqrt(1 + 8 * values.shape[-1])) // 2
    if rankers * (rankers - 1) // 2 != values.shape[-1]:
        raise DataError(f"{values.shape[-1]} values are not those of all pairs of some rankers; give 1, 3, 6, 10, ...")
    first, second = pairs(rankers)
    square = np.zeros((*values.shape[:-1], rankers, rankers))
    square[..., first, second], square[..., second, first] = values, -values
    return square


Cycle = tuple[str, ...]


def cycles(rankers: Sequence[str], beats: Array) -> tuple[Cycle, ...]:
    """All cycles of three rankers; if there are none, one cycle for each group of rankers that beat each other.

    `beats[i, j]`: the ranker i beats j. A cycle starts with the ranker that is first in `rankers`.

    >>> beats = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], bool)
    >>> cycles(["A", "B", "C"], beats)
    (('A', 'B', 'C'),)
    """
    count = len(rankers)
    triples: list[tuple[int, ...]] = [
        (a, b, c)
        for a in range(count)
        for b, c in permutations(range(a + 1, count), 2)
        if beats[a, b] and beats[b, c] and beats[c, a]
    ]
    found = triples or [_shortest(group[0], beats) for group in groups(beats) if len(group) > 1]
    return tuple(tuple(rankers[place] for place in cycle) for cycle in found)


def sentence(cycle: Cycle) -> str:
    """The cycle in words.

    >>> sentence(("A", "B", "C"))
    'A beats B beats C beats A'
    """
    return " beats ".join([*cycle, cycle[0]])


def groups(beats: Array) -> list[list[int]]:
    """Strongly connected groups: within a group, each ranker beats each other one directly or through others."""
    reach = beats.astype(bool) | np.eye(len(beats), dtype=bool)
    for _ in range(len(beats).bit_length()):
        reach = (reach.astype(np.int64) @ reach.astype(np.int64)) > 0
    mutual = reach & reach.T
    return [
        [int(other) for other in np.flatnonzero(mutual[place])]
        for place in range(len(beats))
        if not mutual[place, :place].any()
    ]


def _shortest(start: int, beats: Array) -> tuple[int, ...]:
    """A shortest cycle through a ranker, by breadth-first search."""
    ways: list[tuple[int, ...]] = [(start,)]
    seen = {start}
    while True:
        longer: list[tuple[int, ...]] = []
        for way in ways:
            if beats[way[-1], start]:
                return way
            for place in np.flatnonzero(beats[way[-1]]):
                if int(place) not in seen:
                    seen.add(int(place))
                    longer.append((*way, int(place)))
        ways = longer


@dataclass(frozen=True)
class Standing:
    """The standing of each ranker among the others.

    `preference[i][j]` is the estimate of i over j, None if there is none; `significant[i][j]` says whether it is
    significant. `copeland` is pairs won minus pairs lost. `condorcet` is the ranker that beats every other one
    significantly; if there is none, `reason` says why. `cycles` are computed from the estimates.
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
    """The standing, from estimates of all pairs, in the order of `pairs`, and their adjusted p-values.

    >>> from interleaf.stats.compare import estimates
    >>> found = estimates(np.array([[3, 4, 1], [2, 4, 1], [2, 3, 2]] * 9), np.full(27, 5))
    >>> standing(["A", "B", "C"], found, [one.p_value for one in found]).condorcet
    'A'
    """
    count = len(pairs(len(rankers))[0])
    if not count == len(estimates) == len(adjusted_p_values):
        raise DataError(
            f"{len(rankers)} rankers make {count} pairs, but there are {len(estimates)} estimates and "
            f"{len(adjusted_p_values)} p-values; give one of each per pair"
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


STEPS, STEP = 100, 2.0  # maximum number of Newton steps, and maximum size of a step
CLOSE = 1e-7  # size of a last step: the next one would be about its square
ROOM = 2**19  # numbers held by a batch of fits


@dataclass(frozen=True)
class Strengths:
    """The strength of each ranker, and its bootstrap interval; if they are None, `reason` says why."""

    values: tuple[float, ...] | None
    intervals: tuple[Interval, ...] | None
    reason: str = ""


def strengths(
    rankers: Sequence[str],
    values: Array,
    impressions: int,
    means: Array | None = None,
    signs: bool = True,
    confidence: float = 0.95,
) -> Strengths:
    """Bradley-Terry strengths from the mean scores of all pairs, in the order of `pairs`, over the same impressions.

    The share of wins is (1 + D) / 2: if scores are signs, this is wins and half the ties. For other scores
    (`signs=False`), the same formula is used, and shares stay half an impression away from 0 and 1. Intervals come from
    `means[resample, pair]` of `bootstrap.resample`, whose shares also stay away from 0 and 1.

    >>> strengths(["A", "B"], np.array([0.5]), impressions=100).values  # 75 wins, 25 losses: odds of 3
    (0.549, -0.549)
    """
    if impressions < 1:
        return Strengths(None, None, "no impression with an event")
    shares = _shares(np.asarray(values, np.float64), 0.0 if signs else 0.5 / impressions)
    if len(shares) != len(rankers):
        raise DataError(f"{len(rankers)} rankers are not those of {np.size(values)} pairs; give one value per pair")
    reason = separation(rankers, shares)
    if reason:
        return Strengths(None, None, reason)
    fitted = bradley_terry(shares)
    found = tuple(float(strength) for strength in fitted)
    if means is None or not len(means):
        return Strengths(found, None, "" if means is None else "no resamples")
    return Strengths(found, intervals(_resampled(means, 0.5 / impressions, fitted), confidence))


def separation(rankers: Sequence[str], wins: Array) -> str:
    """Why no finite strengths fit: rankers were never compared, or never lost to the others; '' if strengths fit.

    >>> separation(["A", "B"], np.array([[0, 3], [0, 0]]))
    "no strength fits: 'A' never lost to the others"
    """
    together = groups((wins + wins.T) > 0)
    if len(together) > 1:
        return f"no strength fits: {_named(rankers, together[0])} never met the others"
    apart = groups(wins > 0)
    if len(apart) == 1:
        return ""
    top = next(group for group in apart if not np.delete(wins[:, group], group, axis=0).any())
    return f"no strength fits: {_named(rankers, top)} never lost to the others"


def bradley_terry(wins: Array, start: Array | None = None) -> Array:
    """The strengths that maximise the likelihood of `wins[..., i, j]`, for which `separation` returns ''.

    >>> bradley_terry(np.array([[0, 3], [1, 0]]))
    array([ 0.549, -0.549])
    """
    wins = np.asarray(wins, np.float64)
    met, count = wins + np.swapaxes(wins, -1, -2), wins.shape[-1]
    found = np.zeros(wins.shape[:-1]) if start is None else np.broadcast_to(start, wins.shape[:-1]).copy()
    for _ in range(STEPS):
        expected = 1 / (1 + np.exp(found[..., None, :] - found[..., :, None]))
        slope = (wins - met * expected).sum(axis=-1)
        curvature = -met * expected * (1 - expected)
        diagonal = np.arange(count)
        curvature[..., diagonal, diagonal] = 0.0
        curvature[..., diagonal, diagonal] = -curvature.sum(axis=-1)
        # A common shift of all strengths changes nothing; a constant makes the matrix invertible, and causes no shift.
        scale = curvature[..., diagonal, diagonal].mean(axis=-1)[..., None, None] / count
        step = np.linalg.solve(curvature + scale, slope[..., None])[..., 0]
        found += np.clip(step, -STEP, STEP)
        if np.abs(step).max(initial=0.0) < CLOSE:
            centred: Array = found - found.mean(axis=-1, keepdims=True)
            return centred
    raise DataError(f"strengths did not settle in {STEPS} steps; the wins are all but one-sided")


def _shares(values: Array, least: float) -> Array:
    """Shares of wins `[..., i, j]`, at least `least` away from 0 and 1; 0 for a ranker against itself."""
    shares = np.clip((1 + matrix(values)) / 2, least, 1 - least)
    diagonal = np.arange(shares.shape[-1])
    shares[..., diagonal, diagonal] = 0.0
    return shares


def _resampled(means: Array, least: float, start: Array) -> Array:
    """One fit per resample, in batches."""
    rows = max(1, ROOM // len(start) ** 2)
    parts = [means[row : row + rows] for row in range(0, len(means), rows)]
    return np.concatenate([bradley_terry(_shares(part, least), start) for part in parts])


def _named(rankers: Sequence[str], group: Sequence[int]) -> str:
    return ", ".join(repr(rankers[place]) for place in group)
