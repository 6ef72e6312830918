"""A list that was just drawn is encoded in a short way: what is kept is what its row would be, checked by value."""

import random
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from interleaf.experiment import Experiment, Request, Shown, serving, show
from interleaf.experiment.serving import Noted, draw_lists, plan_list
from interleaf.methods.registry import METHODS, resolve
from interleaf.store import codec
from interleaf.store.codec import decode_row, encode_note, encode_row
from tests.support.worlds import EVERY_SPEC

COMPARED = [name for name, method in METHODS.items() if method.schemes_for(2)]
documents = st.sampled_from("abcdefghij")
rankings = st.lists(documents, unique=True, max_size=8)


def drawn(method: str, given: dict[str, Any], fixed: dict[int, str] | None = None) -> Noted | None:
    experiment = Experiment.of({"name": "shop", "rankers": ["old", "new"], "method": method, "k": 4})
    noted = show(experiment, 3, Request("i-1", "user-7", "trail", given, fixed=fixed or {})).record
    assert noted is None or isinstance(noted, Noted)
    return noted


@pytest.mark.parametrize("method", COMPARED)
@settings(max_examples=50)
@given(old=rankings, new=rankings, attributes=st.dictionaries(st.text("xyz", min_size=1), st.text("uv", min_size=1)))
def test_both_ways_keep_the_same(method: str, old: list[str], new: list[str], attributes: dict[str, str]) -> None:
    noted = drawn(method, {"old": old, "new": new})
    if noted is None:
        assert not old
        assert not new
        return
    more: dict[str, Any] = {"attributes": attributes, "latency": [0.5, None], "session": "s", "excluded": "listed unit"}
    assert decode_row(encode_note(noted, **more)) == decode_row(encode_row(noted.row | more))


@pytest.mark.parametrize("method", EVERY_SPEC)
@pytest.mark.parametrize("rankers", [2, 4])
def test_lists_that_are_drawn_together_are_those_that_are_drawn_alone(method: str, rankers: int) -> None:
    most = resolve(method).rankers[1]
    if most is not None and rankers > most:
        pytest.skip("it compares two rankers only")
    names, chance = [f"ranker {number}" for number in range(rankers)], random.Random(method)
    shop = Experiment.of({"name": "shop", "rankers": names, "method": method, "k": 4})

    def plan(number: int) -> Shown:
        most = chance.choice([3, 8, 8, 30])  # the last ones are longer than `MAX_TOGETHER` below
        given: dict[str, Any] = {name: chance.sample(range(40), chance.randint(1, most)) for name in names}
        if number % 7 == 0:
            given[chance.choice(names)] = None
        texts = {name: ranking and [f"d{one}" for one in ranking] for name, ranking in given.items()}
        more: dict[str, Any] = {"fixed": {2: "ad"}} if number % 5 == 0 else {"k": 3 if number % 4 == 0 else None}
        return plan_list(shop, 1, Request(f"i-{number}", f"user-{number}", "trail", texts, **more))

    alone = [plan(number) for number in range(60)]
    together = deepcopy(alone)
    for one in alone:
        draw_lists([one])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "MAX_TOGETHER", 8 * rankers)
        draw_lists(together)
    for one, other in zip(alone, together, strict=True):
        assert isinstance(one.record, Noted)
        assert isinstance(other.record, Noted)
        assert (one.documents, one.arm, one.record.row) == (other.documents, other.arm, other.record.row)
        assert encode_note(one.record) == encode_note(other.record)


@pytest.mark.parametrize("lost", ["old", "new"])
def test_a_list_without_one_ranking_keeps_why(lost: str) -> None:
    noted = drawn("team_draft", {"old": ["a", "b"], "new": ["b", "c"]} | {lost: None})
    assert noted is not None
    row = decode_row(encode_note(noted))
    assert row == decode_row(encode_row(noted.row))
    assert row["fallback_reason"] == f"no ranking of {lost}"


def test_documents_that_stand_fixed_are_kept_beside_the_list() -> None:
    noted = drawn("team_draft", {"old": ["a", "b"], "new": ["b", "c"]}, {2: "a", 9: "z"})
    assert noted is not None
    row = decode_row(encode_note(noted))
    assert row == decode_row(encode_row(noted.row))
    assert row["fixed"] == {"2": "a", "9": "z"}


def test_what_hides_a_person_stands_for_what_was_asked() -> None:
    noted = drawn("team_draft", {"old": ["a", "b"], "new": ["b", "c"]})
    assert noted is not None
    row = decode_row(encode_note(noted, query=None, key=None))
    assert (row["query"], row["key"]) == (None, None)
    assert row["documents"] == list(noted.drawn_list.documents)


def test_rows_from_before_unshown_ranks_are_read_beside_new_ones() -> None:
    noted = drawn("team_draft", {"old": ["a", "b", "c", "d", "e"], "new": ["b", "f", "g", "a", "h"]})
    assert noted is not None
    new = noted.row | {"latency": [0.5, None]}
    old = {name: value for name, value in new.items() if name != "unshown_ranks"}
    assert any(map(any, new["unshown_ranks"]))
    parts = [encode_row(row) for row in (old, new, new | {"unshown_ranks": [[], []]}, old)]
    assert [decode_row(part)["unshown_ranks"] for part in parts] == [None, new["unshown_ranks"], [[], []], None]
    columns, shown = codec._numbers([part.numbers for part in parts])
    assert columns["unshown_ranks"].to_pylist() == [None, new["unshown_ranks"], [[], []], None]
    assert columns["ranks"].to_pylist() == [new["ranks"]] * 4
    assert columns["latency"].to_pylist() == [[0.5, None]] * 4
    assert shown.tolist() == [4] * 4
