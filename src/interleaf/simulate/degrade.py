"""Rankers made worse on purpose, so that their order of quality is known: for trust studies and known losers.

C12 (section 4.2) builds two triplets from a ranking E: D swaps two documents of the top 5 with two of ranks 7 to 11, C
swaps four, the same on every later page; and A reorders the top 11 of a weaker ranking B at random.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.simulate.data import Judged
from interleaf.simulate.rankers import Ranker, generator_of, rank, scores_of

Degraded = Callable[[Judged], Array]
PAGE = 11


def shuffled_top(ranker: Ranker, count: int = PAGE, seed: Any = 0) -> Degraded:
    """The ranker with its first `count` documents in random order: C12's A, made from B."""

    def shuffle(ranking: Array, generator: np.random.Generator) -> Array:
        changed: Array = np.r_[generator.permutation(ranking[:count]), ranking[count:]]
        return changed

    return _degraded(ranker, shuffle, ("shuffled_top", count, seed))


def swapped(
    ranker: Ranker, swaps: int = 2, seed: Any = 0, *, top: int = 5, low: tuple[int, int] = (7, PAGE)
) -> Degraded:
    """The ranker with `swaps` documents of the top exchanged with as many of lower ranks, on every page alike.

    Two swaps make C12's D of its E, four make its C. Where a page is too short for a swap, it stays.
    """
    if not 1 <= swaps <= min(top, low[1] - low[0] + 1) or not top < low[0] <= low[1] <= PAGE:
        raise DataError(f"cannot swap {swaps} of the top {top} with ranks {low[0]} to {low[1]} of pages of {PAGE}")

    def swap(ranking: Array, generator: np.random.Generator) -> Array:
        above = generator.permutation(top)[:swaps]
        below = generator.permutation(np.arange(low[0] - 1, low[1]))[:swaps]
        changed = ranking.copy()
        for page in range(0, len(ranking), PAGE):
            for one, other in zip(page + above, page + below, strict=True):
                if other < len(ranking):
                    changed[[one, other]] = changed[[other, one]]
        return changed

    return _degraded(ranker, swap, ("swapped", swaps, top, *low, seed))


def at_random(seed: Any = 0) -> Degraded:
    """No ranker at all: every order is equally likely."""
    return lambda data: generator_of(("at_random", seed)).random(len(data.grades))


def _degraded(ranker: Ranker, change: Callable[[Array, np.random.Generator], Array], key: tuple[Any, ...]) -> Degraded:
    """Scores that give the changed ranking of each query."""

    def scores(data: Judged) -> Array:
        rankings = rank(data, [scores_of(data, ranker)], key)[:, 0]
        generator, changed = generator_of(key), np.empty(len(data.grades))
        for query in range(len(data)):
            start, stop = data.offsets[query], data.offsets[query + 1]
            order = change(rankings[query, : stop - start], generator)
            changed[start + order] = -np.arange(stop - start, dtype=np.float64)
        return changed

    return scores
