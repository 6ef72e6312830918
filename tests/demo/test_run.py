"""The demo as a whole: service, people over HTTP, a running line, a verdict that is right, and a clean end."""

import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest

import interleaf
from interleaf.cli import VERBS, main
from interleaf.client import Client
from interleaf.demo.live_demo import Demo, RunningLine, address, begin, line_of, listen, read_report, run, serve_app
from interleaf.demo.searchers import Crowd, searches
from interleaf.errors import InterleafError
from interleaf.report.model import Verdict
from interleaf.report.report import Report
from interleaf.server.app import create_app
from interleaf.server.reports import Reports
from interleaf.store.sql import open_store
from tests.support.demo_library import entries, library

CONTROL, CANDIDATE = Demo().rankers
# Where the tests run in the background, Ctrl-C may be ignored, and so in their children.
INTERRUPTED = """import signal, sys
from interleaf.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main(["demo", "--people", "20"]))"""
# Once decided, these people leave it so: a run that goes on from a kept store begins there.
QUICK = Demo(people=300, seed=7, until_decided=True, searches_per_second=150)


@pytest.fixture(scope="module", autouse=True)
def read_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("interleaf.demo.live_demo.read_entries", entries)
        yield


@pytest.fixture(scope="module")
def decided(read_once: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, Path]:
    """The example of `interleaf demo --help`, with fewer and faster people: its status, its output, and its store."""
    path, out = tmp_path_factory.mktemp("demo") / "demo.sqlite", io.StringIO()
    (example,) = (verb.example for verb in VERBS if verb.name == "demo")
    words = [*example.split()[1:], "--people", str(QUICK.people), "--seed", str(QUICK.seed), "--store", str(path)]
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setattr("interleaf.demo.live_demo.Demo", partial(Demo, searches_per_second=QUICK.searches_per_second))
        status = main(words)
    signal.signal(signal.SIGTERM, handler)
    return status, out.getvalue(), path


def test_it_ends_with_the_right_verdict_and_the_report(decided: tuple[int, str, Path]) -> None:
    status, said, _ = decided
    assert status == 0
    lines = said.splitlines()
    opened_at = r"Open (http://127\.0\.0\.1:\d+)/experiments/demo to watch, \1/search to search and click .*"
    assert re.fullmatch(opened_at, lines[0])
    assert f"People prefer {CANDIDATE}: {CANDIDATE} over {CONTROL} +" in said
    assert f"People prefer {CANDIDATE} to {CONTROL}: of " in said
    assert "checks are fine" in said
    assert f"{CANDIDATE} is really the best" in lines[-1]
    assert "By device" in said


def test_its_log_gives_the_numbers_of_the_service_and_has_captions(decided: tuple[int, str, Path]) -> None:
    with closing(open_store(decided[2])) as store:
        rows = [row for batch in store.export("demo") for row in batch.to_pylist()]
        report = interleaf.analyze(list(store.export("demo")), control=CONTROL, planned_units=300, holdout=0.05)
        (live,) = Reports(store).get_blocking("demo", store.experiment("demo").version).reports.values()
    assert report.comparisons == live.comparisons  # searches after the verdict may make the interval wider again
    assert {row["arm"] for row in rows} == {"interleaved", "holdout"}
    for row in rows:
        assert len(row["captions"]) == len(row["documents"])
        assert all(
            caption["url"] == f"library/{one}" for caption, one in zip(row["captions"], row["documents"], strict=True)
        )
        assert all(event["dwell"] > 0 for event in row["events"])


def test_a_kept_store_goes_on_and_counts_nothing_twice(decided: tuple[int, str, Path]) -> None:
    with closing(open_store(decided[2])) as store:
        names = {row["impression"] for batch in store.export("demo") for row in batch.to_pylist()}
        assert len(names) == sum(batch.num_rows for batch in store.export("demo"))
    assert names <= {one.key for one in searches(library().entries, QUICK.people, QUICK.seed)}
    out = io.StringIO()
    assert run(replace(QUICK, store=str(decided[2])), out) == 0  # decided at the first look
    with closing(open_store(decided[2])) as store:
        again = [row["impression"] for batch in store.export("demo") for row in batch.to_pylist()]
    assert len(again) == len(set(again))
    with pytest.raises(InterleafError, match="another experiment 'demo'"):
        run(replace(QUICK, store=str(decided[2]), rankers=("equal", "worst")), out)


def test_people_who_do_not_decide_are_a_status_of_one() -> None:
    out = io.StringIO()
    assert run(Demo(people=3, until_decided=True, rankers=("equal", "title")), out) == 1
    assert "goals are known" in out.getvalue().splitlines()[-1]
    assert "All 3 people have searched; nothing is decided." in out.getvalue()


