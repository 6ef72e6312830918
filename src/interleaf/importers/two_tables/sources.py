"""Opens a table as record batches: files (Parquet, CSV, JSON lines), data frames, Arrow, queries of a database.

Columns of CSV and JSON lines are text, null where a cell is empty; lists and objects in JSON lines become JSON text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv as arrow_csv

from interleaf.errors import DataError
from interleaf.importers.two_tables import databases
from interleaf.log import schema
from interleaf.log.arrow import table_of_frame
from interleaf.log.drop_reasons import DropReason
from interleaf.log.event_join import ReadCounts
from interleaf.log.files import LogFile, files_of
from interleaf.log.jsonl import LineError, lines_of, parse_line
from interleaf.log.parquet import open_parquet
from interleaf.log.reader import is_paths

BATCH = 65_536  # rows read at a time
DUCKDB = ("duckdb", "_duckdb")
LINES = 8_192  # lines that are Python objects at a time
Batches = Callable[[Sequence[str], ReadCounts], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class TableSource:
    """A table that can be read once: what to call it ('' for one in memory), its columns, and how to read some of them.

    `size` is its size in bytes, None if that is not known.
    """

    where: str
    columns: tuple[str, ...]
    read: Batches
    size: int | None = None


def open_table(source: Any, table: str, stack: ExitStack) -> TableSource:
    """Open a table, which `stack` closes; errors say which of the two it is."""
    if isinstance(source, str) and databases.is_address(source):
        reader = databases.open_query(source, stack)
        return _of_batches(reader.where, reader.schema, reader.batches)
    if is_paths(source):
        return _of_files(files_of(source))
    return _of_frame(source, table)


def _of_batches(
    where: str, columns: pa.Schema, batches: Iterable[pa.RecordBatch], size: int | None = None
) -> TableSource:
    def read(names: Sequence[str], counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.select(list(names))

    return TableSource(where, tuple(columns.names), read, size)


def _of_frame(source: Any, table: str) -> TableSource:
    """A table in memory, or a stream of another library."""
    source = table_of_frame(source, _of_pandas)
    if isinstance(source, pa.Table):
        return _of_batches("", source.schema, source.to_batches(BATCH), source.nbytes)
    kind = type(source).__name__
    if hasattr(source, "__arrow_c_stream__"):
        try:
            if type(source).__module__.startswith(DUCKDB):  # a connection has room for one open result
                columns = pa.RecordBatchReader.from_stream(source.limit(0)).read_all().schema
                return _of_batches("", columns, _streamed(source))
            reader = pa.RecordBatchReader.from_stream(source)
        except pa.ArrowException as problem:
            raise DataError(f"the {table} of type {kind} are not a table ({problem}); give one") from None
        return _of_batches("", reader.schema, reader)
    raise DataError(f"the {table} are of type {kind}; give a path, an address with ?query=, or a data frame")


def _streamed(source: Any) -> Iterator[pa.RecordBatch]:
    yield from pa.RecordBatchReader.from_stream(source)


def _of_pandas(frame: Any) -> pa.Table:
    """A table of all columns; those of several Python types become text, lists and objects in them JSON text."""
    columns = {}
    for name in frame.columns:
        try:
            columns[str(name)] = pa.array(frame[name], from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError):
            values = [None if value is None or value != value else _text(value) for value in frame[name].tolist()]
            columns[str(name)] = pa.array(values, pa.string())
    return pa.table(columns)


def _of_files(files: Sequence[LogFile]) -> TableSource:
    """Files of any format, also mixed: a column that a file lacks is null there."""
    names = dict.fromkeys(name for file in files for name in (*_names_of(file), *file.folder_columns))

    def read(names: Sequence[str], counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        for file in files:
            for batch in _READERS[_format(file)](file, names, counts):
                yield _completed(batch, names, file)

    where = str(files[0].path) if len(files) == 1 else f"{files[0].path} and {len(files) - 1} more"
    return TableSource(where, tuple(names), read, sum(file.size for file in files))


def _completed(batch: pa.RecordBatch, names: Sequence[str], file: LogFile) -> pa.RecordBatch:
    """The columns in order; those that the file lacks have the value of its folder's name, or null."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    for name in names:
        if name not in columns:
            value = file.folder_columns.get(name)
            columns[name] = pa.nulls(len(batch)) if value is None else pa.repeat(value, len(batch))
    return pa.RecordBatch.from_arrays([columns[name] for name in names], list(names))


def _format(file: LogFile) -> str:
    return "parquet" if file.is_parquet else "csv" if file.is_csv else "lines"


def _names_of(file: LogFile) -> list[str]:
    """The names of the columns of a file; JSON lines are read for them."""
    if file.is_parquet:
        with open_parquet(file) as parquet:
            return list(parquet.schema_arrow.names)
    if file.is_csv:
        with _open_csv(file) as reader:
            names: list[str] = reader.schema.names
        schema.refuse([f"two columns are named {name!r}; keep one" for name in _repeated(names)], str(file.path))
        return names
    return list({name: None for value in _objects(file, ReadCounts()) for name in value})


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _read_parquet(file: LogFile, names: Sequence[str], counts: ReadCounts) -> Iterator[pa.RecordBatch]:
    with open_parquet(file) as parquet:
        present = [name for name in names if name in parquet.schema_arrow.names]
        yield from parquet.iter_batches(BATCH, columns=present)


def _read_csv(file: LogFile, names: Sequence[str], counts: ReadCounts) -> Iterator[pa.RecordBatch]:
    with _open_csv(file, names, counts) as reader:
        yield from reader


@contextmanager
def _open_csv(file: LogFile, names: Sequence[str] = (), counts: ReadCounts | None = None) -> Iterator[Any]:
    """Open a CSV file whose first row names its columns; rows of another length are dropped and counted."""

    def skip(row: Any) -> str:
        if counts is not None:
            problem = f"the row has {row.actual_columns} cells, and the first one {row.expected_columns}"
            counts.drop(file, row.number or 0, LineError(DropReason.CELL_COUNT, problem))
        return "skip"

    try:
        with pa.input_stream(str(file.path), compression="detect") as stream:
            yield arrow_csv.open_csv(
                stream,
                read_options=arrow_csv.ReadOptions(use_threads=False, block_size=2**22),
                parse_options=arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    include_columns=list(names),
                    include_missing_columns=True,
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=True,
                    null_values=[""],
                ),
            )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        words = " ".join(str(problem).split())
        raise DataError(
            f"{file.path} cannot be read as CSV ({words}); write UTF-8, with commas, columns named first"
        ) from None


def _read_lines(file: LogFile, names: Sequence[str], counts: ReadCounts) -> Iterator[pa.RecordBatch]:
    objects = _objects(file, counts)
    while some := list(islice(objects, LINES)):
        cells = [[_text(one.get(name)) for one in some] for name in names]
        yield pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in cells], list(names))


def _text(value: Any) -> str | None:
    """A value of JSON as a cell of text."""
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


def _objects(file: LogFile, counts: ReadCounts) -> Iterator[dict[str, Any]]:
    for number, line in lines_of(file.here, file.size):
        try:
            if line.strip():
                yield parse_line(line)
        except LineError as problem:
            counts.drop(file, number, problem)


_READERS = {"parquet": _read_parquet, "csv": _read_csv, "lines": _read_lines}
