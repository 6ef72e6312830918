"""Team draft interleaving and multileaving (C12, section 3.2, Algorithm 2; O17, section 4.1)."""

from fractions import Fraction
from functools import cache

from .forms import (
    NOBODY,
    Clicked,
    Distribution,
    Preference,
    Ranking,
    Rankings,
    Teams,
    add,
    apply_form,
    common_prefix,
    marginal,
    require,
)

SCHEMES = (
    "binary_deduped",
    "click_deduped",
    "normalized_deduped",
    "binary",
    "click",
    "normalized",
    "click_list",
    "normalized_list",
    "click_place",
    "normalized_place",
)
AVERAGED = ("list", "place")
FILLS = ("fair", "owned", "stop")


def distribution(rankings: Rankings, k: int, *, fill: str = "fair", prefix: bool = False) -> Distribution:
    """Exact distribution of (list, owners), by following every choice of the next captain.

    `fill="fair"`: positions beyond the shortest ranking belong to nobody. `prefix=True`: the common prefix is put
    first and belongs to nobody, and the draft starts after it.
    """
    require(fill, FILLS, "fill")
    outcome: Distribution = {}
    start = common_prefix(rankings, k) if prefix else ()
    _draft(rankings, k, fill, start, (NOBODY,) * len(start), (0,) * len(rankings), Fraction(1), outcome)
    return outcome


def _draft(
    rankings: Rankings,
    k: int,
    fill: str,
    shown: Ranking,
    owners: tuple[int, ...],
    picks: tuple[int, ...],
    probability: Fraction,
    outcome: Distribution,
) -> None:
    """Everything that can follow a state of the draft.

    The captains who may pick are those with the fewest picks among those who still have an unshown document. This is
    the same as rounds (who has not picked in this round, else a new round): who can still pick could always pick
    before, so all of them have picked in every finished round, and their counts differ by at most the current round.
    """
    unshown = [[document for document in ranking if document not in shown] for ranking in rankings]
    usable = [ranker for ranker in range(len(rankings)) if unshown[ranker]]
    stopped = fill == "stop" and len(usable) < len(rankings)
    if len(shown) >= k or not usable or stopped:
        add(outcome, shown, owners, probability)
        return
    fewest = min(picks[ranker] for ranker in usable)
    captains = [ranker for ranker in usable if picks[ranker] == fewest]
    position = len(shown) + 1
    shortest = min(len(ranking) for ranking in rankings)
    for captain in captains:
        owner = NOBODY if fill == "fair" and position > min(k, shortest) else captain
        after = tuple(count + (ranker == captain) for ranker, count in enumerate(picks))
        chance = probability / len(captains)
        _draft(rankings, k, fill, (*shown, unshown[captain][0]), (*owners, owner), after, chance, outcome)


def preference(
    rankings: Rankings,
    shown: Ranking,
    teams: Teams,
    clicked: Clicked,
    scheme: str,
    *,
    fill: str = "fair",
    prefix: bool = False,
) -> Preference:
    """Clicks on own documents (C12, Eq. 5 and 6), in the forms of Eq. 8 to 11.

    Deduped schemes ignore clicks on the common prefix, but Eq. 11 keeps them in the denominator. The schemes of
    `AVERAGED` replace the owner by its distribution (see `weights`), so they do not need `teams`; their normalized
    form divides by the clicks on positions that can be owned, whatever the weights.
    """
    require(scheme, SCHEMES, "scheme")
    form, _, variant = scheme.partition("_")
    if variant in AVERAGED:
        shares = weights(tuple(rankings), shown, variant, fill=fill, prefix=prefix)
        credit = [
            sum((shares[position][ranker] for position in clicked), Fraction(0)) for ranker in range(len(rankings))
        ]
        return apply_form(form, credit, sum(any(shares[position]) for position in clicked))
    if teams is None:
        raise ValueError("team draft needs the owner of every position")
    shared = common_prefix(rankings, len(shown)) if variant == "deduped" else ()
    counted = [position for position in clicked if shown[position] not in shared]
    on_shared = len(clicked) - len(counted)
    hits = [sum(teams[position] == ranker for position in counted) for ranker in range(len(rankings))]
    return apply_form(form, hits, sum(hits) + on_shared)


@cache
def weights(
    rankings: tuple[Ranking, ...], shown: Ranking, condition: str, *, fill: str = "fair", prefix: bool = False
) -> tuple[tuple[Fraction, ...], ...]:
    """For each position of the shown list, the probability that each ranker owns it.

    `condition="list"`: given the whole shown list. `condition="place"`: given only that this document stands at this
    position. Owners of the first positions do not depend on the length of the list, so `k` is that of the shown list.
    """
    require(condition, AVERAGED, "condition")
    outcome = distribution(rankings, len(shown), fill=fill, prefix=prefix)
    by_position = []
    for position, document in enumerate(shown):
        by_owner: dict[int, Fraction] = {}
        for (documents, owners), chance in outcome.items():
            same_place = documents[position : position + 1] == (document,)
            if owners is not None and (documents == shown if condition == "list" else same_place):
                by_owner[owners[position]] = by_owner.get(owners[position], Fraction(0)) + chance
        total = sum(by_owner.values())
        by_position.append(tuple(by_owner.get(ranker, Fraction(0)) / total for ranker in range(len(rankings))))
    return tuple(by_position)


def list_probability(
    rankings: Rankings, shown: Ranking, k: int, *, fill: str = "fair", prefix: bool = False
) -> Fraction:
    """Probability that the list is shown, whoever owns its documents."""
    return marginal(distribution(rankings, k, fill=fill, prefix=prefix), shown)
