"""A log that grows while people search: what was appended is there, after kills, forks, full disks and rotation."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from interleaf import DataError, Interleaving, analyze, interleave, log
from interleaf.log import LogWriter

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
SHOWN = interleave({"old": ["d4", "d1", "d7"], "new": ["d1", "d9", "d4"]}, k=3, key=("example", "user-7"))


def rows(source: Any) -> tuple[list[dict[str, Any]], log.LogReading]:
    reading = log.read(source)
    return [row for batch in reading for row in batch.to_pylist()], reading


def test_an_empty_list_of_one_ranker_is_in_the_arm_of_this_ranker(tmp_path: Path) -> None:
    full, empty = {"old": ["a"], "new": ["b"]}, {"old": [], "new": ["b"]}
    lists = [[interleave(found, "one_list", key=("u", number)) for found in (full, empty)] for number in range(20)]
    with LogWriter(tmp_path, experiment="example") as writer:
        for pair in lists:
            for shown in pair:
                writer.impression(shown)
    arms = [row["arm"] for row in rows(tmp_path)[0]]
    assert arms[::2] == arms[1::2] == ["old" if pair[0].documents == ("a",) else "new" for pair in lists]
    assert set(arms) == {"old", "new"}
    assert not all(shown.documents for _, shown in lists)


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    with LogWriter(tmp_path, experiment="example", version=3, clock=lambda: NOON) as writer:
        name = writer.impression(
            SHOWN,
            unit="ユーザー",
            session="s-1",
            query='say "{hello}"\n',
            page=2,
            attributes={"device": "phone"},
            captions=[{"title": "t"}, None, {"url": "u"}],
            grades=[1, None, 0],
            characters=[812, None, 40],
            latency=[1.5, None],
            fallback_reason="none",
            epoch=7,
            rankings=True,
        )
        event = writer.event(name, rank=2, dwell=1.5, time="2026-11-15T12:00:05Z")
        assert writer.event(name, "purchase", rank=2, value=9.5, event="e-1") == "e-1"
        writer.event(name, "purchase", rank=2, value=9.5, event="e-1")
        assert writer.impression(SHOWN, impression="i-2", arm="holdout", time=NOON - timedelta(days=1)) == "i-2"
    (first, second), reading = rows(tmp_path)
    assert reading.events == {"repeated": 1}
    assert Interleaving.from_dict(first) == SHOWN
    assert first["rankings"] == [["d4", "d1", "d7"], ["d1", "d9", "d4"]]
    said = {"experiment": "example", "version": 3, "impression": name, "time": NOON, "unit": "ユーザー", "page": 2}
    said |= {"session": "s-1", "query": 'say "{hello}"\n', "arm": "interleaved", "fallback_reason": "none"}
    said |= {"attributes": [("device", "phone")], "grades": [1, None, 0], "latency": [1.5, None]}
    said |= {"characters": [812, None, 40], "epoch": 7}
    assert {name: first[name] for name in said} == said
    assert [caption and caption["title"] for caption in first["captions"]] == ["t", None, None]
    assert [
        (one["event"], one["kind"], one["rank"], one["time"], one["dwell"], one["value"]) for one in first["events"]
    ] == [
        ("e-1", "purchase", 2, NOON, None, 9.5),
        (event, "click", 2, NOON + timedelta(seconds=5), 1.5, None),
    ]
    assert (second["impression"], second["arm"], second["time"]) == ("i-2", "holdout", NOON - timedelta(days=1))
    assert (second["rankings"], second["epoch"]) == (None, None)
    assert len(name) == len(event) == 32


def test_a_list_that_something_else_composed_has_no_key(tmp_path: Path) -> None:
    with LogWriter(tmp_path, experiment="example") as writer:
        writer.impression(Interleaving.of([[4, 1], [1, 9]], [1, 4], teams=(1, 0)))
    (row,), _ = rows(tmp_path)
    assert row["key"] is None
    assert row["documents"] == ["1", "4"]
    assert abs(row["time"] - datetime.now(UTC)) < timedelta(minutes=5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda writer: writer.event("i-1", rank=0), "an event at rank 0 cannot be logged; ranks start at 1"),
        (lambda writer: writer.event("i-1", rank=1.5), "'rank': 1.5 is not a whole number"),
        (lambda writer: writer.event("i-1", rank=True), "'rank': True is not a whole number"),
        (lambda writer: writer.event("i-1", rank=2**31), "'rank': 2147483648 is out of range"),
        (lambda writer: writer.event("i-1", "", rank=1), "kind is ''; give a text"),
        (lambda writer: writer.event(7, rank=1), "impression is 7; give a text"),
        (lambda writer: writer.event("i-1", rank=1, event=7), "event is 7; give a text"),
        (lambda writer: writer.event("i-1", rank=1, time=NOON.replace(tzinfo=None)), "does not say its zone"),
        (lambda writer: writer.event("i-1", rank=1, value=float("nan")), "a number that JSON cannot"),
        (lambda writer: writer.impression(["d1"]), "an Interleaving, not list"),
        (lambda writer: writer.impression(SHOWN, impression=""), "impression is ''; give a text"),
        (lambda writer: writer.impression(SHOWN, unit=7.5), "cannot be logged: 'unit': 7.5 is not a text"),
        (lambda writer: writer.impression(SHOWN, query="\ud800"), "text that is not Unicode"),
        (lambda writer: writer.impression(SHOWN, attributes={"age": 7}), "'attributes': 7 is not a text"),
        (lambda writer: writer.impression(SHOWN, arm=None), "arm is None; give a text"),
        (lambda writer: writer.impression(SHOWN, epoch="first"), "cannot be logged: 'epoch': 'first' is"),
    ],
)
def test_what_cannot_be_logged_is_refused_and_leaves_no_trace(tmp_path: Path, call: Any, words: str) -> None:
    with LogWriter(tmp_path, experiment="example") as writer:
        with pytest.raises(DataError, match=words):
            call(writer)
        assert list(tmp_path.iterdir()) == []
        writer.impression(SHOWN)
    assert len(rows(tmp_path)[0]) == 1


def test_a_writer_is_refused_what_makes_no_sense(tmp_path: Path) -> None:
    for options, words in [
        ({"experiment": ""}, "experiment is ''"),
        ({"experiment": "e", "version": "1"}, "'version': '1' is not a whole number"),
        ({"experiment": "e", "rotate_rows": 0}, "after 0 rows"),
        ({"experiment": "e", "rotate_seconds": float("nan")}, "nan seconds"),
    ]:
        with pytest.raises(DataError, match=words):
            LogWriter(tmp_path, **options)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"there is no folder .*nowhere"):
        LogWriter(tmp_path / "nowhere", experiment="e")
    writer = LogWriter(tmp_path, experiment="e")
    writer.flush()
    writer.close()
    writer.close()
    with pytest.raises(DataError, match="closed"):
        writer.impression(SHOWN)


def test_files_end_by_size_and_by_age(tmp_path: Path) -> None:
    now = NOON
    with LogWriter(tmp_path, experiment="e", rotate_rows=3, rotate_seconds=60, clock=lambda: now) as writer:
        for number in range(7):
            writer.impression(SHOWN, impression=f"i-{number}")
        now += timedelta(seconds=59)
        writer.impression(SHOWN, impression="i-7")
        now += timedelta(seconds=1)
        writer.event("i-0", rank=1)
    files = sorted(tmp_path.iterdir())
    assert sorted(len(file.read_text().splitlines()) for file in files) == [1, 2, 3, 3]
    assert {file.name.split("-")[0] for file in files} == {"20261115T120000Z", "20261115T120100Z"}
    assert {file.name.split("-")[1] for file in files} == {str(os.getpid())}
    found, reading = rows(tmp_path)
    assert sorted(row["impression"] for row in found) == [f"i-{number}" for number in range(8)]
    assert not reading.events


def test_threads_share_a_writer(tmp_path: Path) -> None:
    with LogWriter(tmp_path, experiment="e", rotate_rows=40) as writer, ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda _: writer.impression(SHOWN), range(300)))
        list(pool.map(lambda name: writer.event(name, rank=1), names))
    found, reading = rows(tmp_path)
    assert sorted(row["impression"] for row in found) == sorted(names)
    assert all(len(row["events"]) == 1 for row in found)
    assert not reading.dropped
    assert len(list(tmp_path.iterdir())) == 600 // 40


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are of Unix")
def test_a_fork_begins_a_file_of_its_own(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, experiment="e")
    writer.impression(SHOWN, impression="before")

    def child() -> None:
        writer.impression(SHOWN, impression="child")
        writer.close()

    with writer._files._lock:  # as if another thread were writing at that very moment
        process = multiprocessing.get_context("fork").Process(target=child)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads: servers do it
            process.start()
        process.join(30)
    assert process.exitcode == 0
    writer.impression(SHOWN, impression="after")
    writer.close()
    files = [[json.loads(line)["impression"] for line in file.read_text().splitlines()] for file in tmp_path.iterdir()]
    assert sorted(files) == [["before", "after"], ["child"]]


def test_a_line_that_cannot_be_written_whole_is_not_glued_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(FileIO):
        def write(self, content: Any) -> int:
            if len(content) < 100:
                raise OSError(28, "No space left on device")
            return super().write(content[: len(content) // 2])

    with LogWriter(tmp_path, experiment="e") as writer:
        writer.impression(SHOWN, impression="first")
        monkeypatch.setattr("interleaf.log.writer.FileIO", Full)
        writer._files.forget()
        with pytest.raises(OSError, match="No space left"):
            writer.impression(SHOWN, impression="lost")
        monkeypatch.setattr("interleaf.log.writer.FileIO", FileIO)
        writer.impression(SHOWN, impression="last")
    found, reading = rows(tmp_path)
    assert sorted(row["impression"] for row in found) == ["first", "last"]
    assert reading.dropped == {"cut_off": 1}


KILLED = """
import sys
from interleaf import interleave
from interleaf.log import LogWriter

