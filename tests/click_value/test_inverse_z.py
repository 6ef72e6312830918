"""The inverse z-test: its closed form is the best there is, sums of parts are those of the whole, ridges do as told."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize

from interleaf.click_value.credit_fitting import (
    EACH,
    GROUPS,
    Fitting,
    Moments,
    RankerPair,
    examples_of,
    inverse_z,
)
from interleaf.errors import DataError
from interleaf.kernels.arrays import Array


def pages_of(seed: int, count: int = 300, features: int = 4, drift: float = 0.3) -> Array:
    """Features that differ in size, noise and drift, and depend on each other."""
    generator = np.random.default_rng(seed)
    mixing = generator.normal(size=(features, features))
    return np.asarray((generator.normal(size=(count, features)) + drift) @ mixing * generator.uniform(0.1, 5, features))


def total_of(values: Array) -> Moments:
    return Moments(np.array(len(values)), values.sum(axis=0), values.T @ values)


def z_of(weights: Array, values: Array) -> float:
    scores = values @ weights
    return float(scores.mean() / scores.std() * np.sqrt(len(scores)))


@pytest.mark.parametrize("seed", range(5))
def test_the_closed_form_is_what_direct_maximisation_finds(seed: int) -> None:
    values = pages_of(seed)
    total = total_of(values)
    found = inverse_z(total.products, total.sums)
    starts = np.random.default_rng(seed).normal(size=(5, 4)) / values.std(axis=0)
    best = max((minimize(lambda w: -z_of(w, values), start, tol=1e-12) for start in starts), key=lambda one: -one.fun)
    assert z_of(found, values) == pytest.approx(-best.fun, rel=1e-6)
    assert found / np.linalg.norm(found) == pytest.approx(best.x / np.linalg.norm(best.x), rel=1e-3, abs=1e-4)
    assert found @ total.products @ found == pytest.approx(1)
    assert total.z_score(found).value == pytest.approx(z_of(found, values))


@given(st.integers(0, 10**6), st.integers(2, 6))
def test_no_weights_have_a_larger_z_score(seed: int, features: int) -> None:
    values = pages_of(seed, 60, features)
    total = total_of(values)
    best = z_of(inverse_z(total.products, total.sums), values)
    for weights in np.random.default_rng(seed).normal(size=(20, features)):
        assert z_of(weights, values) <= best + 1e-9


def test_the_example_of_the_last_click_gives_all_credit_to_it() -> None:
    """C12, section 10.1: of three clicks only the last says something; w = (1, 0) in proportion, to the fraction."""
    patterns = [(last, first + second) for last in (1, -1) for first in (1, -1) for second in (1, -1)]
    chances = [Fraction(3 if last > 0 else 2, 5) / 4 for last, _ in patterns]
    values = np.repeat(np.array(patterns, float), [int(chance * 40) for chance in chances], axis=0)
    total = total_of(values)
    weights = inverse_z(total.products, total.sums)
    assert weights[1] == pytest.approx(0, abs=1e-15)
    assert weights[0] > 0
    equal = total.z_score(np.array([1.0, 1.0])).per_query
    assert equal is not None
    assert Fraction(1, 25) / (3 - Fraction(1, 25)) == pytest.approx(equal**2 / 1)


def test_a_ridge_is_added_to_the_diagonal_of_those_that_have_one() -> None:
    total = total_of(pages_of(3))
    for ridge in (2.5, np.array([0.0, 7.0, 0.0, 1e3])):
        plain = np.linalg.inv(total.products + np.eye(4) * ridge) @ total.sums
        wanted = plain / np.sqrt(total.sums @ plain)
        assert inverse_z(total.products, total.sums, ridge) == pytest.approx(wanted, rel=1e-9)


def test_features_that_repeat_others_or_never_vary_do_no_harm() -> None:
    values = pages_of(4)
    wide = np.column_stack([values, values[:, 0] - values[:, 1], np.zeros(len(values)), values[:, 2]])
    total = total_of(wide)
    weights = inverse_z(total.products, total.sums)
    assert np.isfinite(weights).all()
    assert weights[5] == 0
    best = inverse_z(total_of(values).products, total_of(values).sums)
    assert wide @ weights == pytest.approx(values @ best, rel=1e-6, abs=1e-9)


def test_without_a_preference_there_are_no_weights() -> None:
    assert inverse_z(np.eye(2), np.zeros(2)).tolist() == [0, 0]
    fitting = Fitting(np.array([False, True]))
    assert fitting.weights([Moments(np.array(10), np.zeros(2), np.eye(2))], 0.1) is None
    assert fitting.weights([], 0.1) is None


@given(st.integers(0, 10**6), st.integers(1, 5))
def test_sums_of_parts_are_those_of_the_whole_in_any_order(seed: int, parts: int) -> None:
    generator = np.random.default_rng(seed)
    values, buckets = generator.integers(-8, 9, (50, 3)) / 4, generator.integers(0, 1024, 50)
    whole = Moments.empty(3)
    whole.add(buckets, values)
    split, total = generator.integers(0, parts, 50), Moments.empty(3)
    for part in generator.permutation(parts):
        some = Moments.empty(3)
        some.add(buckets[split == part], values[split == part])
        total = total + some
    for name in ("count", "sums", "products"):
        assert np.array_equal(getattr(total, name), getattr(whole, name))
    for group in range(GROUPS):
        mine = values[buckets // 16 == group]
        assert whole.sums[group].tolist() == mine.sum(axis=0).tolist()
        assert whole.products[group].tolist() == (mine.T @ mine).tolist()
    (example,) = examples_of({RankerPair("e", 1, "A", "B"): whole}, {"e": "B"}, {})
    assert np.array_equal(example.moments.sums, -whole.sums)
    drawn = generator.integers(0, 3, GROUPS)
    repeated = np.repeat(np.arange(50), drawn[buckets // 16])
    assert whole.total(drawn).products.tolist() == (values[repeated].T @ values[repeated]).tolist()
    assert whole.total(drawn).count == len(repeated)


def test_a_large_ridge_leaves_equal_credit_and_scores_keep_its_size() -> None:
    totals = [total_of(pages_of(seed)) for seed in (1, 2)]
    fitting = Fitting(np.array([False, True, True, True]))
    for ridge in fitting.ridges:
        weights = fitting.weights(totals, ridge)
        assert weights is not None
        products = totals[0].products + totals[1].products
        assert weights @ products @ weights == pytest.approx(products[0, 0])
    assert weights is not None
    assert weights[1:].tolist() == [0, 0, 0]
    assert abs(weights[0]) == pytest.approx(1)
    assert np.inf not in Fitting(np.ones(4, np.bool_)).ridges


def test_with_each_experiment_an_example_the_mean_z_score_is_what_direct_maximisation_finds() -> None:
    values = [pages_of(7, count, drift=drift) for count, drift in ((80, 0.5), (4000, 0.1), (300, 0.3))]
    totals = [total_of(some) for some in values]

    def mean_z(weights: Array) -> float:
        return float(np.mean([z_of(weights, some) / np.sqrt(len(some)) for some in values]))

    none = np.zeros(4, np.bool_)
    found, pooled = Fitting(none, EACH).weights(totals, 0.0), Fitting(none).weights(totals, 0.0)
    assert found is not None
    assert pooled is not None
    best = minimize(lambda w: -mean_z(w), pooled, tol=1e-12)
    assert mean_z(found) == pytest.approx(-best.fun, rel=1e-6)
    assert mean_z(found) > mean_z(pooled)
    with pytest.raises(DataError, match="unknown examples 'both'"):
        Fitting(none, "both")


def test_the_ridge_is_small_where_features_help_everywhere_and_infinite_where_they_help_nowhere() -> None:
    generator = np.random.default_rng(5)

    def experiment(helps: float) -> list[Moments]:
        click = generator.choice([-1.0, 1.0], 4000, p=[0.4, 0.6])
        good = click * (generator.random(4000) < np.where(click > 0, 0.5 + helps, 0.5 - helps))
        noise = click[:, None] * generator.normal(size=(4000, 3))
        return [total_of(np.column_stack([click, good, noise]))]

    fitting = Fitting(np.array([False, True, True, True, True]))
    helped, scores = fitting.ridge([experiment(0.3) for _ in range(6)])
    assert helped <= 1
    assert scores[helped] > 1.15 * scores[np.inf]
    nothing, _ = fitting.ridge([experiment(0.0) for _ in range(6)])
    assert nothing == np.inf
