"""Tables of other tools: whatever integers, zones and texts they have, and CSV; all problems are named at once."""

import csv
import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from interleaf import DataError, analyze, log, tally_log
from interleaf.cli import main
from interleaf.log import schema
from interleaf.log.drop_reasons import DropReason
from interleaf.report.codes import NoteCode
from interleaf.tally import Fact
from tests.support.log_rows import Row, loose_table_of, made_rows, notes_of, table_of
from tests.tally.test_tally import check_same

pandas = pytest.importorskip("pandas", reason="comes with the extra integration")
NOTES = [schema.NO_EXPERIMENT, schema.NAIVE_TIMES]


def naive(time: datetime) -> datetime:
    return time.replace(tzinfo=None)


def plain_rows(count: int = 40) -> list[Row]:
    """Rows as a notebook has them: no experiment, no zone."""
    return [
        {name: row[name] for name in ("impression", "unit", "method", "rankers", "documents", "teams", "ranks")}
        | {"time": naive(row["time"])}
        | {"events": [event | {"time": naive(event["time"])} for event in row["events"]]}
        for row in made_rows(count)
    ]


def bare(tally: Any) -> Any:
    """The tally without what was assumed, and with the name of an experiment."""
    for assumption in Fact.ASSUMED.details(tally.facts):
        del tally.facts[Fact.ASSUMED.of(assumption)]
    return tally


def expected(count: int = 40) -> Any:
    table = table_of([row | {"experiment": "experiment"} for row in made_rows(count)])
    return tally_log(table.select(["experiment", *plain_rows(1)[0]]))


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64, np.uint64])
def test_a_data_frame_from_a_notebook_is_read_and_what_is_assumed_is_in_the_report(kind: Any) -> None:
    frame = pandas.DataFrame([row | {"teams": np.array(row["teams"], np.int64).astype(kind)} for row in plain_rows()])
    frame["teams"] = [np.where(teams > 2, 0, teams).astype(kind) for teams in frame["teams"]]
    reading = log.read(frame)
    assert list(reading.assumptions) == NOTES
    report = analyze(frame)
    assert report.totals.impressions == 40
    assert notes_of(report, NoteCode.READ_AS) == [
        f"{text[0].upper()}{text[1:]}." for text in sorted(code.text for code in NOTES)
    ]


def test_all_problems_of_a_data_frame_are_named_at_once_with_their_remedies() -> None:
    frame = pandas.DataFrame(plain_rows(3)).drop(columns=["documents", "method"])
    frame["arm"] = [1, 2, 3]
    frame["rankers"] = [["A", 1], ["A", 2], ["A", 3]]
    with pytest.raises(DataError) as refused:
        log.read(frame)
    said = str(refused.value)
    assert said.startswith("the given data frame: 4 problems:")
    for words in (
        "column 'rankers' should be",
        "no column 'documents'",
        "no column 'method'",
        "'arm' is of type int64",
    ):
        assert words in said


def in_text(row: Row, zone: str = "") -> Row:
    events = [event | {"time": event["time"].isoformat() + zone} for event in row["events"]]
    return row | {"time": row["time"].isoformat() + zone, "events": events}


@pytest.mark.parametrize("zone", ["", "Z", "+00:00"])
def test_times_may_be_text_in_any_table(tmp_path: Path, zone: str) -> None:
    rows = [in_text(row, zone) for row in plain_rows()]
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, tmp_path / "log.parquet")
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sources = [table, pandas.DataFrame(rows), tmp_path / "log.parquet", tmp_path / "log.jsonl", as_csv(tmp_path, rows)]
    for source in sources:
        check_same(bare(tally_log(source)), expected())
    assert schema.NAIVE_TIMES in log.read(table).assumptions


def test_a_text_that_is_no_time_drops_its_row_and_rarer_forms_are_read() -> None:
    rows = [in_text(row, "Z") for row in plain_rows(4)]
    rows[0]["time"], rows[1]["time"] = "yesterday", "2026-11-02 21:01+09:00"
    tally = tally_log(pa.Table.from_pylist(rows))
    assert tally.dropped == {DropReason.NO_TIME: 1}
    assert tally.impressions == 3


def as_csv(folder: Path, rows: list[Row], name: str = "log.csv") -> Path:
    """A table with JSON in its cells, by Python's own writer."""
    path = folder / name
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            cells = {
                name: json.dumps(value) if isinstance(value, (list, dict)) else value for name, value in row.items()
            }
            writer.writerow({name: "" if value is None else value for name, value in cells.items()})
    return path


