"""Parsed sets kept on disk under the digest of the bytes they were parsed from, and mapped into memory when read.

An entry is a folder of .npy files that is made under another name and then renamed: it is whole, or not there.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from interleaf.cache_folder import cache_folder
from interleaf.errors import DataError
from interleaf.simulate.data import Judged
from interleaf.simulate.letor_text import PIECE, Meter, opened

VERSION = 1  # of what the parser makes of given bytes: a change makes old entries unreachable
_ARRAYS = ("features", "grades", "offsets", "queries")


def folder() -> Path:
    """Where parsed sets are kept."""
    return cache_folder("letor")


def entry_of(files: Sequence[Path], meter: Meter) -> Path:
    """Where the set that these bytes parse to is kept, or would be."""
    digest = blake2b(b"letor %d" % VERSION, digest_size=16)
    for file in files:
        size = file.stat().st_size
        digest.update(b"\0%d:" % size)  # so that no two lists of files run together
        with opened(file) as source:
            while read := source.read(PIECE):
                digest.update(read)
                meter.at(source.tell())
        meter.end(size)
    return folder() / digest.hexdigest()


def load(entry: Path, name: str) -> Judged | None:
    """The set kept there; None where there is none, or none that is whole."""
    try:
        features, grades, offsets, queries = (np.load(entry / f"{part}.npy", mmap_mode="r") for part in _ARRAYS)
        if features.dtype != np.float32 or grades.dtype != np.int8:
            return None
        return Judged(features, grades, offsets, tuple(queries.tolist()), name)
    except (OSError, ValueError, EOFError, DataError):
        return None


def save(entry: Path, data: Judged) -> bool:
    """Keep a set; False where that is not possible, which is no reason to stop."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=entry.parent, prefix="part-"))
    except OSError:
        return False
    try:
        for part in _ARRAYS:
            np.save(made / f"{part}.npy", np.asarray(getattr(data, part)))
        shutil.rmtree(entry, ignore_errors=True)  # a broken one, or the same set just kept by another process
        made.rename(entry)
    except OSError:
        return False
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return True
