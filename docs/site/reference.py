"""The API reference from docstrings: `reference/MODULE.md` in the navigation becomes a page of that module's names."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PAGE = re.compile(r"reference/(interleaf[\w.]*)\.md")
EXAMPLE = re.compile(r"(?:^ *>>> .*\n?)(?:^ *\S.*\n?)*", re.MULTILINE)
LINE = 100


class _Bare(str):
    """An annotation that prints as it was written, without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by mkdocs with all files; adds a page for each module that the navigation names."""
    for name in PAGE.findall(str(config.nav)):
        files.append(File.generated(config, f"reference/{name}.md", content=_module_page(import_module(name))))
    return files


def _module_page(module: ModuleType) -> str:
    parts = [f"# {module.__name__}", _text(module)]
    for name, found in sorted(_public(module).items(), key=lambda item: item[0].lower()):
        parts += _entry(name, found)
    return "\n\n".join(part for part in parts if part)


def _public(module: ModuleType) -> dict[str, Any]:
    """What a module says is public, else its functions and classes, else those of the modules in it."""
    if hasattr(module, "__all__"):
        return {name: getattr(module, name) for name in module.__all__}
    found = {
        name: thing
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", "").startswith(module.__name__)
    }
    inner = [import_module(f"{module.__name__}.{one.name}") for one in iter_modules(getattr(module, "__path__", []))]
    return found or {
        f"{one.__name__.rpartition('.')[2]}.{name}": thing for one in inner for name, thing in _public(one).items()
    }


def _entry(name: str, found: Any) -> Iterator[str]:
    yield f"## {name}"
    if inspect.ismodule(found):
        yield f"A module: [{found.__name__}]({found.__name__}.md)."
        return
    if not callable(found):
        yield f"```python\n{name}: {type(found).__name__}\n```"
        return
    yield _signature(name, found)
    yield _text(found)
    if inspect.isclass(found):
        for inner, member in _members(found):
            yield f"### {name}.{inner}"
            yield _signature(inner, member) if callable(member) else ""
            yield _text(member)


def _members(found: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties with a docstring of their own, those of bases of ours, too."""
    ours = [base for base in reversed(found.__mro__) if base.__module__.startswith("interleaf")]
    for name, member in {name: member for base in ours for name, member in vars(base).items()}.items():
        is_described = isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member)
        if is_described and not name.startswith("_") and member.__doc__:
            # A bound method has no parameter for the object, whatever the function calls it.
            yield name, member if isinstance(member, property) else member.__get__(found, found)


def _signature(name: str, found: Any) -> str:
    try:
        signature = inspect.signature(found)
    except ValueError:  # a class of exceptions has none that Python knows
        return ""
    parameters = [
        parameter.replace(annotation=_bare(parameter.annotation))
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    shown = signature.replace(parameters=parameters, return_annotation=_bare(signature.return_annotation))
    text = f"{name}{shown}"
    if len(text) > LINE:
        lines = "".join(f"    {line},\n" for line in _one_a_line(parameters))
        text = f"{name}(\n{lines}){str(shown.replace(parameters=[]))[2:]}"
    return f"```python\n{text}\n```"


def _one_a_line(parameters: list[inspect.Parameter]) -> Iterator[str]:
    star_stands = False
    for parameter in parameters:
        star_stands = star_stands or parameter.kind is parameter.VAR_POSITIONAL
        if parameter.kind is parameter.KEYWORD_ONLY and not star_stands:
            yield "*"
            star_stands = True
        yield str(parameter)


def _bare(annotation: Any) -> Any:
    written = getattr(annotation, "__forward_arg__", annotation)  # a named tuple wraps what was written
    return _Bare(written) if isinstance(written, str) else annotation


def _text(found: Any) -> str:
    """The docstring as Markdown: its examples fenced."""
    text = inspect.getdoc(found) or ""
    return EXAMPLE.sub(lambda example: f"```pycon\n{example[0].rstrip()}\n```\n", text)
