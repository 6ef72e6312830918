"""A real browser for tests of pages: Debian's chromium, driven by Playwright, which downloads nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 120_000  # milliseconds, on a busy machine
expect.set_options(timeout=PATIENCE)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine; make browser installs it")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium without a window; pages that people go back to are kept as they were, as in their own browsers."""
    with sync_playwright() as playwright:
        kept = ["--disable-back-forward-cache"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, ignore_default_args=kept, timeout=PATIENCE)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page in a fresh profile; whatever it complains about on its console fails the test."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    context.close()
    assert complaints == []
