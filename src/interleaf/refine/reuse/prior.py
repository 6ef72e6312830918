"""What a document is like before anyone clicked it: as attractive as others that rankers have where they have it.

    log attraction = b_0 + sum over new rankers of b_j log rank_j + b log share of the query's places that it had

A document that was hardly shown would otherwise be taken for average, whoever ranks it high: rankers that differ would
come out alike. Clicks are gamma-Poisson: a document's own attraction lies about this with a strength s, so that looks
at one document count as at most s for all others. Coefficients have a ridge, which leaves the mean where there are few
documents to learn from.
"""

from __future__ import annotations

import numpy as np

from interleaf.methods.arrays import Array
from interleaf.refine.reuse.rankings import Ranked

RIDGE = 10.0  # on coefficients of standardised features
ROUNDS, TOLERANCE, MOST_STEP = 30, 1e-6, 1.0
ALIKE = 1e-9  # a feature that varies by less is rounding


def features(ranked: Ranked, shown: Array) -> Array:
    """Standardised: the log of each new ranker's rank, and of the share of its query's places that each entry had.

    `shown[entry]` is how many places that were.
    """
    query = np.repeat(np.arange(len(ranked.union)), ranked.union)
    ranks = np.where(ranked.ranks > 0, ranked.ranks, ranked.lengths[query] + 1)
    places = np.bincount(query, shown, len(ranked.union))
    shares = (shown + 0.5) / (places[query] + 1)
    found = np.log(np.column_stack([ranks, shares]))
    spread = found.std(axis=0)
    return np.asarray((found - found.mean(axis=0)) / np.where(spread > ALIKE, spread, 1.0))


def regressed(features: Array, clicks: Array, looks: Array, strength: float) -> Array:
    """The expected attraction `[entry, model]`, from clicks and looks `[entry, model]`, by Newton's method.

    >>> about = np.array([[1.0], [1.0], [-1.0], [-1.0]]).repeat(100, axis=0)
    >>> clicks = np.array([[8.0], [8.0], [2.0], [2.0]]).repeat(100, axis=0)
    >>> regressed(about, clicks, np.full((400, 1), 10.0), strength=1.0)[[0, -1], 0].round(2)
    array([0.78, 0.22])
    """
    design = np.column_stack([np.ones(len(features)), features])
    ridge = np.diag([0.0, *[RIDGE] * features.shape[1]])
    found, start = np.zeros(looks.shape), np.zeros(design.shape[1])
    for model in range(looks.shape[1]):
        clicked, looked = clicks[:, model], looks[:, model]
        start[0] = np.log((clicked.sum() + 0.5) / (looked.sum() + 1)) if model == 0 else start[0]
        start = _climbed(design, clicked, looked, ridge, strength, start)
        found[:, model] = np.minimum(np.exp(design @ start), 1.0)
    return found


def _climbed(design: Array, clicks: Array, looks: Array, ridge: Array, strength: float, start: Array) -> Array:
    """Where the penalised score is 0; steps are bounded, because a log-linear rate can run away."""
    certain, at = 1 / (1 + looks / strength), start
    for _ in range(ROUNDS):
        expected = looks * np.exp(np.minimum(design @ at, 1.0))
        slope = design.T @ (certain * (clicks - expected)) - ridge @ at
        curve = (design * (certain * expected)[:, None]).T @ design + ridge
        slope[0] += 0.5 - np.exp(at[0])  # half a click and a look more, so that the mean is somewhere without any
        curve[0, 0] += np.exp(at[0])
        step = np.clip(np.linalg.solve(curve, slope), -MOST_STEP, MOST_STEP)
        at = at + step
        if np.abs(step).max() <= TOLERANCE:
            break
    return at
