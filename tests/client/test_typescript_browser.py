"""The TypeScript client in a real browser: what it spools, the next page delivers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright drives the browser; pip install -e '.[integration]'")

from playwright.sync_api import Page, Route

from tests.support.browser import browser as browser, needs_browser, page as page
from tests.support.paths import ROOT
from tests.support.result_pages import Site, site as site

CLIENT = ROOT / "clients" / "typescript"
ESBUILD = CLIENT / "node_modules" / ".bin" / "esbuild"
pytestmark = [
    needs_browser,
    pytest.mark.skipif(not ESBUILD.exists(), reason="no node_modules; make typescript installs them"),
]
PROGRAM = """
import { Client, LocalStorageSpool } from "/client.js";
window.client = new Client("/search-api", { spool: new LocalStorageSpool(), log: () => {} });
window.search = () => client.interleave("shoes", { production: ["a", "b"], candidate: ["b", "a"] }, { unit: "u" });
"""
HEAD = "<!doctype html><link rel=icon href=data:,>"
SHOES = {"name": "shoes", "rankers": ["production", "candidate"], "control": "production", "k": 10, "share": 1}
SETTINGS = SHOES | {"method": "competitive_pairs", "lane": None, "offset": None, "holdout": 0, "mode": "compare"}


class SearchApi:
    """The site's own server in front of the service; it is away at first."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, Any]] = []
        self.is_away = False

    def answer(self, route: Route) -> None:
        path = route.request.url.partition("/search-api")[2]
        if self.is_away:
            route.fulfill(status=200, body="<html>away</html>")
        elif route.request.method == "GET":
            route.fulfill(json={"settings": SETTINGS, "version": 1, "state": "running"})
        else:
            body = json.loads(route.request.post_data or "")
            self.taken.append((path, body))
            answer = {"accepted": 1, "repeated": 0, "unmatched": 0, "impression": body.get("impression")}
            route.fulfill(
                status=201, json=answer | {"documents": ["x"], "arm": "interleaved", "token": "t", "version": 1}
            )


def test_records_of_a_page_are_delivered_by_the_next(site: Site, page: Page, tmp_path: Path) -> None:
    bundle = tmp_path / "client.js"
    command = [str(ESBUILD), "src/index.ts", "--bundle", "--format=esm", f"--outfile={bundle}", "--log-level=warning"]
    subprocess.run(command, cwd=CLIENT, check=True)
    program = HEAD + '<script type="module" src="/program.js"></script>'
    site.pages = {"/client.js": bundle.read_text("utf-8"), "/program.js": PROGRAM, "/shop": program}
    api = SearchApi()
    page.route("**/search-api/**", api.answer)
    page.goto(f"{site.url}/shop")
    assert page.evaluate("search()")["documents"] == ["x"]
    page.wait_for_function("localStorage.getItem('interleaf/settings/shoes') !== null")
    api.is_away, before = True, len(api.taken)
    answer = page.evaluate("search()")
    assert (sorted(answer["documents"]), answer["stored"]) == (["a", "b"], False)
    assert page.evaluate(f"client.click({json.dumps(answer['impression'])}, 1)")["spooled"] == 1
    assert page.evaluate("client.status()")["waiting"] == 2
    page.goto(f"{site.url}/elsewhere")
    api.is_away = False
    page.goto(f"{site.url}/shop")
    page.wait_for_function("window.client?.status().then((status) => status.waiting === 0 && !status.away)")
    (listed, row), (told, events) = api.taken[before:]
    assert (listed, told) == ("/v1/experiments/shoes/interleave", "/v1/events")
    assert (row["impression"], row["version"]) == (answer["impression"], 1)
    assert events["events"][0]["impression"] == answer["impression"]
    page.evaluate("localStorage.setItem('interleaf/spool/0', 'not JSON')")
    page.reload()
    page.wait_for_function("window.client?.status().then((status) => status.quarantined === 1)")
