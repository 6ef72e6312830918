"""The argument types of kernels: encoded rankings to compose a list from, and an impression to credit.

In a batch, the same records have one more leading axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Lengths = Array | tuple[int, ...]
Parameters = Mapping[str, Any]  # of a method, by name
Record = TypeVar("Record", bound="EncodedRankings | Impression")


class EncodedRankings(NamedTuple):
    """Rankings with documents as numbers: `rankings[ranker, rank]`; only the first `depths[ranker]` are valid."""

    rankings: Array
    depths: Array
    documents: Any


class Impression(NamedTuple):
    """A shown list as credit needs it: `ranks[ranker, position]` is 1 at the top and 0 if the document is not ranked.

    `teams[position]` is the ranker that owns the position, -1 for nobody. `lengths[ranker]` is the number of documents
    of a ranking, and `union` that of all rankings together. `choices[position]` counts the documents that some ranker
    has at that rank or above. `unshown_ranks[ranker, document]` are the ranks of the documents that are not shown, but
    are as high in some ranking as the list is long; 0: not that high, and a column of zeros is padding. `words` are two
    words that seed lists drawn in addition to it, such as those of its key; 0 if there are none.
    """

    ranks: Array
    teams: Array
    lengths: Array
    union: Any
    choices: Array
    unshown_ranks: Array
    words: Array

    @classmethod
    def of(
        cls,
        ranks: Array,
        teams: Array,
        lengths: Array,
        union: Any,
        choices: Array,
        unshown_ranks: Array | None = None,
        words: Array | None = None,
    ) -> Impression:
        """An impression, or a batch of them, whose unshown ranks or key may be unknown."""
        if unshown_ranks is None:
            unshown_ranks = np.zeros((*ranks.shape[:-1], 0), np.int32)
        if words is None:
            words = np.zeros((*ranks.shape[:-2], 2), np.uint64)
        return cls(ranks, teams, lengths, union, choices, unshown_ranks, words)


class DrawnLists(NamedTuple):
    """Drawn lists: document numbers `shown[row, position]`, their teams, and the length `counts[row]` of each list."""

    shown: Array
    teams: Array
    counts: Array


def pairs(rankers: int) -> tuple[Array, Array]:
    """The first and the second ranker of each pair: 0 with 1, 0 with 2, ..., 1 with 2, ...

    >>> pairs(3)
    (array([0, 0, 1]), array([1, 2, 2]))
    """
    first, second = np.triu_indices(rankers, 1)
    return first, second


def exactly(record: Record) -> Record:
    """The record with Python's integers instead of numpy's, which overflow in fractions."""
    values = [value.astype(object) if isinstance(value, np.ndarray) else value for value in record]
    return type(record)(*values)
