"""Stores records until they can be sent: in memory, or in a folder that several processes share.

In a folder, each record is a file, which is written under another name and renamed. So there is nothing to lock or to
compact: a killed process leaves only complete records, and any process can deliver them. File names sort by time, so
an impression is delivered before its events even if another process wrote them.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO

from interleaf.errors import DataError

try:
    import fcntl
except ImportError:  # on Windows, two processes may deliver the same record; it counts once
    fcntl = None  # type: ignore[assignment]

_SUFFIX, _BAD = ".json", ".bad"
_MINUTE = 60 * 10**9
_COUNT = itertools.count()  # keeps the order of records with the same time
_FULL = "the spool is full"
log = logging.getLogger("interleaf.client")


class MemorySpool:
    """Records in memory, which are lost when the process ends.

    A full spool drops new records and counts them; `problem` says why it dropped the last.

    >>> spool = MemorySpool(max_records=1)
    >>> spool.put(b"one"), spool.put(b"two"), spool.dropped
    (True, False, 1)
    >>> [spool.read(name) for name in spool.names()]
    [b'one']
    """

    def __init__(self, max_records: int) -> None:
        self._max_records, self.problem = max_records, _FULL
        self.forget()

    def put(self, record: bytes) -> bool:
        """Store a record; False if it was dropped."""
        if len(self._records) >= self._max_records:
            self.dropped += 1
            return False
        self._records[_name()] = record
        return True

    def is_empty(self) -> bool:
        return not self._records

    def names(self) -> list[str]:
        """The names of all records, oldest first."""
        return sorted(self._records)

    def read(self, name: str) -> bytes | None:
        return self._records.get(name)

    def remove(self, name: str) -> None:
        self._records.pop(name, None)

    quarantine = remove  # there is no place where a record could be inspected

    def claim(self) -> AbstractContextManager[bool]:
        """Whether this process may deliver the records while the context is open."""
        return nullcontext(True)

    def forget(self) -> None:
        """After a fork: drop the records, which the parent delivers."""
        self._records: dict[str, bytes] = {}
        self.dropped = 0


class FolderSpool:
    """Records as files. A killed process loses none; a power failure may lose the last seconds.

    The limit is approximate: files of other processes are counted when this one delivers. Files that cannot be removed
    or renamed, as in a read-only folder, are delivered once by each process and then skipped.
    """

    def __init__(self, folder: Path, max_records: int) -> None:
        self._folder, self._max_records = folder, max_records
        self.dropped, self.problem = 0, _FULL
        self._stuck: set[str] = set()
        make_private(folder)
        self._count = len(self.names())

    def put(self, record: bytes) -> bool:
        name = _name()
        part = self._folder / f"{name}.part"
        try:
            if self._count >= self._max_records:
                raise OSError(_FULL)
            write_private(part, record)
            part.rename(self._folder / name)
        except OSError as problem:  # disk full or not writable: the search must go on
            self.dropped += 1
            self.problem = str(problem)
            with suppress(OSError):
                part.unlink(missing_ok=True)
            return False
        self._count += 1
        return True

    def is_empty(self) -> bool:
        return next(self._scan(), None) is None

    def names(self) -> list[str]:
        """Names from before this call. A listing may find a file that is written meanwhile and miss an earlier one, so
        an event could come before its impression. Names far in the future are from before the clock was set back.
        """
        now = time.time_ns()
        names = sorted(name for name in self._scan() if not _stamp(now) <= name < _stamp(now + _MINUTE))
        self._count = len(names)
        return names

    def _scan(self) -> Iterator[str]:
        with suppress(OSError), os.scandir(self._folder) as entries:
            yield from (one.name for one in entries if one.name.endswith(_SUFFIX) and one.name not in self._stuck)

    def read(self, name: str) -> bytes | None:
        """A record, or None if another process has removed it; `ValueError` if it is not a file."""
        path = self._folder / name
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # reading a named pipe would wait for a writer
                raise ValueError("it is not a regular file")
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        self._count -= 1
        try:
            (self._folder / name).unlink(missing_ok=True)
        except OSError:
            self._stuck.add(name)

    def quarantine(self, name: str) -> None:
        """Rename it to `.bad`, so that it can be inspected."""
        self._count -= 1
        try:
            (self._folder / name).rename((self._folder / name).with_suffix(_BAD))
        except OSError:
            self._stuck.add(name)

    @contextmanager
    def claim(self) -> Iterator[bool]:
        """Hold a file lock, which the system releases when the process ends for any reason.

        Without a lock, as in a read-only folder, two processes may deliver the same record; it counts once.
        """
        try:
            lock = _open_private(self._folder / "delivering.lock")
        except OSError:
            lock = None
        if fcntl is None or lock is None:
            yield True
            return
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
            else:
                yield True

    def forget(self) -> None:
        """Parent and child share the folder, so all records stay."""


Spool = MemorySpool | FolderSpool


def make_private(folder: Path) -> None:
    """Create a folder that only its owner can open, whatever the umask: it holds queries of users."""
    try:
        folder.mkdir(mode=0o700, parents=True)
        folder.chmod(0o700)
    except FileExistsError:
        if folder.is_dir():
            if os.name == "posix" and folder.stat().st_mode & 0o077:
                log.warning("others can open the spool folder %s; chmod 700 it", folder)
            return
        raise DataError(f"the spool folder {folder} is a file; give another") from None
    except OSError as problem:
        raise DataError(f"the spool folder {folder} cannot be made: {problem}; give another") from None


def write_private(path: Path, data: bytes) -> None:
    """Write a file that its owner alone can read, whatever the umask."""
    with _open_private(path) as file:
        file.write(data)


def _open_private(path: Path) -> IO[bytes]:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600)
    if hasattr(os, "fchmod"):
        with suppress(OSError):  # another user owns the file and lets us write
            os.fchmod(handle, 0o600)
    return open(handle, "wb")


def _stamp(nanoseconds: int) -> str:
    return f"{nanoseconds:020d}"


def _name() -> str:
    return f"{_stamp(time.time_ns())}-{next(_COUNT):08d}-{secrets.token_hex(4)}{_SUFFIX}"
