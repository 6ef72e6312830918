"""Agreement of two ways to compare rankers: right verdicts, correlation, transitivity, ratios of z-scores (C12).

All differences are of pairs of rankers. They are positive if the first ranker, which is better, is preferred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.stats.consistency import divide_or_nan, resampled_means
from interleaf.stats.signs import z_score

REPEATS = 1_000


class VerdictCounts(NamedTuple):
    """How many differences have the right and the wrong sign, and how many of these are significant."""

    right: int
    wrong: int
    significantly_right: int
    significantly_wrong: int


class Correlation(NamedTuple):
    """Mean and standard deviation of a correlation over resamples."""

    mean: float
    deviation: float


class Triple(NamedTuple):
    """Three rankers, each preferred to the later ones, and by how much."""

    rankers: tuple[str, str, str]
    first_third: float
    first_second: float
    second_third: float

    @property
    def is_strong(self) -> bool:
        """Strong stochastic transitivity, C12's Eq. 7."""
        return self.first_third >= max(self.first_second, self.second_third)


def verdicts(differences: Sequence[float | None], significant: Sequence[bool]) -> VerdictCounts:
    """C12's Tables VII and IX: a difference that is 0 or could not be computed counts as neither right nor wrong.

    >>> verdicts([0.5, 0.1, -0.2, 0.0], [True, False, True, False])
    VerdictCounts(right=2, wrong=1, significantly_right=1, significantly_wrong=1)
    """
    pairs = list(zip([difference or 0.0 for difference in differences], significant, strict=True))
    right, wrong = ([sure for difference, sure in pairs if sign * difference > 0] for sign in (1, -1))
    return VerdictCounts(len(right), len(wrong), sum(right), sum(wrong))


def correlation(one: Sequence[float] | Array, other: Sequence[float] | Array) -> float | None:
    """Pearson's correlation over pairs of rankers; None for fewer than two pairs, or if one side does not vary.

    >>> correlation([1, 2, 3], [2, 4, 7])
    0.99...
    """
    if len(one) != len(other):
        raise DataError(f"there are {len(one)} differences on one side and {len(other)} on the other; give pairs")
    (value,) = _correlations(np.array([one], float), np.array([other], float))
    return None if np.isnan(value) else float(value)


def bootstrap_correlation(
    judged: Array, scores: Sequence[Array], generator: np.random.Generator, repeats: int = REPEATS
) -> Correlation | None:
    """C12's Table III: the correlation over resamples of the judged queries and of every pair's scored impressions.

    `judged[query, pair]` are differences of a judged metric; a resampled query counts for all pairs. Resamples in which
    one side does not vary are left out. None if none is left.
    """
    queries, pairs = judged.shape
    if pairs != len(scores):
        raise DataError(f"there are judged differences of {pairs} pairs, and scores of {len(scores)}; give both")
    counts = generator.multinomial(queries, np.full(queries, 1 / queries), repeats)
    means = [resampled_means(np.asarray(some, float), len(some), repeats, generator) for some in scores]
    every = _correlations(counts @ judged / queries, np.stack(means, axis=1))
    defined = every[~np.isnan(every)]
    return Correlation(float(defined.mean()), float(defined.std())) if len(defined) else None


def _correlations(one: Array, other: Array) -> Array:
    """The correlation of each row; nan if one side does not vary."""
    one, other = (values - values.mean(axis=1, keepdims=True) for values in (one, other))
    scale = np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
    return divide_or_nan((one * other).sum(axis=1), scale)


def triples(preferences: Mapping[tuple[str, str], float]) -> list[Triple]:
    """C12's Table IV: all triples of rankers, each preferred to the later ones, from preferences of pairs.

    >>> [triple.is_strong for triple in triples({("a", "b"): 0.04, ("b", "c"): 0.03, ("a", "c"): 0.05})]
    [True]
    """
    both = {**{(other, one): -value for (one, other), value in preferences.items()}, **preferences}
    rankers = dict.fromkeys(ranker for pair in preferences for ranker in pair)
    every = [
        Triple((a, b, c), *(both.get(pair, 0.0) for pair in ((a, c), (a, b), (b, c))))
        for a, b, c in permutations(rankers, 3)
        if (a, c) in both
    ]
    return [triple for triple in every if min(triple.first_second, triple.second_third) > 0]


def z_ratios(scores: Mapping[str, Array], baseline: str) -> dict[str, float | None]:
    """C12's Tables XI to XIII: z-scores of schemes as multiples of the baseline's; None if it cannot be computed.

    >>> z_ratios({"binary": np.array([1, 1, 1, -1]), "click": np.array([2, 1, 1, -1])}, "binary")
    {'binary': 1.0, 'click': 1.20...}
    """
    if baseline not in scores:
        raise DataError(f"there are no scores of the baseline {baseline!r}; give them with the others")
    z_scores = {
        scheme: z_score(float(values.sum()), float((values**2).sum()), len(values)).value
        for scheme, values in scores.items()
    }
    base = z_scores[baseline]
    return {scheme: value / base if value is not None and base else None for scheme, value in z_scores.items()}
