"""Resampling, consistency, windows and agreement: against all samples there are, then within the bounds of chance."""

import math
import statistics
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.stats.consistency import (
    STATISTICS,
    Curve,
    Timed,
    Triple,
    VerdictCounts,
    Window,
    bootstrap_correlation,
    bucket_consistency,
    bucket_windows,
    consistency,
    correlation,
    count_needed,
    equivalents,
    resampled_means,
    resampled_medians,
    triples,
    verdicts,
    windows,
    z_ratios,
)

NAN = math.nan


def generator() -> np.random.Generator:
    return np.random.default_rng(11)


def all_samples(values: list[float], size: int, statistic: str) -> dict[float | None, Fraction]:
    """The exact distribution over all equally likely samples; None where nothing counts."""
    found: Counter[float | None] = Counter()
    for sample in product(values, repeat=size):
        there = [value for value in sample if not math.isnan(value)]
        summary = statistics.fmean if statistic == "mean" else statistics.median
        found[round(summary(there), 9) if there else None] += 1
    return {value: Fraction(count, len(values) ** size) for value, count in found.items()}


def within(count: int, trials: int, share: Fraction | float) -> bool:
    """Whether a count is what so many trials give, but once in a million."""
    return abs(count - trials * float(share)) <= 5 * math.sqrt(trials * float(share) * (1 - float(share))) + 1


@pytest.mark.parametrize("statistic", ["mean", "median"])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("values", [[1.0, 2.0, 5.0], [1.0, 1.0, NAN, 4.0], [-1.0, 1.0], [0.5, 3.0, 9.0, 27.0, 81.0]])
def test_resampled_statistics_have_the_distribution_of_all_samples(
    values: list[float], size: int, statistic: str
) -> None:
    found = STATISTICS[statistic](np.array(values), size, 20_000, generator())
    counts = Counter(None if math.isnan(value) else round(value, 9) for value in found.tolist())
    exact = all_samples(values, size, statistic)
    assert set(counts) <= set(exact)
    for value, share in exact.items():
        assert within(counts[value], 20_000, share), (value, counts[value], float(share))


