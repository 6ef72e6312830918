"""Logs that could not show all lists of the new rankers: intervals hold the enumerated truth, and no sign is wrong."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import binom

from interleaf import buckets, interleave
from interleaf.refine.reuse import Reused, reuse
from interleaf.refine.reuse import robust as robust_module
from interleaf.refine.reuse.borrowed import Borrowed
from interleaf.refine.reuse.estimate import reused
from interleaf.refine.reuse.held import Kept, View
from interleaf.refine.reuse.old import Old, Rows
from interleaf.refine.reuse.outcomes import scorer_of
from interleaf.refine.reuse.rankings import ranked
from tests.log_rows import START, Row, made_event, table_of
from tests.oracles import team_draft as drafts
from tests.oracles.clicks import Patterns, cascade, independent
from tests.oracles.expectation import expectation
from tests.oracles.forms import Ranking
from tests.reuse_logs import clean, of
from tests.reuse_worlds import ORACLES, rankings_of

RUNS = 100


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
    parts: Sequence[Part]


def coins(**chances: float) -> Callable[[Ranking], Patterns]:
    return lambda shown: independent([Fraction(chances.get(str(document), 0.0)) for document in shown])


def readers(**grades: int) -> Callable[[Ranking], Patterns]:
    """Read down the list, click by grade, and leave after half of the clicks."""
    click = (Fraction(1, 20), Fraction(2, 5), Fraction(9, 10))
    return lambda shown: cascade([grades.get(str(d), 0) for d in shown], click, (Fraction(1, 2),) * 3)


WORLDS = {
    "a document that was never drafted": World(
        "team_draft",
        2,
        (
            Part(0.45, "abcd bacd", "abcd dabc", coins(a=0.1, d=0.9)),
            Part(0.55, "abcd bacd", "abcd bacd", coins(a=0.6, b=0.3)),
        ),
    ),
    "known documents in an order that was never drafted": World(
        "team_draft",
        3,
        (
            Part(0.5, "abcde bacde", "abcde cabde", readers(c=2, a=1)),
            Part(0.5, "abcde bacde", "abcde bacde", readers(a=2)),
        ),
    ),
    "lists of pairwise preference": World(
        "pairwise_preference",
        2,
        (
            Part(0.4, "abcd bacd", "abcd dcab", coins(d=0.9, c=0.7, a=0.2)),
            Part(0.6, "abcd dabc", "abcd adbc", coins(a=0.5, b=0.4, d=0.1)),
        ),
    ),
}


def truth_of(world: World) -> float:
    """The mean score of drafts of the new rankers, by enumeration."""
    return sum(part.share * score_of(part, world.k) for part in world.parts)


def score_of(part: Part, k: int) -> float:
    new = rankings_of(part.new)
    live = expectation(
        drafts.distribution(new, k),
        lambda shown, teams, clicks: drafts.preference(new, shown, teams, clicks, "binary"),
        part.people,
    )
    return float(live[0][1])


def happened(world: World) -> Iterator[tuple[int, Ranking, tuple[bool, ...], float, float]]:
    """Every query, list and clicks of the log, with their chance and that of the list."""
    for query, part in enumerate(world.parts):
        lists: dict[Ranking, Fraction] = {}
        for (shown, _), chance in ORACLES[world.method].distribution(rankings_of(part.old), world.k).items():
            lists[shown] = lists.get(shown, Fraction(0)) + chance
        for shown, chance in lists.items():
            for pattern, of_clicks in part.people(shown).items():
                yield query, shown, tuple(map(bool, pattern)), part.share * float(chance * of_clicks), float(chance)


def old_of(world: World, rows: int, seed: int) -> Old:
    """Impressions by chance, two of each unit."""
    outcomes, chance = list(happened(world)), np.random.default_rng(seed)
    weights = np.array([outcome[3] for outcome in outcomes])
    some = [outcomes[number] for number in chance.choice(len(outcomes), rows, p=weights / weights.sum())]
    hashes = {letter: buckets.hash_of(buckets.DOCUMENT, letter) for letter in "abcde"}
    made = Rows(
        identity=np.arange(rows, dtype=np.uint64),
        query=np.array([query for query, *_ in some]),
        documents=np.array([[hashes[str(document)] for document in shown] for _, shown, *_ in some], np.uint64),
        counts=np.full(rows, world.k),
        clicks=np.array([clicks for _, _, clicks, *_ in some]),
        teams=np.full((rows, world.k), -1, np.int8),
        unit=chance.integers(0, 2**64, rows // 2, np.uint64).repeat(2),
        union=np.full(rows, 4),
        rankers=np.full(rows, 2),
        log_chance=np.log([of_list for *_, of_list in some]),
        log_joint=np.full(rows, np.nan),
    )
    return Old(made, [str(query) for query in range(len(world.parts))], world.method)


def answered(world: World, rows: int, seed: int, method: str = "team_draft", scheme: str | None = None) -> Reused:
    rankings: Mapping[str, dict[str, list[str]]] = {
        name: {str(query): list(rankings_of(part.new)[place]) for query, part in enumerate(world.parts)}
        for place, name in enumerate(("first", "second"))
    }
    view = View(ranked(rankings, world.k), scorer_of(method, scheme, 2), world.k)
    return reused(Kept([old_of(world, rows, seed)], view, Counter()), view, Borrowed(()), seed=seed)


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("rows", [100, 1000])
def test_the_interval_allows_for_lists_that_the_log_could_not_show(name: str, rows: int) -> None:
    world = WORLDS[name]
    truth, held, wrong = truth_of(world), 0, 0
    for seed in range(RUNS):
        found = answered(world, rows, seed)
        (one,) = found.answers
        assert one.interval is not None
        assert found.supported is not None
        held += one.interval[0] <= truth <= one.interval[1]
        wrong += one.winner(0.95) == ("second" if truth > 0 else "first")
    assert held >= binom.ppf(0.001, RUNS, 0.95)
    assert wrong == 0


def test_preferences_that_lists_out_of_reach_cannot_turn_are_told() -> None:
    """A tenth of the lists are out of reach, and the others prefer the first by .8."""
    world = World(
        "team_draft",
        2,
        (
            Part(0.1, "abcd bacd", "abcd dabc", coins(a=0.1, d=0.9)),
            Part(0.9, "abcd bacd", "abcd bacd", coins(a=0.9, b=0.1)),
        ),
    )
    found = answered(world, 3000, 1)
    assert found.supported == pytest.approx(0.9, abs=0.03)
    assert found.answers[0].winner(0.95) == "first"
    assert "People would prefer first to second" in found.answer[0]


def test_with_full_support_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    world = World("team_draft", 2, (Part(1.0, "abcd bacd", "bacd abdc", coins(a=0.5, b=0.4)),))
    truth = truth_of(world)
    spans = [one.interval for seed in range(RUNS) for one in answered(world, 1000, seed).answers]
    held = sum(span is not None and span[0] <= truth <= span[1] for span in spans)
    assert held >= binom.ppf(0.001, RUNS, 0.95)
    assert np.mean([span[1] - span[0] for span in spans if span is not None]) < 0.2


@pytest.mark.parametrize("method", ["pairwise_preference", "probabilistic"])
def test_methods_without_a_bound_and_click_models_give_no_confident_answer(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robust_module, "FEWEST_DRAWN", 500)
    for name, world in WORLDS.items():
        found = answered(world, 1000, 3, method)
        assert "cannot be told from this log" in found.answer[0], name
        assert found.answers[0].winner(0.95) is None
        for one in found.estimates:
            assert one.winner(0.95) is None, (name, one)
        clean(found)


def drafted_row(number: int, chance: np.random.Generator) -> Row:
    """The example: rankers abcd and bacd are drafted, two documents a page."""
    first = bool(chance.random() < 0.45)
    shown = interleave({"A": list("abcd"), "B": list("bacd")}, "team_draft", k=2, key=("old", number))
    rates = {"d": 0.9, "a": 0.1} if first else {"a": 0.6, "b": 0.3}
    clicks = [rank for rank, document in enumerate(shown.documents, 1) if chance.random() < rates.get(str(document), 0)]
    time = START
    row = {"experiment": "old", "version": 1, "impression": f"i-{number}", "time": time, "unit": f"u-{number}"}
    row |= {"arm": "interleaved", "query": "1" if first else "2", "attributes": {}}
    return shown.to_dict(rankings=True) | row | {"events": [made_event(rank, time) for rank in clicks]}


def test_a_log_of_drafts_is_read_with_what_it_could_not_show() -> None:
    """The truth is -.195; of the lists that could be shown, the mean is +.3."""
    chance = np.random.default_rng(1)
    table = table_of([drafted_row(number, chance) for number in range(3000)])
    found = reuse(table, {"A": None, "new": {"1": list("dabc"), "2": list("bacd")}}, scheme="binary")
    (one,) = found.answers
    assert one.interval is not None
    assert one.interval[0] < -0.195 < one.interval[1]
    assert found.supported == pytest.approx(0.55, abs=0.05)
    assert found.answer[0].startswith("Which of A and new people would prefer cannot be told from this log")
    assert any("could have shown about 5" in warning for warning in found.warnings)
    assert of(found, "TD+IS, self-normalised").interval is None
    assert isinstance(found.plans["A", "new"], str)
    data = clean(found)
    assert data["supported"] == found.supported
    assert "could have shown about" in found.to_markdown()
