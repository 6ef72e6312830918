"""Write logs: record batches of the native schema to Parquet or JSON lines, in memory that does not grow with the log.

A file is written under a temporary name and renamed when it is whole: an interrupted run leaves nothing that could be
taken for a log.
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
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from interleaf import schema
from interleaf.errors import DataError, listed
from interleaf.log.arrow import each_checked
from interleaf.log.checksums import parquet_pieces
from interleaf.log.normal import normal

ROW_GROUP = 65_536  # rows: small enough to hold with captions and rankings, large enough to compress and to skip


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


def _of_one_schema(
    batches: Iterable[pa.RecordBatch], metadata: Mapping[str, str]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema of the first batch, checked, with the file's metadata; and all batches, held to it."""
    given = map(normal, each_checked(batches))
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

    for piece in parquet_pieces(columns, row_groups()):
        file.write(piece)
    return count


def _write_lines(file: IO[bytes] | gzip.GzipFile, columns: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """An impression a line; what is null is left out, and a map is an object."""
    maps = [field.name for field in columns if pa.types.is_map(field.type)]
    count = 0
    for batch in batches:
        for row in _rows(batch):
            file.write(line_of(row | {name: dict(row[name]) for name in maps if row[name] is not None}))
            count += 1
    return count


def line_of(row: Mapping[str, Any]) -> bytes:
    """A line of JSON, its newline included: without nulls, times as ISO 8601 in UTC."""
    try:
        text = json.dumps(_stripped(dict(row)), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        raise DataError(f"impression {row.get('impression')!r} holds text that is not Unicode: {row}") from None
    except ValueError:
        raise DataError(f"impression {row.get('impression')!r} holds a number that JSON cannot: {row}") from None


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
