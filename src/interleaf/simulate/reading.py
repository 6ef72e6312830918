"""What people do with a page: read from the top, click, stay, buy, go back; all of it with its seconds.

The clicks are those of the cascade, its click probability p shifted on the logit scale: p e^s / (1 - p + p e^s).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from interleaf.chance import Chance, pick, toss
from interleaf.compiled import kernel, part, seat
from interleaf.methods.arrays import Array
from interleaf.simulate.people import People, around

KINDS = ("click", "purchase")
CLICK, PURCHASE = range(2)
READING = 1.5  # median seconds a result
CRAWLING = 0.05  # seconds a result
PRICE = 20.0  # median value of a purchase


class Habits(NamedTuple):
    """Tables by grade, and how often one goes back to a higher rank."""

    click: Array
    stop: Array
    stop_needs_click: bool
    dwell: Array
    purchases: Array
    regressions: float


class Events(NamedTuple):
    """Events `[row, number]` in the order of time, of which there are `counts[row]`; `ends[row]` is the page's end.

    Seconds count from when the page was shown.
    """

    kinds: Array
    ranks: Array
    seconds: Array
    dwells: Array
    values: Array
    counts: Array
    ends: Array


def habits_of(people: People, grades: int) -> Habits:
    """The habits of these people in front of documents with so many grades."""
    model = people.cascade(grades)
    click, stop = (np.array([float(value) for value in table]) for table in (model.click, model.stop))
    dwell, purchases = people.dwell_by(grades), people.purchases_by(grades)
    return Habits(click, stop, model.stop_needs_click, dwell, purchases, float(people.regressions))


def read(keys: Array, counts: Array, grades: Array, shifts: Array, crawlers: Array, habits: Habits) -> Events:
    """One person a row, in front of documents with these grades `[row, position]`, in that person's eyes."""
    rows, width = len(counts), grades.shape[1] * (2 if habits.purchases.any() else 1)
    kinds, ranks = np.zeros((rows, width), np.int8), np.zeros((rows, width), np.int16)
    seconds, dwells, values = np.zeros((rows, width)), np.zeros((rows, width), np.float32), np.zeros((rows, width))
    events = Events(kinds, ranks, seconds, dwells, values, np.zeros(rows, np.int64), np.zeros(rows))
    _read(keys, counts, grades, shifts, crawlers, habits, events)
    return events


@kernel
def _read(
    keys: Array, counts: Array, grades: Array, shifts: Array, crawlers: Array, habits: Habits, events: Events
) -> None:
    chance: Any = np.zeros(3, np.uint64)
    clicked, order = np.zeros(grades.shape[1], np.bool_), np.zeros(grades.shape[1], np.int64)
    for row in range(len(keys)):
        seat(chance, keys, row)
        count = counts[row]
        if crawlers[row]:
            _crawl(count, row, events)
            continue
        last = _scan(grades[row, :count], shifts[row], habits, chance, clicked)
        clicks = _in_order(clicked, last, habits.regressions, chance, order)
        _act(order[:clicks], grades[row], habits, chance, row, events)
        if clicks == 0:
            events.ends[row] = last * around(chance, READING, 0.5)


@part
def _crawl(count: int, row: int, events: Events) -> None:
    """Everything at once, and nobody stays."""
    for position in range(count):
        _note(events, row, CLICK, position + 1, CRAWLING * (position + 1), CRAWLING, 0.0)
    events.ends[row] = CRAWLING * (count + 1)


@part
def _scan(grades: Array, shifts: Array, habits: Habits, chance: Chance, clicked: Array) -> int:
    """The cascade; returns how many results were read."""
    for position in range(len(grades)):
        grade = grades[position]
        clicked[position] = toss(chance, shifted(habits.click[grade], shifts[position]))
        if (clicked[position] or not habits.stop_needs_click) and toss(chance, habits.stop[grade]):
            return position + 1
    return len(grades)


@part
def shifted(probability: Any, shift: Any) -> Any:
    """A probability moved on the logit scale; what is certain stays so."""
    odds = probability * np.exp(shift)
    return odds / (1 - probability + odds)


@part
def _in_order(clicked: Array, last: int, regressions: float, chance: Chance, order: Array) -> int:
    """The clicked positions from the top down; now and then one of the upper ones is returned to at the end."""
    clicks = 0
    for position in range(last):
        if clicked[position]:
            order[clicks] = position
            clicks += 1
    if clicks > 1 and toss(chance, regressions):
        returned = pick(chance, clicks - 1)
        position = order[returned]
        for at in range(returned, clicks - 1):
            order[at] = order[at + 1]
        order[clicks - 1] = position
    return clicks


@part
def _act(order: Array, grades: Array, habits: Habits, chance: Chance, row: int, events: Events) -> None:
    """Read on to the next click, stay there, perhaps buy, come back to the page."""
    seconds, at = 0.0, -1
    for position in order:
        seconds += abs(position - at) * around(chance, READING, 0.5)
        at = position
        dwell = around(chance, habits.dwell[grades[position]], 0.8)
        _note(events, row, CLICK, position + 1, seconds, dwell, 0.0)
        if toss(chance, habits.purchases[grades[position]]):
            _note(events, row, PURCHASE, position + 1, seconds + dwell / 2, 0.0, around(chance, PRICE, 0.5))
        seconds += dwell
    events.ends[row] = seconds


@part
def _note(events: Events, row: int, kind: int, rank: int, seconds: float, dwell: float, value: float) -> None:
    number = events.counts[row]
    events.kinds[row, number] = kind
    events.ranks[row, number] = rank
    events.seconds[row, number] = seconds
    events.dwells[row, number] = dwell
    events.values[row, number] = value
    events.counts[row] = number + 1