def test_a_store_with_keys_is_not_the_demo_s(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    with closing(open_store(path)) as store:
        store.add_key("admin", "mine", 0)
    with pytest.raises(InterleafError, match="the store has keys, and the demo has none; give another --store"):
        run(Demo(people=3, store=str(path)), io.StringIO())


def test_nobody_cannot_decide() -> None:
    with pytest.raises(InterleafError, match="--until-decided needs people, and --people is 0"):
        Demo(people=0, until_decided=True)


def test_people_are_served_over_http_and_an_experiment_that_is_stopped_breaks_no_search(tmp_path: Path) -> None:
    with (
        closing(open_store(tmp_path / "demo.sqlite")) as store,
        listen() as place,
        serve_app(create_app(store), place),
        Client(address(place), timeout=60) as client,
    ):
        engine = library()
        coming = searches(engine.entries, 6)
        begin(client, ("equal", "exact"))
        assert read_report(client) is None
        crowd = Crowd(engine, client, "demo", ("equal", "exact"), coming, per_second=1000)
        crowd.start()
        while not crowd.has_gone:
            time.sleep(0.01)
        assert crowd.problem is None
        assert sum(batch.num_rows for batch in store.export("demo")) == len(coming)
        store.stop("demo", time.time_ns() // 1000, "test")
        time.sleep(1.1)  # the service believes for a second that it runs
        after = Crowd(engine, client, "demo", ("equal", "exact"), searches(engine.entries, 6, seed=2), per_second=1000)
        after.start()
        after.stop()
        assert after.problem is None
        assert sum(batch.num_rows for batch in store.export("demo")) == len(coming)
        with pytest.raises(InterleafError, match="stopped"):
            begin(client, ("equal", "exact"))


def test_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        try:
            assert process.stdout is not None
            dashboard, search = re.findall(r"http://\S+", process.stdout.readline())
            with urlopen(dashboard, timeout=120) as page:
                assert "demo" in page.read().decode()
            with urlopen(f"{search}?q=json.dumps", timeout=120) as page:
                assert "data-impression=" in page.read().decode()
            process.send_signal(signal.SIGINT)
            said, wrong = process.communicate(timeout=120)
        finally:
            process.kill()
    assert (process.returncode, wrong) == (0, "")
    assert "demo, version 1" in said
    assert not list(tmp_path.glob("interleaf-demo-*"))


def test_wrong_use_is_said_in_a_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, words in (
        (["--people", "-1"], "--people 0 or more"),
        (["--rankers", "equal", "best"], "there is no ranker 'best'"),
        (["--port", "70000"], "port 70000 cannot be used"),
        (["--store", "nowhere/demo.sqlite"], "no folder nowhere"),
    ):
        assert main(["demo", *arguments]) == 2
        said = capsys.readouterr()
        assert words in said.err
        assert said.err.count("\n") == 1
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert main(["demo", "--port", "70000"]) == 2
    assert signal.signal(signal.SIGTERM, before) is signal.default_int_handler  # ends as Ctrl-C does
    capsys.readouterr()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_one_line_and_a_pipe_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    monkeypatch.setattr("interleaf.demo.live_demo.PIPED", 3600.0)
    terminal, pipe = Terminal(), io.StringIO()
    for out in (terminal, pipe):
        line = RunningLine(out)
        line.hint("wait")
        for text in ("one", "two", "a line that is too long"):
            line.show(text)
        line.end("the end")
    assert terminal.getvalue() == "\r\x1b[Kwait\r\x1b[Kone\r\x1b[Ktwo\r\x1b[Ka line th\r\x1b[Kthe end\n"
    assert pipe.getvalue() == "one\nthe end\n"


def test_the_line_says_whom_people_prefer_and_whether_to_trust_it(decided: tuple[int, str, Path]) -> None:
    with closing(open_store(decided[2])) as store:
        report = interleaf.analyze(list(store.export("demo")), control=CONTROL, planned_units=300)
    assert line_of(None) == "Nobody has searched yet."
    assert line_of(report).startswith(f"People prefer {CANDIDATE}: {CANDIDATE} over {CONTROL} +0.")
    doubted = Verdict("...", CANDIDATE, False, ("slots: uneven",))
    assert line_of(_with(report, doubted)).startswith("Do not trust this: slots: uneven; ")
    assert line_of(_with(report, Verdict("...", None, True))).startswith("No difference shown yet: ")


def _with(report: Report, verdict: Verdict) -> Report:
    return replace(report, verdict=verdict)
