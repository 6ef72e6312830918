"""Files that only their owner can read: the SQLite store, backups of it, keys."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from interleaf.errors import DataError

OWNER_ONLY = 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def create_private(path: Path, content: bytes = b"") -> None:
    """Create a file with mode 0600, whatever the umask is; FileExistsError if there is a file already."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY)
    except FileExistsError:
        raise
    except OSError as error:
        raise DataError(f"cannot create {path}: {error.strerror}; give another path") from None
    with os.fdopen(descriptor, "wb") as file:
        os.chmod(path, OWNER_ONLY)  # a umask may have taken the owner's own permissions away
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def exposure(*paths: Path) -> str | None:
    """A warning with its remedy if other users of this machine can open any of these files, else None."""
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in paths if path.exists()}
    exposed = [path for path, mode in modes.items() if mode & _OTHERS]
    if not exposed:
        return None
    named = ", ".join(f"{path} (mode {modes[path]:04o})" for path in exposed)
    remedy = " ".join(["chmod", "600", *map(str, exposed)])
    return f"other users of this machine can open {named}; close it to them: {remedy}"
