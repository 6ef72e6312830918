"""Events that come more than once with the same id, merged to one.

A browser sends a click at once, and again with its dwell when the person returns. Of the copies of an event, the first
one counts: the one with the earliest time, and among copies of the same time the one with the lowest rank, then the
first kind by name. Its dwell is the largest dwell of all copies. Its value is that of the first copy that has one, the
smallest of several. So the result does not depend on the order in which copies arrive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array


class Merged(NamedTuple):
    """By event: whether another copy of it counts, and its dwell and value, for events that count."""

    is_repeated: Array
    dwell: Array
    value: Array


def merge_copies(event: Array, time: Array, rank: Array, kind: Array, dwell: Array, value: Array) -> Merged:
    """Merge the copies of events, told by the number `event`; kinds are numbered by name, nan is a missing number.

    >>> nan = np.nan
    >>> merge_copies(*map(np.array, ([7, 7, 8], [5, 3, 4], [1, 1, 2], [0, 0, 0], [2.5, nan, nan], [nan, nan, nan])))
    Merged(is_repeated=array([ True, False, False]), dwell=array([2.5, 2.5, nan]), value=array([nan, nan, nan]))
    """
    order = np.lexsort((kind, rank, time, event))
    is_first = np.append(True, np.diff(event[order]) != 0)[: len(order)]
    starts = np.flatnonzero(is_first)
    copies = np.diff(np.append(starts, len(order)))
    is_repeated, all_dwells, all_values = np.zeros(len(order), np.bool_), dwell.copy(), value.copy()
    is_repeated[order] = ~is_first
    if len(order):
        all_dwells[order] = np.repeat(np.fmax.reduceat(dwell[order], starts), copies)
        by_value = np.lexsort((value, kind, rank, time, np.isnan(value), event))
        all_values[order] = np.repeat(value[by_value][starts], copies)
    return Merged(is_repeated, all_dwells, all_values)


def merge_events(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of an impression as dictionaries, copies merged, in the order given."""
    names = Counter(event["event"] for event in events if event.get("event") is not None)
    if len(names) == names.total():
        return list(events)
    numbers = {name: number for number, name in enumerate(names)}
    some = [place for place, event in enumerate(events) if names[event.get("event")] > 1]
    kinds = sorted({events[place]["kind"] for place in some})
    merged = merge_copies(
        np.array([numbers[events[place]["event"]] for place in some]),
        np.array([events[place]["time"].replace(tzinfo=None) for place in some], "datetime64[us]"),
        np.array([events[place]["rank"] for place in some]),
        np.array([kinds.index(events[place]["kind"]) for place in some]),
        *(np.array([events[place].get(name) for place in some], np.float64) for name in ("dwell", "value")),
    )
    found: dict[int, dict[str, Any] | None] = dict(enumerate(events))
    for place, is_repeated, *numbers_of in zip(some, *merged, strict=True):
        known = {name: float(one) for name, one in zip(("dwell", "value"), numbers_of, strict=True) if one == one}
        found[place] = None if is_repeated else events[place] | known
    return [event for event in found.values() if event is not None]


def event_order(event: dict[str, Any]) -> tuple[Any, ...]:
    """What events of an impression are sorted by."""
    return event["time"], event["rank"], event["kind"], event.get("event") or ""
