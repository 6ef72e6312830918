"""The script of result pages, in a real browser under a strict content security policy."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("playwright", reason="playwright drives the browser; pip install -e '.[integration]'")

from playwright.sync_api import Page

import interleaf
from tests.support.browser import browser as browser, needs_browser, page as page
from tests.support.result_pages import Site, site as site

pytestmark = needs_browser


def test_a_click_is_reported_at_once_and_its_dwell_on_return(site: Site, page: Page) -> None:
    page.goto(site.url)
    page.evaluate("window.kept = true")
    before = time.monotonic()
    page.click("#bold")
    page.wait_for_url("**/result/1")
    (click,) = site.wait(1)
    path, kind, body = site.reported[0]
    assert (path, kind, body["token"]) == ("/v1/events", "text/plain;charset=UTF-8", "t-1")
    assert click == {"event": click["event"], "impression": "i-1", "rank": 1, "kind": "click"}
    assert len(click["event"]) == 32
    time.sleep(0.5)
    page.go_back(wait_until="commit")
    back = site.wait(2)[1]
    most = time.monotonic() - before
    assert back == click | {"dwell": back["dwell"]}  # the same event, completed
    assert 0.4 < back["dwell"] < most + 0.1  # of seconds, since the click
    assert site.reported[1][2]["token"] == "t-1"
    assert page.evaluate("window.kept")  # it is the page as it was
    page.click("#first")
    again = site.wait(3)[2]
    assert (again["rank"], again["event"] == click["event"]) == (1, False)


def test_a_page_that_is_loaded_anew_on_return_still_knows_its_click(site: Site, page: Page) -> None:
    site.caching = "no-store"  # such pages are not kept as they were
    page.goto(site.url)
    page.evaluate("window.kept = true; addEventListener('unload', () => {})")
    before = time.monotonic()
    page.click("#first")
    page.wait_for_url("**/result/1")
    site.wait(1)
    site.watches("i-9", "t-9")  # another impression, when the page is made again
    time.sleep(0.3)
    page.go_back(wait_until="commit")
    click, back = site.wait(2)
    most = time.monotonic() - before
    assert back == click | {"dwell": back["dwell"]}
    assert (back["impression"], site.reported[1][2]["token"]) == ("i-1", "t-1")
    assert not page.evaluate("window.kept")
    assert 0.2 < back["dwell"] < most + 0.1
    page.goto(site.url)
    assert len(site.wait(2)) == 2  # once


def test_who_goes_on_and_does_not_return_has_no_dwell(site: Site, page: Page) -> None:
    page.goto(site.url)
    page.click("#first")
    page.wait_for_url("**/result/1")
    page.goto(site.url)
    site.wait(1)
    page.goto(f"{site.url}/result/7")
    page.go_back(wait_until="commit")
    assert len(site.wait(1)) == 1


def test_keyboard_middle_button_and_new_tabs_count_and_the_right_button_does_not(site: Site, page: Page) -> None:
    page.goto(site.url)
    page.focus("#first")
    page.locator("#second").click(button="right")
    page.locator("#first").click(button="middle")
    assert site.wait(1)[0]["rank"] == 1
    with page.expect_popup():
        page.click("#second")
    assert site.wait(2)[1]["rank"] == 2
    page.bring_to_front()
    page.focus("#first")
    page.keyboard.press("Enter")
    page.wait_for_url("**/result/1")
    events = site.wait(3)
    assert [event["rank"] for event in events] == [1, 2, 1]


def test_a_result_in_another_tab_dwells_while_this_one_is_hidden(site: Site, page: Page) -> None:
    """Headless pages are never hidden by others, so the page is told that it is."""
    page.goto(site.url)
    page.locator("#first").click(button="middle")
    site.wait(1)
    time.sleep(0.5)
    become = """state => {
        const before = Date.now();
        Object.defineProperty(document, "hidden", {value: state, configurable: true});
        document.dispatchEvent(new Event("visibilitychange"));
        return [before, Date.now()];
    }"""
    left = page.evaluate(become, True)
    time.sleep(0.2)
    back_at = page.evaluate(become, False)
    click, back = site.wait(2)
    assert back == click | {"dwell": back["dwell"]}
    least, most = back_at[0] - left[1], back_at[1] - left[0]
    assert 150 < least <= 1000 * back["dwell"] + 0.5  # since the list was left
    assert 1000 * back["dwell"] - 0.5 <= most  # and not since the click, half a second before
    page.evaluate(become, True)
    page.evaluate(become, False)
    site.wait(2)


def test_what_is_no_link_of_a_result_is_not_reported(site: Site, page: Page) -> None:
    page.goto(site.url)
    for place in ("#text", "#button", "#search"):
        page.click(place)
    page.click("#plain")
    page.wait_for_url("**/result/4")
    time.sleep(0.2)
    assert site.reported == []


def test_a_page_outside_of_the_experiment_reports_nothing(site: Site, page: Page) -> None:
    for nothing in ("", "None"):
        site.watches(nothing, nothing)
        page.goto(site.url)
        page.click("#first")
        page.wait_for_url("**/result/1")
    time.sleep(0.2)
    assert site.reported == []


@pytest.mark.parametrize("token", ["", "None", "null", "undefined"])
def test_a_list_of_an_outage_has_no_token_and_reports_to_the_own_server_only(
    site: Site, page: Page, token: str
) -> None:
    site.watches("i-1", token)
    page.goto(site.url)
    page.locator("#first").click(button="middle")
    time.sleep(0.2)
    assert site.reported == []
    site.data += ' data-endpoint="/own"'
    page.goto(site.url)
    page.locator("#first").click(button="middle")
    site.wait(1)
    path, _, body = site.reported[0]
    assert (path, list(body)) == ("/own", ["events"])


def test_a_visitor_keeps_an_id_that_the_server_knows_too(site: Site, page: Page) -> None:
    page.goto(site.url)
    assert page.evaluate("document.cookie") == ""  # none is set unless the page asks for it
    visitor = page.evaluate("interleaf.visitor()")
    page.reload()
    assert page.evaluate("interleaf.visitor()") == visitor
    assert interleaf.visitor_id(page.evaluate("document.cookie")) == (visitor, None)
    (cookie,) = page.context.cookies()
    assert (cookie["name"], cookie["sameSite"], cookie["path"]) == ("interleaf_visitor", "Lax", "/")
    page.evaluate("document.cookie = 'interleaf_visitor=forged'")
    assert len(page.evaluate("interleaf.visitor()")) == 32


def test_several_lists_shadow_roots_other_events_and_pages_that_stop_clicks(site: Site, page: Page) -> None:
    site.more = '<script src="/several.js" defer></script>'
    page.goto(site.url)
    (purchase,) = site.wait(1)
    assert purchase == purchase | {"impression": "i-2", "kind": "purchase", "rank": 5, "value": 2.5}
    assert site.reported[0][0] == "/own"
    page.click("#stopped")
    assert site.wait(2)[1]["impression"] == "i-1"
    page.locator("#fifth").click(button="middle")
    assert site.wait(3)[2]["impression"] == "i-2"
    page.locator("#sixth").click(button="middle")
    sixth = site.wait(4)[3]
    assert (sixth["impression"], sixth["rank"]) == ("i-3", 6)
    assert [body["token"] for _, _, body in site.reported] == ["t-2", "t-1", "t-2", "t-3"]


def test_without_beacons_and_storage_clicks_are_reported_all_the_same(site: Site, page: Page) -> None:
    page.add_init_script(
        """navigator.sendBeacon = () => false;
        Object.defineProperty(window, "sessionStorage", {get() { throw new DOMException("forbidden"); }});"""
    )
    site.data = 'data-impression="i-1" data-endpoint="/own"'  # a site that passes events on by itself needs no token
    page.goto(site.url)
    page.click("#first")
    page.wait_for_url("**/result/1")
    (click,) = site.wait(1)
    assert (site.reported[0][0], click["rank"]) == ("/own", 1)
    assert site.reported[0][2].keys() == {"events"}
