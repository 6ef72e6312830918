"""Write logs: record batches of the native schema to Parquet or JSON lines, in memory that does not grow with the log.

A file is written under a temporary name and renamed when it is whole: an interrupted run leaves nothing that could be
taken for a log.
"""

from __future__ import annotations

import gzip
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from itertools import chain
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from interleaf import schema
from interleaf.errors import DataError, listed

ROW_GROUP = 65_536  # rows: small enough to hold with captions and rankings, large enough to compress and to skip
EMPTY: dict[str, Any] = {"events": [], "attributes": {}}  # the only defaults: nothing happened, nothing is known
_IDS = ("documents", "rankings")


def write_batches(
    path: str | Path, batches: Iterable[pa.RecordBatch], metadata: Mapping[str, str] | None = None
) -> int:
    """Write a log by its ending, `.parquet`, `.jsonl` or `.jsonl.gz`; returns how many impressions it holds.

    An existing file is replaced. `metadata` goes into the metadata of a Parquet file; JSON lines have no place for it.
    """
    path = Path(path)
    write = _writer_for(path)
    with _whole_or_not_at_all(path) as file:
        return write(file, *_of_one_schema(batches, metadata or {}))


def rows_to_batch(rows: Iterable[Mapping[str, Any]]) -> pa.RecordBatch:
    """A record batch from impressions as dictionaries: `Interleaving.to_dict()` and the fields of the impression.

    Times are `datetime`s with a time zone, or ISO 8601 text; document ids become text. Nullable columns may be left
    out, and so may `events` and `attributes` where there are none; unknown names are kept as columns of their own.

    >>> from interleaf import interleave
    >>> shown = interleave([["a", "b"], ["b", "c"]], key=("example", "user-7"))
    >>> row = {"experiment": "example", "version": 1, "impression": "i-1", "time": "2026-11-15T12:00:00Z"}
    >>> batch = rows_to_batch([shown.to_dict() | row | {"arm": "interleaved", "unit": "user-7"}])
    >>> batch.num_rows, batch.schema.equals(schema.SCHEMA)
    (1, True)
    """
    rows = list(rows)
    known = {column.name for column in schema.COLUMNS}
    columns = {column.name: _array(column, rows) for column in schema.COLUMNS}
    for name in dict.fromkeys(name for row in rows for name in row if name not in known):
        columns[name] = _converted([row.get(name) for row in rows], None, name)
    fields = [*schema.SCHEMA, *(pa.field(name, columns[name].type) for name in columns if name not in known)]
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields, schema.SCHEMA.metadata))


