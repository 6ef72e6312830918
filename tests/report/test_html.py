"""The page of a report: order, escaping, reasons, no network; and what happens where an extra is missing."""

import html
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from interleaf.errors import DataError, InterleafError
from interleaf.report.html import NO_CHARTS, to_html, to_notebook
from interleaf.report.layout import lay_out
from interleaf.report.model import Comparison
from interleaf.report.text import to_markdown, to_text
from tests.support.report_examples import EXAMPLES, HOSTILE, REASON, SCRIPT, healthy, nothing_computed

pytest.importorskip("jinja2")


@cache
def page_of(name: str) -> str:
    return to_html(EXAMPLES[name])


class Outline(HTMLParser):
    """Tags with their classes, section names, and all text; attributes that could load or run something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.classes: list[tuple[str, str]] = []
        self.sections: list[str] = []
        self.active: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.classes.append((tag, given.get("class", "")))
        self.sections += [given["id"]] if tag == "section" else []
        self.active += [
            name for name in given if name.startswith("on") or name in ("src", "href", "xlink:href", "action")
        ]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_page_has_the_verdict_then_health_then_the_numbers(name: str) -> None:
    outline = Outline(page_of(name))
    order = [section.name for section in lay_out(EXAMPLES[name]).sections]
    drawn = [part for part in order if part in outline.sections]
    assert outline.sections == drawn
    leaderboard = ["standing"] if EXAMPLES[name].standing is not None else []
    first = ["health", *leaderboard, "comparisons"]
    assert outline.sections[: len(first)] == first
    assert outline.sections[-2:] == ["input", "reading"]
    page = page_of(name)
    assert page.index('<p class="sentence">') < page.index('<section id="health">')


def test_the_full_order_is_that_of_a_reader() -> None:
    tables = ["tests", "arms", "slots", "neutrality", "segments", "input", "reading"]
    assert Outline(page_of("healthy")).sections == ["health", "comparisons", "lift", "over_time", "outcomes", *tables]
    assert Outline(page_of("with_cycle")).sections[:3] == ["health", "standing", "comparisons"]


def test_of_many_rankers_only_the_leaderboard_is_open() -> None:
    page = lay_out(EXAMPLES["with_cycle"])
    assert {section.name for section in page.sections if not section.closed} == {
        *("health", "standing", "input", "reading")
    }
    assert not any(section.closed for section in lay_out(EXAMPLES["healthy"]).sections)
    closed = [section for section in page_of("with_cycle").split("<section ") if "<summary>Show comparisons" in section]
    assert len(closed) == 1
    assert closed[0].index("<details>") < closed[0].index("<table")


@pytest.mark.parametrize(("name", "tone"), [("healthy", "winner"), ("undecided", "even"), ("broken", "untrusted")])
def test_the_banner_has_the_tone_of_the_verdict(name: str, tone: str) -> None:
    banners = [cls for tag, cls in Outline(page_of(name)).classes if tag == "div" and cls.startswith("verdict")]
    assert banners == [f"verdict {tone}"]
    assert ("DO NOT TRUST THIS" in page_of(name)) == (tone == "untrusted")
    assert EXAMPLES[name].verdict.sentence in Outline(page_of(name)).text.replace("\u00a0", " ")


def test_why_a_verdict_is_not_to_be_trusted_stands_above_it() -> None:
    page = page_of("broken")
    assert page.index("production owns 58.1") < page.index('<p class="sentence">')


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_page_needs_no_network_and_runs_nothing(name: str) -> None:
    page = page_of(name)
    outline = Outline(page)
    tags = {tag for tag, _ in outline.classes}
    assert not tags & {"script", "link", "iframe", "object", "embed", "img", "base", "form", "a"}
    assert outline.active == []
    assert set(re.findall(r"https?://[^\"'\s<)]*", page)) <= {"http://www.w3.org/2000/svg"}
    assert "@import" not in page
    assert "url(" not in page
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page


def test_names_of_strangers_are_text() -> None:
    page = page_of("hostile")
    assert "<script" not in page.lower()
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert HOSTILE[3] not in page
    text = Outline(page).text
    assert SCRIPT in text
    assert "&amp;" in text  # as it was given, not decoded once more
    assert len([tag for tag, _ in Outline(page).classes if tag == "b"]) == page.count("<figcaption>")


@pytest.mark.parametrize("name", ["healthy", "with_cycle"])
def test_charts_are_inline_drawings_with_a_name(name: str) -> None:
    pytest.importorskip("vl_convert")
    page = page_of(name)
    drawings = re.findall(r"<svg[^>]*>(?:<title>([^<]*)</title>)?", page)
    assert len(drawings) == page.count("<figure") >= 5
    assert all(drawings)
    assert len(re.findall(r'<svg[^>]* role="img" aria-label="[^"]+" viewBox="0 0 [\d.]+ [\d.]+"', page)) == len(
        drawings
    )


def test_every_figure_that_is_missing_has_its_reason_on_every_rendering() -> None:
    report = nothing_computed()
    names = [name for name, value in vars(Comparison("a", "b")).items() if value is None]
    text = Outline(page_of("nothing_computed")).text.replace("\u00a0", " ")
    joined = {"losses", "ties", "unit_losses"}  # written in one cell with the wins, whose reason is given
    for rendered in (text, to_markdown(report)):
        for name in set(names) - joined:
            assert f"{REASON} ({name})" in rendered
        assert f"no strength: {REASON}" in rendered
        assert f"no interval: {REASON}" in rendered
        missing = "No value, difference, interval, adjusted p for clicks per query of interleaved"
        assert f"{missing}: no query was logged." in rendered


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_dash_stands_above_a_reason(name: str) -> None:
    for section in lay_out(EXAMPLES[name]).sections:
        dashes = any(cell is None for table in section.tables for row in table.rows for cell in row)
        assert not dashes or section.reasons, section.name


def test_many_rankers_are_shown_in_part_and_it_is_said() -> None:
    page = page_of("very_many")
    assert "Shown are 40 of 780 comparisons; the other 740 are in the JSON form" in page
    assert 'class="wide"' in page
    assert len(page) < 1_000_000


def test_the_page_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    assert to_html(healthy(), path) == path.read_text(encoding="utf-8")
    assert to_html(healthy(), str(path)).startswith("<!doctype html>")
    with pytest.raises(DataError, match=r"cannot write the page .*No such file"):
        to_html(healthy(), tmp_path / "nowhere" / "report.html")


def test_half_a_letter_in_a_name_can_be_written(tmp_path: Path) -> None:
    report = replace(healthy(), experiment="half \ud800", rankers=("production", "candidate", "\udfff"))
    assert "\ud800" not in to_html(report, tmp_path / "report.html")


@pytest.mark.parametrize("module", ["altair", "vl_convert"])
def test_without_the_extra_for_charts_the_page_has_tables_and_says_how_to_get_them(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    page = to_html(healthy())
    assert NO_CHARTS in Outline(page).text
    assert "<svg" not in page
    assert "<figure" not in page
    assert page.count("<details open>") == page.count("<details") > 0
    assert 'id="outcomes"' not in page  # nothing but a chart
    assert "+0.042" in page


def test_without_jinja_the_error_has_the_command_and_a_notebook_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(InterleafError, match=r"needs jinja2; run: .*\[report\]"):
        to_html(healthy())
    shown = to_notebook(EXAMPLES["hostile"])
    assert shown == f"<pre>{html.escape(to_text(EXAMPLES['hostile']))}</pre>"


def test_a_notebook_shows_the_page_in_a_frame_that_runs_nothing() -> None:
    frame = to_notebook(EXAMPLES["hostile"])
    found = re.fullmatch(r'<iframe sandbox title="report" style="[^"]*" srcdoc="([^"]*)"></iframe>', frame)
    assert found is not None
    assert html.unescape(found[1]) == page_of("hostile")


def test_a_browser_draws_the_page_without_a_complaint(tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium here")
    page = tmp_path / "report.html"
    to_html(EXAMPLES["hostile"], page)
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        f"--user-data-dir={tmp_path}/p",
    ]
    done = subprocess.run(
        [browser, *options, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        pytest.skip(f"chromium does not run here: {done.stderr[-200:]}")
    assert "CONSOLE" not in done.stderr
    assert "<script" not in done.stdout.lower()
    assert done.stdout.count("<section") == len(Outline(page_of("hostile")).sections)
