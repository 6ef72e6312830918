"""The examples of the page on Spark run where there is Java: the commands as they stand, the calls in a session."""

from pathlib import Path
from typing import Any

import pytest

from tests.project.test_documentation import blocks, folder, run_commands
from tests.support.paths import ROOT
from tests.support.spark_sessions import MARKS

pytestmark = [*MARKS, pytest.mark.slow]
__all__ = ["folder"]  # a fixture


def test_the_commands_and_the_calls_of_the_page_run(
    session: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [block for block in blocks(ROOT / "docs" / "spark.md") if "test_spark_page" in (block.what or "")]
    assert [block.kind for block in found] == ["console", "python"]
    run_commands(found[0], "docs/spark.md", monkeypatch)
    calls = found[1].text.replace("world.parquet", str(folder / "world.parquet"))  # Java stays in its own folder
    exec(compile(calls, "docs/spark.md", "exec", dont_inherit=True), {"spark": session})
