"""Double Thompson sampling, Self-Sparring and random pairs: the distribution of what they choose is the exact one."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from interleaf.dueling_bandits import (
    choose_at_random,
    choose_double_thompson,
    choose_self_sparring,
    confidence_bounds,
    draw_chances,
    pick_largest,
)
from interleaf.kernels.arrays import Array
from tests.oracles import dueling_bandits as oracle
from tests.support.frequencies import check_frequencies

ROWS = 40_000
NOTHING = [[0, 0, 0], [0, 0, 0], [0, 0, 0]]
EVEN = [[0, 2, 3], [2, 0, 1], [3, 1, 0]]
LEADER = [[9, 6, 5], [2, 0, 3], [1, 2, 4]]
SURE = [[0, 30, 28], [2, 0, 9], [3, 8, 0]]
CYCLE = [[0, 20, 2], [2, 0, 20], [20, 2, 0]]
FOUR = [[0, 3, 1, 0], [1, 0, 2, 2], [2, 0, 3, 1], [0, 1, 1, 0]]
CASES = {"nothing": NOTHING, "even": EVEN, "leader": LEADER, "sure": SURE, "cycle": CYCLE, "four": FOUR}


def many(wins: oracle.Wins, rows: int = ROWS) -> Array:
    return np.tile(np.array(wins, np.float64), (rows, 1, 1))


@pytest.mark.parametrize("name", CASES)
def test_double_thompson_has_the_exact_distribution_of_pairs(name: str) -> None:
    pairs = choose_double_thompson(many(CASES[name]), np.random.default_rng(1))
    check_frequencies(map(tuple, pairs.tolist()), oracle.double_thompson(CASES[name]))


@pytest.mark.parametrize("alpha", [0.1, 0.51, 2.0])
def test_alpha_decides_who_may_be_chosen(alpha: float) -> None:
    pairs = choose_double_thompson(many(LEADER), np.random.default_rng(2), alpha)
    check_frequencies(map(tuple, pairs.tolist()), oracle.double_thompson(LEADER, alpha))


def test_the_second_ranker_never_surely_beats_the_first() -> None:
    """Each ranker of the cycle loses to one by all bounds; that one may not be chosen as the second."""
    cycle = [[0, 12, 4], [4, 0, 12], [12, 4, 0]]
    pairs = set(map(tuple, choose_double_thompson(many(cycle), np.random.default_rng(3), alpha=0.1).tolist()))
    assert pairs == {(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 0)}


def test_a_sure_winner_is_always_first() -> None:
    wins = [[0, 40, 40], [10, 0, 20], [10, 20, 0]]
    assert {i for i, _ in oracle.double_thompson(wins)} == {0}
    assert set(choose_double_thompson(many(wins), np.random.default_rng(4))[:, 0].tolist()) == {0}


@pytest.mark.parametrize("name", CASES)
def test_self_sparring_draws_every_place_from_the_exact_distribution(name: str) -> None:
    chosen = choose_self_sparring(many(CASES[name], 20_000), np.random.default_rng(5), count=2)
    single = oracle.self_sparring(CASES[name])
    joint = {(i, j): one * other for i, one in enumerate(single) for j, other in enumerate(single)}
    check_frequencies(map(tuple, chosen.tolist()), joint)
    assert choose_self_sparring(many(EVEN, 7), np.random.default_rng(5), count=5).shape == (7, 5)


def test_random_pairs_are_all_pairs_of_different_rankers_alike() -> None:
    pairs = choose_at_random(many(FOUR), np.random.default_rng(6))
    check_frequencies(map(tuple, pairs.tolist()), dict.fromkeys(permutations(range(4), 2), Fraction(1, 12)))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("time", [0.0, 1.0, 7.5, 1e6])
def test_bounds_are_those_of_the_paper(name: str, time: float) -> None:
    bounds = confidence_bounds(many(CASES[name], 1), 0.51, np.array([time]))
    for ours, theirs in zip(bounds, oracle.bounds(CASES[name], 0.51, time), strict=True):
        assert ours[0] == pytest.approx(np.array(theirs), abs=1e-12)


def test_draws_of_a_pair_are_one_draw_and_others_are_even() -> None:
    needed = np.array([[[False, True, False], [True, False, False], [False, False, False]]]).repeat(ROWS, axis=0)
    chances = draw_chances(many(LEADER), needed, np.random.default_rng(7))
    assert chances[:, 0, 1] + chances[:, 1, 0] == pytest.approx(1)
    assert set(chances[:, [0, 2], [2, 1]].ravel().tolist()) == {0.5}
    above = oracle.chance_above_half(6, 2)
    check_frequencies((chances[:, 0, 1] > 0.5).tolist(), {True: above, False: 1 - above})


def test_the_largest_is_picked_by_chance_among_equals() -> None:
    picked = pick_largest(np.tile([3, 7, 7, 1, 7], (ROWS, 1)), np.random.default_rng(8))
    check_frequencies(picked.tolist(), dict.fromkeys((1, 2, 4), Fraction(1, 3)))


def test_rows_do_not_depend_on_each_other() -> None:
    wins = np.concatenate([many(SURE, ROWS), many(FOUR, ROWS)[:, :3, :3]])
    pairs = choose_double_thompson(wins, np.random.default_rng(9))
    check_frequencies(map(tuple, pairs[:ROWS].tolist()), oracle.double_thompson(SURE))
    check_frequencies(map(tuple, pairs[ROWS:].tolist()), oracle.double_thompson([row[:3] for row in FOUR[:3]]))
