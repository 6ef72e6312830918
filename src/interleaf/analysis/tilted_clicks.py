"""Clicks of people who read from the top and may stop after a click, if the documents of one of two rankers are better.

While people read, they click a document at a rank with a chance that depends on the rank, and stop after it with
another. A document has a lean from -1 to 1: towards 1 the second ranker has it higher. A tilt multiplies the chance of
a click by exp(tilt * lean). If people look at a rank with some probability, and then the document appeals to them or
not, it is the appeal that is multiplied.

This is not a model of `clicks.fit`: its chances depend on the rank alone, because only the tilt may tell the documents
of the two rankers apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.simulate.people import side

MIN_CHANCE, MAX_CHANCE = 1e-9, 0.99  # chance of a click
ROUNDS = 50  # of EM


def leans_of(ranks: Array, counts: Array) -> Array:
    """The leans `[row, position]` of shown documents, from their ranks `[row, ranker, position]` in both rankings.

    A rank below the end of the list counts as the next one; below the end of the list, leans are 0.

    >>> leans_of(np.array([[[1, 3, 2], [2, 1, 0]]]), np.array([3]))
    array([[-0.33333333,  0.5       , -0.33333333]])
    """
    ends = counts[:, None, None]
    both = np.where((ranks > 0) & (ranks <= ends), ranks, ends + 1).astype(np.float64)
    return np.where(np.arange(ranks.shape[2]) < counts[:, None], side(both[:, 1], both[:, 0]), 0.0)


@dataclass(frozen=True, eq=False)
class RankedClicks:
    """For each rank, the chance of a click on a document that neither ranker puts higher, and of stopping after it."""

    chances: Array
    stops: Array

    @classmethod
    def of_pages(cls, clicks: Array, counts: Array) -> RankedClicks:
        """The most likely chances by these pages, `clicks[page, rank]`, which show so many documents each (EM).

        >>> people = RankedClicks.of_pages(np.array([[True, True], [False, True], [False, False]]), np.array([2, 2, 2]))
        >>> people.chances.round(2), people.stops.round(2)
        (array([0.33, 0.67]), array([0. , 0.5]))
        """
        longest = clicks.shape[1]
        there = np.arange(longest) < counts[:, None]
        last = np.where(clicks.any(axis=1), longest - 1 - clicks[:, ::-1].argmax(axis=1), -1)
        below = there & (np.arange(longest) > last[:, None])
        clicked, final = clicks.sum(axis=0), np.bincount(last + 1, minlength=longest + 1)[1:]
        chances, stops = clicked / np.maximum(there.sum(axis=0), 1), np.full(longest, 0.5)
        for _ in range(ROUNDS):
            none = np.where(below, 1 - np.minimum(chances, MAX_CHANCE), 1.0).prod(axis=1)  # no click below the last one
            stop = np.append(stops, 0.0)[last]  # nobody has stopped without a click
            stopped = stop / np.maximum(stop + (1 - stop) * none, MIN_CHANCE)
            read = np.where(below, 1 - stopped[:, None], there).sum(axis=0)
            chances = clicked / np.maximum(read, MIN_CHANCE)
            stops = np.bincount(last + 1, stopped, longest + 1)[1:] / np.maximum(clicked, 1)
        return cls(np.clip(chances, MIN_CHANCE, MAX_CHANCE), np.where(final > 0, stops, 0.0))

    @classmethod
    def of_rates(cls, rates: Sequence[float], k: int) -> RankedClicks:
        """Independent clicks at these rates; below the last given rank, they fall as 1 / rank.

        >>> RankedClicks.of_rates([0.4], 2).chances
        array([0.4, 0.2])
        """
        if not rates or not all(0 < rate < 1 for rate in rates):
            raise DataError(
                f"click rates are {list(rates)}; give a share between 0 and 1 for each rank, such as 0.3 0.2"
            )
        falling = [rates[-1] * len(rates) / rank for rank in range(len(rates) + 1, k + 1)]
        return cls(np.array([*rates, *falling])[:k], np.zeros(k))

    def draw(self, leans: Array, counts: Array, tilts: Array, chance: np.random.Generator) -> tuple[Array, Array]:
        """Clicks `[row, position]`, and how likely they are without a tilt, as a multiple; `tilts[row]` differ."""
        clicks, ratios, read = np.zeros(leans.shape, np.bool_), np.ones(len(leans)), np.ones(len(leans), np.bool_)
        for rank, plain in enumerate(self.chances):
            tilted = tilt(plain, tilts * leans[:, rank])
            read &= counts > rank
            clicked = read & (chance.random(len(leans)) < tilted)
            ratios *= np.where(clicked, plain / tilted, np.where(read, (1 - plain) / (1 - tilted), 1.0))
            clicks[:, rank] = clicked
            read &= ~(clicked & (chance.random(len(leans)) < self.stops[rank]))
        return clicks, ratios

    def expected(self, leans: Array, counts: Array, tilts: Array) -> Array:
        """The mean number of clicks on each list."""
        means, read = np.zeros(len(leans)), np.ones(len(leans))
        for rank, plain in enumerate(self.chances):
            clicked = np.where(counts > rank, read * tilt(plain, tilts * leans[:, rank]), 0.0)
            means += clicked
            read -= clicked * self.stops[rank]
        return means

    def surplus(self, clicks: Array, leans: Array, counts: Array, tilts: Array) -> tuple[Array, Array]:
        """The sum of the leans of clicks on each list above its expectation, and about what a tilt of 1 adds to it."""
        above, changes, read = np.zeros(len(leans)), np.zeros(len(leans)), np.ones(len(leans))
        for rank, plain in enumerate(self.chances):
            lean = leans[:, rank]
            tilted = tilt(plain, tilts * lean)
            above += np.where(counts > rank, (clicks[:, rank] - read * tilted) * lean, 0.0)
            changes += np.where(counts > rank, read * tilted * lean**2, 0.0)
            after = read * (1 - tilted) / (1 - read * tilted)  # who clicks nothing here may have stopped before
            read = np.where(clicks[:, rank], 1 - self.stops[rank], after)
        return above, changes


def tilt(chances: Array, logarithms: Array) -> Array:
    """Chances of clicks that are multiplied by the exponentials of these numbers, and stay below 1."""
    return np.asarray(np.minimum(chances * np.exp(logarithms), MAX_CHANCE))
