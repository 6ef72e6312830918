"""The dashboard in a real browser: an experiment made by its form, watched live, stopped, decided, exported."""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

import interleaf
from interleaf.cli import main
from interleaf.report.report import Report
from interleaf.server.app import create_app
from interleaf.server.dashboard import static_files
from interleaf.store import open_store
from tests.support.browser import PATIENCE, browser as browser, needs_browser, page as page
from tests.support.services import listening

pytestmark = needs_browser
VIOLATIONS = "window.violations = []; addEventListener('securitypolicyviolation', e => violations.push(e.blockedURI))"
SOON = PATIENCE


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A service on a free port, with its own clock."""
    static_files.vega()  # made beforehand: it takes seconds
    store = open_store(tmp_path / "store.sqlite")
    with listening(create_app(store)) as url:
        yield url
    store.close()


def send_traffic(address: str, units: range) -> None:
    """People who click on what the candidate ranks at the top."""
    chance, documents = random.Random(7), list("abcdefgh")
    with httpx2.Client(base_url=address, timeout=120) as client:
        for unit in units:
            wanted = chance.sample(documents, 3)
            rest = chance.sample([document for document in documents if document not in wanted], 5)
            body = {
                "unit": f"user-{unit}",
                "query": f"<b>query</b> {unit % 5}",
                "rankings": {"production": [*rest, *wanted], "candidate": [*wanted, *rest]},
            }
            shown = client.post("/v1/experiments/shoes/interleave", json=body).raise_for_status().json()
            tempting = [0.6 if document in wanted else 0.1 for document in shown["documents"]]
            clicked = [rank for rank, appeal in enumerate(tempting, 1) if chance.random() < appeal]
            events = [{"impression": shown["impression"], "rank": rank} for rank in clicked]
            if events:
                client.post("/v1/events", json={"events": events}).raise_for_status()


def test_an_experiment_is_made_watched_stopped_decided_and_exported(address: str, page: Page, tmp_path: Path) -> None:
    page.add_init_script(VIOLATIONS)
    page.goto(address)
    page.get_by_role("link", name="New experiment").click()
    page.get_by_label("name", exact=False).first.fill("shoes")
    page.get_by_label("rankers").first.fill("production\ncandidate")
    page.get_by_text("Analysis settings").click()
    page.get_by_label("planned units").fill("200")
    page.get_by_role("button", name="Create it").click()
    expect(page.locator("#verdict")).to_contain_text("This is a draft")
    page.get_by_role("button", name="Start it").click()
    expect(page.locator("#verdict")).to_contain_text("No impressions yet")

    page.evaluate("window.stays = true")  # gone, if the page is loaded again
    send_traffic(address, range(10))
    expect(page.locator("#left-out")).to_contain_text("10 impressions are stored", timeout=SOON)
    page.locator("#checks summary").click()
    page.locator("#checks .box").focus()
    page.evaluate("scrollTo(0, 300)")
    listing = page.context.new_page()
    listing.goto(address)
    listing.locator("#experiment-shoes a").focus()
    listing.evaluate("window.stays = true")
    send_traffic(address, range(10, 110))
    expect(page.locator("#verdict")).to_contain_text("People prefer candidate to production", timeout=SOON)
    expect(page.locator("#aloud")).to_have_text("✓ candidate is preferred")
    expect(page.locator("#chart-over_time-1 svg")).to_be_visible(timeout=SOON)
    assert page.evaluate("[window.stays, scrollY > 200, document.querySelector('#checks').open]") == [True, True, True]
    assert page.evaluate("document.activeElement === document.querySelector('#checks .box')")
    words = "✓ candidate is preferred ! less than a day of traffic"
    expect(listing.locator("#experiment-shoes .word")).to_have_text(words, timeout=SOON)
    expect(listing.locator("#experiment-shoes .about")).to_contain_text("110 of 200 units", timeout=SOON)
    assert listing.evaluate("[window.stays, document.activeElement.className]") == [True, "title"]
    listing.close()
    assert page.locator("#examples article").count() == 8
    assert page.locator("#examples b").count() == 0  # what people asked is text
    assert page.evaluate("violations") == []

    page.locator("#stopping summary").click()
    page.get_by_role("button", name="Stop it permanently").click()
    page.get_by_label("What was decided").fill("ship <i>it</i>")
    page.get_by_role("button", name="Write it down").click()
    expect(page.locator("#verdict")).to_contain_text("ship <i>it</i>")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the log").click()
    log = tmp_path / download.value.suggested_filename
    download.value.save_as(log)
    assert page.evaluate("violations") == []

    command = shlex.split(page.locator("#export code").first.inner_text())
    assert command[:3] == ["interleaf", "analyze", "shoes-1.parquet"]
    assert main([command[1], str(log), *command[3:], "--strict"]) == 0
    found = httpx2.get(f"{address}/v1/experiments/shoes/report", timeout=120).json()["reports"]["click"]
    assert Report.from_dict(found) == interleaf.analyze(log, control="production", planned_units=200)
    sentence = page.locator("#verdict .sentence").inner_text().replace("\u00a0", " ")
    assert sentence == Report.from_dict(found).verdict.sentence


def test_it_is_usable_on_a_phone_in_the_dark_and_without_script_or_mouse(browser: Browser, address: str) -> None:
    settings = {"name": "shoes", "rankers": ["production", "candidate", "third-ranker-with-a-long-name"]}
    httpx2.post(f"{address}/v1/experiments", json=settings, timeout=120).raise_for_status()
    httpx2.post(f"{address}/v1/experiments/shoes/start", timeout=120).raise_for_status()
    with httpx2.Client(base_url=address, timeout=120) as client:
        rankings = dict(zip(settings["rankers"], (list("abcdef"), list("cdefab"), list("fedcba")), strict=True))
        for unit in range(40):
            body = {"unit": str(unit), "query": "x" * 300, "rankings": rankings, "attributes": {"device": "y" * 200}}
            shown = client.post("/v1/experiments/shoes/interleave", json=body).raise_for_status().json()
            event = {"impression": shown["impression"], "rank": 1 + unit % 3}
            client.post("/v1/events", json={"events": [event]}).raise_for_status()
    for script in (True, False):
        context = browser.new_context(
            viewport={"width": 360, "height": 740}, color_scheme="dark", java_script_enabled=script
        )
        page = context.new_page()
        for path in ("/", "/experiments/new", "/keys", "/login", "/nowhere", "/experiments/shoes"):
            page.goto(address + path)
            if script:
                assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        expect(page.locator("#scorecard")).to_contain_text("candidate over production")
        if script:
            expect(page.locator("#standing svg").first).to_be_visible(timeout=SOON)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert max(map(int, ground[4:-1].split(","))) < 40
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.className") == "skip"
        else:
            expect(page.locator("noscript p, .missing").first).to_be_visible()
        context.close()
