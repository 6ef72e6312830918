"""Balanced interleaving (C12, section 3.1, Algorithm 1; H11, section 2 and Figure 1)."""

import math
from fractions import Fraction

from .forms import (
    Clicked,
    Distribution,
    Preference,
    Ranking,
    Rankings,
    Teams,
    add,
    apply_form,
    marginal,
    rank,
    require,
    require_two,
)

SCHEMES = ("binary", "click", "normalized", "binary_direct", "click_direct", "normalized_direct")
DEPTHS = ("lowest", "clicked")


def interleave(first: Ranking, second: Ranking, first_leads: bool, k: int, fill: bool) -> Ranking:
    """Algorithm 1 of C12: the lagging pointer adds its document, `first_leads` decides when the pointers are equal."""
    shown: list[object] = []
    at_first, at_second = 1, 1
    while at_first <= len(first) and at_second <= len(second) and len(shown) < k:
        if at_first < at_second or (at_first == at_second and first_leads):
            document = first[at_first - 1]
            at_first += 1
        else:
            document = second[at_second - 1]
            at_second += 1
        if document not in shown:
            shown.append(document)
    if fill:
        # One ranking is used up, or the list is full: at most one of the two rests has anything to add.
        for document in first[at_first - 1 :] + second[at_second - 1 :]:
            if document not in shown and len(shown) < k:
                shown.append(document)
    return tuple(shown)


def distribution(rankings: Rankings, k: int, *, fill: bool = True, depth: str = "lowest") -> Distribution:
    """Exact list distribution: one fair coin for the whole list."""
    require_two(rankings)
    outcome: Distribution = {}
    for first_leads in (True, False):
        add(outcome, interleave(rankings[0], rankings[1], first_leads, k, fill), None, Fraction(1, 2))
    return outcome


def credit_depth(rankings: Rankings, shown: Ranking, clicked: Clicked, depth: str) -> int | float:
    """k_c: of the lowest click (C12, Eq. 1), or of all clicks per ranking and then the smaller (H11, section 2)."""
    require(depth, DEPTHS, "depth")
    if depth == "lowest":
        lowest = shown[max(clicked)]
        return min(rank(lowest, ranking) for ranking in rankings)
    worst_ranks = []
    for ranking in rankings:
        ranks = [rank(shown[position], ranking) for position in clicked if shown[position] in ranking]
        # A ranking that holds no clicked document takes no part in the minimum.
        if ranks:
            worst_ranks.append(max(ranks))
    return min(worst_ranks, default=math.inf)


def credited_positions(
    rankings: Rankings, shown: Ranking, clicked: Clicked, depth: str, direct: bool
) -> tuple[set[int], set[int]]:
    """The clicked positions credited to each ranking (C12, Eq. 2 and 3), or directly (C12, section 9.1)."""
    cut = credit_depth(rankings, shown, clicked, depth)
    credited: tuple[set[int], set[int]] = (set(), set())
    for position in clicked:
        ranks = [rank(shown[position], ranking) for ranking in rankings]
        limit = min(ranks) if direct else cut
        for ranker in (0, 1):
            # A document that a ranking lacks is never credited to it, not even where the limit is infinite.
            if ranks[ranker] <= limit and ranks[ranker] < math.inf:
                credited[ranker].add(position)
    return credited


def preference(
    rankings: Rankings,
    shown: Ranking,
    teams: Teams,
    clicked: Clicked,
    scheme: str,
    *,
    fill: bool = True,
    depth: str = "lowest",
) -> Preference:
    """Eq. 8 to 10 of C12 on the credited clicks."""
    require_two(rankings)
    require(scheme, SCHEMES, "scheme")
    form = scheme.removesuffix("_direct")
    if not clicked:
        return apply_form(form, [0, 0], 0)
    credited = credited_positions(rankings, shown, clicked, depth, scheme.endswith("_direct"))
    return apply_form(form, [len(positions) for positions in credited], len(credited[0] | credited[1]))


def list_probability(
    rankings: Rankings, shown: Ranking, k: int, *, fill: bool = True, depth: str = "lowest"
) -> Fraction:
    """Probability that the list is shown."""
    return marginal(distribution(rankings, k, fill=fill, depth=depth), shown)
