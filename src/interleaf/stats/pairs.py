"""The order of pairs, and the matrix they make: (0, 1), (0, 2), ..., (1, 2), ...: each ranker over those after it."""

from __future__ import annotations

import math

import numpy as np

from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.methods.arrays import pairs as pairs


def pair_sums(by_ranker: Array) -> Array:
    """Sums of pairs from sums of rankers, `[bucket, ranker]`: the scores of schemes that are linear in credit.

    >>> pair_sums(np.array([[3, 1, 0]]))
    array([[2, 3, 1]])
    """
    first, second = pairs(by_ranker.shape[1])
    sums: Array = by_ranker[:, first] - by_ranker[:, second]
    return sums


def matrix(values: Array) -> Array:
    """An antisymmetric matrix, or several, from values of pairs `[..., pair]`.

    >>> matrix(np.array([0.5, -0.25, 0.0]))
    array([[ 0.  ,  0.5 , -0.25],
           [-0.5 ,  0.  ,  0.  ],
           [ 0.25, -0.  ,  0.  ]])
    """
    values = np.asarray(values, np.float64)
    rankers = (1 + math.isqrt(1 + 8 * values.shape[-1])) // 2
    if rankers * (rankers - 1) // 2 != values.shape[-1]:
        raise DataError(f"{values.shape[-1]} values are not those of all pairs of some rankers; give 1, 3, 6, 10, ...")
    first, second = pairs(rankers)
    square = np.zeros((*values.shape[:-1], rankers, rankers))
    square[..., first, second], square[..., second, first] = values, -values
    return square
