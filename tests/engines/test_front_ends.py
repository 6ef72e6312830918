"""Front ends of the browser, unchanged, through the proxy to a real engine: Elastic's Search UI and Searchkit."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("playwright", reason="playwright drives the browser; pip install -e '.[integration]'")

from playwright.sync_api import Page, expect

from interleaf import log
from tests.engines.test_opensearch import QUERY, direct
from tests.support.browser import browser as browser, needs_browser, page as page
from tests.support.engines import INDEX, PROGRAMS, RunningEngine, proxy_of
from tests.support.stand_in import answering

CLIENTS = PROGRAMS / "clients"
USER, TOTAL = "user-7", 175
# Matches are ordered again: those that cost more come first.
DEAR_FIRST = '''patch = """{"rescore": {"window_size": 200, "query": {
    "query_weight": 0.01, "rescore_query": {"range": {"price": {"gte": 120}}}
}}}"""'''
pytestmark = [
    needs_browser,
    pytest.mark.skipif(
        not (CLIENTS / "target" / "search_ui.js").exists(), reason="front ends are not built; make engines builds them"
    ),
]


class Pages(BaseHTTPRequestHandler):
    """Serves /search_ui and /searchkit: the page with the bundle of that name."""

    def do_GET(self) -> None:
        name = urlsplit(self.path).path.strip("/")
        script = (CLIENTS / "target" / f"{name}.js").read_text(encoding="utf-8")
        text = (CLIENTS / "page.html").read_text(encoding="utf-8")
        text = text.replace("<!-- script -->", f"<script>{script}</script>")
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def pages() -> Iterator[str]:
    with answering(Pages) as url:
        yield url


def search(page: Page, address: str, proxy: str, size: int) -> list[list[str]]:
    """The ids on the first two pages of results for the query."""
    page.goto(f"{address}?engine={proxy}&user={USER}")
    page.locator("input").fill(QUERY)
    page.locator("input").dispatch_event("change")
    shown = []
    for number in (1, 2):
        expect(page.locator("#total")).to_have_text(f"{TOTAL} results")
        hits = page.locator(f"ol[data-page='{number}'] li")
        expect(hits).to_have_count(size)
        shown.append([str(hit.get_attribute("data-id")) for hit in hits.all()])
        if number == 1:
            page.locator("#next").click()
    return shown


def brands_on(page: Page) -> dict[str, int]:
    lines = [line.split() for line in page.locator("#brands li").all_inner_texts()]
    return {name: int(count) for name, count in lines}


def brands_of(engine: RunningEngine) -> dict[str, int]:
    """Counts by brand of what both front ends ask for: any word in any field."""
    match = {"multi_match": {"query": QUERY, "fields": ["title", "text"]}}
    body = {"size": 0, "query": match, "aggs": {"brand": {"terms": {"field": "brand"}}}}
    found = direct(engine, "POST", f"/{INDEX}/_search", body).json
    assert found["hits"]["total"]["value"] == TOTAL
    return {one["key"]: one["doc_count"] for one in found["aggregations"]["brand"]["buckets"]}


def check_log(folder: Path, first: list[str], second: list[str]) -> None:
    """The log has both pages as one impression, with documents that only one ranker has at its top."""
    rows = [row for batch in log.read(folder / "log") for row in batch.to_pylist()]
    (row,) = [row for row in rows if row["unit"] == USER and row["page"] == 2]
    assert row["documents"] == first + second
    shown = {*first, *second}
    assert len(shown) == len(first) + len(second)
    rankings = [set(ranking[: len(first)]) for ranking in row["rankings"]]
    assert shown & rankings[0] - rankings[1]
    assert shown & rankings[1] - rankings[0]


def test_search_ui_shows_interleaved_pages_with_the_facets_of_the_control(
    elasticsearch: RunningEngine, pages: str, page: Page, tmp_path: Path
) -> None:
    with proxy_of(elasticsearch, tmp_path, candidate=DEAR_FIRST) as proxy:
        first, second = search(page, f"{pages}/search_ui", f"http://127.0.0.1:{proxy.port}", 10)
        assert proxy.failures == {}
        assert brands_on(page) == brands_of(elasticsearch)
    check_log(tmp_path, first, second)


def test_searchkit_shows_interleaved_pages_with_the_facets_of_the_control(
    opensearch: RunningEngine, pages: str, page: Page, tmp_path: Path
) -> None:
    with proxy_of(opensearch, tmp_path, candidate=DEAR_FIRST) as proxy:
        first, second = search(page, f"{pages}/searchkit", f"http://127.0.0.1:{proxy.port}", 20)
        assert proxy.failures == {}
        assert brands_on(page) == brands_of(opensearch)
    check_log(tmp_path, first, second)
