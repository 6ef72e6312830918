"""A log, or two tables: both, neither or half are refused, with all problems at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from interleaf import DataError, analyze
from interleaf.cli import main
from tests.support.log_rows import made_rows, table_of
from tests.support.two_tables import as_lines, as_table, events_of, in_shape, numbers_of

ROWS = made_rows(20)
LOG, SHOWN, CLICKS = table_of(ROWS), as_table(in_shape(ROWS, "JSON")), as_table(events_of(ROWS))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({}, ["nothing to analyze"]),
        ({"log": LOG, "impressions": SHOWN, "events": CLICKS}, ["a log and impressions are given"]),
        ({"impressions": SHOWN}, ["without events"]),
        ({"impressions": SHOWN, "events": "click"}, ["without events"]),
        ({"events": CLICKS}, ["without impressions"]),
        ({"log": LOG, "events": "clicks.parquet"}, ["without impressions"]),
        ({"log": LOG, "map": {"unit": "u"}, "rankers": ["a"], "ordinals": 0}, ["map is", "rankers is", "ordinals is"]),
        ({"log": LOG, "impressions": SHOWN}, ["a log and", "without events"]),
        ({"log": LOG, "events": "purchase", "kinds": "click"}, ["give one of them"]),
        ({"impressions": SHOWN, "events": CLICKS, "engine": "spark"}, ["interleaf import tables"]),
        ({"impressions": SHOWN, "events": {"click": 1.0}}, ["dict"]),
        ({"impressions": 7, "events": "none.parquet"}, ["int", "none.parquet"]),
    ],
)
def test_what_is_not_a_log_or_two_tables_is_refused(arguments: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        analyze(**arguments)
    problems = caught.value.problems or (caught.value,)
    assert len(problems) == len(parts)
    for part in parts:
        assert any(part in str(problem) for problem in problems), part


def test_kinds_say_which_events_count_with_both_forms() -> None:
    kinds = {"click": 1.0, "purchase": 5.0}
    expected = numbers_of(LOG, events=kinds)
    assert numbers_of(LOG, kinds=kinds) == expected
    assert numbers_of(impressions=SHOWN, events=CLICKS, kinds=kinds) == expected


def test_the_command_line_reads_two_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shown.jsonl").write_text(as_lines(in_shape(ROWS, "columns of a log")))
    (tmp_path / "clicks.jsonl").write_text(as_lines(events_of(ROWS)))
    tables = ["--impressions", str(tmp_path / "shown.jsonl"), "--events", str(tmp_path / "clicks.jsonl")]
    more = ["--kinds", "click", "purchase=5", "--map", "events.document=doc_id", "--by", "device"]
    assert main(["analyze", *tables, *more, "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    expected = numbers_of(LOG, events={"click": 1.0, "purchase": 5.0}, by=["device"])
    assert {name: printed[name] for name in expected} == json.loads(json.dumps(expected))


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--impressions", "a.parquet", "--events", "b.parquet", "c.parquet"], "quote globs"),
        (["log.parquet", "--events", "clicks.parquet"], "without impressions"),
        (["log.parquet", "--events", "click", "--kinds", "click"], "give one of them"),
        (["log.parquet", "--events", "purchase=x"], "KIND=WEIGHT"),
    ],
)
def test_wrong_use_of_tables_is_one_message(words: list[str], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", *words]) == 2
    assert part in capsys.readouterr().err


def test_import_needs_exactly_two_tables_and_replaces_neither(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown, clicks = tmp_path / "shown.jsonl", tmp_path / "clicks.jsonl"
    shown.write_text(as_lines(in_shape(ROWS, "columns of a log")))
    clicks.write_text(as_lines(events_of(ROWS)))
    assert main(["import", "tables", str(shown), "--out", str(tmp_path / "log.parquet")]) == 2
    assert "give two" in capsys.readouterr().err
    assert main(["import", "tables", str(shown), str(clicks), "--out", str(clicks)]) == 2
    assert "which is read" in capsys.readouterr().err
    assert main(["import", "tables", str(shown), str(clicks), "--out", str(tmp_path / "log.jsonl")]) == 0
    assert numbers_of(tmp_path / "log.jsonl") == numbers_of(LOG)
