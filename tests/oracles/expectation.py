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
    for (shown, teams), of_list in distribution.items():
        for pattern, of_clicks in click_distribution_of(shown).items():
            clicked = frozenset(position for position, value in enumerate(pattern) if value)
            outcome = preference_of(shown, teams, clicked)
            rankers = len(outcome)
            for i in range(rankers):
                for j in range(rankers):
                    expected[i, j] = expected.get((i, j), Fraction(0)) + of_list * of_clicks * outcome[i][j]
    return [[expected[i, j] for j in range(rankers)] for i in range(rankers)]
