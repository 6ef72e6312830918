"""The arguments of every kernel: encoded rankings to compose from, and an impression to credit.

In a batch, the same records have one more leading axis.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Lengths = Array | tuple[int, ...]
Record = TypeVar("Record", bound="EncodedRankings | Impression")


class EncodedRankings(NamedTuple):
    """Rankings with documents as numbers: `rankings[ranker, rank]`, of which `depths[ranker]` are there."""

    rankings: Array
    depths: Array
    documents: Any


class Impression(NamedTuple):
    """All that credit needs: `ranks[ranker, position]` (1 = top, 0 = not ranked) and what a method asks for besides.

    `teams[position]` owns it (-1 nobody), `lengths[ranker]` and `union` size up the input rankings, and
    `choices[position]` is how many documents some ranker has at that rank or above.
    """

    ranks: Array
    teams: Array
    lengths: Array
    union: Any
    choices: Array


def pairs(rankers: int) -> tuple[Array, Array]:
    """The first and the second ranker of each pair: 0 with 1, 0 with 2, ..., 1 with 2, ...

    >>> pairs(3)
    (array([0, 0, 1]), array([1, 2, 2]))
    """
    first, second = np.triu_indices(rankers, 1)
    return first, second


def exactly(record: Record) -> Record:
    """The record with Python's integers in place of numpy's, which overflow inside a fraction."""
    values = [value.astype(object) if isinstance(value, np.ndarray) else value for value in record]
    return type(record)(*values)
