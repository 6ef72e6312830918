"""Reads logs (files of any number and format, tables, streams) as record batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import pyarrow as pa

from interleaf.errors import DataError
from interleaf.log import arrow, parquet, schema
from interleaf.log.csv_rows import csv_columns
from interleaf.log.event_join import ReadCounts, join_event_lines
from interleaf.log.files import LogFile, files_of
from interleaf.log.page_join import PageJoiner, find_continued, ids_among, paged_ids
from interleaf.log.schema import Projection

Progress = Callable[[int, int | None], None]  # impressions read so far, and their total number if known


class LogReading(ReadCounts):
    """A log that is being read: iterate over its record batches, once.

    `columns` are the columns that at least one file has; JSON lines may have all of them. `rows` is the number of
    impressions, None while it is not known. While the log is read, `dropped` counts the lines that cannot be used, by
    reason, `examples` has the first of each, and `events` counts events that came twice (`repeated`) or without an
    impression (`unmatched`). `assumptions` are codes of what the log does not say, such as its time zone.
    """

    def __init__(
        self,
        columns: Iterable[str],
        rows: int | None,
        batches: Callable[[ReadCounts], Iterator[pa.RecordBatch]],
        progress: Progress | None,
        assumptions: Iterable[str] = (),
    ) -> None:
        super().__init__(assumptions=dict.fromkeys(assumptions))
        self.columns, self.rows = tuple(columns), rows
        self._batches: Callable[[ReadCounts], Iterator[pa.RecordBatch]] | None = batches
        self._progress = progress

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._batches is None:
            raise DataError("this log has been read, or is being read; call read again to read it again")
        batches, self._batches = self._batches(self), None
        return self._count(batches)

    def _count(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = 0
        for batch in batches:
            yield batch
            count += batch.num_rows
            if self._progress is not None:
                self._progress(count, self.rows)
        self.rows = count


def read(
    source: Any,
    columns: Iterable[str] | None = None,
    *,
    spare: Mapping[str, Sequence[str]] | None = None,
    batch_size: int = 65_536,
    progress: Progress | None = None,
) -> LogReading:
    """Read a log as record batches of at most `batch_size` rows, in memory that does not grow with the log.

    `source` is a path, a glob or a folder (with folders like `experiment=shop/` in it), or several of them: Parquet and
    JSON lines, also mixed (events that are lines of their own are joined to impressions of JSON lines only). Or it is
    an Arrow table, a stream, a data frame of another library, or record batches.

    `columns` are the columns to read, if they exist; `events.kind` is a field inside one. `spare` are columns to read
    only if another column is missing: `{"rankings": ["ranks"]}` reads `rankings` if there are no `ranks`. Types are
    those of the source: integers may have another width, and texts with few values come as dictionaries from Parquet.

    >>> from interleaf import interleave
    >>> from interleaf.log import rows_to_batch
    >>> row = {"experiment": "example", "version": 1, "impression": "i-1", "time": "2026-11-15T12:00:00Z"}
    >>> batch = rows_to_batch([interleave([["a"], ["b"]], key="k").to_dict() | row | {"arm": "interleaved"}])
    >>> reading = read(batch, ["impression", "rankers"])
    >>> [batch.to_pylist() for batch in reading]
    [[{'impression': 'i-1', 'rankers': ['A', 'B']}]]
    """
    if batch_size < 1:
        raise DataError(f"batch_size is {batch_size!r}; give a whole number from 1 up")
    projection = schema.projection_of(columns, spare or {})
    if is_paths(source):
        return _of_files(files_of(source), projection, batch_size, progress)
    names, rows, assumptions, batches = arrow.open_table(source)
    table = batches if isinstance(batches, list) else []

    def of_table(counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        continued = find_continued(map(paged_ids, table), lambda ids: (ids_among(batch, ids) for batch in table))
        return _with_pages(
            PageJoiner(continued), projection, counts, lambda wanted: arrow.cut_batches(batches, wanted, batch_size)
        )

    return LogReading(names, rows, of_table, progress, assumptions)


def is_paths(source: Any) -> bool:
    """Whether this is a path, or a sequence of paths."""
    if isinstance(source, (str, PathLike)):
        return True
    return isinstance(source, Sequence) and all(isinstance(one, (str, PathLike)) for one in source)


def _of_files(files: list[LogFile], projection: Projection, batch_size: int, progress: Progress | None) -> LogReading:
    """Inspect all files before the first is read, so that an error in the last one is found at once."""
    columns: dict[str, None] = {}
    infos: list[tuple[LogFile, parquet.ParquetInfo]] = []
    for file in files:
        if file.is_parquet:
            infos.append((file, parquet.inspect(file)))
            columns |= dict.fromkeys(infos[-1][1].columns)
        else:  # JSON lines may have all columns
            columns |= dict.fromkeys(csv_columns(file) if file.is_csv else schema.SCHEMA.names)
    rows = sum(sum(info.rows) for _, info in infos) if len(infos) == len(files) else None

    def batches(counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        with join_event_lines([file for file in files if not file.is_parquet], counts) as lines:
            continued = parquet.find_pages(infos, batch_size)
            ids = pa.concat_arrays([continued, pa.array(sorted(lines.continued), pa.string())])
            pages = PageJoiner(ids, lines.lines_of)

            def read_with(wanted: Projection) -> Iterator[pa.RecordBatch]:
                for file in files:
                    yield from (parquet if file.is_parquet else lines).batches(file, wanted, batch_size)

            yield from _with_pages(pages, projection, counts, read_with)
        for _, info in infos:
            counts.add(info.counts)

    assumptions = (code for _, info in infos for code in info.counts.assumptions)
    return LogReading(columns, rows, batches, progress, assumptions)


def _with_pages(
    pages: PageJoiner,
    projection: Projection,
    counts: ReadCounts,
    read_with: Callable[[Projection], Iterator[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    """Batches with the pages of every impression joined; impressions with several pages come last."""
    if not pages:
        yield from read_with(projection)
        return
    for batch in read_with(projection.with_pages()):
        rest = pages.hold(batch)
        if rest.num_rows:
            yield projection.only(rest)
    yield from map(projection.only, pages.join())
    counts.dropped.update(+pages.dropped)
    counts.events.update(+pages.events)
