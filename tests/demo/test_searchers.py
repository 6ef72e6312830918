"""The demo's people: known items, clicks as the model says, a known truth, and a verdict that agrees with it."""

from collections import Counter
from contextlib import closing
from math import comb
from pathlib import Path
from statistics import fmean, median

import interleaf
from interleaf.demo.engine import Engine, LibraryEntry, leaf, words_of
from interleaf.demo.live_demo import Demo
from interleaf.demo.searchers import (
    BY_NAME,
    CLICKS,
    SECONDS,
    VISITS,
    PersonSearch,
    clicks,
    grade,
    reciprocal_ranks,
    searches,
)
from tests.support.demo_library import library

CONTROL, CANDIDATE = Demo().rankers


def is_likely(successes: int, trials: int, probability: float) -> bool:
    """Whether so few and so many successes are no rarer than one in a million, by the exact binomial."""
    terms = [comb(trials, n) * probability**n * (1 - probability) ** (trials - n) for n in range(trials + 1)]
    return sum(terms[: successes + 1]) > 5e-7 and sum(terms[successes:]) > 5e-7


def test_people_are_a_function_of_the_seed() -> None:
    first = searches(library().entries, 50, seed=3)
    assert first == searches(library().entries, 50, seed=3)
    assert [one.query for one in first] != [one.query for one in searches(library().entries, 50, seed=4)]
    assert len({one.key for one in first}) == len(first)
    assert set(searches(library().entries, 20, seed=3)) <= set(first)
    assert searches(library().entries, 0, seed=3) == []


def test_people_come_one_after_another_and_some_come_back() -> None:
    asked = searches(library().entries, 800)
    newcomers = list(dict.fromkeys(one.unit for one in asked))
    assert newcomers == [f"person-{number}" for number in range(1, 801)]
    visits = Counter(Counter(one.unit for one in asked).values())
    for number, share in enumerate(VISITS, 1):
        assert is_likely(visits[number], 800, share)
    assert all(len({one.device for one in asked if one.unit == unit}) == 1 for unit in newcomers[:50])


def test_a_query_is_the_name_of_what_is_wanted_or_words_of_it() -> None:
    asked = searches(library().entries, 300)
    names = 0
    for one in asked:
        entry = library().entries[one.wanted]
        if one.query == leaf(one.wanted):
            names += 1
            continue
        words = one.query.split()
        assert 1 <= len(words) <= 3
        assert words[0] in words_of(leaf(one.wanted))
        assert set(words) <= {*words_of(leaf(one.wanted)), *words_of(entry.text)}
    assert names / len(asked) > BY_NAME - 0.1
    assert all(library().search(one.query, "equal") for one in asked)


def test_grades_are_two_for_the_wanted_entry_and_one_beside_it() -> None:
    wanted = "json.encoder.JSONEncoder.encode"
    assert grade(wanted, wanted) == 2
    assert grade("json.encoder.JSONEncoder.default", wanted) == grade("json.encoder.JSONEncoder", wanted) == 1
    assert grade("json.encoder", wanted) == grade("json", wanted) == grade("json.dumps", wanted) == 0
    assert grade("json", "shelve") == grade("json.dumps", "shelve") == 0


def test_clicks_and_dwell_follow_the_model() -> None:
    people = [PersonSearch("u", "phone", "q", "m.wanted", f"{number}") for number in range(400)]
    found = [clicks(one, ["x.y", "m.wanted", "m.other"]) for one in people]
    assert found == [clicks(one, ["x.y", "m.wanted", "m.other"]) for one in people]
    model = CLICKS.__class__(CLICKS.click, CLICKS.stop, grades={"m.wanted": 2, "m.other": 1})
    chances = model.distribution(["x.y", "m.wanted", "m.other"])
    seen = Counter(tuple(rank for rank, _ in one) for one in found)
    assert set(seen) <= set(chances)
    for pattern, probability in chances.items():
        assert is_likely(seen[pattern], len(people), float(probability))
    dwells = [dwell for one in found for rank, dwell in one if rank == 2]
    assert is_likely(sum(dwell > SECONDS[2] for dwell in dwells), len(dwells), 0.5)
    assert median(dwells) > SECONDS[1] > 0


def test_the_reciprocal_rank_is_that_of_the_wanted_entry() -> None:
    entries = [LibraryEntry(f"m.n{place}", "function", "m", "shoe " * place, "boot") for place in range(1, 5)]
    with closing(Engine(entries)) as engine:
        ranking = engine.search("shoe", "title", 3)
        asked = [PersonSearch("u", "phone", "shoe", one.id, "k") for one in entries]
        expected = [1 / (ranking.index(one.id) + 1) if one.id in ranking else 0.0 for one in entries]
        assert reciprocal_ranks(engine, "title", asked, k=3) == expected
        assert sorted(expected) == [0.0, 1 / 3, 1 / 2, 1.0]


def test_the_candidate_of_the_demo_is_better_by_the_known_items() -> None:
    asked = searches(library().entries, 400, seed=11)
    ranks = {ranker: reciprocal_ranks(library(), ranker, asked) for ranker in ("worst", CONTROL, CANDIDATE)}
    means = {ranker: fmean(found) for ranker, found in ranks.items()}
    assert means["worst"] < means[CONTROL] - 0.3
    assert means[CANDIDATE] > means[CONTROL] + 0.04
    better = sum(new > old for old, new in zip(ranks[CONTROL], ranks[CANDIDATE], strict=True))
    worse = sum(new < old for old, new in zip(ranks[CONTROL], ranks[CANDIDATE], strict=True))
    assert not is_likely(better, better + worse, 0.5)


def test_three_hundred_people_find_the_better_ranker(tmp_path: Path) -> None:
    with interleaf.LogWriter(tmp_path, experiment="demo") as log:
        for search in searches(library().entries, 300, seed=2):
            rankings, _ = library().answers(search.query, (CONTROL, CANDIDATE))
            shown = interleaf.interleave(rankings, k=10, key=("demo", 1, search.unit, search.query))
            name = log.impression(shown, unit=search.unit, query=search.query)
            for rank, dwell in clicks(search, [str(one) for one in shown.documents]):
                log.event(name, rank=rank, dwell=dwell)
    report = interleaf.analyze(tmp_path, control=CONTROL, planned_units=300)
    assert report.verdict.winner == CANDIDATE
    assert report.verdict.trusted
