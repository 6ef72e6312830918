"""Imports logs whose queries and events are separate records: UBI 1.3, and engine responses with UBI events.

Files are JSON lines, plain or gzip: bulk files (an action line before each record), plain records, or search hits with
`_source`. Queries and events may be in one file or in many, in any order. Memory does not grow with the log: records
go to a file on disk, partitioned by their query (`partition.py`).
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import UNSET

from interleaf.errors import DataError
from interleaf.importers.partition import Partition, ShuffleFile
from interleaf.importers.protocol import ImportNote, ImportOptions, ImportResult
from interleaf.importers.query_join import Joiner, LogEvidence
from interleaf.importers.ubi_records import (
    Action,
    ColumnBuilder,
    EngineAnswer,
    Entry,
    Record,
    click_as_event,
    decode_records,
)
from interleaf.log.drop_reasons import DropReason
from interleaf.log.files import LogFile, Paths, files_of
from interleaf.log.jsonl import LineError, blocks_of, split_lines
from interleaf.log.record_batches import write_batches

# Turns a response of an engine into its query and the owners of its hits.
AnswerReader = Callable[[dict[str, Any], Counter[str]], tuple[Record, Any]]
MAX_ENTRIES = 4096  # records held as Python objects at a time
_decode_answer = msgspec.json.Decoder(dict[str, Any], float_hook=float).decode
_DEFAULTS = ImportOptions()
UNPACKED = 8  # a guess: a gzip file is this many times smaller than its text


class UbiReader:
    """Reads queries and events, adds them to a shuffle file, and counts what it leaves out."""

    def __init__(self, answer_of: AnswerReader | None, shuffle: ShuffleFile, result: ImportResult) -> None:
        self._answer_of, self._shuffle, self._result = answer_of, shuffle, result
        self._queries: list[Entry] = []
        self._events: list[Entry] = []
        self.is_own = True  # whether our export wrote all records

    def read(self, file: LogFile) -> None:
        """Read all lines of a file, plain or gzip."""
        columns = ColumnBuilder(file.path, self._result)
        first, name = 1, None
        for block in blocks_of(file.here):
            first, name = self._read_block(block, first, name, file.path)
            columns.add(self._queries, self._events)
            self._queries.clear()
            self._events.clear()
            if len(columns) >= MAX_ENTRIES:
                self._add_to_shuffle(*columns.batches())
        if len(columns):
            self._add_to_shuffle(*columns.batches())

    def _add_to_shuffle(self, queries: pa.RecordBatch, events: pa.RecordBatch) -> None:
        has_own_ranks = not events["rank"].null_count and events["rank"].equals(events["ordinal"])
        self.is_own &= not queries["own"].null_count and has_own_ranks and events["owner"].null_count == len(events)
        self._shuffle.add(queries, events)

    def _read_block(self, block: bytes, first: int, name: Any, path: object) -> tuple[int, Any]:
        """Add the records of a block whose first line has this number; returns the number and name for the next one.

        The name is the id that an action line gives to the record in the next line.
        """
        records, lines = decode_records(block), split_lines(block) if self._answer_of else None
        for number, record in enumerate(records, first):
            if type(record) is Record:  # most lines are an event or an action line
                if record.action_name is not None and type(record.source) is not Record:
                    self._events.append((number, record, name))
                    name = None
                    continue
                if type(record.index) is Action and record.query_id is None:
                    name = record.index.id
                    continue
            try:
                name = self._add(number, record, name, lines[number - first] if lines else b"")
            except (LineError, msgspec.DecodeError, RecursionError) as problem:
                name = None
                reason = problem.reason if isinstance(problem, LineError) else DropReason.NOT_JSON
                self._result.drop(reason, f"{path}:{number}")
        return first + len(records), name

    def _add(self, number: int, record: Any, name: Any, line: bytes) -> Any:
        """Add a record. For an action line, return the id that it gives to the next record."""
        if type(record) is not Record:
            if record is None:
                return None
            raise record
        is_hit = type(record.source) is Record
        if is_hit:
            name, record = record.id, record.source
        is_answer = type(record.response) is EngineAnswer or type(record.hits) is EngineAnswer
        if record.action_name is not None:
            self._events.append((number, record, name))
        elif is_answer and self._answer_of is not None:
            answer = _decode_answer(line)
            answer = answer["_source"] if is_hit else answer
            self._queries.append((number, *self._answer_of(answer, self._result.counts)))
        elif is_answer or record.user_query is not UNSET or record.query_response_hit_ids is not UNSET:
            self._queries.append((number, record, None))
        elif record.document is not UNSET:
            click_as_event(record)
            self._events.append((number, record, name))
        elif is_hit or record.index is record.create is UNSET:
            raise LineError(ImportNote.UNKNOWN_RECORD)
        else:
            action = record.create if record.index is UNSET else record.index
            return action.id if type(action) is Action else None
        return None


def import_ubi(source: Paths, out: str | Path, options: ImportOptions = _DEFAULTS) -> ImportResult:
    """Import UBI queries and events.

    Queries that `export_ubi` wrote are restored exactly. Others are lists of one ranker, or of the rankers in
    `event_attributes.search_config`.
    """
    return import_records(source, out, options)


def import_records(
    source: Paths, out: str | Path, options: ImportOptions, answer_of: AnswerReader | None = None
) -> ImportResult:
    """Import queries and events; with `answer_of`, queries are responses of an engine."""
    files = files_of(source)
    if wrong := [str(file.path) for file in files if file.is_parquet or file.is_csv]:
        raise DataError(f"{wrong[0]} is not a file of JSON lines; give JSON lines, plain or gzip")
    imported = ImportResult()
    size = sum(file.size * (UNPACKED if file.here.suffix == ".gz" else 1) for file in files)
    with _without_collector(), ShuffleFile(size) as shuffle:
        reader = UbiReader(answer_of, shuffle, imported)
        for file in files:
            reader.read(file)
        evidence = LogEvidence(ours=int(reader.is_own))  # the rest is about records of other systems
        if not reader.is_own:
            for queries, events in shuffle.parts():
                evidence.add(Partition(queries, events))
            _check_count(evidence.queries, imported, files)
        joiner = Joiner(evidence, options, imported)

        def batches() -> Iterator[pa.RecordBatch]:
            for queries, events in shuffle.parts():
                yield joiner.batch(Partition(queries, events))
            _check_count(imported.impressions, imported, files)  # here, so that no empty log is written

        write_batches(out, batches())
    _conclude(imported, evidence, options)
    return imported


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pause the search for reference cycles: records have none, and the search would visit all of them repeatedly."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _check_count(count: int, imported: ImportResult, files: Sequence[LogFile]) -> None:
    """Raise DataError if there are no impressions."""
    if not count:
        named = str(files[0].path) if len(files) == 1 else f"{files[0].path} and {len(files) - 1} more"
        reasons = "; ".join(note.text for note in imported.count_notes())
        raise DataError(f"there is no query to import in {named} ({reasons or 'no record at all'})")


def _conclude(imported: ImportResult, evidence: LogEvidence, options: ImportOptions) -> None:
    imported.join_rate = evidence.join_rate
    imported.unit = None if evidence.ours or evidence.unit is None else options.unit or evidence.unit
    imported.rankers = evidence.rankers
    imported.without_ranks = bool(evidence.owners) and not evidence.is_one_by_one
    imported.may_be_unmixed = imported.without_ranks and evidence.may_be_unmixed
    if options.ordinals is None:
        imported.ordinals = {name or "": evidence.start_of(name) for name in sorted(evidence.bases, key=str)}
    imported.counts = +imported.counts
