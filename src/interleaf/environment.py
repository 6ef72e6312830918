"""Optional extras of this installation, the command that installs each, and the cache folder.

The command uses the source of this installation, which pip and uv record in `direct_url.json` (PEP 610): a source
directory, a repository, a file, or a package index.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from interleaf.errors import MissingExtraError

_NAME = "interleaf"


def require(extra: str, need: str, *modules: str) -> None:
    """Raise `MissingExtraError` unless all these modules of an extra are installed.

    `need` begins the message, such as "the service needs".
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise MissingExtraError(f"{need} {', '.join(missing)}; run: {install_command(extra)}")


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation, quoted for a shell."""
    words = [*_installer(), *_requirement(extra, _origin())]
    return shlex.join(words) if os.name == "posix" else subprocess.list2cmdline(words)


def _installer() -> list[str]:
    """The pip of this Python: by its short name if the shell finds it, or uv if there is no pip."""
    python = Path(sys.executable)
    if find_spec("pip") is None:
        return ["uv", "pip", "install", "--python", str(python)]
    first = shutil.which("pip")
    return [*(["pip"] if first and Path(first).parent == python.parent else [str(python), "-m", "pip"]), "install"]


def _origin() -> dict[str, Any]:
    """The content of `direct_url.json`; empty for an installation from a package index."""
    try:
        return dict(json.loads(distribution(_NAME).read_text("direct_url.json") or "{}"))
    except PackageNotFoundError:  # the source directory is on the path, and nothing is installed
        folder = Path(__file__).parents[2]
        return {"url": folder.as_uri(), "dir_info": {"editable": True}} if (folder / "pyproject.toml").exists() else {}


def _requirement(extra: str, origin: dict[str, Any]) -> list[str]:
    """What pip is asked to install; an editable installation stays one."""
    url = origin.get("url", "")
    if not url:
        return [f"{_NAME}[{extra}]"]
    if "dir_info" in origin:
        editable = ["-e"] if origin["dir_info"].get("editable") else []
        return [*editable, f"{url2pathname(urlsplit(url).path)}[{extra}]"]
    if "vcs_info" in origin:
        version = origin["vcs_info"]
        url = f"{version['vcs']}+{url}@{version.get('requested_revision') or version['commit_id']}"
    folder = origin.get("subdirectory")
    return [f"{_NAME}[{extra}] @ {url}" + (f"#subdirectory={folder}" if folder else "")]


def cache_folder(name: str) -> Path:
    """A folder in `INTERLEAF_CACHE`, else in `interleaf` in `XDG_CACHE_HOME` or in `~/.cache`; it may not exist."""
    own = os.environ.get("INTERLEAF_CACHE")
    general = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # never fails, as Path.home() may
    return (Path(own) if own else Path(general) / "interleaf") / name
