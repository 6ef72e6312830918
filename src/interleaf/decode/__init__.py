"""Turns record batches into padded integer arrays; every dropped row has a counted reason.

columns.py      Arrow columns as flat arrays; segments of a report, excluded rows, the query of a row
impressions.py  ranks, teams, lengths and choices of each row, and ranks of unshown documents
events.py       which events count, clicks, and what became of every event
scoring.py      a score for each impression

Here are the designs: which rows have the same experiment, version, arm, method and rankers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.decode.columns import (
    ListColumn,
    TextColumn,
    codes,
    column,
    is_there,
    list_column,
    microseconds,
    numbers,
    text_column,
)
from interleaf.decode.events import Clicks as Clicks, Counting as Counting, event_kinds, flat_events, read_events
from interleaf.decode.impressions import ShownColumns
from interleaf.errors import DataError
from interleaf.interleaving.rankings import MAX_RANKERS
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array, Impression
from interleaf.kernels.jit import kernel
from interleaf.log.arrow import NOT_ISO
from interleaf.log.drop_reasons import DropReason, EventFate
from interleaf.methods.registry import ONE_LIST

_PRIME, _START = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)
CELLS = 2**18  # ranks held at a time (rows x rankers x positions), few enough for the CPU's caches
COLUMNS = (
    *("experiment", "version", "impression", "time", "unit", "query", "arm", "method", "rankers"),
    *(
        "ranks",
        "unshown_ranks",
        "lengths",
        "union",
        "teams",
        "choices",
        "relaxed",
        "excluded",
        "latency",
        "characters",
        "fallback_reason",
        "epoch",
    ),
    *("events.event", "events.kind", "events.rank", "events.time"),
)
FIRST, LAST = 631_152_000_000_000, 7_258_118_400_000_000  # the years 1990 to 2199, in microseconds from 1970
LARGE = ("documents", "rankings")  # read only if another column is missing


class Design(NamedTuple):
    """What rows must share to be tallied together; rankers are in the order of the log."""

    experiment: str
    version: int
    arm: str
    method: str
    rankers: tuple[str, ...]

    @property
    def is_one_list(self) -> bool:
        """Whether each unit sees the list of one ranker, and the rows are those of one of them."""
        return self.method == ONE_LIST and self.arm in self.rankers


def designs(batch: pa.RecordBatch) -> Iterator[tuple[Design | None, Array]]:
    """The designs of a batch with their rows; the design is None for rows in which one of its fields is missing."""
    experiment, arm, method = (codes(batch.column(name)) for name in ("experiment", "arm", "method"))
    version, rankers = _alike(batch.column("version")), _rankers(list_column(batch.column("rankers")))
    columns = (experiment, version, arm, method, rankers)
    whole = np.zeros(batch.num_rows, np.int64)
    for places, values in columns:
        if len(values) > 1 or (places != 0).any():
            whole = whole * (len(values) + 1) + places + 1
    group, values_by_group = _alike(pa.array(whole))
    order = np.argsort(group, kind="stable") if len(values_by_group) > 1 else np.arange(len(group))
    for rows in np.split(order, np.cumsum(np.bincount(group, minlength=len(values_by_group)))[:-1]):
        if len(rows):
            first = rows[0]
            fields: list[Any] = [values[places[first]] if places[first] >= 0 else None for places, values in columns]
            names = fields[-1]
            is_whole = None not in fields and names and all(names) and len(set(names)) == len(names)
            yield Design(*fields) if is_whole else None, rows


def _alike(array: pa.Array) -> tuple[Array, list[Any]]:
    """Like `codes`, but fast for integers that are all the same, which is usual."""
    if len(array) and array.null_count == 0:
        integers = numbers(array, 0)
        if (integers == integers[0]).all():
            return np.zeros(len(integers), np.int32), [int(integers[0])]
    return codes(array)


def _rankers(lists: ListColumn) -> tuple[Array, list[Any]]:
    """A number for each different list of names, and the lists."""
    places, names = codes(lists.values)
    marks = np.zeros(len(lists.there), np.uint64)
    _mark_lists(lists.offsets, places, marks)
    group, groups = _alike(pa.array(marks.view(np.int64), mask=None if lists.there.all() else ~lists.there))
    tuples: list[Any] = []
    for number in range(len(groups)):
        row = int(np.argmax(group == number))
        inner = places[lists.offsets[row] : lists.offsets[row + 1]].tolist()
        if len(inner) > MAX_RANKERS:
            raise DataError(f"a row names {len(inner)} rankers; a log compares at most {MAX_RANKERS}")
        tuples.append(None if -1 in inner else tuple(names[code] for code in inner))
    return group, tuples


@kernel
def _mark_lists(offsets: Array, places: Array, marks: Array) -> None:
    """A hash of each list of numbers."""
    for row in range(len(marks)):
        # From 0 on, lists of one number and of two could have the same hash.
        mark = (_START ^ np.uint64(offsets[row + 1] - offsets[row])) * _PRIME
        for place in range(offsets[row], offsets[row + 1]):
            mark = (mark ^ np.uint64(places[place] + 1)) * _PRIME
        marks[row] = mark


class Decoded(NamedTuple):
    """Rows of one design as arrays.

    `has` says for each row which of ranks, unshown ranks, teams, lengths, sizes (lengths and union) and choices are
    known. `unit` is a hash. `alone` marks rows whose impression is its own unit.
    """

    design: Design
    rows: Array
    impressions: Impression
    counts: Array
    clicks: Clicks
    has: dict[str, Array]
    unit: Array
    alone: Array
    time: Array
    dropped: Counter[str]
    events: Counter[str]

    @property
    def is_clicked(self) -> Array:
        """Which positions got an event that counts."""
        kinds = self.clicks.clicks
        return np.asarray(kinds[0] if len(kinds) == 1 else kinds.any(axis=0))

    @property
    def has_event(self) -> Array:
        """Which rows got an event that counts."""
        return np.asarray(self.clicks.first >= 0)

    def only(self, keep: Array) -> Decoded:
        """The rows that the mask selects; the counts of dropped rows and events stay the same."""
        if keep.all():
            return self
        return self._replace(
            impressions=Impression(*(values[keep] for values in self.impressions)),
            clicks=Clicks(self.clicks.clicks[:, keep], *(values[keep] for values in self.clicks[1:])),
            has={name: values[keep] for name, values in self.has.items()},
            **{name: getattr(self, name)[keep] for name in ("rows", "counts", "unit", "alone", "time")},
        )


class Decoding:
    """Decodes a record batch; iterate over its parts.

    `dropped` counts rows without a design, and `others` the rows of experiments and versions that are not wanted.
    `examples` has an example value for a reason to drop rows, and `kinds` are the kinds of all events. With `detailed`,
    clicks have their time and dwell by position.
    """

    def __init__(
        self,
        batch: pa.RecordBatch,
        counting: Counting,
        wanted: Callable[[Design], bool] = lambda design: True,
        repeated: Array | None = None,
        detailed: bool = False,
    ) -> None:
        self._batch, self._counting, self._wanted, self._detailed = batch, counting, wanted, detailed
        self.dropped: Counter[str] = Counter()
        self.others: Counter[tuple[str, int]] = Counter()
        metadata = batch.schema.metadata or {}
        of_column: dict[str, str] = {"time": DropReason.NO_TIME, "events": EventFate.NO_TIME}
        self.examples = {of_column[name]: metadata[key].decode() for name, key in NOT_ISO.items() if key in metadata}
        self._rules: list[str] = []
        ids = text_column(batch.column("impression"))
        self.unit, self._alone = _units(column(batch, "unit"), ids)
        self._ids = ids
        self._time = microseconds(batch.column("time"))
        self._marks = np.zeros(batch.num_rows, np.int16)
        self._marks[(self._time < FIRST) | (self._time >= LAST)] = DropReason.FAR_TIME.mark
        self._marks[~is_there(batch.column("time"))] = DropReason.NO_TIME.mark
        self._marks[~ids.there] = DropReason.NO_ID.mark
        if repeated is not None:
            self._marks[repeated] = DropReason.REPEATED_IMPRESSION.mark
        self._shown = ShownColumns(batch)
        self._events = flat_events(batch.column("events"), counting, detailed)
        self.kinds = event_kinds(batch.column("events"))

    @cached_property
    def _hashes(self) -> Array:
        """A hash of the id of each impression."""
        return buckets.hashes(buckets.IMPRESSION, self._ids.offsets, self._ids.data)

    def leave_out(self, rule: str, rows: Array) -> None:
        """Drop the rows that a rule excludes, and count them under the name of the rule."""
        self._rules.append(rule)
        self._marks[rows & (self._marks == 0)] = len(DropReason) + len(self._rules)

    def __iter__(self) -> Iterator[Decoded]:
        for design, rows in designs(self._batch):
            if design is None:
                self.dropped[DropReason.NO_DESIGN] += len(rows)
                continue
            if not self._wanted(design):
                self.others[design.experiment, design.version] += len(rows)
                continue
            width = self._shown.width(rows)
            step = max(1, CELLS // (len(design.rankers) * width))
            for start in range(0, len(rows), step):
                yield self._part(design, rows[start : start + step], width)

    def _part(self, design: Design, rows: Array, width: int) -> Decoded:
        marks, time = self._marks[rows], self._time[rows]
        impressions, counts, has = self._shown.find(len(design.rankers), rows, width, marks)
        if impressions.unshown_ranks.shape[2]:  # lists that are drawn again have randomness of their own
            impressions.words[:, 0] = self._hashes[rows]
        clicks, statuses = read_events(self._events, self._counting, rows, counts, time, width, marks, self._detailed)
        names = [*DropReason, *self._rules]  # marks above those of the reasons stand for rules that exclude rows
        numbers = np.bincount(marks, minlength=1).tolist()
        dropped = Counter({names[mark - 1]: number for mark, number in enumerate(numbers) if mark and number})
        decoded = Decoded(
            *(design, rows, impressions, counts, clicks, has),
            *(self.unit[rows], self._alone[rows], time, dropped, statuses),
        )
        return decoded.only(marks == 0)


def identities(batch: pa.RecordBatch) -> tuple[Array, Array]:
    """The rows that have an impression id, and a hash of the experiment and the id of each."""
    ids = text_column(batch.column("impression"))
    places, names = codes(batch.column("experiment"))
    salts = [buckets.hash_of(buckets.IMPRESSION, name or "") for name in names]
    hashes = buckets.hashes(buckets.IMPRESSION, ids.offsets, ids.data) ^ np.array([*salts, 0], np.uint64)[places]
    rows = np.flatnonzero(ids.there)
    return rows, hashes[rows]


def _units(array: pa.Array | None, ids: TextColumn) -> tuple[Array, Array]:
    """The hash of each row's unit; a row without a unit is its own unit."""
    if array is None:
        return buckets.hashes(buckets.UNIT, ids.offsets, ids.data), np.ones(len(ids.there), np.bool_)
    names = text_column(array)
    hashes = buckets.hashes(buckets.UNIT, names.offsets, names.data)
    if not names.there.all():
        hashes = np.where(names.there, hashes, buckets.hashes(buckets.UNIT, ids.offsets, ids.data))
    return hashes, ~names.there
