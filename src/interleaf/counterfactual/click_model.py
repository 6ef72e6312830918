"""A click model of the old log: how attractive each document is for its query, and how often each rank is examined.

P(click) = attraction(document, query) * attention(position, clicks above it)

It is not a model of `clicks.fit`, because it is fitted from counts, which Spark can add up, and without each group of
units in turn, for the jackknife.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from interleaf.counterfactual.list_outcomes import Scorer
from interleaf.execution.passes import Groups, MergeableSums
from interleaf.kernels.arrays import Array, Impression
from interleaf.kernels.jit import impression_at, inline_kernel, kernel
from interleaf.methods.probabilistic import ProbabilisticSettings, settings, write_posterior

RIDGE = 10.0  # ridge penalty on coefficients of standardised features
PRIOR_ROUNDS, PRIOR_TOLERANCE, MAX_STEP = 30, 1e-6, 1.0


def regress_attraction(features: Array, clicks: Array, looks: Array, strength: float) -> Array:
    """The expected attraction `[entry, model]`, from clicks and looks `[entry, model]`, by Newton's method.

    >>> about = np.array([[1.0], [1.0], [-1.0], [-1.0]]).repeat(100, axis=0)
    >>> clicks = np.array([[8.0], [8.0], [2.0], [2.0]]).repeat(100, axis=0)
    >>> regress_attraction(about, clicks, np.full((400, 1), 10.0), strength=1.0)[[0, -1], 0].round(2)
    array([0.78, 0.22])
    """
    design = np.column_stack([np.ones(len(features)), features])
    ridge = np.diag([0.0, *[RIDGE] * features.shape[1]])
    attraction, start = np.zeros(looks.shape), np.zeros(design.shape[1])
    for model in range(looks.shape[1]):
        clicked, looked = clicks[:, model], looks[:, model]
        start[0] = np.log((clicked.sum() + 0.5) / (looked.sum() + 1)) if model == 0 else start[0]
        start = _maximize(design, clicked, looked, ridge, strength, start)
        attraction[:, model] = np.minimum(np.exp(design @ start), 1.0)
    return attraction


def _maximize(design: Array, clicks: Array, looks: Array, ridge: Array, strength: float, start: Array) -> Array:
    """Maximize the penalized likelihood by Newton's method with bounded steps, since a log-linear rate can diverge."""
    certain, at = 1 / (1 + looks / strength), start
    for _ in range(PRIOR_ROUNDS):
        expected = looks * np.exp(np.minimum(design @ at, 1.0))
        slope = design.T @ (certain * (clicks - expected)) - ridge @ at
        curve = (design * (certain * expected)[:, None]).T @ design + ridge
        slope[0] += 0.5 - np.exp(at[0])  # half a click and one view more, so that the mean is defined without data
        curve[0, 0] += np.exp(at[0])
        step = np.clip(np.linalg.solve(curve, slope), -MAX_STEP, MAX_STEP)
        at = at + step
        if np.abs(step).max() <= PRIOR_TOLERANCE:
            break
    return at


ATTRACTED, ATTENDED = 1.0, 10.0
STATES = 3  # no click above, one click, or more
ROUNDS, TOLERANCE = 100, 1e-5
TINY = 1e-300  # avoids a division by 0 where one group holds all data


class ClickCells(NamedTuple):
    """How often each entry was shown and clicked, by place and group of units.

    A place is a position and how many clicks were above it, `position * STATES + state`.
    """

    entry: Array
    place: Array
    group: Array
    shown: Array
    clicked: Array


class ClickModels(NamedTuple):
    """Fitted models, a column each: `attraction[entry, model]` and `attention[place, model]`."""

    attraction: Array
    attention: Array


