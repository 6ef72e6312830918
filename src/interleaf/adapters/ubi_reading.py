"""Files of queries and events, line by line: events go to Arrow's parser in blocks, all else is read by itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interleaf.adapters.event_blocks import MOST_LINES, EventBlocks, Parsed, table_of
from interleaf.adapters.imported import Imported
from interleaf.adapters.line_blocks import blocks_of
from interleaf.adapters.spool import Spool
from interleaf.adapters.ubi_records import EVENTS, RecordError, event_of, query_of
from interleaf.log.lines import LineError, parsed

Read = Callable[[dict[str, Any], str | None, Counter[str]], tuple[Any, ...]]
EVENT, QUERY = b'"action_name"', b'"user_query"'
ACTIONS = tuple(b"{" + space + b'"' + action for space in (b"", b" ") for action in (b'index":', b'create":'))
NAME = re.compile(rb'"_id"\s*:\s*"([^"\\]+)"')


@dataclass(eq=False)
class Block:
    """Lines of events, the action lines before them, and their numbers in the file."""

    path: Path
    lines: list[bytes] = field(default_factory=list)
    actions: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def names(self) -> list[bytes | None]:
        """The ids that action lines give to the records that follow them."""
        found = NAME.findall(b"".join(self.actions))
        if len(found) == len(self.actions):  # the rule; else, one by one
            return found
        searched = map(NAME.search, self.actions)
        return [None if one is None else one[1] for one in searched]


class Reader:
    """Lets every record wait for the others of its query: events in blocks, parsed in a thread; queries one by one."""

    def __init__(self, answer_of: Read, spool: Spool, imported: Imported) -> None:
        self._answer_of, self._spool, self._imported = answer_of, spool, imported
        self._blocks = EventBlocks()
        self._thread = ThreadPoolExecutor(1)
        self._pending: tuple[Future[Parsed], Block] | None = None
        self._clicks: list[tuple[Any, ...]] = []  # of plain click logs

    def read(self, path: Path) -> None:
        """All lines of a file, plain or gzip."""
        block = Block(path)
        number, action = 0, b""  # the action line of a bulk file names the record that follows
        for lines in blocks_of(path):
            for line in lines:
                number += 1
                if EVENT in line:
                    block.lines.append(line)
                    block.actions.append(action)
                    block.numbers.append(number)
                elif line.startswith(ACTIONS) and QUERY not in line:
                    action = line
                    continue
                elif not line.isspace():
                    self._add(self._record(path, number, line, None))
                action = b""
            if len(block.lines) >= MOST_LINES:
                self._parse(block)
                block = Block(path)
        self._parse(block)

    def close(self) -> None:
        """Wait for the last block."""
        self._finish()
        self._thread.shutdown()
        self._flush()
        self._imported.counts.update(self._blocks.counts)

    def _parse(self, block: Block) -> None:
        """Have a block parsed while the next one is read."""
        self._finish()
        if block.lines:
            self._pending = self._thread.submit(self._blocks.parse, block.lines, block.names()), block

    def _finish(self) -> None:
        if self._pending is None:
            return
        (future, block), self._pending = self._pending, None
        found, records = future.result(), []
        names = block.names() if found.singles else []
        for place in found.singles:
            name = names[place]
            known = None if name is None else name.decode(errors="replace")
            record = self._record(block.path, block.numbers[place], block.lines[place], known)
            if record is not None and len(record) == len(EVENTS):
                records.append((place, record))
            else:
                self._add(record)
        self._spool.add_events(found.batch(records))

    def _add(self, record: tuple[Any, ...] | None) -> None:
        if record is None:
            return
        if len(record) != len(EVENTS):
            self._spool.add_query(record)
            return
        self._clicks.append(record)
        if len(self._clicks) >= MOST_LINES:
            self._flush()

    def _flush(self) -> None:
        if self._clicks:
            self._spool.add_events(table_of(self._clicks).to_batches()[0])
        self._clicks = []

    def _record(self, path: Path, number: int, line: bytes, name: str | None) -> tuple[Any, ...] | None:
        """The record of a line, or None and a count."""
        try:
            value = parsed(line)
            if type(value.get("_source")) is dict:
                name, value = value.get("_id"), value["_source"]
            return record_of(value, name if type(name) is str else None, self._answer_of, self._imported.counts)
        except LineError as problem:
            self._imported.drop(problem.reason, f"{path}:{number}")
        except RecordError as problem:
            self._imported.drop(str(problem), f"{path}:{number}")
        return None


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
