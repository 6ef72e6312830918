"""The documentation as it is built: nothing is fetched, everything is there, and search works from a folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest
from playwright.sync_api import Page

import interleaf
from interleaf.methods.registry import METHODS
from tests.project.test_documentation import DOCS, verbs
from tests.support.browser import browser as browser, needs_browser, page as page
from tests.support.paths import ROOT

FETCHED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}


class Reader(HTMLParser):
    """What a page fetches, where its article leads, the anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.inside = self.inside or tag == "article"
        self.anchors.add(given.get("id", ""))
        if tag in FETCHED:
            self.fetched.append(given.get(FETCHED[tag], ""))
        if self.inside and tag == "a":
            self.links.append(given.get("href", "").partition("#")[0])

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "article"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make docs` does, without a word of warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout + done.stderr == ""
    return folder


def read(site: Path, page: str) -> str:
    return (site / page).read_text(encoding="utf-8")


def test_every_page_is_built_and_no_mark_is_left(site: Path) -> None:
    for source in DOCS:
        built = site / source.relative_to(ROOT / "docs").with_suffix(".html")
        left = r"<!-- (\$|table|project file|citation|verbs)|class=.arithmatex"
        assert not re.search(left, built.read_text(encoding="utf-8"))
    assert not list(site.rglob("*.py"))


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    for built in site.rglob("*.html"):
        fetched = Reader(built.read_text(encoding="utf-8")).fetched
        assert fetched
        assert [address for address in fetched if re.match(r"(https?:)?//", address)] == []
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\(\s*['\"]?(https?:)?//)", style.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", METHODS)
def test_the_page_of_a_method_has_its_options_schemes_and_counterexamples(name: str, site: Path) -> None:
    row, text = METHODS[name], read(site, f"methods/{name}.html")
    wanted = [parameter.name for parameter in row.parameters] + list(row.schemes)
    assert [one for one in wanted if f"<code>{one}</code>" not in text] == []
    refuted = [claim for claim, holds in asdict(row.claims).items() if holds is False]
    assert len(re.findall(r'<h3 id="not-\S+faithful"|<h3 id="not-[a-z]+"', text)) == len(refuted)
    assert f'href="methods/{name}.html"' in read(site, "methods.html")
    assert "<math" in text or not row.schemes


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    modules = [interleaf] + [
        one for one in map(interleaf.__getattribute__, interleaf.__all__) if isinstance(one, ModuleType)
    ]
    for module in modules:
        found = Reader(read(site, f"reference/{module.__name__}.html")).anchors
        assert [name for name in module.__all__ if name.lower() not in found] == []


def test_every_verb_is_in_the_reference(site: Path) -> None:
    found = Reader(read(site, "command-line.html")).anchors
    assert [verb for verb in verbs() if f"interleaf-{verb}" not in found] == []
    assert "interleaf-keys-add" in found


def test_the_changelog_and_the_citation_are_the_projects_own(site: Path) -> None:
    assert "Nothing has been released yet." in read(site, "changelog.html")
    assert interleaf.__version__ in read(site, "how-to-cite.html")


def test_the_front_page_leads_to_a_verdict_on_own_logs_in_three_clicks(site: Path) -> None:
    reached, leading = {"index.html"}, ["index.html"]
    for _ in range(3):
        found = {link for page in leading for link in Reader(read(site, page)).links}
        leading = [link for link in found - reached if (site / link).is_file()]
        reached.update(leading)
    texts = {page: re.sub(r"<[^>]*>", "", read(site, page)) for page in reached}
    commands = re.compile(r"interleaf import \w+ \S+.*interleaf analyze \S+", re.DOTALL)
    assert "own-logs.html" in [page for page, text in texts.items() if commands.search(text)]
    assert {"first-experiment.html", "first-report.html", "evaluate-your-method.html"} <= reached


@needs_browser
def test_search_works_from_a_folder(site: Path, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.locator("input.md-search__input").press_sequentially("Bradley")
    page.locator(".md-search-result__link").first.click()
    page.wait_for_url(re.compile(r"h=[Bb]radley"))
    assert [address for address in asked if not address.startswith("file:")] == []
