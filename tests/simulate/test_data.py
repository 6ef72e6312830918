"""Judged queries: parted and put together by query, and made up with features whose quality is known."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from interleaf import DataError
from interleaf.kernels.arrays import Array
from interleaf.kernels.randomness import Keyed, key_of
from interleaf.simulate import Judged, synthetic
from interleaf.simulate.data import _draw_uniform, concatenate, letor_folds, shuffle, with_features


def small(queries: int = 10, start: int = 0, features: int = 3) -> Judged:
    """Query q has q % 3 + 1 documents; every value is its own."""
    sizes = [query % 3 + 1 for query in range(queries)]
    rows = sum(sizes)
    values = np.arange(rows * features, dtype=np.float32).reshape(rows, features) + 1000 * start
    names = tuple(f"q{start + query}" for query in range(queries))
    return Judged(values, np.arange(rows) % 5, np.cumsum([0, *sizes]), names, f"small {start}")


def by_query(data: Judged) -> dict[str, tuple[Any, Any]]:
    """What each query has, wherever it stands."""
    return {
        query: (data.features[data.rows(number)].tolist(), data.grades[data.rows(number)].tolist())
        for number, query in enumerate(data.queries)
    }


def test_it_says_what_it_is() -> None:
    data = small()
    assert len(data) == 10
    assert data.max_grade == 4
    assert data.feature_ids.tolist() == [1, 2, 3]
    assert repr(data) == "small 0: 10 queries, 19 documents, 3 features, grades 0 to 4"
    assert [str(array.dtype) for array in (data.features, data.grades, data.offsets)] == ["float32", "int8", "int64"]


def test_its_arrays_cannot_be_changed() -> None:
    for data in (small(), small().select([1, 2]), synthetic(5, 4, 2)):
        for array in (data.features, data.grades, data.offsets):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


def test_constant_features_are_left_out() -> None:
    values = np.array([[1, 0, 3, 7], [1, 0, 4, 7], [1, 2, 3, 7]])
    data = Judged(values, np.zeros(3), np.array([0, 3]), ("a",))
    assert data.varying_features().tolist() == [2, 3]


def test_features_that_vary_late_are_found() -> None:
    values = np.zeros((200_000, 2), np.float32)
    values[-1, 1] = 1
    data = Judged(values, np.zeros(200_000), np.array([0, 200_000]), ("a",))
    assert data.varying_features().tolist() == [2]


@given(st.lists(st.integers(0, 9), min_size=1, unique=True))
def test_selected_queries_keep_their_rows(indices: list[int]) -> None:
    data = small()
    chosen = data.select(indices)
    assert chosen.queries == tuple(f"q{index}" for index in indices)
    assert by_query(chosen) == {f"q{index}": by_query(data)[f"q{index}"] for index in indices}


@given(st.integers(2, 10), st.integers(0, 99))
def test_folds_test_every_query_once(count: int, seed: int) -> None:
    data = small()
    folds = data.folds(count, seed)
    assert len(folds) == len(list(folds)) == count
    tested = [query for _, test in folds for query in test.queries]
    assert sorted(tested) == sorted(data.queries)
    for number, (train, test) in enumerate(folds):
        assert by_query(train) | by_query(test) == by_query(data)
        assert len(train) + len(test) == len(data)
        assert len(test) - 10 // count in (0, 1)
        assert folds[number][1].queries == test.queries


def test_splits_have_their_shares_and_follow_the_seed() -> None:
    data = small(100)
    parts = data.split((0.6, 0.2, 0.2), seed=3)
    assert [len(part) for part in parts] == [60, 20, 20]
    assert sorted(query for part in parts for query in part.queries) == sorted(data.queries)
    again, other = data.split((0.6, 0.2, 0.2), seed=3), data.split((0.6, 0.2, 0.2), seed=4)
    assert [part.queries for part in parts] == [part.queries for part in again]
    assert parts[0].queries != other[0].queries


def test_shuffles_are_pinned() -> None:
    """They decide who is in which fold, so they must never change."""
    assert shuffle(10, ("folds", 1)) == [7, 8, 9, 5, 1, 6, 2, 4, 3, 0]


def test_sets_are_put_together_and_padded() -> None:
    whole = concatenate([small(3), small(2, start=5, features=2)])
    assert whole.name == "small 0 + small 5"
    assert whole.queries == ("q0", "q1", "q2", "q5", "q6")
    assert whole.offsets.tolist() == [0, 1, 3, 6, 7, 9]
    assert whole.features[6].tolist() == [5000, 5001, 0]


def test_letor_folds_pair_the_parts_as_letor_does() -> None:
    parts = [small(2, start=10 * number) for number in range(1, 6)]
    pairs = [(train.name, test.name) for train, test in letor_folds(parts)]
    assert pairs == [
        ("small 10 + small 20 + small 30 + small 40", "small 50"),
        ("small 20 + small 30 + small 40 + small 50", "small 10"),
        ("small 30 + small 40 + small 50 + small 10", "small 20"),
        ("small 40 + small 50 + small 10 + small 20", "small 30"),
        ("small 50 + small 10 + small 20 + small 30", "small 40"),
    ]


def judged(features: Any = ((1.0,), (2.0,)), grades: Any = (0, 1), offsets: Any = (0, 2), queries: Any = "a") -> Judged:
    return Judged(np.array(features), np.array(grades), np.array(offsets), tuple(queries), "tiny")


WRONG: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "too few grades": (lambda: judged(grades=[1]), ["2 rows", "1 grades"]),
    "a grade below 0": (lambda: judged(grades=[0, -1]), ["-1", "0 to 127"]),
    "half a grade": (lambda: judged(grades=[0, 0.5]), ["0.5", "whole"]),
    "too few offsets": (lambda: judged(queries="ab"), ["2 offsets for 2 queries"]),
    "an empty query": (lambda: judged(offsets=[0, 0, 2], queries="ab"), ["offsets must rise"]),
    "a wrong end": (lambda: judged(offsets=[0, 3]), ["number of rows, 2"]),
    "a query twice": (lambda: judged(offsets=[0, 1, 2], queries="aa"), ["'a' is there twice"]),
    "not a matrix": (lambda: judged(features=[1, 2]), ["1 axes", "matrix"]),
    "not a number": (lambda: judged(features=[[1], [np.nan]]), ["feature 1 of row 1 is nan"]),
    "no such query": (lambda: small().select([3, 10]), ["query number 10", "0 to 9"]),
    "no query": (lambda: small().select([]), ["an empty choice"]),
    "too many folds": (lambda: small(3).folds(4, 1), ["cannot make 4 folds of the 3 queries", "at most one per query"]),
    "one fold": (lambda: small(3).folds(1, 1), ["cannot make 1 folds of the 3 queries"]),
    "too many parts": (lambda: small(3).split((0.9, 0.05, 0.05), 1), ["3 queries", "too few"]),
    "shares beyond one": (lambda: small(3).split((0.9, 0.9), 1), ["sum to 1"]),
    "nothing to concatenate": (lambda: concatenate([]), ["at least one"]),
    "the same query in two sets": (lambda: concatenate([small(2), small(2)]), ["twice"]),
    "one part": (lambda: list(letor_folds([small()])), ["at least two", "there are 1"]),
    "no queries": (lambda: synthetic(queries=0), ["queries is 0"]),
    "a range upside down": (lambda: synthetic(documents=(9, 3)), ["(9, 3)", "from the smallest to the largest"]),
    "one grade": (lambda: synthetic(grades=1), ["grades is 1", "2 to 128"]),
    "shares for other grades": (lambda: synthetic(grades=3, shares=[1, 1]), ["each of the 3 grades"]),
    "strength above 1": (lambda: synthetic(features=1, strengths=[1.5]), ["1.5", "-1 to 1"]),
    "too many ties": (lambda: synthetic(ties=1.5), ["ties is 1.5", "0 to 1"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_named(case: str) -> None:
    call, words = WRONG[case]
    with pytest.raises(DataError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def ndcg(data: Judged, feature: int, generator: np.random.Generator, cut: int = 10) -> float:
    """The mean over queries of NDCG by one feature, ties at random; a query without relevant documents counts 0."""
    found = []
    for query in range(len(data)):
        grades = data.grades[data.rows(query)].astype(int)
        shuffle = generator.permutation(len(grades))
        order = shuffle[np.argsort(-data.features[data.rows(query), feature - 1][shuffle], kind="stable")]
        gains = [2.0 ** ranked[:cut] - 1 for ranked in (grades[order], np.sort(grades)[::-1])]
        shown, best = (gain @ (1 / np.log2(np.arange(2, len(gain) + 2))) for gain in gains)
        found.append(float(shown / best) if best else 0.0)
    return float(np.mean(found))


def ambiguous(data: Judged) -> float:
    """The share of top tens by one feature that ties leave open."""
    tops = [
        np.sort(data.features[data.rows(query), column])[::-1][:11]
        for query in range(len(data))
        for column in range(data.features.shape[1])
    ]
    return float(np.mean([(np.diff(top) == 0).any() for top in tops]))


def test_synthetic_sets_follow_their_seed() -> None:
    first, again, other = synthetic(20, seed=5), synthetic(20, seed=5), synthetic(20, seed=6)
    assert by_query(first) == by_query(again)
    assert by_query(first) != by_query(other)
    assert by_query(first) == by_query(synthetic(20, seed=5, strengths=np.linspace(0.8, 0, 20).tolist()))


def test_more_features_change_none_before_them() -> None:
    few, many = (synthetic(20, features=count, strengths=[0.5] * count, seed=5).features for count in (3, 8))
    assert few.tolist() == many[:, :3].tolist()


@given(asked=st.sets(st.integers(1, 60), min_size=1, max_size=5), seed=st.integers(0, 5))
@settings(max_examples=15, deadline=None)
def test_a_feature_is_the_same_whichever_features_are_asked_for(asked: set[int], seed: int) -> None:
    made, alone = with_features(max(asked), seed), with_features(min(asked), seed)
    common = alone.features.shape[1]
    assert (made.features[:, :common] == alone.features).all()
    assert (made.grades == alone.grades).all()
    assert (made.offsets == alone.offsets).all()


def test_synthetic_chance_is_the_chance_of_keys() -> None:
    keyed = Keyed(key_of(("synthetic", 1, "own")))
    assert _draw_uniform(5, 1, "own").tolist() == [((keyed.bits() >> 11) + 0.5) * 2.0**-53 for _ in range(5)]


def test_synthetic_grades_are_skewed_and_documents_in_range() -> None:
    data = synthetic(2000, (5, 20), 1, grades=3, seed=1)
    sizes = np.diff(data.offsets)
    assert (sizes.min(), sizes.max()) == (5, 20)
    shares = np.bincount(data.grades) / len(data.grades)
    assert shares == pytest.approx(np.array([1, 0.4, 0.16]) / 1.56, abs=0.01)
    given_shares = synthetic(2000, 10, 1, grades=3, shares=[1, 0, 3])
    assert np.bincount(given_shares.grades) / 20_000 == pytest.approx([0.25, 0, 0.75], abs=0.015)


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_synthetic_features_have_the_quality_of_the_formula(correlation: float) -> None:
    strengths = [0.9, 0.5, 0.0, -0.4]
    data = synthetic(2000, 20, 4, strengths=strengths, correlation=correlation, ties=0, seed=2)
    found = np.corrcoef(np.column_stack([data.grades, data.features]).T)
    noise = np.sqrt(1 - np.square(strengths))
    wanted = np.outer(strengths, strengths) + correlation * np.outer(noise, noise)
    assert found[0, 1:] == pytest.approx(strengths, abs=0.02)
    off = ~np.eye(4, dtype=bool)
    assert found[1:, 1:][off] == pytest.approx(wanted[off], abs=0.02)
    assert data.features.std(axis=0) == pytest.approx(np.ones(4), abs=0.02)


def test_truth_falls_with_strength() -> None:
    data = synthetic(600, (10, 40), 9, seed=3)
    truth = [ndcg(data, int(feature), np.random.default_rng(0)) for feature in data.feature_ids]
    assert (np.diff(truth) < 0).all()
    assert truth[0] > 0.7 > 0.5 > truth[-1]


@pytest.mark.parametrize(("ties", "fewest", "most"), [(0.7, 0.6, 0.8), (0.0, 0.0, 0.001), (1.0, 0.99, 1.0)])
def test_ties_are_as_common_as_asked_for(ties: float, fewest: float, most: float) -> None:
    assert fewest <= ambiguous(synthetic(300, (10, 40), 10, ties=ties)) <= most


def tops(data: Judged, column: int, length: int) -> list[Array]:
    return [np.argsort(-data.features[data.rows(query), column])[:length] for query in range(len(data))]


def agreement(data: Judged, column: int) -> float:
    """The share of queries whose top three is the same by this feature and the next."""
    pairs = zip(tops(data, column, 3), tops(data, column + 1, 3), strict=True)
    return float(np.mean([np.array_equal(one, other) for one, other in pairs]))


def test_pairs_of_features_share_prefixes() -> None:
    plain = synthetic(500, (2, 30), 6, ties=0, seed=4)
    some = synthetic(500, (2, 30), 6, ties=0, seed=4, shared_prefix=0.5)
    always = synthetic(500, (2, 30), 6, ties=0, seed=4, shared_prefix=1)
    for column in (0, 2, 4):
        assert agreement(plain, column) < 0.15
        assert 0.4 < agreement(some, column) < 0.65
        assert agreement(always, column) == 1
    assert agreement(always, 1) < 0.15  # neighbours that are no pair
    for query in range(500):  # values only change places
        rows = plain.rows(query)
        assert np.array_equal(np.sort(plain.features[rows], axis=0), np.sort(always.features[rows], axis=0))
