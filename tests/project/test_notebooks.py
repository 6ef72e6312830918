"""Notebooks run from top to bottom, and what is stored in them is what they say now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.notebooks import FOLDER, NOTEBOOKS, executed, normalised, pictures, stored, texts

MACHINE = re.compile(r"(?<![\w.:/])/\w+/|site-packages|0x[0-9a-f]{6}")  # paths from the root on, addresses in memory
LINK = re.compile(r"\]\((\.\./[^)#]+)(?:#[^)]+)?\)")


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["experiment", "own-method"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_says_what_is_stored(path: Path) -> None:
    now, before = executed(path), stored(path)
    assert texts(now) == texts(before), "run `python -m tests.support.notebooks`, and read what changed"
    assert pictures(now) == pictures(before)
    assert sum(pictures(now)) > 0


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_has_nothing_of_a_machine_in_it(path: Path) -> None:
    notebook = stored(path)
    assert notebook == normalised(stored(path))
    said = "".join(text for cell in texts(notebook) for text in cell)
    assert not MACHINE.search(said)
    assert [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"] == list(
        range(1, 1 + sum(cell.cell_type == "code" for cell in notebook.cells))
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_of_a_notebook_lead_somewhere(path: Path) -> None:
    found = [link for cell in stored(path).cells for link in LINK.findall(cell.source)]
    assert found
    assert [link for link in found if not (FOLDER / link).exists()] == []
