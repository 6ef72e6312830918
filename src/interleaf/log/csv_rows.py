"""Reads CSV files: each row becomes the same object as a line of JSON.

The first row names the columns. Lists and objects, such as `documents` and `events`, are JSON in their cells. An empty
cell is null. A file with `kind` and without `documents` holds one event per row, with the id of its impression.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from reprlib import repr as short
from typing import Any

import pyarrow as pa

from interleaf.log import schema
from interleaf.log.drop_reasons import DropReason
from interleaf.log.files import LogFile
from interleaf.log.jsonl import MAX_LINE_BYTES, LineError, lines_of

Cell = Callable[[str], Any]


def csv_columns(file: LogFile) -> list[str]:
    """The columns of a file; an error lists all columns that are missing."""
    names = next(_cells(file), (0, []))[1]
    columns = schema.EVENT if is_of_events(names) else schema.COLUMNS
    present = {*names, *file.folder_columns}
    lacking = [column for column in columns if not column.nullable and column.name not in present]
    if is_of_events(names):
        lacking += [column for column in schema.COLUMNS if column.name == "impression" and column.name not in names]
    else:
        optional = {*schema.DEFAULTS, *(["rankers"] if "rankings" in names else [])}
        lacking = [column for column in lacking if column.name not in optional]
    problems = [f"there is no column {column.name!r} ({column.meaning}); add it" for column in lacking]
    repeated = [name for name in sorted(set(names)) if names.count(name) > 1]
    problems += [f"two columns are named {name!r}; keep one of them" for name in repeated]
    if len(problems) > 1 and len(names) == 1:
        problems.insert(0, f"the first row is one cell, {names[0]!r}; separate columns by commas")
    schema.refuse(problems, str(file.path))
    return names


def is_of_events(names: list[str]) -> bool:
    """Whether a file with these columns holds one event per row."""
    return "kind" in names and "documents" not in names


def csv_objects(file: LogFile) -> Iterator[tuple[int, dict[str, Any] | LineError]]:
    """The rows of a file with their line numbers: each is an object, or the error that explains why it is not."""
    cells = _cells(file)
    names = next(cells, (0, []))[1]
    types = {column.name: column.type for column in (schema.EVENT if is_of_events(names) else schema.COLUMNS)}
    readers = [_reader(types.get(name, pa.string())) for name in names]
    for number, row in cells:
        if len(row) == len(names):
            yield number, _object(names, readers, row)
        elif row:
            problem = f"the row has {len(row)} cells, and the first one {len(names)}"
            yield number, LineError(DropReason.CELL_COUNT, problem)


def _cells(file: LogFile) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    rows = csv.reader(line.decode(errors="surrogateescape") for _, line in lines_of(file.here, file.size))
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as problem:
        raise LineError(DropReason.NOT_CSV, f"{file.path}:{rows.line_num}: {problem}") from None


def _object(names: list[str], readers: list[Cell], row: list[str]) -> dict[str, Any] | LineError:
    values: dict[str, Any] = {}
    for name, read, text in zip(names, readers, row, strict=True):
        if not text:
            continue
        try:
            values[name] = read(text)
            text.encode()
        except UnicodeEncodeError:
            return LineError(DropReason.NOT_UNICODE, f"{name!r} is not UTF-8: {short(text)}")
        except ValueError as problem:
            return LineError(DropReason.WRONG_VALUE.of(name), f"{name!r}: {problem}")
    return values


def _reader(kind: pa.DataType) -> Cell:
    if pa.types.is_nested(kind):
        return _parse_nested
    if pa.types.is_integer(kind):
        return _whole
    if pa.types.is_floating(kind):
        return float
    return _flag if pa.types.is_boolean(kind) else str


def _parse_nested(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(f'{short(text)} is not JSON; write lists such as ["d1", "d2"]') from None


def _whole(text: str) -> int:
    number = float(text)  # libraries write integer columns that have nulls as 2.0
    if not number.is_integer():
        raise ValueError(f"{short(text)} is not a whole number")
    return int(number) if "." in text or "e" in text.lower() else int(text)


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "1", "false", "0"):
        raise ValueError(f"{short(text)} is neither true nor false")
    return text.lower() in ("true", "1")
