"""Balanced interleaving (Joachims 2003; C12 section 3.1, H11): one coin decides which ranker goes first.

Credit counts clicked documents in the top k_c of each ranking. k_c is the better rank of the lowest clicked document
(C12, Eq. 1, `depth=lowest`), or the smaller of the two rankings' worst clicked ranks (H11, `depth=clicked`).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array, EncodedRankings, Impression, Lengths, Parameters
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.kernels.randomness import Randomness, pick
from interleaf.methods.schemes import DIRECT

NEVER = np.iinfo(np.int32).max


class BalancedSettings(NamedTuple):
    fill: bool
    lowest: bool
    one: Any


def settings(lengths: Lengths, parameters: Parameters, exact: bool) -> BalancedSettings:
    return BalancedSettings(parameters["fill"], parameters["depth"] == "lowest", Fraction(1) if exact else 1.0)


@kernel
def compose(
    encoded: EncodedRankings, k: int, randomness: Randomness, shown: Array, teams: Array, settings: BalancedSettings
) -> int:
    """The pointer that lags adds its document; on a tie, the ranker that won the coin."""
    in_list = np.zeros(encoded.documents, np.bool_)
    leader = pick(randomness, 2)
    at_a = at_b = count = 0
    while count < k:
        has_a, has_b = at_a < encoded.depths[0], at_b < encoded.depths[1]
        if not (has_a and has_b) and not (settings.fill and (has_a or has_b)):
            break
        if has_a and (not has_b or at_a < at_b or (at_a == at_b and leader == 0)):
            document = encoded.rankings[0, at_a]
            at_a += 1
        else:
            document = encoded.rankings[1, at_b]
            at_b += 1
        if not in_list[document]:
            in_list[document] = True
            shown[count] = document
            count += 1
    return count


@kernel
def credit(impression: Impression, clicks: Array, variant: int, credit: Array, settings: BalancedSettings) -> int:
    """Clicked documents in each top k_c; `direct`: each click goes to the ranking with the better rank, or to both."""
    ranks = impression.ranks
    cut = _cut(ranks, clicks, settings.lowest)
    credited = 0
    for position in range(ranks.shape[1]):
        if clicks[position]:
            a = ranks[0, position] if ranks[0, position] > 0 else NEVER
            b = ranks[1, position] if ranks[1, position] > 0 else NEVER
            to_a = a <= b if variant == DIRECT else a <= cut
            to_b = b <= a if variant == DIRECT else b <= cut
            if to_a:
                credit[0] += settings.one
            if to_b:
                credit[1] += settings.one
            if to_a or to_b:
                credited += 1
    return credited


@inline_kernel
def _cut(ranks: Array, clicks: Array, lowest: bool) -> int:
    """The credit depth k_c."""
    cut = NEVER
    for ranker in range(2):
        worst = 0
        for position in range(ranks.shape[1]):
            rank = ranks[ranker, position]
            if clicks[position]:
                worst = rank if lowest else max(worst, rank)
        if 0 < worst < cut:
            cut = worst
    return cut


@kernel
def probability(impression: Impression, factors: Array, settings: BalancedSettings) -> bool:
    """1, 1/2 or 0, depending on how many of the two coin results give this list; stored at the first rank."""
    ways = 0
    for leader in range(2):
        if _leads_to(impression, leader, settings.fill):
            ways += 1
    for position in range(len(factors)):
        factors[position] = settings.one
    factors[0] = settings.one * ways / 2
    return True


@inline_kernel
def _leads_to(impression: Impression, leader: int, fill: bool) -> bool:
    """Whether this coin gives the list: replays the pointers on the rank matrix."""
    ranks, lengths = impression.ranks, impression.lengths
    at_a = at_b = 1
    position = 0
    while position < ranks.shape[1]:
        has_a, has_b = at_a <= lengths[0], at_b <= lengths[1]
        if not (has_a and has_b) and not (fill and (has_a or has_b)):
            return False
        if has_a and (not has_b or at_a < at_b or (at_a == at_b and leader == 0)):
            ranker, rank = 0, at_a
            at_a += 1
        else:
            ranker, rank = 1, at_b
            at_b += 1
        is_shown = False
        for above in range(position):
            is_shown = is_shown or ranks[ranker, above] == rank
        if not is_shown:
            if ranks[ranker, position] != rank:
                return False
            position += 1
    return True
