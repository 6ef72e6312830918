"""Logs of queries and events that are records of their own: UBI 1.3, and engines' answers with UBI events.

Files are JSON lines, plain or gzip: bulk files (an action line before each record), records as they are, or search hits
with `_source`. Queries and events may stand in one file or in many, in any order. Memory does not grow with the log:
records wait on disk, in parts by their query (`spool.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from interleaf.adapters.evidence import Evidence
from interleaf.adapters.foreign_lists import Options
from interleaf.adapters.imported import Imported
from interleaf.adapters.joining import Joiner
from interleaf.adapters.parts import Part
from interleaf.adapters.responses import opensearch_query, solr_query
from interleaf.adapters.spool import Spool
from interleaf.adapters.ubi_reading import AnswerReader, Reader
from interleaf.errors import DataError
from interleaf.log.files import File, Paths, files_of
from interleaf.log.write import write_batches

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
