"""What is written is executed: every example on every page runs, with its output compared.

`pycon` blocks are sessions with their output. `python` blocks are code; `<!-- file: name.py -->` before one makes it
that file. `console` blocks are commands after `$` with their output. Blocks of a page share names and a working folder.
`typescript` blocks are run by the tests in clients/typescript. `...` stands for what is left out. Only
`<!-- not run: reason -->` before a block keeps it from running.
"""

import argparse
import contextlib
import doctest
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import interleaf
from interleaf import audit, cli, errors
from interleaf.methods.registry import METHODS
from interleaf.methods.schemes import FORMS
from tests.support.conformance import check_once
from tests.support.kernel_folders import kernel_folder
from tests.support.paths import ROOT

FRONT = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
DOCS = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "methods").glob("*.md")])
PAGES = FRONT + DOCS
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>file|not run): (?P<what>[^\n]+) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FLAGS = doctest.ELLIPSIS
OURS = re.compile(r"interleaf (?P<verb>[^|&;<>$*?#\n]+?)( < (?P<input>[\w.]+))?( > (?P<output>[\w.]+))?")


class Block(NamedTuple):
    """A fenced block, the line where its text begins, and the comment before it."""

    kind: str
    text: str
    line: int
    mark: str | None
    what: str | None


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        yield Block(
            found["kind"], found["text"], text.count("\n", 0, found.start("text")), found["mark"], found["what"]
        )


def prose(page: Path) -> str:
    """The page without its blocks."""
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


def everything_written() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def folder(page: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder; what a page adds to the table of methods and to the loaded modules goes again."""
    rows, forms, modules = dict(METHODS), dict(FORMS), set(sys.modules)
    with kernel_folder(name_of(page)) as folder:
        yield from working_in(folder, monkeypatch)
    METHODS.clear()
    METHODS.update(rows)
    FORMS.clear()
    FORMS.update(forms)
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(f"{folder}{os.sep}"):
            del sys.modules[name]


def working_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(audit, "check", check_once)
    yield folder
    for file in folder.glob("*.pid"):  # servers that a page started, if it failed before it stopped them
        with contextlib.suppress(ValueError, ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)
    monkeypatch.chdir(ROOT)  # the folder goes


def run_session(block: Block, page: str, names: dict[str, Any]) -> None:
    session = doctest.DocTestParser().get_doctest(block.text, names, page, page, block.line)
    assert session.examples, f"{page}:{block.line}: a session without a single >>>"
    report = io.StringIO()
    failed = doctest.DocTestRunner(optionflags=FLAGS).run(session, out=report.write, clear_globs=False).failed
    names.update(session.globs)
    assert not failed, report.getvalue()


def run_command(command: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    """The status and the output of a command: in this process if it is ours and needs no shell, which is faster."""
    if ours := OURS.fullmatch(command):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), monkeypatch.context() as changed:
            if ours["input"]:
                changed.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(ours["input"]).read_bytes()), "utf-8"))
            status = cli.main(shlex.split(ours["verb"]))
        if ours["output"]:
            Path(ours["output"]).write_text(out.getvalue(), encoding="utf-8")
        return status, "" if ours["output"] else out.getvalue(), err.getvalue()
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout, done.stderr


def run_commands(block: Block, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert commands[0] == "", f"{page}:{block.line}: a console block begins with $ and a command"
    for command, _, wanted in (one.partition("\n") for one in commands[1:]):
        status, out, err = run_command(command, monkeypatch)
        assert status == 0, f"{page}: {command}\n{err}"
        assert err == "", f"{page}: {command}"
        if wanted:
            said = "".join(line.rstrip() + "\n" for line in out.splitlines())
            agrees = doctest.OutputChecker().check_output(wanted, said, FLAGS)
            assert agrees, f"{page}: {command}\nprints\n{said}\nand the page says\n{wanted}"


def test_the_checks_see_every_fence_and_know_every_kind() -> None:
    for page in PAGES:
        fences = page.read_text(encoding="utf-8").count("```")
        found = list(blocks(page))
        assert fences == 2 * len(found), f"{name_of(page)}: a fence that is indented, or never closed"
        kinds = {block.kind for block in found}
        allowed = {"pycon", "python", "console", "sh", "text", "json", "sql", "toml", "typescript"}
        assert kinds <= allowed, f"{name_of(page)}: {kinds - allowed}"


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page))], ids=name_of)
def test_every_example_runs_and_prints_what_the_page_says(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        where = name_of(page)
        if block.mark == "file" and block.what is not None:
            (folder / block.what).write_text(block.text, encoding="utf-8")
        elif block.mark == "not run" or block.kind in ("text", "typescript"):
            continue
        elif block.kind == "toml":
            tomllib.loads(block.text)
        elif block.kind in ("console", "sh"):
            run_commands(block, where, monkeypatch)
        elif block.text.startswith(">>>"):
            run_session(block, where, names)
        else:
            exec(compile("\n" * block.line + block.text, where, "exec", dont_inherit=True), names)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as mkdocs and GitHub make them."""
    headings = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(prose(page))]
    return {heading.strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", FRONT, ids=name_of)  # those of docs/ are checked by the build of the site
def test_every_internal_link_resolves(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{name_of(page)} links to {link}"
        assert not anchor or anchor in anchors(target), f"{name_of(page)} links to {link}"


def verbs() -> list[str]:
    """The verbs of the command line, from its parser."""
    actions = cli.build_parser()._actions
    (commands,) = [action for action in actions if isinstance(action, argparse._SubParsersAction)]
    return list(commands.choices)


def test_every_verb_and_every_public_name_is_documented() -> None:
    written = everything_written()
    assert [verb for verb in verbs() if f"interleaf {verb}" not in written] == []
    names = [name for name in interleaf.__all__ if name not in errors.__dict__]
    assert [name for name in names if not re.search(rf"\b{name}\b", written)] == []


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_text_with_an_example_and_its_paper_is_in_the_bibliography(name: str) -> None:
    text = ROOT / "docs" / "methods" / f"{name}.md"
    assert [block.kind for block in blocks(text)]
    assert {"the-mathematics", "when-to-use-it", "example"} <= anchors(text)
    assert METHODS[name].paper.lower() in anchors(ROOT / "docs" / "bibliography.md")


def test_the_architecture_page_shows_the_tree_as_it_is() -> None:
    tree = next(block.text for block in blocks(ROOT / "docs" / "architecture.md") if block.text.startswith("src/"))
    source = ROOT / "src" / "interleaf"
    shown, opened, room = set[Path](), {source}, source
    for line in tree.splitlines()[1:]:
        name = line.split()[0]
        if line.startswith("    "):
            opened.add(room)
            shown.add(room / name)
        else:
            room = source / name
            shown.add(room)
    there = {
        path for place in opened for path in place.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    methods = {source / "methods" / f"{name}.py" for name in METHODS}
    inner = {place / "__init__.py" for place in opened - {source}}
    assert shown == there - methods - inner


def test_make_targets_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme
    assert set(re.findall(r"(?:`|\$ )make (\w+)", everything_written())) <= targets


def test_the_readme_is_short_and_has_one_picture() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 150
    assert readme.count("![") == 1
