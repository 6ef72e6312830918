"""Probabilistic interleaving and multileaving (H11, section 4; O17, section 4.3)."""

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import product

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
    pairwise,
    rank_or_end,
    require,
    union,
)

SCHEMES = ("binary", "click", "normalized")


def softmax(rankings: Rankings, ranker: int, shown: Ranking, tau: int) -> dict[Doc, Fraction]:
    """The ranker's distribution over the unshown documents of the union (H11, section 4.1, Eq. 1).

    Ranks are those of the original ranking; what it lacks is tied one past its end.
    """
    return _softmax(tuple(rankings), ranker, frozenset(shown), tau)


@lru_cache(maxsize=10_000)
def _softmax(rankings: tuple[Ranking, ...], ranker: int, shown: frozenset[Doc], tau: int) -> dict[Doc, Fraction]:
    ranking = rankings[ranker]
    unshown = [document for document in union(rankings) if document not in shown]
    weights = {document: Fraction(1, rank_or_end(document, ranking) ** tau) for document in unshown}
    total = sum(weights.values(), Fraction(0))
    return {document: weight / total for document, weight in weights.items()}


def distribution(rankings: Rankings, k: int, *, tau: int = 3) -> Distribution:
    """Exact joint distribution of (list, assignment): ranker uniform with replacement, then its softmax (H11, 4.1)."""
    outcome: Distribution = {}
    _extend(rankings, min(k, len(union(rankings))), tau, (), (), Fraction(1), outcome)
    return outcome


def _extend(
    rankings: Rankings,
    length: int,
    tau: int,
    shown: Ranking,
    assignment: tuple[int, ...],
    probability: Fraction,
    outcome: Distribution,
) -> None:
    if len(shown) == length:
        add(outcome, shown, assignment, probability)
        return
    for ranker in range(len(rankings)):
        for document, chance in softmax(rankings, ranker, shown, tau).items():
            following = probability * chance / len(rankings)
            _extend(rankings, length, tau, (*shown, document), (*assignment, ranker), following, outcome)


def posterior(rankings: Rankings, shown: Ranking, position: int, tau: int) -> list[Fraction]:
    """Probability that each ranker contributed the document at a position, given the list (H11, section 4.3, Eq. 5)."""
    chances = [softmax(rankings, ranker, shown[:position], tau)[shown[position]] for ranker in range(len(rankings))]
    return [chance / sum(chances, Fraction(0)) for chance in chances]


def assignments(
    rankings: Rankings, shown: Ranking, positions: list[int], tau: int
) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Every assignment of the given positions to rankers, with its posterior probability."""
    posteriors = [posterior(rankings, shown, position, tau) for position in positions]
    for assignment in product(range(len(rankings)), repeat=len(positions)):
        probability = Fraction(1)
        for chances, ranker in zip(posteriors, assignment, strict=True):
            probability *= chances[ranker]
        yield assignment, probability


def preference(
    rankings: Rankings, shown: Ranking, teams: Teams, clicked: Clicked, scheme: str, *, tau: int = 3
) -> Preference:
    """Outcome marginalized over all assignments of the clicked documents (H11, section 4.3, Eq. 4).

    binary: expected sign of the difference of clicks; click: expected difference; normalized: the same per click.
    """
    require(scheme, SCHEMES, "scheme")
    return [list(row) for row in _preference(tuple(rankings), shown, tuple(sorted(clicked)), scheme, tau)]


@lru_cache(maxsize=10_000)
def _preference(
    rankings: tuple[Ranking, ...], shown: Ranking, clicked: tuple[int, ...], scheme: str, tau: int
) -> Preference:
    rankers = len(rankings)
    totals = pairwise(rankers, lambda i, j: 0)
    for assignment, probability in assignments(rankings, shown, list(clicked), tau):
        outcome = apply_form(scheme, [assignment.count(ranker) for ranker in range(rankers)], len(clicked))
        totals = [[totals[i][j] + probability * outcome[i][j] for j in range(rankers)] for i in range(rankers)]
    return totals


def list_probability(rankings: Rankings, shown: Ranking, k: int, *, tau: int = 3) -> Fraction:
    """Probability that the list is shown, whoever contributed its documents."""
    return marginal(distribution(rankings, k, tau=tau), shown)
