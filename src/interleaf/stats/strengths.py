"""Bradley-Terry strengths: one number a ranker, such that i is preferred to j with the odds exp(s_i - s_j).

Fitted by maximum likelihood to wins[i, j], ties half a win to each (Bradley and Terry 1952), by Newton's method;
strengths add up to 0. They order rankers also where every pair was compared, and hide cycles, which `cycles` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.stats.bootstrap import intervals
from interleaf.stats.cycles import groups
from interleaf.stats.figure import Interval
from interleaf.stats.pairs import matrix

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
