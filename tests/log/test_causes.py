"""What is wrong with a log, or with what was asked of it, is named by its real cause, with a remedy."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interleaf import DataError, analyze, log, plan, tally_log
from interleaf.cli import main
from interleaf.click_value import learn
from interleaf.decode.columns import Exclusion
from interleaf.log.drop_reasons import DropReason, EventFate
from interleaf.report.codes import NoteCode
from tests.support.log_rows import Row, made_rows, notes_of, table_of

GERMAN = "16/11/2026 10:00"
FORMAT = "2026-11-16T10:00:00Z"


def text_rows(count: int = 120, **changes: Callable[[str], str]) -> list[Row]:
    """Rows with texts for times; `time` and `events` may be given another form."""
    return [
        {name: row[name] for name in ("impression", "unit", "method", "rankers", "documents", "teams", "ranks")}
        | {"time": changes.get("time", str)(row["time"].isoformat())}
        | {
            "events": [
                event | {"time": changes.get("events", str)(event["time"].isoformat())} for event in row["events"]
            ]
        }
        for row in made_rows(count)
    ]


def write_csv(path: Path, rows: list[Row]) -> str:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({name: json.dumps(cell) if isinstance(cell, list) else cell for name, cell in row.items()})
    return str(path)


def lists_and_events(folder: Path, time: Callable[[str], str] = str) -> tuple[str, str]:
    rows = text_rows(events=time)
    events = [{"impression": row["impression"]} | event for row in rows for event in row["events"]]
    lists = [{name: cell for name, cell in row.items() if name != "events"} for row in rows]
    return write_csv(folder / "lists.csv", lists), write_csv(folder / "events.csv", events)


def test_texts_that_are_no_iso_times_have_a_reason_of_their_own_with_an_example() -> None:
    rows = text_rows()
    for row in rows[:40]:
        row["time"] = GERMAN
    report = analyze(pa.Table.from_pylist(rows))
    assert report.totals.dropped == {"no_time": 40}
    assert FORMAT in report.totals.texts["no_time"]
    assert f"Not used: {DropReason.NO_TIME.text}, for example '{GERMAN}'." in report.notes
    with pytest.raises(DataError, match=f"{FORMAT}, for example '{GERMAN}': 120"):
        analyze(pa.Table.from_pylist(text_rows(time=lambda _: GERMAN)))


def test_times_of_events_that_cannot_be_read_are_told_as_such_and_not_as_early(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(text_rows(events=lambda _: GERMAN)), tmp_path / "log.parquet")
    report = analyze(tmp_path / "log.parquet")
    assert set(report.totals.events) == {EventFate.NO_TIME}
    (check,) = [check for check in report.health if check.code == "events_without_time"]
    assert (check.status, FORMAT in check.remedy) == ("failed", True)
    assert "without a time in ISO 8601" in report.verdict.sentence
    assert any(GERMAN in note for note in report.notes)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_lines_with_times_in_another_form_name_the_value_and_the_form(ending: str, tmp_path: Path) -> None:
    rows = text_rows(time=lambda _: GERMAN)
    path = write_csv(tmp_path / "log.csv", rows)
    if ending == "jsonl":
        path = str(tmp_path / "log.jsonl")
        Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=f"'{GERMAN}' is not a time in ISO 8601; write it such as {FORMAT}"):
        analyze(path)


def test_events_that_cannot_be_read_are_not_called_nobody(tmp_path: Path) -> None:
    report = analyze(list(lists_and_events(tmp_path, lambda _: GERMAN)))
    assert "Nobody" not in report.verdict.sentence
    assert "lines of events could not be used (event with wrong 'time'" in report.verdict.sentence
    assert "event with wrong 'time'" in next(c.figure for c in report.health if c.code == "events_counted")
    assert any(GERMAN in note and FORMAT in note and "events.csv:2" in note for note in report.notes)


def test_a_file_of_events_alone_is_not_called_empty(tmp_path: Path) -> None:
    _, events = lists_and_events(tmp_path)
    with pytest.raises(DataError, match=r"holds \d+ events and no impression: give the files with the impressions"):
        analyze(events)


def test_convert_names_the_text_that_is_no_time(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"row 1: column 'time': '{GERMAN}' is not a time in ISO 8601"):
        log.convert(pa.Table.from_pylist(text_rows(time=lambda _: GERMAN)), tmp_path / "log.parquet")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_file_in_utf_16_is_named_with_the_remedy(encoding: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{ending}"
    path.write_text("impression,time\n" if ending == "csv" else '{"impression": "i-1"}\n', encoding=encoding)
    with pytest.raises(DataError, match=r"encoded in UTF-16 or UTF-32; save it in UTF-8"):
        list(log.read(path))


def pilot_of(table: Any, **options: Any) -> Any:
    return plan(0.1, table, **options)


@pytest.mark.parametrize("take", [analyze, pilot_of, tally_log])
def test_to_exclude_by_an_attribute_that_no_row_has_is_refused(take: Callable[..., Any]) -> None:
    table = table_of(made_rows(120))
    with pytest.raises(DataError, match=r"'devcie'; did you mean 'device'\? \(the log has 'device'\)"):
        take(table, exclude={"devcie": ["bot"]})


def test_learning_refuses_such_an_exclusion_too() -> None:
    with pytest.raises(DataError, match="did you mean 'device'"):
        learn(table_of(made_rows(120)), exclude=Exclusion({"devcie": ["bot"]}))


def test_a_value_to_exclude_that_no_row_has_is_noted_also_in_sums_of_tallies() -> None:
    table = table_of(made_rows(120))
    assert notes_of(analyze(table, exclude={"device": ["bto"]}), NoteCode.NO_MATCH) == [
        "No row was excluded by device = 'bto'."
    ]
    first, second = (tally_log(table_of(rows), exclude={"device": ["bto"]}) for rows in halves())
    assert len(notes_of(analyze(first + second), NoteCode.NO_MATCH)) == 1
    changed = [
        row | {"attributes": {"device": "bto"}} if number % 9 == 0 else row for number, row in enumerate(halves()[1])
    ]
    second = tally_log(table_of(changed), exclude={"device": ["bto"]})
    assert NoteCode.NO_MATCH not in analyze(first + second).note_codes


def halves() -> tuple[list[Row], list[Row]]:
    rows = made_rows(240)
    return rows[:120], rows[120:]


def test_kinds_of_events_that_the_log_does_not_have_are_told() -> None:
    report = analyze(table_of(made_rows(120)), events={"click": 1, "clikc": 2})
    (note,) = notes_of(report, NoteCode.NO_MATCH)
    assert note.startswith("No event of the kind 'clikc' is in the log; its kinds are 'click'")
    assert "did you mean 'click'?" in note
    assert note in str(report)
    assert NoteCode.NO_MATCH not in analyze(table_of(made_rows(120))).note_codes


def test_a_plan_without_events_names_the_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = table_of(made_rows(120))
    for effect in (None, 0.1):
        with pytest.raises(DataError, match=r"No event of the kind 'purchase' is in the log; its kinds are 'click'"):
            plan(effect, table, events="purchase")
    path = tmp_path / "log.parquet"
    pq.write_table(table, path)
    assert main(["plan", "--events", "purchase", str(path)]) == 2
    assert "put the log before the options" in capsys.readouterr().err


def test_the_text_has_the_notes_and_the_reasons_of_skipped_checks() -> None:
    report = analyze(table_of(made_rows(40)), by=["device"])
    assert report.notes
    skipped = [check for check in report.health if check.status == "skipped"]
    assert skipped
    for words in (*report.notes, *(check.figure for check in skipped)):
        assert words in str(report)


def test_intervals_hold_only_scores_that_can_be() -> None:
    rows = [row | {"unit": f"u{number % 3}"} for number, row in enumerate(made_rows(30))]
    report = analyze(table_of(rows), by=["device"], look=(1, 1))
    pairs = [*report.comparisons, *(pair for segment in report.segments for pair in segment.comparisons)]
    ends = [end for pair in pairs for end in pair.interval or ()]
    ends += [end for point in report.over_time for end in point.interval or ()]
    assert ends
    assert max(map(abs, ends)) == 1.0
