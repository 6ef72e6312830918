"""The finite world that `check` walks: small rankings up to renaming of documents, and relevant documents in them.

Two rankers: all rankings, of any lengths and overlap, over up to three documents, and all permutations of four. Three
rankers: all rankings over up to two documents, and all permutations of three. Every k up to the number of documents.
Smallest first: rankings of the same documents, then ragged ones (lengths or documents differ), then with empty ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations, product
from typing import NamedTuple

DOCUMENTS = "abcd"


class World(NamedTuple):
    """Rankings and how many documents are shown."""

    rankings: tuple[tuple[str, ...], ...]
    k: int

    @property
    def is_ragged(self) -> bool:
        """Whether some ranking lacks a document of another."""
        return any(len(ranking) < len(self.documents) for ranking in self.rankings)

    @property
    def documents(self) -> list[str]:
        return sorted({document for ranking in self.rankings for document in ranking})

    def best_rank(self, document: str) -> int:
        """The best rank that any ranker gives the document."""
        return min(ranking.index(document) + 1 for ranking in self.rankings if document in ranking)


def worlds(fewest: int, most: int | None) -> list[World]:
    """The worlds for a method that takes so many rankers, smallest first."""
    found = [world for rankers in (2, 3) if fewest <= rankers <= (most or 3) for world in _of(rankers)]
    return sorted(dict.fromkeys(found), key=_size)


def _size(world: World) -> tuple[object, ...]:
    lengths = [len(ranking) for ranking in world.rankings]
    return world.is_ragged, min(lengths) == 0, len(world.documents), len(lengths), world.k, sum(lengths), world.rankings


def _of(rankers: int) -> Iterator[World]:
    ragged, full = (3, 4) if rankers == 2 else (2, 3)
    small = [order for length in range(ragged + 1) for order in permutations(DOCUMENTS[:ragged], length)]
    large = list(permutations(DOCUMENTS[:full]))
    for rankings in [*product(small, repeat=rankers), *product(large, repeat=rankers)]:
        appearing = list(dict.fromkeys(document for ranking in rankings for document in ranking))
        if appearing and appearing == sorted(appearing) and appearing[-1] == DOCUMENTS[len(appearing) - 1]:
            for k in range(1, len(appearing) + 1):
                yield World(rankings, k)


def dominated(world: World, last: int) -> Iterator[tuple[frozenset[str], int]]:
    """Relevant documents, and the ranker that Pareto-dominates all others on them.

    Relevant are only documents that some ranker has at rank `last` or above: people look no further.
    """
    seen = [document for document in world.documents if world.best_rank(document) <= last]
    for size in range(1, len(seen) + 1):
        for relevant in combinations(seen, size):
            for ranker, ranking in enumerate(world.rankings):
                others = [other for number, other in enumerate(world.rankings) if number != ranker]
                if all(_dominates(ranking, other, relevant) for other in others):
                    yield frozenset(relevant), ranker


def _dominates(ranking: tuple[str, ...], other: tuple[str, ...], relevant: tuple[str, ...]) -> bool:
    ranks = [(_rank(document, ranking), _rank(document, other)) for document in relevant]
    return all(ours <= theirs for ours, theirs in ranks) and any(ours < theirs for ours, theirs in ranks)


def _rank(document: str, ranking: tuple[str, ...]) -> float:
    return ranking.index(document) + 1 if document in ranking else float("inf")
