"""What click models expect of lists: the mean outcome of probabilistic interleaving if people click as a model says.

A position is clicked with the model's chance given the clicks above, and then owned by ranker j with probability q(j),
independent of all else. So expected credit is a sum over positions and numbers of clicks above, and the expected sign
a dynamic programme over positions, clicks above, and how many more clicks one ranker owns than the other.

Of documents that the log never shows a model only guesses. `add_slack` says how far the guess may be off for a pair of
rankers: each unseen document is clicked whenever people look at it, or never, whichever is best for the first ranker,
and whichever is worst.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from interleaf.compiled import impression_at, kernel, part
from interleaf.methods.arrays import Array, Impression
from interleaf.methods.probabilistic import Settings, settings, write_posterior
from interleaf.methods.table import Chosen
from interleaf.refine.reuse.model import STATES, Models

PART = 8192  # rows that a thread takes; the same parts whatever the threads, and so the same sums


class Lists(NamedTuple):
    """Lists as the new rankers have them: `entries[row, position]`, and to which group their unit belongs."""

    impressions: Impression
    entries: Array
    counts: Array
    groups: Array

    def only(self, rows: Array | slice) -> Lists:
        """Some of the rows."""
        return Lists(Impression(*(values[rows] for values in self.impressions)), *(values[rows] for values in self[1:]))


def add_foreseen(
    chosen: Chosen, linear: bool, lists: Lists, weights: Array, observed: Array, models: Models, sums: Array
) -> None:
    """Add w (o - f) to `sums[model, group, column]`, where f is what each model expects; columns as in `outcomes`."""
    longest = int(lists.impressions.lengths.max(initial=1))

    def work(part: slice) -> Array:
        own = np.zeros_like(sums)
        made = settings((longest,), chosen.parameters, False)
        _add_foreseen(linear, *lists.only(part), weights[part], observed[part], *models, own, made)
        return own

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for own in pool.map(work, [slice(start, start + PART) for start in range(0, len(weights), PART)]):
            sums += own


@kernel
def _add_foreseen(
    linear: bool,
    impressions: Impression,
    entries: Array,
    counts: Array,
    groups: Array,
    weights: Array,
    observed: Array,
    attraction: Array,
    attention: Array,
    sums: Array,
    settings: Settings,
) -> None:
    rankers, width = impressions.ranks.shape[1], entries.shape[1]
    shares, chances = np.zeros((rankers, width)), np.zeros((STATES, width))
    clicked, room, foreseen = np.zeros(width), np.zeros(2 * width + 5), np.zeros(observed.shape[1])
    for row in range(len(counts)):
        count, weight, group = counts[row], weights[row], groups[row]
        if weight == 0:
            continue
        write_posterior(impression_at(impressions, row, count), count - 1, settings, shares)
        for model in range(attraction.shape[1]):
            for position in range(count):
                for state in range(STATES):
                    looked = attention[position * STATES + state, model]
                    chances[state, position] = min(1.0, attraction[entries[row, position], model] * looked)
            if linear:
                _credits(shares, chances, count, clicked, foreseen)
            else:
                _signs(shares, chances, count, room, foreseen)
            for column in range(len(foreseen)):
                sums[model, group, column] += weight * (observed[row, column] - foreseen[column])


def add_slack(
    chosen: Chosen, linear: bool, lists: Lists, unseen: Array, each: float, models: Models, sums: Array
) -> None:
    """Add to `sums[pair]` by how much the outcome may be above, and below, what the first model expects.

    `unseen[entry]` are documents that the log never shows.
    """
    inside = np.arange(lists.entries.shape[1]) < lists.counts[:, None]
    some = lists.only(np.asarray((unseen[lists.entries] & inside).any(axis=1)))
    if len(some.counts):
        made = settings((int(some.impressions.lengths.max(initial=1)),), chosen.parameters, False)
        attraction, attention = (np.ascontiguousarray(values[:, 0]) for values in models)
        _add_slack(linear, *some[:3], unseen, each, attraction, attention, sums, made)


@kernel
def _add_slack(
    linear: bool,
    impressions: Impression,
    entries: Array,
    counts: Array,
    unseen: Array,
    each: float,
    attraction: Array,
    attention: Array,
    sums: Array,
    settings: Settings,
) -> None:
    rankers, width = impressions.ranks.shape[1], entries.shape[1]
    shares, guessed, extreme = np.zeros((rankers, width)), np.zeros((STATES, width)), np.zeros((STATES, width))
    clicked, room, credits = np.zeros(width), np.zeros(2 * width + 5), np.zeros(rankers)
    # The attraction of a document that is always clicked at the top; a log that shows none has no attention.
    certain = 1.0 / attention[0] if attention[0] > 0 else 1.0
    for row in range(len(counts)):
        count, pair = counts[row], 0
        write_posterior(impression_at(impressions, row, count), count - 1, settings, shares)
        for position in range(count):
            for state in range(STATES):
                looked = attention[position * STATES + state]
                guessed[state, position] = min(1.0, attraction[entries[row, position]] * looked)
        for first in range(rankers):
            for second in range(first + 1, rankers):
                base = _preference(linear, shares, first, second, guessed, count, clicked, room, credits)
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
                            value = sign * _preference(
                                linear, shares, first, second, extreme, count, clicked, room, credits
                            )
                            if value > best:
                                best, before = value, extreme[:, position].copy()
                        extreme[:, position] = before
                    sums[pair, side] += each * (best - sign * base)
                pair += 1


@part
def _preference(
    linear: bool,
    shares: Array,
    first: int,
    second: int,
    chances: Array,
    count: int,
    clicked: Array,
    room: Array,
    credits: Array,
) -> Any:
    if not linear:
        return _sign(shares, first, second, chances, count, room)
    _credits(shares, chances, count, clicked, credits)
    return credits[first] - credits[second]


@part
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


@part
def _signs(shares: Array, chances: Array, count: int, room: Array, foreseen: Array) -> None:
    pair = 0
    for first in range(len(shares)):
        for second in range(first + 1, len(shares)):
            foreseen[pair] = _sign(shares, first, second, chances, count, room)
            pair += 1


@part
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
