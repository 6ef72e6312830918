"""A sort for kernels. Numba's own `np.argsort` and `np.sort` take more than a second to compile for each type."""

from __future__ import annotations

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import inline_kernel

_BLOCK = 64


@inline_kernel
def sort_descending(scores: Array, ties: Array, order: Array) -> None:
    """Fill `order` with the indices of `scores`: the largest score first; of equal scores, the smaller tie first.

    Insertion sort in blocks, which are then merged. Indices with equal score and tie keep their order.
    """
    count = len(scores)
    for index in range(count):
        score, tie, place, top = scores[index], ties[index], index, index - index % _BLOCK
        while place > top:
            above = order[place - 1]
            if scores[above] > score or (scores[above] == score and ties[above] <= tie):
                break
            order[place] = above
            place -= 1
        order[place] = index
    if count > _BLOCK:
        _merge_blocks(scores, ties, order)


@inline_kernel
def _is_before(scores: Array, ties: Array, one: int, other: int) -> bool:
    return bool(scores[one] > scores[other] or (scores[one] == scores[other] and ties[one] <= ties[other]))


@inline_kernel
def _merge_blocks(scores: Array, ties: Array, order: Array) -> None:
    """Merge neighbours, twice as long each time."""
    count, width = len(scores), _BLOCK
    merged = np.empty(count, np.int64)
    while width < count:
        left, right, middle, end = 0, 0, 0, 0
        for place in range(count):
            if place == end:
                left, middle, end = end, min(end + width, count), min(end + 2 * width, count)
                right = middle
            if right == end or (left < middle and _is_before(scores, ties, order[left], order[right])):
                merged[place] = order[left]
                left += 1
            else:
                merged[place] = order[right]
                right += 1
        for place in range(count):
            order[place] = merged[place]
        width *= 2
