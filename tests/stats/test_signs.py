"""Delta, sign test, z-score and sign flips, against fractions and full enumeration."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf import DataError
from interleaf.kernels.arrays import Array
from interleaf.stats.compare import Figure
from interleaf.stats.signs import FLIPS, delta, sign_flips, sign_test, z_score


def binomial(wins: int, losses: int) -> Fraction:
    """The two-sided probability, term by term."""
    count, term, total = wins + losses, 1, 0
    for fewer in range(min(wins, losses) + 1):
        total += term
        term = term * (count - fewer) // (fewer + 1)
    return min(Fraction(1), Fraction(2 * total, 2**count))


@given(st.integers(0, 400), st.integers(0, 400))
def test_the_sign_test_is_the_exact_binomial(wins: int, losses: int) -> None:
    found = sign_test(wins, losses)
    if wins + losses == 0:
        assert found.value is None
    else:
        assert found.value == pytest.approx(float(binomial(wins, losses)), rel=1e-10)
        assert sign_test(losses, wins) == found


@pytest.mark.parametrize(("wins", "losses"), [(20_300, 19_700), (10_100, 10_100), (3_000, 4_000)])
def test_the_sign_test_is_exact_for_tens_of_thousands(wins: int, losses: int) -> None:
    assert sign_test(wins, losses).value == pytest.approx(float(binomial(wins, losses)), rel=1e-9)


@pytest.mark.parametrize("deviates", [0.5, 1.0, 2.0, 3.0, 6.0])
def test_the_sign_test_is_right_for_a_thousand_million(deviates: float) -> None:
    count = 10**9
    wins = count // 2 + round(deviates * math.sqrt(count) / 2)
    continuity = (2 * wins - count - 1) / math.sqrt(count)
    assert sign_test(wins, count - wins).value == pytest.approx(math.erfc(continuity / math.sqrt(2)), rel=1e-6)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_delta_is_half_the_mean_sign(wins: int, losses: int, ties: int) -> None:
    found = delta(wins, losses, ties)
    if wins + losses + ties == 0:
        assert (found.value, found.reason) == (None, "no impression with an event")
    else:
        paper = Fraction(2 * wins + ties, 2 * (wins + losses + ties)) - Fraction(1, 2)
        assert found.value == pytest.approx(float(paper), abs=1e-15)


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=40))
def test_the_z_score_is_that_of_the_scores(scores: list[int]) -> None:
    found = z_score(sum(scores), sum(score**2 for score in scores), len(scores))
    values = np.array(scores, float)
    if len(set(scores)) == 1:
        assert (found.value, found.per_query, found.reason) == (None, None, "all scores are the same")
    else:
        assert found.per_query == pytest.approx(values.mean() / values.std())
        assert found.value == pytest.approx(values.mean() / values.std() * math.sqrt(len(scores)))


def test_without_scores_there_is_no_z_score() -> None:
    assert z_score(0, 0, 0).reason == "no impression with an event"
    assert z_score(0.3, 0.03, 3).reason == "all scores are the same"  # 0.1 thrice, not exactly so in floats


def sign_flip(sums: Array, flips: int = FLIPS, seed: int = 0) -> Figure:
    """The test of one pair."""
    return sign_flips(sums[:, None], flips, seed)[0]


def enumerated(sums: list[int]) -> Fraction:
    """Among all signs, how many make a sum at least as large."""
    signs = list(product((1, -1), repeat=len(sums)))
    sizes = [abs(sum(sign * one for sign, one in zip(some, sums, strict=True))) for some in signs]
    return Fraction(sum(size >= abs(sum(sums)) for size in sizes), len(signs))


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=9))
def test_few_buckets_are_flipped_in_all_ways(sums: list[int]) -> None:
    found = sign_flip(np.array(sums))
    if any(sums):
        assert found.value == float(enumerated([one for one in sums if one]))
    else:
        assert (found.value, found.reason) == (None, "no bucket prefers either")


def test_random_flips_come_near_all_flips_and_count_what_was_observed() -> None:
    sums = np.random.default_rng(1).integers(-5, 7, 16)
    exact, flips = float(enumerated(list(map(int, sums)))), 20_000
    found = sign_flip(sums, flips, seed=3).value
    assert found is not None
    assert abs(found - exact) < 5 * math.sqrt(exact * (1 - exact) / flips)
    assert found == sign_flip(sums, flips, seed=3).value
    assert found != sign_flip(sums, flips, seed=4).value
    assert sign_flip(np.ones(60), flips=999).value == 1 / 1000


def test_pairs_share_their_flips_and_do_not_know_of_each_other() -> None:
    sums = np.random.default_rng(2).normal(size=(40, 3))
    together = sign_flips(sums, flips=500)
    assert [one.value for one in together] == [sign_flip(sums[:, pair], flips=500).value for pair in range(3)]


def test_nothing_to_flip_gives_no_number() -> None:
    assert sign_flip(np.array([])).value is None
    assert [one.value is None for one in sign_flips(np.array([[1.0, 0.0], [2.0, 0.0]]))] == [False, True]


def test_counts_below_zero_and_endless_sums_are_refused() -> None:
    with pytest.raises(DataError, match="losses is -1"):
        sign_test(3, -1)
    with pytest.raises(DataError, match="ties is -2"):
        delta(1, 1, -2)
    with pytest.raises(DataError, match="finite"):
        sign_flip(np.array([1.0, np.inf]))
