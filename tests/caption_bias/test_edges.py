"""Logs that teach nothing, or too well, through the command: a line that says why, or an answer without a NaN."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from interleaf import cli
from interleaf.caption_bias import CaptionModel, caption, make_caption
from interleaf.caption_bias.diagnosis_report import CaptionNote
from interleaf.errors import DataError
from interleaf.log import write_batches
from tests.oracles.captions import captioned_rows
from tests.support.log_rows import made_row, table_of

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
        shown = [make_caption("Old maps", "maps.org", "Maps of the world", deep_links=number) for number in links]
        rows.append(clicked(row, [rank for rank, number in enumerate(links, 1) if number]) | {"captions": shown})
    return rows


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([made_row(number) for number in range(9)], "no impression with captions that can be used (no captions: 9)"),
        ([row | {"events": []} for row in ROWS], "0 of them clicked; give a log with clicks and with results not"),
        ([clicked(row, range(1, len(row["documents"]) + 1)) for row in ROWS], "give a log with clicks and with"),
        ([row | {"unit": "one"} for row in ROWS], "all units of the log are held out"),
        (captioned_rows(60, seed=3, method="balanced"), "balanced cannot credit each click alone"),
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
    assert ask([page], tmp_path, "--held-out", "0", "--format", "json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["verdicts"][0]["kind"] == "unknown"
    assert CaptionNote.NONE_HELD_OUT in [note["code"] for note in said["notes"]]
    assert ask([page], tmp_path, "--held-out", "0") == 0
    assert "held-out results" not in capsys.readouterr().out


def test_captions_that_tell_all_clicks_are_not_called_harmless(tmp_path: Path, capsys: Said) -> None:
    page = tmp_path / "report.md"
    assert ask(linked_rows(), tmp_path, "--out", str(page), "--out", str(tmp_path / "chart.svg")) == 0
    said = capsys.readouterr().out
    assert "deep links at least 1" in said
    assert "No feature of captions" not in said
    assert "so their best weights are infinite" in said
    assert "nan" not in said
    assert "| deep links | deep links at least 1 |" in page.read_text()
    model = caption(table_of(linked_rows())).model
    assert [(one.name, one.error) for one in model.weights] == [("deep links", None)]
    assert 3 < model.weights[0].weight < 20


def test_names_of_rankers_do_not_command_a_terminal_or_become_markup(tmp_path: Path, capsys: Said) -> None:
    rows = [row | {"rankers": ["old\x1b[31m", "*new*"]} for row in ROWS]
    assert ask(rows, tmp_path, "--out", str(tmp_path / "report.md")) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert "\\*new\\*" in (tmp_path / "report.md").read_text().partition("\n")[0]


def test_files_that_hold_no_model_are_named(tmp_path: Path) -> None:
    kept = caption(table_of(linked_rows())).model.to_dict()
    for wrong, message in (
        ([], "is not a caption model"),
        ({}, "is not a caption model"),
        (kept | {"format": 7}, "of format 7; this interleaf knows 1"),
        (kept | {"parameters": kept["parameters"][:-1]}, "not those of"),
        (kept | {"features": []}, "features that it does not have"),
    ):
        path = tmp_path / "model.json"
        path.write_text(json.dumps(wrong))
        with pytest.raises(DataError, match=message) as refused:
            CaptionModel.load(path)
        assert str(path) in str(refused.value)


@cache
def kept_model() -> dict[str, Any]:
    """A model as its file has it."""
    found: dict[str, Any] = json.loads(json.dumps(caption(table_of(linked_rows())).model.to_dict()))
    return found


WRONG: dict[str, list[Any]] = {
    "parameters": ["x", None, float("nan"), float("inf"), True],
    "means": ["a", None, float("nan")],
    "covariance": ["x", float("nan"), None],
    "unseen": ["x", None, float("nan")],
    "name": [5, None],
    "rows": [-1, 2.5, "many"],
    "position_levels": [[], [[]], [[99]], [[0], [0]], [["0"]], 7],
    "grade_levels": [[], [[0], [0]], [[-1]], [[0.0]], None],
    "dropped": [None, ["a"], {"links": 5}],
    "separated": ["no"],
    "weights": [[{"name": "deep links"}], None, 3],
    "features": [
        [{"name": 5, "measure": "deep links"}],
        [{"name": "deep links", "measure": "deep links", "min": "1"}],
    ],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_model_whose_values_cannot_be_is_refused(name: str, value: Any) -> None:
    kept, changed = kept_model(), value
    if name in ("parameters", "means"):
        changed = [value, *kept[name][1:]]
    elif name == "covariance":
        changed = [[value, *kept[name][0][1:]], *kept[name][1:]]
    with pytest.raises(DataError, match="not a caption model"):
        CaptionModel.from_dict(json.loads(json.dumps(kept | {name: changed})))


def test_a_model_that_was_kept_is_taken() -> None:
    assert CaptionModel.from_dict(kept_model()).weights[0].name == "deep links"


def test_few_judgments_are_told() -> None:
    rows = [row if number % 10 == 0 else row | {"grades": None} for number, row in enumerate(ROWS)]
    (told,) = [note for note in caption(table_of(rows)).notes if note.code == CaptionNote.FEW_JUDGED]
    assert told.text.startswith("Only 10 % of the results are judged.")
    assert not {note.code for note in caption(table_of(ROWS)).notes} & {CaptionNote.FEW_JUDGED, CaptionNote.NOT_JUDGED}


def test_a_log_without_owners_says_that_it_has_none() -> None:
    report = caption(table_of([row | {"teams": None} for row in ROWS]), impression="i-3")
    assert report.sentences[0].endswith("no impression can be scored by team_draft (no owners of results are logged).")
    assert report.page is not None
    assert report.page.outcome is None


def test_one_model_alone_has_no_columns_of_differences() -> None:
    alone = caption(table_of(ROWS), CaptionModel.from_dict(kept_model()))
    assert list(alone.perplexity_table().columns)[:3] == ["model", "features", "perplexity"]
    for table in (alone.perplexity_table(), alone.segment_table()):
        assert not any(column.startswith("p, ") or column.startswith("p of") for column in table.columns)
        assert all(len(row) == len(table.columns) for row in table.rows)
