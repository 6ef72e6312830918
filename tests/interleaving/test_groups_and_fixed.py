"""Variants of one thing in one place of a list, and documents that stand fixed on later pages."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import interleaf
from interleaf.cli import main
from interleaf.client import Client
from interleaf.errors import RankingError
from interleaf.interleaving.rankings import collapse
from tests.client.test_visitors import url as url
from tests.support.services import Live, exported, live

GROUPS: dict[Any, Any] = {"red": "shoe", "blue": "shoe", 7: "hat", "8": "hat"}
VARIANTS: dict[str, list[Any]] = {"production": ["red", "a", "blue", "8"], "candidate": ["blue", "8", "a"]}
COLLAPSED = {"production": ["red", "a", "8"], "candidate": ["red", "8", "a"]}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as service:
        service.make(k=2)
        yield service


def test_rankings_are_collapsed_to_one_document_of_each_group() -> None:
    assert collapse(VARIANTS, GROUPS) == COLLAPSED
    assert collapse([["a", "b"], ["b"]], {}) == {"A": ["a", "b"], "B": ["b"]}
    assert collapse({"A": None, "B": ["blue", "red"]}, GROUPS) == {"A": None, "B": ["blue"]}
    with pytest.raises(RankingError, match="groups are a mapping"):
        interleaf.interleave(VARIANTS, groups=["shoe"])  # type: ignore[arg-type]
    with pytest.raises(RankingError, match="twice"):  # what is in no group is checked as ever
        interleaf.interleave({"A": ["a", "red", "a"], "B": ["b"]}, groups=GROUPS)


def test_library_service_and_client_show_one_of_each_group(service: Live, url: str) -> None:
    shown = interleaf.interleave(VARIANTS, key="k", groups=GROUPS)
    assert sorted(map(str, shown.documents)) == ["8", "a", "red"]
    body: dict[str, Any] = {"rankings": VARIANTS, "groups": GROUPS, "k": 3, "impression": "i-1"}
    assert sorted(service.show(**body).json()["documents"]) == ["8", "a", "red"]
    (row,) = exported(service).to_pylist()
    assert row["rankings"] == list(COLLAPSED.values())
    with Client(url, timeout=120) as client:
        answer = client.interleave("shoes", VARIANTS, unit="u", groups=GROUPS)
        assert (answer.stored, sorted(answer.documents)) == (True, ["8", "a", "red"])


@given(st.data())
def test_numbers_and_their_texts_are_one_id_and_a_list_shows_one_of_each_group(data: st.DataObject) -> None:
    ids = st.integers(0, 12).map(lambda number: number if data.draw(st.booleans()) else str(number))
    numbers = st.lists(st.integers(0, 12), min_size=1, max_size=8, unique=True)
    kind = data.draw(st.sampled_from([int, str]))
    rankings = {name: list(map(kind, data.draw(numbers))) for name in ("A", "B")}
    groups = {str(number): f"group {number % 4}" for number in range(9)}
    taken = data.draw(st.lists(ids, max_size=2, unique_by=str))
    fixed = dict(zip(data.draw(st.permutations(range(1, 5))), taken, strict=False))
    rankings["A"].append(kind(99))  # neither fixed nor in a group, so that there is something to show
    shown = interleaf.interleave(rankings, k=6, key="k", groups=groups, fixed=fixed or None)
    assert shown == interleaf.interleave(
        rankings, k=6, key="k", groups={int(one): group for one, group in groups.items()}, fixed=fixed or None
    )
    of_rankers = [groups[str(one)] for one in shown.documents if str(one) in groups]
    of_fixed = {groups[str(one)] for one in fixed.values() if str(one) in groups}
    assert len(set(of_rankers)) == len(of_rankers)
    assert not of_fixed & set(of_rankers)


def test_an_id_in_two_groups_is_refused() -> None:
    with pytest.raises(RankingError, match="a number and its text are one id: give it one group"):
        interleaf.interleave([[7], [8]], groups={7: "hat", "7": "shoe"})


def test_service_and_client_show_no_other_variant_of_a_fixed_document(service: Live, url: str) -> None:
    answer = service.show(rankings=VARIANTS, groups=GROUPS, fixed={"1": "blue"}, k=5, impression="i-1").json()
    assert sorted(answer["documents"]) == ["8", "a", "blue"]
    service.show(rankings=VARIANTS, groups=GROUPS, k=2, impression="i-2")
    refused = service.show(page=2, impression="i-2", fixed={"4": "blue"}, groups=GROUPS)
    assert refused.status_code == 422
    assert "another document of its group is in the list" in refused.json()["error"]["message"]
    with Client(url, timeout=120) as client:
        shown = client.interleave("shoes", VARIANTS, unit="u", groups=GROUPS, fixed={1: "blue"}, k=5)
        assert (shown.stored, sorted(shown.documents)) == (True, ["8", "a", "blue"])


def test_a_list_that_something_else_composed_may_have_fixed_documents() -> None:
    rankings = {"A": ["a", "ad", "b"], "B": ["b", "a"]}
    drawn = interleaf.interleave(rankings, k=3, key="k", fixed={2: "ad"})
    made = interleaf.Interleaving.of(rankings, drawn.documents, teams=drawn.teams, fixed={2: "ad"})
    assert made.whole_list == drawn.whole_list
    assert made.ranks.tolist() == drawn.ranks.tolist()
    assert interleaf.credit(made, [2]).credit == {"A": 0.0, "B": 0.0}
    assert interleaf.Interleaving.from_dict(made.to_dict()) == made
    with pytest.raises(RankingError, match="a rank is a whole number"):
        interleaf.Interleaving.of(rankings, ["a", "b"], teams=(0, 1), fixed={0: "ad"})


def test_the_command_takes_fixed_documents(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"A": ["a", 7], "B": ["b", "a"]})))
    assert main(["interleave", "--key", "k", "--fixed", "1=ad", "3=7"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["whole_list"][0::2] == ["ad", "7"]
    assert list(interleaf.Interleaving.from_dict(printed).whole_list) == printed["whole_list"]
    with pytest.raises(SystemExit, match="2"):
        main(["interleave", "--fixed", "ad"])
    assert "RANK=DOCUMENT" in capsys.readouterr().err
    for wrong, words in ((["1=a", "1=b"], "names 1 twice"), (["0=a"], "1 is the top")):
        monkeypatch.setattr(sys, "stdin", io.StringIO('{"A": ["a"], "B": ["b"]}'))
        assert main(["interleave", "--fixed", *wrong]) == 2
        assert words in capsys.readouterr().err


def test_a_document_may_be_fixed_with_the_page_that_it_stands_on(service: Live) -> None:
    first = service.show(fixed={"1": "ad"}, impression="i-1").json()
    second = service.show(page=2, impression="i-1", fixed={"4": "late"}).json()
    again = service.show(page=2, impression="i-1", fixed={"1": "ad", "4": "late"}).json()
    third = service.show(page=3, impression="i-1").json()
    assert (first["documents"][0], second["documents"][1]) == ("ad", "late")
    assert again["documents"] == second["documents"]
    seen = [*first["documents"], *second["documents"], *third["documents"]]
    assert len(set(seen)) == 6
    whole = service.show(fixed={"1": "ad", "4": "late"}, impression="i-2", k=6).json()
    assert seen == whole["documents"]
    assert service.tell({"impression": "i-1", "rank": 4}).json()["apart"] == {"fixed_slot": 1}
    assert service.tell({"impression": "i-1", "rank": 5}).json()["accepted"] == 1


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ({"2": "late"}, "this rank was shown before"),
        ({"1": "other"}, "this rank was shown before"),
        ({"4": "c"}, "give fixed documents with the first page"),
        ({"4": "ad"}, "give fixed documents with the first page"),
        ({"3": "late", "4": "late"}, "give fixed documents with the first page"),
    ],
)
def test_what_cannot_be_fixed_any_more_is_refused_with_the_remedy(
    service: Live, fixed: dict[str, str], words: str
) -> None:
    service.show(fixed={"1": "ad"}, impression="i-1")
    refused = service.show(page=2, impression="i-1", fixed=fixed)
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "fixed")
    assert words in refused.json()["error"]["message"]
