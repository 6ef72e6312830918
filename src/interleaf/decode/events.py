"""Turns the events of each row into a matrix of clicks, and counts why other events do not count."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.decode.columns import codes, is_there, list_column, microseconds, numbers, text_column
from interleaf.errors import DataError, raise_errors
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.log import schema
from interleaf.log.drop_reasons import MAX_EVENTS, DropReason, EventFate
from interleaf.log.event_join import merge_copies


@dataclass(frozen=True)
class Counting:
    """Which events count: kinds with their weights, and further conditions.

    `dwell`: at least this many seconds (an event without a dwell time does not count). `first`: only the earliest
    counted event of an impression. `window`: at most this many seconds after the list was shown. `values`: an event
    counts as much as its value, such as its revenue, times the weight of its kind. `guarded`: kinds that guardrails
    watch; of each it is noted whether an impression has such an event within the window.

    >>> print(Counting({"click": 1, "purchase": 5}, dwell=30))
    click + 5 purchase, dwell at least 30 s
    """

    kinds: str | Mapping[str, float] = "click"
    dwell: float | None = None
    first: bool = False
    window: float | None = None
    values: bool = False
    guarded: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        raise_errors(map(DataError, self._problems()))

    def _problems(self) -> Iterator[str]:
        for kind, weight in self.weights.items():
            if not isinstance(kind, str) or not kind:
                yield f"a kind of event is a word such as 'click', not {kind!r}"
            elif isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 < abs(weight) < math.inf:
                yield f"the weight of {kind!r} is {weight!r}; give a number other than 0"
        if not self.weights:
            yield "no kind of event is named; name at least one, such as 'click'"
        for name, seconds in (("dwell", self.dwell), ("window", self.window)):
            if seconds is not None and not 0 < seconds < math.inf:
                yield f"{name} is {seconds!r}; give seconds above 0, or leave it out"

    @cached_property
    def weights(self) -> dict[str, float]:
        return {self.kinds: 1.0} if isinstance(self.kinds, str) else dict(sorted(self.kinds.items()))

    def __str__(self) -> str:
        kinds = " + ".join(kind if weight == 1 else f"{weight:g} {kind}" for kind, weight in self.weights.items())
        parts = [f"value of {kinds}" if self.values else kinds]
        parts += [f"dwell at least {self.dwell:g} s"] if self.dwell is not None else []
        parts += ["the first of an impression"] if self.first else []
        parts += [f"within {self.window:g} s"] if self.window is not None else []
        return ", ".join(parts)


_EVENT_NOT_SHOWN, _TOO_MANY_EVENTS = DropReason.EVENT_NOT_SHOWN.mark, DropReason.TOO_MANY_EVENTS.mark
_FATES = list(EventFate)[:10]  # the ones that are decided here
_COUNTED, _REPEATED, _EARLY, _LATE, _SHORT, _OTHER, _NEXT, _TIMELESS, _VALUELESS, _GUARDED = range(10)
_ONLY_GUARDED = np.int32(-2)  # in place of the index of a counted kind
ONE = 2**24  # sums of scores and values are whole numbers of 1 / ONE
MAX_VALUE = 2.0**30  # more than an impression may have, so that its row is dropped; sums stay exact
_NEVER = 2**62  # the time of an event without one, so that a copy with a time is preferred


class FlatEvents(NamedTuple):
    """All events of a batch: `kind` is an index into the counted kinds, -2 if only guardrails watch it, or else -1;
    `is_repeated` marks all copies of an event but one. `value` is weighted, nan if it is missing; it is empty if values
    do not count. `guarded` is an index into the guarded kinds, or -1; it is empty if there are none.
    """

    offsets: Array
    kind: Array
    rank: Array
    time: Array
    dwell: Array
    is_repeated: Array
    value: Array
    guarded: Array


class Clicks(NamedTuple):
    """For each row: which positions were clicked, by kind; seconds to the first and last counted event, -1 if there is
    none; the time of the last interaction. With details (else without a column): `seconds[row, position]` to the first
    counted event of each position, and the longest `dwells[row, position]`; nan if there is none. If values count (else
    without a column): the sum of the weighted `values[row, position]`. `guarded[row, kind]`: whether the row has an
    event of a guarded kind.
    """

    clicks: Array
    first: Array
    last: Array
    end: Array
    seconds: Array
    dwells: Array
    values: Array
    guarded: Array


def flat_events(array: pa.Array, counting: Counting, detailed: bool = False) -> FlatEvents:
    """The events of a batch as flat arrays; with dwell times if they are needed."""
    lists = list_column(array)
    if pa.types.is_null(lists.values.type):
        lists = lists._replace(values=pa.array([], pa.struct([column.field for column in schema.EVENT])))
    fields = {field.name: lists.values.field(place) for place, field in enumerate(lists.values.type)}
    kind, names = codes(fields["kind"])
    table, guarded = _indices(names, list(counting.weights)), _indices(names, counting.guarded)
    weighted, table = table, np.where((table < 0) & (guarded >= 0), _ONLY_GUARDED, table)
    size = len(lists.values)
    dwell = numbers(fields["dwell"], np.nan, pa.float32()) if "dwell" in fields else np.full(size, np.nan, np.float32)
    flat = FlatEvents(
        lists.offsets,
        table[kind],
        _ranks(fields["rank"]),
        np.where(is_there(fields["time"]), microseconds(fields["time"]), _NEVER),
        dwell if detailed or counting.dwell is not None else np.zeros(0, np.float32),
        np.zeros(size, np.bool_),
        _values(fields.get("value"), kind, weighted, counting),
        guarded[kind] if counting.guarded else guarded[:0],
    )
    return _merge_copies(flat, fields["event"], kind, names) if "event" in fields else flat


def _indices(names: Sequence[Any], wanted: Sequence[str]) -> Array:
    """The index of each name in `wanted`, -1 if it is not there; and -1 for no name at the end."""
    return np.array([*(wanted.index(name) if name in wanted else -1 for name in names), -1], np.int32)


def _values(array: pa.Array | None, kind: Array, table: Array, counting: Counting) -> Array:
    """The value of each event times the weight of its kind, if values count; nan if it has none.

    It is rounded to 2^-24, so that sums do not depend on the order of events.
    """
    if not counting.values:
        return np.zeros(0)
    values = np.full(len(kind), np.nan) if array is None else numbers(array, np.nan, pa.float64()).copy()
    values[~np.isfinite(values)] = np.nan
    weights = np.array([*counting.weights.values(), np.nan])
    worth = np.clip(values, -MAX_VALUE, MAX_VALUE) * weights[table[kind]]
    return np.asarray(np.rint(np.clip(worth, -MAX_VALUE, MAX_VALUE) * ONE) / ONE)


def event_kinds(array: pa.Array) -> frozenset[str]:
    """The kinds of all events of a batch."""
    events = list_column(array).values
    if not pa.types.is_struct(events.type):
        return frozenset()
    return frozenset(kind for kind in events.field("kind").unique().to_pylist() if kind is not None)


def _ranks(array: pa.Array) -> Array:
    """Ranks of events; a rank that does not fit 32 bits was not shown."""
    if array.type in (pa.int8(), pa.int16(), pa.int32()):
        return numbers(array, -1, pa.int32())
    return np.clip(numbers(array, -1, pa.int64()), -1, 2**31 - 1).astype(np.int32)


def _merge_copies(flat: FlatEvents, ids: pa.Array, kind: Array, names: list[Any]) -> FlatEvents:
    """The events with copies merged. Most logs have no copies, so a fast kernel looks for them first."""
    named = text_column(ids)
    first = np.full(len(flat.rank), -1, np.int64)
    if not _find_copies(flat.offsets, *named, first):
        return flat
    some = np.flatnonzero(first >= 0)
    by_name = np.argsort(np.argsort([*(name or "" for name in names), ""], kind="stable"))[kind[some]]
    unknown = np.full(len(some), np.nan, np.float32)
    dwell, value = (column[some] if len(column) else unknown for column in (flat.dwell, flat.value))
    merged = merge_copies(first[some], flat.time[some], flat.rank[some], by_name, dwell, value)
    flat.is_repeated[some] = merged.is_repeated
    return flat._replace(
        dwell=_replace_some(flat.dwell, some, merged.dwell), value=_replace_some(flat.value, some, merged.value)
    )


def _replace_some(column: Array, places: Array, values: Array) -> Array:
    """A copy of a column with other values at some places; an empty column stays empty."""
    if len(column):
        column = column.copy()
        column[places] = values
    return column


def read_events(
    flat: FlatEvents,
    counting: Counting,
    rows: Array,
    counts: Array,
    times: Array,
    width: int,
    marks: Array,
    detailed: bool = False,
) -> tuple[Clicks, Counter[str]]:
    """The clicks of these rows, which showed `counts` documents at `times`, and the number of events by status."""
    size, fates = len(rows), np.zeros(len(_FATES), np.int64)
    details = np.full((2, size, width if detailed else 0), np.nan, np.float32)
    clicks = Clicks(
        np.zeros((len(counting.weights), size, width), np.bool_),
        np.full(size, -1, np.float32),
        np.full(size, -1, np.float32),
        times.copy(),
        details[0],
        details[1],
        np.zeros((size, width if counting.values else 0)),
        np.zeros((size, len(counting.guarded)), np.bool_),
    )
    window = np.iinfo(np.int64).max if counting.window is None else round(counting.window * 1e6)
    # In the precision of logged dwell times.
    least: Any = np.float32(-1.0 if counting.dwell is None else counting.dwell)
    _check_events(rows, flat.offsets, flat.rank, counts, marks)
    _read_events(flat, rows, times, window, least, counting.first, clicks, marks, fates)
    if counting.guarded:
        _mark_guarded(flat, rows, times, window, clicks.guarded, marks)
    return clicks, Counter({fate: int(number) for fate, number in zip(_FATES, fates, strict=True) if number})


@kernel
def _check_events(rows: Array, offsets: Array, ranks: Array, counts: Array, marks: Array) -> None:
    """Mark rows with too many events, or with one at a rank that was not shown."""
    for place in range(len(rows)):
        start, end, count = offsets[rows[place]], offsets[rows[place] + 1], counts[place]
        if marks[place] == 0 and end - start > MAX_EVENTS:
            marks[place] = _TOO_MANY_EVENTS
        for event in range(start, end):
            if marks[place] == 0 and (ranks[event] < 1 or ranks[event] > count):
                marks[place] = _EVENT_NOT_SHOWN


@kernel
def _read_events(
    flat: FlatEvents,
    rows: Array,
    times: Array,
    window: int,
    least: float,
    only_first: bool,
    found: Clicks,
    marks: Array,
    fates: Array,
) -> None:
    """One loop, because passing records of arrays to another function costs more than the work on an event."""
    offsets, kinds, ranks, moments = flat.offsets, flat.kind, flat.rank, flat.time
    clicks, ends, seconds, dwells, values = found.clicks, found.end, found.seconds, found.dwells, found.values
    detailed, valued = seconds.shape[1] > 0, values.shape[1] > 0
    for place in range(len(rows)):
        start, end, shown_at = offsets[rows[place]], offsets[rows[place] + 1], times[place]
        if marks[place] or start == end:
            continue
        earliest, latest = -1, -1
        for event in range(start, end):
            delay = moments[event] - shown_at
            fate = _VALUELESS if valued and np.isnan(flat.value[event]) else _COUNTED
            if least >= 0 and not flat.dwell[event] >= least:
                fate = _SHORT
            if delay > window:
                fate = _LATE
            if kinds[event] < 0:
                fate = _GUARDED if kinds[event] == _ONLY_GUARDED else _OTHER
            if delay < 0:
                fate = _EARLY
            if moments[event] == _NEVER:
                fate = _TIMELESS
            if flat.is_repeated[event]:
                fate = _REPEATED
            fates[_NEXT if only_first and fate == _COUNTED else fate] += 1
            if fate != _REPEATED and fate != _EARLY and fate != _TIMELESS:
                ends[place] = max(ends[place], moments[event])
            if fate == _COUNTED:
                if earliest < 0 or _is_before(flat, event, earliest):
                    earliest = event
                if latest < 0 or moments[event] > moments[latest]:
                    latest = event
                if not only_first:
                    clicks[kinds[event], place, ranks[event] - 1] = True
                    if valued:
                        values[place, ranks[event] - 1] += flat.value[event]
                if detailed:
                    position = ranks[event] - 1
                    seconds[place, position] = np.fmin(seconds[place, position], delay / 1e6)
                    dwells[place, position] = np.fmax(dwells[place, position], flat.dwell[event])
        if earliest >= 0:
            found.first[place] = (moments[earliest] - shown_at) / 1e6
            found.last[place] = (moments[earliest if only_first else latest] - shown_at) / 1e6
            if only_first:
                clicks[kinds[earliest], place, ranks[earliest] - 1] = True
                if valued:
                    values[place, ranks[earliest] - 1] = flat.value[earliest]
                fates[_NEXT] -= 1
                fates[_COUNTED] += 1


@kernel
def _mark_guarded(flat: FlatEvents, rows: Array, times: Array, window: int, guarded: Array, marks: Array) -> None:
    """Mark the guarded kinds of which a row has an event within the window."""
    for place in range(len(rows)):
        for event in range(flat.offsets[rows[place]], flat.offsets[rows[place] + 1]):
            if marks[place] or flat.guarded[event] < 0 or flat.is_repeated[event] or flat.time[event] == _NEVER:
                continue
            if 0 <= flat.time[event] - times[place] <= window:
                guarded[place, flat.guarded[event]] = True


@inline_kernel
def _is_before(flat: FlatEvents, event: int, other: int) -> bool:
    """Compare by time, then by rank and kind, so that the order in the log does not matter."""
    if flat.time[event] != flat.time[other]:
        return bool(flat.time[event] < flat.time[other])
    if flat.rank[event] != flat.rank[other]:
        return bool(flat.rank[event] < flat.rank[other])
    return bool(flat.kind[event] < flat.kind[other])


@kernel
def _find_copies(offsets: Array, id_offsets: Array, data: Array, named: Array, first: Array) -> int:
    """Count copies of events (the same id within a row), and set `first` to the index of the first copy.

    Rows with too many events are dropped, so they are not searched.
    """
    copies = 0
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        if end - start > MAX_EVENTS:
            continue
        for event in range(start + 1, end):
            before = _find_copy(id_offsets, data, named, start, event)
            if before >= 0:
                first[before] = first[event] = before
                copies += 1
    return copies


@inline_kernel
def _find_copy(offsets: Array, data: Array, named: Array, start: int, event: int) -> int:
    """The first event of the row with the same id, or -1. Compares from the end, where ids usually differ."""
    size = offsets[event + 1] - offsets[event]
    for before in range(start, event if named[event] else start):
        if named[before] and offsets[before + 1] - offsets[before] == size:
            last = size - 1
            while last >= 0 and data[offsets[before] + last] == data[offsets[event] + last]:
                last -= 1
            if last < 0:
                return before
    return -1
