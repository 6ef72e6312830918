"""Reads judged queries from LETOR (SVMlight) text: `grade qid:ID 1:value 2:value ... # comment`.

Files are read in pieces of whole lines, and threads parse the pieces with a compiled parser. The parsed set is stored
on disk under a digest of the files, and mapped into memory when the same bytes are read again.

The parser reads a number as a whole mantissa of at most 18 digits and a power of ten. If both are exact in float64,
one multiplication rounds as Python's `float` does (Clinger, 1990). Otherwise the float64 has a relative error below
2**-50, and its float32 is certain if both ends of that interval round to the same float32. About one number in ten
million remains in doubt; Python's `float` reads it.
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
from typing import Any, NamedTuple

import numpy as np

from interleaf.environment import cache_folder
from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import inline_kernel, kernel
from interleaf.log.jsonl import BYTE_ORDER_MARK, MAX_LINE_BYTES, open_text
from interleaf.simulate.data import MAX_GRADE, Judged, freeze

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]

PIECE = 4 * 2**20  # bytes
VERSION = 1  # of the cache; raise it when the parser's result for the same bytes changes
MAX_FEATURES = 10_000
_MAX_THREADS = 8
_MAX_WORD = 60  # characters of a word that an error shows
_HEAD = 65_536  # bytes that are searched for the largest feature id, before memory is allocated
_ARRAYS = ("features", "grades", "offsets", "queries")

FINE, BAD_GRADE, NO_QUERY, BAD_FEATURE, BAD_NUMBER, ID_ZERO, ID_ORDER, ID_LARGE = range(8)
_FORM = "a row reads `grade qid:ID 1:value 2:value ... # comment`"
_MESSAGES = {
    BAD_GRADE: f"the grade is {{word}}; grades are whole numbers from 0 to {MAX_GRADE}, and {_FORM}",
    NO_QUERY: f"{{word}} stands where the query belongs; {_FORM}",
    BAD_FEATURE: f"{{word}} stands where a feature belongs; {_FORM}",
    BAD_NUMBER: "{word} has a value that is not a number; write it as 0.25, -3 or 1e-5",
    ID_ZERO: "{word} has feature id 0; ids count from 1",
    ID_ORDER: "{word} comes after a feature with the same or a larger id; each id comes once, in rising order",
    ID_LARGE: f"{{word}} has a feature id above {MAX_FEATURES:,}; number the features from 1, without gaps",
}
_NOT_FINITE = "{word} has a value that is not finite; replace it by a number, or leave the feature out, which means 0"
_TOO_LARGE = "{word} has a value beyond the range of 32-bit floats (3.4e38); scale the feature down"
_LONG_LINE = f"a line of over {MAX_LINE_BYTES // 2**20} MiB; this is not LETOR text"
_BINARY = (
    "a zero byte; this is a binary file (packed, or in UTF-16), not LETOR text; give plain text, or text packed by gzip"
)


def read_letor(
    paths: Paths, cache: bool = True, progress: Callable[[int, int], None] | None = None, name: str | None = None
) -> Judged:
    """Judged queries from one LETOR file, or from several as one set; plain or gzip, sparse or dense.

    Each value is exactly `numpy.float32(float(text))`; a feature that a row leaves out is 0. Unless `cache` is off, the
    parsed set is stored on disk (in `INTERLEAF_CACHE`, else in the user's cache folder), and mapped into memory when
    the same bytes are read again. `progress(done, total)` is called with bytes; with the cache, files are first read
    to compute their digest, so their bytes count twice.
    """
    files = [Path(path) for path in ([paths] if isinstance(paths, (str, PathLike)) else paths)]
    if not files:
        raise DataError("there is no file to read; give one path or several")
    for file in files:
        if file.is_dir():
            raise DataError(f"{file} is a folder; give the files in it")
        if not file.exists():
            raise DataError(f"there is no file {file}; give the path of a LETOR file")
    name = name or (files[0].name if len(files) == 1 else f"{files[0].name} and {len(files) - 1} more")
    size = sum(file.stat().st_size for file in files)
    total = size * (1 + cache)

    def report(done: int) -> None:
        if progress:
            progress(min(done, total), total)

    if not cache:
        return _parse_files(files, report, name)
    entry = cache_folder("letor") / _digest(files, report)
    judged = _load(entry, name)
    if judged is None:
        parsed = _parse_files(files, lambda done: report(size + done), name)
        judged = (_load(entry, name) if _save(entry, parsed) else None) or parsed
    report(total)
    return judged


class LetorPiece(NamedTuple):
    """Whole lines of a file, and how many lines of it come before them."""

    path: Path
    before: int
    text: bytes

    def error(self, at: int, message: str) -> DataError:
        """An error that names the file, the line and the word at a byte of the text."""
        word = re.split(rb"[\s#]", self.text[at : at + _MAX_WORD + 1], maxsplit=1)[0].decode("utf-8", "replace")
        short = word if len(word) <= _MAX_WORD else word[:_MAX_WORD] + "..."
        where = self.line(self.text.count(b"\n", 0, at))
        return DataError(f"{where}: {message.format(word=repr(short) if word else 'the end of the row')}")

    def line(self, number: int) -> str:
        """The place of a line of the piece, counted from 0."""
        return f"{self.path}, line {self.before + number + 1}"


def _pieces(files: Sequence[Path], report: Callable[[int], None]) -> Iterator[LetorPiece]:
    """All files in pieces of whole lines; a last line without its newline gets one."""
    done = 0
    for file in files:
        before, rest, mark = 0, b"", BYTE_ORDER_MARK
        with open_text(file) as (raw, source):
            while data := source.read(PIECE):
                if mark:
                    data, mark = data.removeprefix(mark), b""
                    if b"\0" in data:
                        raise LetorPiece(file, 0, data).error(data.index(b"\0"), _BINARY)
                data = rest + data
                end = data.rfind(b"\n") + 1
                rest = data[end:]
                if end:
                    yield LetorPiece(file, before, data[:end])
                    before += data.count(b"\n")
                elif len(rest) > MAX_LINE_BYTES:
                    raise LetorPiece(file, before, rest).error(0, _LONG_LINE)
                report(done + raw.tell())
            done += raw.tell()
        if rest:
            yield LetorPiece(file, before, rest + b"\n")


def _parse_files(files: Sequence[Path], report: Callable[[int], None], name: str) -> Judged:
    threads, rows = min(os.cpu_count() or 1, _MAX_THREADS), _GrowingRows()
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[tuple[LetorPiece, Future[Block]]] = deque()
        for piece in _pieces(files, report):
            waiting.append((piece, pool.submit(_parse_piece, piece, rows.features.shape[1])))
            if len(waiting) > threads:  # limits the pieces in memory
                rows.add(*waiting.popleft())
        while waiting:
            rows.add(*waiting.popleft())
    for file in files:
        if file not in rows.files:
            raise DataError(f"{file} holds no rows; {_FORM}")
    if not rows.features.shape[1]:
        raise DataError(f"{name}: no row has a feature; {_FORM}")
    rows.features.resize((rows.count, rows.features.shape[1]), refcheck=False)
    offsets = np.array([*rows.offsets, rows.count])
    return Judged(freeze(rows.features), np.concatenate(rows.grades), offsets, tuple(rows.places), name)


class Block(NamedTuple):
    """Arrays for the rows of a piece, one row per line.

    `starts[query] = (row, line, start, end)` says where a query's rows start, and where its id is in the text.
    `doubts[n] = (row, column, start, end)` says which numbers Python's `float` must read. All count from 0.
    """

    features: Array
    grades: Array
    starts: Array
    doubts: Array

    @classmethod
    def allocate(cls, text: bytes, width: int) -> Block:
        """Arrays for all lines of a text, with `width` features."""
        lines, numbers = text.count(b"\n"), len(text) // len("1:1 ") + 1
        grades, starts = np.zeros(lines, np.int8), np.empty((lines, 4), np.int64)
        return cls(np.zeros((lines, width), np.float32), grades, starts, np.empty((numbers, 4), np.int64))


def _parse_piece(piece: LetorPiece, width: int) -> Block:
    text = piece.text
    if not width:  # from the first lines, so that few pieces are parsed twice
        head = text[: text.index(b"\n", min(_HEAD, len(text) - 1)) + 1]
        width = parse(np.frombuffer(head, np.uint8), Block.allocate(head, 0)).widest
    block = Block.allocate(text, width)
    outcome = parse(np.frombuffer(text, np.uint8), block)
    if outcome.code != FINE:
        raise _parse_error(piece, outcome)
    if outcome.widest > width:
        return _parse_piece(piece, outcome.widest)
    for row, column, start, end in block.doubts[: outcome.doubts].tolist():
        with np.errstate(over="ignore"):
            block.features[row, column] = np.float32(float(text[start:end]))
        if not np.isfinite(block.features[row, column]):
            raise piece.error(max(text.rfind(b" ", 0, start), text.rfind(b"\t", 0, start)) + 1, _TOO_LARGE)
    rows, queries = outcome.rows, outcome.queries
    return Block(block.features[:rows], block.grades[:rows], block.starts[:queries], block.doubts[:0])


def _parse_error(piece: LetorPiece, outcome: ParseOutcome) -> DataError:
    message, rest = _MESSAGES[outcome.code], piece.text[outcome.at :]
    if outcome.code == BAD_NUMBER and re.match(rb"[^:\s]*:[+-]?(nan|inf|infinity)[\s#]", rest, re.I):
        message = _NOT_FINITE
    is_first = piece.before == 0 and outcome.rows == 0
    if is_first and outcome.code in (BAD_GRADE, NO_QUERY, BAD_FEATURE):
        message = f"this does not look like LETOR text: {message}"
    return piece.error(outcome.at, message)


class _GrowingRows:
    """All rows so far; `features` grows in place, because copying it would need memory for two matrices."""

    def __init__(self) -> None:
        self.features: Array = np.zeros((0, 0), np.float32)
        self.grades: list[Array] = []
        self.offsets: list[int] = []
        self.places: dict[str, str] = {}  # where each query started
        self.files: set[Path] = set()
        self.count = 0

    def add(self, piece: LetorPiece, parsed: Future[Block]) -> None:
        """Append the rows of the next piece."""
        features, grades, starts, _ = parsed.result()
        for row, line, start, end in starts.tolist():
            query, where = piece.text[start:end].decode("utf-8", "backslashreplace"), piece.line(line)
            if query not in self.places:
                self.places[query] = where
                self.offsets.append(self.count + row)
            elif query != next(reversed(self.places)):
                problem = f"{where}: query {query!r} is here again, after others; it started at {self.places[query]}"
                raise DataError(f"{problem}; put the rows of a query together, or give the second one an id of its own")
        end, width, old_width = self.count + len(grades), features.shape[1], self.features.shape[1]
        if width > old_width:
            wider = np.zeros((max(end, len(self.features)), width), np.float32)
            wider[: self.count, :old_width] = self.features[: self.count]
            self.features = wider
        elif end > len(self.features):
            self.features.resize((int(end * 1.25), old_width), refcheck=False)
        self.features[self.count : end, :width] = features
        self.grades.append(grades)
        self.count = end
        if len(grades):
            self.files.add(piece.path)


def _digest(files: Sequence[Path], report: Callable[[int], None]) -> str:
    digest, done = blake2b(b"letor %d" % VERSION, digest_size=16), 0
    for file in files:
        digest.update(b"\0%d:" % file.stat().st_size)  # so that the digest also depends on where each file ends
        with open_text(file) as (raw, _):
            while data := raw.read(PIECE):
                digest.update(data)
                done += len(data)
                report(done)
    return digest.hexdigest()


def _load(entry: Path, name: str) -> Judged | None:
    """The set in the cache; None if there is none, or a damaged one."""
    try:
        features, grades, offsets, queries = (np.load(entry / f"{part}.npy", mmap_mode="r") for part in _ARRAYS)
        if features.dtype != np.float32 or grades.dtype != np.int8:
            return None
        return Judged(features, grades, offsets, tuple(queries.tolist()), name)
    except (OSError, ValueError, EOFError, DataError):
        return None


def _save(entry: Path, data: Judged) -> bool:
    """Write a set to the cache under another name, then rename it; False if that is not possible."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=entry.parent, prefix="part-", ignore_cleanup_errors=True) as folder:
            for part in _ARRAYS:
                np.save(Path(folder) / f"{part}.npy", np.asarray(getattr(data, part)))
            shutil.rmtree(entry, ignore_errors=True)  # a damaged set, or the same one from another process
            Path(folder).rename(entry)
    except OSError:
        return False
    return True


# The parser. Its text ends with a newline, which ends every loop over blanks, digits or words: no bounds are checked.

_TAB, _NEWLINE, _RETURN, _BLANK, _HASH, _PLUS, _MINUS, _POINT, _COLON = (ord(sign) for sign in "\t\n\r #+-.:")
_ZERO, _NINE, _LARGE_E, _SMALL_E, _Q, _I, _D = (ord(sign) for sign in "09Eeqid")
_POWERS = np.array([float(f"1e{power}") for power in range(65)])
_EXACT_POWER = 22  # the last power of ten that float64 holds exactly
_EXACT = 2**53
_FULL = 10**17  # a mantissa of this size takes no more digits
_LARGEST = 3.4028234e38  # just below the largest float32


class ParseOutcome(NamedTuple):
    """The result of a parse: a code (FINE, or the error `at` a byte), counts, and the largest feature id."""

    code: int
    at: int
    rows: int
    queries: int
    doubts: int
    widest: int


@inline_kernel
def _ends(sign: Any) -> Any:
    """Whether a word ends here: at a blank, a control character or a comment."""
    return sign <= _BLANK or sign == _HASH


@inline_kernel
def _skip_blanks(text: Array, at: int) -> int:
    while text[at] == _BLANK or text[at] == _TAB or text[at] == _RETURN:
        at += 1
    return at


@inline_kernel
def _digits(text: Array, at: int, value: int) -> tuple[int, int, int]:
    """Digits appended to a whole number: where they end, the number, and how many were too many for it."""
    dropped = 0
    while _ZERO <= text[at] <= _NINE:
        if value < _FULL:
            value = value * 10 + (int(text[at]) - _ZERO)
        else:
            dropped += 1
        at += 1
    return at, value, dropped


@inline_kernel
def _number(text: Array, at: int) -> tuple[int, Any, bool]:
    """A number: where it ends (-1: it is none), its value, and whether its float32 is certain."""
    sign = text[at]
    if _ZERO <= sign <= _NINE and _ends(text[at + 1]):  # half of the values in such files
        return at + 1, float(int(sign) - _ZERO), True
    start = at + (sign in (_MINUS, _PLUS))
    end, mantissa, power = _digits(text, start, 0)
    count = end - start
    if text[end] == _POINT:
        start = end + 1
        end, mantissa, dropped = _digits(text, start, mantissa)
        count += end - start
        power -= end - start - dropped
    if count > 0 and (text[end] == _SMALL_E or text[end] == _LARGE_E):
        exponent_sign = text[end + 1]
        start = end + 1 + (exponent_sign in (_MINUS, _PLUS))
        end, exponent, _ = _digits(text, start, 0)
        count = end - start
        power += -exponent if exponent_sign == _MINUS else exponent
    if count == 0 or not _ends(text[end]):
        return -1, 0.0, False
    value, certain = _scale(mantissa, power)
    return end, -value if sign == _MINUS else value, certain


@inline_kernel
def _scale(mantissa: int, power: int) -> tuple[Any, bool]:
    """mantissa * 10**power as the float64 next to it or near it, and whether its float32 is certain."""
    if mantissa == 0:
        return 0.0, True
    if power < -64 or power > 64:
        return 0.0, False
    value = mantissa / _POWERS[-power] if power < 0 else mantissa * _POWERS[power]
    error = value * 2.0**-50
    if value + error >= _LARGEST:
        return 0.0, False
    if mantissa < _EXACT and -_EXACT_POWER <= power <= _EXACT_POWER:
        return value, True
    return value, np.float32(value - error) == np.float32(value + error)


@inline_kernel
def _head(text: Array, at: int, line: int, block: Block, row: int, queries: int) -> tuple[int, int, int]:
    """Grade and query of a row: a code, where they end or where the error is, and how many queries there are now."""
    end, grade, certain = _number(text, at)
    if end < 0 or not certain or not 0 <= grade <= MAX_GRADE or grade != int(grade):
        return BAD_GRADE, at, queries
    block.grades[row] = int(grade)
    at = _skip_blanks(text, end)
    is_query = text[at] == _Q and text[at + 1] == _I and text[at + 2] == _D and text[at + 3] == _COLON
    if not is_query or _ends(text[at + 4]):
        return NO_QUERY, at, queries
    start = end = at + 4
    while not _ends(text[end]):
        end += 1
    last = block.starts[queries - 1]
    if queries == 0 or not np.array_equal(text[start:end], text[last[2] : last[3]]):
        new = block.starts[queries]
        new[0], new[1], new[2], new[3] = row, line, start, end
        queries += 1
    return FINE, end, queries


@inline_kernel
def _tail(text: Array, at: int, block: Block, row: int, doubts: int) -> tuple[int, int, int, int]:
    """Features of a row: a code, where they end or where the error is, how many doubts there are, the last id."""
    last, width = 0, block.features.shape[1]
    at = _skip_blanks(text, at)
    while text[at] != _NEWLINE and text[at] != _HASH:
        start, feature, _ = _digits(text, at, 0)
        if start == at or text[start] != _COLON:
            return BAD_FEATURE, at, doubts, last
        if feature == 0 or feature <= last or feature > MAX_FEATURES:
            return (ID_ZERO if feature == 0 else ID_ORDER if feature <= last else ID_LARGE), at, doubts, last
        end, value, certain = _number(text, start + 1)
        if end < 0:
            return BAD_NUMBER, at, doubts, last
        if feature <= width:
            block.features[row, feature - 1] = value
            if not certain:
                doubt = block.doubts[doubts]
                doubt[0], doubt[1], doubt[2], doubt[3] = row, feature - 1, start + 1, end
                doubts += 1
        last = feature
        at = _skip_blanks(text, end)
    return FINE, at, doubts, last


@kernel
def parse(text: Array, block: Block) -> ParseOutcome:
    """Read all lines of a text; features beyond the width of the block are only counted, as `widest`."""
    at, line, row, queries, doubts, widest = 0, 0, 0, 0, 0, 0
    while at < len(text):
        at = _skip_blanks(text, at)
        if text[at] != _NEWLINE and text[at] != _HASH:
            code, at, queries = _head(text, at, line, block, row, queries)
            if code == FINE:
                code, at, doubts, last = _tail(text, at, block, row, doubts)
                widest = max(widest, last)
            if code != FINE:
                return ParseOutcome(code, at, row, queries, doubts, widest)
            row += 1
        while text[at] != _NEWLINE:
            at += 1
        at += 1
        line += 1
    return ParseOutcome(FINE, at, row, queries, doubts, widest)
