"""The files of a log: from paths, globs and folders to a sorted list, with what the folders' names say.

A folder such as `experiment=shop/date=2026-11-01` gives the files in it columns, as Hive and Spark write them. Those of
the native schema are used where a file lacks them; others, such as a date, are left to their folders.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from interleaf import schema
from interleaf.errors import DataError, listed
from interleaf.log.remote import Address, found_at, is_remote

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]

PARQUET = (".parquet",)
LINES = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
CSV = (".csv", ".csv.gz")
ENDINGS = (*PARQUET, *LINES, *CSV)
_NULL = "__HIVE_DEFAULT_PARTITION__"


class File(NamedTuple):
    """A file of a log, and how large it was when it was found; `said` are the columns that its folders' names give."""

    path: Path | Address
    size: int
    is_parquet: bool
    said: dict[str, pa.Scalar]

    @property
    def is_csv(self) -> bool:
        """Whether it is a table of comma-separated values."""
        return self.path.name.endswith(CSV)

    @property
    def here(self) -> Path:
        """Its path on this machine, where files of lines always are."""
        return Path(str(self.path))


def files_of(paths: Paths) -> list[File]:
    """All files, each once: in the order given, those of a folder or a glob sorted."""
    given = [paths] if isinstance(paths, (str, PathLike)) else paths
    if not given:
        raise DataError("there is no log to read; give a path, a glob, a folder, or several")
    found: dict[Path | Address, File] = {}
    for one in (os.fspath(path) for path in given):
        if is_remote(one):
            found |= {file.path: file for file in _remote(one)}
        else:
            found |= {path.resolve(): _file(path) for path in _expanded(one)}
    return list(found.values())


def _remote(given: str) -> Iterator[File]:
    """The Parquet files of an address."""
    there = False
    for address, size in found_at(given):
        if address.name.endswith(PARQUET) and not any(map(_is_scratch, address.parts)):
            there = True
            yield File(address, size, True, dict(_said(address)))
    if not there:
        raise DataError(f"there is no Parquet file at {given}; logs elsewhere than in folders end in {listed(PARQUET)}")


def _expanded(given: str) -> list[Path]:
    path = Path(given)
    if path.is_dir():
        found = list(_inside(path))
        if not found:
            raise DataError(f"there is no log in the folder {given}; its files end in {listed(ENDINGS)}")
        return found
    if path.exists() or not glob.has_magic(given):
        return [path]
    found = [file for match in _matches(given) for file in (_inside(match) if match.is_dir() else [match])]
    if not found:
        raise DataError(f"no file fits {given}, or only ones that begin with a dot or an underscore; check the pattern")
    return found


def _inside(folder: Path) -> Iterator[Path]:
    """The logs in a folder and in the folders in it."""
    for entry in sorted(folder.iterdir()):
        if _is_scratch(entry.name):
            continue
        if entry.is_dir():
            yield from _inside(entry)
        elif entry.name.endswith(ENDINGS):
            yield entry


def _matches(pattern: str) -> Iterator[Path]:
    """What fits a pattern, but for scratch in the folders that the pattern found."""
    fixed = next(place for place, part in enumerate(Path(pattern).parts) if glob.has_magic(part))
    for match in sorted(map(Path, glob.glob(pattern, recursive=True))):
        if not any(map(_is_scratch, match.parts[fixed:])):
            yield match


def _is_scratch(name: str) -> bool:
    """Files on their way, markers, what a failed job left behind."""
    return name.startswith((".", "_"))


def _file(path: Path) -> File:
    try:
        size = path.stat().st_size
    except OSError as problem:
        raise DataError(f"there is no file {path} to read ({problem.strerror}); give the path of a log") from None
    if not path.name.endswith(ENDINGS):
        raise DataError(f"cannot tell the format of the log {path} from its name; end it in {listed(ENDINGS)}")
    return File(path, size, path.name.endswith(PARQUET), dict(_said(path)))


def _said(path: Path | Address) -> Iterator[tuple[str, pa.Scalar]]:
    kinds = {column.name: column.type for column in schema.COLUMNS if not pa.types.is_nested(column.type)}
    for part in path.parts[:-1]:
        name, equals, text = part.partition("=")
        if equals and name in kinds and text != _NULL:
            try:
                yield name, pa.scalar(unquote(text)).cast(kinds[name])
            except pa.ArrowInvalid as problem:
                raise DataError(
                    f"{path}: its folder {part!r} should give the column {name!r} ({kinds[name]}): {problem}"
                ) from None
