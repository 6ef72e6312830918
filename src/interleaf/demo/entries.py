"""What the demo searches: the documentation of the Python standard library, read from its sources without importing it.

One entry for each public module, class, function and method with a docstring; modules written in C have no source here,
and are not found.
"""

from __future__ import annotations

import ast
import re
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from interleaf.errors import DataError

# Not documentation that anyone searches for: tests, programs, what was thrown out since, what is generated.
LEFT_OUT = {
    *("test", "tests", "idlelib", "lib2to3", "turtledemo", "distutils", "ensurepip", "pydoc_data", "encodings"),
    *("site-packages", "dist-packages", "antigravity", "this"),
}
MODULE, CLASS, FUNCTION, METHOD = "module", "class", "function", "method"
LONGEST_PARAMETERS = 70
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Entry:
    """One thing that is documented: `id` is its qualified name, `title` that name with its parameters."""

    id: str
    kind: str
    module: str
    title: str
    text: str

    @property
    def owner(self) -> str:
        """Where it is defined: a class for a method, a package for a module; empty at the top.

        >>> Entry("json.JSONDecoder.decode", METHOD, "json", "json.JSONDecoder.decode(s)", "...").owner
        'json.JSONDecoder'
        """
        return self.id.rpartition(".")[0]


def read_entries(folder: Path | None = None) -> list[Entry]:
    """All entries below a folder of sources, by default the standard library's; always in the same order."""
    folder = folder or Path(sysconfig.get_paths()["stdlib"])
    found: dict[str, Entry] = {}
    for path in _sources(folder):
        parts = path.relative_to(folder).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        for entry in _module(name, path):
            found.setdefault(entry.id, entry)  # the first of several definitions, such as those of a property
    if not found:
        raise DataError(f"{folder} holds no Python sources with docstrings; the demo searches those: install them")
    return list(found.values())


def _sources(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.stem != "__init__" and (path.name in LEFT_OUT or path.stem in LEFT_OUT or path.stem.startswith("_")):
            continue
        if path.suffix == ".py":
            yield path
        elif (path / "__init__.py").is_file():
            yield from _sources(path)


def _module(name: str, path: Path) -> Iterator[Entry]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError):  # a file that this Python cannot read documents nothing
        return
    text = ast.get_docstring(tree)
    if text:
        yield Entry(name, MODULE, name, name, _plain(text))
    yield from _definitions(tree.body, name, name, FUNCTION)


def _definitions(body: Sequence[ast.stmt], owner: str, module: str, kind: str) -> Iterator[Entry]:
    for node in body:
        if isinstance(node, ast.If | ast.Try):  # what depends on the platform
            yield from _definitions([*node.body, *node.orelse], owner, module, kind)
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        name, text = f"{owner}.{node.name}", ast.get_docstring(node)
        if text:
            found = CLASS if isinstance(node, ast.ClassDef) else kind
            yield Entry(name, found, module, name + _parameters(node, kind), _plain(text))
        if isinstance(node, ast.ClassDef):
            yield from _definitions(node.body, name, module, METHOD)


def _parameters(node: Definition, kind: str) -> str:
    """As one would write them, without self; those of a class are those that it is made with."""
    if isinstance(node, ast.ClassDef):
        made = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
        return _parameters(made[0], METHOD) if made else ""
    marks = {ast.unparse(mark).partition("(")[0] for mark in node.decorator_list}
    if marks & {"property", "cached_property", "functools.cached_property"}:
        return ""
    if kind == METHOD and "staticmethod" not in marks:
        del (node.args.posonlyargs or node.args.args)[:1]
    written = ast.unparse(node.args)
    if len(written) > LONGEST_PARAMETERS:
        written = written[:LONGEST_PARAMETERS].rpartition(",")[0] + ", …"
    return f"({written})"


def _plain(text: str) -> str:
    """Without characters that cannot be seen, but for ends of lines: two of them mark highlights later."""
    return re.sub(r"[\x00-\x09\x0b-\x1f\x7f]", " ", text)
