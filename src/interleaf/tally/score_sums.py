"""What a tally is about, and sums of scores, wins and losses by bucket, from which all estimates are computed.

All sums are integers in units of 2^-24: a score is rounded once, and addition is exact in any order. Signs and whole
clicks are not rounded. If a scheme is linear in credit, there is a column per ranker, and pairs are differences of two
columns; if it is a sign, there is a column per pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from interleaf.decode.events import ONE as ONE
from interleaf.kernels.arrays import Array, pairs
from interleaf.kernels.buckets import BUCKETS
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.methods.schemes import TOLERANCE


@dataclass(frozen=True)
class About:
    """What a tally is about. Two tallies can be added if these fields are equal, except for the order of rankers.

    `composed` is the method of the interleaved lists, or `one_list` ('' if there are none). `method` is the method that
    scored them, '' if nothing was scored. `events` is empty if there is no comparison.
    `examination` is the given examination of the ranks from the top, empty if it is estimated. `values`: events count
    by their values. `guarded` are the kinds of events that guardrails can watch. `joined`: impressions less than this
    many seconds apart are joined to sessions of arms, but not scored together.
    """

    experiment: str
    version: int
    rankers: tuple[str, ...]
    composed: str
    method: str
    scheme: str
    events: str
    sessions: float | None
    linear: bool
    examination: tuple[float, ...] = ()
    values: bool = False
    guarded: tuple[str, ...] = ()
    joined: float | None = None

    @property
    def is_comparison(self) -> bool:
        """Whether rankers are compared, in interleaved lists or with the list of one ranker for each unit."""
        return bool(self.events)


_TOLERANCE = TOLERANCE


class ScoreSums(NamedTuple):
    """`impressions[bucket]`, and with an event `clicked[bucket]`; `sums[bucket, column]`; by pair: `squares`, `wins`,
    `losses`. `counted[0]`: impressions with an event of which it is known whom they favour.
    """

    impressions: Array
    clicked: Array
    sums: Array
    squares: Array
    wins: Array
    losses: Array
    counted: Array

    @classmethod
    def empty(cls, rankers: int, linear: bool) -> ScoreSums:
        pairs = rankers * (rankers - 1) // 2
        one, by_pair = np.zeros((2, BUCKETS), np.int64), np.zeros((3, pairs), np.int64)
        sums = np.zeros((BUCKETS, rankers if linear else pairs), np.int64)
        return cls(one[0], one[1], sums, by_pair[0], by_pair[1], by_pair[2], np.zeros(1, np.int64))

    def add(self, buckets: Array, clicked: Array, columns: Array, about: About, owners: Array | None = None) -> None:
        """Add rows: columns are credit by ranker, or scores by pair. Squares of values are too large to be added.

        Wins and losses are counted by the credit `owners[row, ranker]` if it is given; NaN: not known.
        """
        linear = about.linear
        _add(buckets, clicked, columns, linear, not about.values, self)
        _count_sides(clicked, *((columns, linear) if owners is None else (owners, True)), self)

    def reorder(self, order: Sequence[int], linear: bool) -> ScoreSums:
        """The same with ranker order[i] at index i; a pair whose order is reversed changes its sign."""
        places, signs = pair_order(order)
        wins, losses = self.wins[places], self.losses[places]
        return self._replace(
            sums=reordered_columns(self.sums, order, linear),
            squares=self.squares[places],
            wins=np.where(signs < 0, losses, wins),
            losses=np.where(signs < 0, wins, losses),
        )


def pair_order(order: Sequence[int]) -> tuple[Array, Array]:
    """The old index of each pair of reordered rankers, and its sign: -1 if the pair is reversed."""
    first, second = pairs(len(order))
    number = np.zeros((len(order), len(order)), np.int64)
    number[first, second] = number[second, first] = np.arange(len(first))
    one, other = np.asarray(order)[first], np.asarray(order)[second]
    return number[one, other], np.where(one > other, -1, 1)


def reordered_columns(sums: Array, order: Sequence[int], linear: bool) -> Array:
    """Columns by ranker or by pair, on the last axis, with ranker order[i] at index i."""
    if linear:
        return sums[..., list(order)]
    places, signs = pair_order(order)
    return sums[..., places] * signs


@kernel
def _add(buckets: Array, clicked: Array, columns: Array, linear: bool, with_squares: bool, into: ScoreSums) -> None:
    for row in range(len(buckets)):
        bucket = buckets[row]
        into.impressions[bucket] += 1
        if not clicked[row]:
            continue
        into.clicked[bucket] += 1
        for column in range(columns.shape[1]):
            into.sums[bucket, column] += fixed(columns[row, column])
        if not with_squares:
            continue
        if not linear:
            for pair in range(columns.shape[1]):
                into.squares[pair] += fixed(columns[row, pair] ** 2)
            continue
        pair = 0
        for one in range(columns.shape[1]):
            for other in range(one + 1, columns.shape[1]):
                into.squares[pair] += fixed((columns[row, one] - columns[row, other]) ** 2)
                pair += 1


@kernel
def _count_sides(clicked: Array, columns: Array, by_ranker: bool, into: ScoreSums) -> None:
    """Count wins and losses from credit by ranker or scores by pair; rows of NaN are left out."""
    for row in range(len(clicked)):
        if not clicked[row] or np.isnan(columns[row, 0]):
            continue
        into.counted[0] += 1
        if not by_ranker:
            for pair in range(columns.shape[1]):
                _count_side(pair, columns[row, pair], _TOLERANCE, into)
            continue
        pair = 0
        for one in range(columns.shape[1]):
            for other in range(one + 1, columns.shape[1]):
                least = _TOLERANCE * max(abs(columns[row, one]), abs(columns[row, other]))
                _count_side(pair, columns[row, one] - columns[row, other], least, into)
                pair += 1


@inline_kernel
def _count_side(pair: int, score: float, tolerance: float, into: ScoreSums) -> None:
    into.wins[pair] += score > tolerance
    into.losses[pair] += score < -tolerance


@inline_kernel
def fixed(number: float) -> int:
    """A number in units of 2^-24."""
    return int(np.rint(number * ONE))
