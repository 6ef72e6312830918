"""Sample-scored-only multileaving (Brost et al. 2016, as in O17, section 4.4)."""

from fractions import Fraction

from . import team_draft
from .forms import Clicked, Distribution, Doc, Preference, Ranking, Rankings, Teams, apply_form, marginal, require

SCHEMES = ("binary", "click")


def distribution(rankings: Rankings, k: int, *, tau: int = 3) -> Distribution:
    """Lists (and owners, which the score does not use) as team draft with fair filling."""
    return team_draft.distribution(rankings, k, fill="fair")


def subrank(document: Doc, ranking: Ranking, shown: Ranking) -> int:
    """Rank of a shown document when the ranking holds the shown documents only; what it lacks is tied for last."""
    remaining = [other for other in ranking if other in shown]
    return remaining.index(document) + 1 if document in remaining else len(remaining) + 1


def preference(
    rankings: Rankings, shown: Ranking, teams: Teams, clicked: Clicked, scheme: str, *, tau: int = 3
) -> Preference:
    """Sum of subrank^-tau over the clicked documents; its difference, or the sign of it as in the paper."""
    require(scheme, SCHEMES, "scheme")
    scores = [
        sum((Fraction(1, subrank(shown[position], ranking, shown) ** tau) for position in clicked), Fraction(0))
        for ranking in rankings
    ]
    return apply_form(scheme, scores, 0)


def list_probability(rankings: Rankings, shown: Ranking, k: int, *, tau: int = 3) -> Fraction:
    """Probability that the list is shown."""
    return marginal(distribution(rankings, k, tau=tau), shown)
