"""Reads JSON lines, plain or gzip: each line becomes an impression or an event, or is dropped with a reason.

An impression is an object with the names of the columns. Columns that have a default may be left out, and so may
`rankers`, where `rankings` is an object `{ranker: [ids]}`. Columns that follow from `rankings` (`ranks`, `lengths`,
`union`, `choices`) stay null. An object with a `kind` and without `documents` is an event.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import BytesIO
from itertools import chain
from pathlib import Path
from reprlib import repr as short
from typing import Any, BinaryIO, cast

import msgspec

from interleaf.errors import DataError
from interleaf.log import schema
from interleaf.log.drop_reasons import DropReason, text_of
from interleaf.log.validation import READ_EVENT_CHECK, READ_RULES, FieldError, of_field

MAX_LINE_BYTES = 64 * 2**20  # bytes of a line; a longer line is cut off
BLOCK = 2**18  # bytes read at a time
_GZIP = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")  # byte order marks of UTF-16; UTF-32 may begin with the same bytes


def lines_of(path: Path, size: int = sys.maxsize) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers from 1, up to `size` bytes: lines appended to a plain file meanwhile are not read.

    Every line ends in a newline, except lines longer than `MAX_LINE_BYTES`, and the last line if it has none.
    """
    yield from enumerate(chain.from_iterable(map(split_lines, blocks_of(path, size))), 1)


def blocks_of(path: Path, size: int = sys.maxsize) -> Iterator[bytes]:
    """The same lines in blocks, each of whole lines."""
    with open_text(path) as (raw, source):
        yield from _whole_lines(path, source, size if source is raw else sys.maxsize)


def split_lines(block: bytes) -> list[bytes]:
    """The lines of a block; a line longer than `MAX_LINE_BYTES` is cut off."""
    lines = BytesIO(block).readlines()
    return lines if len(block) <= MAX_LINE_BYTES else [line[:MAX_LINE_BYTES] for line in lines]


