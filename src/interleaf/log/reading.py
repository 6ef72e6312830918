"""Read logs: files of any number and format, tables, streams; as record batches, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import pyarrow as pa

from interleaf import schema
from interleaf.errors import DataError
from interleaf.log import arrow, parquet, projection
from interleaf.log.files import File, files_of
from interleaf.log.joining import Counts, joined
from interleaf.log.projection import Projection

Progress = Callable[[int, int | None], None]  # impressions read, and how many there are, where that is known


class Reading(Counts):
    """A log on its way: iterate over its record batches, once.

    `columns` are the columns that some file has; JSON lines may have all of them. `rows` is the number of impressions,
    None while it is not known. While the log is read, `dropped` counts the lines that cannot be used, by reason,
    `examples` has the first of each, and `events` counts events that came twice (`repeated`) or without an impression
    (`unmatched`).
    """

    def __init__(
        self,
        columns: Iterable[str],
        rows: int | None,
        batches: Callable[[Counts], Iterator[pa.RecordBatch]],
        progress: Progress | None,
    ) -> None:
        super().__init__()
        self.columns, self.rows = tuple(columns), rows
        self._batches: Callable[[Counts], Iterator[pa.RecordBatch]] | None = batches
        self._progress = progress

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._batches is None:
            raise DataError("this log has been read, or is being read; call read again to read it again")
        batches, self._batches = self._batches(self), None
        return self._counted(batches)

    def _counted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
) -> Reading:
    """A log as record batches of at most `batch_size` rows, in memory that does not grow with the log.

    `source` is a path, a glob or a folder (with folders like `experiment=shop/` in it), or several of them: Parquet and
    JSON lines, also mixed (events that are lines of their own find impressions of JSON lines only). Or it is an Arrow
    table, a stream, a data frame of another library, or record batches.

    `columns` are the columns to read, where they exist; `events.kind` is a field inside one. `spare` are columns to
    read only where one that they stand in for is missing: `{"rankings": ["ranks"]}`. Types are those of the source:
    another width of the same kind may come, and Parquet's texts with few values come as dictionaries.

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
    asked = projection.of(columns, spare or {})
    if _is_paths(source):
        return _of_files(files_of(source), asked, batch_size, progress)
    found, rows, batches = arrow.opened(source)
    return Reading(found, rows, lambda counts: arrow.cut(batches, asked, batch_size), progress)


def _is_paths(source: Any) -> bool:
    if isinstance(source, (str, PathLike)):
        return True
    return isinstance(source, Sequence) and all(isinstance(one, (str, PathLike)) for one in source)


def _of_files(files: Sequence[File], asked: Projection, batch_size: int, progress: Progress | None) -> Reading:
    """Every file is looked at before the first is read: a mistake in the last one is not found after hours."""
    columns: dict[str, None] = {}
    rows: int | None = 0
    for file in files:
        if file.is_parquet:
            found, counts = parquet.look(file)
            rows = None if rows is None else rows + sum(counts)
        else:
            found, rows = schema.SCHEMA.names, None
        columns |= dict.fromkeys(found)

    def batches(counts: Counts) -> Iterator[pa.RecordBatch]:
        with joined([file for file in files if not file.is_parquet], counts) as lines:
            for file in files:
                yield from (parquet if file.is_parquet else lines).batches(file, asked, batch_size)

    return Reading(columns, rows, batches, progress)
