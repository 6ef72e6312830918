"""Read judged queries from LETOR (SVMlight) text: `grade qid:ID 1:value 2:value ... # comment`."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.simulate import letor_cache
from interleaf.simulate.data import Judged, frozen
from interleaf.simulate.letor_mistakes import FORM, mistake, place, too_large
from interleaf.simulate.letor_rows import FINE, Rows, parse
from interleaf.simulate.letor_text import Meter, Paths, Piece, Progress, existing, pieces

_SHORTEST_FEATURE = len("1:1 ")
_GROWTH = 1.25
_GLANCE = 65_536
_MOST_THREADS = 8  # one thread reads, and feeds no more than these


def read_letor(paths: Paths, cache: bool = True, progress: Progress | None = None, name: str | None = None) -> Judged:
    """Judged queries from one LETOR file, or from several as one set; plain or gzip, sparse or dense.

    Values are the float32 next to the float64 next to the text, exactly `numpy.float32(float(text))`; a feature that a
    row leaves out is 0. The parsed set is kept on disk by content (in `INTERLEAF_CACHE`, else in the user's cache
    folder) and mapped into memory when the same bytes are read again, unless `cache` is off. `progress(done, total)` is
    called with bytes; with the cache, files are read for their digest first, so their bytes count twice.
    """
    files = existing(paths)
    name = name or (files[0].name if len(files) == 1 else f"{files[0].name} and {len(files) - 1} more")
    total = sum(file.stat().st_size for file in files)
    if not cache:
        return _read(files, Meter(total, progress), name)
    meter = Meter(2 * total, progress)
    entry = letor_cache.entry_of(files, meter)
    kept = letor_cache.load(entry, name)
    if kept is not None:
        meter.end(total)
        return kept
    data = _read(files, meter, name)
    return (letor_cache.load(entry, name) if letor_cache.save(entry, data) else None) or data


class Block(NamedTuple):
    """The rows of a piece; `starts` are (row, line, query) where another query starts, from 0."""

    features: Array
    grades: Array
    starts: list[tuple[int, int, str]]


def _read(files: Sequence[Path], meter: Meter, name: str) -> Judged:
    threads = min(os.cpu_count() or 1, _MOST_THREADS)
    gathered = _Gathered()
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[tuple[Piece, Future[Block]]] = deque()
        for piece in pieces(files, meter):
            waiting.append((piece, pool.submit(_parsed, piece, gathered.features.shape[1])))
            if len(waiting) > threads:  # so many pieces in memory, however large the files
                gathered.add(*_finished(waiting))
        while waiting:
            gathered.add(*_finished(waiting))
    for file in files:
        if file not in gathered.files:
            raise DataError(f"{file} holds no rows; {FORM}")
    if not gathered.features.shape[1]:
        raise DataError(f"{name}: no row has a feature; {FORM}")
    return gathered.judged(name)


def _finished(waiting: deque[tuple[Piece, Future[Block]]]) -> tuple[Piece, Block]:
    piece, future = waiting.popleft()
    return piece, future.result()


def _parsed(piece: Piece, width: int) -> Block:
    width = width or _glance(piece.text)
    rows = _room(piece.text, piece.lines, width)
    outcome = parse(np.frombuffer(piece.text, np.uint8), rows)
    if outcome.code != FINE:
        raise mistake(piece, outcome)
    if outcome.widest > width:
        return _parsed(piece, outcome.widest)
    for row, column, start, end in rows.doubts[: outcome.doubts].tolist():
        rows.features[row, column] = _in_range(piece, start, end)
    starts = rows.starts[: outcome.queries].tolist()
    queries = [(row, line, _decoded(piece.text[start:end])) for row, line, start, end in starts]
    return Block(rows.features[: outcome.rows], rows.grades[: outcome.rows], queries)


def _glance(text: bytes) -> int:
    """The largest feature id in the first lines: a good guess for all, so that hardly a piece is parsed twice."""
    head = text[: text.index(b"\n", min(_GLANCE, len(text) - 1)) + 1]
    return parse(np.frombuffer(head, np.uint8), _room(head, head.count(b"\n"), 0)).widest


def _room(text: bytes, lines: int, width: int) -> Rows:
    return Rows(
        np.zeros((lines, width), np.float32),
        np.zeros(lines, np.int8),
        np.empty((lines, 4), np.int64),
        np.empty((len(text) // _SHORTEST_FEATURE + 1, 4), np.int64),  # no page of it is touched without a doubt
    )


def _decoded(query: bytes) -> str:
    return query.decode("utf-8", "backslashreplace")


def _in_range(piece: Piece, start: int, end: int) -> np.float32:
    with np.errstate(over="ignore"):
        value = np.float32(float(piece.text[start:end]))
    if not np.isfinite(value):
        raise too_large(piece, start)
    return value


class _Gathered:
    """The blocks so far, in one matrix that grows in place."""

    def __init__(self) -> None:
        self.features: Array = np.zeros((0, 0), np.float32)
        self.grades: list[Array] = []
        self.offsets: list[int] = []
        self.places: dict[str, str] = {}
        self.files: set[Path] = set()
        self.rows, self.last = 0, ""

    def add(self, piece: Piece, block: Block) -> None:
        """Append the rows of the next piece."""
        for row, line, query in block.starts:
            if query != self.last:
                self._start(query, self.rows + row, place(piece, line))
        end, width = self.rows + len(block.grades), block.features.shape[1]
        self._make_room(end, width)
        self.features[self.rows : end, :width] = block.features
        self.grades.append(block.grades)
        self.rows = end
        if len(block.grades):
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
        """All of it, cut to size."""
        self.features.resize((self.rows, self.features.shape[1]), refcheck=False)
        offsets = np.array([*self.offsets, self.rows])
        return Judged(frozen(self.features), np.concatenate(self.grades), offsets, tuple(self.places), name)
