"""Lists the files of a log, given paths, globs, folders or addresses such as s3://bucket/logs.

A folder name such as `experiment=shop` gives its files a column, as in Hive and Spark. It is used where a file lacks
that column. Folder names that are not a column of a log, such as `date=2026-11-01`, are ignored. Arrow's file systems
open remote files, and find credentials and regions where the tools of each cloud store them.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from interleaf.errors import DataError, join_names
from interleaf.log import schema

_SCHEMES = ("s3", "gs", "abfss", "hdfs")
_HADOOP = {"s3a": "s3", "s3n": "s3"}


@dataclass(frozen=True)
class RemotePath:
    """A remote file; like a path, it has a name and parts."""

    scheme: str
    path: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.path}"

    @property
    def name(self) -> str:
        return self.parts[-1]

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.split("/"))

    def open(self) -> pa.NativeFile:
        """Open the file for random access."""
        system, path = _system(str(self))
        return system.open_input_file(path)


def _system(address: str) -> tuple[Any, str]:
    """Arrow's file system for an address, and the path in it."""
    from pyarrow import fs

    scheme, _, rest = address.partition("://")
    scheme = _HADOOP.get(scheme, scheme)
    try:
        return fs.FileSystem.from_uri(f"{scheme}://{rest}")  # type: ignore[no-any-return]
    except (pa.ArrowException, OSError, ValueError) as problem:
        if scheme in _SCHEMES:  # opening a bucket may ask for its region
            raise DataError(f"cannot open {address}: {problem}; check its address, keys and region") from None
        # Only the scheme: the rest may contain a password.
        raise DataError(
            f"an address that begins with {scheme}:// is not a log; use {join_names(_SCHEMES)}, or a path"
        ) from None


Paths = str | PathLike[str] | Sequence[str | PathLike[str]]

PARQUET = (".parquet",)
LINES = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
CSV = (".csv", ".csv.gz")
ENDINGS = (*PARQUET, *LINES, *CSV)
_NULL = "__HIVE_DEFAULT_PARTITION__"


class LogFile(NamedTuple):
    """A file of a log, its size when it was listed, and the columns given by the names of its folders."""

    path: Path | RemotePath
    size: int
    is_parquet: bool
    folder_columns: dict[str, pa.Scalar]

    @property
    def is_csv(self) -> bool:
        return self.path.name.endswith(CSV)

    @property
    def here(self) -> Path:
        """Its path on this machine; JSON lines and CSV are always local."""
        return Path(str(self.path))


def files_of(paths: Paths) -> list[LogFile]:
    """All files, each once, in the order given; the files of a folder or a glob are sorted."""
    paths = [paths] if isinstance(paths, (str, PathLike)) else paths
    if not paths:
        raise DataError("there is no log to read; give a path, a glob, a folder, or several")
    files: dict[Path | RemotePath, LogFile] = {}
    for one in (os.fspath(path) for path in paths):
        if "://" in one:
            files |= {file.path: file for file in _remote(one)}
        else:
            files |= {path.resolve(): _file(path) for path in _expand(one)}
    return list(files.values())


def _remote(address: str) -> list[LogFile]:
    """The Parquet files at an address, which may be a folder or a pattern, sorted."""
    from pyarrow import fs

    scheme = address.partition("://")[0]
    magic = re.search(r"[*?\[]", address)
    folder = address[: magic.start()].rpartition("/")[0] if magic else address
    try:
        system, path = _system(folder)
        info = system.get_file_info(path)
        is_folder = info.type == fs.FileType.Directory
        infos = [info, *(system.get_file_info(fs.FileSelector(path, recursive=True)) if is_folder else [])]
    except (pa.ArrowException, OSError) as problem:
        raise DataError(f"cannot look at {address}: {problem}; check its address and keys") from None
    pattern = path + address[len(folder) :]
    files = []
    for one in sorted(infos, key=lambda one: one.path):
        remote = RemotePath(scheme, one.path)
        is_log = one.type == fs.FileType.File and one.path.endswith(PARQUET) and not any(map(_is_scratch, remote.parts))
        if is_log and (not magic or one is info or fnmatch.fnmatchcase(one.path, pattern)):
            files.append(LogFile(remote, one.size, True, dict(_folder_columns(remote))))
    if not files:
        endings = join_names(PARQUET)
        raise DataError(f"there is no Parquet file at {address}; logs elsewhere than in folders end in {endings}")
    return files


def _expand(text: str) -> list[Path]:
    path = Path(text)
    if path.is_dir():
        matches, problem = [path], f"there is no log in the folder {text}; its files end in {join_names(ENDINGS)}"
    elif path.exists() or not glob.has_magic(text):
        return [path]
    else:
        matches = list(_matches(text))
        problem = f"no file fits {text}, or only ones that begin with a dot or an underscore; check the pattern"
    files = [file for match in matches for file in (_inside(match) if match.is_dir() else [match])]
    if not files:
        raise DataError(problem)
    return files


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
    """The paths that match a pattern, except scratch files in the folders that it matches."""
    fixed = next(place for place, part in enumerate(Path(pattern).parts) if glob.has_magic(part))
    for match in sorted(map(Path, glob.glob(pattern, recursive=True))):
        if not any(map(_is_scratch, match.parts[fixed:])):
            yield match


def _is_scratch(name: str) -> bool:
    """Whether a file is unfinished, a marker, or left behind by a failed job."""
    return name.startswith((".", "_"))


def _file(path: Path) -> LogFile:
    try:
        size = path.stat().st_size
    except OSError as problem:
        raise DataError(f"there is no file {path} to read ({problem.strerror}); give the path of a log") from None
    if not path.name.endswith(ENDINGS):
        raise DataError(f"cannot tell the format of the log {path} from its name; end it in {join_names(ENDINGS)}")
    return LogFile(path, size, path.name.endswith(PARQUET), dict(_folder_columns(path)))


def _folder_columns(path: Path | RemotePath) -> Iterator[tuple[str, pa.Scalar]]:
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
