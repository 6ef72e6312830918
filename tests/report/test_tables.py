"""Tables and the words around them: aligned, on their lines, and never markup; a Markdown parser is the oracle."""

from html.parser import HTMLParser

import pytest
from hypothesis import given, strategies as st

from interleaf.report.layout import lay_out
from interleaf.report.sections import Section
from interleaf.report.text import to_markdown
from interleaf.tables import Table, escape, one_line, width_of
from tests.support.report_examples import EXAMPLES, HOSTILE, SCRIPT, broken, healthy

markdown_it = pytest.importorskip("markdown_it", reason="comes with rich")


class Read(HTMLParser):
    """What a reader of the rendered Markdown gets: tags, and the text of cells, headings and links."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: dict[str, list[str]] = {}
        rules = markdown_it.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
        self.feed(rules.render(markdown))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_data(self, data: str) -> None:
        if self.tags:
            self.texts[self.tags[-1]][-1] += data


@given(st.text(max_size=40))
def test_a_cell_reads_in_markdown_as_it_was_written(text: str) -> None:
    table = Table("t", "", ("name", "n"), ((text, 1), ("plain", None)), right=("n",))
    read = Read(table.to_markdown())
    cells = [cell.strip() for cell in read.texts["td"]]
    assert cells == [one_line(text).strip(), "1", "plain", "-"]  # Markdown strips the ends of a cell, too
    assert set(read.tags) == {"table", "thead", "tbody", "tr", "th", "td"}


@given(st.lists(st.lists(st.text(max_size=12), min_size=3, max_size=3), min_size=1, max_size=4))
def test_columns_of_a_table_are_aligned_whatever_is_in_them(rows: list[list[str]]) -> None:
    table = Table("t", "", ("first", "second", "third"), tuple(map(tuple, rows)), right=("second",))
    lines = table.to_markdown().split("\n")
    assert len(lines) == len(rows) + 2
    assert len({width_of(line) for line in lines}) == 1


def test_a_table_is_aligned_to_the_side_of_its_figures() -> None:
    table = Table("t", "Pairs", ("pair", "p"), (("a|b", "0.25"), ("日本", None)), right=("p",))
    assert str(table) == "Pairs\npair     p\n----  ----\na|b   0.25\n日本     -"
    assert table.to_markdown() == ("**Pairs**\n\n| pair |    p |\n| ---- | ---: |\n| a\\|b | 0.25 |\n| 日本 |    - |")


def test_text_loses_what_a_terminal_would_obey_and_what_turns_it_round() -> None:
    assert one_line("a\x1b[2J\u202eb\u2028c\ud800\r\n") == "a [2J b c   "
    assert escape("p < 0.01 & a_b") == "p < 0.01 & a_b"
    assert escape("&lt; <i> _x_") == "&amp;lt; &lt;i> \\_x\\_"


@pytest.mark.parametrize("name", EXAMPLES)
def test_markdown_has_the_sections_in_their_order_and_nothing_else_is_a_heading(name: str) -> None:
    report = EXAMPLES[name]
    page = lay_out(report)
    read = Read(to_markdown(report))
    titles = [section.title for section in page.sections if section.name != "outcomes"]
    assert [text.strip() for text in read.texts["h2"]] == titles
    assert len(read.texts["h1"]) == 1
    first = ["Health", *(["Leaderboard"] if report.standing is not None else []), "Comparisons"]
    assert titles[: len(first)] == first
    assert titles[-1] == "How to read this"
    assert not set(read.tags) & {"script", "b", "a", "em", "code", "s", "img", "hr", "h3", "ol", "pre"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_row_of_a_markdown_table_has_a_cell_for_every_column(name: str) -> None:
    columns = 0
    for line in to_markdown(EXAMPLES[name]).split("\n"):
        cells = line.replace("\\\\", "").replace("\\|", "").count("|") - 1
        columns = 0 if not line.startswith("|") else columns or cells
        assert not line.startswith("|") or cells == columns


def test_the_verdict_is_bold_or_says_do_not_trust_this_and_why() -> None:
    report = healthy()
    assert f"> **{report.verdict.sentence}**" in to_markdown(report)
    untrusted = to_markdown(broken())
    assert "> **✗ DO NOT TRUST THIS**\n>\n> - slots by position: production owns 58.1 % of position 1." in untrusted
    assert f"\n> {report.verdict.sentence}\n" in untrusted
    assert untrusted.index("DO NOT TRUST") < untrusted.index(report.verdict.sentence) < untrusted.index("## Health")


def test_what_is_wrong_comes_first_in_the_table_of_checks() -> None:
    (table,) = next(section for section in lay_out(broken()).sections if section.name == "health").tables
    assert [row[0] for row in table.rows] == ["✗ failed", "! warning", "✓ ok", "✓ ok", "✓ ok", "○ skipped"]


def test_long_names_of_strangers_are_short_and_still_told_apart() -> None:
    page = to_markdown(EXAMPLES["hostile"])
    assert max(map(len, page.split("\n"))) < 1000
    assert HOSTILE[3] not in page
    assert SCRIPT not in page
    assert "\x1b" not in page
    assert "\u202e" not in page


def section_of(name: str, section: str) -> Section:
    return next(part for part in lay_out(EXAMPLES[name]).sections if part.name == section)


def test_a_cycle_is_named_step_by_step() -> None:
    cycle = "A cycle: dense over learned, learned over hybrid, hybrid over dense."
    assert cycle in section_of("with_cycle", "standing").words
    assert cycle in to_markdown(EXAMPLES["with_cycle"])


def test_the_table_over_time_has_the_last_times_of_every_pair_that_is_followed() -> None:
    section = section_of("with_cycle", "over_time")
    (table,) = section.tables
    assert len(table.rows) == 40
    assert len({row[1] for row in table.rows}) == 6
    assert [row[0] for row in table.rows] == sorted(str(row[0]) for row in table.rows)
    assert table.rows[-1][0] == "2026-11-14 00:00"
    assert "The first 6 of 10 comparisons are shown." in section.words


def test_a_column_that_holds_nothing_is_left_out_of_the_side_tables_and_says_why() -> None:
    section = section_of("nothing_computed", "tests")
    assert section.tables[0].columns == ("comparison", "impressions")
    assert len(section.reasons) == 13
    assert section_of("nothing_computed", "comparisons").tables[0].columns[1] == "estimate"


def test_segments_warn_that_they_are_many() -> None:
    assert section_of("healthy", "segments").words[0].startswith("Comparisons made here: 3. Among many, some look")
