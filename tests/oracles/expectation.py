"""Expected preference: the sum over lists, teams and click patterns."""

from collections.abc import Callable
from fractions import Fraction

from .clicks import Patterns
from .forms import Distribution, Preference, Ranking, Teams

PreferenceOf = Callable[[Ranking, Teams, frozenset[int]], Preference]
ClickDistributionOf = Callable[[Ranking], Patterns]


def expectation(
    distribution: Distribution, preference_of: PreferenceOf, click_distribution_of: ClickDistributionOf
) -> Preference:
    """E[P_ij] (O17, Eq. 15): impressions without a click count as zero.

    `preference_of(shown, teams, clicked)` is the outcome, `click_distribution_of(shown)` the patterns of a list.
    """
    expected: dict[tuple[int, int], Fraction] = {}
    rankers = 0
    click_distributions: dict[Ranking, Patterns] = {}  # a list may belong to other teams in another outcome
    for (shown, teams), of_list in distribution.items():
        if shown not in click_distributions:
            click_distributions[shown] = click_distribution_of(shown)
        for pattern, of_clicks in click_distributions[shown].items():
            clicked = frozenset(position for position, value in enumerate(pattern) if value)
            outcome = preference_of(shown, teams, clicked)
            rankers, chance = len(outcome), of_list * of_clicks
            for i in range(rankers):
                for j in range(rankers):
                    if outcome[i][j]:
                        expected[i, j] = expected.get((i, j), Fraction(0)) + chance * outcome[i][j]
    return [[expected.get((i, j), Fraction(0)) for j in range(rankers)] for i in range(rankers)]
