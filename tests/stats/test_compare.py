"""The mean and its error: against leaving out each bucket by hand, in fractions; its laws; and what it refuses."""

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binom, t as student

from interleaf import DataError
from interleaf.stats import compare
from interleaf.stats.compare import (
    ALIKE,
    EMPTY,
    ONE_BUCKET,
    Estimate,
    NoError,
    deviate,
    difference,
    estimate,
    estimates,
    statistic,
)

SUMS, COUNTS = [3, -1, 0, 4, 2, -2, 1], [5, 2, 3, 4, 6, 2, 9]
BUCKETS = st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 30)), min_size=3, max_size=30)


def left_out(sums: list[int], counts: list[int]) -> tuple[Fraction, list[Fraction]]:
    """The mean, and how it changes when each bucket is left out."""
    value = Fraction(sum(sums), sum(counts))
    without = [(sum(sums) - s, sum(counts) - c) for s, c in zip(sums, counts, strict=True)]
    return value, [Fraction(*rest) - value if rest[1] else Fraction(0) for rest in without]


def same(one: Estimate, other: Estimate) -> None:
    """The same but for the order in which floats were added."""
    assert (other.buckets, other.reason) == (one.buckets, one.reason)
    for name in ("value", "error", "interval", "p_value", "effective_units"):
        if getattr(one, name) is None:
            assert getattr(other, name) is None
        else:
            assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-9, abs=1e-12)


def differ(arms: Sequence[Sequence[int]]) -> Estimate:
    sums_1, counts_1, sums_2, counts_2 = map(np.array, arms)
    return difference(sums_1, counts_1, sums_2, counts_2)


def test_an_estimate_is_what_leaving_out_each_bucket_says() -> None:
    value, changes = left_out(SUMS, COUNTS)
    found = estimate(np.array(SUMS), np.array(COUNTS), confidence=0.9)
    assert found.value == pytest.approx(float(value), rel=1e-14)
    error = math.sqrt(sum(change**2 for change in changes))
    assert found.error == pytest.approx(error, rel=1e-12)
    effective = sum(COUNTS) ** 2 / sum(count**2 for count in COUNTS)
    assert found.effective_units == pytest.approx(effective)
    radius = student.ppf(0.95, effective - 1) * error
    assert found.interval == pytest.approx((float(value) - radius, float(value) + radius))
    assert found.p_value == pytest.approx(2 * student.sf(float(value) / error, effective - 1))
    assert found.p_value is not None
    assert found.deviate == pytest.approx(-NormalDist().inv_cdf(found.p_value / 2), abs=0.02)
    assert (found.buckets, found.reason) == (len(SUMS), "")


def test_equal_buckets_give_the_ordinary_t_test_up_to_the_jackknifes_last_bucket() -> None:
    values = np.random.default_rng(1).normal(0.3, 1, 25)
    found = estimate(values, np.ones(25))
    ordinary = values.std(ddof=1) / math.sqrt(25)
    assert found.error == pytest.approx(ordinary * math.sqrt(25 / 24))
    assert found.effective_units == pytest.approx(25)


@given(BUCKETS)
def test_columns_do_not_know_of_each_other(buckets: list[tuple[int, int]]) -> None:
    sums, counts = (np.array(part) for part in zip(*buckets, strict=True))
    both = estimates(np.stack([sums, -2 * sums, np.zeros_like(sums)], axis=1), counts)
    same(both[0], estimate(sums, counts))
    same(both[1], estimate(-2 * sums, counts))
    same(both[2], estimate(np.zeros_like(sums), counts))


@given(BUCKETS, st.sampled_from([0.01, 0.5, -3.0, 1000.0]))
def test_scaled_scores_scale_everything_but_the_p_value(buckets: list[tuple[int, int]], scale: float) -> None:
    sums, counts = (np.array(part) for part in zip(*buckets, strict=True))
    once, scaled = estimate(sums, counts), estimate(scale * sums, counts)
    assert once.value is not None
    assert scaled.value == pytest.approx(scale * once.value)
    assert scaled.reason == once.reason
    if once.error is not None and once.p_value is not None:
        assert scaled.error == pytest.approx(abs(scale) * once.error)
        assert scaled.p_value == pytest.approx(once.p_value, abs=1e-12)


@given(BUCKETS, st.randoms(use_true_random=False))
def test_the_order_of_buckets_and_empty_ones_change_nothing(buckets: list[tuple[int, int]], chance: Any) -> None:
    mixed = buckets + [(0, 0)] * 3
    chance.shuffle(mixed)
    one, other = (estimate(np.array(some)[:, 0], np.array(some)[:, 1]) for some in (buckets, mixed))
    same(one, other)