def test_means_are_the_same_in_law_by_counts_and_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten distinct values in samples of nine are drawn row by row, in samples of eleven by counts."""
    values = np.arange(10.0)
    monkeypatch.setattr("interleaf.stats.consistency._ROOM", 64)
    for size in (9, 11):
        found = resampled_means(values, size, 4_001, generator())
        assert len(found) == 4_001
        assert abs(found.mean() - 4.5) < 5 * math.sqrt(8.25 / size / 4_001)
        assert found.var() == pytest.approx(8.25 / size, rel=0.15)


def test_means_that_are_zero_on_paper_are_zero() -> None:
    thirds = np.array([1 / 3, 1 / 3, 1 / 3, -1.0])
    found = resampled_means(thirds, 4, 5_000, generator())
    near = np.abs(found) < 1e-6
    assert near.any()
    assert (found[near] == 0).all()


def test_medians_of_values_that_never_count_are_nan() -> None:
    assert np.isnan(resampled_medians(np.array([NAN, NAN]), 3, 4, generator())).all()


def exact_preference(scores: list[int], size: int) -> Fraction:
    """P(the first is preferred), ties by a coin, over all samples."""
    sums = [sum(sample) for sample in product(scores, repeat=size)]
    return Fraction(2 * sum(total > 0 for total in sums) + sum(total == 0 for total in sums), 2 * len(sums))


@pytest.mark.parametrize("scores", [[1, 1, -1], [1, 0, 0, -1], [2, -1, -1, 1]])
def test_algorithm_3_gives_the_probability_of_all_samples(scores: list[int]) -> None:
    curve = consistency(np.array(scores), [1, 2, 3, 5], generator(), 20_000)
    assert curve.sizes == (1, 2, 3, 5)
    for size, first, second, found in zip(curve.sizes, curve.first, curve.second, curve.probability, strict=True):
        sums = [sum(sample) for sample in product(scores, repeat=size)]
        assert within(first, 20_000, Fraction(sum(total > 0 for total in sums), len(sums)))
        assert within(second, 20_000, Fraction(sum(total < 0 for total in sums), len(sums)))
        assert found == pytest.approx(float(exact_preference(scores, size)), abs=0.02)


def test_ties_are_halved_by_a_coin_or_left_out() -> None:
    curve = Curve((1, 2), (6, 0), (2, 0), repeats=10)
    assert curve.probability == [0.7, 0.5]
    assert curve.without_ties == [0.75, None]


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_two_buckets_are_resampled_apart(statistic: str) -> None:
    one, other, size = [1.0, 4.0, NAN], [2.0, 3.0], 3
    curve = bucket_consistency(np.array(one), np.array(other), [size], generator(), 20_000, statistic)
    left, right = all_samples(one, size, statistic), all_samples(other, size, statistic)
    shares = {sign: Fraction(0) for sign in (-1, 0, 1)}
    for (a, p), (b, q) in product(left.items(), right.items()):
        shares[0 if a is None or b is None else int(np.sign(a - b))] += p * q
    assert within(curve.first[0], 20_000, shares[1])
    assert within(curve.second[0], 20_000, shares[-1])


def test_needed_is_the_smallest_sample_that_is_as_sure() -> None:
    scores = [1, 1, 1, -1]
    for wanted in (0.76, 0.86, 0.9):
        exact = next(size for size in range(1, 12) if exact_preference(scores, size) >= wanted)
        assert count_needed(np.array(scores), wanted, generator(), 40_000) == exact
    assert count_needed(np.array([1, -1]), 0.9, generator(), 200) is None


def test_equivalents_are_ratios_or_reasons() -> None:
    found = equivalents(
        [40, 50, 60, 70, 80], [0.76, 1.0, 0.5, None, 0.9999], np.array([1, 1, 1, -1]), generator(), 40_000
    )
    assert [one.needed for one in found[:4]] == [3, None, None, None]
    assert found[0].ratio == 40 / 3
    assert [one.reason for one in found[:4]] == [
        None, "no sample errs", "no better than a coin", "no sample prefers either ranker",
    ]  # fmt: skip
    assert found[1].ratio is None
    hopeless = equivalents([5], [0.99], np.array([1, -1]), generator(), 200)
    assert "100 times" in str(hopeless[0].reason)


def plain_windows(times: list[int], values: list[float], stop: int, length: int) -> tuple[float, float]:
    sums = [
        sum(value for time, value in zip(times, values, strict=True) if start <= time < start + length)
        for start in range(stop - length + 1)
    ]
    return statistics.fmean(total < 0 for total in sums), statistics.fmean(total == 0 for total in sums)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 19), st.sampled_from([-1, 0, 1])), min_size=1, max_size=30), st.integers(1, 20)
)
def test_sliding_windows_are_those_of_a_loop(rows: list[tuple[int, int]], length: int) -> None:
    times, values = [time for time, _ in rows], [float(value) for _, value in rows]
    (found,) = windows(Timed(np.array(times), np.array(values)), (0, 20), 1, [length])
    wrong, undecided = plain_windows(times, values, 20, length)
    assert tuple(found) == pytest.approx((length, wrong, undecided))


def test_buckets_are_thinned_out_to_the_interleaved_one_and_compared_window_by_window() -> None:
    """The first bucket wins in the first half of the time and loses in the second; thinning cannot change that."""
    times = np.repeat(np.arange(10), 20)
    first, second = Timed(times, np.where(times < 5, 1.0, 0.0)), Timed(times, np.full(200, 0.5))
    found = bucket_windows(first, second, 150, (0, 10), 1, [1, 3], generator(), repeats=20)
    assert found[0] == Window(1, 0.5, 0.0)
    assert found[1].wrong == pytest.approx(0.5, abs=0.1)
    whole = bucket_windows(first, second, 200, (0, 10), 1, [2, 10], generator(), repeats=1)
    assert tuple(whole[0]) == pytest.approx((2, 4 / 9, 1 / 9))
    assert whole[1] == Window(10, 0.0, 1.0)


def test_windows_without_a_counted_value_are_undecided() -> None:
    values = Timed(np.array([0, 1]), np.array([1.0, NAN]))
    (found,) = bucket_windows(values, Timed(np.array([0, 1]), np.array([0.0, 0.0])), 2, (0, 2), 1, [1], generator(), 1)
    assert found == Window(1, 0.0, 0.5)


def test_verdicts_count_signs_and_what_is_missing_is_neither() -> None:
    assert verdicts([1.0, -1.0, None, 0.0, 2.0], [True, True, False, False, False]) == VerdictCounts(2, 1, 1, 1)


def test_correlation_is_pearson_s_and_needs_something_that_varies() -> None:
    assert correlation([1.0, 2.0, 4.0], [1.0, 3.0, 2.0]) == pytest.approx(statistics.correlation([1, 2, 4], [1, 3, 2]))
    assert correlation([1, 2], [5, 5]) is None
    assert correlation([1], [2]) is None
    with pytest.raises(DataError, match="2 differences on one side and 1"):
        correlation([1, 2], [1])


def test_a_bootstrapped_correlation_draws_queries_for_all_pairs_at_once() -> None:
    """Differences that are the same multiple in every query correlate fully, whatever is drawn."""
    judged = np.outer(np.array([1.0, 2.0, 4.0]), [1.0, 2.0, 3.0])
    sure: list[Array] = [np.full(5, value) for value in (0.1, 0.2, 0.3)]
    found = bootstrap_correlation(judged, sure, generator(), 200)
    assert found is not None
    assert found.mean == pytest.approx(1)
    assert found.deviation == pytest.approx(0, abs=1e-9)
    noisy = bootstrap_correlation(judged, [np.array([3.0, -3.0])] * 3, generator(), 500)
    assert noisy is not None
    assert abs(noisy.mean) < 0.3
    assert noisy.deviation > 0.5
    assert bootstrap_correlation(judged, [np.ones(4)] * 3, generator(), 5) is None
    with pytest.raises(DataError, match="3 pairs, and scores of 2"):
        bootstrap_correlation(judged, sure[:2], generator())


def test_triples_are_those_of_c12_s_table_iv_and_all_are_strong() -> None:
    deltas = {
        ("D", "C"): 0.03,
        ("D", "B"): 0.54,
        ("D", "A"): 0.56,
        ("C", "B"): 0.50,
        ("C", "A"): 0.54,
        ("B", "A"): 0.16,
    }
    found = triples(deltas)
    assert {triple.rankers for triple in found} == {("C", "B", "A"), ("D", "B", "A"), ("D", "C", "A"), ("D", "C", "B")}
    assert Triple(("D", "C", "A"), 0.56, 0.03, 0.54) in found
    assert all(triple.is_strong for triple in found)
    assert triples({("a", "b"): 1, ("b", "c"): 1}) == []  # a and c never met
    assert [triple.rankers for triple in triples({("b", "a"): -2, ("c", "b"): -1, ("a", "c"): 1})] == [("a", "b", "c")]
    assert not triples({("a", "b"): 2, ("b", "c"): 1, ("a", "c"): 1})[0].is_strong


def test_a_cycle_is_three_triples_and_none_is_strong() -> None:
    found = triples({("a", "b"): 1, ("b", "c"): 1, ("c", "a"): 1})
    assert len(found) == 3
    assert not any(triple.is_strong for triple in found)


def test_ratios_of_z_scores_have_a_baseline() -> None:
    scores = np.array([1, 1, 0, -1])
    found = z_ratios({"binary": scores, "twice": np.tile(scores, 4), "sure": np.ones(2)}, "binary")
    assert found == {"binary": 1.0, "twice": pytest.approx(2.0), "sure": None}
    with pytest.raises(DataError, match="'click'"):
        z_ratios({"binary": scores}, "click")


def test_what_cannot_be_sampled_is_refused() -> None:
    some = Timed(np.array([0, 1]), np.ones(2))
    with pytest.raises(DataError, match="at least one score"):
        consistency(np.array([]), [1], generator())
    with pytest.raises(DataError, match="size 0"):
        consistency(np.array([1]), [0], generator())
    with pytest.raises(DataError, match="'mode'"):
        bucket_consistency(np.ones(2), np.ones(2), [1], generator(), statistic="mode")
    with pytest.raises(DataError, match="a bucket has 2 queries, not the 3"):
        bucket_windows(some, some, 3, (0, 2), 1, [1], generator())
    with pytest.raises(DataError, match="3 steps does not fit into 2"):
        windows(some, (0, 2), 1, [3])
    with pytest.raises(DataError, match="outside the span"):
        windows(some, (0, 1), 1, [1])
