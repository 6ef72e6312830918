"""The files that pages use: style, script, icon, and vega's bundle, which is made once and kept."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.util import find_spec
from threading import Thread

from starlette.requests import Request
from starlette.responses import Response

from interleaf.serve.dashboard.chart_script import PACKAGE, chart_script
from interleaf.serve.responses import log

VEGA = "vega.js"
KINDS = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
FOLDERS = ("interleaf.serve", "interleaf.serve.dashboard")
EMBEDDED = "interleaf.js"  # in result pages of other sites
_HOUR = 3600


@dataclass(frozen=True)
class File:
    """What is sent: as it is, and packed."""

    data: bytes
    packed: bytes
    tag: str

    @classmethod
    def of(cls, data: bytes) -> File:
        """A file with its tag."""
        return cls(data, gzip.compress(data, 6, mtime=0), f'"{blake2b(data, digest_size=12).hexdigest()}"')


async def served(request: Request) -> Response:
    """A file by its name; other sites may use the script that is meant for them."""
    name = request.path_params["name"]
    found = await asyncio.shield(asyncio.wrap_future(prepare())) if name == VEGA else known().get(name)
    if found is None:
        return Response("there is no such file", 404, media_type="text/plain")
    headers = {"ETag": found.tag, "Vary": "Accept-Encoding", "Cache-Control": f"public, max-age={_age(name)}"}
    if name == EMBEDDED:
        headers["Access-Control-Allow-Origin"] = "*"
    if found.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    kind = KINDS[name[name.rindex(".") :]]
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(found.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=kind)
    return Response(found.data, headers=headers, media_type=kind)


def _age(name: str) -> int:
    """Seconds that a browser need not ask again: vega's address names its version."""
    return {VEGA: 8760 * _HOUR, EMBEDDED: _HOUR}.get(name, 0)


@lru_cache(maxsize=1)
def known() -> dict[str, File]:
    """All files of ours; the style of static reports is that of the pages, too."""
    folders = [files(package).joinpath("static") for package in FOLDERS]
    found = [path for folder in folders for path in folder.iterdir() if path.name.endswith(tuple(KINDS))]
    found.append(files("interleaf.render").joinpath("page.css"))
    return {path.name: File.of(path.read_bytes()) for path in found}


@lru_cache(maxsize=1)
def vega() -> File | None:
    """The script that draws charts; None if it cannot be made."""
    if find_spec("vl_convert") is None:
        return None
    try:
        return File.of(chart_script())
    except (OSError, subprocess.CalledProcessError) as error:
        log.error("pages show no charts until a restart: their script was not made", extra={"reason": str(error)})
        return None


@lru_cache(maxsize=1)
def vega_address() -> str:
    """Where the bundle is, with its version, so that browsers may keep it; empty where there is none."""
    try:
        return f"/static/{VEGA}?v={version(PACKAGE)}"
    except PackageNotFoundError:
        return ""


@lru_cache(maxsize=1)
def prepare() -> Future[File | None]:
    """Begin to make the bundle, so that it is there when a page asks for it. However many ask, it is made once."""
    bundle: Future[File | None] = Future()
    Thread(target=lambda: bundle.set_result(vega()), name="interleaf-vega", daemon=True).start()
    return bundle
