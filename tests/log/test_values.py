"""What a column may hold: the fast test of many values never lets pass what the check of one would not."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from interleaf.log.schema import COLUMNS, Column
from interleaf.log.validation import EVENT_CHECK, RULES

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-300, 300)
    | st.sampled_from([2**15, -(2**15), 2**31 - 1, 2**31, 10**30])
    | st.floats()
    | st.text(max_size=3)
    | st.just("2026-11-15T12:00:00Z")
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner), max_leaves=8
)
ready = st.one_of(
    st.lists(st.text(max_size=3)),
    st.lists(st.integers(-128, 127)),
    st.lists(st.lists(st.integers(-(2**15), 2**15))),
    st.lists(st.lists(st.text(max_size=3))),
    st.lists(values, max_size=4),
)


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
@given(many=ready)
def test_what_the_fast_test_lets_pass_is_right_as_it_is(column: Column, many: list[Any]) -> None:
    rule = RULES[column.name]
    if rule.all_ready(many):
        assert [rule.check(value) for value in many] == many
        assert pa.array(many, column.type).to_pylist() == many


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
@given(value=values)
def test_what_a_check_lets_pass_is_what_arrow_takes(column: Column, value: Any) -> None:
    try:
        prepared = RULES[column.name].check(value)
    except ValueError:
        return
    array = pa.array([prepared], column.type)
    array.validate(full=True)
    assert array.null_count == 0


def test_numbers_of_numpy_and_sequences_of_any_kind_are_taken() -> None:
    assert RULES["ranks"].check(np.array([[1, 2], [0, 1]], np.int32)) == [[1, 2], [0, 1]]
    assert RULES["teams"].check((np.int64(0), -1)) == [0, -1]
    assert RULES["latency"].check([np.float32(0.5), 2, None]) == [0.5, 2.0, None]
    assert RULES["relaxed"].check(np.True_) is True
    assert RULES["documents"].check(["a", 7, np.int64(8)]) == ["a", "7", "8"]
    assert RULES["rankings"].check(([1], ("b",))) == [["1"], ["b"]]
    assert RULES["attributes"].check([("a", "b"), ("c", None)]) == [("a", "b")]
    assert RULES["time"].check(NOON.astimezone(timezone(timedelta(hours=9)))) == NOON
    assert EVENT_CHECK({"kind": "click", "rank": np.int8(1), "time": NOON, "colour": "red", "dwell": None}) == {
        "kind": "click",
        "rank": 1,
        "time": NOON,
    }


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("teams", [0, 200], "200 is out of range; give a whole number from -128 to 127"),
        ("version", True, "True is not a whole number"),
        ("union", 2.0, "2.0 is not a whole number"),
        ("latency", [float("inf")], "inf is out of range; give a number from -3.40282e[+]38"),
        ("documents", "d1", "'d1' is one text; give a list"),
        ("documents", {"d1"}, "is not a list"),
        ("rankings", [["a"], "b"], "'b' is one text; give a list"),
        ("relaxed", 1, "1 is neither true nor false"),
        ("time", NOON.replace(tzinfo=None), "does not say its zone"),
        ("time", "9999-12-31T23:59:59-12:00", "is out of range"),
        ("events", [{"kind": "click", "rank": "1", "time": NOON}], "'rank': '1' is not a whole number"),
        ("events", [{"rank": 1, "time": NOON}], "has no 'kind'"),
        ("captions", [{"highlights": [{"field": "url", "start": 0}]}], "'highlights': .* has no 'end'"),
        ("attributes", [("a", "b", "c")], "unpack"),
        ("attributes", [1], "not a list of pairs"),
    ],
)
def test_what_is_wrong_is_said(name: str, value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RULES[name].check(value)
