"""Logs that teach nothing, or too well, through the command: a line that says why, or an answer without a NaN."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from interleaf import cli
from interleaf.errors import DataError
from interleaf.log import write_batches
from interleaf.refine.caption import Model, caption, diagnose
from tests.caption_oracle import captioned_rows
from tests.log_rows import made_row, table_of

ROWS = captioned_rows(150, seed=11)
Said = pytest.CaptureFixture[str]


def ask(rows: Sequence[dict[str, Any]], folder: Path, *more: str) -> int:
    path = folder / "log.parquet"
    write_batches(path, iter(table_of(rows).to_batches()))
    return cli.main(["caption", str(path), *more])


def clicked(row: dict[str, Any], ranks: Sequence[int]) -> dict[str, Any]:
    return row | {"events": made_row(int(row["impression"].removeprefix("i-")), ranks)["events"]}


def linked_rows() -> list[dict[str, Any]]:
    """Results are clicked if and only if links stand below them."""
    chance, rows = Random(1), []
    for row in ROWS:
        links = [chance.randrange(3) // 2 for _ in row["documents"]]
        shown = [caption("Old maps", "maps.org", "Maps of the world", deep_links=number) for number in links]
        rows.append(clicked(row, [rank for rank, number in enumerate(links, 1) if number]) | {"captions": shown})
    return rows


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([made_row(number) for number in range(9)], "no impression with captions that can be used (no captions: 9)"),
        ([row | {"events": []} for row in ROWS], "0 of them clicked; give a log with clicks and with results not"),
        ([clicked(row, range(1, len(row["documents"]) + 1)) for row in ROWS], "give a log with clicks and with"),
        ([row | {"unit": "one"} for row in ROWS], "all units of the log are held out"),
        (captioned_rows(60, seed=3, method="balanced"), "cannot be weighted one by one where balanced gives credit"),
    ],
    ids=["no captions", "no clicks", "all clicked", "all held out", "another method"],
)
def test_what_teaches_nothing_is_refused_in_one_line(
    rows: list[dict[str, Any]], message: str, tmp_path: Path, capsys: Said
) -> None:
    assert ask(rows, tmp_path) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert message in error


@pytest.mark.parametrize("judged", [True, False])
def test_one_page_is_answered_without_a_number_that_is_none(judged: bool, tmp_path: Path, capsys: Said) -> None:
    page = next(row for row in ROWS if 0 < len(row["events"]) < len(row["documents"]))
    page = page if judged else page | {"grades": None}
    assert ask([page], tmp_path, "--held-out", "0", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["verdicts"][0]["kind"] == "cannot be told"
    assert any(note.startswith("No unit is held out") for note in said["notes"])
    assert ask([page], tmp_path, "--held-out", "0") == 0
    assert "held-out results" not in capsys.readouterr().out


def test_captions_that_tell_all_clicks_are_not_called_harmless(tmp_path: Path, capsys: Said) -> None:
    page = tmp_path / "report.md"
    assert ask(linked_rows(), tmp_path, "--markdown", str(page), "--chart", str(tmp_path / "chart.svg")) == 0
    said = capsys.readouterr().out
    assert "deep links at least 1" in said
    assert "No feature of captions" not in said
    assert "so their best weights are infinite" in said
    assert "nan" not in said
    assert "| deep links | deep links at least 1 |" in page.read_text()
    model = diagnose(table_of(linked_rows())).model
    assert [(one.name, one.error) for one in model.weights] == [("deep links", None)]
    assert 3 < model.weights[0].weight < 20


def test_names_of_rankers_do_not_command_a_terminal_or_become_markup(tmp_path: Path, capsys: Said) -> None:
    rows = [row | {"rankers": ["old\x1b[31m", "*new*"]} for row in ROWS]
    assert ask(rows, tmp_path, "--markdown", str(tmp_path / "report.md")) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert "\\*new\\*" in (tmp_path / "report.md").read_text().partition("\n")[0]


def test_files_that_hold_no_model_are_named(tmp_path: Path) -> None:
    kept = diagnose(table_of(linked_rows())).model.to_dict()
    for wrong, message in (
        ([], "is no caption model"),
        ({}, "is no caption model"),
        (kept | {"format": 7}, "of format 7; this interleaf knows 1"),
        (kept | {"parameters": kept["parameters"][:-1]}, "not those of"),
        (kept | {"features": []}, "features that it does not have"),
    ):
        path = tmp_path / "model.json"
        path.write_text(json.dumps(wrong))
        with pytest.raises(DataError, match=message) as refused:
            Model.load(path)
        assert str(path) in str(refused.value)
