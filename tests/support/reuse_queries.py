"""Worlds of several queries: an old log by chance, what it says of new rankers, and the enumerated truth."""

from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from interleaf.counterfactual import ReuseResult
from interleaf.counterfactual.list_outcomes import scorer_of
from interleaf.counterfactual.new_rankings import ListsInMemory, RankersView, encode_rankings
from interleaf.counterfactual.old_log import LoggedRankings, OldImpressions, OldRows
from interleaf.counterfactual.reuse import reuse_lists
from interleaf.kernels import buckets
from tests.oracles.clicks import Patterns, cascade, independent
from tests.oracles.expectation import expectation
from tests.oracles.forms import Ranking
from tests.support.reuse_worlds import ORACLES, rankings_of


class Part(NamedTuple):
    """A query: its share of the traffic, the rankings of old and of new rankers, and how people click its lists."""

    share: float
    old: str
    new: str
    people: Callable[[Ranking], Patterns]


class World(NamedTuple):
    """A log's method, and the queries that people ask."""

    method: str
    k: int
    parts: tuple[Part, ...]


def coins(**chances: float) -> Callable[[Ranking], Patterns]:
    return lambda shown: independent([Fraction(chances.get(str(document), 0.0)) for document in shown])


def readers(**grades: int) -> Callable[[Ranking], Patterns]:
    """Read down the list, click by grade, and leave after half of the clicks."""
    click = (Fraction(1, 20), Fraction(2, 5), Fraction(9, 10))
    return lambda shown: cascade([grades.get(str(d), 0) for d in shown], click, (Fraction(1, 2),) * 3)


def truth_of(world: World, method: str = "team_draft") -> float:
    """The mean score, scheme binary, of lists that this method composes of the new rankings, by enumeration."""
    return sum(part.share * _score(part, world.k, ORACLES[method]) for part in world.parts)


def _score(part: Part, k: int, oracle: Any) -> float:
    new = rankings_of(part.new)
    live = expectation(
        oracle.distribution(new, k),
        lambda shown, teams, clicks: oracle.preference(new, shown, teams, clicks, "binary"),
        part.people,
    )
    return float(live[0][1])


@cache
def happened(world: World) -> list[tuple[int, Ranking, tuple[bool, ...], float, float]]:
    """Every query, list and clicks of the log, with their chance and that of the list."""
    found = []
    for query, part in enumerate(world.parts):
        lists: dict[Ranking, Fraction] = {}
        for (shown, _), chance in ORACLES[world.method].distribution(rankings_of(part.old), world.k).items():
            lists[shown] = lists.get(shown, Fraction(0)) + chance
        for shown, chance in lists.items():
            for pattern, of_clicks in part.people(shown).items():
                clicks = tuple(map(bool, pattern))
                found.append((query, shown, clicks, part.share * float(chance * of_clicks), float(chance)))
    return found


def old_of(world: World, rows: int, seed: int) -> OldImpressions:
    """Impressions by chance, two of each unit."""
    outcomes, chance = happened(world), np.random.default_rng(seed)
    weights = np.array([outcome[3] for outcome in outcomes])
    some = chance.choice(len(outcomes), rows, p=weights / weights.sum())
    hashes = {letter: buckets.hash_of(buckets.DOCUMENT, letter) for letter in "abcdexyz"}
    made = OldRows(
        identity=np.arange(rows, dtype=np.uint64),
        query=np.array([query for query, *_ in outcomes])[some],
        documents=np.array([[hashes[str(one)] for one in shown] for _, shown, *_ in outcomes], np.uint64)[some],
        counts=np.full(rows, world.k),
        clicks=np.array([clicks for _, _, clicks, *_ in outcomes])[some],
        teams=np.full((rows, world.k), -1, np.int8),
        unit=chance.integers(0, 2**64, rows // 2, np.uint64).repeat(2),
        union=np.full(rows, 4),
        rankers=np.full(rows, 2),
        log_chance=np.log([of_list for *_, of_list in outcomes])[some],
        log_joint=np.full(rows, np.nan),
    )
    return OldImpressions(made, [str(query) for query in range(len(world.parts))], world.method)


def answered(world: World, rows: int, seed: int, method: str = "team_draft", scheme: str | None = None) -> ReuseResult:
    rankings: Mapping[str, dict[str, list[str]]] = {
        name: {str(query): list(rankings_of(part.new)[place]) for query, part in enumerate(world.parts)}
        for place, name in enumerate(("first", "second"))
    }
    view = RankersView(encode_rankings(rankings, world.k), scorer_of(method, scheme, 2), world.k)
    return reuse_lists(ListsInMemory([old_of(world, rows, seed)], view, Counter()), view, LoggedRankings(()), seed=seed)
