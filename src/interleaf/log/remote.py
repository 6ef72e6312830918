"""Logs in other places than this machine's folders: addresses such as s3://bucket/logs, opened by Arrow's file systems.

`s3a` and `s3n`, as Hadoop calls them, are `s3`. Keys and regions come from where each store's own tools have them.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from interleaf.errors import DataError, listed

_SCHEMES = ("s3", "gs", "abfss", "hdfs")
_HADOOP = {"s3a": "s3", "s3n": "s3"}


@dataclass(frozen=True)
class Address:
    """A file in such a place; like a path, it has a name and parts."""

    scheme: str
    path: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.path}"

    @property
    def name(self) -> str:
        """The last part."""
        return self.parts[-1]

    @property
    def parts(self) -> tuple[str, ...]:
        """The folders, and the file's name."""
        return tuple(self.path.split("/"))

    def open(self) -> pa.NativeFile:
        """The file, to be read from any place in it."""
        system, path = _system(str(self))
        return system.open_input_file(path)


def is_remote(given: str) -> bool:
    """Whether this is an address.

    >>> is_remote("s3a://bucket/log.parquet"), is_remote("logs/log.parquet")
    (True, False)
    """
    return "://" in given


def found_at(given: str) -> Iterator[tuple[Address, int]]:
    """The files at an address, in a folder there or by a pattern, sorted, with their sizes."""
    from pyarrow import fs

    scheme = given.partition("://")[0]
    magic = re.search(r"[*?\[]", given)
    fixed = given[: magic.start()].rpartition("/")[0] if magic else given
    try:
        system, path = _system(fixed)
        info = system.get_file_info(path)
        inside = (
            system.get_file_info(fs.FileSelector(path, recursive=True)) if info.type == fs.FileType.Directory else []
        )
    except (pa.ArrowException, OSError) as problem:
        raise DataError(f"cannot look at {given}: {problem}; check its address and keys") from None
    if info.type == fs.FileType.File:
        yield Address(scheme, path), info.size
    pattern = path + given[len(fixed) :]
    for one in sorted(inside, key=lambda one: one.path):
        fits = fixed == given or fnmatch.fnmatchcase(one.path, pattern)
        if fits and one.type == fs.FileType.File:
            yield Address(scheme, one.path), one.size


def _system(address: str) -> tuple[Any, str]:
    """Arrow's file system of an address, and the path in it."""
    from pyarrow import fs

    given, _, rest = address.partition("://")
    scheme = _HADOOP.get(given, given)
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(f"{scheme}://{rest}")
    except (pa.ArrowException, OSError, ValueError) as problem:
        if scheme in _SCHEMES:  # opening a bucket may ask for its region
            raise DataError(f"cannot open {address}: {problem}; check its address, keys and region") from None
        raise DataError(f"no file system for {address}: {problem}; use {listed(_SCHEMES)}, or a path") from None
    return found
