"""A digest of the code that a module of interleaf may run: of its file, and of all files that these import."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

from tests.support.paths import ROOT

SOURCE = ROOT / "src"
LIBRARIES = ("numpy", "scipy", "numba")  # that exact numbers come from


def files_of(*names: str) -> set[Path]:
    """The files of these modules or packages, and of all that they import, wherever in a file that is written."""
    found, waiting = set[Path](), [file for name in names for file in _files(name, whole=True)]
    while waiting:
        if (file := waiting.pop()) not in found:
            found.add(file)
            waiting += [other for name in _imported(file) for other in _files(name)]
    return found


def code_of(*names: str) -> str:
    """The digest of these files, of this Python, and of the libraries that it computes with."""
    digest = blake2b(repr((sys.version, *map(version, LIBRARIES))).encode(), digest_size=16)
    for file in sorted(files_of(*names)):
        digest.update(f"{file.relative_to(SOURCE)} {file.stat().st_size}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _files(name: str, whole: bool = False) -> Iterator[Path]:
    """The file of a module, with those of the packages around it; or all files of a package."""
    place = SOURCE.joinpath(*name.split("."))
    if whole and place.is_dir():
        yield from place.rglob("*.py")
    for folder in (place, *place.parents):
        if folder == SOURCE:
            return
        for file in (folder.with_suffix(".py"), folder / "__init__.py"):
            if file.is_file():
                yield file


def _imported(file: Path) -> Iterator[str]:
    """All that a file may import from interleaf, but for types; a name that is imported may be a module, too."""
    waiting: list[ast.AST] = [ast.parse(file.read_bytes())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.startswith("interleaf"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("interleaf"):
            yield from (f"{node.module}.{one.name}" for one in node.names)
