"""Documents at fixed ranks of a list: where they are shown, what is logged, and what clicks count for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf import ClickError, Interleaving, ListError, LogWriter, RankingError, analyze, credit, interleave
from interleaf.client.fallback import compose
from interleaf.experiment import Experiment, Request, show
from interleaf.log import read, rows_to_batch
from interleaf.log.schema import SCHEMA
from interleaf.methods.registry import resolve
from tests.interleaving.test_serialisation import tampered
from tests.support.services import exported, live
from tests.support.worlds import EVERY_SPEC, World, clicks_on, spec_and_world

RANKINGS: dict[str, list[Any]] = {"production": ["d4", "d1", "d7", "d2"], "candidate": ["d1", "d9", "d4", "d3"]}
ADS = {1: "ad", 3: "d9"}
KEY = ("shoes", 1, "user-7", "trail")


def example() -> Interleaving:
    return interleave(RANKINGS, k=5, key=KEY, fixed=ADS)


def test_fixed_documents_are_at_their_ranks_and_in_no_ranking() -> None:
    shown = example()
    rest = interleave({"production": RANKINGS["production"], "candidate": ["d1", "d4", "d3"]}, k=3, key=KEY)
    assert shown.documents == rest.documents
    first, second, third = rest.documents
    assert shown.whole_list == ("ad", first, "d9", second, third)
    assert shown.rankings == rest.rankings
    assert shown.to_dict(rankings=True) == rest.to_dict(rankings=True) | {"fixed": {"1": "ad", "3": "d9"}}


def test_clicks_are_ranks_of_what_people_see() -> None:
    shown = example()
    assert [shown.rank_in_log(rank) for rank in (1, 2, 3, 4, 5)] == [None, 1, None, 2, 3]
    rest = interleave({"production": RANKINGS["production"], "candidate": ["d1", "d4", "d3"]}, k=3, key=KEY)
    assert credit(shown, [1, 3, 4, 5], "click").credit == credit(rest, [2, 3], "click").credit
    assert set(credit(shown, [1, 3]).credit.values()) == {0.0}
    for rank in (0, 6):
        with pytest.raises(ClickError, match=f"rank {rank}, but ranks 1 to 5 were shown"):
            credit(shown, [rank])
        with pytest.raises(ClickError, match=f"rank {rank}, but ranks 1 to 5 were shown"):
            shown.rank_in_log(rank)


def test_a_fixed_document_below_the_end_of_the_list_is_not_shown() -> None:
    shown = interleave([["a"], ["b"]], key=KEY, fixed={3: "next", 5: "far"})
    assert shown.whole_list == (*shown.documents, "next")
    with pytest.raises(ClickError, match="ranks 1 to 3 were shown"):
        credit(shown, [5])


def test_without_fixed_documents_nothing_changes() -> None:
    plain = interleave(RANKINGS, key=KEY)
    assert plain == interleave(RANKINGS, key=KEY, fixed={}) == interleave(RANKINGS, key=KEY, fixed=None)
    assert plain.whole_list == plain.documents
    assert "fixed" not in plain.to_dict()
    assert plain != interleave(RANKINGS, key=KEY, fixed={1: "ad"})


def test_ids_are_compared_as_logs_keep_them() -> None:
    numbers: Any = [[7, 8, 9], np.array([9, 7, 8])]
    fixed: Any = {np.int64(2): "7", 1: np.int64(0)}
    shown = interleave(numbers, k=3, key=KEY, fixed=fixed)
    assert shown.whole_list[:2] == (0, "7")
    assert shown.whole_list[2] in (8, 9)
    assert json.loads(json.dumps(shown.to_dict()))["fixed"] == {"2": "7", "1": 0}
    grouped = interleave([["red", "blue", "hat"], ["blue", "hat"]], groups={"red": 1, "blue": 1}, fixed={1: "red"})
    assert grouped.whole_list == ("red", "hat")


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        (["ad"], ["fixed is ['ad']", "mapping from rank to document"]),
        ({0: "ad"}, ["'ad' at rank 0", "1 is the top"]),
        ({"1": "ad"}, ["'ad' at rank '1'", "a whole number"]),
        ({True: "ad"}, ["at rank True", "a whole number"]),
        ({5: "ad"}, ["'ad' at rank 5, but k is 4", "raise k"]),
        ({1: None}, ["None at rank 1", "a text or a whole number"]),
        ({1: ["ad"]}, ["['ad'] at rank 1", "a text or a whole number"]),
        ({1: 7, 2: "7"}, ["'7' at rank 2 and at rank 1", "give each document one rank"]),
        ({0: "ad", 9: "ad"}, ["at rank 0;", "but k is 4", "at rank 9 and at rank 0"]),  # all problems at once
        (dict(enumerate("wxyz", 1)), ["all of the 4 ranks", "raise k"]),
        (dict(enumerate("abc", 1)), ["no ranking holds a document that is not fixed"]),
    ],
)
def test_what_cannot_be_fixed_is_refused_with_the_remedy(fixed: Any, words: list[str]) -> None:
    with pytest.raises(RankingError) as refusal:
        interleave([["a", "b"], ["b", "c"]], k=4, key=KEY, fixed=fixed)
    for word in words:
        assert word in str(refusal.value)


def test_rankings_are_checked_as_without_fixed_documents() -> None:
    for rankings in ("ab", [["a", "b"], "ab"], [["a", "b"], {"a", "b"}], [["a", "a"], ["b"]], [["a", None], ["b"]]):
        with pytest.raises(RankingError):
            interleave(rankings, key=KEY, fixed={1: "ad"})  # type: ignore[arg-type]
    with pytest.raises(RankingError, match="k is 0"):
        interleave(RANKINGS, k=0, key=KEY, fixed={1: "ad"})


@st.composite
def fixed_worlds(draw: st.DrawFn) -> tuple[str, World, dict[int, str], int]:
    """A spec, rankings, fixed documents that may be in them, and the number of ranks, of which some are free."""
    spec, world = draw(spec_and_world(EVERY_SPEC))
    size = draw(st.integers(2, 8))
    ranks = draw(st.lists(st.integers(1, size), max_size=min(4, size - 1), unique=True))
    names = draw(st.permutations(["a", "b", "ad", "ad-2"]))
    fixed = dict(zip(ranks, names, strict=False))
    kept = tuple(tuple(one for one in ranking if one not in fixed.values()) for ranking in world.rankings)
    if not any(kept):
        fixed = {}
    return spec, world, fixed, size


def without(world: World, fixed: Mapping[int, str]) -> list[list[str]]:
    return [[one for one in ranking if one not in fixed.values()] for ranking in world.rankings]


@given(fixed_worlds(), st.integers())
def test_the_rest_of_the_list_is_the_interleaving_without_fixed_documents(
    drawn: tuple[str, World, dict[int, str], int], key: int
) -> None:
    spec, world, fixed, size = drawn
    shown = interleave(world.rankings, spec, size, key, fixed=fixed)
    rest = interleave(without(world, fixed), spec, size - len(fixed), key)
    whole = shown.whole_list
    assert shown.to_dict() == rest.to_dict() | ({"fixed": shown.to_dict()["fixed"]} if fixed else {})
    assert tuple(one for one in whole if one not in fixed.values()) == rest.documents
    assert len(whole) <= size
    assert all(whole[rank - 1] == one for rank, one in fixed.items() if rank <= len(whole))
    assert len(whole) + 1 not in fixed
    again = Interleaving.from_dict(json.loads(json.dumps(shown.to_dict(rankings=True))))
    assert (again, again.fixed, again.whole_list) == (shown, fixed, whole)


@given(fixed_worlds(), st.integers(), st.data())
def test_credit_is_that_of_the_list_without_fixed_documents(
    drawn: tuple[str, World, dict[int, str], int], key: int, data: st.DataObject
) -> None:
    spec, world, fixed, size = drawn
    shown = interleave(world.rankings, spec, size, key, fixed=fixed)
    rest = interleave(without(world, fixed), spec, size - len(fixed), key)
    clicks = data.draw(clicks_on(len(shown.whole_list)))
    places = {document: rank for rank, document in enumerate(rest.documents, 1)}
    clicked = [shown.whole_list[rank - 1] for rank in clicks]
    for scheme in resolve(spec).method.schemes_for(len(shown.rankers)):
        outcome = credit(shown, clicks, scheme)
        expected = credit(rest, [places[one] for one in clicked if one in places], scheme)
        assert outcome.to_dict() == expected.to_dict()


@given(st.integers(1, 8), st.dictionaries(st.integers(1, 8), st.sampled_from(["ad", "d9", "d4"]), max_size=3))
def test_service_and_library_show_and_log_the_same(k: int, fixed: dict[int, str]) -> None:
    fixed = {rank: one for rank, one in fixed.items() if rank <= k and list(fixed.values()).count(one) == 1}
    if len(fixed) == k:
        return
    experiment = Experiment.of({"name": "shoes", "rankers": list(RANKINGS), "k": k})
    served = show(experiment, 1, Request("i-1", "user-7", "trail", RANKINGS, fixed=fixed))
    shown = interleave(RANKINGS, k=k, key=KEY, fixed=fixed)
    assert tuple(served.documents) == shown.whole_list
    row = shown.to_dict(rankings=True, probability=False)
    assert served.row is not None
    assert {name: served.row.get(name) for name in row} == row
    assert Interleaving.from_dict(served.row) == shown


def test_the_log_of_a_service_and_of_the_library_are_the_same(tmp_path: Path) -> None:
    ranks = [1, 2, 4, 5]
    with live(tmp_path) as service:
        service.make(k=5)
        answer = service.show(rankings=RANKINGS, fixed=ADS, impression="i-1").json()
        events = [{"impression": "i-1", "rank": rank, "event": f"e-{rank}"} for rank in ranks]
        assert service.tell(*events).json()["apart"] == {"fixed_slot": 1}
        (row,) = exported(service).to_pylist()
    shown = example()
    assert tuple(answer["documents"]) == shown.whole_list
    (tmp_path / "log").mkdir()
    with LogWriter(tmp_path / "log", experiment="shoes") as writer:
        name = writer.impression(shown, unit="user-7", query="trail", impression="i-1", rankings=True)
        for rank in ranks:
            logged = shown.rank_in_log(rank)
            if logged is not None:
                writer.event(name, rank=logged, event=f"e-{rank}")
    (batch,) = read(tmp_path / "log")
    (own,) = batch.to_pylist()
    same = ("method", "key", "rankers", "documents", "ranks", "lengths", "union", "teams", "choices", "rankings")
    assert {name: own[name] for name in same} == {name: row[name] for name in same}
    pairs = [[(event["event"], event["rank"]) for event in one["events"]] for one in (own, row)]
    assert sorted(pairs[0]) == sorted(pairs[1]) == [("e-2", 1), ("e-4", 2), ("e-5", 3)]


def test_a_log_of_lists_with_fixed_documents_is_analyzed(tmp_path: Path) -> None:
    scores = []
    with LogWriter(tmp_path, experiment="shoes") as writer:
        for number in range(40):
            shown = interleave(RANKINGS, k=5, key=("shoes", number), fixed=ADS)
            name = writer.impression(shown, unit=f"user-{number}")
            for rank in (1, 2 + 2 * (number % 2)):
                logged = shown.rank_in_log(rank)
                if logged is not None:
                    writer.event(name, rank=logged)
            scores.append(credit(shown, [1, 2 + 2 * (number % 2)]).score)
    report = analyze(tmp_path)
    assert report.totals.events == {"counted": 40}
    decided = [score for score in scores if score is not None]
    assert report.comparisons[0].estimate == pytest.approx(sum(decided) / len(decided))
    assert any(decided)


def test_a_further_page_may_have_fixed_documents_of_its_own(tmp_path: Path) -> None:
    first = interleave(RANKINGS, k=3, key=KEY, fixed={1: "ad"})
    longer = interleave(RANKINGS, k=6, key=KEY, fixed={1: "ad", 5: "ad-2"})
    assert longer.whole_list[:3] == first.whole_list
    with LogWriter(tmp_path, experiment="shoes") as writer:
        name = writer.impression(first, unit="user-7")
        writer.next_page(name, longer)
        writer.event(name, rank=longer.rank_in_log(6) or 0)
    (row,) = [row for batch in read(tmp_path) for row in batch.to_pylist()]
    assert tuple(row["documents"]) == longer.documents
    assert [event["rank"] for event in row["events"]] == [4]


def test_fixed_documents_are_no_column_of_a_log() -> None:
    about = {"experiment": "shoes", "version": 1, "impression": "i-1", "time": "2026-11-15T12:00:00Z", "arm": "holdout"}
    assert rows_to_batch([example().to_dict() | about]).schema.equals(SCHEMA)


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ([], "fixed is \\[\\]"),
        ({"0": "ad"}, "'ad' at rank 0; a rank is a whole number"),
        ({"first": "ad"}, "at rank 'first'"),
        ({"9" * 5000: "ad"}, "a rank is a whole number"),
        ({"1": None}, "a document id is a text"),
        ({"1": "ad", "2": "ad"}, "one rank"),
        ({"1": "d1"}, "'d1' at rank 1, which is in documents, too"),
    ],
)
@pytest.mark.parametrize("derived", ["ranks", "rankings"])
def test_stored_fixed_documents_are_checked(fixed: Any, words: str, derived: str) -> None:
    stored = interleave(RANKINGS, k=4, key=KEY).to_dict(rankings=True) | {"fixed": fixed}
    if derived == "rankings":
        del stored["ranks"]
    with pytest.raises(ListError, match=words):
        Interleaving.from_dict(stored)


@given(tampered({"1": "ad"}))
def test_broken_fixed_documents_are_refused_or_read_as_a_sound_list(fixed: Any) -> None:
    stored = interleave(RANKINGS, k=4, key=KEY).to_dict() | {"fixed": fixed}
    try:
        shown = Interleaving.from_dict(stored)
    except ListError:
        return
    assert Interleaving.from_dict(json.loads(json.dumps(shown.to_dict()))) == shown
    assert len(set(shown.whole_list)) == len(shown.whole_list)


def test_a_client_that_knows_no_experiment_leaves_no_gap_either() -> None:
    request = Request("i-1", "user-7", "trail", {"production": ["a", "b"]}, fixed={2: "ad", 9: "far"})
    assert compose(None, request)[0].documents == ["a", "ad", "b"]
