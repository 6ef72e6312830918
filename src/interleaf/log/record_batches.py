"""Makes record batches from dictionaries, writes them to one file, and converts any log to one file.

A file is written under a temporary name and renamed when it is complete, so an interrupted run leaves no partial log.
"""

from __future__ import annotations

import gzip
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from interleaf.errors import DataError, join_names
from interleaf.log import schema
from interleaf.log.arrow import NOT_ISO, check_batches, normalise
from interleaf.log.parquet import parquet_pieces
from interleaf.log.reader import LogReading, read
from interleaf.log.schema import TIME_EXAMPLE
from interleaf.log.validation import RULES

# The only defaults: no events, no attributes.
EMPTY: dict[str, Any] = {name: schema.DEFAULTS[name] for name in ("events", "attributes")}


def rows_to_batch(rows: Iterable[Mapping[str, Any]]) -> pa.RecordBatch:
    """Make a record batch from impressions as dictionaries: `Interleaving.to_dict()` and the impression's fields.

    Times are `datetime`s with a time zone, or ISO 8601 text; document ids become text. Nullable columns may be left
    out, and so may `events` and `attributes` if there are none. Unknown names become columns of their own, except
    the `fixed` of `to_dict`: a log holds no fixed documents. `Interleaving.rank_in_log` gives the ranks to log.

    >>> from interleaf import interleave
    >>> shown = interleave([["a", "b"], ["b", "c"]], key=("example", "user-7"))
    >>> row = {"experiment": "example", "version": 1, "impression": "i-1", "time": "2026-11-15T12:00:00Z"}
    >>> batch = rows_to_batch([shown.to_dict() | row | {"arm": "interleaved", "unit": "user-7"}])
    >>> batch.num_rows, batch.schema.equals(schema.SCHEMA)
    (1, True)
    """
    rows = list(rows)
    names = {*schema.SCHEMA.names, "fixed"}
    others = dict.fromkeys(name for row in rows for name in row if name not in names)
    columns: dict[str, pa.Array] = {}
    for column in schema.COLUMNS:
        values = [row.get(column.name) for row in rows]
        if column.name in EMPTY:
            values = [EMPTY[column.name] if value is None else value for value in values]
        lacking = [number for number, value in enumerate(values, 1) if value is None]
        if lacking and not column.nullable:
            value = f"{column.name!r} ({column.type}: {column.meaning})"
            raise DataError(f"row {lacking[0]} has no {value}; it may not be left out")
        columns[column.name] = _array(values, column.name, column.type)
    for name in others:
        columns[name] = _array([row.get(name) for row in rows], name)
    fields = [*schema.SCHEMA, *(pa.field(name, columns[name].type) for name in others)]
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields, schema.SCHEMA.metadata))


def _array(values: list[Any], name: str, kind: pa.DataType | None = None) -> pa.Array:
    """The values of a column as Arrow takes them, checked if the column is one of the schema, with a known type."""
    try:
        if kind is not None:
            check = RULES[name].check
            values = [None if value is None else check(value) for value in values]
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
        raise DataError(f"column {name!r} cannot be written as {kind or 'one type'}: {problem}") from None


LateMetadata = Callable[[], Mapping[str, str]]
ROW_GROUP = 65_536  # rows: few enough to fit into memory with captions and rankings, enough to compress well


def write_batches(
    path: str | Path,
    batches: Iterable[pa.RecordBatch],
    metadata: Mapping[str, str] | None = None,
    late: LateMetadata = dict,
) -> int:
    """Write a log in the format of its ending, `.parquet`, `.jsonl` or `.jsonl.gz`; returns the number of impressions.

    An existing file is replaced. `metadata` goes into the metadata of a Parquet file, and so does what `late` returns
    when all batches have been written; JSON lines have no place for it.
    """
    path = Path(path)
    write = next((writer for ending, writer in WRITERS.items() if path.name.endswith(ending)), None)
    if write is None:
        raise DataError(
            f"cannot tell the format of the log {path.name!r} from its name; end it in {join_names(WRITERS)}"
        )
    with whole_file(path) as file:
        return write(file, *_of_one_schema(batches, metadata or {}), late)


def _of_one_schema(
    batches: Iterable[pa.RecordBatch], metadata: Mapping[str, str]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema of the first batch with the file's metadata, and all batches, which must have this schema."""
    rest = map(normalise, check_batches(batches))
    first = next(rest, None)
    columns = schema.SCHEMA if first is None else first.schema
    schema.validate(columns)
    words = {schema.VERSION_KEY: str(schema.VERSION)} | {name.encode(): text for name, text in metadata.items()}
    whole = columns.with_metadata({**(columns.metadata or {}), **words})

    def with_metadata() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(chain([] if first is None else [first], rest)):
            if not batch.schema.equals(whole):
                raise DataError(
                    f"batch {number + 1} has the columns {batch.schema.names}, of other names or types than the first; "
                    "a log has one schema"
                )
            yield batch.replace_schema_metadata(whole.metadata)

    return whole, with_metadata()


def _write_parquet(file: IO[bytes], columns: pa.Schema, batches: Iterator[pa.RecordBatch], late: LateMetadata) -> int:
    """Write row groups of one size, whatever the size of the batches."""
    count = 0

    def row_groups() -> Iterator[pa.Table]:
        nonlocal count
        waiting = pa.Table.from_batches([], columns)
        for batch in batches:
            count += batch.num_rows
            waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch])])
            while waiting.num_rows >= ROW_GROUP:
                yield waiting.slice(0, ROW_GROUP)
                waiting = waiting.slice(ROW_GROUP)
        if waiting.num_rows:
            yield waiting

    for piece in parquet_pieces(columns, row_groups(), late):
        file.write(piece)
    return count


