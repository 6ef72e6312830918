"""The idea in a terminal: two rankings, a team draft, simulated clicks, a verdict."""

from __future__ import annotations

from math import comb

from interleaf.clicks import Cascade
from interleaf.errors import InterleafError
from interleaf.interleaving import credit, interleave

RANKINGS = {
    "production": ["sandals", "boots", "road shoes", "trail shoes", "socks", "slippers", "racing flats", "laces"],
    "candidate": ["road shoes", "trail shoes", "sandals", "racing flats", "boots", "socks", "laces", "slippers"],
}
GRADES = {"road shoes": 2, "trail shoes": 2, "racing flats": 1, "socks": 1}
PEOPLE = Cascade(click=(0.1, 0.4, 0.7), stop=(0.2, 0.5, 0.8), grades=GRADES)
EXAMPLES = 3


def run(people: int, seed: int) -> None:
    """Let people search, each once, and say which ranker they prefer."""
    if people < 1:
        raise InterleafError(f"{people} people cannot search; give --people at least 1")
    print('Two rankers answer "running shoes"; each person sees one list, drafted from both, and clicks.\n')
    for ranker, ranking in RANKINGS.items():
        print(f"  {ranker:<11} {', '.join(ranking)}")
    wins = losses = ties = silent = 0
    for person in range(people):
        shown = interleave(RANKINGS, k=5, key=("demo", seed, person))
        clicks = PEOPLE.sample(shown.documents, key=("demo clicks", seed, person))
        score = credit(shown, clicks).score
        if person < EXAMPLES:
            print(f"\n  person {person + 1} sees")
            for rank, (document, owner) in enumerate(zip(shown.documents, shown.teams or (), strict=True), 1):
                click = "  <- click" if rank in clicks else ""
                print(f"    {rank}. {document:<13} from {shown.rankers[owner]}{click}")
        silent += not clicks
        ties += bool(clicks) and score == 0
        losses += score == 1
        wins += score == -1
    print(f"\n{people} people: candidate wins {wins}, production wins {losses}, ties {ties}, no click {silent}.")
    print(verdict(wins, losses))


def verdict(wins: int, losses: int) -> str:
    """One sentence, by the exact sign test; each person searched once, so impressions do not depend on each other."""
    decided = wins + losses
    tail = sum(comb(decided, count) for count in range(max(wins, losses), decided + 1))
    p_value = min(1.0, 2 * tail / 2**decided)
    if p_value >= 0.05:
        return f"No difference yet: a split at least this uneven comes by chance with probability {p_value:.2g}."
    better = "candidate" if wins > losses else "production"
    share = max(wins, losses) / decided
    return f"People prefer {better}: it wins {share:.0%} of the decided lists (by chance: probability {p_value:.1g})."