@given(BUCKETS)
def test_every_impression_twice_tells_nothing_new(buckets: list[tuple[int, int]]) -> None:
    sums, counts = (np.array(part) for part in zip(*buckets, strict=True))
    assert estimate(2 * sums, 2 * counts) == estimate(sums, counts)


@given(BUCKETS)
def test_the_other_way_round_only_the_sign_changes(buckets: list[tuple[int, int]]) -> None:
    sums, counts = (np.array(part) for part in zip(*buckets, strict=True))
    one, other = estimate(sums, counts), estimate(-sums, counts)
    assert one.value is not None
    assert (other.value, other.error, other.p_value) == (-one.value, one.error, one.p_value)
    if one.interval is not None:
        assert other.interval == (-one.interval[1], -one.interval[0])


@pytest.mark.parametrize(
    ("sums", "counts", "value", "reason"),
    [
        ([], [], None, EMPTY),
        ([0, 0], [0, 0], None, EMPTY),
        ([3, 0], [4, 0], 0.75, ONE_BUCKET),
        ([1, 2, 3], [1, 2, 3], 1.0, ALIKE),
        ([0.1, 0.2, 0.7], [1, 2, 7], 0.1, ALIKE),  # not exactly so in floats
        ([1e-17, -1e-17, 0], [1, 2, 3], 0.0, ALIKE),  # identical rankers under softmax
        ([1000, 0], [10_000, 1], 1000 / 10_001, NoError.FEW.text),
    ],
)
def test_what_cannot_be_estimated_is_none_with_the_reason(
    sums: list[float], counts: list[int], value: float | None, reason: str
) -> None:
    found = estimate(np.array(sums, float), np.array(counts, float))
    assert (found.interval, found.p_value, found.reason, found.deviate) == (None, None, reason, None)
    assert found.value == (value if value is None else pytest.approx(value))


def test_points_in_time_may_each_have_their_own_counts() -> None:
    sums, counts = np.array([SUMS, [0, *SUMS[1:]]]).T, np.array([COUNTS, [0, *COUNTS[1:]]]).T
    assert estimates(sums, counts)[1].buckets == len(SUMS) - 1
    same(estimates(sums, counts)[1], estimate(np.array(SUMS[1:]), np.array(COUNTS[1:])))


def test_a_difference_is_what_leaving_each_bucket_out_of_both_arms_says() -> None:
    first, second = ([3, 0, 4, 2, 1, 0], [5, 0, 4, 6, 3, 2]), ([0, 1, 2, -1, 0, 1], [0, 3, 4, 2, 2, 2])
    values, changes = zip(*(left_out(*arm) for arm in (first, second)), strict=True)
    found = differ((*first, *second))
    assert found.value == pytest.approx(float(values[0] - values[1]))
    joint = math.sqrt(sum((one - other) ** 2 for one, other in zip(*changes, strict=True)))
    assert found.error == pytest.approx(joint)
    own = [float(sum(change**2 for change in arm)) for arm in changes]
    degrees = [sum(counts) ** 2 / sum(count**2 for count in counts) - 1 for _, counts in (first, second)]
    welch = sum(own) ** 2 / sum(v**2 / f for v, f in zip(own, degrees, strict=True))
    assert found.effective_units == pytest.approx(welch + 1)
    radius = student.ppf(0.975, welch) * joint
    assert found.interval == pytest.approx((found.value - radius, found.value + radius))
    assert found.buckets == 6


def test_arms_that_are_the_same_people_do_not_differ() -> None:
    found = differ((SUMS, COUNTS, SUMS, COUNTS))
    assert (found.value, found.interval, found.reason) == (0.0, None, ALIKE)


@pytest.mark.parametrize(
    ("arms", "reason"),
    [
        (([0, 0], [0, 0], [1, 2], [3, 3]), "the first arm is empty"),
        (([1, 2], [3, 3], [0, 0], [0, 0]), "the second arm is empty"),
        (([1, 2], [3, 3], [1, 0], [3, 0]), "the second arm has fewer than two effective units"),
        (
            ([1, 2], [3, 3], [3, 3], [3, 3]),
            "all units of the second arm are alike, so chance cannot be estimated",
        ),
        (
            ([0, 0], [3, 3], [1, 2], [3, 3]),
            "all units of the first arm are alike, so chance cannot be estimated",
        ),
    ],
)
def test_an_arm_without_people_gives_no_difference(arms: tuple[list[int], ...], reason: str) -> None:
    found = differ(arms)
    assert (found.interval, found.p_value, found.reason) == (None, None, reason)
    assert (found.value is None) == ("empty" in reason)


