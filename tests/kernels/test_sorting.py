"""The sort for kernels against Python's own, compiled and plain."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf.kernels.jit import kernel, plain
from interleaf.kernels.sorting import sort_descending
from interleaf.simulate.rankers import _rank


@kernel
def sort(scores: Any, ties: Any, order: Any) -> None:
    sort_descending(scores, ties, order)


@pytest.mark.parametrize("form", [sort, plain(sort)], ids=["compiled", "plain"])
@given(values=st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 3)), max_size=400))
def test_it_sorts_by_score_down_then_by_tie_up_and_is_stable(form: Any, values: list[tuple[int, int]]) -> None:
    scores, ties = (np.array([pair[which] for pair in values], np.float64) for which in (0, 1))
    order = np.full(len(values), -1, np.int32)
    form(scores, ties, order)
    assert order.tolist() == sorted(range(len(values)), key=lambda index: (-scores[index], ties[index]))


@given(sizes=st.lists(st.integers(1, 200), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_rankings_of_short_and_long_queries_are_sorted_alike(sizes: list[int], seed: int) -> None:
    drawn = np.random.default_rng(seed)
    offsets = np.cumsum([0, *sizes])
    scores, ties = drawn.integers(0, 5, offsets[-1]).astype(np.float64), drawn.random(offsets[-1])
    rankings = np.full((len(sizes), max(sizes)), -1, np.int32)
    _rank(scores, ties, offsets, rankings)
    for query, size in enumerate(sizes):
        first = offsets[query]
        expected = sorted(range(size), key=lambda row: (-scores[first + row], ties[first + row]))
        assert rankings[query].tolist() == expected + [-1] * (max(sizes) - size)
