"""`import_tables`: a table of impressions and a table of events become one log.

Each table is read once (JSON lines twice, first for the names of their columns). Its rows wait on disk, partitioned by
impression, so memory does not grow with the tables. The counts of what was left out, and the notes on how the tables
were read, are in the metadata of the Parquet file that is written, so that every report of the log has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interleaf.errors import DataError, InterleafError, MissingExtraError, raise_errors
from interleaf.importers import partition
from interleaf.importers.partition import ShuffleFile
from interleaf.importers.protocol import ImportOptions, ImportResult
from interleaf.importers.two_tables.column_names import (
    ATTRIBUTE,
    EVENTS,
    IMPRESSIONS,
    ColumnMap,
    TableColumns,
    find_columns,
)
from interleaf.importers.two_tables.sources import TableSource, open_table
from interleaf.importers.two_tables.table_join import OwnerEvidence, TableJoiner
from interleaf.importers.two_tables.table_rows import (
    EVENT_SCHEMA,
    RESULTS,
    EventRows,
    ImpressionRows,
    RowChecks,
    check_place,
    find_shape,
)
from interleaf.log import schema
from interleaf.log.drop_reasons import DropReason, EventFate, text_of
from interleaf.log.event_join import ReadCounts
from interleaf.log.record_batches import write_batches

_TIMES = "write timestamps, ISO 8601, or numbers since 1970"
_OWNERS = "write a JSON list with an owner for each document; an owner is a name or a number"
REMEDIES = {
    DropReason.NO_ID: "log an id with each impression",
    DropReason.NO_TIME: _TIMES,
    DropReason.WRONG_VALUE.of("time"): _TIMES,
    DropReason.WRONG_EVENT_VALUE.of("time"): _TIMES,
    DropReason.NO_EVENT_VALUE.of("impression"): "log the id of the impression with each event",
    DropReason.NO_EVENT_VALUE.of("document"): "log the document or its position with each event",
    DropReason.NO_EVENT_VALUE.of("time"): _TIMES,
    DropReason.NO_VALUE.of("documents"): "log the shown list, which may be empty, with each impression",
    DropReason.WRONG_VALUE.of(
        "documents"
    ): 'write a JSON list of ids, such as ["d4", "d1"], or one row for each result',
    DropReason.WRONG_VALUE.of("owner"): _OWNERS,
    DropReason.WRONG_VALUE.of(
        "rankings"
    ): 'write a JSON object from each ranker to its ids, such as {"production": ["d4"]}',
    DropReason.LIST_LENGTH: "give as many owners as documents",
    DropReason.NO_DESIGN: "log the owner of each document, or name the rankers by --rankers production candidate",
    DropReason.UNKNOWN_OWNER: (
        "correct the owner or --rankers; numbers of rankers start at 0; the owner of a result of no ranker is empty"
    ),
    DropReason.GAPS_IN_LIST: "log every shown result once, with its position; positions count from 0 or 1",
    DropReason.TWO_AT_POSITION: "log one document for each position of a list",
    DropReason.REPEATED_IMPRESSION: "export each row once; copies do not count",
    DropReason.NOT_REPRODUCED: "log the rankings and the key of the same request",
    EventFate.UNMATCHED: "export both tables of the same days; log the id of the impression with each event",
    EventFate.NOT_ON_LIST: "fine for ads and other fixed results; else log the same ids in both tables",
    EventFate.EARLY: "correct the clocks; check that both tables use UTC",
    EventFate.REPEATED: (
        "export each event once; if equal rows are separate events, name the column of their ids by --map "
        "events.event=COLUMN"
    ),
}
UNPACKED = 4  # a guess: a file is this many times smaller than its rows in memory
UNKNOWN_PARTS = 64  # partitions of a stream, whose size is not known
_DEFAULTS = ImportOptions(experiment=schema.DEFAULTS["experiment"])


def explain_drops(counts: ReadCounts) -> list[str]:
    """A line for each reason for which rows were dropped: its code, text and count, an example and the remedy."""
    lines = []
    for reason, number in (+counts.dropped).most_common():
        example = f", such as {counts.examples[reason]}" if reason in counts.examples else ""
        remedy = REMEDIES.get(reason) or DropReason(reason.partition(":")[0]).remedy
        lines.append(f"{reason} ({text_of(reason)}): {number:,}{example}" + (f"; {remedy}" if remedy else ""))
    return lines


def import_pair(source: Sequence[Any], out: str | Path, options: ImportOptions = _DEFAULTS) -> ImportResult:
    """Import two tables, the impressions first; each is a file, a glob, a folder, or an address with a query."""
    if isinstance(source, str) or len(source) != 2:
        count = 1 if isinstance(source, str) else len(source)
        raise DataError(f"{count} tables are given; give two, impressions and events, and quote globs and addresses")
    impressions, events = source
    return import_tables(impressions, events, out, options)


def import_tables(
    impressions: Any, events: Any, out: str | Path, options: ImportOptions = _DEFAULTS, wanted: Sequence[str] = ()
) -> ImportResult:
    """Join two tables to a log at `out`. `wanted` are columns that become attributes if the impressions have them."""
    with ExitStack() as stack:
        opened = _open(impressions, events, options, wanted, stack)
        return _convert(*opened, out, options)


def _convert(
    sources: dict[str, TableSource],
    columns: dict[str, TableColumns],
    shape: str,
    out: str | Path,
    options: ImportOptions,
) -> ImportResult:
    counts = ReadCounts()
    for one in columns.values():
        counts.assumptions[one.sentence] = None
    where = {table: f"{table} in {source.where}" if source.where else table for table, source in sources.items()}
    wrong = (lambda name: DropReason.WRONG_VALUE.of(name), lambda name: DropReason.WRONG_EVENT_VALUE.of(name))
    rows = ImpressionRows(
        columns[IMPRESSIONS], shape, options.method, RowChecks(where[IMPRESSIONS], counts, wrong[0], options.rankers)
    )
    event_rows = EventRows(columns[EVENTS], RowChecks(where[EVENTS], counts, wrong[1]))
    evidence = OwnerEvidence(options.rankers)
    first_rank = 1
    size = sum(UNKNOWN_PARTS * partition.PART if one.size is None else one.size * UNPACKED for one in sources.values())
    with ShuffleFile(size, (rows.schema, EVENT_SCHEMA), "impression") as shuffle:
        for batch in _batches(sources[IMPRESSIONS], columns[IMPRESSIONS], counts):
            converted = rows.convert(batch)
            evidence.add(converted)
            first_rank = min(first_rank, _first_rank(converted))
            shuffle.add(converted)
        for batch in _batches(sources[EVENTS], columns[EVENTS], counts):
            shuffle.add(event_rows.convert(batch))
        joiner = TableJoiner(
            shape,
            evidence,
            _defaults(columns[IMPRESSIONS], options, counts),
            first_rank if options.ordinals is None else options.ordinals,
            event_rows.first_rank if options.ordinals is None else options.ordinals,
            options.ordinals is None,
            counts,
        )
        number = write_batches(out, _join(shuffle, joiner, counts), late=counts.to_metadata)
    result = ImportResult(number, joiner.events, counts.dropped + counts.events, counts.examples)
    result.remarks = list(counts.assumptions)
    return result


def _open(
    impressions: Any, events: Any, options: ImportOptions, wanted: Sequence[str], stack: ExitStack
) -> tuple[dict[str, TableSource], dict[str, TableColumns], str]:
    """Both tables, their columns, and the shape of the impressions; one error lists all problems."""
    problems: list[InterleafError] = []
    sources: dict[str, TableSource] = {}
    for table, source in ((IMPRESSIONS, impressions), (EVENTS, events)):
        try:
            sources[table] = open_table(source, table, stack)
        except MissingExtraError:
            raise
        except InterleafError as problem:
            problems.append(problem)
    names = {table: source.columns for table, source in sources.items()}
    mapped = ColumnMap.of(options.map, names, problems) if len(sources) == 2 else ColumnMap({})
    columns: dict[str, TableColumns] = {}
    shape = ""
    for table, there in names.items():
        table_map = dict(mapped.by_table.get(table, {}))
        if table == IMPRESSIONS:
            table_map |= {
                f"{ATTRIBUTE}{name}": name for name in wanted if name in there and f"{ATTRIBUTE}{name}" not in table_map
            }
        columns[table] = find_columns(table, there, table_map, problems)
    if IMPRESSIONS in columns:
        shape = find_shape(columns[IMPRESSIONS], problems)
    if EVENTS in columns:
        check_place(columns[EVENTS], problems)
    raise_errors(problems)
    other = ("document", "rank") if shape != RESULTS else ("documents",)
    columns[IMPRESSIONS] = columns[IMPRESSIONS].without(*other)
    return sources, columns, shape


def _batches(source: TableSource, columns: TableColumns, counts: ReadCounts) -> Iterator[pa.RecordBatch]:
    return source.read(list(dict.fromkeys(columns.by_field.values())), counts)


def _first_rank(batch: pa.RecordBatch) -> int:
    """The number of the top position: 0 if some result has it, else 1."""
    if "rank" not in batch.schema.names:
        return 1
    return 0 if pc.any(pc.equal(batch.column("rank"), 0)).as_py() else 1


def _defaults(columns: TableColumns, options: ImportOptions, counts: ReadCounts) -> dict[str, Any]:
    """Values of columns that the impressions lack, or have nulls in; the assumptions behind them are noted."""
    if "experiment" not in columns and options.experiment == schema.DEFAULTS["experiment"]:
        counts.assumptions[schema.NO_EXPERIMENT] = None
    if "method" not in columns:
        counts.assumptions[
            f"there is no column of the method: lists are taken to be made by {options.method}; --method names another"
        ] = None
    return schema.DEFAULTS | {"experiment": options.experiment, "method": options.method}


def _join(shuffle: ShuffleFile, joiner: TableJoiner, counts: ReadCounts) -> Iterator[pa.RecordBatch]:
    """The log, partition by partition; an error if no impression is left."""
    impressions = 0
    for rows, events in shuffle.parts():
        batch = joiner.batch(rows, events)
        impressions += batch.num_rows
        if batch.num_rows:
            yield batch
    if not impressions:
        reasons = explain_drops(counts) or ["the table is empty"]
        raise DataError("\n  - ".join(["no impression can be used:", *reasons]))
