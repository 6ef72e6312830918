"""Reads judged queries from LETOR (SVMlight) text: `grade qid:ID 1:value 2:value ... # comment`.

Files are read in pieces of whole lines, which threads parse (`letor_rows.py`). A parsed set is kept on disk under the
digest of the bytes it was parsed from, and mapped into memory when the same bytes are read again.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from interleaf.environment import cache_folder
from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.log.jsonl import BYTE_ORDER_MARK, LONGEST, open_text
from interleaf.simulate.data import MOST_GRADE, Judged, frozen
from interleaf.simulate.letor_rows import (
    BAD_FEATURE,
    BAD_GRADE,
    BAD_NUMBER,
    FINE,
    ID_LARGE,
    ID_ORDER,
    ID_ZERO,
    MOST_FEATURES,
    NO_QUERY,
    Outcome,
    Rows,
    parse,
)

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]
Progress = Callable[[int, int], None]  # bytes done, bytes in all

PIECE = 4 * 2**20  # bytes
VERSION = 1  # of the cache: to be raised when the parser makes something else of the same bytes
_ARRAYS = ("features", "grades", "offsets", "queries")
_HEAD = 65_536  # bytes
_MAX_THREADS = 8
_GROWTH = 1.25
_MIN_FEATURE = len("1:1 ")
_LONGEST_WORD = 60  # that an error shows

_FORM = "a row reads `grade qid:ID 1:value 2:value ... # comment`"
_MESSAGES = {
    BAD_GRADE: f"the grade is {{word}}; grades are whole numbers from 0 to {MOST_GRADE}, and {_FORM}",
    NO_QUERY: f"{{word}} stands where the query belongs; {_FORM}",
    BAD_FEATURE: f"{{word}} stands where a feature belongs; {_FORM}",
    BAD_NUMBER: "{word} has a value that is not a number; write it as 0.25, -3 or 1e-5",
    ID_ZERO: "{word} has feature id 0; ids count from 1",
    ID_ORDER: "{word} comes after a feature with the same or a larger id; each id comes once, in rising order",
    ID_LARGE: f"{{word}} has a feature id above {MOST_FEATURES:,}; number the features from 1, without gaps",
}
_NOT_FINITE = "{word} has a value that is not finite; replace it by a number, or leave the feature out, which means 0"
_BINARY = (
    "a zero byte; this is a binary file (packed, or in UTF-16), not LETOR text; give plain text, or text packed by gzip"
)
_LONG_LINE = f"a line of over {LONGEST // 2**20} MiB; this is no LETOR text"
_TOO_LARGE = "{word} has a value beyond the range of 32-bit floats (3.4e38); scale the feature down"


def read_letor(paths: Paths, cache: bool = True, progress: Progress | None = None, name: str | None = None) -> Judged:
    """Judged queries from one LETOR file, or from several as one set; plain or gzip, sparse or dense.

    Values are the float32 next to the float64 next to the text, exactly `numpy.float32(float(text))`; a feature that a
    row leaves out is 0. The parsed set is kept on disk by content (in `INTERLEAF_CACHE`, else in the user's cache
    folder) and mapped into memory when the same bytes are read again, unless `cache` is off. `progress(done, total)` is
    called with bytes; with the cache, files are read for their digest first, so their bytes count twice.
    """
    files = _existing(paths)
    name = name or (files[0].name if len(files) == 1 else f"{files[0].name} and {len(files) - 1} more")
    total = sum(file.stat().st_size for file in files)
    whole = total * (1 + cache)

    def report(done: int) -> None:
        if progress:
            progress(min(done, whole), whole)

    if not cache:
        return _read(files, report, name)
    entry = cache_folder("letor") / _digest(files, report)
    judged = _load(entry, name)
    if judged is None:
        parsed = _read(files, lambda done: report(total + done), name)
        judged = (_load(entry, name) if _save(entry, parsed) else None) or parsed
    report(whole)
    return judged


def _existing(paths: Paths) -> list[Path]:
    files = [Path(paths)] if isinstance(paths, (str, PathLike)) else [Path(path) for path in paths]
    if not files:
        raise DataError("there is no file to read; give one path or several")
    for file in files:
        if file.is_dir():
            raise DataError(f"{file} is a folder; give the files in it")
        if not file.exists():
            raise DataError(f"there is no file {file}; give the path of a LETOR file")
    return files


class Piece(NamedTuple):
    """Whole lines of a file, and how many lines of it come before them."""

    path: Path
    before: int
    text: bytes

    def error(self, at: int, message: str) -> DataError:
        """An error that names the file, the line and the word at a byte of the text."""
        word = re.split(rb"[\s#]", self.text[at : at + _LONGEST_WORD + 1], maxsplit=1)[0].decode("utf-8", "replace")
        shown = (
            repr(word if len(word) <= _LONGEST_WORD else word[:_LONGEST_WORD] + "...") if word else "the end of the row"
        )
        where = self.line(self.text.count(b"\n", 0, at))
        return DataError(f"{where}: {message.format(word=shown)}")

    def line(self, number: int) -> str:
        """The place of a line of the piece, counted from 0."""
        return f"{self.path}, line {self.before + number + 1}"


def _pieces(files: Sequence[Path], report: Callable[[int], None]) -> Iterator[Piece]:
    """All files in pieces of whole lines; a last line without its newline gets one."""
    done = 0
    for file in files:
        before, rest = 0, b""
        with open_text(file) as (raw, source):
            is_start = True
            while data := source.read(PIECE):
                if is_start:
                    data, is_start = data.removeprefix(BYTE_ORDER_MARK), False
                    if b"\0" in data:
                        raise Piece(file, 0, data).error(data.index(b"\0"), _BINARY)
                data = rest + data
                end = data.rfind(b"\n") + 1
                rest = data[end:]
                if end:
                    yield Piece(file, before, data[:end])
                    before += data.count(b"\n")
                elif len(rest) > LONGEST:
                    raise Piece(file, before, rest).error(0, _LONG_LINE)
                report(done + raw.tell())
            done += raw.tell()
        if rest:
            yield Piece(file, before, rest + b"\n")


class Block(NamedTuple):
    """The rows of a piece; `starts` are (row, line, query) where another query starts, from 0."""

    features: Array
    grades: Array
    starts: list[tuple[int, int, str]]


def _read(files: Sequence[Path], report: Callable[[int], None], name: str) -> Judged:
    threads = min(os.cpu_count() or 1, _MAX_THREADS)
    rows = _GrowingRows()
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[tuple[Piece, Future[Block]]] = deque()
        for piece in _pieces(files, report):
            waiting.append((piece, pool.submit(_parsed, piece, rows.features.shape[1])))
            if len(waiting) > threads:  # so many pieces are in memory, however large the files
                rows.add(*waiting.popleft())
        while waiting:
            rows.add(*waiting.popleft())
    for file in files:
        if file not in rows.files:
            raise DataError(f"{file} holds no rows; {_FORM}")
    if not rows.features.shape[1]:
        raise DataError(f"{name}: no row has a feature; {_FORM}")
    return rows.judged(name)


def _parsed(piece: Piece, width: int) -> Block:
    text = piece.text
    if not width:  # the largest feature id of the first lines, so that hardly a piece is parsed twice
        head = text[: text.index(b"\n", min(_HEAD, len(text) - 1)) + 1]
        width = parse(np.frombuffer(head, np.uint8), _room(head, 0)).widest
    rows = _room(text, width)
    outcome = parse(np.frombuffer(text, np.uint8), rows)
    if outcome.code != FINE:
        raise _mistake(piece, outcome)
    if outcome.widest > width:
        return _parsed(piece, outcome.widest)
    for row, column, start, end in rows.doubts[: outcome.doubts].tolist():
        with np.errstate(over="ignore"):
            rows.features[row, column] = np.float32(float(text[start:end]))
        if not np.isfinite(rows.features[row, column]):
            raise piece.error(max(text.rfind(b" ", 0, start), text.rfind(b"\t", 0, start)) + 1, _TOO_LARGE)
    starts = rows.starts[: outcome.queries].tolist()
    queries = [(row, line, text[start:end].decode("utf-8", "backslashreplace")) for row, line, start, end in starts]
    return Block(rows.features[: outcome.rows], rows.grades[: outcome.rows], queries)


def _room(text: bytes, width: int) -> Rows:
    lines = text.count(b"\n")
    return Rows(
        np.zeros((lines, width), np.float32),
        np.zeros(lines, np.int8),
        np.empty((lines, 4), np.int64),
        np.empty((len(text) // _MIN_FEATURE + 1, 4), np.int64),  # no page of it is touched without a doubt
    )


def _mistake(piece: Piece, outcome: Outcome) -> DataError:
    """The error for what the parser could not read."""
    message = _MESSAGES[outcome.code]
    if outcome.code == BAD_NUMBER and re.match(
        rb"[^:\s]*:[+-]?(nan|inf|infinity)[\s#]", piece.text[outcome.at :], re.I
    ):
        message = _NOT_FINITE
    is_first = piece.before == 0 and outcome.rows == 0
    if is_first and outcome.code in (BAD_GRADE, NO_QUERY, BAD_FEATURE):
        message = f"this does not look like LETOR text: {message}"
    return piece.error(outcome.at, message)


class _GrowingRows:
    """The blocks so far, in one matrix that grows in place."""

    def __init__(self) -> None:
        self.features: Array = np.zeros((0, 0), np.float32)
        self.grades: list[Array] = []
        self.offsets: list[int] = []
        self.places: dict[str, str] = {}
        self.files: set[Path] = set()
        self.rows, self.last = 0, ""

    def add(self, piece: Piece, parsed: Future[Block]) -> None:
        """Append the rows of the next piece."""
        features, grades, starts = parsed.result()
        for row, line, query in starts:
            if query != self.last:
                self._start(query, self.rows + row, piece.line(line))
        end, width = self.rows + len(grades), features.shape[1]
        self._make_room(end, width)
        self.features[self.rows : end, :width] = features
        self.grades.append(grades)
        self.rows = end
        if len(grades):
            self.files.add(piece.path)

    def _start(self, query: str, row: int, where: str) -> None:
        if query in self.places:
            raise DataError(
                f"{where}: query {query!r} is here again, after others; it started at {self.places[query]}; "
                "put the rows of a query together, or give the second one an id of its own"
            )
        self.places[query] = where
        self.offsets.append(row)
        self.last = query

    def _make_room(self, rows: int, width: int) -> None:
        if width > self.features.shape[1]:
            wider = np.zeros((max(rows, len(self.features)), width), np.float32)
            wider[: self.rows, : self.features.shape[1]] = self.features[: self.rows]
            self.features = wider
        elif rows > len(self.features):
            # The allocator moves pages, not bytes: no moment needs room for two matrices.
            self.features.resize((int(rows * _GROWTH), self.features.shape[1]), refcheck=False)

    def judged(self, name: str) -> Judged:
        """All rows, cut to size."""
        self.features.resize((self.rows, self.features.shape[1]), refcheck=False)
        offsets = np.array([*self.offsets, self.rows])
        return Judged(frozen(self.features), np.concatenate(self.grades), offsets, tuple(self.places), name)


def _digest(files: Sequence[Path], report: Callable[[int], None]) -> str:
    digest = blake2b(b"letor %d" % VERSION, digest_size=16)
    done = 0
    for file in files:
        digest.update(b"\0%d:" % file.stat().st_size)  # so that no two lists of files run together
        with open_text(file) as (raw, _):
            while data := raw.read(PIECE):
                digest.update(data)
                done += len(data)
                report(done)
    return digest.hexdigest()


def _load(entry: Path, name: str) -> Judged | None:
    """The set in the cache; None if there is none, or none that is whole."""
    try:
        features, grades, offsets, queries = (np.load(entry / f"{part}.npy", mmap_mode="r") for part in _ARRAYS)
        if features.dtype != np.float32 or grades.dtype != np.int8:
            return None
        return Judged(features, grades, offsets, tuple(queries.tolist()), name)
    except (OSError, ValueError, EOFError, DataError):
        return None


def _save(entry: Path, data: Judged) -> bool:
    """Write a set to the cache under another name, then rename it; False where that is not possible."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=entry.parent, prefix="part-", ignore_cleanup_errors=True) as folder:
            for part in _ARRAYS:
                np.save(Path(folder) / f"{part}.npy", np.asarray(getattr(data, part)))
            shutil.rmtree(entry, ignore_errors=True)  # a broken one, or the same set that another process just wrote
            Path(folder).rename(entry)
    except OSError:
        return False
    return True