def _write_lines(file: IO[bytes], columns: pa.Schema, batches: Iterator[pa.RecordBatch], late: LateMetadata) -> int:
    """Write one impression per line; nulls are left out, and a map is an object."""
    maps = [field.name for field in columns if pa.types.is_map(field.type)]
    count = 0
    for count, row in enumerate(rows_of(batches), 1):  # noqa: B007
        file.write(line_of(row | {name: dict(row[name]) for name in maps if row[name] is not None}))
    return count


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """The rows of batches as dictionaries, only 1,024 of them at a time."""
    for batch in batches:
        for start in range(0, batch.num_rows, 1024):
            yield from batch.slice(start, 1024).to_pylist()


def line_of(row: Mapping[str, Any]) -> bytes:
    """A line of JSON, its newline included: without nulls, times as ISO 8601 in UTC."""
    try:
        text = json.dumps(_strip(dict(row)), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        raise DataError(f"impression {row.get('impression')!r} holds text that is not Unicode: {row}") from None
    except ValueError:
        raise DataError(f"impression {row.get('impression')!r} holds a number that JSON cannot: {row}") from None


def iso(moment: datetime) -> str:
    """A time as ISO 8601 in UTC, with full precision."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _strip(value: Any) -> Any:
    """A value as JSON takes it: objects without nulls, times as ISO 8601 in UTC."""
    if isinstance(value, dict):
        return {name: _strip(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_strip(inner) for inner in value]
    if isinstance(value, datetime):
        return iso(value)
    return value.isoformat() if isinstance(value, date) else value


Writer = Callable[[IO[bytes], pa.Schema, Iterator[pa.RecordBatch], LateMetadata], int]
WRITERS: dict[str, Writer] = {".parquet": _write_parquet, ".jsonl": _write_lines, ".jsonl.gz": _write_lines}


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file under a temporary name in the same folder; it is renamed at the end, or removed after an error.

    A file whose name ends in `.gz` is packed.
    """
    if not path.parent.is_dir():
        raise DataError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with open(temporary, "wb") as file:
            if path.suffix == ".gz":  # without name and time, so that the same rows always make the same file
                with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed:
                    yield cast(IO[bytes], packed)
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())  # a rename must not reach the disk before the rows do
        os.replace(temporary, path)
    except OSError as problem:
        raise DataError(f"cannot write {path}: {problem.strerror or problem}") from problem
    finally:
        temporary.unlink(missing_ok=True)


def convert(source: Any, path: str | Path) -> LogReading:
    """Write a log, such as the folder of a `LogWriter`, as one file; the result has counts of what was left out.

    `source` is as for `read`, `path` as for `write_batches`. Columns that are not in the schema are left out.
    """
    reading = read(source, schema.SCHEMA.names)
    write_batches(path, _native(reading, f"{source}: " if isinstance(source, (str, PathLike)) else ""))
    return reading


def _native(batches: Iterable[pa.RecordBatch], where: str) -> Iterator[pa.RecordBatch]:
    before = 0
    for batch in batches:
        arrays = [_column(batch, column, before, where) for column in schema.COLUMNS]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema.SCHEMA)
        before += batch.num_rows


def _column(batch: pa.RecordBatch, column: schema.Column, before: int, where: str) -> pa.Array:
    """A column in the type of the schema; an error names the row, counted from `before`."""
    place = batch.schema.get_field_index(column.name)
    if place < 0:
        return pa.nulls(batch.num_rows, column.type)
    values = batch.column(place)
    if values.null_count and not column.nullable:
        row = values.is_null().index(pa.scalar(True)).as_py()
        problem = f"there is no {column.name!r} ({column.meaning}); it may not be left out"
        if text := (batch.schema.metadata or {}).get(NOT_ISO.get(column.name, b"")):
            problem = (
                f"column {column.name!r}: {text.decode()} is not a time in ISO 8601; write it such as {TIME_EXAMPLE}"
            )
        raise DataError(f"{where}row {before + row + 1:,}: {problem}")
    options = pc.CastOptions(column.type, allow_time_truncate=True)
    try:
        return values.cast(options=options)
    except pa.ArrowException as problem:
        for row in range(len(values)):
            try:
                values.take(pa.array([row])).cast(options=options)
            except pa.ArrowException:
                reason = f"column {column.name!r} cannot be written as {column.type}: {problem}"
                raise DataError(f"{where}row {before + row + 1:,}: {reason}") from None
        raise
