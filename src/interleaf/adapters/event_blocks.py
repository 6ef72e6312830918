"""Lines of UBI events read many at a time by Arrow's parser; a line that it cannot take is read by itself, leniently.

The fast way and the slow one (`ubi_records.event_of`) give the same events; the fast one is for lines of which all
fields are of the types that the schema of UBI asks for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from interleaf.adapters.times import MOST, microseconds
from interleaf.adapters.ubi_records import EVENTS
from interleaf.methods.arrays import Array

MOST_LINES = 16_384  # of a block, about
FEW = 64  # lines that are not worth a try by blocks
PATIENCE = 3  # blocks in a row that were mostly read line by line, before blocks are no more tried
LONGEST = 16 * 2**20  # bytes that the parser takes at once, and so of a line
LATEST = MOST // 1000  # milliseconds
ISO = r"^\d{4}-[01]\d-[0-3]\d[T ][0-2]\d:[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]\d\d:?\d\d)$"
_TIMES = (pa.string(), pa.int64())


def _fields(time: pa.DataType) -> pa.Schema:
    names = ("action_name", "query_id", "application", "user_id", "client_id", "session_id")
    thing = pa.struct([("object_id", pa.string()), ("internal_id", pa.string())])
    attributes = [
        *(("object", thing), ("position", pa.struct([("ordinal", pa.int64())]))),
        *((name, pa.string()) for name in ("session_id", "event", "search_config")),
        *(("rank", pa.int64()), ("dwell", pa.float64()), ("value", pa.float64())),
    ]
    return pa.schema(
        [*((name, pa.string()) for name in names), ("timestamp", time), ("event_attributes", pa.struct(attributes))]
    )


_FIELDS = {kind: _fields(kind) for kind in _TIMES}


class Parsed(NamedTuple):
    """Tables of events with the places of their lines; `singles` are places of lines to be read one by one."""

    tables: list[tuple[Array, pa.Table]]
    singles: list[int]

    def batch(self, records: Sequence[tuple[int, tuple[Any, ...]]]) -> pa.RecordBatch:
        """All events in the order of their lines, those that were read one by one among them."""
        found = list(self.tables)
        if records:
            found.append((np.array([place for place, _ in records]), table_of([record for _, record in records])))
        if not found:
            return pa.RecordBatch.from_pylist([], EVENTS)
        table = pa.concat_tables([some for _, some in found])
        if len(found) > 1:
            order = np.argsort(np.concatenate([places for places, _ in found]), kind="stable")
            table = table.take(pa.array(order))
        return pa.RecordBatch.from_arrays([_whole(column) for column in table.columns], schema=EVENTS)


class EventBlocks:
    """Reads blocks of lines; it remembers how times were written, and whether blocks are worth a try."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._times: tuple[pa.DataType, ...] = _TIMES
        self._slow_ones = 0

    def parse(self, lines: Sequence[bytes], names: Sequence[bytes | None]) -> Parsed:
        """What can be had of some lines at once; `names` are ids that action lines gave them. It holds no lock."""
        found = Parsed([], [])
        if self._slow_ones < PATIENCE:
            self._halve(lines, names, 0, found)
        else:
            found.singles.extend(range(len(lines)))
        self._slow_ones = self._slow_ones + 1 if 2 * len(found.singles) > len(lines) else 0
        return found

    def _halve(
        self,
        lines: Sequence[bytes],
        names: Sequence[bytes | None],
        start: int,
        found: Parsed,
    ) -> None:
        """Tables with the places of their lines; where a line is in the way, its neighbours are tried without it."""
        block = self._block(lines, names) if len(lines) > FEW else None
        if block is not None:
            usable, table = block
            found.tables.append((start + usable, table))
            found.singles.extend((start + np.setdiff1d(np.arange(len(lines)), usable)).tolist())
        elif len(lines) > FEW:
            half = len(lines) // 2
            self._halve(lines[:half], names[:half], start, found)
            self._halve(lines[half:], names[half:], start + half, found)
        else:
            found.singles.extend(range(start, start + len(lines)))

    def _block(self, lines: Sequence[bytes], names: Sequence[bytes | None]) -> tuple[Array, pa.Table] | None:
        """The lines that could be used, and their events; None where one of them is in the way."""
        data = b"".join(lines)
        for kind in self._times:
            try:
                table = pj.read_json(
                    pa.BufferReader(data),
                    read_options=pj.ReadOptions(use_threads=False, block_size=min(LONGEST, len(data) + 1)),
                    parse_options=pj.ParseOptions(explicit_schema=_FIELDS[kind], unexpected_field_behavior="ignore"),
                )
                table.validate(full=True)
                if len(table) != len(lines):  # two records in a line
                    return None
                self._times = (kind, *(other for other in _TIMES if other != kind))
                usable = np.flatnonzero(_is_whole(table))
                given = pa.array(names, pa.binary()).cast(pa.string()).take(pa.array(usable))
                return usable, self._columns(table.take(pa.array(usable)).combine_chunks(), given)
            except (pa.ArrowException, UnicodeDecodeError):
                continue
        return None

    def _columns(self, table: pa.Table, names: pa.Array) -> pa.Table:
        attributes = table["event_attributes"].combine_chunks()
        thing, place = pc.struct_field(attributes, "object"), pc.struct_field(attributes, "position")
        inside = {name: pc.struct_field(attributes, name) for name in ("session_id", "event", "search_config")}
        rank = pc.struct_field(attributes, "rank")
        bounded = pc.and_kleene(pc.greater_equal(rank, -(2**15)), pc.less(rank, 2**15))
        columns = {
            "query_id": table["query_id"],
            "kind": table["action_name"],
            "application": _filled(table["application"]),
            "user": _filled(table["user_id"]),
            "client": _filled(table["client_id"]),
            "session": pc.coalesce(_filled(table["session_id"]), _filled(inside["session_id"])),
            "event": pc.coalesce(_filled(names), _filled(inside["event"])),
            "document": _filled(pc.struct_field(thing, "object_id")),
            "internal": _filled(pc.struct_field(thing, "internal_id")),
            "owner": _filled(inside["search_config"]),
            "time": _moments(table["timestamp"].combine_chunks(), self.counts),
            "ordinal": pc.struct_field(place, "ordinal"),
            "rank": pc.if_else(bounded, rank, None),
            "dwell": pc.struct_field(attributes, "dwell"),
            "value": pc.struct_field(attributes, "value"),
        }
        return pa.table([columns[name] for name in EVENTS.names], schema=EVENTS)


def table_of(records: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Records that were read one by one, as a table of `EVENTS`."""
    columns = zip(*records, strict=True)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, EVENTS, strict=True)], schema=EVENTS
    )


def _is_whole(table: pa.Table) -> Array:
    """Whether the fields are there without which a record is left out: the reason is told by the slow way."""
    time = table["timestamp"]
    is_text = pa.types.is_string(time.type)
    has_time = (
        pc.match_substring_regex(time, ISO) if is_text else pc.and_kleene(pc.less_equal(0, time), pc.less(time, LATEST))
    )
    has_names = pc.and_kleene(pc.not_equal(table["query_id"], ""), pc.is_valid(table["action_name"]))
    return np.asarray(pc.and_kleene(has_names, has_time).fill_null(False))


def _moments(found: pa.Array, counts: Counter[str]) -> pa.Array:
    """Microseconds since 1970; an error where no calendar has one of the days."""
    if pa.types.is_string(found.type):
        return pc.cast(found, pa.timestamp("us", "UTC")).cast(pa.int64())
    return pa.array([microseconds(value, counts) for value in found.to_pylist()], pa.int64())


def _filled(found: Any) -> Any:
    """An empty text is none."""
    return pc.if_else(pc.equal(found, ""), None, found)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