class CellCounts(MergeableSums):
    """Counts of the cells while lists are read."""

    merged = ("_counts",)

    def __init__(self, positions: int, groups: int) -> None:
        self._places, self._groups = positions * STATES, groups
        self._counts = Groups(1, ["sum", "sum"])

    def add(self, entries: Array, clicks: Array, groups: Array) -> None:
        """Add lists `entries[row, position]`; -1 is not counted."""
        rows, positions = np.nonzero(entries >= 0)
        above = np.cumsum(clicks, axis=1, dtype=np.int64) - clicks
        places = positions * STATES + np.minimum(above[rows, positions], STATES - 1)
        numbers = (entries[rows, positions].astype(np.int64) * self._places + places) * self._groups + groups[rows]
        self._counts.add([numbers, np.ones(len(rows), np.int64), clicks[rows, positions].astype(np.int64)])

    @property
    def cells(self) -> ClickCells:
        numbers, shown, clicked = self._counts.columns
        place, group = numbers // self._groups % self._places, numbers % self._groups
        entry = numbers // self._groups // self._places
        return ClickCells(entry, place, group, shown.astype(np.float64), clicked.astype(np.float64))


def cells(entries: Array, clicks: Array, groups: Array, count: int) -> ClickCells:
    """The cells of lists; `count` groups."""
    counts = CellCounts(entries.shape[1], count)
    counts.add(entries, clicks, groups)
    return counts.cells


def fit(cells: ClickCells, about: Array, positions: int, groups: int) -> ClickModels:
    """Fit a model to all groups, and if there are several, also one without each group.

    The prior of a document is first the mean attraction, then the mean of documents with similar `about[entry,
    feature]`.

    >>> shown, clicks = np.array([[0, 1], [1, 0], [0, 1]]), np.array([[1, 0], [0, 1], [1, 0]])
    >>> fit(cells(shown, clicks, np.zeros(3, int), 1), np.zeros((3, 1)), 2, 1).attraction[:, 0].round(2)
    array([0.86, 0.13, 0.49])
    """
    models = 1 + groups if groups > 1 else 1
    fitted = ClickModels(np.zeros((len(about), models)), np.ones((positions * STATES, models)))
    clicks, looks = np.zeros((2, *fitted.attraction.shape))
    mean = (cells.clicked.sum() + 0.5) / (cells.shown.sum() + 1)
    _fit(cells, fitted, np.full(clicks.shape, mean), clicks, looks)
    _fit(cells, fitted, regress_attraction(about, clicks, looks, ATTRACTED), clicks, looks)
    return fitted


@kernel
def _fit(cells: ClickCells, models: ClickModels, prior: Array, clicks: Array, looks: Array) -> None:
    """Fit all models at once; model m > 0 does not see group m - 1. Writes the clicks and looks of each entry, too."""
    entry, place, group, shown, clicked = cells
    attraction, attention = models
    places, ones = len(attention), np.ones_like(attention)
    by_place, times = np.zeros((places, prior.shape[1])), np.zeros((places, prior.shape[1]))
    clicks[:] = 0.0
    for cell in range(len(entry)):
        _add(clicks, entry[cell], clicked[cell], ones, place[cell], group[cell])
        _add(by_place, place[cell], clicked[cell], ones, place[cell], group[cell])
        _add(times, place[cell], shown[cell], ones, place[cell], group[cell])
    mean = (by_place.sum(axis=0) + 0.5) / (times.sum(axis=0) + 1.0)
    expected = np.zeros_like(by_place)
    for _ in range(ROUNDS):
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
        if moved <= TOLERANCE:
            break


@inline_kernel
def _add(sums: Array, row: int, times: float, factors: Array, factor: int, group: int) -> None:
    """Add to all models, then take it back from the one without this group: so the loop is vectorised."""
    for model in range(sums.shape[1]):
        sums[row, model] += times * factors[factor, model]
    if sums.shape[1] > 1:
        sums[row, group + 1] -= times * factors[factor, group + 1]


PART = 8192  # rows per task; the sums do not depend on the number of threads


