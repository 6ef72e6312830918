"""Stored impressions that were tampered with: each broken field is refused by name, or what is read is sound."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from interleaf import InterleafError, Interleaving, ListError, MethodError, RankingError, credit, interleave
from interleaf.methods.registry import METHODS, resolve

RANKINGS = {"production": ["d4", "d1", "d7"], "candidate": ["d1", "d9", "d4"]}
STORED = {name: interleave(RANKINGS, name, k=3, key="user-7").to_dict(rankings=True) for name in METHODS}
HUGE = 10**400  # JSON has no bound on a number

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([0, 1, -1, 2**31 - 1, 2**31, 2**63, HUGE, -HUGE, -0.0, "k1:" + "0" * 32, "d4", "single", "A"])
)
junk = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=8,
)


@st.composite
def tampered(draw: st.DrawFn, value: Any) -> Any:
    """Junk in place of a value, or of some part of it."""
    if isinstance(value, list) and value and draw(st.booleans()):
        at = draw(st.integers(0, len(value) - 1))
        kind = draw(st.sampled_from(["inside", "leave out", "twice"]))
        middle = {"inside": [draw(tampered(value[at]))], "leave out": [], "twice": [value[at]] * 2}[kind]
        return [*value[:at], *middle, *value[at + 1 :]]
    return draw(junk)


@st.composite
def tampered_data(draw: st.DrawFn) -> dict[str, Any]:
    """A stored impression with one field broken or missing; with ranks, or with rankings in their place."""
    data = dict(STORED[draw(st.sampled_from(sorted(METHODS)))])
    if draw(st.booleans()):
        del data["ranks"]
    field = draw(st.sampled_from(sorted(data)))
    if draw(st.integers(0, 9)) == 0:
        del data[field]
    else:
        data[field] = draw(tampered(data[field]))
    return data


def without(data: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {field: value for field, value in data.items() if field not in fields}


LOGGED = STORED["team_draft"]
UNRANKED = without(LOGGED, "ranks")  # then its rankings say where each document stands


def check_refused_or_sound(data: dict[str, Any]) -> None:
    try:
        read = Interleaving.from_dict(data)
    except InterleafError:
        return
    assert Interleaving.from_dict(json.loads(json.dumps(read.to_dict()))) == read
    assert len(set(read.documents)) == len(read.documents) == read.ranks.shape[1]
    assert read.ranks.shape[0] == len(read.rankers) == len(read.lengths)
    method = resolve(read.method).method
    is_complete = all(getattr(read, need) is not None for need in method.needs)
    if is_complete and max(read.lengths) < 1000 and method.schemes:
        outcome = credit(read, range(1, len(read.documents) + 1))
        assert set(outcome.credit) == set(read.rankers)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(LOGGED | {"log_probability": -HUGE}, id="a probability beyond floats"),
        pytest.param(LOGGED | {"log_probability": False}, id="a probability of a truth"),
        pytest.param(LOGGED | {"lengths": [HUGE, HUGE]}, id="lengths beyond all"),
        pytest.param(UNRANKED | {"rankers": ["A"]}, id="one ranker, two rankings"),
        pytest.param(UNRANKED | {"rankers": 3}, id="rankers of a number"),
        pytest.param(UNRANKED | {"rankings": None}, id="rankings of none"),
        pytest.param(UNRANKED | {"rankings": 3}, id="rankings of a number"),
        pytest.param(UNRANKED | {"documents": None}, id="documents of none"),
        pytest.param(UNRANKED | {"documents": 3}, id="documents of a number"),
        pytest.param(UNRANKED | {"key": 3}, id="a key that is none"),
        pytest.param(without(UNRANKED, "documents"), id="no documents"),
        pytest.param(without(UNRANKED, "rankers"), id="no rankers"),
        pytest.param(without(UNRANKED, "rankings"), id="neither ranks nor rankings"),
    ],
)
def test_what_broke_once_is_refused_or_sound(data: dict[str, Any]) -> None:
    check_refused_or_sound(data)


@given(tampered_data())
def test_a_broken_field_is_refused_or_what_is_read_is_sound(data: dict[str, Any]) -> None:
    check_refused_or_sound(data)


BROKEN: list[tuple[str, Any, str]] = [
    ("documents", "d4", "documents is 'd4'; give a list"),
    ("documents", ["d4", "d4", "d1"], "'d4' is shown twice"),
    ("documents", [["d4"], "d1", "d7"], "not a document id"),
    ("ranks", [[1, 2, 3]], "ranks has 1 rows for 2 rankers"),
    ("ranks", [[1, 2], [2, 1, 0]], "ranks of ranker 0 has 2 entries; give 3"),
    ("ranks", [[1, 2, 2], [2, 1, 0]], "ranks of ranker 0 are"),
    ("ranks", [[1, 2, 4], [2, 1, 0]], "ranks of ranker 0 are"),
    ("ranks", [[1, 0, 3], [2, 0, 1]], "rank 2 is in no ranking"),
    ("ranks", [[1, -1, 3], [2, 0, 1]], "holds -1; give whole numbers from 0 up"),
    ("ranks", [[1, 2.0, 3], [2, 1, 0]], "holds 2.0; give whole numbers"),
    ("teams", [0, 1], "teams has 2 entries; give 3"),
    ("teams", [0, 1, 2], "owned by ranker 2"),
    ("teams", None, "team_draft credits teams"),
    ("lengths", [3], "lengths has 1 entries; give 2"),
    ("lengths", [3, -1], "lengths holds -1"),
    ("lengths", [2, 3], "ranks of ranker 0"),
    ("union", 2, "union holds 2; give whole numbers from 3 up"),
    ("union", 7, "union is 7, but rankings of lengths"),
    ("union", None, "union holds None"),
    ("key", "user-7", "key is 'user-7'; it is 'k1:'"),
    ("key", 7, "key is 7"),
    ("log_probability", 0.5, "log_probability is 0.5"),
    ("log_probability", float("nan"), "log_probability is nan"),
    ("log_probability", float("-inf"), "log_probability is -inf"),
    ("log_probability", "-1", "log_probability is '-1'"),
    ("relaxed", 1, "relaxed is 1; it is true, false or null"),
    ("rankings", [["d4", "d7", "d1"], ["d1", "d9", "d4"]], "but its ranks are"),
    ("rankings", [[["d4"], "d1", "d7"], ["d1", "d9", "d4"]], "not a document id"),
]


@pytest.mark.parametrize(("field", "value", "message"), BROKEN)
def test_a_broken_field_is_named_with_its_value(field: str, value: Any, message: str) -> None:
    with pytest.raises(ListError) as raised:
        Interleaving.from_dict(LOGGED | {field: value})
    assert message in str(raised.value)


def test_what_belongs_to_the_method_or_the_rankers_is_refused_as_theirs() -> None:
    with pytest.raises(MethodError, match="unknown method 'teamdraft'"):
        Interleaving.from_dict(LOGGED | {"method": "teamdraft"})
    with pytest.raises(RankingError, match="not 1"):
        Interleaving.from_dict(LOGGED | {"rankers": ["A"]})
    with pytest.raises(RankingError, match="share a name"):
        Interleaving.from_dict(LOGGED | {"rankers": ["A", "A"]})


def test_choices_that_cannot_be_are_refused() -> None:
    stored = STORED["pairwise_preference"]
    for choices in ([2, 1, 4], [0, 3, 4], [2, 3, 9], [1, 1, 4]):
        with pytest.raises(ListError, match="choices"):
            Interleaving.from_dict(stored | {"choices": choices})


def test_a_list_without_what_its_credit_needs_is_read_but_not_credited() -> None:
    read = Interleaving.from_dict(STORED["pairwise_preference"] | {"choices": None})
    with pytest.raises(ListError, match="pairwise_preference needs 'choices'"):
        credit(read, [1])


@pytest.mark.parametrize("data", [None, 3, "team_draft", [], [("method", "team_draft")]])
def test_what_is_no_mapping_is_refused(data: Any) -> None:
    with pytest.raises(ListError):
        Interleaving.from_dict(data)


def test_a_list_with_nothing_on_it_is_read_back() -> None:
    """A bucket's ranker may have found nothing."""
    shown = interleave({"production": [], "candidate": ["d1"]}, "single(ranker=production)", key="user-7")
    assert shown.documents == ()
    assert Interleaving.from_dict(json.loads(json.dumps(shown.to_dict()))) == shown


@pytest.mark.parametrize("method", ["team_draft(fill=stop)", "balanced(fill=False)"])
def test_a_list_that_stopped_before_it_began_prefers_nobody(method: str) -> None:
    shown = interleave([[], ["a", "b"]], method, key="user-7")
    assert shown.documents == ()
    assert shown.log_probability == 0
    assert Interleaving.from_dict(json.loads(json.dumps(shown.to_dict()))) == shown
    for scheme in METHODS[method.partition("(")[0]].schemes:
        assert credit(shown, [], scheme).score == 0
