"""Optional extras: the error without one has the command that installs it, from where interleaf was installed from."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

import interleaf
from interleaf import MissingExtraError, environment
from interleaf.cli import main

ROOT = Path(interleaf.__file__).parents[2]
PROJECT = ROOT / "pyproject.toml"

ORIGINS: dict[str, tuple[dict[str, Any] | None, list[str]]] = {
    "package index": (None, ["interleaf[serve]"]),
    "directory": ({"url": "file:///src/my%20clone", "dir_info": {}}, ["/src/my clone[serve]"]),
    "editable": ({"url": "file:///src/il", "dir_info": {"editable": True}}, ["-e", "/src/il[serve]"]),
    "repository": (
        {"url": "https://example.org/il.git", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}},
        ["interleaf[serve] @ git+https://example.org/il.git@0a1b"],
    ),
    "branch": (
        {
            "url": "https://example.org/il.git",
            "vcs_info": {"vcs": "git", "commit_id": "0a1b", "requested_revision": "main"},
            "subdirectory": "py",
        },
        ["interleaf[serve] @ git+https://example.org/il.git@main#subdirectory=py"],
    ),
    "wheel": (
        {"url": "file:///w/interleaf-0.1.0-py3-none-any.whl", "archive_info": {}},
        ["interleaf[serve] @ file:///w/interleaf-0.1.0-py3-none-any.whl"],
    ),
}


class Recorded:
    """An installation whose origin is recorded as given."""

    def __init__(self, origin: dict[str, Any] | None) -> None:
        self._origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self._origin is None else json.dumps(self._origin)


@pytest.mark.parametrize("kind", ORIGINS)
def test_the_command_starts_from_where_interleaf_was_installed_from(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    origin, expected = ORIGINS[kind]
    monkeypatch.setattr(environment, "distribution", lambda _: Recorded(origin))
    words = shlex.split(environment.install_command("serve"))
    assert words[words.index("install") + 1 :] == expected


def test_a_source_directory_on_the_path_is_installed_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(environment, "distribution", missing)
    assert shlex.split(environment.install_command("plots"))[-2:] == ["-e", f"{ROOT}[plots]"]


def test_the_command_is_of_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip` alone only where the shell's pip is the one of this Python."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert environment.install_command("serve").startswith("pip install ")
    monkeypatch.setenv("PATH", "")
    assert shlex.split(environment.install_command("serve"))[:4] == [sys.executable, "-m", "pip", "install"]
    monkeypatch.setitem(sys.modules, "pip", None)
    assert shlex.split(environment.install_command("serve"))[:5] == ["uv", "pip", "install", "--python", sys.executable]


def test_every_missing_module_is_named_in_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    environment.require("serve", "the service needs", "json", "os")
    with pytest.raises(MissingExtraError, match=r"^the service needs il_one, il_two; run: .*install.*\[serve\]"):
        environment.require("serve", "the service needs", "il_one", "json", "il_two")
    with pytest.raises(ImportError):
        environment.require("serve", "the service needs", "il_one")


@pytest.mark.parametrize("verb", ["serve", "demo"])
def test_a_verb_without_its_extra_is_one_line(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for name in [name for name in sys.modules if name.startswith("interleaf.server")]:
        monkeypatch.delitem(sys.modules, name)
    assert main([verb]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"interleaf {verb}: the service needs uvicorn; run: ")
    assert said.count("\n") == 1


def test_no_message_or_page_installs_from_a_package_index() -> None:
    """There is no release: every command of ours comes from `install_command`, every page names a clone."""
    pages = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    bad = [path for path in (*pages, ROOT / "README.md") if "pip install 'interleaf[" in path.read_text("utf-8")]
    assert bad == []


# One command for each extra that needs it, with a word of the error.
VERBS = {
    "serve": ("serve", "uvicorn"),
    "proxy": ("proxy proxy.toml", "uvicorn"),
    "postgres": ("keys list --store postgresql://localhost/x", "psycopg"),
    "report": ("analyze world.parquet --out report.html", "jinja2"),
    "spark": ("analyze world.parquet --engine spark", "pyspark"),
    "plots": ("reproduce fidelity --out study", "altair"),
    "judged": ("reproduce chapelle2012", "ir_measures"),
    "duckdb": ("analyze --impressions 'duckdb://?query=values(1)' --events world.parquet", "duckdb"),
}


def test_every_extra_has_a_command_that_needs_it() -> None:
    declared = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["optional-dependencies"]
    frameworks = {"langchain", "llama-index", "haystack"}  # for Python; see tests/integrations
    assert set(VERBS) == set(declared) - {"all", "dev", "docs", "integration"} - frameworks


@pytest.mark.slow
def test_without_extras_every_verb_says_which_command_helps_and_it_does(tmp_path: Path) -> None:
    """A real environment with the core dependencies only, from a copy of the source; one command is then followed."""
    clone = tmp_path / "my clone"
    shutil.copytree(ROOT / "src", clone / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    venv.create(tmp_path / "env", with_pip=True)
    commands = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command, shell=True, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=1800
        )

    install = run(f"{shlex.quote(str(commands / 'python'))} -m pip install -q {shlex.quote(str(clone))}")
    assert install.returncode == 0, install.stderr
    program = shlex.quote(str(commands / "interleaf"))
    assert run(f"{program} simulate --impressions 500 --out world.parquet").returncode == 0
    for extra, (command, module) in VERBS.items():
        done = run(f"{program} {command}")
        assert (done.returncode, done.stdout) == (2, ""), (command, done.stderr)
        assert done.stderr.count("\n") == 1, done.stderr
        assert module in done.stderr
        assert f"[{extra}]" in done.stderr
    hint = run(f"{program} {VERBS['report'][0]}").stderr.partition("run: ")[2]
    followed = run(hint)
    assert followed.returncode == 0, followed.stderr
    page = run(f"{program} {VERBS['report'][0]}")
    assert page.returncode == 0, page.stderr
    assert "no charts" in (tmp_path / "report.html").read_text("utf-8")
