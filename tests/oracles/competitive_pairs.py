"""Competitive pairs (Airbnb 2025), and its extension to many rankers: credit where rankers compete for positions.

A round takes the first document of every ranker that is not in the list yet. If all rankers propose one document, it
is appended and nobody owns it. Otherwise the distinct documents are appended in random order, and each belongs to all
rankers that proposed it, with full credit for each of them.

A ranker whose ranking is used up proposes nothing. The others go on by the same rounds, and nobody owns a document of
such a round. A used-up ranking stays used up, so nobody owns anything from the first such round on. This is fair
because a round gives credit only if every ranker has exactly one document among its positions.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations

from .forms import (
    NOBODY,
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
    require,
    require_two,
)

SCHEMES = ("binary", "click", "normalized")
COINS = ("pair", "list")
Proposals = dict[Doc, tuple[int, ...]]


def distribution(rankings: Rankings, k: int, *, coins: str = "pair") -> Distribution:
    """Exact distribution of (list, owners); an owner is NOBODY where no ranker or more than one owns the document.

    `coins="pair"`: every round has its own random order. `coins="list"`, for two rankers: one coin decides which
    ranker's document comes first in all pairs of the list.
    """
    require(coins, COINS, "coins")
    if coins == "list":
        require_two(rankings)
        return distribution_of_one_order(rankings, k)
    outcome: Distribution = {}
    _append_rounds(rankings, k, None, (), (), Fraction(1), outcome)
    return outcome


def distribution_of_one_order(rankings: Rankings, k: int) -> Distribution:
    """One random order of the rankers decides all rounds: a document stands where its first proposer does.

    With more than two rankers this is not fair: a document that two of three propose comes first too often.
    """
    outcome: Distribution = {}
    orders = list(permutations(range(len(rankings))))
    for order in orders:
        _append_rounds(rankings, k, order, (), (), Fraction(1, len(orders)), outcome)
    return outcome


def _append_rounds(
    rankings: Rankings,
    k: int,
    order: Sequence[int] | None,
    shown: Ranking,
    teams: tuple[int, ...],
    probability: Fraction,
    outcome: Distribution,
) -> None:
    """Everything that can follow after whole rounds; `order` is the one order of the rankers, None draws each round."""
    proposals = propose(rankings, shown)
    if len(shown) >= k or not proposals:
        add(outcome, shown[:k], teams[:k], probability)
        return
    owners = own(proposals, len(rankings))
    sequences: list[Ranking] = list(permutations(proposals))
    if order is not None:
        sequences = [tuple(sorted(proposals, key=lambda document: min(map(order.index, proposals[document]))))]
    for documents in sequences:
        singles = tuple(owners[document][0] if len(owners[document]) == 1 else NOBODY for document in documents)
        chance = probability / len(sequences)
        _append_rounds(rankings, k, order, (*shown, *documents), (*teams, *singles), chance, outcome)


def propose(rankings: Rankings, shown: Ranking) -> Proposals:
    """The documents of the next round, each with the rankers that propose it."""
    proposals: Proposals = {}
    for ranker, ranking in enumerate(rankings):
        for document in [document for document in ranking if document not in shown][:1]:
            proposals[document] = (*proposals.get(document, ()), ranker)
    return proposals


def own(proposals: Proposals, rankers: int) -> Proposals:
    """The owners of the documents of a round: nobody if all propose the same one, or if some ranker proposes none."""
    complete = sum(map(len, proposals.values())) == rankers
    return proposals if complete and len(proposals) > 1 else dict.fromkeys(proposals, ())


def all_owners(rankings: Rankings) -> Proposals:
    """The owners of every document, by replaying the rounds.

    All documents of a round are in the list before the next one starts, so their order cannot change what meets.
    """
    owners: Proposals = {}
    while proposals := propose(rankings, tuple(owners)):
        owners |= own(proposals, len(rankings))
    return owners


def preference(
    rankings: Rankings, shown: Ranking, teams: Teams, clicked: Clicked, scheme: str, *, coins: str = "pair"
) -> Preference:
    """Clicks on own documents. The owners follow from the rankings, because `teams` cannot hold several owners.

    The normalized form divides by the clicks on documents that somebody owns, each counted once.
    """
    require(scheme, SCHEMES, "scheme")
    owners = all_owners(rankings)
    owners_of_clicks = [owners[shown[position]] for position in clicked]
    hits = [sum(ranker in some for some in owners_of_clicks) for ranker in range(len(rankings))]
    return apply_form(scheme, hits, sum(map(bool, owners_of_clicks)))


def list_probability(rankings: Rankings, shown: Ranking, k: int, *, coins: str = "pair") -> Fraction:
    """Probability that the list is shown."""
    return marginal(distribution(rankings, k, coins=coins), shown)
