"""Reads Parquet files as record batches, a few pages at a time, and writes them with checksums.

Arrow checks the checksum of each page when it reads the page. No checksum of Parquet covers the footer, which names the
columns and says where their pages are. So we write the CRC-32 of the footer into the bytes before it, which other
readers of Parquet skip.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from interleaf.errors import DataError
from interleaf.log import schema
from interleaf.log.arrow import DEFAULTS, check_schema, normalise, with_defaults
from interleaf.log.event_join import ReadCounts
from interleaf.log.files import LogFile
from interleaf.log.page_join import find_continued, ids_among, paged_ids
from interleaf.log.schema import Projection, leaves

MARK = b"interleaf footer crc32 "  # eight hexadecimal digits follow
_CHECKSUM_BYTES = len(MARK) + 8
_END = 8  # bytes behind the footer: its length, and b"PAR1"


# Values that are nearly all different: with dictionaries, files are larger, and are written more slowly.
UNIQUE = ("impression", "time", "key", "events.event", "events.time", "events.dwell")


def parquet_pieces(
    columns: pa.Schema,
    tables: Iterable[pa.Table | pa.RecordBatch],
    late: Callable[[], Mapping[str, str]] = dict,
) -> Iterator[bytes]:
    """The bytes of a Parquet file, piece by piece: one row group per table, and only one table in memory at a time.

    `late` returns metadata that are known when all tables have been written.
    """
    pieces = io.BytesIO()

    def take() -> bytes:
        """What was written since the last call."""
        piece = pieces.getvalue()
        pieces.seek(0)
        pieces.truncate()
        return piece

    options = {"compression": "zstd", "write_page_checksum": True, "use_dictionary": _repeated_paths(columns)}
    with pq.ParquetWriter(pa.PythonFile(pieces, "w"), columns, **options) as writer:
        for table in tables:
            writer.write(table)
            yield take()
        writer.add_key_value_metadata(dict(late()))
    rest = take()
    footer = len(rest) - _END - int.from_bytes(rest[-_END:-4], "little")
    yield rest[:footer] + _checksum_of(rest[footer:]) + rest[footer:]


def _repeated_paths(columns: pa.Schema) -> list[str]:
    """The paths of all leaves that are written with dictionaries, as Parquet names them."""
    empty = io.BytesIO()
    pq.write_table(columns.empty_table(), empty)
    paths = _paths(pq.ParquetFile(empty))
    return [path for path in paths if path not in leaves(paths, UNIQUE)]


def _paths(parquet: pq.ParquetFile) -> list[str]:
    return [parquet.schema.column(number).path for number in range(len(parquet.schema))]


def check_footer(file: IO[bytes] | Any) -> None:
    """Raise an error if a Parquet file has a checksum of its footer that the footer does not match."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(size - _END, 0))
    length = int.from_bytes(file.read(_END)[:4], "little") + _END
    if size < length + _CHECKSUM_BYTES:
        return  # the file is too short; Arrow raises an error for it
    file.seek(size - length - _CHECKSUM_BYTES)
    checksum = file.read(_CHECKSUM_BYTES)
    if checksum.startswith(MARK) and checksum != _checksum_of(file.read(length)):
        raise OSError("the checksum of its footer does not match")


def _checksum_of(footer: bytes) -> bytes:
    return MARK + b"%08x" % zlib.crc32(footer)


BUFFER = 2**18  # bytes of a column that are read at a time, so that a whole row group is never in memory
REPEATED = ("experiment", "arm", "method", "rankers", "events.kind")  # few different values: read as dictionaries
DICTIONARY_COLUMNS = {path.split(".")[0] for path in REPEATED}


class ParquetInfo(NamedTuple):
    """The columns of a file and of its folders; the number of rows of each row group; which row groups may hold a
    further page of an impression; the assumptions made to read it, and the counts of its conversion from another log.
    """

    columns: list[str]
    rows: list[int]
    paged: list[int]
    counts: ReadCounts


