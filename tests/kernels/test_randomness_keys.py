"""The names of chance keys: no two keys run together, and what cannot be part of a key is refused."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from interleaf.errors import RandomnessError
from interleaf.kernels.randomness import Key, bytes_of, is_key, key_of

PARTS: st.SearchStrategy[Key] = st.recursive(
    st.text(max_size=4) | st.integers(-20, 20), lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5
)


@given(PARTS, PARTS)
def test_different_keys_have_different_names(one: Key, other: Key) -> None:
    assert (key_of(one) == key_of(other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "bc"), ("ab", "c")),
        (("a", ("b", "c")), (("a", "b"), "c")),
        (("a",), "a"),
        ((("a",),), ("a",)),
        (1, "1"),
        ((1, 23), (12, 3)),
        ((), ""),
        (("",), ()),
        (("", "a"), ("a", "")),
        ("s1:a", "a"),
        (("a", "s1:b"), ("a", "b")),
        ("\u00e9", "e\u0301"),
    ],
)
def test_parts_of_a_key_do_not_run_together(one: Key, other: Key) -> None:
    assert key_of(one) != key_of(other)


@given(PARTS)
def test_the_name_of_a_key_is_its_own_name(key: Key) -> None:
    name = key_of(key)
    assert is_key(name)
    assert key_of(name) == name
    assert len(bytes_of(name)) == 16


@pytest.mark.parametrize(
    "almost", ["k1:", "k1:" + "A" * 32, "k1:" + "0" * 31, "k2:" + "0" * 32, "k1:" + "0" * 32 + "\n"]
)
def test_what_only_resembles_a_name_is_a_key_like_any_other(almost: str) -> None:
    assert not is_key(almost)
    assert key_of(almost) != almost


def test_a_key_of_none_is_fresh_each_time() -> None:
    assert len({key_of(None) for _ in range(100)}) == 100


@pytest.mark.parametrize("bad", [1.5, b"a", True, ("a", None), ("a", 1.0), ("a", b"b"), (("x", False),), ["a"], {"a"}])
def test_what_cannot_be_part_of_a_key_is_refused(bad: Any) -> None:
    with pytest.raises(RandomnessError, match=r"strings, integers and tuples .* convert it to a string"):
        key_of(bad)


def test_a_whole_number_of_any_size_is_a_key() -> None:
    assert key_of(10**5000) != key_of(10**5000 + 1)
