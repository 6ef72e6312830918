"""All algorithms of the table: pairs from the rankers, replays from a key, and epochs without learning."""

import numpy as np
import pytest

from interleaf.dueling_bandits import (
    ALGORITHMS,
    DuelingBandit,
    choose_double_thompson,
    choose_merge_dts,
    draw_epoch,
    proven_settings,
    start_batches,
)
from interleaf.kernels.arrays import Array
from interleaf.simulate.rankers import generator_of

RANKERS = 7


def play(algorithm: DuelingBandit, key: str, rows: int = 3, impressions: int = 300) -> Array:
    """The pairs `[impression, row, 2]` of a world in which the ranker with the smaller number is better."""
    generator = generator_of(key)
    wins, state = np.zeros((rows, RANKERS, RANKERS)), algorithm.start(rows, RANKERS, generator)
    pairs, each = np.empty((impressions, rows, 2), np.int64), np.arange(rows)
    for impression in range(impressions):
        pairs[impression], state = algorithm.choose(state, wins, generator)
        first, second = pairs[impression].T
        wins[each, np.minimum(first, second), np.maximum(first, second)] += 1
    return pairs


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_same_key_gives_the_same_pairs(name: str) -> None:
    pairs = play(ALGORITHMS[name], "key")
    assert (pairs == play(ALGORITHMS[name], "key")).all()
    assert (pairs != play(ALGORITHMS[name], "other")).any()
    assert pairs.min() >= 0
    assert pairs.max() < RANKERS


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if not name.startswith(("uniform", "merge_dts_"))])
def test_the_best_ranker_is_shown_most_in_the_end(name: str) -> None:
    last = play(ALGORITHMS[name], "end", rows=8, impressions=2000)[-100:]
    assert (last == 0).mean() > 0.8


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_epoch_has_the_pairs_of_single_choices_from_the_same_wins(name: str) -> None:
    algorithm, wins = ALGORITHMS[name], np.triu(np.full((2, RANKERS, RANKERS), 3.0))
    generator = generator_of("epoch")
    pairs, after = draw_epoch(algorithm, algorithm.start(2, RANKERS, generator), wins, 5, generator)
    generator = generator_of("epoch")
    state = algorithm.start(2, RANKERS, generator)
    for draw in range(5):
        pair, state = algorithm.choose(state, wins, generator)
        assert (pairs[:, draw] == pair).all()
    assert str(after) == str(state)


def test_the_table_calls_the_functions_of_its_names() -> None:
    wins = np.triu(np.full((4, RANKERS, RANKERS), 3.0))
    pairs, state = ALGORITHMS["double_thompson"].choose(None, wins, generator_of("a"))
    assert (pairs == choose_double_thompson(wins, generator_of("a"))).all()
    assert state is None
    settings = proven_settings(RANKERS)
    state = ALGORITHMS["merge_dts_proven"].start(4, RANKERS, generator_of("b"))
    assert str(state) == str(start_batches(4, RANKERS, settings, generator_of("b")))
    pairs, _ = ALGORITHMS["merge_dts_proven"].choose(state, wins, generator_of("c"))
    assert (pairs == choose_merge_dts(state, wins, generator_of("c"), settings)[0]).all()