def _array(column: schema.Column, rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    values = [row.get(column.name) for row in rows]
    if column.name in EMPTY:
        values = [EMPTY[column.name] if value is None else value for value in values]
    for number, value in enumerate(values):
        if value is None and not column.nullable:
            raise DataError(
                f"row {number + 1} has no {column.name!r} ({column.type}: {column.meaning}); it may not be left out"
            )
    try:
        for value in values:
            _refuse_text(value, column.type)
        values = [_prepared(column.name, value) for value in values]
    except (TypeError, ValueError, AttributeError) as problem:
        raise _refusal(column.name, column.type, problem) from None
    return _converted(values, column.type, column.name)


def _refuse_text(value: Any, kind: pa.DataType) -> None:
    """Text in place of a list: pyarrow would take it for a list of letters."""
    if value is not None and pa.types.is_list(kind):
        if isinstance(value, (str, bytes)):
            raise ValueError(f"{value!r} is one text; give a list")
        for item in value if pa.types.is_list(kind.value_type) else ():
            _refuse_text(item, kind.value_type)


def _prepared(name: str, value: Any) -> Any:
    """A value in the form that pyarrow takes: times in UTC, document ids as text."""
    if value is None:
        return None
    if name == "time":
        return _time(value)
    if name == "events":
        return [{**event, "time": _time(event["time"]) if event.get("time") is not None else None} for event in value]
    if name in _IDS:
        return [_text(item) if name == "documents" else [_text(document) for document in item] for item in value]
    return value


def _text(document: Any) -> Any:
    """A document's id as the log holds it: integers are ids, too."""
    return str(document) if isinstance(document, int) else document


def _time(value: Any) -> datetime:
    if not isinstance(value, (str, datetime)):
        raise ValueError(f"{value!r} is no time; give a datetime or ISO 8601 text")
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if moment.tzinfo is None:
        raise ValueError(f"the time {value!r} does not say its zone; give it one, such as UTC")
    return moment.astimezone(UTC)


def _converted(values: list[Any], kind: pa.DataType | None, name: str) -> pa.Array:
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
        raise _refusal(name, kind, problem) from None


def _refusal(name: str, kind: pa.DataType | None, problem: Exception) -> DataError:
    return DataError(f"column {name!r} cannot be written as {kind or 'one type'}: {problem}")


def _of_one_schema(
    batches: Iterable[pa.RecordBatch], metadata: Mapping[str, str]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema of the first batch, checked, with the file's metadata; and all batches, held to it."""
    given = iter(batches)
    first = next(given, None)
    found = schema.SCHEMA if first is None else first.schema
    schema.validate(found)
    words = {schema.VERSION_KEY: str(schema.VERSION)} | {name.encode(): text for name, text in metadata.items()}
    whole = found.with_metadata({**(found.metadata or {}), **words})

    def held() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(chain([] if first is None else [first], given)):
            if not batch.schema.equals(whole):
                raise DataError(
                    f"batch {number + 1} has the columns {batch.schema.names}, of other names or types than the first; "
                    "a log has one schema"
                )
            yield batch.replace_schema_metadata(whole.metadata)

    return whole, held()


def _write_parquet(file: IO[bytes], columns: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """Batches are gathered into row groups of one size, whatever theirs is."""
    count = 0
    with pq.ParquetWriter(file, columns, compression="zstd") as writer:
        waiting = pa.Table.from_batches([], columns)
        for batch in batches:
            count += batch.num_rows
            waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch])])
            while waiting.num_rows >= ROW_GROUP:
                writer.write_table(waiting.slice(0, ROW_GROUP), ROW_GROUP)
                waiting = waiting.slice(ROW_GROUP)
        if waiting.num_rows:
            writer.write_table(waiting, ROW_GROUP)
    return count


def _write_lines(file: IO[bytes] | gzip.GzipFile, columns: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """An impression a line; what is null is left out, and a map is an object."""
    maps = [field.name for field in columns if pa.types.is_map(field.type)]
    count = 0
    for batch in batches:
        for row in _rows(batch):
            row |= {name: dict(row[name]) for name in maps if row[name] is not None}
            try:
                line = json.dumps(_stripped(row), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            except ValueError:
                raise DataError(
                    f"impression {row.get('impression')!r} holds a number that JSON cannot: {row}"
                ) from None
            file.write(line.encode() + b"\n")
            count += 1
    return count


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows of a batch, of which few are Python objects at a time."""
    for start in range(0, batch.num_rows, 1024):
        yield from batch.slice(start, 1024).to_pylist()


def _write_zipped_lines(file: IO[bytes], columns: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    # No name and no time in the header: the same rows make the same file.
    with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as zipped:
        return _write_lines(zipped, columns, batches)


def _stripped(value: Any) -> Any:
    """JSON's form of a value: objects without nulls, times as ISO 8601 in UTC."""
    if isinstance(value, dict):
        return {name: _stripped(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_stripped(inner) for inner in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value


Writer = Callable[[IO[bytes], pa.Schema, Iterator[pa.RecordBatch]], int]
WRITERS: dict[str, Writer] = {
    ".parquet": _write_parquet,
    ".jsonl": _write_lines,
    ".jsonl.gz": _write_zipped_lines,
}


def _writer_for(path: Path) -> Writer:
    for ending, writer in WRITERS.items():
        if path.name.endswith(ending):
            return writer
    raise DataError(f"cannot tell the format of the log {path.name!r} from its name; end it in {listed(WRITERS)}")


@contextmanager
def _whole_or_not_at_all(path: Path) -> Iterator[IO[bytes]]:
    """A file under a temporary name in the same folder: renamed at the end, removed if anything goes wrong."""
    if not path.parent.is_dir():
        raise DataError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # a rename must not reach the disk before the rows do
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
