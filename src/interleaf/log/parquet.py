"""Parquet files as record batches: a file is looked at first, then read a few pages at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from interleaf.errors import DataError
from interleaf.log.arrow import DEFAULTS, checked, with_columns, with_maps
from interleaf.log.files import File
from interleaf.log.projection import Projection, is_wanted, leaves

BUFFER = 2**18  # bytes of a column that are read at a time: a row group of any size is never held whole
REPEATED = ("experiment", "arm", "method", "rankers", "events.kind")  # few values, over and over: read as dictionaries


def look(file: File) -> tuple[list[str], list[int]]:
    """The columns of a file, checked, with those of its folders; and how many rows each of its row groups has."""
    with _opened(file) as parquet:
        found = parquet.schema_arrow
        for name, value in _added(file, found.names).items():
            found = found.append(pa.field(name, value.type))
        checked(found, str(file.path))
        groups = range(parquet.metadata.num_row_groups)
        return found.names, [parquet.metadata.row_group(group).num_rows for group in groups]


def batches(
    file: File, projection: Projection, batch_size: int, only: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """The wanted columns of a file, those of its folders last; of some of its row groups only, if they are named."""
    with _opened(file) as seen:
        columns, metadata = seen.schema_arrow.names, seen.metadata
        paths = [seen.schema.column(number).path for number in range(len(seen.schema))]
    added = _added(file, columns)
    with _opened(file, metadata=metadata, read_dictionary=leaves(paths, REPEATED)) as parquet:
        for names, groups in groupby(
            range(metadata.num_row_groups) if only is None else only,
            key=lambda group: projection.wanted([*_whole(metadata.row_group(group), paths), *added]),
        ):
            wanted = {name: value for name, value in added.items() if is_wanted(name, names)}
            read = None if names is None else leaves(paths, names)
            for group in groups:  # one by one: Arrow cannot put nested dictionaries of two row groups together
                for batch in parquet.iter_batches(batch_size, row_groups=[group], columns=read):
                    yield with_maps(with_columns(batch, wanted))


def _whole(group: pq.RowGroupMetaData, paths: list[str]) -> set[str]:
    """The columns of a row group that are never null, nor empty, as far as its statistics tell."""
    found = {path.split(".")[0] for path in paths}
    for number, path in enumerate(paths):
        statistics = group.column(number).statistics
        if statistics is None or not statistics.has_null_count or statistics.null_count:
            found.discard(path.split(".")[0])
    return found


def _added(file: File, columns: list[str]) -> dict[str, pa.Scalar]:
    """The columns that a file lacks, and that its folders give, or that have a default."""
    return {name: value for name, value in (DEFAULTS | file.said).items() if name not in columns}


@contextmanager
def _opened(file: File, **options: Any) -> Iterator[pq.ParquetFile]:
    """A Parquet file; what is wrong with it, at its end or in its middle, is said with its name."""
    path = file.path
    try:
        if file.size == 0:
            raise DataError(f"{path} is empty; its writer was interrupted: write it again, or leave it out")
        source = path if isinstance(path, Path) else path.open()
        with pq.ParquetFile(source, pre_buffer=not isinstance(path, Path), buffer_size=BUFFER, **options) as parquet:
            yield parquet
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        words = " ".join(str(problem).split())
        raise DataError(
            f"{path} cannot be read as Parquet ({words}); it is cut off, damaged or something else: "
            "write or fetch it again, or leave it out"
        ) from None
