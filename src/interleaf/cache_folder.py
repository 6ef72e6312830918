"""The folder for what can be made again, but takes long to make."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """A folder in `INTERLEAF_CACHE`, else in `interleaf` in `XDG_CACHE_HOME` or in `~/.cache`; it may not exist."""
    own = os.environ.get("INTERLEAF_CACHE")
    general = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # never fails, as Path.home() may
    return (Path(own) if own else Path(general) / "interleaf") / name
