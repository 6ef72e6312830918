"""Layers of imports, modules without side effects, sizes, and the public names. A failure lists all offenders."""

import ast
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import interleaf
from interleaf import audit, clicks, errors
from interleaf.methods.registry import METHODS

SOURCES = Path(interleaf.__file__).parent
FILES = sorted(SOURCES.rglob("*.py"))

# Packages and modules from the ground up: each imports from itself and from the floors below.
# A module belongs to the longest name here that fits; "" is the package itself, which re-exports the public names.
FLOORS = (
    ("errors", "stable_codes", "tables"),
    ("environment", "spec", "kernels", "plain_data", "postgres_errors"),
    ("dueling_bandits", "methods", "plots", "stats"),
    ("interleaving", "metrics"),
    ("", "clicks", "log"),
    ("audit", "decode", "experiment", "importers", "simulate"),
    ("tally", "client"),
    ("execution", "integrations"),
    ("caption_bias", "report"),
    ("click_value", "store"),
    ("analysis",),
    ("counterfactual", "server"),
    ("studies", "demo", "proxy"),
    ("cli",),
)
PURE = ("methods", "clicks")  # they know numbers, and neither files, networks, clocks nor any chance but their own
IMPURE = {
    *("pyarrow", "pandas", "sqlite3", "json", "csv", "pickle"),
    *("os", "io", "sys", "pathlib", "shutil", "tempfile", "glob", "logging", "subprocess"),
    *("http", "urllib", "requests", "socket", "ssl", "asyncio", "threading", "multiprocessing", "concurrent"),
    *("time", "datetime", "random", "secrets"),
}
CONSOLE = {"open", "print", "input"}
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "misc", "base", "core"}
MAX_LINES, MAX_FUNCTION_LINES = 500, 60
PUBLIC = {
    *("interleave", "credit", "interleave_batch", "credit_batch", "Interleaving", "Outcome", "methods", "warm"),
    *("audit", "clicks", "simulate"),
    *("analyze", "tally_log", "plan", "plan_methods", "learn", "caption", "reuse"),
    *("Tally", "Report", "LogWriter", "Exclusion"),
    *("Client", "AsyncClient", "Experiment", "assign", "visitor_id"),
}


def name_of(path: Path) -> str:
    """`methods.table` for .../interleaf/methods/table.py, `methods` for its package, "" for interleaf itself."""
    parts = path.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in FILES}


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


@cache
def all_nodes(name: str) -> tuple[ast.AST, ...]:
    """Everything in a module, functions too."""
    return tuple(ast.walk(tree_of(name)))


