"""Events as lines of their own find their impressions: before or after them, in any file, once."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from interleaf import DataError, log
from interleaf.log.event_join import EventLines

LINES: list[dict[str, Any]] = [
    {
        "experiment": "example",
        "impression": f"i-{number}",
        "time": "2026-11-15T12:00:00Z",
        "method": "team_draft",
        "rankers": ["A", "B"],
        "documents": ["a", "b"],
    }
    for number in range(6)
]
EVENTS: list[dict[str, Any]] = [
    {
        "impression": f"i-{number % 5}",
        "event": f"e-{number}" if number % 3 else None,
        "kind": ["click", "purchase"][number % 2],
        "rank": number % 2 + 1,
        "time": f"2026-11-15T12:00:0{number % 4}.{number:03}Z",
        "value": number / 4 if number % 2 else None,
        "dwell": 1.5 if number % 4 == 3 else None,
    }
    for number in range(14)
]


def inside(lines: list[dict[str, Any]], events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same log with the events inside their impressions, by time; joined without any of the code at hand."""
    ordered = sorted(events, key=lambda event: str(event["time"]))
    return [
        line | {"events": [event for event in ordered if event["impression"] == line["impression"]]} for line in lines
    ]


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def read(source: Any, **options: Any) -> tuple[Any, log.LogReading]:
    reading = log.read(source, **options)
    batches = list(reading)
    return pa.Table.from_batches(batches).combine_chunks(), reading


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    order=st.permutations(LINES + EVENTS),
    cuts=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    size=st.integers(1, 8),
)
def test_events_in_any_order_and_file_are_as_if_inside(
    tmp_path: Path, order: list[dict[str, Any]], cuts: tuple[int, int], size: int
) -> None:
    first, second = sorted(cuts)
    for name, part in (("a", order[:first]), ("b", order[first:second]), ("c", order[second:])):
        write(tmp_path / f"{name}.jsonl", part)
    joined, reading = read(tmp_path, batch_size=size)
    order_of_lines = [line for line in order if "documents" in line]
    expected = log.rows_to_batch(
        inside([line | {"version": 1, "arm": "interleaved"} for line in order_of_lines], EVENTS)
    )
    assert joined.to_batches()[0].equals(expected)
    assert not reading.events
    assert not reading.dropped


def test_some_events_may_be_inside_and_others_not(tmp_path: Path) -> None:
    half = inside(LINES, EVENTS[:7])
    joined, _ = read(write(tmp_path / "log.jsonl", [*half, *EVENTS[7:]]))
    assert joined.equals(read(write(tmp_path / "all.jsonl", inside(LINES, EVENTS)))[0])


def test_an_event_that_comes_twice_counts_once_if_it_has_an_id(tmp_path: Path) -> None:
    named = [event for event in EVENTS if event["event"]]
    once, _ = read(write(tmp_path / "once.jsonl", LINES + EVENTS))
    again = [*reversed(named), *LINES, *EVENTS]
    twice, reading = read([write(tmp_path / "a.jsonl", again), write(tmp_path / "b.jsonl", named[:2])])
    assert twice.equals(once)
    assert reading.events == {"repeated": len(named) + 2}
    both, reading = read(write(tmp_path / "both.jsonl", inside(LINES, EVENTS) + named))
    assert both.equals(once)
    assert reading.events == {"repeated": len(named)}
    repeated = [{**line, "events": line["events"] * 2} for line in inside(LINES, named)]
    _, reading = read(write(tmp_path / "inside.jsonl", repeated))
    assert reading.events == {"repeated": len(named)}
    unnamed = [event for event in EVENTS if not event["event"]]
    found, reading = read(write(tmp_path / "unnamed.jsonl", LINES + unnamed + unnamed))
    assert sum(map(len, found["events"].to_pylist())) == 2 * len(unnamed), "nothing tells them apart from two events"


def test_events_without_an_impression_are_counted(tmp_path: Path) -> None:
    dropped = LINES[0] | {"documents": None, "method": 3}
    wanted = Counter(event["impression"] for event in EVENTS)
    _, reading = read(write(tmp_path / "log.jsonl", [*EVENTS, dropped, *LINES[2:]]))
    assert reading.events == {"unmatched": wanted["i-0"] + wanted["i-1"]}
    assert reading.dropped.total() == 1
    only, reading = log.read(write(tmp_path / "events.jsonl", EVENTS)), log.read(tmp_path / "events.jsonl")
    assert list(only) == []
    assert only.events == {"unmatched": len(EVENTS)}
    assert reading.events == {}, "nothing is counted before it is read"


def test_parquet_has_its_events_inside_and_lines_do_not_reach_it(tmp_path: Path) -> None:
    read_first = inside([line | {"version": 1, "arm": "interleaved"} for line in LINES[:3]], EVENTS)
    log.write_batches(tmp_path / "a.parquet", [log.rows_to_batch(read_first)])
    write(tmp_path / "b.jsonl", LINES[3:] + EVENTS)
    reading = log.read(tmp_path, ["impression", "events"])
    found = {row["impression"]: row["events"] for batch in reading for row in batch.to_pylist()}
    counts = Counter(event["impression"] for event in EVENTS)
    assert {name: len(events) for name, events in found.items()} == {
        line["impression"]: counts[line["impression"]] for line in LINES
    }
    assert reading.events == {"unmatched": counts["i-0"] + counts["i-1"] + counts["i-2"]}


def test_the_columns_that_are_read_do_not_change_what_is_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", [*LINES[1:], *EVENTS, EVENTS[1], {"kind": "click"}, {}])
    everything, little = log.read(path), log.read(path, ["unit"])
    assert sum(batch.num_rows for batch in everything) == sum(batch.num_rows for batch in little) == 5
    assert everything.dropped == little.dropped == {"no_event_value:impression": 1, "no_value:impression": 1}
    assert everything.events == little.events == {"unmatched": 3, "repeated": 1}


def test_events_that_are_kept_aside_leave_nothing_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    path = write(tmp_path / "log.jsonl", [*LINES, *(EVENTS[0] | {"event": str(number)} for number in range(3000))])
    reading = log.read(path, batch_size=1)
    batches = iter(reading)
    assert len(next(batches)["events"][0]) == 3000
    del batches
    assert os.listdir(tmp_path / "scratch") == []


def test_a_disk_without_room_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = EventLines.__init__

    def small(self: EventLines) -> None:
        made(self)
        self._database.execute("PRAGMA max_page_count = 3")

    monkeypatch.setattr(EventLines, "__init__", small)
    path = write(tmp_path / "log.jsonl", [*LINES, *EVENTS * 1000])
    with pytest.raises(DataError, match=r"cannot be stored \(database or disk is full\); set the variable TMPDIR"):
        list(log.read(path))
