"""The Next.js example, built and started: people search, open a product in place, and return."""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyarrow.parquet as pq
import pytest

pytest.importorskip("playwright", reason="playwright drives the browser; pip install -e '.[integration]'")

from playwright.sync_api import Page

from interleaf import Client
from interleaf.server.app import create_app
from interleaf.store import open_store
from tests.support.browser import browser as browser, needs_browser, page as page
from tests.support.paths import ROOT
from tests.support.services import listening
from tests.support.stand_in import until

SHOP = ROOT / "clients" / "typescript" / "examples" / "nextjs"
NODE = shutil.which("node")
pytestmark = [
    needs_browser,
    pytest.mark.skipif(NODE is None, reason="no Node on this machine"),
    pytest.mark.skipif(not (SHOP / ".next" / "BUILD_ID").is_file(), reason="it is not built; make nextjs builds it"),
]


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[tuple[str, Client]]:
    """The service with the experiment, and a client of its owner."""
    store = open_store(tmp_path / "shop.sqlite")
    with listening(create_app(store)) as url, closing(Client(url, timeout=60)) as owner:
        owner.call("POST", "/v1/experiments", {"name": "shop", "rankers": ["production", "candidate"], "k": 5})
        owner.call("POST", "/v1/experiments/shop/start")
        yield url, owner
    store.close()


@pytest.fixture
def shop(owner: tuple[str, Client], tmp_path: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    settings = {"INTERLEAF_URL": owner[0], "INTERLEAF_SPOOL": str(tmp_path / "spool"), "INTERLEAF_TIMEOUT_MS": "60000"}
    command = [str(NODE), "node_modules/next/dist/bin/next", "start", "--port", str(port), "--hostname", "127.0.0.1"]
    environment = os.environ | settings | {"NEXT_TELEMETRY_DISABLED": "1"}
    with subprocess.Popen(command, cwd=SHOP, env=environment, stdout=subprocess.DEVNULL) as process:
        url = f"http://127.0.0.1:{port}"
        until(lambda: answers(url), 120)
        yield url
        process.send_signal(signal.SIGTERM)


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=60):
            return True
    except OSError:
        return False


def test_people_search_and_open_products_in_place(owner: tuple[str, Client], shop: str, page: Page) -> None:
    page.goto(shop)
    (cookie,) = page.context.cookies()
    assert (cookie["name"], len(str(cookie["value"]))) == ("interleaf_visitor", 32)
    page.fill("input", "rain jacket")
    page.click("button")
    page.wait_for_selector("ol li")
    page.evaluate("window.kept = true")
    first = page.locator("ol a").all_inner_texts()
    assert len(first) == 5
    page.click("text=light rain jacket")
    page.wait_for_selector("h1")
    time.sleep(0.5)
    page.go_back()
    page.wait_for_selector("ol li")
    assert page.evaluate("window.kept")  # the application never loaded another document
    assert page.locator("ol a").all_inner_texts() == first
    until(lambda: any(event["dwell"] for row in logged(owner[0]) for event in row["events"]))
    (row,) = logged(owner[0])  # going back drew no second list
    (click,) = row["events"]
    assert (click["kind"], click["rank"]) == ("click", 1 + first.index("light rain jacket"))
    assert 0.45 < click["dwell"] < 60
    assert (row["unit"], row["documents"]) == (cookie["value"], first)


def logged(url: str) -> list[dict[str, Any]]:
    """The rows of the experiment's log."""
    with urlopen(f"{url}/v1/experiments/shop/log", timeout=60) as reply:
        rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(reply.read())).to_pylist()
    return rows