@contextmanager
def open_text(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file twice: raw, and as text (the same, or unpacked from gzip). Errors name the file."""
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
    """Blocks that end at the end of a line; lines that are too long are cut off."""
    head = source.read(min(left, 4))
    if head.startswith(_WIDE_MARKS) or b"\0" in head:
        problem = f"{path} is encoded in UTF-16 or UTF-32"
        raise DataError(f"{problem}; save it in UTF-8, such as by: iconv -f UTF-16 -t UTF-8 {path} > utf8-{path.name}")
    left -= len(head)
    rest = head.removeprefix(BYTE_ORDER_MARK)
    while data := source.read(min(left, BLOCK)):
        left -= len(data)
        end = data.rfind(b"\n") + 1
        if end:
            yield rest + data[:end]
            rest = data[end:]
        else:
            rest = (rest + data)[: MAX_LINE_BYTES + 1]
    yield rest


class LineError(Exception):
    """A line that is dropped: the key of its count, and what exactly is wrong."""

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(message or text_of(reason))
        self.reason = reason


def parse_line(line: bytes) -> dict[str, Any]:
    """The object of a line."""
    is_whole = line.endswith(b"\n")
    if len(line) >= MAX_LINE_BYTES and not is_whole:
        raise LineError(DropReason.LINE_TOO_LONG, f"the line has over {MAX_LINE_BYTES:,} bytes")
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _parse_again(line, DropReason.NOT_JSON if is_whole else DropReason.CUT_OFF)
    if type(value) is not dict:
        raise LineError(DropReason.NOT_AN_OBJECT, f"the line is {short(value)}; give an object")
    return value


def _parse_again(line: bytes, reason: DropReason) -> Any:
    """Parse with the standard library, which accepts more numbers and escapes than msgspec and explains errors."""

    def refuse_constant(name: str) -> Any:
        raise ValueError(f"{name} is not a JSON number")

    try:
        value = json.loads(line.decode(), parse_constant=refuse_constant)
        json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:  # half of a surrogate pair
        raise LineError(DropReason.NOT_UNICODE) from None
    except (ValueError, RecursionError) as problem:
        raise LineError(reason, f"{reason.text} ({problem}): {short(line)}") from None


def is_further_page(value: dict[str, Any]) -> bool:
    """Whether an object is a further page of an impression."""
    page = value.get("page")
    has_list = value.get("documents") is not None and isinstance(value.get("impression"), str)
    return type(page) is int and page >= 2 and has_list


def is_event(value: dict[str, Any]) -> bool:
    """Whether an object is meant as an event, valid or not."""
    return value.get("kind") is not None and value.get("documents") is None


def event_of(value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The impression of an event line, and the event."""
    for name in ("impression", "rank", "time"):
        if value.get(name) is None:
            raise LineError(DropReason.NO_EVENT_VALUE.of(name), f"the event has no {name!r}: {short(value)}")
    try:
        impression = of_field("impression", READ_RULES["impression"].check, value["impression"])
        return impression, READ_EVENT_CHECK(value)
    except FieldError as problem:
        reason = DropReason.WRONG_EVENT_VALUE.of(problem.field)
        raise LineError(reason, f"the event cannot be used: {problem}") from None


def split_rankings(value: dict[str, Any]) -> dict[str, Any]:
    """Split rankings that are an object into `rankers`, its names, and `rankings`, in the same order."""
    rankings = value.get("rankings")
    if type(rankings) is not dict:
        return value
    names = list(rankings) if value.get("rankers") is None else value["rankers"]
    if type(names) is not list or sorted(map(str, names)) != sorted(rankings):
        message = (
            f"'rankings' are of {short(list(rankings))}, and 'rankers' are {short(names)}; give one ranking per ranker"
        )
        raise LineError(DropReason.WRONG_VALUE.of("rankings"), message)
    return value | {"rankers": names, "rankings": [rankings[str(name)] for name in names]}


def columns_of(
    values: Sequence[dict[str, Any]], folder_columns: Mapping[str, Any]
) -> tuple[dict[str, list[Any]], dict[int, LineError]]:
    """The columns of impressions, and the errors of those that cannot be used, by position.

    If an impression lacks a column, it gets the value from the folder names, or the default.
    """
    columns: dict[str, list[Any]] = {}
    faults: dict[int, LineError] = {}
    for column in schema.COLUMNS:
        cells = [value.get(column.name) for value in values]
        default = folder_columns.get(column.name, schema.DEFAULTS.get(column.name))
        if default is not None and None in cells:
            cells = [default if value is None else value for value in cells]
        present = [value for value in cells if value is not None]
        is_right = READ_RULES[column.name].all_ready(present) and (column.nullable or len(present) == len(cells))
        columns[column.name] = cells if is_right else _check_each(column, cells, faults)
    return columns, faults


def _check_each(column: schema.Column, values: list[Any], faults: dict[int, LineError]) -> list[Any]:
    """The checked values of a column; null where a value is wrong, which is added to the faults."""
    check, prepared = READ_RULES[column.name].check, [None] * len(values)
    for place, value in enumerate(values):
        try:
            if value is not None:
                prepared[place] = check(_texts(value) if column.name == "attributes" else value)
            elif not column.nullable:
                problem = f"the impression has no {column.name!r} ({column.meaning})"
                faults.setdefault(place, LineError(DropReason.NO_VALUE.of(column.name), problem))
        except ValueError as error:
            problem = f"{column.name!r} should be {column.type}: {error}"
            faults.setdefault(place, LineError(DropReason.WRONG_VALUE.of(column.name), problem))
    return prepared


def _texts(attributes: Any) -> dict[str, Any]:
    """Attributes with numbers and booleans as text, written as in JSON."""
    if type(attributes) is not dict:
        raise ValueError(f"{short(attributes)} is not an object of names and texts")
    return {name: json.dumps(value) if isinstance(value, (int, float)) else value for name, value in attributes.items()}
