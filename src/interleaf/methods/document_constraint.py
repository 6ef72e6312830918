"""Document constraints (He et al. 2009, as H11 uses them): balanced lists, credit for not contradicting the clicks.

A click says that its document is better than each unclicked one above it (constraints=1). Other settings add an
unclicked document below: the next one if it is unclicked (2), the next unclicked one (3), or that of the lowest click
only. A ranking violates (better, worse) if it has the worse document and does not rank the better one above it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from interleaf.kernels.arrays import Array, Impression, Lengths, Parameters
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.methods.balanced import compose as compose, probability as probability

ABOVE, NEXT, NEXT_UNCLICKED, LOWEST = 1, 2, 3, 4


class ConstraintSettings(NamedTuple):
    constraints: int
    fill: bool  # for `compose` and `probability` of balanced
    one: Any


def settings(lengths: Lengths, parameters: Parameters, exact: bool) -> ConstraintSettings:
    constraints = LOWEST if parameters["constraints"] == "lowest" else parameters["constraints"]
    return ConstraintSettings(constraints, True, Fraction(1) if exact else 1.0)


@kernel
def credit(impression: Impression, clicks: Array, variant: int, credit: Array, settings: ConstraintSettings) -> int:
    """Minus the constraints that each ranking violates."""
    ranks, rule = impression.ranks, settings.constraints
    count = ranks.shape[1]
    lowest = credited = 0
    for position in range(count):
        if clicks[position]:
            lowest = position
            credited += 1
    for better in range(count):
        if not clicks[better]:
            continue
        for worse in range(better):
            if not clicks[worse]:
                _punish(ranks, better, worse, credit, settings.one)
        below = better + 1
        while rule == NEXT_UNCLICKED and below < count and clicks[below]:
            below += 1
        takes_below = rule in (NEXT, NEXT_UNCLICKED) or (rule == LOWEST and better == lowest)
        if takes_below and below < count and not clicks[below]:
            _punish(ranks, better, below, credit, settings.one)
    return credited


@inline_kernel
def _punish(ranks: Array, better: int, worse: int, credit: Array, one: Any) -> None:
    for ranker in range(ranks.shape[0]):
        rank_of_better, rank_of_worse = ranks[ranker, better], ranks[ranker, worse]
        if rank_of_worse > 0 and (rank_of_better == 0 or rank_of_worse < rank_of_better):
            credit[ranker] -= one
