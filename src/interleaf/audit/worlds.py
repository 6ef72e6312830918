"""The small worlds that the audit goes through, and its findings: a verdict, and the smallest counterexample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations, product
from typing import NamedTuple

from interleaf.audit.enumerate import Shown
from interleaf.interleaving.rankings import letter

DOCUMENTS = "abcd"


class SmallWorld(NamedTuple):
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


def worlds(min_rankers: int, max_rankers: int | None) -> list[SmallWorld]:
    """The worlds for a method with these limits on the number of rankers, smallest first."""
    numbers = [rankers for rankers in (2, 3) if min_rankers <= rankers <= (max_rankers or 3)]
    return sorted(dict.fromkeys(world for rankers in numbers for world in _worlds_of(rankers)), key=_size)


def _size(world: SmallWorld) -> tuple[object, ...]:
    lengths = [len(ranking) for ranking in world.rankings]
    return world.is_ragged, min(lengths) == 0, len(world.documents), len(lengths), world.k, sum(lengths), world.rankings


def _worlds_of(rankers: int) -> Iterator[SmallWorld]:
    ragged, full = (3, 4) if rankers == 2 else (2, 3)
    small = [order for length in range(ragged + 1) for order in permutations(DOCUMENTS[:ragged], length)]
    large = list(permutations(DOCUMENTS[:full]))
    for rankings in [*product(small, repeat=rankers), *product(large, repeat=rankers)]:
        appearing = list(dict.fromkeys(document for ranking in rankings for document in ranking))
        if appearing and appearing == sorted(appearing) and appearing[-1] == DOCUMENTS[len(appearing) - 1]:
            for k in range(1, len(appearing) + 1):
                yield SmallWorld(rankings, k)


@dataclass(frozen=True)
class ListLine:
    """A list that can be shown, its probability, and the preference between two rankers after the clicks on it."""

    shown: Shown
    probability: Fraction
    preference: Fraction | None = None

    def __str__(self) -> str:
        documents, teams = self.shown
        owners = [""] * len(documents) if teams is None else [f"({letter(t) if t >= 0 else '-'})" for t in teams]
        text = f"  {self.probability!s:>7}  {' '.join(d + o for d, o in zip(map(str, documents), owners, strict=True))}"
        return text if self.preference is None else f"{text}   {self.preference}"


@dataclass(frozen=True)
class Counterexample:
    """Rankings for which a property fails: the clicks, every list that can be shown, and the wrong sum."""

    world: SmallWorld
    what: str
    lines: tuple[ListLine, ...]
    conclusion: str

    def __str__(self) -> str:
        rankings = "   ".join(f"{letter(i)} = {' '.join(r) or '(empty)'}" for i, r in enumerate(self.world.rankings))
        return "\n".join([f"{rankings}   k = {self.world.k}", self.what, *map(str, self.lines), self.conclusion])


@dataclass(frozen=True)
class PropertyVerdict:
    """Whether a property holds in all small worlds; None: it does not apply to the method.

    `worlds` is the number of checked worlds, `refuted` are those where it fails, and `counterexample` is the smallest.
    """

    holds: bool | None
    worlds: int
    refuted: tuple[SmallWorld, ...] = ()
    counterexample: Counterexample | None = None
    note: str = ""

    def __str__(self) -> str:
        if self.holds is None:
            return f"no meaning here: {self.note}"
        answer = f"proved in all {self.worlds} cases"
        if not self.holds:
            answer = f"no, it fails in {len(self.refuted)} of {self.worlds} cases; the smallest:"
        details = str(self.counterexample).split("\n") if self.counterexample else []
        return "\n    ".join([answer, *details, *([f"({self.note})"] if self.note else [])])
