"""The table of algorithms, and the pairs of rankers for an epoch, in which nothing is learned.

An algorithm is called in the same way whether it needs a state or not:

    state = algorithm.start(rows, rankers, generator)
    pairs, state = algorithm.choose(state, wins, generator)

The same wins, state and seed of the generator give the same pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from interleaf.dueling_bandits.merge_dts import (
    PRACTICAL_SETTINGS,
    MergeSettings,
    choose_merge_dts,
    proven_settings,
    start_batches,
)
from interleaf.dueling_bandits.thompson import choose_at_random, choose_double_thompson, choose_self_sparring
from interleaf.kernels.arrays import Array

State = Any  # of an algorithm: None, or arrays with a row for each row of wins


@dataclass(frozen=True)
class DuelingBandit:
    """An algorithm: `start(rows, rankers, generator)` is its state before the first choice.

    `choose(state, wins, generator)` returns pairs of rankers `[row, 2]`, and the state for the next choice.
    """

    start: Callable[[int, int, np.random.Generator], State]
    choose: Callable[[State, Array, np.random.Generator], tuple[Array, State]]


def without_state(choose: Callable[[Array, np.random.Generator], Array]) -> DuelingBandit:
    """An algorithm that needs nothing but the wins."""
    return DuelingBandit(
        lambda rows, rankers, generator: None, lambda state, wins, generator: (choose(wins, generator), None)
    )


def merge_dts(settings_of: Callable[[int], MergeSettings]) -> DuelingBandit:
    """MergeDTS with the settings for a number of rankers."""
    return DuelingBandit(
        lambda rows, rankers, generator: start_batches(rows, rankers, settings_of(rankers), generator),
        lambda state, wins, generator: choose_merge_dts(state, wins, generator, settings_of(wins.shape[1])),
    )


ALGORITHMS = {
    "uniform_pairs": without_state(choose_at_random),
    "double_thompson": without_state(choose_double_thompson),
    "self_sparring": without_state(choose_self_sparring),
    "merge_dts": merge_dts(lambda rankers: PRACTICAL_SETTINGS),
    "merge_dts_proven": merge_dts(proven_settings),
}


def draw_epoch(
    algorithm: DuelingBandit, state: State, wins: Array, draws: int, generator: np.random.Generator
) -> tuple[Array, State]:
    """All pairs `[row, draw, 2]` of an epoch, drawn from the wins at its start; each has the same share of it.

    >>> pairs, _ = draw_epoch(ALGORITHMS["self_sparring"], None, np.zeros((1, 4, 4)), 3, np.random.default_rng(1))
    >>> pairs.shape
    (1, 3, 2)
    """
    pairs = np.empty((len(wins), draws, 2), np.int64)
    for draw in range(draws):
        pairs[:, draw], state = algorithm.choose(state, wins, generator)
    return pairs, state
