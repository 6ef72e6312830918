"""Small worlds for old impressions and new rankers: every list with its chance, and the new rankers' view of it."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from interleaf.counterfactual.click_model import RankedLists
from interleaf.counterfactual.new_rankings import NewRankings, encode_rankings, impressions_of
from interleaf.kernels.arrays import Array, Impression
from tests.oracles import pairwise_preference, probabilistic, team_draft
from tests.oracles.clicks import Patterns, cascade, independent
from tests.oracles.forms import Ranking, Rankings, union

ORACLES: dict[str, Any] = {
    "probabilistic": probabilistic,
    "team_draft": team_draft,
    "pairwise_preference": pairwise_preference,
}
QUERY = "q"


def rankings_of(text: str) -> Rankings:
    return [tuple(word) for word in text.split()]


def impatient(shown: Ranking) -> Patterns:
    """Reads down the list, clicks by grade, and often leaves after a click."""
    grades = {"a": 2, "b": 0, "c": 1, "d": 1}
    click = (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))
    return cascade([grades[document] for document in shown], click, (Fraction(0), Fraction(1, 2), Fraction(3, 4)))


def attracted(shown: Ranking) -> Patterns:
    """Every document has its own coin, whatever its rank."""
    chances = {"a": Fraction(3, 4), "b": Fraction(1, 8), "c": Fraction(1, 2), "d": Fraction(1, 4)}
    return independent([chances[document] for document in shown])


def list_chances(method: str, rankings: Rankings, k: int) -> dict[Ranking, Fraction]:
    """Every list of a method, whoever owns what."""
    found: dict[Ranking, Fraction] = {}
    for (shown, _), chance in ORACLES[method].distribution(rankings, k).items():
        found[shown] = found.get(shown, Fraction(0)) + chance
    return found


def new_rankings(rankings: Rankings, k: int) -> NewRankings:
    return encode_rankings({f"r{number}": {QUERY: list(ranking)} for number, ranking in enumerate(rankings)}, k)


def numbered(rankings: Rankings, lists: Sequence[Ranking], width: int) -> Array:
    """The entries of lists, as `ranked` numbers the documents of its one query."""
    number = {document: place for place, document in enumerate(union(rankings))}
    found = np.full((len(lists), width), -1, np.int64)
    for row, shown in enumerate(lists):
        found[row, : len(shown)] = [number.get(document, -1) for document in shown]
    return found


def seen(rankings: Rankings, lists: Sequence[Ranking], k: int) -> RankedLists:
    """Lists as these rankers have them, each in a group of its own."""
    entries = numbered(rankings, lists, k)
    counts = np.array([len(shown) for shown in lists])
    queries, teams = np.zeros(len(lists), np.int64), np.full(entries.shape, -1, np.int8)
    made: Impression = impressions_of(new_rankings(rankings, k), queries, np.maximum(entries, 0), teams)
    return RankedLists(made, entries, counts, np.arange(len(lists)))


class Happening(NamedTuple):
    """A list of the source and clicks on it, with its chance."""

    shown: Ranking
    clicks: tuple[bool, ...]
    chance: Fraction


def happenings(method: str, rankings: Rankings, k: int, people: Callable[[Ranking], Patterns]) -> list[Happening]:
    return [
        Happening(shown, tuple(map(bool, pattern)), of_list * of_clicks)
        for shown, of_list in list_chances(method, rankings, k).items()
        for pattern, of_clicks in people(shown).items()
    ]


def clicks_of(rows: Sequence[Happening], k: int) -> Array:
    found = np.zeros((len(rows), k), np.bool_)
    for place, row in enumerate(rows):
        found[place, : len(row.clicks)] = row.clicks
    return found
