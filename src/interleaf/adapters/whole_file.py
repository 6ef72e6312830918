"""Files that other tools read, written whole or not at all: gzip where the name ends in .gz."""

from __future__ import annotations

import gzip
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from interleaf.errors import DataError


@contextmanager
def whole_file(path: str | Path) -> Iterator[IO[bytes]]:
    """A file under a temporary name in the same folder: renamed at the end, removed if anything goes wrong."""
    path = Path(path)
    if not path.parent.is_dir():
        raise DataError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with open(temporary, "wb") as raw:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as zipped:
                    yield cast(IO[bytes], zipped)
            else:
                yield raw
        os.replace(temporary, path)
    except OSError as problem:
        raise DataError(f"cannot write {path}: {problem.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
