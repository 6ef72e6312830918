"""From files to pieces of whole lines: plain or gzip, told apart by their first bytes, never a whole file at once."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from interleaf.errors import DataError

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]
Progress = Callable[[int, int], None]  # bytes done, bytes in all

PIECE = 4 * 2**20
_LONGEST_LINE = 64 * 2**20
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Piece(NamedTuple):
    """Whole lines of a file, and how many lines of it come before them."""

    path: Path
    before: int
    text: bytes
    lines: int


class Meter:
    """Counts bytes over several files and tells them on."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.total, self.progress, self.finished = total, progress, 0

    def at(self, position: int) -> None:
        """So many bytes of the file at hand are read."""
        if self.progress:
            self.progress(min(self.finished + position, self.total), self.total)

    def end(self, size: int) -> None:
        """A file of this size is read."""
        self.finished += size
        self.at(0)


def existing(paths: Paths) -> list[Path]:
    """The files, all of which must be there."""
    files = [Path(paths)] if isinstance(paths, (str, PathLike)) else [Path(path) for path in paths]
    if not files:
        raise DataError("there is no file to read; give one path or several")
    for file in files:
        if file.is_dir():
            raise DataError(f"{file} is a folder; give the files in it")
        if not file.exists():
            raise DataError(f"there is no file {file}; give the path of a LETOR file")
    return files


def pieces(files: Sequence[Path], meter: Meter) -> Iterator[Piece]:
    """All files in pieces of whole lines; a last line without its newline gets one."""
    for file in files:
        before, rest, first = 0, b"", True
        for read in _reads(file, meter):
            if first:
                read, first = _checked_start(file, read), False
            text = rest + read
            end = text.rfind(b"\n") + 1
            rest = text[end:]
            if end:
                lines = text.count(b"\n")
                yield Piece(file, before, text[:end], lines)
                before += lines
            elif len(rest) > _LONGEST_LINE:
                megabytes = _LONGEST_LINE // 2**20
                raise DataError(f"{file}, line {before + 1}: a line of over {megabytes} MiB; this is no LETOR text")
        if rest:
            yield Piece(file, before, rest + b"\n", 1)


def _checked_start(file: Path, read: bytes) -> bytes:
    zero = read.find(b"\0")
    if zero >= 0:
        line = read.count(b"\n", 0, zero) + 1
        raise DataError(
            f"{file}, line {line}: a zero byte; this is a binary file (packed, or in UTF-16), not LETOR text; "
            "give plain text, or text packed by gzip"
        )
    return read.removeprefix(_BYTE_ORDER_MARK)


def _reads(file: Path, meter: Meter) -> Iterator[bytes]:
    with ExitStack() as stack:
        raw = stack.enter_context(opened(file))
        is_packed = raw.read(len(_GZIP)) == _GZIP
        raw.seek(0)
        source = cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=raw))) if is_packed else raw
        try:
            while read := source.read(PIECE):
                yield read
                meter.at(raw.tell())
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{file} is a damaged gzip file ({error}); fetch it again") from None
        meter.end(raw.tell())


def opened(file: Path) -> BinaryIO:
    """The file's bytes."""
    try:
        return file.open("rb")
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}; check its permissions") from None
