"""What is true of the demo's rankers: where they put what people want."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from interleaf.demo.engine import Engine
from interleaf.demo.people import Search


def reciprocal_ranks(engine: Engine, ranker: str, searches: Iterable[Search], k: int = 10) -> list[float]:
    """1 / rank of the wanted entry in the first k of each search, 0 where it is not among them.

    Their mean is the mean reciprocal rank (Voorhees, 1999).
    """
    found = []
    for search in searches:
        ranking = engine.search(search.query, ranker, k)
        found.append(1 / (ranking.index(search.wanted) + 1) if search.wanted in ranking else 0.0)
    return found


def truth(engine: Engine, rankers: Sequence[str], asked: Sequence[Search]) -> str:
    """What is known of the rankers, because what people want is known, in a sentence."""
    means = {ranker: fmean(reciprocal_ranks(engine, ranker, asked)) for ranker in rankers}
    told = ", ".join(f"{ranker} {mean:.3f}" for ranker, mean in means.items())
    best = max(means, key=lambda ranker: means[ranker])
    return (
        f"The truth, since what these people want is known: {best} is best. "
        f"Mean reciprocal rank of the wanted entry, over {len(asked):,} searches: {told}."
    )
