"""One ranker's list, each with the same probability; the whole list belongs to that ranker."""

from fractions import Fraction

from .forms import Distribution, Rankings


def distribution(rankings: Rankings, k: int) -> Distribution:
    """Exact distribution of (list, owners)."""
    outcome: Distribution = {}
    for ranker, ranking in enumerate(rankings):
        shown = ranking[:k], (ranker,) * len(ranking[:k])
        outcome[shown] = outcome.get(shown, Fraction(0)) + Fraction(1, len(rankings))
    return outcome
