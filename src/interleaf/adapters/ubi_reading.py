"""Files of queries and events: records of the schema's types are read many at a time, all others one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.adapters.event_blocks import events_of
from interleaf.adapters.imported import Imported
from interleaf.adapters.json_scan import NEWLINE
from interleaf.adapters.line_blocks import blocks_of, end_of_lines
from interleaf.adapters.pieces import batch_of
from interleaf.adapters.query_blocks import queries_of
from interleaf.adapters.record_scan import ACTION, BLANK
from interleaf.adapters.scanned import Scanned
from interleaf.adapters.spool import Spool
from interleaf.adapters.ubi_records import EVENTS, RecordError, event_of, query_of
from interleaf.log.lines import LineError, parsed
from interleaf.methods.arrays import Array

Read = Callable[[dict[str, Any], str | None, Counter[str]], tuple[Any, ...]]
Singles = list[tuple[int, tuple[Any, ...]]]
ACTION_NAMES = {"index", "create"}
ACTIONS = tuple(b"{" + space + b'"' + name.encode() + b'":' for space in (b"", b" ") for name in ACTION_NAMES)


class Block(NamedTuple):
    """Lines of a file, and what could be had of them many at a time; `start` lines came before."""

    path: Path
    start: int
    lines: Scanned
    events: tuple[Array, pa.RecordBatch]
    queries: tuple[Array, pa.RecordBatch]
    counts: Counter[str]


def end_of_records(block: bytearray) -> int:
    """Behind the last newline; but before a last action line, whose record is in the next block."""
    end = end_of_lines(block)
    start = block.rfind(b"\n", 0, max(end - 1, 0)) + 1
    return start if block.startswith(ACTIONS, start) else end


def scanned(path: Path, start: int, data: memoryview) -> Block:
    """A block, read many lines at a time."""
    lines, counts = Scanned(data), Counter[str]()
    return Block(path, start, lines, events_of(lines, counts), queries_of(lines, counts), counts)


class Reader:
    """Lets every record wait for the others of its query; a block is scanned while the one before it is put away."""

    def __init__(self, answer_of: Read, spool: Spool, imported: Imported) -> None:
        self._answer_of, self._spool, self._imported = answer_of, spool, imported
        self._thread = ThreadPoolExecutor(1)
        self._pending: Future[Block] | None = None

    def read(self, path: Path) -> None:
        """All lines of a file, plain or gzip."""
        number = 0
        for data in blocks_of(path, end_of_records):
            before, self._pending = self._pending, self._thread.submit(scanned, path, number, data)
            number += int((np.frombuffer(data, np.uint8) == NEWLINE).sum())
            if before is not None:
                self._put_away(before.result())

    def close(self) -> None:
        """Wait for the last block."""
        if self._pending is not None:
            self._put_away(self._pending.result())
        self._thread.shutdown()

    def _put_away(self, block: Block) -> None:
        """Lines that are left over are read one by one, and join those of their kind, in the order of lines."""
        self._imported.counts.update(block.counts)
        left = np.isin(block.lines.kinds, (ACTION, BLANK), invert=True)
        left[block.events[0]] = left[block.queries[0]] = False
        events: Singles = []
        queries: Singles = []
        for number in np.flatnonzero(left).tolist():
            record = self._record(block, number)
            if record is not None:
                (events if len(record) == len(EVENTS) else queries).append((number, record))
        self._spool.add(_in_order(*block.events, events))
        self._spool.add(_in_order(*block.queries, queries))

    def _record(self, block: Block, number: int) -> tuple[Any, ...] | None:
        """The record of a line, or None and a count."""
        line, where = block.lines.line(number), f"{block.path}:{block.start + number + 1}"
        if line.isspace():
            return None
        try:
            value = parsed(line)
            if value and value.keys() <= ACTION_NAMES:
                return None
            name = _name_before(block.lines, number)
            if type(value.get("_source")) is dict:
                name, value = value.get("_id"), value["_source"]
            return record_of(value, name if type(name) is str else None, self._answer_of, self._imported.counts)
        except LineError as problem:
            self._imported.drop(problem.reason, where)
        except RecordError as problem:
            self._imported.drop(str(problem), where)
        return None


def _name_before(lines: Scanned, number: int) -> Any:
    """The id that an action line gives to the record that follows it."""
    before = lines.line(number - 1) if number else b""
    if not before.startswith(ACTIONS):
        return None
    try:
        (action,) = parsed(before).values()
        return action.get("_id")
    except (LineError, ValueError, AttributeError):
        return None


def _in_order(lines: Array, batch: pa.RecordBatch, singles: Singles) -> pa.RecordBatch:
    """Records in the order of their lines, those that were read one by one among them."""
    if not singles:
        return batch
    columns = zip(*(record for _, record in singles), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, batch.schema, strict=True)]
    single = pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
    order = np.argsort(np.concatenate([lines, [number for number, _ in singles]]))
    return batch_of(pa.Table.from_batches([batch, single]).take(pa.array(order)))


def record_of(value: dict[str, Any], name: str | None, answer_of: Read, counts: Counter[str]) -> tuple[Any, ...]:
    """An event, an engine's answer, a query, or a click of a plain click log, told apart by what they have."""
    if value.get("action_name") is not None:
        return event_of(value, name, counts)
    if type(value.get("response")) is dict or type(value.get("hits")) is dict:
        return answer_of(value, None, counts)
    if "user_query" in value or "query_response_hit_ids" in value:
        return query_of(value, None, counts)
    if "document" in value:
        return event_of(_as_ubi(value), name, counts)
    raise RecordError("record that is neither query nor event")


def _as_ubi(value: dict[str, Any]) -> dict[str, Any]:
    """A line of a plain click log, `{"query_id", "document", "time"}` and perhaps `kind`, as a UBI event."""
    thing = {"object": {"object_id": value["document"]}}
    return {
        "action_name": value.get("kind", "click"),
        "timestamp": value.get("time", value.get("timestamp")),
        "event_attributes": thing | {name: value[name] for name in ("dwell", "value", "event") if name in value},
        **{name: value[name] for name in ("query_id", "user_id", "client_id", "session_id") if name in value},
    }
