"""The lines of a text file: plain or gzip, told apart by the first bytes; never a whole file at once."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast

from interleaf.errors import DataError

LONGEST = 64 * 2**20  # bytes of a line; of a longer one only the beginning is given
BLOCK = 2**18  # bytes that are read at once
_GZIP = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16, and of UTF-32, which may begin with the same


def lines_of(path: Path, size: int = sys.maxsize) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers from 1, up to a size: lines that are appended to a plain file meanwhile are not read.

    Every line ends in a newline, but for one that is longer than `LONGEST` and for a last one that has none.
    """
    for first, lines in blocks_of(path, size):
        yield from enumerate(lines, first)


def blocks_of(path: Path, size: int = sys.maxsize) -> Iterator[tuple[int, list[bytes]]]:
    """The same lines, some at a time: the number of the first, and the lines."""
    with open_text(path) as (raw, source):
        number = 1
        for block in _whole_lines(path, source, size if source is raw else sys.maxsize):
            lines = BytesIO(block).readlines()
            yield number, lines if len(block) <= LONGEST else [line[:LONGEST] for line in lines]
            number += len(lines)


@contextmanager
def open_text(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """A file as it is, and its text, which is the same or unpacked from gzip; a file that cannot be read is named."""
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(path.open("rb"))
            is_packed = raw.peek(len(_GZIP)).startswith(_GZIP)  # a pipe cannot seek
            yield raw, cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=raw))) if is_packed else raw
        except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
            raise DataError(f"{path} is a damaged gzip file ({problem}); fetch it again, or leave it out") from None
        except OSError as problem:
            raise DataError(f"{path} cannot be read ({problem}); check its permissions") from None


def _whole_lines(path: Path, source: BinaryIO, left: int) -> Iterator[bytes]:
    """Blocks that end where a line does; of a line that is too long, the end is left out."""
    head = source.read(min(left, 4))
    if head.startswith(_WIDE_MARKS) or b"\0" in head:
        raise DataError(
            f"{path} is encoded in UTF-16 or UTF-32; save it in UTF-8, such as by: "
            f"iconv -f UTF-16 -t UTF-8 {path} > utf8-{path.name}"
        )
    left -= len(head)
    rest = head.removeprefix(BYTE_ORDER_MARK)
    while data := source.read(min(left, BLOCK)):
        left -= len(data)
        end = data.rfind(b"\n") + 1
        if end:
            yield rest + data[:end]
            rest = data[end:]
        else:
            rest = (rest + data)[: LONGEST + 1]
    yield rest
