"""The lines of a text file some at a time, plain or gzip, told apart by the first bytes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import cast

from interleaf.errors import DataError

AT_ONCE = 2**20  # bytes, about
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def blocks_of(path: Path) -> Iterator[list[bytes]]:
    """Lines with their newlines, which the last one may lack."""
    try:
        with path.open("rb") as raw:
            is_packed = raw.peek(len(_GZIP)).startswith(_GZIP)
            source = BufferedReader(cast(BufferedReader, gzip.GzipFile(fileobj=raw))) if is_packed else raw
            lines = source.readlines(AT_ONCE)
            if lines:
                lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
            while lines:
                yield lines
                lines = source.readlines(AT_ONCE)
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise DataError(f"{path} is a damaged gzip file ({problem}); fetch it again, or leave it out") from None
    except OSError as problem:
        raise DataError(f"{path} cannot be read ({problem}); check its permissions") from None
