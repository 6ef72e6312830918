"""The demo's search page in a real browser: clicks and dwell of the person at the keyboard reach the experiment."""

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright drives the browser; pip install -e '.[integration]'")

from playwright.sync_api import Page

from interleaf.client import Client
from interleaf.demo.engine import Engine, LibraryEntry
from interleaf.demo.live_demo import NAME, Site, address, begin, listen, serve_app
from interleaf.server.app import create_app
from interleaf.store.sql import SqlStore, open_store
from tests.support.browser import browser as browser, needs_browser, page as page

pytestmark = needs_browser
RANKERS = ("equal", "worst")
ENTRIES = [
    LibraryEntry(f"shop.shoe{'s' * number}", "function", "shop", f"shop.shoe({'size, ' * number})", "A shoe. " * number)
    for number in range(1, 7)
]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, SqlStore]]:
    """The address of a running demo without people, and its store."""
    path = tmp_path_factory.mktemp("demo") / "demo.sqlite"
    with closing(Engine(ENTRIES)) as engine, closing(open_store(path)) as store, listen() as place:
        app, client = create_app(store), Client(address(place), timeout=120)
        app.router.routes[:0] = Site(engine, client, NAME, RANKERS).routes()
        with serve_app(app, place), client:
            begin(client, RANKERS)
            yield address(place), store


def rows(store: SqlStore) -> list[dict[str, Any]]:
    return [row for batch in store.export(NAME) for row in batch.to_pylist()]


def until(store: SqlStore, reached: Any) -> list[dict[str, Any]]:
    """The rows, once they are as they should be, or after a while as they are."""
    end = time.monotonic() + 120
    while not reached(rows(store)) and time.monotonic() < end:
        time.sleep(0.05)
    return rows(store)


def test_a_search_a_click_and_the_way_back_are_one_impression_with_one_click_and_its_dwell(
    demo: tuple[str, SqlStore], page: Page
) -> None:
    url, store = demo
    page.goto(f"{url}/search")
    box = page.locator("input[name='q']")
    box.fill("shoe")
    box.press("Enter")
    second = page.locator("[data-interleaf-rank='2']")
    title = second.inner_text()
    second.click()
    page.wait_for_selector("article")
    assert page.locator("h1").inner_text() == title
    (row,) = until(store, lambda found: found and found[0]["events"])
    assert row["query"] == "shoe"
    assert [(event["kind"], event["rank"]) for event in row["events"]] == [("click", 2)]
    assert next(one for one in ENTRIES if one.id == row["documents"][1]).title == title
    time.sleep(0.3)
    page.go_back(wait_until="commit")  # a page that was kept loads no second time
    page.wait_for_selector(".results")
    (row,) = until(store, lambda found: found[0]["events"][0]["dwell"] is not None)
    assert row["events"][0]["dwell"] >= 0.3
    assert len(row["events"]) == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_phone_and_show_text_that_can_be_read(demo: tuple[str, SqlStore], page: Page, scheme: str) -> None:
    url, _ = demo
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": 360, "height": 740})
    for path in ("/search", "/search?q=shoe", "/library/shop.shoes", "/library/shop.shoessssss"):
        page.goto(url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.evaluate(CONTRAST) >= 4.5


CONTRAST = """() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/\\d+/g).slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const found = getComputedStyle(node).backgroundColor;
      if (found !== "rgba(0, 0, 0, 0)") return found;
    }
    return "rgb(255, 255, 255)";
  };
  const texts = [...document.querySelectorAll("main *, header *")].filter((node) => node.textContent.trim());
  return Math.min(...texts.map((node) => {
    const [a, b] = [light(getComputedStyle(node).color), light(ground(node))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  }));
}"""
