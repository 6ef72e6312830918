"""Imports logs whose queries and events are separate records: UBI 1.3, and engine responses with UBI events.

Files are JSON lines, plain or gzip: bulk files (an action line before each record), plain records, or search hits with
`_source`. Queries and events may be in one file or in many, in any order. Memory does not grow with the log: records
are spooled to disk, partitioned by their query (`spool.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import UNSET

from interleaf.errors import DataError
from interleaf.importers.foreign_lists import Evidence, Options
from interleaf.importers.partition import Part
from interleaf.importers.protocol import Imported
from interleaf.importers.query_join import Joiner
from interleaf.importers.solr_opensearch import opensearch_query, solr_query
from interleaf.importers.spool import Spool
from interleaf.importers.ubi_records import (
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
from interleaf.log.files import File, Paths, files_of
from interleaf.log.jsonl import LineError, blocks_of, parsed
from interleaf.log.record_batches import write_batches

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


UNPACKED = 8  # a gzip file is about that much smaller than its text


def import_ubi(source: Paths, out: str | Path, options: Options | None = None) -> Imported:
    """UBI queries and events as a native log, by the ending of `out`; what is returned says what became of each record.

    Queries that `export_ubi` wrote come back as they were. Others are lists of one ranker, or of those that
    `event_attributes.search_config` names.
    """
    return _imported(source, out, options or Options(), None)


def import_solr(source: Paths, out: str | Path, options: Options | None = None, field: str = "id") -> Imported:
    """Answers of Solr with `[interleaving]`, and clicks as UBI events or lines of `query_id, document, time`."""
    return _imported(source, out, options or Options(only_interleaved=True), partial(solr_query, field=field))


def import_opensearch(source: Paths, out: str | Path, options: Options | None = None) -> Imported:
    """Answers of OpenSearch whose hits have `_search_configuration_id`, and UBI events."""
    return _imported(source, out, options or Options(only_interleaved=True), opensearch_query)


def _imported(source: Paths, out: str | Path, options: Options, answer_of: AnswerReader | None) -> Imported:
    files = files_of(source)
    if wrong := [str(file.path) for file in files if file.is_parquet or file.is_csv]:
        raise DataError(f"{wrong[0]} is no file of JSON lines; give JSON lines, plain or gzip")
    imported, evidence = Imported(), Evidence()
    size = sum(file.size * (UNPACKED if file.here.suffix == ".gz" else 1) for file in files)
    with Spool(size) as spool:
        reader = Reader(answer_of, spool, imported)
        for file in files:
            reader.read(file)
        for queries, events in spool.parts():
            evidence.add(Part(queries, events))
        _ask_for_some(evidence.queries, imported, files)
        joiner = Joiner(evidence, options, imported)

        def batches() -> Iterator[pa.RecordBatch]:
            for queries, events in spool.parts():
                yield joiner.batch(Part(queries, events))
            _ask_for_some(imported.impressions, imported, files)  # here, so that no empty log is left behind

        write_batches(out, batches())
    _conclude(imported, evidence, options)
    return imported


def _ask_for_some(count: int, imported: Imported, files: Sequence[File]) -> None:
    """A log without an impression helps nobody."""
    if not count:
        named = str(files[0].path) if len(files) == 1 else f"{files[0].path} and {len(files) - 1} more"
        reasons = "; ".join(imported.counted())
        raise DataError(f"there is no query to import in {named} ({reasons or 'no record at all'})")


def _conclude(imported: Imported, evidence: Evidence, options: Options) -> None:
    imported.join_rate = evidence.join_rate
    imported.unit = None if evidence.ours or evidence.unit is None else options.unit or evidence.unit
    imported.rankers = evidence.rankers
    imported.without_ranks = bool(evidence.owners) and not evidence.is_one_by_one
    imported.may_be_unmixed = imported.without_ranks and evidence.may_be_unmixed
    if options.ordinals is None:
        imported.ordinals = {name or "": evidence.start_of(name) for name in sorted(evidence.bases, key=str)}
    imported.counts = +imported.counts
