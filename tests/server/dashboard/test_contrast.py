"""Every text of every page stands out from its ground: a contrast of 4.5 at least, in light and in dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from interleaf.server.app import create_app
from interleaf.server.dashboard import static_files
from interleaf.store import open_store
from tests.support.browser import PATIENCE, browser as browser, needs_browser
from tests.support.dashboards import traffic
from tests.support.services import Live, Turned, listening, live

pytestmark = needs_browser
PAGES = ("/", "/?search=nothing", "/experiments/shoes", "/experiments/broken", "/experiments/draft", "/keys",
         "/experiments/new", "/experiments/shoes/edit", "/experiments/nowhere")  # fmt: skip
# The colours that a person sees: text over all grounds behind it, each with its share of what shines through.
TEXTS = """
() => {
  const parse = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return { rgb: found.slice(0, 3), a: found.length > 3 ? found[3] : 1 };
  };
  const over = (top, a, ground) => top.map((value, place) => a * value + (1 - a) * ground[place]);
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const chain = [];
    for (let one = element; one; one = one.parentElement) chain.unshift(parse(getComputedStyle(one).backgroundColor));
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    return chain.reduce((below, { rgb, a }) => over(rgb, a, below), dark ? [18, 18, 18] : [255, 255, 255]);
  };
  const opacity = (element) => {
    let share = 1;
    for (let one = element; one; one = one.parentElement) share *= Number(getComputedStyle(one).opacity);
    return share;
  };
  const weak = [];
  let seen = 0;
  for (const details of document.querySelectorAll("details")) details.open = true;
  const check = (element, style, words) => {
    const behind = ground(element);
    const { rgb, a } = parse(style.fill && element.closest("svg") ? style.fill : style.color);
    const [x, y] = [light(over(rgb, a * opacity(element), behind)), light(behind)];
    const contrast = (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
    seen += 1;
    const least = element.closest(".sign") ? 3 : 4.5; // signs of a chart's key are drawings, with words beside them
    if (contrast < least) weak.push([words.trim().slice(0, 40), String(element.className), contrast]);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const words = walker.currentNode.textContent;
    if (!words.trim() || element.closest("script, style, noscript, option") || element.closest(".drawing")) continue;
    check(element, getComputedStyle(element), words);
  }
  for (const field of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
    check(field, getComputedStyle(field), field.name || "field");
    if (field.placeholder) check(field, getComputedStyle(field, "::placeholder"), field.placeholder);
  }
  return { seen, weak };
}
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A service with an experiment that has a winner, one that cannot be trusted, and a draft."""
    static_files.vega()
    with live(tmp_path) as service:
        service.make(owner="Ann", tags=["q3"], hypothesis="More clicks.", description="A note.", planned_units=50)
        service.make(name="broken", holdout=0.5)
        service.make(name="draft", start=False)
        traffic(service, 120)
        fill_broken(service)
    store, clock = open_store(tmp_path / "store.sqlite"), Turned()
    with listening(create_app(store, clock)) as url:
        yield url
    store.close()


def fill_broken(service: Live) -> None:
    """Everybody clicks, and most events are of impressions that nobody knows."""
    rankings = {"production": list("abc"), "candidate": list("cba")}
    for unit in range(60):
        shown = service.ask(
            "POST", "/v1/experiments/broken/interleave", {"unit": f"u{unit}", "query": "q", "rankings": rankings}
        ).json()
        service.tell({"impression": shown["impression"], "rank": 9}, {"impression": shown["impression"], "rank": 1})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_texts_have_a_contrast_of_four_and_a_half_at_least(address: str, browser: Browser, scheme: str) -> None:
    context = browser.new_context(color_scheme=scheme)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE)
    page, weak, seen = context.new_page(), {}, 0
    for path in PAGES:
        page.goto(address + path)
        found = page.evaluate(TEXTS)
        seen += found["seen"]
        if found["weak"]:
            weak[path] = found["weak"]
    context.close()
    assert weak == {}
    assert seen > 500
