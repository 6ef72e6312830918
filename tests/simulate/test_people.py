"""Simulated people: they do what their description says, their logs can be replayed, and the truth is the truth."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from interleaf import ClickError, DataError, Interleaving, MethodError, RankingError, credit, interleave, tally_log
from interleaf.clicks import Cascade
from interleaf.kernels.arrays import Array
from interleaf.kernels.randomness import key_of
from interleaf.log import schema
from interleaf.methods.registry import METHODS
from interleaf.simulate.data import Judged, synthetic
from interleaf.simulate.pages import habits_of, read
from interleaf.simulate.people import People, streams, words_of
from interleaf.simulate.world import World

DATA = synthetic(queries=60, documents=15, features=8, grades=5, seed=4)
SHORT = synthetic(queries=12, documents=(2, 14), features=8, grades=3, seed=2)
BROWSING = Cascade(click=(0.2, 0.3, 0.4, 0.5, 0.6), stop=(0, 0, 0, 0, 0))
COMPARING = [name for name, row in METHODS.items() if row.schemes]


def world(people: People | None = None, **changes: Any) -> World:
    given: dict[str, Any] = {"data": DATA, "rankers": [3, 4], "people": people or People(units=400), "seed": 5}
    return World(**given | changes)


def table(made: World, **options: Any) -> Any:
    found = pa.Table.from_batches(made.batches(**options))
    found.validate(full=True)
    schema.validate(found.schema)
    assert found.schema.equals(schema.SCHEMA)
    return found.combine_chunks()


def rows(made: World, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table(made, **options).to_pylist()
    return found


@cache
def ordinary() -> list[dict[str, Any]]:
    return rows(world(People(units=2000), method="team_draft"))


def clicks(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in row["events"] if event["kind"] == "click"]


def scores(made: World) -> tuple[Array, Array]:
    """What each clicked impression prefers, and whose it is."""
    clicked = [row for row in rows(made) if row["events"]]
    units = {unit: number for number, unit in enumerate(dict.fromkeys(row["unit"] for row in clicked))}
    found = [credit(Interleaving.from_dict(row), [event["rank"] for event in row["events"]]).score for row in clicked]
    return np.array(found), np.array([units[row["unit"]] for row in clicked])


def estimate(made: World) -> tuple[float, float, float]:
    """The mean score; its standard error by unit, and as if impressions were independent."""
    found, units = scores(made)
    left = found - found.mean()
    by_unit = np.sqrt((np.bincount(units, left) ** 2).sum()) / len(found)
    return float(found.mean()), float(by_unit), float(np.sqrt((left**2).sum()) / len(found))


@pytest.mark.parametrize("relabel", [False, True])
@pytest.mark.parametrize("rankers", [[1, 5], [1, 5, 7]])
@pytest.mark.parametrize("method", [*COMPARING, "team_draft(fill=stop, prefix=True)", "probabilistic(tau=1)"])
def test_every_list_is_composed_again_from_the_logged_rankings_and_key(
    method: str, rankers: list[int], relabel: bool
) -> None:
    if len(rankers) > 2 and METHODS[method.partition("(")[0]].rankers[1] == 2:
        return
    for k in (10, 3):
        made = World(SHORT, rankers, People(units=30), method, k, 3, {"holdout": 0.2, "B": 0.2}, relabel)
        logged = rows(made, rankings=True, log_probability=True)
        assert {row["arm"] for row in logged} == {"interleaved", "holdout", "B"}
        for row in logged:
            again = interleave(dict(zip(row["rankers"], row["rankings"], strict=True)), row["method"], k, row["key"])
            for name, value in again.to_dict(rankings=True).items():
                assert row[name] == value, name


def test_keys_are_those_of_salt_unit_and_query() -> None:
    made = world(experiment="wörld")
    for row in rows(made, impressions=200):
        assert row["key"] == key_of((made.salt, row["unit"], row["query"]))
        assert row["documents"][0].startswith(f"q{row['query']}-d")


def test_the_log_does_not_depend_on_chunks_or_threads() -> None:
    people = People(units=300, crawlers=0.02, purchases=(0, 0.3), narrow=0.3, caption_strength=1.0)
    made = world(people, arms={"holdout": 0.1})
    whole = table(made, rankings=True, captions=True)
    for chunk, threads in ((1, 2), (50, 1), (333, 4)):
        assert table(made, chunk=chunk, threads=threads, rankings=True, captions=True).equals(whole)
    assert not table(world(people, seed=6)).equals(table(world(people)))


def test_fewer_impressions_or_units_are_the_first_ones() -> None:
    whole = table(world())
    assert table(world(), units=100).equals(whole.slice(0, table(world(), units=100).num_rows))
    assert table(world(), impressions=77).equals(whole.slice(0, 77))
    beyond = table(world(), impressions=whole.num_rows + 500)
    assert beyond.slice(0, whole.num_rows).equals(whole)
    assert beyond.num_rows == whole.num_rows + 500


def test_impressions_events_and_sessions_have_names_of_their_own() -> None:
    logged = ordinary()
    assert len({row["impression"] for row in logged}) == len(logged)
    events = [event["event"] for row in logged for event in row["events"]]
    assert len(set(events)) == len(events)
    assert {row["session"].rpartition("-")[0] for row in logged} == {f"seed5-{row['unit']}" for row in logged}


@given(seeds=st.lists(st.integers(-3, 2**40), min_size=2, max_size=2, unique=True))
@settings(max_examples=10, deadline=None)
def test_logs_of_two_seeds_add_up(seeds: list[int]) -> None:
    tallies = [tally_log(table(world(seed=seed), impressions=150)) for seed in seeds]
    assert (tallies[0] + tallies[1]).impressions == 300
    ids = [row["impression"] for seed in seeds for row in rows(world(seed=seed), impressions=150)]
    assert len(set(ids)) == 300


def share_of_the_busiest(logged: list[dict[str, Any]]) -> float:
    _, counts = np.unique([row["unit"] for row in logged], return_counts=True)
    busiest = np.sort(counts)[::-1][: len(counts) // 100]
    return float(busiest.sum() / counts.sum())


def test_visits_have_a_heavy_tail() -> None:
    assert share_of_the_busiest(ordinary()) > 0.12
    assert share_of_the_busiest(rows(world(People(units=2000, visits_tail=10)))) < 0.05
    sessions = {row["session"] for row in rows(world(People(units=20, min_visits=3, max_visits=3)))}
    assert len(sessions) == 60


def test_sessions_go_on_more_often_when_nothing_was_clicked() -> None:
    logged = ordinary()
    last = {row["session"]: row["impression"] for row in logged}
    goes_on: dict[bool, list[bool]] = {True: [], False: []}
    for row in logged:
        goes_on[bool(row["events"])].append(last[row["session"]] != row["impression"])
    assert np.mean(goes_on[True]) == pytest.approx(0.15, abs=0.02)
    assert np.mean(goes_on[False]) == pytest.approx(0.5, abs=0.07)
    for before, after in pairwise(logged):
        if before["session"] == after["session"]:
            assert before["query"] != after["query"]


def test_units_come_back_to_a_query_of_their_own() -> None:
    def repeated(returning: float) -> float:
        logged = rows(world(People(units=100, min_visits=8, max_visits=8, returning=returning)))
        asked = [(row["unit"], row["query"]) for row in logged]
        return 1 - len(set(asked)) / len(asked)

    assert repeated(0.6) > repeated(0) + 0.3


def test_times_are_ordered() -> None:
    people = People(units=1000, clicks=BROWSING)
    logged = rows(world(people))
    for row in logged:
        times = [row["time"], *(event["time"] for event in row["events"])]
        assert all(before < after for before, after in pairwise(times))
        for event, following in pairwise(row["events"]):
            dwell = timedelta(seconds=event["dwell"])
            assert event["time"] + dwell < following["time"] + timedelta(milliseconds=1)
    for before, after in pairwise(logged):
        if before["unit"] == after["unit"]:
            assert max([before["time"], *(event["time"] for event in before["events"])]) < after["time"]
    assert min(row["time"] for row in logged) >= people.start
    assert max(row["time"] for row in logged) < people.start + timedelta(days=people.days + 0.1)
    days = [(row["time"] - people.start).days for row in logged]
    assert min(np.bincount(days, minlength=14)) > len(days) / 14 / 3


def test_a_lower_click_comes_later_but_for_some_returns() -> None:
    several = [[event["rank"] for event in row["events"]] for row in rows(world(People(units=1000, clicks=BROWSING)))]
    several = [ranks for ranks in several if len(ranks) > 1]
    assert np.mean([ranks != sorted(ranks) for ranks in several]) == pytest.approx(0.1, abs=0.025)
    assert all(ranks[:-1] == sorted(ranks[:-1]) for ranks in several)
    assert all(len(set(ranks)) == len(ranks) for ranks in several)
    never = rows(world(People(units=200, clicks=BROWSING, regressions=0)))
    assert all([event["rank"] for event in row["events"]] == sorted(e["rank"] for e in row["events"]) for row in never)


def test_dwell_grows_with_the_grade() -> None:
    seconds: dict[int, list[float]] = {grade: [] for grade in range(5)}
    for row in rows(world(People(units=2000, clicks=BROWSING, dwell=(10, 160)))):
        for event in row["events"]:
            seconds[row["grades"][event["rank"] - 1]].append(event["dwell"])
    for grade, found in seconds.items():
        assert np.median(found) == pytest.approx(10 * 2**grade, rel=0.25)


def test_purchases_follow_clicks_and_the_grade() -> None:
    bought: dict[int, list[bool]] = {grade: [] for grade in range(5)}
    for row in rows(world(People(units=2000, clicks=BROWSING, purchases=(0, 0.05, 0.1, 0.2, 0.4)))):
        clicked = {event["rank"]: event["time"] for event in clicks(row)}
        purchases = {event["rank"]: event for event in row["events"] if event["kind"] == "purchase"}
        assert purchases.keys() <= clicked.keys()
        assert all(event["value"] > 0 and event["dwell"] is None for event in purchases.values())
        assert all(event["time"] > clicked[rank] for rank, event in purchases.items())
        for rank in clicked:
            bought[row["grades"][rank - 1]].append(rank in purchases)
    for grade, share in enumerate((0, 0.05, 0.1, 0.2, 0.4)):
        assert np.mean(bought[grade]) == pytest.approx(share, abs=0.07)


@pytest.mark.parametrize("needs_click", [True, False])
def test_without_taste_and_captions_clicks_are_those_of_the_cascade(needs_click: bool) -> None:
    model = Cascade((0.1, 0.5, 0.9), (0.1, 0.4, 0.7), needs_click, {"a": 2, "b": 0, "c": 1})
    count = 40_000
    people = habits_of(People(clicks=model), grades=3)
    keys = streams(words_of("cascade"), np.arange(count))
    grades = np.tile(np.array([2, 0, 1], np.int8), (count, 1))
    events = read(keys, np.full(count, 3), grades, np.zeros((count, 3)), np.zeros(count, np.bool_), people)
    found: dict[tuple[int, ...], int] = {}
    for ranks, number in zip(events.ranks.tolist(), events.counts.tolist(), strict=True):
        pattern = tuple(sorted(ranks[:number]))
        found[pattern] = found.get(pattern, 0) + 1
    expected = model.distribution(["a", "b", "c"])
    assert found.keys() <= expected.keys()
    for pattern, probability in expected.items():
        share = float(probability)
        assert abs(found.get(pattern, 0) - count * share) < 5 * np.sqrt(count * share * (1 - share)) + 1e-9


def test_no_preference_on_average_although_units_have_one() -> None:
    people = People(units=1500, taste_spread=2.0, min_visits=3)
    mean, by_unit, by_impression = estimate(world(people, relabel=True))
    assert abs(mean) < 3 * by_unit
    assert by_unit > 1.6 * by_impression
    alike = world(replace(people, taste_spread=0.0, min_visits=1, visits_tail=10), rankers=[3, 3])
    _, by_unit, by_impression = estimate(alike)
    assert by_unit < 1.15 * by_impression


@pytest.mark.parametrize(("taste", "sign"), [(0.7, 1), (-0.7, -1)])
def test_a_mean_taste_is_a_preference(taste: float, sign: int) -> None:
    made = world(People(units=1500, taste=taste), relabel=True)
    mean, by_unit, _ = estimate(made)
    assert sign * mean > 4 * by_unit
    assert made.truth.preferred == ("A" if sign > 0 else "B")


def test_crawlers_click_everything_at_once_and_come_often() -> None:
    logged = rows(world(People(units=1000, crawlers=0.02)))
    visits: dict[str, set[str]] = {}
    crawling: set[str] = set()
    for row in logged:
        visits.setdefault(row["unit"], set()).add(row["session"])
        if len(row["events"]) == len(row["documents"]):
            assert [event["rank"] for event in row["events"]] == list(range(1, 11))
            assert row["events"][-1]["time"] - row["time"] < timedelta(seconds=1)
            crawling.add(row["unit"])
    everything = {unit for unit in visits if all(len(r["events"]) == 10 for r in logged if r["unit"] == unit)}
    assert 8 <= len(everything & crawling) <= 35
    assert min(len(visits[unit]) for unit in everything) >= 30


def test_arms_have_their_shares_and_units_keep_their_arm() -> None:
    made = world(People(units=4000, visits_tail=5), arms={"holdout": 0.1, "A": 0.2, "B": 0.3})
    arms: dict[str, set[str]] = {}
    for row in rows(made, rankings=True):
        arms.setdefault(row["unit"], set()).add(row["arm"])
        if row["arm"] != "interleaved":
            ranker = {"holdout": 0, "A": 0, "B": 1}[row["arm"]]
            assert row["method"] == f"single(ranker={'AB'[ranker]})"
            assert row["documents"] == row["rankings"][ranker][:10]
            assert row["teams"] == [ranker] * 10
    assert all(len(found) == 1 for found in arms.values())
    for arm, share in (("interleaved", 0.4), ("holdout", 0.1), ("A", 0.2), ("B", 0.3)):
        assert np.mean([arm in found for found in arms.values()]) == pytest.approx(share, abs=0.03)


def test_people_with_a_narrow_intent_click_less_of_what_is_relevant() -> None:
    def rate(narrow: float) -> float:
        logged = rows(world(People(units=800, clicks=BROWSING, narrow=narrow, intents=4)))
        clicked = sum(row["grades"][event["rank"] - 1] == 4 for row in logged for event in row["events"])
        return float(clicked / sum(row["grades"].count(4) for row in logged))

    assert rate(0) == pytest.approx(0.6, abs=0.05)
    assert rate(1) == pytest.approx(0.6 / 4 + 0.2 * 3 / 4, abs=0.06)


def test_captions_show_the_attraction_that_was_planted() -> None:
    made = world(People(units=1500, clicks=BROWSING, caption_strength=1.5))
    clicked: dict[int, list[bool]] = {level: [] for level in range(-3, 4)}
    for row in rows(made, captions=True):
        ranks = {event["rank"] for event in row["events"]}
        for rank, caption in enumerate(row["captions"], 1):
            for mark in caption["highlights"]:
                assert caption[mark["field"]][mark["start"] : mark["end"]] == f"q{row['query']}"
            bold = {0: -1, 1: 0, 3: 1}[len(caption["highlights"])]
            url = 1 - (len(caption["url"]) > 30) - (len(caption["url"]) > 50)
            snippet = -1 + (len(caption["snippet"]) > 30) + (len(caption["snippet"]) > 100)
            if row["grades"][rank - 1] == 0:
                clicked[bold + url + snippet].append(rank in ranks)
    for level, found in clicked.items():
        odds = 0.2 / 0.8 * np.exp(1.5 * level / 3)
        assert np.mean(found) == pytest.approx(odds / (1 + odds), abs=0.04)


def test_the_truth_of_worlds_that_were_made_for_it() -> None:
    assert world(rankers=[1, 8]).truth.preferred == "A"
    assert world(rankers={"old": 8, "new": 1}).truth.preferred == "new"
    assert world(rankers=[8, 5, 1]).truth.preferred == "C"
    same = world(People(taste=2.0), rankers=[3, 3], ties="shared").truth
    assert same.preferred is None
    assert same.reason.startswith("no preference on average: A and B appeal alike")
    assert same.ndcg[0] == same.ndcg[1]
    assert same.taste_effect == pytest.approx((0, 0))
    relabelled = world(rankers=[1, 8], relabel=True).truth
    assert relabelled.preferred is None
    assert relabelled.ndcg[0] == pytest.approx(relabelled.ndcg[1])
    assert "units differ in their taste" in relabelled.reason


def test_taste_and_captions_can_beat_relevance_and_the_truth_says_so() -> None:
    plain = world(rankers=[1, 4]).truth
    assert plain.preferred == "A"
    tasty = world(People(taste=-3), rankers=[1, 4]).truth
    assert tasty.preferred == "B"
    assert tasty.taste_effect[1] > 0 > tasty.taste_effect[0]
    assert "by NDCG A is better" in tasty.reason
    assert tasty.ndcg == plain.ndcg
    bold = world(People(caption_strength=4, caption_lean=-1), rankers=[1, 4]).truth
    assert bold.preferred == "B"
    assert bold.caption_effect[1] > bold.caption_effect[0]
    assert "captions +" in bold.reason
    for truth in (plain, tasty, bold):
        relevance = np.array(truth.appeal) - truth.caption_effect - truth.taste_effect
        assert relevance[0] > relevance[1]


def test_appeal_is_what_its_formula_says() -> None:
    features, grades = np.array([[3, 1], [2, 2], [1, 3]]), np.array([1, 0, 0])
    data = Judged(features, grades, np.array([0, 3]), ("only",), "three documents")
    people = People(clicks=Cascade((0.1, 0.6), (0, 0)), taste_spread=0)
    truth = World(data, [1, 2], people, k=2).truth
    assert truth.appeal == pytest.approx((0.6 + 0.1 / np.log2(3), 0.1 + 0.1 / np.log2(3)))
    assert truth.ndcg == pytest.approx((1, 0))
    narrow = World(data, [1, 2], replace(people, narrow=1.0, intents=2), k=2).truth
    assert narrow.appeal[0] == pytest.approx(0.35 + 0.1 / np.log2(3))


def test_the_written_log_carries_the_truth(tmp_path: Path) -> None:
    made = world(People(units=50))
    assert made.write(tmp_path / "world.parquet") == table(made).num_rows
    file = pq.ParquetFile(tmp_path / "world.parquet")
    assert file.read().equals(table(made))
    assert json.loads(file.schema_arrow.metadata[b"interleaf.truth"]) == json.loads(json.dumps(made.truth.to_dict()))
    assert made.write(tmp_path / "world.jsonl", impressions=20) == 20


def test_reports_can_be_split_by_device_and_country() -> None:
    found = [dict(row["attributes"]) for row in ordinary()]
    assert {row["device"] for row in found} == {"desktop", "mobile", "tablet"}
    assert len({row["country"] for row in found}) > 3
    assert all(row.keys() == {"device", "country"} for row in found)


def test_a_sample_without_the_best_grade_still_has_its_click_table() -> None:
    assert len(People().cascade(4).click) == 5
    assert len(People().cascade(2).click) == 2
    assert len(People(clicks="random").cascade(7).click) == 7


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("units", 0),
        ("units", 1.5),
        ("returning", 1.1),
        ("crawlers", -0.1),
        ("visits_tail", 0),
        ("taste", float("nan")),
        ("taste", "strong"),
        ("max_visits", 2**30),
        ("caption_lean", 2),
        ("intents", 0),
        ("dwell", (0, 10)),
        ("purchases", (0, 2)),
        ("start", datetime(2026, 1, 5)),
        ("clicks", 0.5),
    ],
)
def test_people_that_cannot_be_are_refused_by_field(field: str, value: Any) -> None:
    with pytest.raises(ClickError, match=f"people: {field}"):
        People(**{field: value})


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"rankers": [3]}, RankingError, "2 to 127 rankers, not 1"),
        ({"rankers": [3, 4, 5], "method": "balanced"}, RankingError, "exactly 2 rankers"),
        ({"rankers": {"holdout": 3, "B": 4}}, DataError, "cannot be named 'holdout'"),
        ({"method": "single"}, DataError, "compares nothing"),
        ({"method": "coin"}, MethodError, "unknown method 'coin'"),
        ({"k": 0}, RankingError, "k is 0"),
        ({"arms": {"C": 0.1}}, DataError, "no arm 'C'; an arm is 'holdout', 'A' or 'B'"),
        ({"arms": {"A": 0.6, "B": 0.6}}, DataError, "more than all units"),
        ({"arms": {"A": -1}}, DataError, "'A' has the share -1"),
        ({"people": People(clicks="cascade")}, ClickError, "no click table 'cascade'"),
        ({"people": People(clicks=Cascade((0, 1), (0, 0)))}, ClickError, "grades 0 to 1, but the data goes up to 4"),
        ({"people": People(dwell=(1, 2, 3))}, ClickError, "dwell knows grades 0 to 2"),
    ],
)
def test_a_world_that_cannot_be_is_refused(changes: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        world(**changes)


@pytest.mark.parametrize("option", ["impressions", "units", "chunk"])
def test_nothing_to_simulate_is_refused(option: str) -> None:
    nothing: dict[str, Any] = {option: 0}
    with pytest.raises(DataError, match=f"{option} is 0"):
        world().batches(**nothing)
