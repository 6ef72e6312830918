"""Impressions that go on over pages: rows of the same impression become one, with the longest list."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from interleaf import DataError, LogWriter, analyze, interleave, log, tally_log
from interleaf.log.drop_reasons import DropReason
from tests.support.log_rows import RANKINGS, Row, made_event, made_row, made_rows, table_of
from tests.tally.test_tally import check_same


def page_of(row: Row, number: int, size: int, page: int, events: list[Row], **more: Any) -> Row:
    """A further page of a row, as a writer logs it: without who asked for what."""
    shown = interleave(RANKINGS[:2], "team_draft", k=size, key=("row", number)).to_dict(rankings=True)
    bare = {name: value for name, value in row.items() if name not in ("unit", "attributes")}
    return bare | shown | {"page": page, "time": row["time"] + timedelta(minutes=page), "events": events} | more


def in_pages(number: int) -> tuple[Row, list[Row]]:
    """An impression as one row, and as three; two of them have a copy of the same event, as the one has."""
    row = made_row(number, [2])
    later = [made_event(rank, row["time"], 60, event=f"e-{rank}", dwell=float(rank)) for rank in (5, 6)]
    second, third = page_of(row, number, 5, 2, later[:1]), page_of(row, number, 6, 3, later)
    names = ("documents", "ranks", "unshown_ranks", "lengths", "union", "teams", "log_probability", "rankings", "page")
    longest = {name: third[name] for name in names if name in third}
    return row | longest | {"events": row["events"] + later + later[:1]}, [row, second, third]


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations([(number, page) for number in range(3) for page in range(3)]), st.integers(1, 9))
def test_rows_of_pages_are_one_impression_in_any_order_and_format(
    tmp_path: Path, order: list[tuple[int, int]], cut: int
) -> None:
    made = [in_pages(number) for number in range(3)]
    others = made_rows(20)[3:]
    expected = tally_log(table_of([row for row, _ in made] + others))
    rows = [made[number][1][page] for number, page in order]
    table = table_of(rows[:cut] + others + rows[cut:])
    log.write_batches(tmp_path / "log.parquet", table.to_batches(max_chunksize=7))
    log.write_batches(tmp_path / "log.jsonl", table.to_batches(max_chunksize=7))
    for source in (table, tmp_path / "log.parquet", tmp_path / "log.jsonl"):
        found = tally_log(source)
        check_same(found, expected)
        assert not found.dropped
    (batch,) = [batch for batch in log.read(table) if batch.num_rows == 3]
    wanted = {row["impression"]: row for row, _ in made}
    for row in batch.to_pylist():
        whole = wanted[row["impression"]]
        for name in ("time", "unit", "documents", "teams", "page", "rankings"):
            assert row[name] == whole[name], name
        assert [event["rank"] for event in row["events"]] == [2, 5, 6]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_copies_of_an_event_are_counted_once_each_on_pages_and_lines(tmp_path: Path, order: list[int]) -> None:
    whole, rows = in_pages(1)
    log.write_batches(tmp_path / "log.jsonl", table_of([rows[place] for place in order]).to_batches())
    line = whole["events"][-1] | {"impression": whole["impression"], "time": whole["events"][-1]["time"].isoformat()}
    lines = [line | {"event": name, "dwell": dwell} for name, dwell in (("e-5", 9.0), ("e-9", None), ("e-9", 3.0))]
    with (tmp_path / "log.jsonl").open("a") as file:
        file.writelines(json.dumps(one) + "\n" for one in lines)
    tally = tally_log(tmp_path / "log.jsonl")
    assert tally.events == {"counted": 4, "repeated": 3}  # e-5 on two pages and a line, and a line twice
    ((row,),) = [batch.to_pylist() for batch in log.read(tmp_path / "log.jsonl")]
    assert {event["event"]: event["dwell"] for event in row["events"] if event["event"]} == {
        **{event["event"]: event["dwell"] for event in whole["events"] if event.get("event")},
        **{"e-5": 9.0, "e-9": 3.0},
    }


def test_a_log_writer_continues_an_impression(tmp_path: Path) -> None:
    lists = [interleave(RANKINGS[:2], k=size, key="k") for size in (2, 4, 6)]
    with LogWriter(tmp_path, experiment="shop") as writer:
        name = writer.impression(lists[0], unit="u", query="shoes", arm="interleaved", attributes={"device": "phone"})
        writer.event(name, rank=1)
        writer.next_page(name, lists[1])
        writer.event(name, rank=4)
        writer.next_page(name, lists[2], page=3, rankings=True)
        with pytest.raises(DataError, match="page 1 is logged by `impression`"):
            writer.next_page(name, lists[2], page=1)
    ((row,),) = [batch.to_pylist() for batch in log.read(tmp_path)]
    assert tuple(row["documents"]) == lists[2].documents
    assert (row["unit"], row["query"], row["page"], dict(row["attributes"])) == ("u", "shoes", 3, {"device": "phone"})
    assert [event["rank"] for event in row["events"]] == [1, 4]
    report = analyze(tmp_path)
    assert (report.totals.impressions, report.totals.events, report.totals.dropped) == (1, {"counted": 2}, {})


def test_a_page_that_contradicts_the_page_before_is_dropped_and_counted(tmp_path: Path) -> None:
    other = interleave([list("zyxwvu"), list("yzabcd")], k=4, key="k")
    shown = interleave(RANKINGS[:2], k=2, key="k")
    with LogWriter(tmp_path, experiment="shop") as writer:
        name = writer.impression(shown, unit="u")
        writer.event(name, rank=1)
        writer.event(name, rank=4)
        writer.next_page(name, other)
    report = analyze(tmp_path)
    assert report.totals.dropped == {DropReason.WRONG_PAGE: 1}
    assert (report.totals.impressions, report.totals.events) == (1, {"counted": 1, "unmatched": 1})


def test_a_page_alone_and_a_row_that_came_twice_stay_what_they_are(tmp_path: Path) -> None:
    _, (first, second, _) = in_pages(1)
    alone = made_row(2) | {"page": 2}
    table = table_of([first, second, first, alone])
    assert tally_log(table).dropped == {"repeated_impression": 1}
    assert tally_log(table).impressions == 2
    path = tmp_path / "log.jsonl"
    log.write_batches(path, table.to_batches())
    check_same(tally_log(path), tally_log(table))
    with path.open("a") as file:
        file.write(json.dumps({"page": 2, "impression": 7, "documents": ["a"]}) + "\n")
    assert tally_log(path).dropped.total() == 2, "a wrong line is counted once"


def test_files_with_and_without_a_column_of_pages_are_joined(tmp_path: Path) -> None:
    whole, (first, *others) = in_pages(1)
    log.write_batches(tmp_path / "a.parquet", table_of([first]).drop_columns(["page", "grades"]).to_batches())
    log.write_batches(tmp_path / "b.parquet", table_of(others).to_batches())
    ((row,),) = [batch.to_pylist() for batch in log.read(tmp_path)]
    assert (row["documents"], row["page"], row["unit"]) == (whole["documents"], 3, whole["unit"])
    check_same(tally_log(tmp_path), tally_log(table_of([whole])))


def test_a_stream_cannot_be_read_twice_so_its_further_pages_are_repeats() -> None:
    _, rows = in_pages(1)
    stream = pa.RecordBatchReader.from_batches(table_of(rows).schema, table_of(rows).to_batches())
    assert tally_log(stream).dropped == {"repeated_impression": 2}
