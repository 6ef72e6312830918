"""Splits the queries of a unit into sessions, at gaps of some length (C12, sections 6.1 and 9.1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array

GAP = 30 * 60  # seconds, C12's


class Sessions(NamedTuple):
    """By query: the number of its session, whether it is the first or last query of it, and how many queries it has."""

    number: Array
    is_first: Array
    is_last: Array
    queries: Array


def sessions(units: Array, times: Array, ends: Array | None = None, gap: float = GAP) -> Sessions:
    """The sessions of queries that `units` asked at `times`; a query lasts until its last click, at `ends`.

    A session continues while less than `gap` passes between the last action of the unit and its next query; the clicks
    of a query belong to its session, however late. Without `ends`, the gap is measured from query to query, as in
    C12's Table XIII, where a gap of 0 makes every query a session. Times and gap have the same unit of time.

    >>> sessions(np.array([7, 7, 8, 7]), np.array([0, 1700, 1750, 3600]), np.array([90, 1900, 1750, 3600])).number
    array([0, 0, 1, 0])
    >>> sessions(np.array([7, 7, 8, 7]), np.array([0, 1700, 1750, 3600])).number
    array([0, 0, 2, 1])
    """
    ends = times if ends is None else ends
    if not len(units) == len(times) == len(ends):
        raise DataError(f"{len(units)} units, {len(times)} times and {len(ends)} ends; give one of each per query")
    if (ends < times).any():
        row = int(np.argmax(ends < times))
        raise DataError(f"query {row} ends at {ends[row]}, before it was asked at {times[row]}")
    if not len(units):
        nothing = np.zeros(0, np.int64)
        return Sessions(nothing, nothing.astype(bool), nothing.astype(bool), nothing)
    order = np.lexsort((times, units))
    starts = _starts(units[order], times[order], ends[order], gap)
    number, is_first, is_last = np.empty(len(order), np.int64), np.empty_like(starts), np.empty_like(starts)
    number[order], is_first[order], is_last[order] = np.cumsum(starts) - 1, starts, np.append(starts[1:], True)
    return Sessions(number, is_first, is_last, np.bincount(number)[number])


def _starts(units: Array, times: Array, ends: Array, gap: float) -> Array:
    """Which queries, sorted by unit and time, start a session.

    The last action of a unit need not be on its last page, so we take the running maximum of the ends. It restarts with
    each unit, because it is taken over (unit, rank of the end) as one number.
    """
    count = len(units)
    other = np.append(False, units[1:] != units[:-1])
    by_end = np.argsort(ends, kind="stable")
    rank = np.empty(count, np.int64)
    rank[by_end] = np.arange(count)
    latest = ends[by_end[np.maximum.accumulate(np.cumsum(other) * count + rank) % count]]
    starts = other
    starts[0] = True
    starts[1:] |= times[1:] - latest[:-1] >= gap
    return starts


def totals(number: Array, counts: Array) -> Array:
    """Sum counts of queries over sessions, `[session, ...]`: C12 scores a session by the sums of its clicks.

    >>> totals(np.array([0, 0, 1]), np.array([[1, 0], [2, 1], [0, 1]]))
    array([[3, 1],
           [0, 1]])
    """
    summed = np.zeros((int(number.max(initial=-1)) + 1, *counts.shape[1:]), counts.dtype)
    np.add.at(summed, number, counts)
    return summed
