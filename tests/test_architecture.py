"""The house stays in order: who may import whom, what the pure rooms may not know, sizes, and the public surface."""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import interleaf
from interleaf import audit, clicks, errors
from interleaf.methods.table import METHODS

SOURCES = Path(interleaf.__file__).parent
FILES = sorted(SOURCES.rglob("*.py"))

# Rooms from the ground up, those of later stages included: a room imports from itself and from the floors below.
# A module is in the room with the longest name that fits; "" is the package itself, which re-exports the public names.
FLOORS = (
    ("errors",),
    ("extras", "cache_folder"),
    ("spec", "schema", "tables", "plots"),
    ("chance", "methods.arrays", "methods.method"),
    ("compiled", "methods.table", "problem"),
    ("sorting", "fixed_documents"),
    ("methods",),
    ("clicks",),
    ("stored",),
    ("interleaving",),
    ("",),
    ("audit", "batch"),
    ("buckets", "log"),
    ("decode", "experiment"),
    ("adapters",),
    ("score",),
    ("tally",),
    ("stats", "engines"),
    ("metrics", "refine.caption", "report.record"),
    ("refine.learn",),
    ("render",),
    ("report",),
    ("analysis",),
    ("planning", "store"),
    ("simulate",),
    ("refine",),
    ("papers",),
    ("client",),
    ("serve",),
    ("demo",),
    ("cli",),
)
PURE = ("methods", "clicks")  # they know numbers, and neither files, networks, clocks nor any chance but their own
IMPURE = {
    *("pyarrow", "pandas", "sqlite3", "json", "csv", "pickle"),
    *("os", "io", "sys", "pathlib", "shutil", "tempfile", "glob", "logging", "subprocess"),
    *("http", "urllib", "requests", "socket", "ssl", "asyncio", "threading", "multiprocessing", "concurrent"),
    *("time", "datetime", "random", "secrets"),
}
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "misc", "base", "core"}
MOST_LINES, MOST_FUNCTION_LINES = 350, 60
PUBLIC = {
    *("interleave", "credit", "Interleaving", "Outcome", "methods", "warm", "audit", "clicks", "simulate"),
    *("analyze", "tally_log", "plan", "Tally", "Report", "LogWriter", "Exclusion"),
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


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Everything inside, functions too, but not what only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from statements(other)
            continue
        yield child
        yield from statements(child)


def imported(name: str) -> Iterator[str]:
    """The full name of everything a module imports, anywhere in it; a module of ours where it is one."""
    for node in statements(tree_of(name)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relative to itself; write the whole name"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner.removeprefix("interleaf.") in MODULES else str(node.module)


def ours(name: str) -> set[str]:
    """Which of our modules a module imports."""
    found = {full for full in imported(name) if full.split(".")[0] == "interleaf"}
    return {full.removeprefix("interleaf").removeprefix(".") for full in found}


def room_of(name: str) -> tuple[int, str]:
    """The floor of a module, and its room there."""
    fitting = [
        (len(room), floor, room)
        for floor, rooms in enumerate(FLOORS)
        for room in rooms
        if name == room or (room and name.startswith(f"{room}."))
    ]
    assert fitting, f"{name} is in no room: give it a place in FLOORS"
    return max(fitting)[1:]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_only_from_its_own_room_and_the_floors_below(name: str) -> None:
    floor, room = room_of(name)
    for other in sorted(ours(name)):
        other_floor, other_room = room_of(other)
        assert other_floor < floor or other_room == room, (
            f"{name} (floor {floor}) imports {other} (floor {other_floor})"
        )


def test_no_imports_go_round_in_a_circle() -> None:
    """A package and the modules in it are told apart: a package may re-export what its modules define."""
    graph = {name: ours(name) for name in MODULES}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError, with the circle
    assert set(order) >= set(MODULES)


@pytest.mark.parametrize("name", [name for name in MODULES if name.split(".")[0] in PURE])
def test_methods_and_clicks_know_no_arrow_network_file_or_clock(name: str) -> None:
    assert not {full.split(".")[0] for full in imported(name)} & IMPURE
    calls = [node.func for node in statements(tree_of(name)) if isinstance(node, ast.Call)]
    assert not {call.id for call in calls if isinstance(call, ast.Name)} & {"open", "print", "input"}


@pytest.mark.parametrize("name", MODULES)
def test_files_and_functions_are_short_and_named_for_what_they_are(name: str) -> None:
    assert not set(name.split(".")) & VAGUE
    assert len(MODULES[name].read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= MOST_FUNCTION_LINES, f"{name}.{node.name} has {lines} lines"


def test_the_public_names_are_those_of_the_documented_face() -> None:
    trees = {name for name, error in vars(errors).items() if inspect.isclass(error) and issubclass(error, Exception)}
    assert set(interleaf.__all__) == PUBLIC | trees
    assert inspect.ismodule(interleaf.errors)
    assert interleaf.audit is audit
    assert interleaf.clicks is clicks
    with pytest.raises(AttributeError, match="interlave"):
        interleaf.interlave  # noqa: B018


@pytest.mark.parametrize("room", [interleaf, audit, clicks], ids=lambda room: str(room.__name__))
def test_every_public_name_is_there_and_says_what_it_is(room: object) -> None:
    names = room.__all__  # type: ignore[attr-defined]
    assert names == sorted(names)
    for name in names:
        said = inspect.getdoc(getattr(room, name))
        # A dataclass without a docstring gets its signature for one: that says nothing.
        assert said, name
        assert not said.startswith(f"{name}("), name


def test_every_error_is_drawn_in_the_tree_of_errors() -> None:
    for name, error in vars(errors).items():
        if inspect.isclass(error) and error.__module__ == errors.__name__:
            assert issubclass(error, interleaf.InterleafError)
            assert f" {name} " in f"{errors.__doc__} ".replace("\n", " ")


def allowed(tree: ast.Module) -> Iterator[ast.AST]:
    """Where a method may be named: as the default of a parameter, an option or a `get`; in the salt of a chance key."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            yield from (*node.defaults, *filter(None, node.kw_defaults))
        elif isinstance(node, ast.keyword) and node.arg == "default":
            yield node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            yield from node.args[1:]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "key_of":
            yield from ast.walk(node)


@pytest.mark.parametrize(
    "name", [name for name in MODULES if name != "methods.table" and not name.startswith("papers.")]
)
def test_no_method_is_named_outside_the_table(name: str) -> None:
    """Not in a list, not in a condition: whatever needs to know the methods asks the table. Papers speak of some."""
    tree = tree_of(name)
    fine = {id(node) for node in allowed(tree)}
    typed = [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in set(METHODS) and id(node) not in fine
    ]
    assert typed == []
