"""Sums for lift: the clicks that each ranker's own list would get, from clicks on interleaved lists.

The model of clicks is position-based: people examine rank r with probability theta_r, and a document that they examine
appeals to them or not. P(d, r) is the probability that the method puts document d at rank r, and rho(d) = sum over r of
P(d, r) theta_r its exposure. A click on d is worth theta(rank of d in ranker i) / rho(d) for ranker i. The expectation
of that sum is the number of clicks on ranker i's own list.

Examination is not known while a log is read, and the value is not linear in it. So the value is summed for five curves,
theta_r = r^-power, with its derivatives by log theta_r, from which `stats.lift` computes it for any other curve.
Examination itself follows from documents that chance puts at one of two neighbouring ranks: with weight 1 / P(d, r),
the clicks at both ranks are as theta.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from interleaf.decode import Decoded
from interleaf.kernels.arrays import Array, Impression
from interleaf.kernels.buckets import BUCKETS
from interleaf.kernels.jit import impression_at, inline_kernel
from interleaf.methods.loops import kernel_around
from interleaf.methods.registry import resolve
from interleaf.tally.bucket_sums import to_fixed_point

GROUPS = 64  # of users, for errors
MAX_RANKS = 20  # longer lists are not counted
POWERS = (0.0, 0.5, 1.0, 1.5, 2.0)
# Why a list is not counted: ranks of unshown documents are missing; it is longer than the examination that is given, or
# than `MAX_RANKS`; or the method cannot give it, or does not tell its probabilities.
LEFT_OUT = NO_RANKS, TOO_LONG, IMPOSSIBLE = "no_ranks", "too_long", "impossible"
_IMPOSSIBLE = LEFT_OUT.index(IMPOSSIBLE)


class ExposureSums(NamedTuple):
    """`lists[group]`: lists that are counted; `left_out[why]`: lists that are not, in the order of `LEFT_OUT`.

    `values[group, curve, ranker]`: values of clicks, and `slopes[.., rank]`: their derivatives by log examination.
    `moves[group, rank, which]`: clicks at a rank (0) and at the next one (1) on documents that can stand at both, each
    with the weight 1 / probability, and `clicks[rank, which]` without weights. `tops[ranker, rank, which]`, of lists
    with a click: those with a document of the ranker at the rank (0), and those that can show it (1). `ranked[curve,
    ranker, rank]`: the values of clicks on documents at a rank of the ranker.
    """

    lists: Array
    left_out: Array
    values: Array
    slopes: Array
    moves: Array
    clicks: Array
    tops: Array
    ranked: Array

    @classmethod
    def empty(cls, rankers: int, examination: Sequence[float] = ()) -> ExposureSums:
        shape = GROUPS, len(curves_of(examination)), rankers
        return cls(
            np.zeros(GROUPS, np.int64),
            np.zeros(len(LEFT_OUT), np.int64),
            np.zeros(shape, np.int64),
            np.zeros((*shape, MAX_RANKS), np.int64),
            np.zeros((GROUPS, MAX_RANKS, 2), np.int64),
            np.zeros((MAX_RANKS, 2), np.int64),
            np.zeros((rankers, MAX_RANKS, 2), np.int64),
            np.zeros((*shape[1:], MAX_RANKS), np.int64),
        )

    def add(self, buckets: Array, decoded: Decoded, examination: Sequence[float]) -> None:
        """Add lists of a method whose probabilities of places can be computed."""
        chosen = resolve(decoded.design.method)
        if chosen.method.kernels.place is None:
            return
        curves = curves_of(examination)
        longest = np.count_nonzero(curves[0])
        is_known = decoded.has["ranks"] & decoded.has["lengths"] & decoded.has["unshown_ranks"]
        is_short = (decoded.counts > 0) & (decoded.counts <= longest)
        usable = is_known & is_short
        self.left_out[LEFT_OUT.index(NO_RANKS)] += int((~is_known).sum())
        self.left_out[LEFT_OUT.index(TOO_LONG)] += int((is_known & ~is_short).sum())
        settings = chosen.method.kernels.settings((1,), chosen.parameters, False)
        groups = buckets // (BUCKETS // GROUPS)
        add_lists = _add_lists(chosen.method.kernels.place, chosen.method.drawn_by_unit)
        add_lists(decoded.impressions, decoded.counts, decoded.is_clicked, usable, groups, curves, self, settings)

    def reorder(self, order: list[int]) -> ExposureSums:
        """The same with ranker order[i] at index i."""
        values, slopes = self.values[:, :, order], self.slopes[:, :, order]
        return self._replace(values=values, slopes=slopes, tops=self.tops[order], ranked=self.ranked[:, order])


def curves_of(examination: Sequence[float]) -> Array:
    """`[curve, rank]`: the given examination of the ranks from the top, or powers of the rank if none is given."""
    if not examination:
        return np.asarray(np.arange(1.0, MAX_RANKS + 1) ** -np.array(POWERS)[:, None])
    curve = np.zeros((1, MAX_RANKS))
    curve[0, : len(examination)] = examination[:MAX_RANKS]
    return curve


@cache
def _add_lists(place: Any, checks_all: bool) -> Any:
    """A kernel that adds lists, around the kernel of a method that writes probabilities of places.

    `checks_all`: whether these are computed for lists without a click, too, because they are not always known.
    """

    def add_lists(
        lists: Impression,
        counts: Array,
        clicked: Array,
        usable: Array,
        groups: Array,
        curves: Array,
        into: Any,
        settings: Any,
    ) -> None:
        width = lists.ranks.shape[2]
        buffer = np.zeros((width + lists.unshown_ranks.shape[2], width))
        for row in range(len(counts)):
            count, is_known = counts[row], bool(usable[row])
            chances = buffer[:, :count]
            is_clicked = clicked[row, :count].any()
            if is_known and (is_clicked or checks_all):
                chances[:] = 0.0
                is_known = place(impression_at(lists, row, count), chances, settings)
                for position in range(count):  # a list that the method cannot give has no chance
                    is_known &= chances[position, position] > 0 or not clicked[row, position]
                if is_known and is_clicked:
                    _add_tops(lists, row, chances, into)
                    _add_moves(clicked[row], groups[row], chances, into)
                    _add_values(lists, row, clicked[row], groups[row], chances, curves, into)
            if is_known:
                into.lists[groups[row]] += 1
            elif usable[row]:
                into.left_out[_IMPOSSIBLE] += 1

    return kernel_around(place, add_lists)


@inline_kernel
def _add_tops(lists: Impression, row: int, chances: Array, into: Any) -> None:
    """Count the documents of each ranker's own list, and those that can be shown."""
    count = chances.shape[1]
    for document in range(count + lists.unshown_ranks.shape[2]):
        can_be_shown = False
        for position in range(count):
            can_be_shown |= chances[document, position] > 0
        for ranker in range(lists.ranks.shape[1]):
            if document < count:
                rank = lists.ranks[row, ranker, document]
            else:
                rank = lists.unshown_ranks[row, ranker, document - count]
            if 0 < rank <= count:
                into.tops[ranker, rank - 1, 0] += 1
                into.tops[ranker, rank - 1, 1] += can_be_shown


