"""Folders that have the same path in every run, for tests that write files with kernels.

Numba makes a folder in NUMBA_CACHE_DIR for each folder of source files with kernels, although compiled code is kept in
one folder for all (interleaf.kernels.jit). Folders with new paths in every run would fill NUMBA_CACHE_DIR.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def kernel_folder(name: str) -> Iterator[Path]:
    """An empty folder, the same in every run; another, while a run beside this one has it."""
    place = Path(tempfile.gettempdir()) / f"interleaf-kernel-folders-{os.getuid()}"
    place.mkdir(mode=0o700, exist_ok=True)
    folder = place / re.sub(r"\W+", "-", name)
    with folder.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with tempfile.TemporaryDirectory() as other:
                yield Path(other)
            return
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
