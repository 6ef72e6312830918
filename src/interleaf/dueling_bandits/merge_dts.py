"""MergeDTS (L20): double Thompson sampling in small batches of rankers, for more rankers than can all be compared.

The rankers are shuffled into batches, which take turns. A ranker that surely loses to another one of its batch is
dropped. A batch with a single ranker joins the next batch. When half of the rankers are left, then a quarter and so on,
small batches join large ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from interleaf.dueling_bandits.estimates import confidence_bounds, draw_chances, pick_largest
from interleaf.errors import DataError
from interleaf.kernels.arrays import Array


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
