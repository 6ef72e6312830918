"""Probabilistic interleaving (H11) and multileaving (Schuth et al. 2015; O17): every ranker is a softmax over ranks.

At each rank a ranker is drawn uniformly, with replacement, and a document from its softmax over the unshown ones,
P(d) proportional to rank^-tau. A document that a ranking lacks counts as tied at its length + 1. Given the list, the
owners of different ranks are independent, q_r(j) = P_j(L_r) / sum_i P_i(L_r), so the exact expectation over all
assignments needs no enumeration: expected clicks are sums of q, and the expected sign is a small dynamic programme.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from interleaf.errors import MethodError
from interleaf.kernels.arrays import Array, EncodedRankings, Impression, Lengths, Parameters
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.kernels.randomness import Randomness, pick, pick_from

LOST = 1e-3  # a running denominator below this share of its last full sum is summed again, because it has lost digits
MAX_DIGITS = 290  # a float can hold 10^-307


class ProbabilisticSettings(NamedTuple):
    """`powers[rank]` is rank^-tau, `sums[rank]` the total down to that rank; `scratch` holds a ranking's weights."""

    powers: Array
    sums: Array
    scratch: Array


def settings(lengths: Lengths, parameters: Parameters, exact: bool) -> ProbabilisticSettings:
    longest = int(max(lengths))
    powers = powers_of(parameters["tau"], longest, exact)
    sums = _sums(parameters["tau"], len(powers), exact)
    return ProbabilisticSettings(powers, sums, np.empty(longest + 2, powers.dtype))


def powers_of(tau: float, longest: int, exact: bool) -> Array:
    """rank^-tau for ranks up to `longest` + 1 and beyond, at index rank; as fractions where `exact`."""
    if tau * math.log10(2 * longest + 4) > MAX_DIGITS:
        raise MethodError(
            f"tau={tau} is too steep for rankings of {longest} documents: rank^-tau falls below what a float can hold; "
            f"give tau at most {MAX_DIGITS / math.log10(2 * longest + 4):.3g}"
        )
    return _powers(tau, 1 << (longest + 2).bit_length(), exact)


@lru_cache(maxsize=128)
def _powers(tau: float, size: int, exact: bool) -> Array:
    if exact:
        return np.array([Fraction(0)] + [Fraction(Fraction(rank) ** -tau) for rank in range(1, size)], dtype=object)
    ranks = np.arange(size, dtype=np.float64)
    ranks[0] = np.inf
    return ranks ** -float(tau)


@lru_cache(maxsize=128)
def _sums(tau: float, size: int, exact: bool) -> Array:
    return np.cumsum(_powers(tau, size, exact))


@kernel
def compose(
    encoded: EncodedRankings,
    k: int,
    randomness: Randomness,
    shown: Array,
    teams: Array,
    settings: ProbabilisticSettings,
) -> int:
    """A ranker gets a row of weights when it is first drawn; shown documents leave the rows that there are."""
    rankings, depths, documents = encoded
    powers = settings.powers
    count = min(k, documents)
    max_rows = min(count, len(depths))
    row_of, ranker_of = np.full(len(depths), -1, np.int64), np.empty(max_rows, np.int64)
    weights = np.zeros((max_rows, rankings.shape[1] + 1), powers.dtype)
    totals, trusted = np.zeros(max_rows, powers.dtype), np.zeros(max_rows, powers.dtype)
    lacking = np.zeros(max_rows, np.int64)
    places = np.zeros((max_rows, documents), np.int32)
    in_list = np.zeros(documents, np.bool_)
    rows = 0
    for position in range(count):
        ranker = pick(randomness, len(depths))
        length = depths[ranker]
        row = row_of[ranker]
        if row < 0:
            row = row_of[ranker] = rows
            ranker_of[row] = ranker
            rows += 1
            ranked = _weigh(rankings[ranker, :length], in_list, powers, weights[row], places[row])
            lacking[row] = documents - position - ranked
            weights[row, length] = int(lacking[row]) * powers[length + 1]
        if totals[row] <= LOST * trusted[row]:
            totals[row] = trusted[row] = _sum(weights[row], length + 1, powers[0])
        place = pick_from(randomness, weights[row], length + 1, totals[row])
        if place < length:
            document = rankings[ranker, place]
        else:
            document = _find_lacking(places[row], in_list, pick(randomness, lacking[row]))
        shown[position], teams[position] = document, ranker
        in_list[document] = True
        for row in range(rows):
            length = depths[ranker_of[row]]
            place = places[row, document] - 1
            if place >= 0:
                totals[row] -= weights[row, place]
                weights[row, place] = powers[0]
            else:
                lacking[row] -= 1
                totals[row] -= powers[length + 1]
                weights[row, length] = int(lacking[row]) * powers[length + 1]
    return count


@inline_kernel
def _weigh(ranking: Array, in_list: Array, powers: Array, weights: Array, places: Array) -> int:
    """Write a ranker's weights and where it has each document; returns how many of its documents are not shown."""
    unshown = 0
    for place in range(len(ranking)):
        document = ranking[place]
        places[document] = place + 1
        weights[place] = powers[0]
        if not in_list[document]:
            weights[place] = powers[place + 1]
            unshown += 1
    return unshown


