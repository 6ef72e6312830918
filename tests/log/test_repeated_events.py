"""Copies of one event are merged: the click keeps its time and gets its dwell, in every reader and in any order."""

import json
from datetime import datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from interleaf import LogWriter, analyze, interleave, log, tally_log
from interleaf.importers.ubi import import_ubi
from interleaf.log.event_join import merge_events
from tests.support.log_rows import START, Row, loose_table_of, made_event, made_row
from tests.tally.test_tally import check_same

COPY = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["click", "purchase"]),
        "rank": st.integers(1, 4),
        "seconds": st.integers(0, 3),
        "event": st.none() | st.sampled_from(["x", "y", "z"]),
        "dwell": st.none() | st.sampled_from([0.5, 29.0, 31.0]),
        "value": st.none() | st.sampled_from([1.0, 2.0]),
    }
)


def merged(events: list[Row]) -> list[Row]:
    """The rule, in plain words of Python."""
    found = [event for event in events if event["event"] is None]
    for name in sorted({event["event"] for event in events if event["event"] is not None}):
        copies = sorted((event for event in events if event["event"] == name), key=place)
        dwells = [event["dwell"] for event in copies if event["dwell"] is not None]
        valued = [event for event in copies if event["value"] is not None]
        value = min(valued, key=lambda event: (place(event), event["value"]))["value"] if valued else None
        found.append(copies[0] | {"dwell": max(dwells, default=None), "value": value})
    return found


def plain(event: Row) -> list[str]:
    return [str(event[name]) for name in ("time", "rank", "kind", "event", "dwell", "value")]


def place(event: Row) -> tuple[datetime, int, str]:
    return event["time"], event["rank"], event["kind"]


def as_lines(row: Row, events: list[Row]) -> list[dict[str, Any]]:
    """The impression as a line, and each event as a line of its own."""
    own = [{"impression": row["impression"], **event, "time": event["time"].isoformat()} for event in events]
    return [{**row, "time": row["time"].isoformat(), "events": []}, *own]


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.lists(COPY, max_size=7), st.integers(0, 7), st.booleans())
def test_the_order_of_copies_changes_nothing_in_any_reader(
    tmp_path: Path, data: st.DataObject, drawn: list[Row], inside: int, first: bool
) -> None:
    row = made_row(1, ())
    events = [made_event(time=row["time"], **event) for event in drawn]
    expected = merged(events)
    shuffled = data.draw(st.permutations(events))
    lines = as_lines(row, shuffled[inside:])
    lines[0]["events"] = [event | {"time": event["time"].isoformat()} for event in shuffled[:inside]]
    path = write(tmp_path / "log.jsonl", data.draw(st.permutations(lines)))
    (batch,) = log.read(path)
    (found,) = batch.column("events").to_pylist()
    assert sorted(map(plain, found)) == sorted(map(plain, expected)) == sorted(map(plain, merge_events(shuffled)))
    for dwell in (None, 30.0):
        tallies = [
            tally_log(source, events={"click": 1, "purchase": 2}, dwell=dwell, first=first)
            for source in (loose_table_of([row | {"events": expected}]), loose_table_of([row | {"events": shuffled}]))
        ]
        lost = len(events) - len(expected)
        assert tallies[1].events["repeated"] == lost
        del tallies[1].events["repeated"]
        for tally in tallies:
            tally.facts.clear()  # they count events as they were logged, copies too
        check_same(tallies[0], tallies[1])


def test_a_click_of_the_browser_script_gets_its_dwell_from_a_log_writer(tmp_path: Path) -> None:
    shown = interleave([["a", "b"], ["b", "c"]], key="k")
    with LogWriter(tmp_path, experiment="shop", clock=lambda: START) as writer:
        name = writer.impression(shown, unit="u")
        writer.event(name, rank=1, event="e", time=START + timedelta(seconds=2))
        writer.event(name, rank=1, event="e", time=START + timedelta(seconds=60), dwell=58)
    (batch,) = log.read(tmp_path)
    (event,) = batch.column("events").to_pylist()[0]
    assert (event["time"], event["dwell"]) == (START + timedelta(seconds=2), 58)
    assert analyze(tmp_path, dwell=30).totals.events == {"counted": 1, "repeated": 1}
    log.convert(tmp_path, tmp_path / "log.parquet")
    assert analyze(tmp_path / "log.parquet", dwell=30).totals.events == {"counted": 1}


@pytest.mark.parametrize("dwells", list(permutations([None, 5.0, 31.0])))
def test_copies_inside_a_parquet_row_are_merged(tmp_path: Path, dwells: tuple[float | None, ...]) -> None:
    row = made_row(1, ())
    row["events"] = [made_event(1, row["time"], number, event="e", dwell=one) for number, one in enumerate(dwells)]
    log.write_batches(tmp_path / "log.parquet", loose_table_of([row]).to_batches())
    tally = tally_log(tmp_path / "log.parquet", dwell=30)
    assert tally.events == {"counted": 1, "repeated": 2}


@pytest.mark.parametrize("later", [0, 8])
def test_copies_of_a_ubi_event_are_merged(tmp_path: Path, later: int) -> None:
    query = {"query_id": "q", "user_query": "shoes", "timestamp": "2026-11-15T12:00:00Z", "client_id": "c"}
    about = {"object": {"object_id": "b"}, "event": "e"}
    click = {"action_name": "click", "query_id": "q", "event_attributes": about}
    records: list[dict[str, Any]] = [
        query | {"query_response_hit_ids": ["a", "b"]},
        click | {"timestamp": f"2026-11-15T12:00:0{8 - later}Z", "event_attributes": about | {"dwell": 40}},
        click | {"timestamp": f"2026-11-15T12:00:0{later}Z"},
        click | {"timestamp": "2026-11-15T12:00:09Z", "event_attributes": about | {"dwell": 4, "value": 2}},
    ]
    found = import_ubi(write(tmp_path / "ubi.jsonl", records), tmp_path / "log.parquet")
    ((event,),) = pa.Table.from_batches(list(log.read(tmp_path / "log.parquet"))).column("events").to_pylist()
    assert (event["time"].second, event["rank"], event["dwell"], event["value"]) == (0, 2, 40, 2)
    assert found.counts["event_repeated"] == 2
