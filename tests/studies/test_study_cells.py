"""An interrupted study keeps its finished cells and continues; the result is that of an uninterrupted run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interleaf.studies.study import FinishedCells

# A small oosterhuis2017, through the command line as a person calls it.
SMALL = """
import sys
from interleaf import cli
from interleaf.studies import oosterhuis2017 as study
study.SCALES["quick"] = study.OosterhuisScale(1, 60, (5,), 1)
raise SystemExit(cli.main(["reproduce", "oosterhuis2017", *sys.argv[1:]]))
"""


def start(cache: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", SMALL, *options],
        env=os.environ | {"INTERLEAF_CACHE": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(cache: Path) -> list[Path]:
    return [path for path in cache.glob("studies/*/*") if not path.name.startswith("part-")]


def kill_after_some_cells(cache: Path) -> None:
    study, deadline = start(cache), time.monotonic() + 300
    while len(finished(cache)) < 3 and study.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    study.send_signal(signal.SIGKILL)
    study.communicate()
    assert len(finished(cache)) >= 3


def test_a_killed_study_continues_and_says_the_same(tmp_path: Path) -> None:
    whole, nothing = start(tmp_path / "whole").communicate()
    assert whole
    assert "continuing" not in nothing
    kill_after_some_cells(tmp_path / "killed")
    there = len(finished(tmp_path / "killed"))
    continued, said = start(tmp_path / "killed").communicate()
    assert continued == whole
    assert f"continuing with {there} finished cells" in said
    assert finished(tmp_path / "killed") == []  # a complete study leaves nothing behind


def test_fresh_takes_nothing_from_before(tmp_path: Path) -> None:
    kill_after_some_cells(tmp_path)
    for path in finished(tmp_path):
        path.write_bytes(b"what a fresh run must not read")
    made, said = start(tmp_path, "--fresh").communicate()
    assert made
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
