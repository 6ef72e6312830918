"""Files that lines are appended to, one after the other: each has one writer, and ends with a whole line or a cut one.

Every line goes to the system at once, so a killed process loses none; `flush` waits until the disk has them, so a
power cut takes none either. What a crash leaves half-written is the last line of its file, and stays alone: the next
process begins a file of its own, and so does a fork.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import FileIO
from pathlib import Path
from threading import Lock
from weakref import WeakSet

from interleaf.errors import DataError


class AppendedFiles:
    """Lines in files of a folder, named so that many processes can share it; a new file after so many lines or so long.

    The names begin with the time, so that they sort by it.
    """

    def __init__(self, folder: Path, rows: int, seconds: float, clock: Callable[[], datetime]) -> None:
        if not folder.is_dir():
            raise DataError(f"there is no folder {folder} to write the log to; make it first")
        if rows < 1 or not seconds > 0:
            raise DataError(f"a file cannot end after {rows!r} rows or {seconds!r} seconds; give more than 0")
        self._folder, self._rows, self._age, self._clock = folder, rows, timedelta(seconds=seconds), clock
        self._file: FileIO | None = None
        self._began = datetime.min
        self._is_closed = False
        self.forget()
        _OPEN.add(self)

    def append(self, line: bytes) -> None:
        """Hand a line to the system."""
        with self._lock:
            if self._is_closed:
                raise DataError("this log is closed; make another writer")
            self._write(self._current(), line)

    def flush(self) -> None:
        """Wait until the disk has every line."""
        with self._lock:
            self._to_disk()

    def close(self) -> None:
        """Flush, and take no more lines."""
        with self._lock:
            self._is_closed = True
            self._end()

    def forget(self) -> None:
        """Leave the present file, if any, to whoever else writes to it: the parent of a fork, or nobody."""
        self._lock = Lock()  # the parent's may be held by a thread that the child does not have
        file, self._file, self._count = self._file, None, 0
        if file is not None:
            with suppress(OSError):
                file.close()

    def _current(self) -> FileIO:
        now = self._clock()
        if self._file is not None and (self._count >= self._rows or now - self._began >= self._age):
            self._end()
        if self._file is None:
            name = f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
            self._file, self._began, self._count = FileIO(self._folder / name, "x"), now, 0
        return self._file

    def _write(self, file: FileIO, line: bytes) -> None:
        """A line that cannot be written whole ends its file: the next one must not be glued to it."""
        left = memoryview(line)
        try:
            while left:
                left = left[file.write(left) :]
        except BaseException:
            self._file = None
            file.close()
            raise
        self._count += 1

    def _end(self) -> None:
        try:
            self._to_disk()
        finally:
            file, self._file = self._file, None
            if file is not None:
                file.close()

    def _to_disk(self) -> None:
        if self._file is None:
            return
        os.fsync(self._file.fileno())
        if os.name == "posix":  # the name of a new file is in the folder
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


_OPEN: WeakSet[AppendedFiles] = WeakSet()


def _forget_all() -> None:
    for files in _OPEN:
        files.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
