"""Many rankers: adjusted p-values, the matrix, Condorcet and Copeland, cycles, Bradley-Terry strengths, shares."""

import math
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize
from scipy.stats import t as student

from interleaf import DataError
from interleaf.kernels.arrays import Array, pairs
from interleaf.stats.bootstrap import resample
from interleaf.stats.compare import Estimate, Share, estimates, share_tests
from interleaf.stats.multiplicity import holm, max_t
from interleaf.stats.ranking import (
    bradley_terry,
    cycles,
    matrix,
    pair_sums,
    separation,
    standing,
    strengths,
)

CHANCE = np.random.default_rng(11)
COUNTS = CHANCE.integers(1, 20, 120)
CREDIT = CHANCE.normal([0.3, 0.1, 0.0, 0.0], 1.0, (120, 4)) * np.sqrt(COUNTS)[:, None]
SUMS = pair_sums(CREDIT)


def test_holm_is_that_of_a_hand_example() -> None:
    """0.005 x 4; 0.011 x 3; 0.02 x 2; 0.04 x 1, which may not fall below."""
    assert holm([0.011, 0.04, 0.005, 0.02]) == pytest.approx((0.033, 0.04, 0.02, 0.04))
    assert holm([0.03, None, 0.02, 0.9]) == (0.06, None, 0.06, 0.9)
    assert holm([0.6, 0.7]) == (1.0, 1.0)
    assert holm([]) == ()
    assert holm([None]) == (None,)
    with pytest.raises(DataError, match="between 0 and 1"):
        holm([1.2])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.2))
def test_holm_rejects_what_stepping_down_rejects(p_values: list[float], level: float) -> None:
    adjusted, rejecting = holm(p_values), True
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        step = min(1.0, p_values[index] * (len(p_values) - place))
        rejecting = rejecting and step <= level
        assert (adjusted[index] <= level) == rejecting  # type: ignore[operator]


def test_max_t_is_stepping_down_through_the_largest_of_those_left() -> None:
    found, means = estimates(SUMS, COUNTS), resample(SUMS, COUNTS, 500)
    resampled = np.abs(means - means.mean(axis=0)) / means.std(axis=0)
    sizes = [abs(one.deviate or 0) for one in found]
    expected, least = {}, 0.0
    left = sorted(range(6), key=lambda pair: -sizes[pair])
    for place, pair in enumerate(left):
        large = sum(max(row[other] for other in left[place:]) >= sizes[pair] for row in resampled)
        least = max(least, (1 + large) / 501)
        expected[pair] = least
    assert max_t(found, means) == pytest.approx(tuple(expected[pair] for pair in range(6)))
    assert max(p for p in expected.values()) > min(p for p in expected.values())


def test_max_t_leaves_out_what_has_no_estimate_and_gains_on_holm_where_pairs_depend() -> None:
    copies = np.repeat(SUMS[:, :1], 10, axis=1)
    found = estimates(copies, COUNTS)
    adjusted, stepped = max_t(found, resample(copies, COUNTS, 2_000))[0], holm([one.p_value for one in found])[0]
    assert adjusted is not None
    assert stepped is not None
    assert adjusted < stepped / 3
    with_nothing = np.column_stack([SUMS, np.zeros(120)])
    assert max_t(estimates(with_nothing, COUNTS), resample(with_nothing, COUNTS, 200))[-1] is None
    with pytest.raises(DataError, match="10 pairs"):
        max_t(found, np.zeros((5, 3)))


def test_pairs_sums_and_matrix_keep_one_order() -> None:
    first, second = pairs(4)
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == list(combinations(range(4), 2))
    square = matrix(SUMS.sum(axis=0))
    for i, j in permutations(range(4), 2):
        assert square[i, j] == pytest.approx((CREDIT[:, i] - CREDIT[:, j]).sum())
    with pytest.raises(DataError, match="1, 3, 6"):
        matrix(np.zeros(4))


def sure(*values: float | None) -> list[Estimate]:
    return [Estimate(value, 0.1, None, None, 9.0, 9, "" if value is not None else "nothing") for value in values]


