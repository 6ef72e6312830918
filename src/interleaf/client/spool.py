"""What could not be sent, until it can: in memory, or in a folder that processes share and that outlives them.

In a folder each record is a file of its own, written whole under another name first. So there is nothing to lock, to
cut or to compact: a killed process leaves whole records only, any process of the folder can deliver them, and their
names sort by time, so that an impression is delivered before its events whoever wrote them.
"""

from __future__ import annotations

import itertools
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from interleaf.errors import DataError

try:
    import fcntl
except ImportError:  # not on Windows: there, two processes may deliver the same record, which counts once
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".json"
_MINUTE = 60 * 10**9
_COUNT = itertools.count()  # two records of one tick of the clock keep their order


class Spool(Protocol):
    """Records, oldest first; what finds it full is dropped and counted."""

    dropped: int

    def put(self, record: bytes) -> bool:
        """Keep a record; False if it was dropped."""

    def is_empty(self) -> bool: ...
    def names(self) -> list[str]:
        """The names of all records, oldest first."""

    def read(self, name: str) -> bytes | None:
        """A record, or None if somebody else has removed it."""

    def remove(self, name: str) -> None: ...
    @contextmanager
    def claimed(self) -> Iterator[bool]:
        """Whether the records are ours to deliver, for as long as the context lasts."""

    def forget(self) -> None:
        """After a fork: leave to the parent what only it should deliver."""


class MemorySpool:
    """Records that end with the process.

    >>> spool = MemorySpool(most=1)
    >>> spool.put(b"one"), spool.put(b"two"), spool.dropped
    (True, False, 1)
    >>> [spool.read(name) for name in spool.names()]
    [b'one']
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.forget()

    def put(self, record: bytes) -> bool:
        if len(self._records) >= self._most:
            self.dropped += 1
            return False
        self._records[_name()] = record
        return True

    def is_empty(self) -> bool:
        return not self._records

    def names(self) -> list[str]:
        return sorted(self._records)

    def read(self, name: str) -> bytes | None:
        return self._records.get(name)

    def remove(self, name: str) -> None:
        self._records.pop(name, None)

    @contextmanager
    def claimed(self) -> Iterator[bool]:
        yield True

    def forget(self) -> None:
        self._records: dict[str, bytes] = {}
        self.dropped = 0


class FolderSpool:
    """Records as files. The system has them at once, so a killed process loses none; a power cut may take seconds.

    The bound is kept by counting: files of other processes are counted when this one delivers.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder, most
        self.dropped = 0
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it holds what people searched for
        except OSError as problem:
            raise DataError(f"the spool folder {folder} cannot be made: {problem}; give another") from None
        self._count = len(self.names())

    def put(self, record: bytes) -> bool:
        name = _name()
        part = self._folder / f"{name}.part"
        try:
            if self._count >= self._most:
                raise OSError("the spool is full")
            part.write_bytes(record)
            part.rename(self._folder / name)
        except OSError:  # full or not writable: the page of whoever searches comes first
            self.dropped += 1
            with suppress(OSError):
                part.unlink(missing_ok=True)
            return False
        self._count += 1
        return True

    def is_empty(self) -> bool:
        return next(self._found(), None) is None

    def names(self) -> list[str]:
        """Those from before this call: while a folder is read, a later name may be found and an earlier one be missed,
        which would put an event before its impression. Names from far ahead are from before the clock was set back.
        """
        now = time.time_ns()
        found = sorted(name for name in self._found() if not _stamp(now) <= name < _stamp(now + _MINUTE))
        self._count = len(found)
        return found

    def _found(self) -> Iterator[str]:
        with suppress(OSError), os.scandir(self._folder) as entries:
            yield from (entry.name for entry in entries if entry.name.endswith(_SUFFIX))

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)
        self._count -= 1

    @contextmanager
    def claimed(self) -> Iterator[bool]:
        """The system takes the lock back from a process that ends, however it ends."""
        if fcntl is None:
            yield True
            return
        with (self._folder / "delivering.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
            else:
                yield True

    def forget(self) -> None:
        """The folder belongs to the parent and the child alike."""


def _stamp(nanoseconds: int) -> str:
    return f"{nanoseconds:020d}"


def _name() -> str:
    return f"{_stamp(time.time_ns())}-{next(_COUNT):08d}-{secrets.token_hex(4)}{_SUFFIX}"
