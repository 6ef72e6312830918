"""A log of Parquet files cut into parts, each a run of row groups, that machines read one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from interleaf.errors import DataError
from interleaf.log import parquet
from interleaf.log.files import File, Paths, files_of
from interleaf.log.projection import Projection
from interleaf.log.remote import Address

BATCH = 32_768  # rows read at a time, as many as the local engine reads
ROWS = 2_000_000  # of a part, about: enough for its sums to be small beside it
LOOKING = 16  # files looked at together: of a distant store, each is a wait


class Piece(NamedTuple):
    """Row groups of one file."""

    file: File
    groups: tuple[int, ...]


Part = tuple[Piece, ...]


class Parts(NamedTuple):
    """The parts of a log, in its order; whether an impression may go on over pages; and what is assumed to read it."""

    parts: list[Part]
    may_have_pages: bool
    assumptions: list[str]


def parts_of(paths: Paths, least: int = 1, number: int = 0) -> Parts:
    """The parts of a log: at most `number` of them, or a multiple of the least that is given.

    Every file is looked at before the first is read: a mistake in the last one is not found after hours.
    """
    files = files_of(paths)
    for file in files:
        if not file.is_parquet:
            raise DataError(
                f"{file.path} is no Parquet file, and Spark reads Parquet only; interleaf.log.convert makes it one"
            )
    with ThreadPoolExecutor(LOOKING) as pool:
        looked = list(pool.map(parquet.look, files))
    files = [file._replace(path=_absolute(file.path)) for file in files]
    groups = [(place, group) for place, one in enumerate(looked) for group in range(len(one.rows))]
    rows = [count for one in looked for count in one.rows]
    wanted = number or least * max(1, -(-sum(rows) // (ROWS * least)))
    found = [_pieces([groups[place] for place in run], files) for run in _runs(rows, wanted)] or [()]
    assumptions = dict.fromkeys(sentence for one in looked for sentence in one.assumptions)
    return Parts(found, any(one.paged for one in looked), list(assumptions))


def _absolute(path: Path | Address) -> Path | Address:
    """What it is on machines that work in another folder."""
    return path.absolute() if isinstance(path, Path) else path


def _runs(rows: Sequence[int], wanted: int) -> Iterator[list[int]]:
    """Places of row groups, cut into at most so many runs of about as many rows: each goes where its middle lies.

    >>> list(_runs([10, 10, 30, 10], 2))
    [[0, 1], [2, 3]]
    """
    total, before, middles = sum(rows) or 1, 0, []
    for count in rows:
        middles.append((2 * before + count) * wanted // (2 * total))
        before += count
    for _, run in groupby(range(len(rows)), key=middles.__getitem__):
        yield list(run)


def _pieces(groups: Sequence[tuple[int, int]], files: Sequence[File]) -> Part:
    by_file = groupby(groups, key=lambda one: one[0])
    return tuple(Piece(files[place], tuple(group for _, group in found)) for place, found in by_file)


def read(part: Part, projection: Projection) -> Iterator[pa.RecordBatch]:
    """The rows of a part, in the order of the log."""
    for file, groups in part:
        yield from parquet.batches(file, projection, BATCH, groups)
