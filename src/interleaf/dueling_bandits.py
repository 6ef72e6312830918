"""Dueling bandits: which rankers to compare next, so that people see few lists of rankers that lose.

Each algorithm is a pure function of the wins so far and of random draws. `wins[row, i, j]` counts the comparisons that
ranker i has won against ranker j; a tie counts half for both, or not at all. The diagonal counts the impressions for
which one ranker was shown alone. Rows are independent of each other: they are repeats of a simulation, or several
choices from the same wins.

MergeDTS (L20) is double Thompson sampling in small batches of rankers, for more rankers than can all be compared. The
rankers are shuffled into batches, which take turns. A ranker that surely loses to another one of its batch is dropped.
A batch with a single ranker joins the next batch. When half of the rankers are left, then a quarter and so on, small
batches join large ones.

An algorithm of the table is called in the same way whether it needs a state or not:

    state = algorithm.start(rows, rankers, generator)
    pairs, state = algorithm.choose(state, wins, generator)

The same wins, state and seed of the generator give the same pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array

ALPHA = 0.51  # of Wu & Liu: regret is proved for more than 1/2


def confidence_bounds(wins: Array, alpha: float, times: Array) -> tuple[Array, Array]:
    """Bounds `[row, i, j]` of the probability that i beats j: W_ij / N_ij -+ sqrt(alpha log t / N_ij), N = W_ij + W_ji.

    They are 0 and 1 for rankers that were never compared, and 1/2 for a ranker against itself. `times[row]` is t.

    >>> lower, upper = confidence_bounds(np.array([[[0.0, 6.0], [2.0, 0.0]]]), 0.51, np.array([8.0]))
    >>> lower[0, 0, 1].round(3), upper[0, 0, 1].round(3)
    (np.float64(0.386), np.float64(1.114))
    """
    compared = wins + wins.swapaxes(1, 2)
    is_compared = compared > 0
    means = np.divide(wins, compared, out=np.zeros(wins.shape), where=is_compared)
    widths = (alpha * np.log(np.maximum(times, 1)))[:, None, None]
    radii = np.sqrt(np.divide(widths, compared, out=np.zeros(wins.shape), where=is_compared))
    lower, upper = means - radii, np.where(is_compared, means + radii, 1.0)
    itself = np.arange(wins.shape[1])
    lower[:, itself, itself] = upper[:, itself, itself] = 0.5
    return lower, upper


def draw_chances(wins: Array, needed: Array, generator: np.random.Generator) -> Array:
    """Draws `[row, i, j]` of the probability that i beats j, from Beta(1 + W_ij, 1 + W_ji).

    `needed[row, i, j]` says which pairs are drawn, and is symmetric. All others are 1/2. Both
    directions of a pair are one draw: theta_ji = 1 - theta_ij.
    """
    chances = np.full(wins.shape, 0.5)
    row, i, j = np.nonzero(np.triu(needed, 1))
    draws = generator.beta(1 + wins[row, i, j], 1 + wins[row, j, i])
    chances[row, i, j], chances[row, j, i] = draws, 1 - draws
    return chances


def pick_largest(values: Array, generator: np.random.Generator) -> Array:
    """The position of the largest value of each row, one of them by chance if several are equal.

    >>> pick_largest(np.array([[1, 5, 2], [0, 3, 9]]), np.random.default_rng(1))
    array([1, 2])
    """
    is_largest = values == values.max(axis=1, keepdims=True)
    return np.asarray(np.where(is_largest, generator.random(values.shape), -1.0).argmax(axis=1))


def choose_double_thompson(wins: Array, generator: np.random.Generator, alpha: float = ALPHA) -> Array:
    """Two rankers `[row, 2]` by double Thompson sampling (W16); the same one twice means to show it alone.

    The first is one that may beat the most others by its upper bounds, and beats the most others in a draw of all
    probabilities. The second has the largest drawn probability to beat the first, among those whose lower bound allows
    that they lose to it. In the bounds, t is the sum of all wins, which is the number of impressions if ties count.

    >>> wins = np.array([[[0.0, 60.0, 80.0], [20.0, 0.0, 40.0], [10.0, 40.0, 0.0]]])
    >>> choose_double_thompson(wins, np.random.default_rng(1))
    array([[0, 0]])
    """
    rows, rankers = np.arange(len(wins)), np.arange(wins.shape[1])
    lower, upper = confidence_bounds(wins, alpha, wins.sum(axis=(1, 2)))
    scores = (upper > 0.5).sum(axis=2)
    candidates = scores == scores.max(axis=1, keepdims=True)
    needs_draw = candidates & (candidates.sum(axis=1) > 1)[:, None]  # a single candidate needs no draws
    beaten = (draw_chances(wins, needs_draw[:, :, None] | needs_draw[:, None, :], generator) > 0.5).sum(axis=2)
    first = pick_largest(np.where(candidates, beaten, -1), generator)
    allowed = (lower[rows, :, first] <= 0.5) & (rankers != first[:, None])
    row, ranker = np.nonzero(allowed)
    chances = np.full(allowed.shape, -1.0)
    chances[row, ranker] = generator.beta(1 + wins[row, ranker, first[row]], 1 + wins[row, first[row], ranker])
    chances[rows, first] = 0.5
    return np.stack([first, chances.argmax(axis=1)], axis=1)


def choose_self_sparring(wins: Array, generator: np.random.Generator, count: int = 2) -> Array:
    """`count` rankers `[row, count]` by Self-Sparring (S17); a ranker may be chosen several times.

    For each place, every ranker draws from Beta(1 + its wins, 1 + its losses), and the largest draw takes the place.
    """
    itself = np.diagonal(wins, axis1=1, axis2=2)
    won, lost = wins.sum(axis=2) - itself, wins.sum(axis=1) - itself
    draws = generator.beta(1 + won[:, None], 1 + lost[:, None], (len(wins), count, wins.shape[1]))
    return np.asarray(draws.argmax(axis=2))


def choose_at_random(wins: Array, generator: np.random.Generator) -> Array:
    """Two different rankers `[row, 2]`, each pair with the same probability, whatever the wins."""
    rankers = wins.shape[1]
    first = generator.integers(rankers, size=len(wins))
    return np.stack([first, (first + generator.integers(1, rankers, size=len(wins))) % rankers], axis=1)


class MergeSettings(NamedTuple):
    """`alpha` widens the bounds by which rankers are dropped, `offset` is added to t in them."""

    alpha: float
    batch_size: int
    offset: float


PRACTICAL_SETTINGS = MergeSettings(alpha=0.8**6, batch_size=16, offset=400_000)  # used in the experiments of L20


def proven_settings(rankers: int, alpha: float = 1.01, batch_size: int = 4, max_error: float = 0.01) -> MergeSettings:
    """The settings with which L20 proves its regret, but with probability `max_error`.

    The offset is ((4 alpha - 1) K^2 / ((2 alpha - 1) max_error))^(1 / (2 alpha - 1)) with K rankers.

    >>> round(proven_settings(20).offset)
    94798
    """
    if alpha <= 0.5 or not 0 < max_error < 1:
        problem = f"nothing is proved of alpha {alpha} and max_error {max_error}"
        raise DataError(f"{problem}; give an alpha above 0.5, and a probability between 0 and 1")
    exponent = 2 * alpha - 1
    return MergeSettings(alpha, batch_size, ((4 * alpha - 1) * rankers**2 / (exponent * max_error)) ** (1 / exponent))


class RankerBatches(NamedTuple):
    """The state of MergeDTS: `numbers[row, ranker]` is the number of its batch, from 0, or -1 if it was dropped.

    `stages[row]` counts from 1 how often batches were merged, and `times[row]` counts from 1 the choices since then.
    """

    numbers: Array
    stages: Array
    times: Array


def start_batches(rows: int, rankers: int, settings: MergeSettings, generator: np.random.Generator) -> RankerBatches:
    """All rankers in batches at random."""
    places = generator.permuted(np.tile(np.arange(rankers), (rows, 1)), axis=1)
    return RankerBatches(places // settings.batch_size, np.ones(rows, np.int64), np.ones(rows, np.int64))


def choose_merge_dts(
    batches: RankerBatches, wins: Array, generator: np.random.Generator, settings: MergeSettings
) -> tuple[Array, RankerBatches]:
    """Two rankers `[row, 2]` of the batch whose turn it is, and the batches after this choice.

    The first beats the most others of its batch in a draw of all probabilities. The second has the smallest drawn
    probability to beat the first, so that a ranker that loses is dropped soon. A ranker that is left alone is shown
    alone.
    """
    numbers, stages, times = batches
    numbers = numbers.copy()
    current = times % (numbers.max(axis=1) + 1)
    _, upper = confidence_bounds(wins, settings.alpha, times + settings.offset)
    members = numbers == current[:, None]
    loses = (members[:, :, None] & members[:, None, :] & (upper < 0.5)).any(axis=(1, 2))
    for row in np.flatnonzero(loses | (members.sum(axis=1) == 1)):
        current[row] = _drop_losers(numbers[row], int(current[row]), upper[row], generator)
    pairs = _choose_members(numbers == current[:, None], wins, generator)
    few = ((numbers >= 0).sum(axis=1) <= wins.shape[1] / 2.0**stages) & (numbers.max(axis=1) > 0)
    for row in np.flatnonzero(few):
        numbers[row] = _merge(numbers[row], 1.5 * settings.batch_size, generator)
    return pairs, RankerBatches(numbers, stages + few, np.where(few, 1, times + 1))


def _drop_losers(numbers: Array, current: int, upper: Array, generator: np.random.Generator) -> int:
    """Drop rankers of a batch one at a time, join it to the next if one is left; the number of the batch after that.

    Each loser against another one of the batch is dropped with the same probability.
    """
    while True:
        members = np.flatnonzero(numbers == current)
        if len(members) == 1 and numbers.max() > 0:
            following = (current + 1) % (numbers.max() + 1)
            numbers[members] = following
            numbers[numbers > current] -= 1
            current = following - (following > current)
            continue
        losers = members[(upper[np.ix_(members, members)] < 0.5).any(axis=1)]
        if not len(losers):
            return current
        numbers[generator.choice(losers)] = -1


def _choose_members(members: Array, wins: Array, generator: np.random.Generator) -> Array:
    """Two of the members of each row; one of them twice if there is no other."""
    rows = np.arange(len(wins))
    beaten = (draw_chances(wins, members[:, :, None] & members[:, None, :], generator) > 0.5).sum(axis=2)
    first = pick_largest(np.where(members, beaten, -1), generator)
    others = members.copy()
    others[rows, first] = False
    row, ranker = np.nonzero(others)
    chances = np.full(members.shape, 3.0)
    chances[row, ranker] = generator.beta(1 + wins[row, ranker, first[row]], 1 + wins[row, first[row], ranker])
    chances[rows, first] = 2.0  # above all probabilities
    return np.stack([first, chances.argmin(axis=1)], axis=1)


def _merge(numbers: Array, max_size: float, generator: np.random.Generator) -> Array:
    """New numbers: the smallest batch joins the largest, and so on, where both have at most `max_size` rankers."""
    sizes = np.bincount(numbers[numbers >= 0])
    left = np.lexsort((generator.random(len(sizes)), sizes)).tolist()
    merged, count = np.empty(len(sizes), np.int64), 0
    while left:
        large = left.pop()
        merged[large] = count
        if left and sizes[left[0]] + sizes[large] <= max_size:
            merged[left.pop(0)] = count
        count += 1
    return np.where(numbers < 0, -1, merged[numbers])


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