def test_a_condorcet_winner_beats_everyone_and_says_how_surely() -> None:
    found = standing("ABC", sure(0.2, 0.1, -0.3), [0.01, 0.2, 0.04])
    assert (found.condorcet, found.reason) == (None, "no ranker surely beats all others")
    assert found.copeland == (2, -2, 0)
    assert standing("ABC", sure(0.2, 0.1, -0.3), [0.01, 0.05, None]).condorcet == "A"
    assert standing("ABC", sure(0.2, -0.1, -0.3), [0.2, 0.01, 0.05]).condorcet == "C"


def test_without_a_condorcet_winner_there_is_a_reason() -> None:
    around = standing("ABC", sure(0.2, -0.1, 0.3), [0.01] * 3)
    assert (around.condorcet, around.cycles, around.copeland) == (None, (("A", "B", "C"),), (0, 0, 0))
    assert around.reason == "no ranker surely beats all others"
    unknown = standing("ABC", sure(0.2, None, 0.3), [0.01, None, 0.01])
    assert unknown.condorcet is None
    assert unknown.reason == "there is no estimate of 'A' against 'C'"
    assert standing("AB", sure(0.0), [1.0]).copeland == (0, 0)
    with pytest.raises(DataError, match="3 rankers make 3 pairs"):
        standing("ABC", sure(0.1), [0.2])


def beats_of(*won: str) -> Array:
    names = sorted({name for pair in won for name in pair})
    beats = np.zeros((len(names), len(names)), bool)
    for pair in won:
        beats[names.index(pair[0]), names.index(pair[1])] = True
    return beats


@given(st.integers(3, 6), st.randoms(use_true_random=False))
def test_all_cycles_of_three_are_named_once(count: int, chance: object) -> None:
    beats = np.zeros((count, count), bool)
    for i, j in combinations(range(count), 2):
        winner = chance.choice([(i, j), (j, i), None])  # type: ignore[attr-defined]
        if winner:
            beats[winner] = True
    names = "ABCDEF"[:count]
    brute = {
        tuple(names[x] for x in some)
        for some in permutations(range(count), 3)
        if min(some) == some[0] and all(beats[some[x], some[(x + 1) % 3]] for x in range(3))
    }
    found = cycles(names, beats)
    if brute:
        assert set(found) == brute
        assert len(found) == len(brute)
    for cycle in found:
        steps = zip(cycle, (*cycle[1:], cycle[0]), strict=True)
        assert all(beats[names.index(one), names.index(other)] for one, other in steps)
        assert cycle[0] == min(cycle)


def test_longer_cycles_are_named_where_none_is_of_three() -> None:
    assert cycles("ABCD", beats_of("AC", "CB", "BD", "DA")) == (("A", "C", "B", "D"),)
    assert cycles("ABCD", beats_of("AB", "AC", "AD", "BC", "BD", "CD")) == ()


def test_strengths_are_the_log_odds_of_two() -> None:
    found = strengths("AB", np.array([0.2]), impressions=50)  # 30 to 20
    assert found.values == pytest.approx((math.log(1.5) / 2, -math.log(1.5) / 2))


def test_strengths_are_found_again_where_the_model_holds() -> None:
    truth = np.array([1.2, 0.3, -0.4, -1.1])
    wins = 100 / (1 + np.exp(truth - truth[:, None]))
    np.fill_diagonal(wins, 0)
    assert bradley_terry(wins) == pytest.approx(truth)
    assert bradley_terry(np.stack([wins, wins.T])) == pytest.approx(np.stack([truth, -truth]))


def test_strengths_maximise_the_likelihood() -> None:
    wins = np.random.default_rng(1).integers(1, 30, (5, 5)).astype(float)
    np.fill_diagonal(wins, 0)
    wins[0, 1] = wins[1, 0] = 0  # they never met

    def loss(strength: Array) -> float:
        return float((wins * np.log1p(np.exp(strength - strength[:, None]))).sum() + strength.sum() ** 2)

    assert bradley_terry(wins) == pytest.approx(minimize(loss, np.zeros(5), tol=1e-10).x, abs=1e-4)


