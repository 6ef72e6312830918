"""Kernels are compiled in other processes than the service's, which waits for them and compiles none itself."""

import asyncio
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interleaf.experiment import Experiment
from interleaf.methods.registry import DEFAULT, METHODS
from interleaf.server import warming
from interleaf.store import open_store
from tests.server.test_serve import answers, ask
from tests.support.services import MINUTE, click as clicked, live
from tests.support.stand_in import reserved, until
from tests.support.stores import HOUR, START, click, impression, running

_REPORT = """
import sys
from interleaf.server.reports import Reports
from interleaf.store import open_store
assert Reports(open_store(sys.argv[1])).get_blocking("shop", 1).reports
"""

# `interleaf serve` that writes down the module of each kernel that its process compiles.
_SERVE = """
import sys
from numba.core import event
from interleaf.server.launch import Place, serve
from interleaf.server.service import ServiceSettings

class Compiled(event.Listener):
    def on_start(self, event):
        with open(sys.argv[3], "a") as log:
            print(event.data["dispatcher"].py_func.__module__, file=log)

    def on_end(self, event):
        pass

event.register("numba:compile", Compiled())
serve(Place(sys.argv[1], port=int(sys.argv[2])), ServiceSettings())
"""
# Compile what composes lists, load it, and print the functions that this process compiled.
_LISTS = """
from numba.core import event
from interleaf.experiment import Experiment
from interleaf.interleaving.api import warm_composing
from interleaf.server import warming

recorder = event.RecordingListener()
event.register("numba:compile", recorder)
settings = Experiment.of({"name": "shop", "rankers": ["one", "other"], "method": "balanced"})
assert warming.needs_compiling(settings)
warming.compile_lists(settings)
assert not warming.needs_compiling(settings)
warm_composing(settings.method, len(settings.rankers))
print([event.data["dispatcher"].py_func.__name__ for _, event in recorder.buffer])
"""
# As if all were compiled.
_DONE = """
from interleaf.server import warming
print(warming.is_done())
warming.compile_reports = lambda mark_ready: None
warming.compile_all()
print(warming.is_done())
"""
YEAR = 365 * 24 * HOUR


def test_it_ends_with_its_service_and_removes_its_folder() -> None:
    process, folder = warming.begin()
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(120) == warming.UNFINISHED
    until(lambda: not folder.exists())


def test_it_ends_at_once_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    process, folder = warming.begin()
    assert process.wait(120) == 0
    until(lambda: not folder.exists())


def test_it_is_done_once_for_a_folder_of_kernels(tmp_path: Path) -> None:
    def run(**more: str) -> str:
        cold = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)} | more
        return subprocess.run(
            [sys.executable, "-c", _DONE], env=cold, check=True, capture_output=True, text=True
        ).stdout

    assert [run(), run()] == ["False\nTrue\n", "True\nTrue\n"]
    assert run(NUMBA_DISABLE_JIT="1") == "False\nFalse\n"


def test_each_method_is_marked_as_ready_the_default_one_first() -> None:
    marked = list[str]()
    warming.compile_all(marked.append)
    assert warming.is_done()
    assert marked[0] == DEFAULT
    assert sorted(marked) == sorted(METHODS)


def test_reports_and_folding_wait_for_it_and_lists_and_events_do_not(tmp_path: Path) -> None:
    folder = tmp_path / "warming"
    folder.mkdir()
    with live(tmp_path, warming=str(folder), fold_seconds=0.01) as service, ThreadPoolExecutor(2) as viewers:
        service.make(window_minutes=1)
        service.make(name="boots", method="balanced")
        report, page = viewers.submit(service.report), viewers.submit(service.ask, "GET", "/")
        shown = service.show().json()
        assert service.tell(clicked(shown)).json()["accepted"] == 1
        service.clock.now += 10 * MINUTE
        assert service.show().status_code == 201
        assert not report.done()
        (folder / DEFAULT).touch()
        assert report.result(120).json()["open"] == 2  # what came while it waited; nothing is folded
        assert not page.done()  # it has a report of the other method
        folder.joinpath(DEFAULT).unlink()
        folder.rmdir()
        assert page.result(120).status_code == 200
        until(lambda: service.store.counts("shoes", 1).folded == 1)


def test_nobody_waits_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "MAX_WAIT", 0.0)
    progress = warming.Progress(tmp_path)
    asyncio.run(progress.wait())
    assert progress.is_ready(DEFAULT)


def test_what_composes_lists_is_compiled_by_another_process(tmp_path: Path) -> None:
    cold = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", _LISTS], env=cold, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_the_service_compiles_no_kernel(tmp_path: Path) -> None:
    store, compiled = open_store(tmp_path / "store.sqlite"), tmp_path / "compiled.log"
    settings = running(store, holdout=0.3, by=["device"])
    closed = [impression(settings, number, number - YEAR) for number in range(100)]
    store.write(closed, [click(one) for one in closed])
    draft = {"name": "boots", "rankers": ["one", "other", "third"], "method": "probabilistic"}
    store.create(Experiment.of(draft), 0, "test")
    store.trust_clock(time.time_ns() // 1000)  # its rows are older than the clock of this machine
    store.close()
    compiled.touch()
    place = reserved()
    address = f"http://127.0.0.1:{place.getsockname()[1]}"
    arguments = [str(tmp_path / "store.sqlite"), str(place.getsockname()[1]), str(compiled)]
    cold = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    server = subprocess.Popen([sys.executable, "-c", _SERVE, *arguments], env=cold)
    try:
        until(lambda: answers(address), 300)
        assert ask(address, "POST", "/v1/experiments/boots/start")[0] == 200
        assert ask(address, "GET", "/v1/experiments/shop/report")[1]["reports"]
        until(lambda: ask(address, "GET", "/v1/experiments/shop/report")[1]["folded"] == 100, 600)
    finally:
        server.terminate()
        server.wait(60)
        place.close()
    assert compiled.read_text() == ""


@pytest.mark.slow
def test_after_it_the_first_report_of_a_store_compiles_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store.sqlite")
    settings = running(store, holdout=0.3, by=["device"])
    made = [impression(settings, number, number) for number in range(100)]
    store.write(made, [click(one) for one in made])
    store.fold(START + HOUR + 50)
    store.close()
    cold = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    kept = []
    for words in (["-m", warming.__name__], ["-c", _REPORT, str(tmp_path / "store.sqlite")]):
        subprocess.run([sys.executable, *words], env=cold, check=True)
        kept.append(sorted(path.name for path in (tmp_path / "compiled").rglob("*.nbc")))
    assert kept[0]
    assert kept[0] == kept[1]
