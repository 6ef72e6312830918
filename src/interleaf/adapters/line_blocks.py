"""The lines of a text file some at a time, plain or gzip, told apart by the first bytes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from interleaf.errors import DataError

AT_ONCE = 4 * 2**20  # bytes, about
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def end_of_lines(block: bytearray) -> int:
    """Behind the last newline."""
    return block.rfind(b"\n") + 1


def blocks_of(path: Path, end_of: Callable[[bytearray], int] = end_of_lines) -> Iterator[memoryview]:
    """Whole lines with their newlines, which the last one of the file may lack; `end_of` says where to cut a block."""
    try:
        with path.open("rb") as raw:
            is_packed = raw.peek(len(_GZIP)).startswith(_GZIP)
            source: Any = gzip.GzipFile(fileobj=raw) if is_packed else raw
            rest = source.read(len(_BYTE_ORDER_MARK)).removeprefix(_BYTE_ORDER_MARK)
            while True:
                block = bytearray(rest) + bytearray(AT_ONCE)
                size = source.readinto(memoryview(block)[len(rest) :])
                del block[len(rest) + size :]
                end = end_of(block) if size else len(block)
                rest = bytes(block[end:])
                if end:
                    yield memoryview(block)[:end]
                if not size:
                    return
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise DataError(f"{path} is a damaged gzip file ({problem}); fetch it again, or leave it out") from None
    except OSError as problem:
        raise DataError(f"{path} cannot be read ({problem}); check its permissions") from None


def lines_of(block: bytes | memoryview) -> pa.LargeBinaryArray:
    """The lines of a block with their newlines, without a copy.

    >>> lines_of(b"one\\ntwo").to_pylist()
    [b'one\\n', b'two']
    """
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1
    is_open = len(block) > (ends[-1] if len(ends) else 0)
    offsets = np.concatenate([[0], ends, [len(block)] if is_open else []]).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