@inline_kernel
def _add_moves(clicked: Array, group: int, chances: Array, into: Any) -> None:
    """Add clicks on documents that can also stand at the next rank, or at the one above."""
    count = chances.shape[1]
    for position in range(count):
        if clicked[position]:
            weight = to_fixed_point(1 / chances[position, position])
            if position + 1 < count and chances[position, position + 1] > 0:
                into.moves[group, position, 0] += weight
                into.clicks[position, 0] += 1
            if position > 0 and chances[position, position - 1] > 0:
                into.moves[group, position - 1, 1] += weight
                into.clicks[position - 1, 1] += 1


@inline_kernel
def _add_values(
    lists: Impression, row: int, clicked: Array, group: int, chances: Array, curves: Array, into: Any
) -> None:
    """Add the values of clicks for each ranker, with their derivatives."""
    count = chances.shape[1]
    for position in range(count):
        for curve in range(len(curves) if clicked[position] else 0):
            theta, exposure = curves[curve], 0.0
            for other in range(count):
                exposure += chances[position, other] * theta[other]
            for ranker in range(lists.ranks.shape[1]):
                rank = lists.ranks[row, ranker, position]
                if 0 < rank <= count:
                    value = theta[rank - 1] / exposure
                    into.values[group, curve, ranker] += to_fixed_point(value)
                    into.ranked[curve, ranker, rank - 1] += to_fixed_point(value)
                    into.slopes[group, curve, ranker, rank - 1] += to_fixed_point(value)
                    for other in range(count):
                        share = chances[position, other] * theta[other] / exposure
                        into.slopes[group, curve, ranker, other] -= to_fixed_point(value * share)