@inline_kernel
def _sum(weights: Array, count: int, zero: Any) -> Any:
    """From the bottom up: small weights first."""
    total = zero
    for place in range(count - 1, -1, -1):
        total += weights[place]
    return total


@inline_kernel
def _find_lacking(places: Array, in_list: Array, number: int) -> int:
    """The unshown document with this number, in the order of first appearance, among those that a ranking lacks."""
    document = 0
    while in_list[document] or places[document] > 0 or number > 0:
        if not in_list[document] and places[document] == 0:
            number -= 1
        document += 1
    return document


@inline_kernel
def write_shares(impression: Impression, last: int, settings: ProbabilisticSettings, shares: Array) -> None:
    """P_j(L_r | L above r) for every ranker j and rank r down to position `last`."""
    ranks, lengths = impression.ranks, impression.lengths
    powers, sums = settings.powers, settings.sums
    for ranker in range(ranks.shape[0]):
        length = lengths[ranker]
        remaining = sums[length] + (impression.union - length) * powers[length + 1]
        trusted = remaining
        for position in range(last + 1):
            rank = ranks[ranker, position] if ranks[ranker, position] > 0 else length + 1
            weight = powers[rank]
            if remaining < LOST * trusted:
                remaining = _remaining(ranks[ranker], position, length, impression.union, settings)
                trusted = remaining
            remaining = max(remaining, weight)
            shares[ranker, position] = weight / remaining
            remaining -= weight


@inline_kernel
def _remaining(ranks: Array, position: int, length: int, union: int, settings: ProbabilisticSettings) -> Any:
    """The denominator summed afresh: the weights of all that this ranker has not lost to the ranks above."""
    powers, scratch = settings.powers, settings.scratch
    for place in range(length):
        scratch[place] = powers[place + 1]
    missing = union - length
    for above in range(position):
        if ranks[above] > 0:
            scratch[ranks[above] - 1] = powers[0]
        else:
            missing -= 1
    scratch[length] = missing * powers[length + 1]
    return _sum(scratch, length + 1, powers[0])


@inline_kernel
def write_posterior(impression: Impression, last: int, settings: ProbabilisticSettings, shares: Array) -> None:
    """q_r(j): how likely each ranker is to own each rank, given the list."""
    write_shares(impression, last, settings, shares)
    for position in range(last + 1):
        total = settings.powers[0]
        for ranker in range(shares.shape[0]):
            total += shares[ranker, position]
        for ranker in range(shares.shape[0]):
            shares[ranker, position] /= total


@inline_kernel
def _lowest(clicks: Array, count: int) -> int:
    """The position of the lowest click, -1 without one."""
    lowest = -1
    for position in range(count):
        if clicks[position]:
            lowest = position
    return lowest


@kernel
def credit(impression: Impression, clicks: Array, variant: int, credit: Array, settings: ProbabilisticSettings) -> int:
    """The expected number of clicks that each ranker owns, exact in O(rankers * k)."""
    rankers, count = impression.ranks.shape
    lowest = _lowest(clicks, count)
    shares = np.zeros((rankers, lowest + 1), settings.powers.dtype)
    write_posterior(impression, lowest, settings, shares)
    credited = 0
    for position in range(lowest + 1):
        if clicks[position]:
            credited += 1
            for ranker in range(rankers):
                credit[ranker] += shares[ranker, position]
    return credited


@kernel
def expected_sign(impression: Impression, clicks: Array, preference: Array, settings: ProbabilisticSettings) -> None:
    """The marginalised outcome of H11: for each pair the exact expectation of the sign of their clicks' difference."""
    rankers, count = impression.ranks.shape
    lowest = _lowest(clicks, count)
    shares = np.zeros((rankers, lowest + 1), settings.powers.dtype)
    write_posterior(impression, lowest, settings, shares)
    chances = np.zeros(2 * lowest + 5, settings.powers.dtype)
    for one in range(rankers):
        for other in range(one):
            value = sign_of_pair(shares[one], shares[other], clicks, lowest, chances, settings.powers[0])
            preference[one, other] = value
            preference[other, one] = 0 - value


@inline_kernel
def sign_of_pair(ours: Array, theirs: Array, clicks: Array, lowest: int, chances: Array, zero: Any) -> Any:
    """`chances[centre + d]` is the probability that we own d more of the clicks so far; each click moves it by one."""
    centre = lowest + 2
    chances[:] = zero
    chances[centre] = zero + 1
    reach = 0
    for position in range(lowest + 1):
        if clicks[position]:
            reach += 1
            below = zero
            for lead in range(centre - reach, centre + reach + 1):
                here = chances[lead]
                chances[lead] = (
                    here * (1 - ours[position] - theirs[position])
                    + below * ours[position]
                    + chances[lead + 1] * theirs[position]
                )
                below = here
    value = zero
    for lead in range(1, reach + 1):
        value += chances[centre + lead] - chances[centre - lead]
    return value


@kernel
def probability(impression: Impression, factors: Array, settings: ProbabilisticSettings) -> bool:
    """At each rank the mean of the rankers' softmaxes."""
    rankers, count = impression.ranks.shape
    shares = np.zeros((rankers, count), settings.powers.dtype)
    write_shares(impression, count - 1, settings, shares)
    for position in range(count):
        factors[position] = settings.powers[0]
        for ranker in range(rankers):
            factors[position] += shares[ranker, position] / rankers
    return True
