"""An interrupted study keeps its finished cells and continues; the result is that of an uninterrupted run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from interleaf import cli
from interleaf.studies import oosterhuis2017
from interleaf.studies.study import FinishedCells
from tests.support.stand_in import until

# A small oosterhuis2017, through the command line as a person calls it.
SCALE = (1, 60, (5,), 1)
KILLED = f"""
from interleaf import cli
from interleaf.studies import oosterhuis2017 as study
study.SCALES["quick"] = study.OosterhuisScale{SCALE}
cli.main(["reproduce", "oosterhuis2017"])
"""
Said = pytest.CaptureFixture[str]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(oosterhuis2017.SCALES, "quick", oosterhuis2017.OosterhuisScale(*SCALE))


def run_study(cache: Path, said: Said, *options: str) -> tuple[str, str]:
    """What it prints, and what it says of its progress."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTERLEAF_CACHE", str(cache))
        assert cli.main(["reproduce", "oosterhuis2017", *options]) == 0
    return said.readouterr()


def finished(cache: Path) -> list[Path]:
    return [path for path in cache.glob("studies/*/*") if not path.name.startswith("part-")]


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of a study that was killed after some cells."""
    cache = tmp_path_factory.mktemp("killed")
    environment = os.environ | {"INTERLEAF_CACHE": str(cache)}
    study = subprocess.Popen([sys.executable, "-c", KILLED], env=environment, stdout=subprocess.DEVNULL)
    until(lambda: len(finished(cache)) >= 3 or study.poll() is not None, 300)
    study.kill()
    study.wait()
    assert len(finished(cache)) >= 3
    return cache


@pytest.mark.usefixtures("small")
def test_a_killed_study_continues_and_says_the_same(tmp_path: Path, interrupted: Path, capsys: Said) -> None:
    whole, nothing = run_study(tmp_path / "whole", capsys)
    assert whole
    assert "continuing" not in nothing
    killed = Path(shutil.copytree(interrupted, tmp_path / "killed"))
    there = len(finished(killed))
    continued, said = run_study(killed, capsys)
    assert continued == whole
    assert f"continuing with {there} finished cells" in said
    assert finished(killed) == []  # a complete study leaves nothing behind


@pytest.mark.usefixtures("small")
def test_fresh_takes_nothing_from_before(tmp_path: Path, interrupted: Path, capsys: Said) -> None:
    killed = Path(shutil.copytree(interrupted, tmp_path / "killed"))
    for path in finished(killed):
        path.write_bytes(b"what a fresh run must not read")
    printed, said = run_study(killed, capsys, "--fresh")
    assert printed
    assert "continuing" not in said


@given(cells=st.lists(st.tuples(st.text(), st.integers()), unique=True, max_size=8))
def test_every_cell_has_its_own_place(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[object, ...]]
) -> None:
    kept = FinishedCells(tmp_path_factory.mktemp("cells"))
    for number, cell in enumerate(cells):
        assert kept.get(cell, lambda number=number: number) == number  # type: ignore[misc]
    assert kept.count() == len(cells)
    assert [kept.get(cell, lambda: -1) for cell in cells] == list(range(len(cells)))
    kept.remove()
    assert kept.count() == 0
    assert all(kept.get(cell, lambda: -1) == -1 for cell in cells)


def test_cells_belong_to_the_study_its_settings_and_the_content_of_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLEAF_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "set"
    data.mkdir()
    (data / "S1.txt").write_text("1 qid:1 1:0.5\n")
    given_to = [("fidelity", None, "quick", 1), ("fidelity", None, "paper", 1), ("fidelity", None, "quick", 2)]
    others = [("hofmann2011", None, "quick", 1), ("fidelity", data, "quick", 1)]
    for number, settings in enumerate([*given_to, *others]):
        assert FinishedCells.of(*settings).get((), lambda number=number: number) == number  # type: ignore[misc]
    (data / "S1.txt").write_text("1 qid:1 1:0.75\n")
    assert FinishedCells.of("fidelity", data, "quick", 1).get((), lambda: "changed") == "changed"
    assert FinishedCells.of("fidelity", None, "quick", 1).get((), object) == 0


def test_a_broken_cell_is_made_again(tmp_path: Path) -> None:
    kept = FinishedCells(tmp_path)
    kept.get(("a",), lambda: 1)
    (path,) = tmp_path.iterdir()
    path.write_bytes(b"\x80broken")
    assert kept.get(("a",), lambda: 2) == 2
    assert kept.get(("a",), lambda: 3) == 2


def test_where_nothing_can_be_kept_a_study_runs_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert FinishedCells(tmp_path / "file" / "cells").get(("a",), lambda: 1) == 1
    assert FinishedCells(tmp_path / "file").count() == 0
