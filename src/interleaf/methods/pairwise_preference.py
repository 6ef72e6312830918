"""Pairwise preference multileaving (O17): lists uniform among all considerate ones, credit for agreeing with clicks.

At rank x each unshown document of the choice set Omega(x), the union of all top x, is equally likely. A click prefers
its document to unclicked ones. A ranker gets 1/w for each such pair that it ranks in this order, and -1/w for each that
it ranks in the opposite order. w is the probability that neither document is shown before both could be (Eq. 10 to 14;
the product of Algorithm 3 is corrected to |Omega(x)| - x + 1: as printed it disagrees with enumeration).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array, EncodedRankings, Impression, Lengths, Parameters
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.kernels.randomness import Randomness, pick

PAIRS = ("global", "per_click", "next_unclicked")
GLOBAL, PER_CLICK, NEXT_UNCLICKED = 0, 1, 2


class PairwiseSettings(NamedTuple):
    pairs: int
    one: Any


def settings(lengths: Lengths, parameters: Parameters, exact: bool) -> PairwiseSettings:
    return PairwiseSettings(PAIRS.index(parameters["pairs"]), Fraction(1) if exact else 1.0)


@kernel
def compose(
    encoded: EncodedRankings, k: int, randomness: Randomness, shown: Array, teams: Array, settings: PairwiseSettings
) -> int:
    """Keep the choice set as a pool: each rank adds its documents, one is drawn and leaves."""
    in_pool = np.zeros(encoded.documents, np.bool_)
    pool = np.empty(encoded.documents, np.int64)
    size = count = 0
    while count < k:
        for ranker in range(len(encoded.depths)):
            if count < encoded.depths[ranker] and not in_pool[encoded.rankings[ranker, count]]:
                pool[size] = encoded.rankings[ranker, count]
                in_pool[pool[size]] = True
                size += 1
        if size == 0:
            break
        place = pick(randomness, size)
        shown[count] = pool[place]
        size -= 1
        pool[place] = pool[size]
        count += 1
    return count


@kernel
def credit(impression: Impression, clicks: Array, variant: int, credit: Array, settings: PairwiseSettings) -> int:
    """Sum the signed inverse propensities of every eligible pair (Eq. 10), ranker by ranker."""
    ranks, first = impression.ranks, _first_ranks(impression.ranks)
    count = ranks.shape[1]
    lowest = credited = 0
    for position in range(count):
        if clicks[position]:
            lowest = position
            credited += 1
    for better in range(count):
        if not clicks[better]:
            continue
        last = _last_compared(clicks, better, lowest, count, settings.pairs)
        for worse in range(min(last + 1, count)):
            threshold = max(first[better], first[worse])
            if not clicks[worse] and min(better, worse) + 1 >= threshold:
                start = min(first[better], first[worse])
                propensity = _propensity(impression.choices, start, threshold, settings.one)
                if propensity <= 0:  # never so in our own lists; a list from elsewhere may show what we never would
                    continue
                inverse = settings.one / propensity
                for ranker in range(ranks.shape[0]):
                    if _ranks_above(ranks[ranker, better], ranks[ranker, worse]):
                        credit[ranker] += inverse
                    elif _ranks_above(ranks[ranker, worse], ranks[ranker, better]):
                        credit[ranker] -= inverse
    return credited


@inline_kernel
def _first_ranks(ranks: Array) -> Array:
    """The best rank that any ranker gave to each shown document."""
    first = np.zeros(ranks.shape[1], np.int64)
    for ranker in range(ranks.shape[0]):
        for position in range(ranks.shape[1]):
            rank = ranks[ranker, position]
            if rank > 0 and (first[position] == 0 or rank < first[position]):
                first[position] = rank
    return first


@inline_kernel
def _last_compared(clicks: Array, better: int, lowest: int, count: int, pairs: int) -> int:
    """The last position whose document, if unclicked, a click is preferred to."""
    if pairs == GLOBAL:
        return lowest + 1
    below = better + 1
    while pairs == NEXT_UNCLICKED and below < count and clicks[below]:
        below += 1
    return below


@inline_kernel
def _propensity(choices: Array, start: int, threshold: int, one: Any) -> Any:
    """The probability that neither document of a pair is shown above the first rank where both may be."""
    weight = one
    for rank in range(start, threshold):
        weight *= one - one / max(choices[rank - 1] - rank + 1, 1)
    return weight


@inline_kernel
def _ranks_above(rank: int, other: int) -> bool:
    return rank > 0 and (other == 0 or rank < other)


@kernel
def probability(impression: Impression, factors: Array, settings: PairwiseSettings) -> bool:
    """Each candidate of a rank is equally likely (Eq. 9); a document that was not a candidate yet, impossible."""
    first = _first_ranks(impression.ranks)
    for position in range(len(factors)):
        factors[position] = settings.one * 0
        if first[position] <= position + 1:
            factors[position] = settings.one / (impression.choices[position] - position)
    return True
