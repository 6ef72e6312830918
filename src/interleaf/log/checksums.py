"""Parquet files with checksums: one of each page, which Arrow checks when it reads the page, and one of the footer.

The footer names the columns and says where their pages are, and no checksum of Parquet covers it. So its CRC-32 is
written into the bytes before it, which no reader of Parquet looks at.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

MARK = b"interleaf footer crc32 "  # eight hexadecimal digits follow
_CHECKSUM_BYTES = len(MARK) + 8
_END = 8  # bytes behind the footer: its length, and b"PAR1"


def parquet_pieces(columns: pa.Schema, tables: Iterable[pa.Table | pa.RecordBatch]) -> Iterator[bytes]:
    """A Parquet file of tables, a row group each, piece by piece; in memory is one table at a time."""
    pieces = _Pieces()
    with pq.ParquetWriter(pa.PythonFile(pieces, "w"), columns, compression="zstd", write_page_checksum=True) as writer:
        for table in tables:
            writer.write(table)
            yield pieces.take()
    rest = pieces.take()
    footer = len(rest) - _END - int.from_bytes(rest[-_END:-4], "little")
    yield rest[:footer] + _checksum_of(rest[footer:]) + rest[footer:]


def check_footer(file: IO[bytes] | Any) -> None:
    """Raise an error if a Parquet file has a checksum of its footer that the footer does not match."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(size - _END, 0))
    end = file.read(_END)
    length = int.from_bytes(end[:4], "little") + _END
    if size < length + _CHECKSUM_BYTES:
        return  # an empty or a short file; Arrow says what is wrong with it
    file.seek(size - length - _CHECKSUM_BYTES)
    found = file.read(_CHECKSUM_BYTES)
    if found.startswith(MARK) and found != _checksum_of(file.read(length)):
        raise OSError("the checksum of its footer does not match")


def _checksum_of(footer: bytes) -> bytes:
    return MARK + b"%08x" % zlib.crc32(footer)


class _Pieces:
    """A file that is only written to; `take` reads what was written, and removes it."""

    closed = False

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        self._written += data
        return len(data)

    def take(self) -> bytes:
        written = bytes(self._written)
        self._written.clear()
        return written

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        self.closed = True