@pytest.mark.parametrize("units", [90, 400])
def test_an_arm_of_few_people_who_do_alike_raises_no_alarm(units: int) -> None:
    """One in twenty is in it, and 6 % do what is counted: mostly nobody there, and some in the other arm."""
    chance, runs, alarms = np.random.default_rng(1), 400, 0
    for _ in range(runs):
        buckets, apart, did = chance.integers(0, 1024, units), chance.random(units) < 0.05, chance.random(units) < 0.06
        arms = [
            (np.bincount(buckets[inside], did[inside], 1024), np.bincount(buckets[inside], minlength=1024))
            for inside in (~apart, apart)
        ]
        p_value = difference(*arms[0], *arms[1]).p_value
        alarms += p_value is not None and p_value < 0.01
    assert alarms <= binom.isf(1e-6, runs, 0.01)


@pytest.mark.parametrize(
    ("sums", "counts", "words"),
    [
        ([1, 2], [1, 2, 3], "do not fit"),
        ([1, np.nan], [1, 2], "finite"),
        ([1, 2], [1, -2], "at least 0"),
        ([1, 2], [1, 0], "bucket 1 has a sum"),
    ],
)
def test_sums_that_cannot_be_are_refused(sums: list[float], counts: list[float], words: str) -> None:
    with pytest.raises(DataError, match=words):
        estimate(np.array(sums), np.array(counts))
    with pytest.raises(DataError, match=r"0\.95"):
        estimate(np.array([1, 2]), np.array([1, 2]), confidence=95)
    with pytest.raises(DataError, match="same buckets"):
        differ(([1, 2], [1, 2], [1, 2, 3], [1, 2, 3]))


@pytest.mark.parametrize("degrees", [1, 2, 5, 20, 1e3, 1e6])
def test_deviates_of_t_are_as_unlikely_and_go_back(degrees: float) -> None:
    sizes = np.array([0.5, 1.96, 3.0, 5.0])
    normal = deviate(sizes, degrees)
    assert statistic(normal, degrees) == pytest.approx(sizes)
    exact = [-NormalDist().inv_cdf(float(p)) for p in student.sf(sizes, degrees)]
    assert normal == pytest.approx(exact, abs=0.12 if degrees < 3 else 0.02)
    assert deviate(-sizes, degrees) == pytest.approx(-normal)


def test_a_deviate_beyond_all_floats_is_infinite_without_a_warning() -> None:
    assert statistic(60.0, 2.0) == np.inf


def test_a_cautious_difference_has_no_smaller_error_and_knows_that_few_people_may_be_alike_by_chance() -> None:
    chance = np.random.default_rng(4)
    visits = chance.integers(1, 9, (300, 40)).astype(float)
    sums = visits * chance.lognormal(0, 1, visits.shape)
    is_first = chance.random(visits.shape) < 0.9
    arms = [values * side for side in (is_first, ~is_first) for values in (sums, visits)]
    plain = compare.differences(arms[0], arms[1], arms[2], arms[3])
    cautious = compare.differences(arms[0], arms[1], arms[2], arms[3], cautious=True)
    assert all((one.error or 0) >= (other.error or 0) for one, other in zip(cautious, plain, strict=True))
    assert [one.value for one in cautious] == [one.value for one in plain]
    few = arms[0][:, 0], arms[1][:, 0], 0 * arms[2][:, 0], arms[3][:, 0]  # an arm in which nothing happens
    assert compare.difference(*few).error is None
    assert (compare.difference(*few, cautious=True).error or 0) > compare.jackknife(*few[:2]).errors[0]


def test_a_cautious_error_hardly_depends_on_how_many_people_share_a_bucket() -> None:
    chance = np.random.default_rng(5)
    visits = np.ones(4000)
    sums, is_first = chance.lognormal(0, 1, 4000), np.arange(4000) < 3600
    errors = []
    for people in (1, 5):
        arms = [
            np.bincount(np.arange(4000) // people, values * side)
            for side in (is_first, ~is_first)
            for values in (sums, visits)
        ]
        errors.append(compare.difference(arms[0], arms[1], arms[2], arms[3], cautious=True).error)
    assert errors[1] == pytest.approx(errors[0], rel=0.1)
