"""A click model of the old log: how attractive each document is for its query, and how much each place is looked at.

    P(click | clicks above) = attraction(query, document) * attention(rank, 0, 1 or more clicks above)

with attention 1 on average over what was shown, fitted by making clicks and expected clicks agree, for every document
and every place in turn, until both do (iterative proportional fitting). Attraction is pulled to that of documents which
are ranked alike (`prior`), as if each had been looked at ATTRACTED more times; attention to 1, as if each place had
been shown ATTENDED more times. People who stop after a click, and people who go on, are both of this kind; that a good
document is left for the next one less often than a bad one, the model cannot say.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from interleaf.compiled import kernel, part
from interleaf.engines.groups import Groups
from interleaf.methods.arrays import Array
from interleaf.refine.reuse.prior import regressed

ATTRACTED, ATTENDED = 1.0, 10.0
STATES = 3  # no click above, one, or more
ROUNDS, TOLERANCE = 100, 1e-5
TINY = 1e-300  # of a group that holds all there is, nothing is left


class Cells(NamedTuple):
    """How often each entry was shown at each place to each group of units, and clicked.

    A place is a position and how many clicks were above it, `position * STATES + state`.
    """

    entry: Array
    place: Array
    group: Array
    shown: Array
    clicked: Array


class Models(NamedTuple):
    """Fitted models, a column each: `attraction[entry, model]` and `attention[place, model]`."""

    attraction: Array
    attention: Array


class Looked:
    """Cells while lists are read, of so many positions and groups; those of parts of a log make one."""

    def __init__(self, positions: int, groups: int) -> None:
        self._places, self._groups = positions * STATES, groups
        self._counts = Groups(1, ["sum", "sum"])

    def add(self, entries: Array, clicks: Array, groups: Array) -> None:
        """Count lists `entries[row, position]` in (-1: nothing to learn there)."""
        rows, positions = np.nonzero(entries >= 0)
        above = np.cumsum(clicks, axis=1, dtype=np.int64) - clicks
        places = positions * STATES + np.minimum(above[rows, positions], STATES - 1)
        numbers = (entries[rows, positions].astype(np.int64) * self._places + places) * self._groups + groups[rows]
        self._counts.add([numbers, np.ones(len(rows), np.int64), clicks[rows, positions].astype(np.int64)])

    def merge(self, other: Looked) -> None:
        """Count the cells of other lists in."""
        self._counts.merge(other._counts)

    @property
    def cells(self) -> Cells:
        """All of them, by entry, place and group."""
        numbers, shown, clicked = self._counts.columns
        place, group = numbers // self._groups % self._places, numbers % self._groups
        entry = numbers // self._groups // self._places
        return Cells(entry, place, group, shown.astype(np.float64), clicked.astype(np.float64))


def cells(entries: Array, clicks: Array, groups: Array, count: int) -> Cells:
    """The cells of lists; `count` groups."""
    looked = Looked(entries.shape[1], count)
    looked.add(entries, clicks, groups)
    return looked.cells


def fit(cells: Cells, about: Array, positions: int, groups: int) -> Models:
    """A model of all groups, and behind it one without each group, where there is more than one.

    `about[entry, feature]` is what `prior` learns from: first all documents are taken for average, then for what others
    like them are.

    >>> shown, clicks = np.array([[0, 1], [1, 0], [0, 1]]), np.array([[1, 0], [0, 1], [1, 0]])
    >>> fit(cells(shown, clicks, np.zeros(3, int), 1), np.zeros((3, 1)), 2, 1).attraction[:, 0].round(2)
    array([0.86, 0.13, 0.49])
    """
    models = 1 + groups if groups > 1 else 1
    found = Models(np.zeros((len(about), models)), np.ones((positions * STATES, models)))
    clicks, looks = np.zeros((2, *found.attraction.shape))
    mean = (cells.clicked.sum() + 0.5) / (cells.shown.sum() + 1)
    _fit(*cells, *found, np.full(clicks.shape, mean), clicks, looks, ROUNDS, TOLERANCE)
    _fit(*cells, *found, regressed(about, clicks, looks, ATTRACTED), clicks, looks, ROUNDS, TOLERANCE)
    return found


@kernel
def _fit(
    entry: Array,
    place: Array,
    group: Array,
    shown: Array,
    clicked: Array,
    attraction: Array,
    attention: Array,
    prior: Array,
    clicks: Array,
    looks: Array,
    rounds: int,
    tolerance: float,
) -> None:
    """All models side by side; model m > 0 does not see group m - 1. Clicks and looks are left by entry."""
    places, ones = len(attention), np.ones_like(attention)
    by_place, times = np.zeros((places, prior.shape[1])), np.zeros((places, prior.shape[1]))
    clicks[:] = 0.0
    for cell in range(len(entry)):
        _add(clicks, entry[cell], clicked[cell], ones, place[cell], group[cell])
        _add(by_place, place[cell], clicked[cell], ones, place[cell], group[cell])
        _add(times, place[cell], shown[cell], ones, place[cell], group[cell])
    mean = (by_place.sum(axis=0) + 0.5) / (times.sum(axis=0) + 1.0)
    expected = np.zeros_like(by_place)
    for _ in range(rounds):
        looks[:] = 0.0
        for cell in range(len(entry)):
            _add(looks, entry[cell], shown[cell], attention, place[cell], group[cell])
        attraction[:] = (clicks + ATTRACTED * prior) / (looks + ATTRACTED)
        expected[:] = 0.0
        for cell in range(len(entry)):
            _add(expected, place[cell], shown[cell], attraction, entry[cell], group[cell])
        expected[:] = (by_place + ATTENDED * mean) / (expected + ATTENDED * mean)
        expected *= times.sum(axis=0) / np.maximum((times * expected).sum(axis=0), TINY)
        moved = np.abs(expected - attention).max()
        attention[:] = expected
        if moved <= tolerance:
            break


@part
def _add(sums: Array, row: int, times: float, factors: Array, factor: int, group: int) -> None:
    """Add to all models, then take it back from the one without this group: so the loop is vectorised."""
    for model in range(sums.shape[1]):
        sums[row, model] += times * factors[factor, model]
    if sums.shape[1] > 1:
        sums[row, group + 1] -= times * factors[factor, group + 1]
