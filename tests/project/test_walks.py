"""The walks on the page about the architecture name files in the order in which a call enters them."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from interleaf import cli, credit, interleave
from interleaf.server.app import create_app
from interleaf.simulate import World, synthetic
from interleaf.store import open_store
from tests.support.dashboards import traffic
from tests.support.paths import ROOT
from tests.support.services import MINUTE, START, live

SOURCE = ROOT / "src" / "interleaf"


@contextmanager
def traced() -> Iterator[dict[str, None]]:
    """The files of the package whose functions run, in order, also in threads that start meanwhile."""
    files: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(str(SOURCE)):
            files.setdefault(Path(code.co_filename).relative_to(SOURCE).as_posix())

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def one_list(folder: Path) -> list[str]:
    rankings = {"A": ["a", "b", "c"], "B": ["b", "c", "a"]}
    credit(interleave(rankings, k=3, key="warm"), [1])
    with traced() as files:
        credit(interleave(rankings, k=3, key="user-7"), [1])
    return list(files)


def analyze(folder: Path) -> list[str]:
    log = folder / "log.parquet"
    World(synthetic(), [1, 5], seed=1).write(log, 200)
    assert cli.main(["analyze", str(log), "--threads", "1"]) == 0  # imports and compiles
    with traced() as files:
        cli.main(["analyze", str(log), "--threads", "1"])
    return list(files)


def dashboard(folder: Path) -> list[str]:
    with live(folder) as service:
        service.make()
        traffic(service, 20)
        assert service.client.get("/experiments/shoes").status_code == 200
    store = open_store(folder / "store.sqlite")
    app = create_app(store, lambda: START + 5 * MINUTE)
    statuses = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        statuses.append(message.get("status"))

    async def ask() -> dict[str, None]:
        path = "/experiments/shoes"
        scope = {
            **{"type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "root_path": ""},
            **{"path": path, "raw_path": path.encode(), "query_string": b"", "headers": [(b"host", b"127.0.0.1")]},
            **{"client": ("127.0.0.1", 5), "server": ("127.0.0.1", 80)},
        }
        with traced() as files:  # without the background tasks, which enter files at other times
            await app(scope, receive, send)  # type: ignore[arg-type]
        await app.state.service.stop()
        return files

    files = asyncio.run(ask())
    store.close()
    assert statuses[0] == 200
    return list(files)


@pytest.mark.parametrize(
    ("title", "call", "most"),
    [
        ("One `interleave` and one `credit`, file by file", one_list, 10),
        ("`interleaf analyze LOG`, file by file", analyze, 35),
        ("A page of the dashboard, file by file", dashboard, 45),
    ],
)
def test_a_walk_names_files_in_the_order_in_which_they_are_entered(
    title: str, call: Callable[[Path], list[str]], most: int, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.split(f"## {title}\n")[1].split("\n## ")[0]
    named = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert 0 < len(named) <= most
    entered = call(tmp_path)
    assert [file for file in named if file not in entered] == []
    assert named == sorted(named, key=entered.index)
    (stated,) = re.findall(r"\benter(?:s)? (\d+) files", section)
    assert len(entered) <= int(stated)
