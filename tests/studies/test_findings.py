"""Findings of papers: verdicts follow from the tables of a study, and the last table of a page from its figures."""

from importlib import import_module
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from interleaf.studies import STUDIES
from interleaf.studies.study import (
    CAME_BACK,
    CANNOT,
    DID_NOT,
    Finding,
    PrintedTables,
    falling,
    findings_table,
    number_in,
)
from interleaf.tables import Table
from tests.support.study_pages import PAGES, printed_tables, with_findings


@pytest.mark.parametrize("name", STUDIES)
def test_a_page_ends_with_the_findings_that_its_figures_give(name: str) -> None:
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert page == with_findings(name, page), "run python -m tests.support.study_pages"


@pytest.mark.parametrize("name", STUDIES)
def test_every_finding_is_read_from_the_page_or_says_why_not(name: str) -> None:
    tables = printed_tables((PAGES / f"{name}.md").read_text(encoding="utf-8"))
    findings = import_module(f"interleaf.studies.{name.replace('-', '_')}").FINDINGS
    rows = findings_table(findings, tables).rows
    assert {row[3] for row in rows} <= {CAME_BACK, DID_NOT, CANNOT}
    assert any(row[3] == CAME_BACK for row in rows)
    assert all(row[4] for row in rows if row[3] == CANNOT)


@given(st.lists(st.floats(0, 99).map(lambda value: round(value, 1)), min_size=2, max_size=4))
def test_a_verdict_turns_with_the_figures(values: list[float]) -> None:
    rows = tuple((f"m{place}", f"{value} (0.1)") for place, value in enumerate(values))
    names, table = [str(row[0]) for row in rows], Table("", "Table 3: accuracy", ("method", "ours %"), rows)
    finding = Finding("they fall", "yes", falling, ("Table 3", "ours %", "method", names))
    expected = CAME_BACK if all(one > other for one, other in pairwise(values)) else DID_NOT
    assert findings_table([finding], [table]).rows[0][3] == expected


def test_what_a_run_does_not_have_cannot_be_tried() -> None:
    missing = Finding("a claim", "yes", falling, ("Table 9", "ours", "method", ("a", "b")))
    assert findings_table([missing], []).rows == (("a claim", "yes", None, CANNOT, "this run leaves it out"),)
    longer = Finding("a claim", "yes", missing.answer, missing.arguments, needs="it needs --scale paper")
    assert findings_table([longer], []).rows[0][4] == "this run leaves it out; it needs --scale paper"
    refused = Finding("a log", "all", None, why="it is not public")
    assert findings_table([refused], []).rows[0][3:] == (CANNOT, "it is not public")
    empty = Table("", "Table 9", ("method", "ours"), (("a", None), ("b", "1")))
    assert findings_table([missing], [empty]).rows[0][3:] == (CANNOT, "the run gave no number")


@pytest.mark.parametrize(
    ("text", "number"), [("10,000", 10_000), ("+0.446 (0.022)", 0.446), ("< 0.001", 0.001), ("-.5 and 7", 5)]
)
def test_numbers_are_read_as_tables_print_them(text: str, number: float) -> None:
    assert number_in(text) == number


def test_printed_tables_are_those_that_were_printed() -> None:
    table = Table("", "A title", ("pair", "p", "why"), (("a over b", 0.25, None), ("a over c", None, "too few")))
    (read,) = printed_tables(f"```console\n$ run\n{table}\n```\n")
    assert read.title == table.title
    assert read.lines() == table.lines()
    assert PrintedTables([read]).cell("A tit", "why", pair="a over c") == "too few"
