"""Exposure-corrected credit: the clicks that each ranker's own list would get, from clicks on interleaved lists.

The click model is position-based: a document d at rank r is clicked with probability theta_r times the appeal of d.
`theta` holds the examination of ranks 1, 2, ..., at least k of them. Ranks are 1-based.
"""

from collections.abc import Sequence
from fractions import Fraction

from .forms import Clicked, Distribution, Doc, Ranking, Rankings

Placement = dict[Doc, dict[int, Fraction]]
Theta = Sequence[Fraction]


def placement(distribution: Distribution) -> Placement:
    """P_{d,r}: the probability that each document is shown at each rank; only what can happen is listed."""
    places: Placement = {}
    for (shown, _), chance in distribution.items():
        for rank, document in enumerate(shown, 1):
            by_rank = places.setdefault(document, {})
            by_rank[rank] = by_rank.get(rank, Fraction(0)) + chance
    return places


def exposure(document: Doc, theta: Theta, placement: Placement) -> Fraction:
    """rho_d: the probability that the document is shown and examined."""
    return sum((chance * theta[rank - 1] for rank, chance in placement.get(document, {}).items()), Fraction(0))


def examination(document: Doc, ranking: Ranking, theta: Theta, k: int) -> Fraction:
    """The examination of the document in the ranker's own list of k documents; zero if that list lacks it."""
    return Fraction(theta[ranking.index(document)]) if document in ranking[:k] else Fraction(0)


def value(
    rankings: Rankings, shown: Ranking, clicked: Clicked, theta: Theta, placement: Placement, k: int
) -> tuple[Fraction, ...]:
    """V_i of every ranker: the sum over clicked documents of its own examination over the exposure."""
    documents = [shown[position] for position in clicked]
    return tuple(
        sum(
            (examination(document, ranking, theta, k) / exposure(document, theta, placement) for document in documents),
            Fraction(0),
        )
        for ranking in rankings
    )


def coverage(rankings: Rankings, theta: Theta, placement: Placement, k: int) -> tuple[Fraction, ...]:
    """Of the examination of each ranker's own top k, the share on documents with a positive exposure; 1 if it is 0."""
    shares = []
    for ranking in rankings:
        own = {document: examination(document, ranking, theta, k) for document in ranking[:k]}
        covered = sum((own[document] for document in own if exposure(document, theta, placement)), Fraction(0))
        total = sum(own.values(), Fraction(0))
        shares.append(covered / total if total else Fraction(1))
    return tuple(shares)


def clicks_alone(rankings: Rankings, theta: Theta, appeal: dict[Doc, Fraction], k: int) -> tuple[Fraction, ...]:
    """The expected clicks on each ranker's own list of k documents: what the values estimate."""
    return tuple(
        sum((theta[rank] * appeal[document] for rank, document in enumerate(ranking[:k])), Fraction(0))
        for ranking in rankings
    )
