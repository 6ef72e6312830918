"""Pairwise preference multileaving (O17, section 5)."""

from fractions import Fraction

from .forms import (
    Clicked,
    Distribution,
    Doc,
    Preference,
    Ranking,
    Rankings,
    Teams,
    add,
    apply_form,
    marginal,
    rank,
    require,
    union,
)

SCHEMES = ("click", "normalized")
PAIRS = ("global", "per_click", "next_unclicked")


def choice_set(rankings: Rankings, depth: int) -> set[Doc]:
    """Omega(depth): the union of the top `depth` of all rankings (Eq. 8)."""
    return {document for ranking in rankings for document in ranking[:depth]}


def distribution(rankings: Rankings, k: int, *, pairs: str = "global") -> Distribution:
    """Exact list distribution: at every rank uniform over the unshown part of the choice set (Algorithm 2)."""
    outcome: Distribution = {}
    _extend(rankings, k, (), Fraction(1), outcome)
    return outcome


def _extend(rankings: Rankings, k: int, shown: Ranking, probability: Fraction, outcome: Distribution) -> None:
    candidates = choice_set(rankings, len(shown) + 1) - set(shown)
    if len(shown) == k or not candidates:
        add(outcome, shown, None, probability)
        return
    for document in candidates:
        _extend(rankings, k, (*shown, document), probability / len(candidates), outcome)


def first_possible(rankings: Rankings, document: Doc) -> int:
    """The best rank that any ranking gives the document, which is the first one where it can be shown."""
    return min(ranking.index(document) + 1 for ranking in rankings if document in ranking)


def threshold(rankings: Rankings, one: Doc, other: Doc) -> int:
    """rbar: the first rank at which both documents can be shown (Eq. 11)."""
    return max(first_possible(rankings, one), first_possible(rankings, other))


def weight_by_enumeration(rankings: Rankings, one: Doc, other: Doc) -> Fraction:
    """Probability that neither document is shown before rank rbar, over lists drawn to the end of the union."""
    before = threshold(rankings, one, other) - 1
    uncut = distribution(rankings, len(union(rankings)))
    kept = [chance for (shown, _), chance in uncut.items() if not {one, other} & set(shown[:before])]
    return sum(kept, Fraction(0))


def weight_by_formula(rankings: Rankings, one: Doc, other: Doc) -> Fraction:
    """The same as a product: Algorithm 3, lines 5 to 8, with the +1 that follows from Eq. 9 for the printed -1."""
    weight = Fraction(1)
    start = min(first_possible(rankings, one), first_possible(rankings, other))
    for x in range(start, threshold(rankings, one, other)):
        weight *= 1 - Fraction(1, len(choice_set(rankings, x)) - x + 1)
    return weight


def inferred(shown: Ranking, clicked: Clicked, pairs: str) -> list[tuple[Doc, Doc]]:
    """The pairs (preferred, other) that the clicks say: Eq. 7 as printed ("global"), or its prose, in two readings."""
    require(pairs, PAIRS, "pairs")
    unclicked = [position for position in range(len(shown)) if position not in clicked]
    found = []
    for click in clicked:
        if pairs == "global":
            others = [position for position in unclicked if position <= max(clicked) + 1]
        elif pairs == "per_click":
            others = [position for position in unclicked if position <= click + 1]
        else:
            below = [position for position in unclicked if position > click]
            others = [position for position in unclicked if position < click] + below[:1]
        found += [(shown[click], shown[position]) for position in others]
    return found


def preference(
    rankings: Rankings, shown: Ranking, teams: Teams, clicked: Clicked, scheme: str, *, pairs: str = "global"
) -> Preference:
    """Agreement with the inferred pairs, each weighted by its inverse propensity (Eq. 10 and 14)."""
    require(scheme, SCHEMES, "scheme")
    scores = [Fraction(0) for _ in rankings]
    for preferred, other in inferred(shown, clicked, pairs):
        first_shown = min(shown.index(preferred), shown.index(other)) + 1
        if first_shown < threshold(rankings, preferred, other):
            continue
        weight = weight_by_formula(rankings, preferred, other)
        for ranker, ranking in enumerate(rankings):
            # Infinite ranks are equal: a ranking that lacks both documents has no opinion.
            if rank(preferred, ranking) < rank(other, ranking):
                scores[ranker] += 1 / weight
            elif rank(preferred, ranking) > rank(other, ranking):
                scores[ranker] -= 1 / weight
    return apply_form(scheme, scores, len(clicked))


def list_probability(rankings: Rankings, shown: Ranking, k: int, *, pairs: str = "global") -> Fraction:
    """Probability that the list is shown."""
    return marginal(distribution(rankings, k, pairs=pairs), shown)
