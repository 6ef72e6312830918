"""The logistic model on counts: against scipy and against results one by one; what cannot be fitted is said."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize
from scipy.stats import chi2

from interleaf.caption_bias import CaptionFeature, shown_results as designs
from interleaf.caption_bias.features import FIRST, GRADE, MEASURES, POSITION
from interleaf.caption_bias.logistic_model import fit
from interleaf.caption_bias.shown_results import DesignMatrix, Patterns
from interleaf.caption_bias.training import MODELS, MeasureCounts, features_of, train, train_one, tune_thresholds
from interleaf.errors import DataError
from interleaf.kernels.arrays import Array

NAMES = ("a", "b", "c")
SOME = tuple(CaptionFeature(name, measure) for name, measure in zip(NAMES, MEASURES, strict=False))


def made_codes(count: int, seed: int, features: int = 3) -> tuple[Array, Array]:
    """Codes of results, and clicks on them: by position, grade, and the first feature; the last is ternary."""
    chance = np.random.default_rng(seed)
    codes = np.zeros((count, FIRST + features), np.int8)
    codes[:, POSITION], codes[:, GRADE] = chance.integers(0, 6, count), chance.integers(0, 4, count)
    codes[:, FIRST:-1] = chance.integers(0, 2, (count, features - 1))
    codes[:, -1] = chance.integers(-1, 2, count)
    score = -1 - 0.3 * codes[:, POSITION] + 0.5 * codes[:, GRADE] + 0.9 * codes[:, FIRST]
    return codes, chance.random(count) < 1 / (1 + np.exp(-score))


def reference(design: Array, rows: Array, clicks: Array) -> Array:
    """The same maximum, found by scipy."""

    def height(weights: Array) -> tuple[float, Array]:
        scores = design @ weights
        chances = 1 / (1 + np.exp(-scores))
        return float(rows @ np.logaddexp(0, scores) - clicks @ scores), design.T @ (rows * chances - clicks)

    found = minimize(height, np.zeros(design.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9})
    return np.asarray(found.x)


@pytest.mark.parametrize("seed", range(5))
def test_weights_are_those_of_a_reference_fit(seed: int) -> None:
    design = DesignMatrix(Patterns.of(*made_codes(4000, seed)), NAMES)
    found, patterns = design.fit(), design.patterns
    wanted = reference(design.matrix.astype(float), patterns.rows, patterns.clicks)
    assert np.abs(found.weights - wanted).max() < 1e-6
    assert not found.is_separated


def test_patterns_give_the_weights_and_errors_of_results_one_by_one() -> None:
    codes, clicked = made_codes(3000, 7)
    alike = DesignMatrix(Patterns.of(codes, clicked), NAMES)
    alone = DesignMatrix(Patterns(codes, np.ones(len(codes), np.int64), clicked.astype(np.int64)), NAMES)
    assert len(alike.patterns.rows) < len(alone.patterns.rows) / 5
    one, other = alike.fit(), alone.fit()
    assert one.weights == pytest.approx(other.weights, abs=1e-9)
    assert one.covariance == pytest.approx(other.covariance, abs=1e-9)
    scores = alone.matrix @ other.weights
    information = alone.matrix.T @ (alone.matrix * (np.exp(scores) / (1 + np.exp(scores)) ** 2)[:, None])
    assert one.covariance == pytest.approx(np.linalg.inv(information), abs=1e-9)


@given(st.integers(0, 200), st.integers(1, 70), st.integers(0, 199))
def test_patterns_of_parts_add_up_to_those_of_the_whole(count: int, features: int, cut: int) -> None:
    chance = np.random.default_rng(count)
    codes = chance.integers(-1, 2, (count, FIRST + features)).astype(np.int8)
    codes[:, POSITION], codes[:, GRADE] = chance.integers(0, 6, count), chance.integers(0, 15, count)
    codes, clicked = np.concatenate([codes, codes]), chance.random(2 * count) < 0.5
    whole = Patterns.of(codes, clicked)
    added = Patterns.of(codes[:cut], clicked[:cut]) + Patterns.of(codes[cut:], clicked[cut:])
    wanted: dict[tuple[int, ...], list[int]] = {}
    for row, click in zip(codes.tolist(), clicked.tolist(), strict=True):
        pair = wanted.setdefault(tuple(row), [0, 0])
        pair[0], pair[1] = pair[0] + 1, pair[1] + click
    for found in (whole, added):
        listed = zip(found.codes.tolist(), found.rows.tolist(), found.clicks.tolist(), strict=True)
        assert {tuple(row): [rows, clicks] for row, rows, clicks in listed} == wanted


def test_the_test_of_a_feature_is_twice_the_gain_in_likelihood() -> None:
    patterns = Patterns.of(*made_codes(4000, 3))
    model = train_one("combined", patterns, SOME)
    assert [one.name for one in model.weights] == ["a"]
    whole = DesignMatrix(patterns, NAMES)
    with_it, without = whole.only(["a"]).fit(), whole.only([]).fit()
    (one,) = model.weights
    assert one.chi_square == pytest.approx(2 * (with_it.log_likelihood - without.log_likelihood), abs=1e-6)
    assert one.p_value == pytest.approx(chi2.sf(one.chi_square, 1), rel=1e-6)
    assert one.weight == pytest.approx(0.9, abs=5 * (one.error or 0))
    assert set(model.dropped) == {"b", "c"}
    assert model.log_likelihood == pytest.approx(with_it.log_likelihood)


def test_a_useless_feature_is_selected_as_rarely_as_the_level_says() -> None:
    chosen = [train_one("combined", Patterns.of(*made_codes(600, seed)), SOME).dropped for seed in range(150)]
    false = sum(name not in dropped for dropped in chosen for name in ("b", "c"))
    assert false <= 4  # of 300 at .001: more than 4 has a chance of 2e-5
    assert designs.P_VALUE == 0.001


def test_the_five_models_start_from_their_features() -> None:
    features = (CaptionFeature("own", "url length", max=9), CaptionFeature("more", "url length", neighbour="above"),
                CaptionFeature("bolder", "title bold words", neighbour="below"))  # fmt: skip
    started = {name: features_of(name, features) for name in MODELS}
    assert started == {
        "baseline": [],
        "highlighting": ["bolder"],
        "document-wise": ["own"],
        "pairwise": ["more", "bolder"],
        "combined": ["own", "more", "bolder"],
    }


def test_features_without_a_weight_of_their_own_are_left_out_with_a_reason() -> None:
    codes, clicked = made_codes(2000, 1, features=7)
    codes[:, FIRST + 1], codes[:, FIRST + 2] = 0, 1
    codes[:, FIRST + 3] = codes[:, FIRST]
    codes[:, FIRST + 4] = (np.arange(2000) < 6) & ~clicked
    codes[:, FIRST + 5] = (np.arange(2000) < 6) & clicked
    names = tuple("abcdefg")
    assert DesignMatrix(Patterns.of(codes, clicked), names).useless() == {
        "b": designs.NEVER,
        "c": designs.ALWAYS,
        "d": designs.FOLLOWS,
        "e": designs.NO_CLICK,
        "f": designs.ALL_CLICKED,
    }


def test_positions_and_grades_that_were_never_clicked_join_a_neighbour() -> None:
    codes, clicked = made_codes(3000, 2)
    clicked &= (codes[:, POSITION] != 5) & (codes[:, POSITION] != 0) & (codes[:, GRADE] != 2)
    design = DesignMatrix(Patterns.of(codes, clicked), NAMES)
    assert design.positions == [(0, 1), (2,), (3,), (4, 5)]
    assert design.grades == [(0,), (1, 2), (3,)]
    assert np.isfinite(design.fit().weights).all()
    model = train_one("combined", design.patterns, SOME)
    assert model.positions["6-9"] == model.positions["10+"]
    assert model.grades["0"] == model.grades["1"]


def test_clicks_that_can_be_told_without_a_mistake_give_finite_weights_and_no_errors() -> None:
    design = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1]], np.int8)
    found = fit(design, np.array([50, 50, 50, 50]), np.array([0, 0, 0, 50]))  # clicked if and only if it has both
    assert found.is_separated
    assert np.isfinite(found.weights).all()
    assert np.isfinite(found.covariance).all()
    codes = np.zeros((200, FIRST + 2), np.int8)
    codes[:, FIRST:] = np.repeat(design[:, 1:], 50, axis=0)
    model = train_one("combined", Patterns.of(codes, np.asarray(codes[:, FIRST:].all(axis=1))), SOME[:2])
    assert model.separated
    assert [one.error for one in model.weights] == [None, None]
    assert all(0 < one.weight < 20 for one in model.weights)


@pytest.mark.parametrize("clicked", [True, False])
def test_a_feature_whose_results_are_all_clicked_or_none_counts_unless_chance_explains_it(clicked: bool) -> None:
    codes, clicks = made_codes(2000, 1, features=3)
    codes[:, FIRST + 1] = (np.arange(2000) < 400) & (clicks == clicked)
    model = train_one("combined", Patterns.of(codes, clicks), SOME)
    (own,) = [one for one in model.weights if one.name == "b"]
    assert model.separated
    assert (2 if clicked else -20) < own.weight < (20 if clicked else -2)
    assert (own.p_value < 1e-6, own.error) == (True, None)
    assert [one.name for one in model.weights if one.error is not None] == ["a"]
    assert all(np.isfinite(model.parameters))


@pytest.mark.parametrize("clicked", [True, False])
def test_without_clicks_or_without_their_absence_nothing_is_learned(clicked: bool) -> None:
    codes, _ = made_codes(50, 1)
    with pytest.raises(DataError, match="clicks cannot be learned from 50 results"):
        train(Patterns.of(codes, np.full(50, clicked)), SOME)
    with pytest.raises(DataError, match="all units of the log are held out"):
        train(Patterns.of(codes[:0], np.full(0, clicked)), SOME)


def test_a_million_results_cost_what_their_patterns_cost() -> None:
    codes, clicked = made_codes(4000, 5)
    small = Patterns.of(codes, clicked)
    large = Patterns(small.codes, small.rows * 10**6, small.clicks * 10**6)
    one, other = (train_one("combined", patterns, SOME) for patterns in (small, large))
    assert {weight.name for weight in one.weights} <= {weight.name for weight in other.weights}
    assert other.rows == 4 * 10**9
    assert all(np.isfinite(weight.weight) for weight in other.weights)


def made_table(seed: int, threshold: int, count: int = 20_000) -> MeasureCounts:
    """URLs of 0 to 99 characters; those up to a threshold are clicked more."""
    chance = np.random.default_rng(seed)
    measures = np.zeros((count, len(MEASURES)), np.int32)
    measures[:, 0] = chance.integers(0, 100, count)
    codes = np.stack([chance.integers(0, 6, count), np.zeros(count, int)], axis=1).astype(np.int8)
    table = MeasureCounts()
    table.add(measures, codes, chance.random(count) < np.where(measures[:, 0] <= threshold, 0.4, 0.2))
    return table


def test_the_best_threshold_is_the_planted_one() -> None:
    short = CaptionFeature("short URL", "url length", max=80, tuned="max")
    for seed, threshold in ((1, 12), (2, 30), (3, 44)):
        (found,) = tune_thresholds([short], made_table(seed, threshold), "best")
        assert abs(found.max - threshold) <= 2


def test_thresholds_can_be_quartiles_or_stay() -> None:
    short = CaptionFeature("short URL", "url length", max=80, tuned="max")
    long = CaptionFeature("long URL", "url length", min=7, tuned="min")
    fixed = CaptionFeature("no URL", "url length", max=0)
    table = made_table(1, 30)
    low, high, same = tune_thresholds([short, long, fixed], table, "quartiles")
    assert (low.max, high.min) == pytest.approx((24.5, 74.5), abs=1.5)
    assert same == fixed
    assert tune_thresholds([short, long], table, "none") == (short, long)
    with pytest.raises(DataError, match="tuned by 'luck'; give 'quartiles', 'best' or 'none'"):
        tune_thresholds([short], table, "luck")


def test_thresholds_of_what_never_varies_stay_as_they_are() -> None:
    links = CaptionFeature("many links", "deep links", min=3, tuned="min")
    assert tune_thresholds([links], made_table(1, 30), "best") == (links,)
    assert tune_thresholds([links], MeasureCounts(), "best") == (links,)