shown = interleave([["a", "b"], ["b", "c"]], key="k")
writer = LogWriter(sys.argv[1], experiment="e", rotate_rows=100)
for number in range(10**9):
    writer.impression(shown, impression=f"i-{number}", query="x" * 5000)
    if number == 250:
        writer.flush()
        print("flushed", flush=True)
"""


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that appends impressions without end, and has flushed 251 of them."""
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        try:
            assert process.stdout.readline() == "flushed\n"
            yield process
        finally:
            process.kill()


def test_a_killed_process_loses_nothing_that_it_appended(tmp_path: Path, writing: subprocess.Popen[str]) -> None:
    during, reading = rows(tmp_path)
    assert len(during) >= 251
    writing.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    writing.wait()
    with LogWriter(tmp_path, experiment="e") as writer:
        writer.impression(SHOWN, impression="next")
    found, reading = rows(tmp_path)
    numbers = {int(row["impression"].removeprefix("i-")) for row in found if row["impression"] != "next"}
    assert numbers == set(range(len(found) - 1)), "a line is lost, or there twice"
    assert len(found) - 1 >= len(during) >= 251
    assert set(reading.dropped) <= {"cut_off"}
    assert reading.dropped.total() <= 1


def test_ranks_of_a_million_documents_are_logged_and_scored(tmp_path: Path) -> None:
    many = [f"d-{number}" for number in range(1_000_000)]
    shown = interleave({"one": many, "other": [*many[-3:], *many[:-3]]}, k=4, key="k")
    assert shown.ranks.max() > 2**15
    (tmp_path / "log").mkdir()
    with LogWriter(tmp_path / "log", experiment="example") as writer:
        name = writer.impression(shown, unit="u")
        writer.event(name, rank=2)
    assert log.convert(tmp_path / "log", tmp_path / "log.parquet").rows == 1
    for source in (tmp_path / "log", tmp_path / "log.parquet"):
        report = analyze(source)
        assert (report.totals.impressions, report.totals.dropped) == (1, {})


def test_a_list_longer_than_a_log_takes_is_refused_with_the_limit(tmp_path: Path) -> None:
    deep = [f"d{number}" for number in range(1500)]
    with LogWriter(tmp_path, experiment="example") as writer:
        writer.impression(interleave([deep, deep[::-1]], k=1000, key=1))
        with pytest.raises(DataError, match=r"has 1,001 documents, and a log takes at most 1,000.*smaller k"):
            writer.impression(interleave([deep, deep[::-1]], k=1001, key=1))
    assert len(rows(tmp_path)[0]) == 1
