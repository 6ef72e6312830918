"""Reads files of JSON lines into batches of queries and events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from interleaf.adapters.imported import Imported
from interleaf.adapters.spool import Spool
from interleaf.adapters.ubi_records import (
    Action,
    Answer,
    Record,
    Row,
    click_as_event,
    event_of,
    events_batch,
    queries_batch,
    query_of,
)
from interleaf.log.files import File
from interleaf.log.lines import LineError, parsed
from interleaf.log.text import blocks_of

AnswerReader = Callable[[dict[str, Any], Counter[str]], Row]  # from the answer of an engine to a row of QUERIES

_decode = msgspec.json.Decoder(Record, float_hook=float).decode  # float() reads 1e400 as infinity, as json does
_decode_answer = msgspec.json.Decoder(dict[str, Any], float_hook=float).decode


class Reader:
    """Reads queries and events, adds them to a spool, and counts what it leaves out."""

    def __init__(self, answer_of: AnswerReader | None, spool: Spool, imported: Imported) -> None:
        self._answer_of, self._spool, self._imported = answer_of, spool, imported
        self._counts = imported.counts
        self._events: list[Record] = []
        self._queries: list[Row] = []

    def read(self, file: File) -> None:
        """Read all lines of a file, plain or gzip."""
        name: Any = None  # the id that an action line gives to the record in the next line
        for first, lines in blocks_of(file.here):
            for number, line in enumerate(lines, first):
                try:
                    # As text, because msgspec does not check the encoding of fields that it skips.
                    name = self._add(_decode(line.decode()), name, line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LineError) as problem:
                    name = None
                    if not line.isspace():
                        self._imported.drop(_reason(line, problem), f"{file.path}:{number}")
            self._flush()

    def _add(self, record: Any, name: Any, line: bytes) -> Any:
        """Add a record. For an action line, return the id that it gives to the next record."""
        is_hit = type(record.source) is Record
        if is_hit:
            name, record = record.id, record.source
        is_answer = type(record.response) is Answer or type(record.hits) is Answer
        if record.action_name is not None:
            self._events.append(event_of(record, name, self._counts))
        elif is_answer and self._answer_of is not None:
            answer = _decode_answer(line)
            self._queries.append(self._answer_of(answer["_source"] if is_hit else answer, self._counts))
        elif is_answer or record.user_query is not UNSET or record.query_response_hit_ids is not UNSET:
            self._queries.append(query_of(record, self._counts))
        elif record.document is not UNSET:
            self._events.append(event_of(click_as_event(record), name, self._counts))
        elif is_hit or record.index is record.create is UNSET:
            raise LineError("record that is neither query nor event")
        else:
            action = record.create if record.index is UNSET else record.index
            return action.id if type(action) is Action else None
        return None

    def _flush(self) -> None:
        self._spool.add(queries_batch(self._queries, self._counts))
        self._spool.add(events_batch(self._events, self._counts))
        self._queries.clear()
        self._events.clear()


def _reason(line: bytes, problem: Exception) -> str:
    """Why a line cannot be used."""
    try:
        if not isinstance(problem, LineError):
            parsed(line)
    except LineError as better:
        problem = better
    return problem.reason if isinstance(problem, LineError) else "line is not JSON"
