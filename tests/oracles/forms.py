"""What the oracles share: ranks, the sign, and the three forms of a score (C12, section 9.1)."""

import math
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from typing import Any

Doc = Any  # any hashable; sortable only where a function says that it sorts
Ranking = tuple[Doc, ...]
Rankings = Sequence[Ranking]
Teams = tuple[int, ...] | None
Distribution = dict[tuple[Ranking, Teams], Fraction]
Clicked = Collection[int]
Preference = list[list[Fraction]]

NOBODY = -1


def rank(document: Doc, ranking: Ranking) -> int | float:
    """1-based rank, infinite when the ranking lacks the document (O17, section 3.1)."""
    return ranking.index(document) + 1 if document in ranking else math.inf


def rank_or_end(document: Doc, ranking: Ranking) -> int:
    """1-based rank, one past the end when the ranking lacks the document (optimized and probabilistic methods)."""
    return ranking.index(document) + 1 if document in ranking else len(ranking) + 1


def union(rankings: Rankings) -> list[Doc]:
    """All documents, each once, in order of first appearance."""
    documents: list[Doc] = []
    for ranking in rankings:
        documents += [document for document in ranking if document not in documents]
    return documents


def common_prefix(rankings: Rankings, length: int) -> Ranking:
    """The longest prefix that all rankings share, at most `length` documents (C12, section 9.1, deduped scoring)."""
    shared: Ranking = ()
    for size in range(1, length + 1):
        prefixes = {ranking[:size] for ranking in rankings}
        if len(prefixes) == 1 and all(len(ranking) >= size for ranking in rankings):
            shared = prefixes.pop()
    return shared


def sign(value: Fraction | float) -> int:
    """-1, 0 or 1; a tie is 0, never a loss."""
    return (value > 0) - (value < 0)


def pairwise(rankers: int, difference: Callable[[int, int], Fraction | int]) -> Preference:
    """The preference matrix whose entry [i][j] is difference(i, j)."""
    return [[Fraction(difference(i, j)) for j in range(rankers)] for i in range(rankers)]


def apply_form(form: str, scores: Sequence[Fraction | int], credited: int) -> Preference:
    """Preferences from one score per ranker: Eq. 8 (binary), Eq. 9 (click) or Eq. 10 (normalized) of C12.

    `credited` is the number of clicks that the normalized form divides by; none gives zeros.
    """

    def difference(i: int, j: int) -> Fraction:
        gap = Fraction(scores[i] - scores[j])
        if form == "binary":
            return Fraction(sign(gap))
        if form == "click":
            return gap
        if form == "normalized":
            return gap / credited if credited else Fraction(0)
        raise ValueError(f"unknown form {form!r}: binary, click or normalized")

    return pairwise(len(scores), difference)


def require(value: object, known: Sequence[object], what: str) -> None:
    """Refuse a value that is not one of the known ones."""
    if value not in known:
        raise ValueError(f"unknown {what} {value!r}: one of {list(known)}")


def require_two(rankings: Rankings) -> None:
    """Refuse anything but two rankings, for methods that are defined for two."""
    if len(rankings) != 2:
        raise ValueError(f"this method compares two rankings, not {len(rankings)}")


def add(distribution: Distribution, shown: Ranking, teams: Teams, probability: Fraction) -> None:
    """Add probability to an outcome that may have been reached before."""
    distribution[shown, teams] = distribution.get((shown, teams), Fraction(0)) + probability


def marginal(distribution: Distribution, shown: Ranking) -> Fraction:
    """Probability of a list whatever the teams."""
    return sum((chance for (ranking, _), chance in distribution.items() if ranking == shown), Fraction(0))