class RankedLists(NamedTuple):
    """Lists with their ranks in the new rankings: `entries[row, position]`, and the group of each list's unit."""

    impressions: Impression
    entries: Array
    counts: Array
    groups: Array

    def only(self, rows: Array | slice) -> RankedLists:
        impressions = Impression(*(values[rows] for values in self.impressions))
        return RankedLists(impressions, *(values[rows] for values in self[1:]))


def add_foreseen(
    scorer: Scorer, lists: RankedLists, weights: Array, observed: Array, models: ClickModels, sums: Array
) -> None:
    """Add w (o - f) to `sums[model, group, column]`, where f is the score that each model expects."""
    longest = int(lists.impressions.lengths.max(initial=1))

    def work(rows: slice) -> Array:
        own = np.zeros_like(sums)
        kernel_settings = settings((longest,), scorer.chosen.parameters, False)
        _add_foreseen(scorer.linear, lists.only(rows), weights[rows], observed[rows], models, own, kernel_settings)
        return own

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for own in pool.map(work, [slice(start, start + PART) for start in range(0, len(weights), PART)]):
            sums += own


@kernel
def _add_foreseen(
    linear: bool,
    lists: RankedLists,
    weights: Array,
    observed: Array,
    models: ClickModels,
    sums: Array,
    kernel_settings: ProbabilisticSettings,
) -> None:
    impressions, entries, counts, groups = lists
    attraction, attention = models
    rankers, width = impressions.ranks.shape[1], entries.shape[1]
    shares, chances = np.zeros((rankers, width)), np.zeros((STATES, width))
    clicked, room, foreseen = np.zeros(width), np.zeros(2 * width + 5), np.zeros(observed.shape[1])
    for row in range(len(counts)):
        count, weight, group = counts[row], weights[row], groups[row]
        if weight == 0:
            continue
        write_posterior(impression_at(impressions, row, count), count - 1, kernel_settings, shares)
        for model in range(attraction.shape[1]):
            for position in range(count):
                for state in range(STATES):
                    looked = attention[position * STATES + state, model]
                    chances[state, position] = min(1.0, attraction[entries[row, position], model] * looked)
            if linear:
                _credits(shares, chances, count, clicked, foreseen)
            else:
                column = 0
                for first in range(rankers):
                    for second in range(first + 1, rankers):
                        foreseen[column] = _sign(shares, first, second, chances, count, room)
                        column += 1
            for column in range(len(foreseen)):
                sums[model, group, column] += weight * (observed[row, column] - foreseen[column])


def add_slack(scorer: Scorer, lists: RankedLists, unseen: Array, each: float, models: ClickModels, sums: Array) -> None:
    """Add to `sums[pair]` how far the score may be above, and below, the score that the first model expects.

    `unseen[entry]` are documents that the log never shows.
    """
    inside = np.arange(lists.entries.shape[1]) < lists.counts[:, None]
    some = lists.only(np.asarray((unseen[lists.entries] & inside).any(axis=1)))
    if len(some.counts):
        kernel_settings = settings((int(some.impressions.lengths.max(initial=1)),), scorer.chosen.parameters, False)
        first = ClickModels(*(np.ascontiguousarray(values[:, 0]) for values in models))
        _add_slack(scorer.linear, some, unseen, each, first, sums, kernel_settings)