def test_what_no_strength_fits_is_named() -> None:
    assert separation("ABC", np.array([[0, 2, 1], [0, 0, 3], [0, 1, 0]])) == (
        "no strength fits: 'A' never lost to the others"
    )
    apart = np.zeros((4, 4))
    apart[[0, 1, 2, 3], [1, 0, 3, 2]] = 1
    assert separation("ABCD", apart) == "no strength fits: 'A', 'B' never met the others"
    assert strengths("AB", np.array([1.0]), 50).reason == "no strength fits: 'A' never lost to the others"
    assert strengths("AB", np.array([0.1]), 0).reason == "no impression with an event"
    share = 1 - 0.5 / 50  # of other scores than signs: half an impression from everything
    found = strengths("AB", np.array([1.7]), 50, signs=False).values
    assert found is not None
    assert found[0] - found[1] == pytest.approx(math.log(share / (1 - share)))
    with pytest.raises(DataError, match="one value per pair"):
        strengths("ABC", np.array([0.1]), 50)


def test_intervals_of_strengths_come_from_the_very_same_resamples() -> None:
    signs = np.sign(SUMS) * COUNTS[:, None] * 0.4
    means, values = resample(signs, COUNTS, 300), signs.sum(axis=0) / COUNTS.sum()
    found = strengths("ABCD", values, int(COUNTS.sum()), means, confidence=0.9)
    one_by_one = np.array([strengths("ABCD", row, int(COUNTS.sum())).values for row in means])
    ordered = np.sort(one_by_one, axis=0)
    assert found.intervals is not None
    assert np.array(found.intervals) == pytest.approx(np.stack([ordered[14], ordered[285]], axis=1), abs=1e-8)
    assert found.values == pytest.approx(bradley_terry((1 + matrix(values)) / 2 - np.eye(4) / 2), abs=1e-8)


def test_one_sided_resamples_still_have_strengths() -> None:
    means = np.random.default_rng(5).choice([-1.0, 1.0, 0.999999, 0.0], (200, 6))
    found = strengths("ABCD", np.array([0.1] * 6), 10_000_000, means)
    assert found.intervals is not None
    assert np.isfinite(found.intervals).all()
    assert max(high for _, high in found.intervals) > 3


def share_test(hits: Array, totals: Array, expected: float) -> Share:
    """The test of one share."""
    return share_tests(hits, totals, expected)[0]


def test_a_share_is_tested_as_a_binomial_with_a_design_effect() -> None:
    hits, totals = np.array([3, 0, 4, 5, 1, 6, 2, 5] * 5), np.array([4, 3, 4, 8, 4, 6, 8, 5] * 5)
    share, total = hits.sum() / totals.sum(), totals.sum()
    error = sum(((h - share * t) / (total - t)) ** 2 for h, t in zip(hits, totals, strict=True))
    design = max(1.0, error / (share * (1 - share) / total))
    statistic = abs(share - 0.5) / math.sqrt(0.25 * design / total)
    found = share_test(hits, totals, 0.5)
    assert found.share == pytest.approx(share)
    assert found.p_value == pytest.approx(2 * student.sf(statistic, total**2 / (totals**2).sum() - 1))
    assert design > 1
    cells = share_tests(np.stack([hits, totals - hits], axis=1), totals, np.array([0.5, 0.5]))
    assert cells[0] == found
    assert cells[1].p_value == pytest.approx(found.p_value)


def test_shares_beyond_doubt_and_shares_without_evidence() -> None:
    many = np.full(200, 5)
    assert share_test(0 * many, many, 0.5).p_value < 1e-9  # type: ignore[operator]
    assert share_test(many, many, 0.5).p_value < 1e-9  # type: ignore[operator]
    assert share_test(many * 0.4, many, 0.4).p_value == 1.0  # no bucket deviates at all
    assert share_test(many * 0.2, many, 0.4).p_value < 1e-9  # type: ignore[operator]
    assert share_test(0 * many, 0 * many, 0.5).share is None
    assert share_test(np.array([3]), np.array([4]), 0.5).p_value is None
    assert share_test(many, many, 0.01).reason.startswith("too few units: this test needs 500 effective units")
    for hits, expected in ((2 * many, 0.5), (-many, 0.5), (many, 1.0)):
        with pytest.raises(DataError, match="between 0"):
            share_test(hits, many, expected)