def inspect(file: LogFile) -> ParquetInfo:
    """Check a file and describe what it contains."""
    with open_parquet(file) as parquet:
        columns = parquet.schema_arrow
        for name, value in file.folder_columns.items():
            columns = columns if name in columns.names else columns.append(pa.field(name, value.type))
        counts = ReadCounts(assumptions=dict.fromkeys(schema.assumptions_of(columns)))
        counts.add(ReadCounts.of_metadata(parquet.metadata.metadata or {}))
        names = check_schema(columns, str(file.path)).names
        groups = [parquet.metadata.row_group(number) for number in range(parquet.metadata.num_row_groups)]
        paths = _paths(parquet)
        page = paths.index("page") if "page" in paths else None
        paged = [number for number, group in enumerate(groups) if page is not None and _may_have_pages(group, page)]
        return ParquetInfo(names, [group.num_rows for group in groups], paged, counts)


def batches(
    file: LogFile, projection: Projection, batch_size: int, only: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """The wanted columns of a file, then those of its folders; `only` restricts them to some row groups."""
    with open_parquet(file) as checked:
        columns, metadata = checked.schema_arrow.names, checked.metadata
        paths = _paths(checked)
    defaults = DEFAULTS | file.folder_columns
    added = defaults.keys() - columns
    with open_parquet(file, metadata=metadata, read_dictionary=leaves(paths, REPEATED)) as parquet:
        for names, groups in groupby(
            range(metadata.num_row_groups) if only is None else only,
            key=lambda group: projection.select([*_whole(metadata.row_group(group), paths), *added]),
        ):
            read = None if names is None else leaves(paths, names)
            for group in groups:  # one by one, because Arrow cannot merge nested dictionaries of two row groups
                missing = metadata.row_group(group).num_rows
                for batch in parquet.iter_batches(batch_size, row_groups=[group], columns=read):
                    missing -= batch.num_rows
                    for name in DICTIONARY_COLUMNS & {*batch.schema.names}:
                        batch.column(name).validate(full=True)  # Arrow does not check indices when it reads
                    # A column without any value, such as events that are all empty, lacks the wanted leaves.
                    yield normalise(with_defaults(batch, defaults, names))
                if missing:  # the header of a page has no checksum: if it is damaged, Arrow may skip the page
                    raise OSError(f"row group {group + 1} lacks {missing:,} rows")


def find_pages(files: Sequence[tuple[LogFile, ParquetInfo]], batch_size: int) -> pa.Array:
    """The ids of impressions that have rows for several pages."""

    def read_columns(names: tuple[str, ...], is_paged: bool) -> Iterator[pa.RecordBatch]:
        for file, info in files:
            if info.paged or not is_paged:
                yield from batches(file, Projection(names, {}), batch_size, info.paged if is_paged else None)

    return find_continued(
        map(paged_ids, read_columns(("impression", "page"), True)),
        lambda ids: (ids_among(batch, ids) for batch in read_columns(("impression",), False)),
    )


def _may_have_pages(group: pq.RowGroupMetaData, column: int) -> bool:
    statistics = group.column(column).statistics
    if statistics is None:
        return True
    is_null = statistics.has_null_count and statistics.null_count == group.num_rows
    return not is_null and not (statistics.has_min_max and statistics.max < 2)


def _whole(group: pq.RowGroupMetaData, paths: list[str]) -> set[str]:
    """The columns of a row group that are never null or empty according to its statistics."""
    columns = {path.split(".")[0] for path in paths}
    for number, path in enumerate(paths):
        statistics = group.column(number).statistics
        if statistics is None or not statistics.has_null_count or statistics.null_count:
            columns.discard(path.split(".")[0])
    return columns


@contextmanager
def open_parquet(file: LogFile, **options: Any) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; errors while it is read name the file."""
    path = file.path
    try:
        if file.size == 0:
            raise DataError(f"{path} is empty; its writer was interrupted: write it again, or leave it out")
        with path.open("rb") if isinstance(path, Path) else path.open() as raw:
            if "metadata" not in options:  # otherwise the footer was checked before
                check_footer(raw)
            source = path if isinstance(path, Path) else raw
            with pq.ParquetFile(
                source,
                pre_buffer=not isinstance(path, Path),
                buffer_size=BUFFER,
                page_checksum_verification=True,
                **options,
            ) as parquet:
                yield parquet
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        words = " ".join(str(problem).split())
        raise DataError(
            f"{path} cannot be read as Parquet ({words}); it is cut off, damaged or something else: "
            "write or fetch it again, or leave it out"
        ) from None
