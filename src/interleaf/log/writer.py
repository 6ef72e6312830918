"""`LogWriter`: appends impressions and events to a log as JSON lines, while people search.

Every line is handed to the operating system, so a killed process loses none. `flush` waits until the disk has all
lines, so a power cut loses none either. A crash can leave only the last line of a file half-written. Each process, also
after a fork, writes files of its own.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import FileIO
from pathlib import Path
from threading import Lock
from typing import Any, Self
from weakref import WeakSet

from interleaf.errors import DataError
from interleaf.interleaving.api import Interleaving
from interleaf.log import schema
from interleaf.log.record_batches import line_of
from interleaf.log.validation import EVENT_CHECK, RULES, of_field


class AppendedFiles:
    """Appends lines to files of a folder that many processes share; a new file begins after some lines or seconds."""

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
        """Write a line. After an error, the file is closed, so that the next line does not follow half a line."""
        with self._lock:
            if self._is_closed:
                raise DataError("this log is closed; make another writer")
            file, left = self._current(), memoryview(line)
            try:
                while left:
                    left = left[file.write(left) :]
            except BaseException:
                self._file = None
                file.close()
                raise
            self._count += 1

    def flush(self) -> None:
        with self._lock:
            self._to_disk()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._end()

    def forget(self) -> None:
        """Close the current file without flushing it: after a fork, it belongs to the parent."""
        self._lock = Lock()  # the parent's lock may be held by a thread that the child does not have
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
        if os.name == "posix":  # the folder holds the name of a new file
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


class LogWriter:
    """Appends to the log in a folder, which any number of threads and processes may share; `log.read` reads it.

    A new file begins after `rotate_rows` lines or `rotate_seconds`. Appended lines survive a crash of the process;
    after `flush`, they also survive a crash of the machine.

    >>> from tempfile import TemporaryDirectory
    >>> from interleaf import interleave, log
    >>> with TemporaryDirectory() as folder:
    ...     with LogWriter(folder, experiment="example") as writer:
    ...         shown = interleave([["a", "b"], ["b", "c"]], key=("example", "user-7"))
    ...         name = writer.impression(shown, unit="user-7", query="shoes")
    ...         _ = writer.event(name, rank=1)
    ...     [[len(events) for events in batch["events"]] for batch in log.read(folder)]
    [[1]]
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        experiment: str,
        version: int = 1,
        rotate_rows: int = 1_000_000,
        rotate_seconds: float = 3600,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._constant = {"experiment": _name("experiment", experiment), "version": _check_value("version", version)}
        self._clock = clock
        self._files = AppendedFiles(Path(folder), rotate_rows, rotate_seconds, clock)

    @property
    def experiment(self) -> str:
        """The name of the experiment."""
        return str(self._constant["experiment"])

    @property
    def version(self) -> int:
        """The version of the experiment."""
        return int(self._constant["version"])

    def impression(
        self,
        shown: Interleaving,
        *,
        unit: str | None = None,
        session: str | None = None,
        query: str | None = None,
        arm: str = "interleaved",
        page: int | None = None,
        time: datetime | str | None = None,
        impression: str | None = None,
        attributes: Mapping[str, str] | None = None,
        captions: Sequence[Mapping[str, Any] | None] | None = None,
        characters: Sequence[int | None] | None = None,
        grades: Sequence[int | None] | None = None,
        latency: Sequence[float | None] | None = None,
        fallback_reason: str | None = None,
        excluded: str | None = None,
        epoch: int | None = None,
        rankings: bool = False,
    ) -> str:
        """Append a list that was shown; returns the impression's id, new unless it is given. The default time is now.

        Lists of `one_list` are not interleaved: their arm is the ranker whose list was shown. `epoch` is the number of
        the epoch, if you choose the best of many rankers and each list mixes some of them.

        `excluded` says why the impression does not count, such as a crawler; a report counts such impressions.

        With `rankings`, the input rankings are logged too, for reuse and replay. Fixed documents are not logged:
        `captions`, `characters` and `grades` are of `shown.documents`.
        """
        about = {"unit": unit, "session": session, "query": query, "arm": _arm(arm, shown), "page": page}
        more = {"captions": captions, "characters": characters, "grades": grades, "latency": latency}
        name = secrets.token_hex(16) if impression is None else _name("impression", impression)
        rest = {"attributes": attributes, "fallback_reason": fallback_reason, "excluded": excluded, "epoch": epoch}
        self._append(name, shown, rankings, time, about | more | rest)
        return name

    def _append(
        self, name: str, shown: Interleaving, rankings: bool, time: datetime | str | None, more: dict[str, Any]
    ) -> None:
        if not isinstance(shown, Interleaving):
            raise DataError(f"a shown list is an Interleaving, not {type(shown).__name__}")
        if len(shown.documents) > schema.MAX_SHOWN:
            raise DataError(
                f"the list has {len(shown.documents):,} documents, and a log takes at most {schema.MAX_SHOWN:,} of a "
                "list; log what was shown: give `interleave` a smaller k"
            )
        columns = shown.to_dict(rankings)
        columns.pop("fixed", None)
        row = {"impression": name, "time": self._clock() if time is None else time, **columns, **more}
        row = self._constant | {name: _check_value(name, value) for name, value in row.items() if value is not None}
        if "attributes" in row:
            row["attributes"] = dict(row["attributes"])
        self._files.append(line_of(row))

    def next_page(
        self,
        impression: str,
        shown: Interleaving,
        page: int = 2,
        *,
        time: datetime | str | None = None,
        captions: Sequence[Mapping[str, Any] | None] | None = None,
        characters: Sequence[int | None] | None = None,
        grades: Sequence[int | None] | None = None,
        rankings: bool = False,
    ) -> None:
        """Append a further page of an impression: the whole list so far, which begins with the page before.

        Make the longer list with the same key and rankings. Unit, query and attributes are those of page one. Ranks of
        events continue over pages.
        """
        if page < 2:
            raise DataError(f"page is {page!r}; page 1 is logged by `impression`, give 2 or more")
        more = {"captions": captions, "characters": characters, "grades": grades, "page": page}
        self._append(_name("impression", impression), shown, rankings, time, more)

    def event(
        self,
        impression: str,
        kind: str = "click",
        *,
        rank: int,
        time: datetime | str | None = None,
        dwell: float | None = None,
        value: float | None = None,
        event: str | None = None,
    ) -> str:
        """Append an event, such as a click, at a rank from 1; returns the event's id, new unless it is given.

        If the list has fixed documents, `shown.rank_in_log` gives the rank to log; do not log events of fixed
        documents. An event appended again with the same id completes the first one, such as a click with its dwell.
        """
        fields = {"kind": _name("kind", kind), "rank": rank, "dwell": dwell, "value": value}
        fields["event"] = secrets.token_hex(16) if event is None else _name("event", event)
        try:
            row = EVENT_CHECK(fields | {"time": self._clock() if time is None else time})
        except ValueError as problem:
            raise DataError(f"the event cannot be logged: {problem}") from None
        if row["rank"] < 1:
            raise DataError(f"an event at rank {rank!r} cannot be logged; ranks start at 1 at the top")
        self._files.append(line_of({"impression": _name("impression", impression)} | row))
        return str(row["event"])

    def flush(self) -> None:
        """Wait until all appended lines are on disk."""
        self._files.flush()

    def close(self) -> None:
        """Flush and close the log."""
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def _arm(arm: Any, shown: Any) -> str:
    """The arm of a list; a list of `one_list` is never interleaved."""
    if arm == schema.INTERLEAVED and isinstance(shown, Interleaving):
        return schema.arm_of(shown.method, shown.rankers, shown.teams, shown.key)
    return _name("arm", arm)


def _name(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise DataError(f"{name} is {value!r}; give a text that is not empty")
    return value


def _check_value(name: str, value: Any) -> Any:
    try:
        return of_field(name, RULES[name].check, value)
    except ValueError as problem:
        raise DataError(f"the impression cannot be logged: {problem}") from None
