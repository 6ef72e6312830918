"""Statistics of many rankers: pairs, cycles, Copeland scores, Bradley-Terry strengths."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array, pairs
from interleaf.stats.bootstrap import intervals
from interleaf.stats.compare import Estimate, Interval, significance


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
    places = triples or [_shortest_cycle(group[0], beats) for group in groups(beats) if len(group) > 1]
    return tuple(tuple(rankers[place] for place in cycle) for cycle in places)


def groups(beats: Array) -> list[list[int]]:
    """Strongly connected groups: within a group, each ranker beats each other one directly or through others."""
    from scipy.sparse.csgraph import connected_components

    labels = connected_components(beats, connection="strong")[1].tolist()
    members: dict[int, list[int]] = {}
    for place, label in enumerate(labels):
        members.setdefault(label, []).append(place)
    return list(members.values())


def _shortest_cycle(start: int, beats: Array) -> tuple[int, ...]:
    """A shortest cycle through a ranker, by breadth-first search."""
    ways: deque[tuple[int, ...]] = deque([(start,)])
    on_path = {start}
    while True:
        way = ways.popleft()
        if beats[way[-1], start]:
            return way
        for place in np.flatnonzero(beats[way[-1]]).tolist():
            if place not in on_path:
                on_path.add(place)
                ways.append((*way, place))


@dataclass(frozen=True)
class PairwiseStanding:
    """The standing of each ranker among the others.

    `copeland` is pairs won minus pairs lost. `condorcet` is the ranker that beats every other one significantly; if
    there is none, `reason` says why. `cycles` are computed from the estimates.
    """

    copeland: tuple[int, ...]
    condorcet: str | None
    cycles: tuple[Cycle, ...]
    reason: str = ""


def standing(
    rankers: Sequence[str],
    estimates: Sequence[Estimate],
    adjusted_p_values: Sequence[float | None],
    confidence: float = 0.95,
) -> PairwiseStanding:
    """The standing, from estimates of all pairs, in the order of `pairs`, and their adjusted p-values.

    >>> from interleaf.stats.compare import estimates
    >>> ours = estimates(np.array([[3, 4, 1], [2, 4, 1], [2, 3, 2]] * 9), np.full(27, 5))
    >>> standing(["A", "B", "C"], ours, [one.p_value for one in ours]).condorcet
    'A'
    """
    count = len(pairs(len(rankers))[0])
    if not count == len(estimates) == len(adjusted_p_values):
        raise DataError(
            f"{len(rankers)} rankers make {count} pairs, but there are {len(estimates)} estimates and "
            f"{len(adjusted_p_values)} p-values; give one of each per pair"
        )
    values = np.array([one.value for one in estimates], np.float64)  # None becomes nan
    level = significance(confidence)
    marks = matrix(np.array([p_value is not None and p_value <= level for p_value in adjusted_p_values])) != 0
    beats = matrix(values) > 0
    best, missing = np.flatnonzero((beats & marks).sum(axis=1) == len(rankers) - 1), np.flatnonzero(np.isnan(values))
    reason = "" if len(best) else "no ranker surely beats all others"
    if reason and len(missing):
        first, second = (part[missing[0]] for part in pairs(len(rankers)))
        reason = f"there is no estimate of {rankers[first]!r} against {rankers[second]!r}"
    copeland = (beats.sum(axis=1) - beats.sum(axis=0)).tolist()
    winner = rankers[best[0]] if len(best) else None
    return PairwiseStanding(tuple(copeland), winner, cycles(rankers, beats), reason)


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
    if means is None or not len(means):
        return Strengths(tuple(fitted.tolist()), None, "" if means is None else "no resamples")
    rows = max(1, ROOM // len(fitted) ** 2)
    parts = [_shares(means[row : row + rows], 0.5 / impressions) for row in range(0, len(means), rows)]
    resampled = np.concatenate([bradley_terry(part, fitted) for part in parts])
    return Strengths(tuple(fitted.tolist()), intervals(resampled, confidence))


def separation(rankers: Sequence[str], wins: Array) -> str:
    """Why no finite strengths fit: rankers were never compared, or never lost to the others; '' if strengths fit.

    >>> separation(["A", "B"], np.array([[0, 3], [0, 0]]))
    "no strength fits: 'A' never lost to the others"
    """
    together, apart = groups((wins + wins.T) > 0), groups(wins > 0)
    if len(apart) == 1:
        return ""
    top, verb = together[0], "met"
    if len(together) == 1:
        top, verb = next(group for group in apart if not np.delete(wins[:, group], group, axis=0).any()), "lost to"
    return f"no strength fits: {', '.join(repr(rankers[place]) for place in top)} never {verb} the others"


def bradley_terry(wins: Array, start: Array | None = None) -> Array:
    """The strengths that maximise the likelihood of `wins[..., i, j]`, for which `separation` returns ''.

    >>> bradley_terry(np.array([[0, 3], [1, 0]]))
    array([ 0.549, -0.549])
    """
    wins = np.asarray(wins, np.float64)
    met, count = wins + np.swapaxes(wins, -1, -2), wins.shape[-1]
    values = np.zeros(wins.shape[:-1]) if start is None else np.broadcast_to(start, wins.shape[:-1]).copy()
    for _ in range(STEPS):
        expected = 1 / (1 + np.exp(values[..., None, :] - values[..., :, None]))
        slope = (wins - met * expected).sum(axis=-1)
        curvature = -met * expected * (1 - expected)
        diagonal = np.arange(count)
        curvature[..., diagonal, diagonal] = 0.0
        curvature[..., diagonal, diagonal] = -curvature.sum(axis=-1)
        # A common shift of all strengths changes nothing; a constant makes the matrix invertible, and causes no shift.
        scale = curvature[..., diagonal, diagonal].mean(axis=-1)[..., None, None] / count
        step = np.linalg.solve(curvature + scale, slope[..., None])[..., 0]
        values += np.clip(step, -STEP, STEP)
        if np.abs(step).max(initial=0.0) < CLOSE:
            centred: Array = values - values.mean(axis=-1, keepdims=True)
            return centred
    raise DataError(f"strengths did not settle in {STEPS} steps; one ranker wins nearly every comparison")


def _shares(values: Array, least: float) -> Array:
    """Shares of wins `[..., i, j]`, at least `least` away from 0 and 1; 0 for a ranker against itself."""
    shares = np.clip((1 + matrix(values)) / 2, least, 1 - least)
    diagonal = np.arange(shares.shape[-1])
    shares[..., diagonal, diagonal] = 0.0
    return shares
