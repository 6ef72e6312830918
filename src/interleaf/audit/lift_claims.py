"""The lift in a small world, with examination 1 / rank: is it fair to clicks by rank only, and is it faithful?

A click on document d is worth theta(rank of d in the ranker's list) / sum over r of P(d at r) theta(r) for each ranker.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np

from interleaf.audit.enumerate import Enumeration, Shown
from interleaf.audit.worlds import Counterexample, ListLine, SmallWorld
from interleaf.interleaving.rankings import letter
from interleaf.kernels.jit import plain


def find_unfair_lift(world: SmallWorld, enumeration: Enumeration) -> Iterator[Counterexample | None]:
    """For a click at each rank, whether the expected value is the same for all rankers: values of clicks add up."""
    values = {shown: _click_values(enumeration, shown) for shown in enumeration.credited}
    for place in range(max(len(documents) for documents, _ in values)):
        case = None
        for one, other in combinations(range(len(world.rankings)), 2):
            gaps = {shown: clicks[place][one] - clicks[place][other] for shown, clicks in values.items()}
            lines = tuple(ListLine(shown, enumeration.credited[shown], gap) for shown, gap in gaps.items())
            expected = sum((enumeration.credited[shown] * gap for shown, gap in gaps.items()), Fraction(0))
            if case is None and expected != 0:
                pair = f"{letter(one)} over {letter(other)}"
                case = Counterexample(
                    world,
                    f"a click at rank {place + 1}, whatever is shown there\neach list, and its value for {pair}:",
                    lines,
                    f"expected value for {pair}: {expected}, should be 0",
                )
        yield case


def find_unfaithful_lift(world: SmallWorld, enumeration: Enumeration) -> Iterator[Counterexample | None]:
    """For each document that is clicked whenever people look at it, whether the expected value for each ranker is the
    clicks on its own list. Other ways to click by rank and document are mixtures of these.
    """
    values = {shown: _click_values(enumeration, shown) for shown in enumeration.credited}
    for document in world.documents:
        case = None
        for ranker, ranking in enumerate(world.rankings):
            lines, own = [], Fraction(0)
            for (documents, teams), probability in enumeration.credited.items():
                place = documents.index(document) if document in documents else None
                worth = Fraction(0)
                if place is not None:
                    worth = values[documents, teams][place][ranker] / (place + 1)
                lines.append(ListLine((documents, teams), probability, worth))
            if document in ranking[: world.k]:
                own = Fraction(1, ranking.index(document) + 1)
            expected = sum((line.probability * (line.preference or 0) for line in lines), Fraction(0))
            if case is None and expected != own:
                who = letter(ranker)
                what = f"people click on {document} if they look at it\neach list, and the value for {who}:"
                conclusion = f"expected value for {who}: {expected}, should be the clicks on its own list, {own}"
                case = Counterexample(world, what, tuple(lines), conclusion)
        yield case


def _click_values(enumeration: Enumeration, shown: Shown) -> list[list[Fraction]]:
    """What a click at each position of a list is worth for each ranker; 0 where the probabilities are not known."""
    impression, count = enumeration.impression(shown), len(shown[0])
    rankers, place = len(impression.lengths), enumeration.chosen.method.kernels.place
    chances = np.full((count + impression.unshown_ranks.shape[1], count), Fraction(0))
    if place is None or not plain(place)(impression, chances, enumeration.settings):
        return [[Fraction(0)] * rankers] * count
    worth = []
    for position in range(count):
        exposure = sum((chance / rank for rank, chance in enumerate(chances[position], 1)), Fraction(0))
        ranks = impression.ranks[:, position].tolist()
        worth.append([Fraction(1, rank) / exposure if 0 < rank <= count else Fraction(0) for rank in ranks])
    return worth
