"""Variants of one thing in one place of a list, and documents that stand fixed on later pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interleaf
from interleaf.client import Client
from interleaf.errors import RankingError
from interleaf.problem import collapse
from tests.services import Live, exported, live
from tests.test_client_visitors import url as url

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
    assert service.tell({"impression": "i-1", "rank": 4}).json()["apart"] == {"a fixed slot": 1}
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
