"""What a plan of an epoch shows."""

from collections import defaultdict

from interleaf.experiment.epochs import EpochPlan


def shares_of(plan: EpochPlan) -> dict[str, float]:
    """The share of each ranker that is shown in the epoch: its part of the places of the lists."""
    shares: defaultdict[str, float] = defaultdict(float)
    for group in plan.groups:
        for ranker in group.rankers:
            shares[ranker] += group.draws / plan.draws / len(group.rankers)
    return dict(shares)
