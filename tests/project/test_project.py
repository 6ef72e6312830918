"""The project's own files agree: one version, the same checks before a commit and in CI, a small `dev` extra."""

import re
import tomllib
from typing import Any

import yaml  # type: ignore[import-untyped]  # pre-commit and mkdocs bring it

import interleaf
from tests.support.paths import ROOT

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def commands_of(target: str) -> list[str]:
    """The commands of a target of the Makefile, without the folder of the environment."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (recipe,) = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    return [line.strip().removeprefix("$(BIN)/") for line in recipe.splitlines()]


def test_the_version_is_written_once_and_cited_as_it_is() -> None:
    assert "version" not in PYPROJECT["project"]
    assert PYPROJECT["tool"]["hatch"]["version"]["path"] == "src/interleaf/__init__.py"
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"]
    assert cited == interleaf.__version__, "CITATION.cff names another version than interleaf.__version__"
    assert f"({interleaf.__version__})" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_a_commit_and_a_push_run_the_checks_of_make() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert repository["repo"] == "local"  # nothing is downloaded
    entries = [hook["entry"].replace(" --force-exclude", "") for hook in repository["hooks"]]
    assert entries == [f".venv/bin/{command}" for command in commands_of("check")]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    steps = {step.get("run") for job in workflow["jobs"].values() for step in job["steps"]}
    assert {".ci/run", "make release"} <= steps
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


def test_the_files_of_make_quick_exist() -> None:
    (names,) = re.findall(r"^QUICK := ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    names = names.replace("\\", "").split()
    assert len(names) > 10
    paths = [(ROOT / "tests" / name, ROOT / "tests" / f"{name}.py") for name in names]
    assert [str(file) for folder, file in paths if not folder.is_dir() and not file.is_file()] == []


def test_dev_is_small_and_make_test_installs_everything() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    large = ("pyspark", "pyterrier", "elasticsearch", "opensearch", "ipykernel", "interleaf[spark]", "mkdocs", "moto")
    assert [line for line in extras["dev"] if line.startswith(large)] == []
    installed = re.search(r"-e '\.\[([\w,]+)\]'", (ROOT / "Makefile").read_text("utf-8"))
    assert installed is not None
    assert set(installed[1].split(",")) == {"dev", "docs", "integration", "all"}