@cache
def executed_nodes(name: str) -> tuple[ast.AST, ...]:
    """Everything in a module but what only a type checker sees."""
    blocks = [n for n in all_nodes(name) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    unseen = {id(node) for block in blocks for statement in block.body for node in ast.walk(statement)}
    return tuple(node for node in all_nodes(name) if id(node) not in unseen)


def imported(name: str) -> Iterator[str]:
    """The full name of everything a module imports, anywhere in it; a module of ours where it is one."""
    for node in executed_nodes(name):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner.removeprefix("interleaf.") in MODULES else str(node.module)


@cache
def ours(name: str) -> set[str]:
    """Which of our modules a module imports."""
    full_names = {full for full in imported(name) if full.split(".")[0] == "interleaf"}
    return {full.removeprefix("interleaf").removeprefix(".") for full in full_names}


def part_of(name: str) -> tuple[int, str]:
    """The floor of a module, and its part there; floor -1 if FLOORS has no place for it."""
    matches = [
        (len(part), floor, part)
        for floor, parts in enumerate(FLOORS)
        for part in parts
        if name == part or (part and name.startswith(f"{part}."))
    ]
    return max(matches, default=(0, -1, ""))[1:]


def import_problems(name: str) -> Iterator[str]:
    """Imports that are relative, or that go up or across; a module that FLOORS does not place."""
    floor, part = part_of(name)
    if floor < 0:
        yield f"{name} has no place in FLOORS"
    for node in executed_nodes(name):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield f"{name}:{node.lineno} has a relative import: write the whole name"
    for other in sorted(ours(name)):
        other_floor, other_room = part_of(other)
        if other_floor >= floor and other_room != part:
            yield f"{name} (floor {floor}) imports {other} (floor {other_floor})"


def purity_problems(name: str) -> Iterator[str]:
    """What a module of numbers must not use: files, networks, clocks, the console."""
    if name.split(".")[0] in PURE:
        packages = {full.split(".")[0] for full in imported(name)}
        yield from (f"{name} imports {package}" for package in sorted(packages & IMPURE))
        for node in executed_nodes(name):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CONSOLE:
                yield f"{name}:{node.lineno} calls {node.func.id}"


def size_problems(name: str) -> Iterator[str]:
    """A vague name, a long file, long functions."""
    yield from (f"{name}: {word} says nothing" for word in sorted(set(name.split(".")) & VAGUE))
    lines = len(MODULES[name].read_text(encoding="utf-8").splitlines())
    if lines > MAX_LINES:
        yield f"{name} has {lines} lines, at most {MAX_LINES}"
    for node in all_nodes(name):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{name}.{node.name} has {lines} lines, at most {MAX_FUNCTION_LINES}"


def method_name_problems(name: str) -> Iterator[str]:
    """The name of a method in a list or a condition: ask the table instead. Papers name the methods they studied."""
    if name == "methods.registry" or name.startswith("studies."):
        return
    fine = {id(node) for node in allowed(name)}
    for node in all_nodes(name):
        if isinstance(node, ast.Constant) and node.value in METHODS and id(node) not in fine:
            yield f"{name}:{node.lineno} names {node.value}"


def allowed(name: str) -> Iterator[ast.AST]:
    """Where a method may be named: as the default of a parameter, an option or a `get`; in the salt of a chance key."""
    for node in all_nodes(name):
        if isinstance(node, ast.arguments):
            yield from (*node.defaults, *filter(None, node.kw_defaults))
        elif isinstance(node, ast.keyword) and node.arg == "default":
            yield node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            yield from node.args[1:]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "key_of":
            yield from ast.walk(node)


@pytest.mark.parametrize("problems", [import_problems, purity_problems, size_problems, method_name_problems])
def test_the_modules_keep_the_rules(problems: Callable[[str], Iterator[str]]) -> None:
    offenders = [problem for name in MODULES for problem in problems(name)]
    assert not offenders, "\n".join(offenders)


def test_no_imports_go_round_in_a_circle() -> None:
    """A package and its modules are separate nodes: a package may re-export what its modules define."""
    graph = {name: ours(name) for name in MODULES}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError, with the circle
    assert set(order) >= set(MODULES)


def test_the_public_names_are_those_of_the_documented_face() -> None:
    trees = {name for name, error in vars(errors).items() if inspect.isclass(error) and issubclass(error, Exception)}
    assert set(interleaf.__all__) == PUBLIC | trees
    assert inspect.ismodule(interleaf.errors)
    assert interleaf.audit is audit
    assert interleaf.clicks is clicks
    with pytest.raises(AttributeError, match="interlave"):
        interleaf.interlave  # noqa: B018


@pytest.mark.parametrize("part", [interleaf, audit, clicks], ids=lambda part: str(part.__name__))
def test_every_public_name_is_there_and_says_what_it_is(part: object) -> None:
    names = part.__all__  # type: ignore[attr-defined]
    assert names == sorted(names)
    for name in names:
        said = inspect.getdoc(getattr(part, name))
        # A dataclass without a docstring gets its signature for one: that says nothing.
        assert said, name
        assert not said.startswith(f"{name}("), name


def test_every_error_is_public_and_of_one_root() -> None:
    for name, error in vars(errors).items():
        if inspect.isclass(error) and error.__module__ == errors.__name__:
            assert issubclass(error, interleaf.InterleafError)
            assert name in interleaf.__all__
