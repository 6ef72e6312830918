"""The dashboard's static files: style, scripts, and Vega, which is bundled once and cached on disk.

Browsers of admins run the bundle, so a cached file is used only if no other user can have written it.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import stat
import subprocess
import sys
import tempfile
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

from starlette.requests import Request
from starlette.responses import Response

from interleaf.environment import cache_folder
from interleaf.server.schemas import log

PACKAGE = "vl-convert-python"
# With None in place of a code snippet, the bundle has all of Vega.
_BUNDLE = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle(None).encode())"


def chart_script() -> bytes:
    """The Vega bundle of the installed version, cached or built now; OSError or CalledProcessError if that fails.

    It is built in another process: vl-convert runs a JavaScript engine, which takes 100 MiB and holds the GIL.
    """
    path = cache_folder("charts") / f"vega-{version(PACKAGE)}.js"
    script = _load(path)
    if not script:
        # Capture stderr, too: if this process ends first, the other one could not write to it.
        script = subprocess.run([sys.executable, "-c", _BUNDLE], capture_output=True, check=True).stdout
        with suppress(OSError):
            _save(path, script)
    return script


def _load(path: Path) -> bytes | None:
    """The file, if this user owns it and its folder and no other user can write to them."""
    if sys.platform == "win32":
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            for place in (os.fstat(descriptor), path.parent.lstat()):
                is_plain = stat.S_ISREG(place.st_mode) or stat.S_ISDIR(place.st_mode)
                if not is_plain or place.st_uid != os.geteuid() or place.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    return None
            return file.read()
    except OSError:
        return None


def _save(path: Path, script: bytes) -> None:
    """Write the file atomically; only its owner can read it and its folder."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix="part-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(script)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


VEGA = "vega.js"
KINDS = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
EMBEDDED = "interleaf.js"  # the script for result pages of other sites
_HOUR = 3600


@dataclass
class StaticFile:
    """A file as it is, and compressed, with its ETag."""

    data: bytes

    def __post_init__(self) -> None:
        self.packed = gzip.compress(self.data, 6, mtime=0)
        self.tag = f'"{blake2b(self.data, digest_size=12).hexdigest()}"'


async def serve(request: Request) -> Response:
    """Respond with a file; other sites may load interleaf.js."""
    name = request.path_params["name"]
    file = await asyncio.shield(asyncio.wrap_future(prepare())) if name == VEGA else own_files().get(name)
    if file is None:
        return Response("there is no such file", 404, media_type="text/plain")
    max_age = {VEGA: 8760 * _HOUR, EMBEDDED: _HOUR}.get(name, 0)  # seconds; the URL of Vega contains its version
    headers = {"ETag": file.tag, "Vary": "Accept-Encoding", "Cache-Control": f"public, max-age={max_age}"}
    if name == EMBEDDED:
        headers["Access-Control-Allow-Origin"] = "*"
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    kind = KINDS[name[name.rindex(".") :]]
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=kind)
    return Response(file.data, headers=headers, media_type=kind)


@lru_cache(maxsize=1)
def own_files() -> dict[str, StaticFile]:
    """All files of this package; static reports and pages share a stylesheet."""
    folders = [files(package).joinpath("static") for package in ("interleaf.server", "interleaf.server.dashboard")]
    paths = [path for folder in folders for path in folder.iterdir() if path.name.endswith(tuple(KINDS))]
    paths.append(files("interleaf.report").joinpath("templates", "page.css"))
    return {path.name: StaticFile(path.read_bytes()) for path in paths}


@lru_cache(maxsize=1)
def vega() -> StaticFile | None:
    """The script that draws charts; None if it cannot be built."""
    if find_spec("vl_convert") is None:
        return None
    try:
        return StaticFile(chart_script())
    except (OSError, subprocess.CalledProcessError) as error:
        log.error("pages show no charts until a restart: their script could not be built", extra={"reason": str(error)})
        return None


@lru_cache(maxsize=1)
def vega_address() -> str:
    """The URL of the bundle, with its version so that browsers can cache it; empty if there is none."""
    try:
        return f"/static/{VEGA}?v={version(PACKAGE)}"
    except PackageNotFoundError:
        return ""


@lru_cache(maxsize=1)
def prepare() -> Future[StaticFile | None]:
    """Start to build the bundle in the background, once per process."""
    bundle: Future[StaticFile | None] = Future()
    Thread(target=lambda: bundle.set_result(vega()), name="interleaf-vega", daemon=True).start()
    return bundle
