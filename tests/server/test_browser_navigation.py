"""The script of result pages in applications that show results in place, and on pages of results: visible time."""

from __future__ import annotations

import subprocess
import time

import pytest

pytest.importorskip("playwright", reason="playwright drives the browser; pip install -e '.[integration]'")

from playwright.sync_api import Page

from tests.support.browser import browser as browser, needs_browser, page as page
from tests.support.result_pages import CLIENT, Site, needs_node_modules, site as site

pytestmark = needs_browser
SHELL = """<!doctype html><title>shop</title><link rel="icon" href="data:,">
<script src="SITE/static/interleaf.js" defer></script><script src="/app.js" defer></script><main></main>"""
# A small application: /app/list shows a list, /app/result/1 a result; /app/search/b another list.
APP = """
const main = document.querySelector("main");
const item = (rank) => `<li data-interleaf-rank="${rank}"><a id="r${rank}" href="/app/result/${rank}">${rank}</a></li>`;
const list = (name) => `<ol data-interleaf-impression="i-${name}" data-interleaf-token="t-${name}">
  ${item(1)}${item(2)}<li data-interleaf-rank="3"><a id="quick" href="#">quick view</a></li>
  <li data-interleaf-rank="4"><span id="card" role="link" tabindex="0">card</span></li></ol>
  <a id="again" href="/app/search/b">again</a>`;
function render() {
  const [, , kind, name] = location.pathname.split("/");
  main.innerHTML = kind === "result" ? `<p id="result">${name}</p><a id="other" href="/app/search/b">other</a>`
    : list(kind === "search" ? name : "a");
}
window.go = (href, method = "pushState") => { history[method]({}, "", href); render(); };
document.addEventListener("click", (click) => {
  if (click.button || click.ctrlKey) return;
  const link = click.target.closest("a");
  if (click.target.id === "card" || link?.id === "quick") {
    click.preventDefault();
    main.innerHTML = "<p id='view'>view</p>";
  } else if (link) {
    click.preventDefault();
    go(link.href);
  }
});
addEventListener("popstate", render);
window.render = render;
render();
"""
# Headless pages are never hidden by others, so the page is told that it is.
BECOME = """state => {
    Object.defineProperty(document, "hidden", {value: state, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture
def app(site: Site, page: Page) -> Page:
    site.pages = {"/app/": SHELL, "/app.js": APP}
    page.goto(f"{site.url}/app/list")
    return page


def test_a_result_in_place_dwells_for_as_long_as_it_is_visible(site: Site, app: Page) -> None:
    began = time.monotonic()
    app.click("#r1")
    (click,) = site.wait(1)
    assert click == click | {"impression": "i-a", "rank": 1, "kind": "click"}
    assert site.reported[0][2]["token"] == "t-a"
    time.sleep(0.3)
    app.evaluate(BECOME, True)
    so_far = site.wait(2)[1]  # nothing may follow, should the page be closed
    assert so_far == click | {"dwell": so_far["dwell"]}
    assert so_far["dwell"] > 0.25
    hidden = time.monotonic()
    time.sleep(0.5)
    hidden = time.monotonic() - hidden
    app.evaluate(BECOME, False)
    time.sleep(0.2)
    app.go_back()
    app.wait_for_selector("#r1")
    back = site.wait(3)[2]
    whole = time.monotonic() - began
    assert back == click | {"dwell": back["dwell"]}
    assert so_far["dwell"] + 0.15 < back["dwell"] < whole - hidden + 0.1
    app.evaluate(BECOME, True)
    app.evaluate(BECOME, False)
    site.wait(3)  # the click is complete


def test_a_page_that_is_left_from_a_result_in_place_sends_the_dwell(site: Site, app: Page) -> None:
    app.click("#r2")
    site.wait(1)
    time.sleep(0.2)
    app.goto(f"{site.url}/elsewhere")
    click, left = site.wait(2)
    assert left == click | {"dwell": left["dwell"]}
    assert left["dwell"] > 0.15
    app.go_back(wait_until="commit")
    app.wait_for_selector("#result")
    site.wait(2)


def test_another_search_from_a_result_ends_its_dwell_and_has_its_own_clicks(site: Site, app: Page) -> None:
    app.click("#r1")
    time.sleep(0.2)
    app.click("#other")
    click, left = site.wait(2)
    assert left == click | {"dwell": left["dwell"]}
    app.click("#r2")
    other = site.wait(3)[2]
    assert (other["impression"], other["rank"], other["event"] != click["event"]) == ("i-b", 2, True)
    assert site.reported[2][2]["token"] == "t-b"


@pytest.mark.parametrize("opener", ["#quick", "#card"])
def test_a_view_without_an_address_dwells_until_the_list_is_back(site: Site, app: Page, opener: str) -> None:
    app.click(opener)
    app.wait_for_selector("#view")
    time.sleep(0.2)
    app.evaluate("render()")
    click, back = site.wait(2)
    assert back == click | {"dwell": back["dwell"]}
    assert back["dwell"] > 0.15


def test_a_list_that_is_drawn_again_and_new_addresses_of_the_list_are_no_result(site: Site, app: Page) -> None:
    app.click("#r1", button="middle")  # opens in another tab
    site.wait(1)
    app.evaluate("render(); go('/app/list?page=2', 'replaceState'); go('/app/list?page=3')")
    time.sleep(0.2)
    app.click("#again")
    time.sleep(0.2)
    site.wait(1)


def test_a_result_that_corrects_its_address_is_still_the_same(site: Site, app: Page) -> None:
    app.click("#r1")
    app.evaluate("go('/app/result/1-a-fine-name', 'replaceState')")
    time.sleep(0.2)
    site.wait(1)
    app.go_back()
    assert site.wait(2)[1]["dwell"] > 0.15


def test_a_list_that_is_not_logged_reports_nothing_although_the_page_has_another(site: Site, app: Page) -> None:
    app.evaluate("interleaf.watch(document, {impression: 'i-page', token: 't-page'})")
    app.evaluate("document.querySelector('ol').dataset.interleafImpression = 'None'")
    app.click("#r1")
    time.sleep(0.1)
    site.wait(0)
    app.evaluate("go('/app/list'); document.querySelector('ol').removeAttribute('data-interleaf-impression')")
    app.click("#r2")
    assert site.wait(1)[0]["impression"] == "i-page"


def test_a_page_that_loads_the_script_twice_reports_a_click_once(site: Site, app: Page) -> None:
    app.evaluate(
        """site => new Promise((resolve) => {
            const script = document.createElement("script");
            Object.assign(script, {src: `${site}/static/interleaf.js`, onload: resolve});
            document.head.append(script);
        })""",
        site.service,
    )
    app.click("#r1")
    site.wait(1)


@needs_node_modules
@pytest.mark.parametrize("own_script", ["", '<script src="SITE/static/interleaf.js"></script>'])
def test_an_application_that_starts_twice_reports_a_click_once(own_script: str, site: Site, page: Page) -> None:
    bundle = ["node_modules/.bin/esbuild", "src/page/page.ts", "--bundle", "--global-name=bundle"]
    text = subprocess.run(bundle, cwd=CLIENT, capture_output=True, text=True, check=True, timeout=60).stdout
    shell = f'<!doctype html>{own_script}<script src="/bundle.js"></script><main></main><script src="/app.js"></script>'
    site.pages = {"/app/": shell, "/app.js": APP, "/bundle.js": text}
    page.goto(f"{site.url}/app/list")
    is_one = "address => bundle.start(address) === bundle.start(address) && bundle.start(address) === interleaf"
    assert page.evaluate(is_one, f"{site.service}/v1/events")
    page.click("#r1")
    assert [(event["impression"], event["rank"]) for event in site.wait(1)] == [("i-a", 1)]


def test_a_result_with_the_script_times_itself_and_the_list_does_not_count_it_again(site: Site, page: Page) -> None:
    site.pages["/result/"] = (
        '<!doctype html><link rel=icon href=data:,><script src="SITE/static/interleaf.js"></script>'
    )
    page.goto(site.url)
    page.click("#first")
    page.wait_for_url("**/result/1")
    (click,) = site.wait(1)
    time.sleep(0.3)
    page.evaluate(BECOME, True)
    first = site.wait(2)[1]
    time.sleep(0.5)
    page.evaluate(BECOME, False)
    page.go_back(wait_until="commit")
    events = site.wait(3)
    assert [event["event"] for event in events] == [click["event"]] * 3
    assert first["dwell"] < events[2]["dwell"] < first["dwell"] + 0.45  # the half second in between was hidden
    page.evaluate(BECOME, True)
    page.evaluate(BECOME, False)
    site.wait(3)