@kernel
def _add_slack(
    linear: bool,
    lists: RankedLists,
    unseen: Array,
    each: float,
    model: ClickModels,
    sums: Array,
    kernel_settings: ProbabilisticSettings,
) -> None:
    impressions, entries, counts, _ = lists
    attraction, attention = model
    rankers, width = impressions.ranks.shape[1], entries.shape[1]
    shares, guessed, extreme = np.zeros((rankers, width)), np.zeros((STATES, width)), np.zeros((STATES, width))
    scratch = np.zeros(width), np.zeros(rankers), np.zeros(2 * width + 5)
    # The attraction of a document that is always clicked at the top; a log that shows none has no attention.
    certain = 1.0 / attention[0] if attention[0] > 0 else 1.0
    for row in range(len(counts)):
        count, pair = counts[row], 0
        write_posterior(impression_at(impressions, row, count), count - 1, kernel_settings, shares)
        for position in range(count):
            for state in range(STATES):
                looked = attention[position * STATES + state]
                guessed[state, position] = min(1.0, attraction[entries[row, position]] * looked)
        for first in range(rankers):
            for second in range(first + 1, rankers):
                base = _preference(linear, shares, first, second, guessed, count, scratch)
                for side in range(2):
                    sign = 1.0 - 2.0 * side
                    best = sign * base
                    extreme[:] = guessed
                    for place in range(2 * count):  # twice, because what is best at one position depends on the others
                        position = place % count
                        if not unseen[entries[row, position]]:
                            continue
                        before = extreme[:, position].copy()
                        for appeal in (0.0, certain):
                            for state in range(STATES):
                                extreme[state, position] = min(1.0, appeal * attention[position * STATES + state])
                            value = sign * _preference(linear, shares, first, second, extreme, count, scratch)
                            if value > best:
                                best, before = value, extreme[:, position].copy()
                        extreme[:, position] = before
                    sums[pair, side] += each * (best - sign * base)
                pair += 1


@inline_kernel
def _preference(
    linear: bool, shares: Array, first: int, second: int, chances: Array, count: int, scratch: tuple[Array, ...]
) -> Any:
    clicked, credits, room = scratch
    if not linear:
        return _sign(shares, first, second, chances, count, room)
    _credits(shares, chances, count, clicked, credits)
    return credits[first] - credits[second]


@inline_kernel
def _credits(shares: Array, chances: Array, count: int, clicked: Array, foreseen: Array) -> None:
    """How many clicks each ranker owns: the chance of a click at each position, times its share there."""
    none, one, more = 1.0, 0.0, 0.0
    for position in range(count):
        after_none = none * chances[0, position]
        after_one = one * chances[1, position]
        clicked[position] = after_none + after_one + more * chances[2, position]
        none, one, more = none - after_none, one - after_one + after_none, more + after_one
    for ranker in range(len(foreseen)):
        foreseen[ranker] = 0.0
        for position in range(count):
            foreseen[ranker] += clicked[position] * shares[ranker, position]


@inline_kernel
def _sign(shares: Array, first: int, second: int, chances: Array, count: int, room: Array) -> Any:
    """The chance to own more of the clicks, less that to own fewer.

    Without a click nobody leads; after one, the first leads (`won`), the second (`lost`), or neither (`tied`);
    `room[centre + lead]` is the chance of each lead after more clicks.
    """
    centre = count + 2
    none, won, tied, lost = 1.0, 0.0, 0.0, 0.0
    for place in range(2 * centre + 1):
        room[place] = 0.0
    for position in range(count):
        ours, theirs = shares[first, position], shares[second, position]
        others = 1.0 - ours - theirs
        chance, below = chances[2, position], 0.0
        for place in range(centre - position - 1, centre + position + 2):
            here = room[place]
            stays = 1.0 - chance + chance * others
            room[place] = here * stays + chance * (below * ours + room[place + 1] * theirs)
            below = here
        chance = chances[1, position]
        room[centre + 2] += chance * won * ours
        room[centre + 1] += chance * (won * others + tied * ours)
        room[centre] += chance * (won * theirs + tied * others + lost * ours)
        room[centre - 1] += chance * (tied * theirs + lost * others)
        room[centre - 2] += chance * lost * theirs
        first_click = none * chances[0, position]
        stays = 1.0 - chance
        won, tied, lost = won * stays + first_click * ours, tied * stays + first_click * others, lost * stays
        lost += first_click * theirs
        none -= first_click
    value = won - lost
    for lead in range(1, count + 1):
        value += room[centre + lead] - room[centre - lead]
    return value
