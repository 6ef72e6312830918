"""The lines of a text file: plain or gzip, told apart by the first bytes; never a whole file at once."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, cast

from interleaf.errors import DataError

LONGEST = 64 * 2**20  # bytes of a line; of a longer one only the beginning is given
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16, and of UTF-32, which may begin with the same


class _WideTextError(Exception):
    """A text file with more than one byte for each character."""


def lines_of(path: Path, size: int) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers from 1, up to a size: what is appended to a plain file meanwhile is for the next time.

    Every line ends in a newline, but for one that is longer than `LONGEST` and for a last one that has none.
    """
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(path.open("rb"))
            is_packed = raw.read(len(_GZIP)) == _GZIP
            raw.seek(0)
            source = cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=raw))) if is_packed else raw
            yield from _numbered(source, sys.maxsize if is_packed else size)
        except _WideTextError:
            raise DataError(
                f"{path} is encoded in UTF-16 or UTF-32; save it in UTF-8, such as by: "
                f"iconv -f UTF-16 -t UTF-8 {path} > utf8-{path.name}"
            ) from None
        except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
            raise DataError(f"{path} is a damaged gzip file ({problem}); fetch it again, or leave it out") from None
        except OSError as problem:
            raise DataError(f"{path} cannot be read ({problem}); check its permissions") from None


def _numbered(source: BinaryIO, left: int) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := source.readline(min(left, LONGEST)):
        left -= len(line)
        number += 1
        if number == 1 and (line.startswith(_WIDE_MARKS) or b"\0" in line[:4]):
            raise _WideTextError
        yield number, line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
        while len(line) == LONGEST and not line.endswith(b"\n") and left:
            line = source.readline(min(left, LONGEST))
            left -= len(line)
