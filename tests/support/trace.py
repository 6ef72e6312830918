"""Which files of the package a call enters, in order."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import interleaf

SOURCE = Path(interleaf.__file__).parent


def files_entered(call: Callable[[], Any]) -> list[str]:
    """The files whose functions run in a call, in the order of the first one, also in threads that it starts."""
    files: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.endswith(".py"):
            files.setdefault(code.co_filename)

    threading.setprofile_all_threads(note) if sys.version_info >= (3, 12) else threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile_all_threads(None) if sys.version_info >= (3, 12) else threading.setprofile(None)
    inside = [Path(file) for file in files if Path(file).is_relative_to(SOURCE)]
    return [path.relative_to(SOURCE).as_posix() for path in inside]
