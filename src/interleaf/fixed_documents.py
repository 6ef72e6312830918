"""Documents at fixed ranks of a list, such as ads: they belong to no ranker, and clicks on them count for nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, TypeVar

import numpy as np

from interleaf.problem import Document, text_id

D = TypeVar("D", bound=Document)


def find_problems(fixed: object, k: int | None = None) -> list[str]:
    """What is wrong with documents at fixed ranks of a list of `k` documents, each problem with its remedy.

    >>> find_problems({1: "ad", 12: "ad"}, k=10)  # doctest: +NORMALIZE_WHITESPACE
    ["fixed holds 'ad' at rank 12, but k is 10; raise k, or leave the document out",
     "fixed holds 'ad' at rank 12 and at rank 1; give each document one rank"]
    """
    if not isinstance(fixed, Mapping):
        return [f"fixed is {fixed!r:.100}; give a mapping from rank to document, such as {{1: 'ad'}}"]
    problems, ranks = list[str](), dict[str, Any]()
    for rank, document in fixed.items():
        place = f"fixed holds {document!r:.100} at rank {rank!r:.100}"
        if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or rank < 1:
            problems.append(f"{place}; a rank is a whole number, and 1 is the top")
        elif k is not None and rank > k:
            problems.append(f"{place}, but k is {k}; raise k, or leave the document out")
        text = text_id(document)
        if text is None:
            problems.append(f"{place}; a document id is a text or a whole number")
        elif ranks.setdefault(text, rank) != rank:
            problems.append(f"{place} and at rank {ranks[text]}; give each document one rank")
    if not problems and k is not None and not count_free_ranks(k, fixed):
        problems.append(f"fixed takes all of the {k} ranks of the list; raise k, so that there are ranks to interleave")
    return problems


def count_free_ranks(size: int, fixed: Mapping[int, Any]) -> int:
    """How many of the first `size` ranks hold no fixed document."""
    return size - sum(rank <= size for rank in fixed) if fixed else size


def insert_fixed(documents: Sequence[D], fixed: Mapping[int, D]) -> Sequence[D]:
    """The list that people see: fixed documents at their ranks, the others at the free ranks in their order.

    The list has no gaps, so a fixed document whose rank is below the end of the list is left out.

    >>> insert_fixed(["a", "b"], {1: "ad", 3: "ad-2", 6: "ad-3"})
    ['ad', 'a', 'ad-2', 'b']
    """
    if not fixed:
        return documents
    whole, rest = list[D](), iter(documents)
    for rank in count(1):
        try:
            whole.append(fixed[rank] if rank in fixed else next(rest))
        except StopIteration:
            break
    return whole


def shift_rank(rank: int, fixed: Mapping[int, Any]) -> int | None:
    """A rank of the list that people see as a rank of the list without fixed documents; None for a fixed document.

    >>> [shift_rank(rank, {1: "ad", 3: "ad-2"}) for rank in (1, 2, 3, 4)]
    [None, 1, None, 2]
    """
    return None if rank in fixed else int(rank) - sum(above < rank for above in fixed)
