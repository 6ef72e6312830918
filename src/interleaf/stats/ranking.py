"""Where each of many rankers stands: pairs, cycles, Copeland scores, Bradley-Terry strengths."""

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
    """Sums of pairs from sums of rankers, `[bucket, ranker]`: the scores of schemes that are linear in credit.

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
    """All cycles of three rankers; without any of these, one for each group of rankers that beat each other around.

    `beats[i, j]`: the ranker i beats j. A cycle starts with its ranker that is named first.

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
    """Strongly connected groups: within one, everybody beats everybody else by some way."""
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
    """A shortest way from a ranker back to itself, level by level."""
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


STEPS, STEP = 100, 2.0  # Newton steps at most, and how far one may go
CLOSE = 1e-7  # a last step: the next would be its square
ROOM = 2**19  # numbers of a batch of fits


@dataclass(frozen=True)
class Strengths:
    """A strength a ranker, and its bootstrap interval; None where `reason` says why."""

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
    """From the mean scores of all pairs, in the order of `pairs`, of so many impressions; all pairs share these.

    The share of wins is (1 + D) / 2: with scores that are signs these are wins and half the ties. Other scores
    (`signs=False`) are taken for it as they are, kept half an impression from 0 and 1. `means[resample, pair]`, of
    `bootstrap.resample`, give intervals; their shares are always kept so.

    >>> strengths(["A", "B"], np.array([0.5]), impressions=100).values  # 75 wins, 25 losses: odds of 3
    (0.549, -0.549)
    """
    if impressions < 1:
        return Strengths(None, None, "no impression with an event")
    shares = _shares(np.asarray(values, np.float64), 0.0 if signs else 0.5 / impressions)
    if len(shares) != len(rankers):
        raise DataError(f"{len(rankers)} rankers are not those of {np.size(values)} pairs; give a value a pair")
    reason = separation(rankers, shares)
    if reason:
        return Strengths(None, None, reason)
    fitted = bradley_terry(shares)
    found = tuple(float(strength) for strength in fitted)
    if means is None or not len(means):
        return Strengths(found, None, "" if means is None else "no resamples")
    return Strengths(found, intervals(_resampled(means, 0.5 / impressions, fitted), confidence))


def separation(rankers: Sequence[str], wins: Array) -> str:
    """Why no finite strengths fit: rankers that were never compared, or that never lose to the others; else nothing.

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
    """The strengths that maximise the likelihood of `wins[..., i, j]`, which `separation` has nothing against.

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
        # All strengths may move together: a constant along that way makes the matrix invertible, and moves none so.
        scale = curvature[..., diagonal, diagonal].mean(axis=-1)[..., None, None] / count
        step = np.linalg.solve(curvature + scale, slope[..., None])[..., 0]
        found += np.clip(step, -STEP, STEP)
        if np.abs(step).max(initial=0.0) < CLOSE:
            centred: Array = found - found.mean(axis=-1, keepdims=True)
            return centred
    raise DataError(f"strengths did not settle in {STEPS} steps; the wins are all but one-sided")


def _shares(values: Array, least: float) -> Array:
    """Shares of wins `[..., i, j]`, kept so far from 0 and 1; nobody meets itself."""
    shares = np.clip((1 + matrix(values)) / 2, least, 1 - least)
    diagonal = np.arange(shares.shape[-1])
    shares[..., diagonal, diagonal] = 0.0
    return shares


def _resampled(means: Array, least: float, start: Array) -> Array:
    """A fit a resample, in batches."""
    rows = max(1, ROOM // len(start) ** 2)
    parts = [means[row : row + rows] for row in range(0, len(means), rows)]
    return np.concatenate([bradley_terry(_shares(part, least), start) for part in parts])


def _named(rankers: Sequence[str], group: Sequence[int]) -> str:
    return ", ".join(repr(rankers[place]) for place in group)
