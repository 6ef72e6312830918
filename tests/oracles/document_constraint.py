"""Document constraints on balanced lists (He et al. 2009 as in H11, section 2 and Figure 3)."""

from fractions import Fraction

from . import balanced
from .forms import (
    Clicked,
    Distribution,
    Doc,
    Preference,
    Ranking,
    Rankings,
    Teams,
    apply_form,
    marginal,
    rank,
    require,
    require_two,
)

SCHEMES = ("binary", "click")
CONSTRAINTS = (1, 2, 3, "lowest")


def distribution(rankings: Rankings, k: int, *, constraints: int | str = 1) -> Distribution:
    """Lists as balanced interleaving, filled."""
    return balanced.distribution(rankings, k, fill=True)


def inferred(shown: Ranking, clicked: Clicked, constraints: int | str) -> list[tuple[Doc, Doc]]:
    """The pairs (better, worse) that the clicks say (H11, section 2, and its footnote for "lowest")."""
    require(constraints, CONSTRAINTS, "constraints")
    pairs: list[tuple[Doc, Doc]] = []
    for click in clicked:
        unclicked = [position for position in range(len(shown)) if position not in clicked]
        worse = [position for position in unclicked if position < click]
        if constraints == 2 or (constraints == "lowest" and click == max(clicked)):
            worse += [position for position in unclicked if position == click + 1]
        elif constraints == 3:
            worse += [position for position in unclicked if position > click][:1]
        pairs += [(shown[click], shown[position]) for position in worse]
    return pairs


def violates(ranking: Ranking, better: Doc, worse: Doc) -> bool:
    """Whether the ranking holds the worse document and does not rank the better one above it."""
    return worse in ranking and rank(worse, ranking) < rank(better, ranking)


def preference(
    rankings: Rankings, shown: Ranking, teams: Teams, clicked: Clicked, scheme: str, *, constraints: int | str = 1
) -> Preference:
    """The ranking that violates fewer constraints is better (H11, section 2)."""
    require_two(rankings)
    require(scheme, SCHEMES, "scheme")
    pairs = inferred(shown, clicked, constraints)
    violations = [sum(violates(ranking, better, worse) for better, worse in pairs) for ranking in rankings]
    return apply_form(scheme, [-count for count in violations], 0)


def list_probability(rankings: Rankings, shown: Ranking, k: int, *, constraints: int | str = 1) -> Fraction:
    """Probability that the list is shown."""
    return marginal(distribution(rankings, k, constraints=constraints), shown)
