"""MergeDTS: the exact distribution of pairs, drops, joined and merged batches, and when batches are merged."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from interleaf.dueling_bandits import (
    PRACTICAL_SETTINGS,
    MergeSettings,
    RankerBatches,
    choose_merge_dts,
    proven_settings,
    start_batches,
)
from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from tests.oracles import dueling_bandits as oracle
from tests.support.frequencies import check_frequencies

ROWS = 20_000
SETTINGS = MergeSettings(alpha=0.3, batch_size=4, offset=10)
LATE = 9  # a stage in which so few rankers are asked for that nothing is merged


def repeated(
    batches: oracle.Batches, rankers: int, stage: int = LATE, time: int = 1, rows: int = ROWS
) -> RankerBatches:
    """The same batches in every row; rankers in none of them were dropped."""
    numbers = np.full(rankers, -1)
    for number, members in enumerate(batches):
        numbers[list(members)] = number
    return RankerBatches(np.tile(numbers, (rows, 1)), np.full(rows, stage), np.full(rows, time))


def batches_of(state: RankerBatches) -> Iterator[oracle.Batches]:
    """The batches of each row, in the order of their numbers."""
    for numbers in state.numbers:
        yield tuple(tuple(np.flatnonzero(numbers == number).tolist()) for number in range(numbers.max() + 1))


def wins_of(rankers: int, *records: tuple[int, int, int, int]) -> list[list[int]]:
    """Wins from records (i, j, wins of i, wins of j)."""
    wins = [[0] * rankers for _ in range(rankers)]
    for i, j, won, lost in records:
        wins[i][j], wins[j][i] = won, lost
    return wins


def choose(state: RankerBatches, wins: oracle.Wins, seed: int = 1) -> tuple[Array, RankerBatches]:
    every = np.tile(np.array(wins, np.float64), (len(state.stages), 1, 1))
    return choose_merge_dts(state, every, np.random.default_rng(seed), SETTINGS)


@pytest.mark.parametrize("time", [1, 2, 3, 4])
def test_batches_take_turns_and_choose_by_the_exact_distribution(time: int) -> None:
    batches: oracle.Batches = ((0, 3), (1, 4, 5), (2, 6, 7, 8))
    wins = wins_of(9, (0, 3, 4, 2), (1, 4, 3, 1), (4, 5, 2, 2), (1, 5, 0, 1), (2, 6, 3, 1), (6, 7, 1, 1), (0, 1, 99, 0))
    pairs, after = choose(repeated(batches, 9, time=time), wins)
    check_frequencies(map(tuple, pairs.tolist()), oracle.merge_pair(wins, batches[time % 3]))
    assert set(batches_of(after)) == {batches}
    assert set(after.times.tolist()) == {time + 1}


PRUNED = {
    "one loser": (((0, 1, 2), (3, 4)), [(0, 1, 30, 2)]),
    "two losers of one winner": (((0, 1, 2), (3, 4)), [(0, 1, 30, 2), (0, 2, 28, 3)]),
    "a cycle": (((0, 1, 2, 5), (3, 4)), [(0, 1, 30, 2), (1, 2, 30, 2), (2, 0, 30, 2)]),
    "a cycle alone, and a join": (((0, 1, 2), (3, 4)), [(0, 1, 30, 2), (1, 2, 30, 2), (2, 0, 30, 2), (0, 3, 30, 1)]),
    "a single ranker": (((0,), (1, 2), (3, 4)), []),
    "a single ranker that loses": (((0,), (1, 2), (3, 4)), [(0, 1, 1, 40)]),
    "all in one batch": (((0, 1),), [(0, 1, 1, 40)]),
    "the last of all": (((2,),), []),
    "losers in other batches stay": (((0, 1), (2, 3)), [(2, 3, 1, 40), (0, 2, 50, 0)]),
}


@pytest.mark.parametrize("name", PRUNED)
@pytest.mark.parametrize("turn", [0, 1, 2])
def test_drops_and_joins_have_the_exact_distribution(name: str, turn: int) -> None:
    batches, records = PRUNED[name]
    current, wins = turn % len(batches), wins_of(6, *records)
    state = repeated(batches, 6, time=current + 6 * len(batches), rows=4000)
    upper = oracle.bounds(wins, SETTINGS.alpha, current + 6 * len(batches) + SETTINGS.offset)[1]
    outcomes = oracle.prune(batches, current, upper)
    pairs, after = choose(state, wins)
    expected: dict[oracle.Batches, Fraction] = {}
    for (left, _), chance in outcomes.items():
        expected[left] = expected.get(left, Fraction(0)) + chance
    check_frequencies(batches_of(after), expected)
    members = {left: set(left[number]) for left, number in outcomes}
    for left, pair in zip(batches_of(after), pairs.tolist(), strict=True):
        assert set(pair) <= members[left]


def test_pairs_come_from_the_batch_after_drops_and_joins() -> None:
    batches: oracle.Batches = ((0, 1), (2, 3), (4, 5))
    wins = wins_of(6, (0, 1, 30, 1), (0, 2, 2, 3), (2, 3, 1, 0))
    pairs, _ = choose(repeated(batches, 6, time=3), wins)
    check_frequencies(map(tuple, pairs.tolist()), oracle.merge_pair(wins, (0, 2, 3)))


@pytest.mark.parametrize(
    "batches",
    [
        ((0, 1, 2, 3), (4,), (5, 6)),
        ((0, 1), (2, 3), (4, 5)),
        ((0, 1, 2, 3), (4, 5, 6), (7, 8, 9, 10)),
        ((0, 1, 2), (3, 4, 5), (6,), (7, 8)),
    ],
)
def test_merged_batches_have_the_exact_distribution(batches: oracle.Batches) -> None:
    """Nothing was compared, so nobody is dropped; the batch of the turn has several rankers, so it is not joined."""
    turn = next(number for number, members in enumerate(batches) if len(members) > 1)
    state = repeated(batches, 40, stage=1, time=turn + len(batches), rows=8000)
    _, after = choose(state, wins_of(40))
    check_frequencies(map(frozenset, batches_of(after)), oracle.merge(batches, 1.5 * SETTINGS.batch_size))
    assert set(after.stages.tolist()) == {2}
    assert set(after.times.tolist()) == {1}


@pytest.mark.parametrize(
    ("rankers", "stage", "is_merged"), [(8, 1, True), (7, 1, False), (16, 2, True), (15, 2, False), (16, 1, True)]
)
def test_batches_are_merged_when_a_power_of_a_half_is_left(rankers: int, stage: int, is_merged: bool) -> None:
    state = repeated(((0, 1), (2, 3)), rankers, stage, time=7, rows=3)
    _, after = choose(state, wins_of(rankers))
    assert set(batches_of(after)) == ({((0, 1, 2, 3),)} if is_merged else {((0, 1), (2, 3))})
    assert after.stages.tolist() == [stage + is_merged] * 3
    assert after.times.tolist() == [1 if is_merged else 8] * 3


def test_the_bounds_use_the_choices_since_the_last_merge_and_the_offset() -> None:
    """The upper bound of a ranker with 9 of 30 wins reaches 1/2 when t + offset is exp(30 * .2^2 / alpha)."""
    wins, limit = wins_of(3, (0, 1, 21, 9)), np.exp(30 * 0.2**2 / SETTINGS.alpha)
    before, after = int(limit - SETTINGS.offset), int(limit - SETTINGS.offset) + 1
    assert set(batches_of(choose(repeated(((0, 1, 2),), 3, time=before, rows=2), wins)[1])) == {((0, 2),)}
    assert set(batches_of(choose(repeated(((0, 1, 2),), 3, time=after, rows=2), wins)[1])) == {((0, 1, 2),)}


def test_a_state_is_not_changed_by_a_choice() -> None:
    state = repeated(((0, 1, 2), (3, 4)), 5, time=2, rows=2)
    before = state.numbers.copy()
    choose(state, wins_of(5, (0, 1, 30, 2)))
    assert (state.numbers == before).all()


def test_all_rankers_start_in_batches_at_random() -> None:
    state = start_batches(ROWS, 5, MergeSettings(0.3, 2, 10), np.random.default_rng(1))
    assert np.sort(state.numbers, axis=1).tolist() == [[0, 0, 1, 1, 2]] * ROWS
    alone = [members[0] for *_, members in batches_of(state)]
    check_frequencies(alone, dict.fromkeys(range(5), Fraction(1, 5)))
    together = (state.numbers[:, 0] == state.numbers[:, 1]).tolist()
    check_frequencies(together, {True: Fraction(1, 5), False: Fraction(4, 5)})
    assert set(state.stages.tolist()) == set(state.times.tolist()) == {1}


def test_settings_are_those_of_the_paper() -> None:
    assert MergeSettings(0.8**6, 16, 400_000) == PRACTICAL_SETTINGS
    settings = proven_settings(20, max_error=0.05)
    assert settings[:2] == (1.01, 4)
    assert settings.offset**1.02 == pytest.approx(3.04 * 400 / (1.02 * 0.05))
    for alpha, max_error in ((0.5, 0.01), (1.01, 0.0), (1.01, 1.0)):
        with pytest.raises(DataError, match="give an alpha above"):
            proven_settings(20, alpha, max_error=max_error)
