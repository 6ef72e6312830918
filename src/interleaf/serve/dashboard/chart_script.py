"""The script that draws charts, kept on disk: Vega, Vega-Lite and Vega-Embed in one file, which takes seconds to make.

Browsers of admins run it, so a copy on disk is used only if nobody else can have written it.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from interleaf.cache_folder import cache_folder

PACKAGE = "vl-convert-python"
# Without a snippet of code, the bundle has all of Vega.
_BUNDLE = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle(None).encode())"


def chart_script() -> bytes:
    """The script of the installed version, from disk or made now; OSError or CalledProcessError if that fails.

    Another process makes it: vl-convert runs a JavaScript engine, whose 100 MiB would stay in this one, and holds the
    interpreter lock meanwhile.
    """
    path = cache_folder("charts") / f"vega-{version(PACKAGE)}.js"
    script = _load(path)
    if not script:
        # Its errors are kept too: if this process ends first, it has nobody to write to.
        script = subprocess.run([sys.executable, "-c", _BUNDLE], capture_output=True, check=True).stdout
        with suppress(OSError):
            _save(path, script)
    return script


def _load(path: Path) -> bytes | None:
    """The file, if it and its folder are ours and nobody else can write to them."""
    if sys.platform == "win32":
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            found = (os.fstat(descriptor), path.parent.lstat())
            return file.read() if all(map(_is_ours, found)) else None
    except OSError:
        return None


def _is_ours(found: os.stat_result) -> bool:
    is_plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return is_plain and found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _save(path: Path, script: bytes) -> None:
    """Write the whole file, or none; only its owner can read it and its folder."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix="part-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(script)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
