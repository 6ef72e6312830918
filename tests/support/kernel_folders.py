"""Folders that have the same path in every run, for tests that write files with kernels.

Numba keeps compiled code by the folder of its source. In a new folder, all kernels of a file are compiled in every run;
in a folder of the same path, only when their code has changed (interleaf.kernels.code_digest).
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