def test_csv_is_read_with_events_in_cells_or_in_a_file_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [in_text(row, "Z") for row in plain_rows()]
    path = as_csv(tmp_path, rows)
    check_same(bare(tally_log(path)), expected())
    events = [{"impression": row["impression"]} | event for row in rows for event in row["events"]]
    lists = as_csv(tmp_path, [{name: row[name] for name in row if name != "events"} for row in rows], "lists.csv")
    check_same(bare(tally_log([lists, as_csv(tmp_path, events, "events.csv")])), expected())
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert log.convert(tmp_path / "log.csv.gz", tmp_path / "log.parquet").rows == 40
    check_same(bare(tally_log(tmp_path / "log.parquet")), expected())
    assert main(["analyze", str(path)]) == 0
    note = schema.NO_EXPERIMENT.text
    assert f"{note[0].upper()}{note[1:]}." in capsys.readouterr().out


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1), st.integers(0, 2**31 - 1))
def test_any_text_survives_a_cell(tmp_path: Path, text: str, union: int) -> None:
    row = in_text(plain_rows(1)[0], "Z") | {"query": text, "union": union, "relaxed": "true", "page": "1.0"}
    row |= {"documents": [text, "b", "c", "d"], "log_probability": -0.5}
    ((found,),) = [batch.to_pylist() for batch in log.read(as_csv(tmp_path, [row]))]
    assert (found["query"], found["documents"][0]) == (text, text)
    assert (found["union"], found["relaxed"], found["page"], found["log_probability"]) == (union, True, 1, -0.5)


def test_what_is_wrong_with_a_csv_file_is_named(tmp_path: Path) -> None:
    rows = [in_text(row, "Z") for row in plain_rows(3)]
    for names, words in ((["impression", "method"], ["'time'", "'rankers'", "'documents'"]), (["kind"], ["'rank'"])):
        (tmp_path / "bad.csv").write_text(",".join(names) + "\n")
        with pytest.raises(DataError) as refused:
            log.read(tmp_path / "bad.csv")
        assert all(word in str(refused.value) for word in ("bad.csv", *words))
    (tmp_path / "bad.csv").write_text("impression;time;method\n")
    with pytest.raises(DataError, match="separate columns by commas"):
        log.read(tmp_path / "bad.csv")
    rows[0]["documents"], rows[1]["teams"] = "['a', 'b']", "[0.5]"
    reading = log.read(as_csv(tmp_path, rows))
    assert [batch.num_rows for batch in reading] == [1]
    assert reading.dropped == {"wrong_value:documents": 1, "wrong_value:teams": 1}
    assert reading.examples["wrong_value:documents"].startswith(f"{tmp_path}/log.csv:2: ")
    with as_csv(tmp_path, rows[2:]).open("a") as file:
        file.write("one cell\n")
    reading = log.read(tmp_path / "log.csv")
    assert sum(batch.num_rows for batch in reading) == 1
    assert reading.dropped == {"cell_count": 1}


def test_a_log_without_a_column_of_events_is_one_without_events_in_every_format(tmp_path: Path) -> None:
    table = table_of(made_rows(10)).drop_columns(["events"])
    pq.write_table(table, tmp_path / "log.parquet")
    rows = [{name: row[name] for name in row if name != "events"} for row in made_rows(10)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row, default=datetime.isoformat) + "\n" for row in rows))
    tallies = [bare(tally_log(source)) for source in (table, tmp_path / "log.parquet", tmp_path / "log.jsonl")]
    check_same(tallies[1], tallies[0])
    check_same(tallies[2], tallies[0])
    assert list(log.read(table).assumptions) == [schema.NO_EVENTS]


@pytest.mark.parametrize("rank", [2**15, 2**31, 2**40, -(2**40)])
def test_a_click_at_an_impossible_rank_drops_its_row_with_a_reason(tmp_path: Path, rank: int) -> None:
    rows = made_rows(5)
    table = loose_table_of(rows)
    wide = schema.SCHEMA.field("events").type.value_type
    kind = pa.list_(pa.struct([field.with_type(pa.int64()) if field.name == "rank" else field for field in wide]))
    events = [row["events"] for row in rows]
    events[2][0]["rank"] = rank
    table = table.set_column(table.schema.get_field_index("events"), "events", pa.array(events, kind))
    assert tally_log(table).dropped == {"event_not_shown": 1}
    pq.write_table(table, tmp_path / "log.parquet")
    assert tally_log(tmp_path / "log.parquet").dropped == {"event_not_shown": 1}
    if abs(rank) > 2**31:
        words = rf"log\.parquet: row 3: column 'events' cannot be written as .*: Integer value {rank} "
        with pytest.raises(DataError, match=words):
            log.convert(tmp_path / "log.parquet", tmp_path / "again.parquet")
