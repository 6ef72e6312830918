"""A report in a terminal: short, the same with colours and without, and no name is obeyed."""

import io
import re
import sys
from dataclasses import replace

import pytest

from interleaf.report.charts import charts
from interleaf.report.format import Names
from interleaf.report.text import show, to_markdown, to_text
from tests.support.report_examples import EXAMPLES, broken, healthy, hostile, nothing_computed, undecided, very_many

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return True


def test_the_text_of_a_healthy_report_is_short_and_says_the_verdict_first() -> None:
    report = healthy()
    parts = to_text(report).split("\n\n")
    assert parts[:5] == [
        "search-2026-11, version 2",
        report.verdict.sentence,
        "14 days (2026-11-01 to 2026-11-14), 2,100 units (2,000 planned), 10,412 impressions, 5,000 with an event",
        "All 4 checks are fine. Skipped: holdout.",
        "○ skipped  holdout: the log has no holdout\n"
        "  To do: Set a holdout share to learn whether interleaving itself hurts.",
    ]
    assert parts[5].split("\n")[2].split("  ")[0] == "candidate over production"
    assert parts[6].startswith("If candidate were live in place of production: +2.1 % clicks per search ")
    assert len(parts) == 14
    assert parts[12].startswith("Rows dropped: ")


def test_only_what_is_wrong_is_listed() -> None:
    text = to_text(broken())
    assert text.index("✗ DO NOT TRUST THIS") < text.index("People prefer")
    assert "Failed: slots by position. Warning: late events. 3 of 5 checks are fine." in text
    assert "✗ failed  slots by position: " in text
    assert "✓ ok" not in text
    assert "about 600 units (2,000 planned)" in to_text(undecided())
    assert "about 600 units, " in to_text(replace(undecided(), planned_units=None))


def test_lists_counted_by_the_drawn_owners_are_called_so_wherever_they_are_shown() -> None:
    report, title = EXAMPLES["counted_by_owners"], "wins / ties / losses, by drawn owners"
    assert title in to_text(report)
    page = to_markdown(report)
    assert all(f"| {one}" in page for one in (title, "Delta, by drawn owners", "sign test, by drawn owners, p"))
    (chart,) = charts(report)["outcomes"]
    assert chart.described == "Which ranker of the pair they prefer, by drawn owners."
    assert report.to_dict()["comparisons"][0]["counted_by"] == "drawn_owners"
    assert report.to_frame()["counted_by"].to_pylist() == ["drawn_owners"]
    assert "drawn owners" not in to_markdown(healthy())


def test_a_dash_has_its_reason_below() -> None:
    text = to_text(nothing_computed())
    for name in ("estimate", "interval", "adjusted_p_value", "wins"):
        assert f"so nothing can be said of their spread ({name})." in text
    assert "no times known" in text


def test_nothing_compared_and_nothing_checked_is_said() -> None:
    text = to_text(replace(healthy(), comparisons=(), health=()))
    assert "Nothing was compared." in text
    assert "No check was made." in text


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_file_gets_the_plain_text_and_a_terminal_the_same_words_in_colour(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", "1000")
    report, file, terminal = EXAMPLES[name], io.StringIO(), Terminal()
    show(report, file)
    assert file.getvalue() == to_text(report) + "\n"
    show(report, terminal)
    drawn = COLOUR.sub("", terminal.getvalue())
    frame = re.compile(r"[─│╭╮╰╯]|--+")
    assert "\x1b" not in drawn
    assert frame.sub("", drawn).split() == frame.sub("", to_text(report)).split()


def test_a_narrow_terminal_loses_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", "60")
    terminal = Terminal()
    show(broken(), terminal)
    drawn = COLOUR.sub("", terminal.getvalue())
    assert max(map(len, drawn.split("\n"))) <= 60
    assert "…" not in drawn
    for figure in ("+0.042", "+0.022", "+0.062", "2,105", "1,895", "2,100", "10,412"):
        assert figure in drawn


def test_colours_follow_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "140")
    for report, colour in ((healthy(), "32"), (undecided(), "34"), (broken(), "31")):
        terminal = Terminal()
        show(report, terminal)
        assert f"\x1b[{colour}m╭" in terminal.getvalue()
    assert "\x1b[1;31m✗ DO NOT TRUST THIS" in terminal.getvalue()
    assert "\x1b[33m! warning" in terminal.getvalue()


def test_names_are_neither_markup_nor_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", "400")
    terminal = Terminal()
    report = replace(hostile(), notes=())
    pair = replace(report.comparisons[0], first="[red]alarm[/red]", second="\x1b[2Jgone")
    show(replace(report, comparisons=(pair,)), terminal)
    plain = COLOUR.sub("", terminal.getvalue())
    assert "[red]alarm[/red] over [2Jgone" in plain
    assert "\x1b" not in plain


def test_without_rich_or_without_the_letters_a_terminal_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    ascii_only = Terminal("ascii")
    show(broken(), ascii_only)
    assert ascii_only.getvalue().replace("?", "") == re.sub(r"[^\x00-\x7f]", "", to_text(broken())) + "\n"
    monkeypatch.setitem(sys.modules, "rich", None)
    terminal = Terminal()
    show(broken(), terminal)
    assert terminal.getvalue() == to_text(broken()) + "\n"


def test_it_goes_to_standard_output_unless_told_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    show(healthy())
    assert capsys.readouterr().out == to_text(healthy()) + "\n"


def test_of_many_pairs_the_text_shows_some_and_says_so() -> None:
    text = to_text(very_many())
    assert "Shown are 39 of 780 comparisons; the other 741 are in the JSON form." in text
    assert text.count("ranker-00 over ranker-") == text.count(" over ranker-") == 39
    assert to_text(very_many(control="ranker-07")).count("ranker-07 ") >= 39  # the control's pairs, and its place


def test_the_leaderboard_comes_before_the_pairs_and_counts_them() -> None:
    text = to_text(very_many())
    assert "made fewer errors" not in text
    assert "pairwise_preference made fewer errors" in to_text(replace(very_many(), method="team_draft"))
    lines = text.split("\n")
    (start,) = [place for place, line in enumerate(lines) if line.startswith("ranker ") and "beats" in line]
    assert start < next(place for place, line in enumerate(lines) if line.startswith("comparison "))
    for line in lines[start + 2 : start + 42]:
        assert sum(map(int, line.split()[1:4])) == 39


def test_names_are_short_and_differ() -> None:
    made = Names(["a" * 40 + "x" + "b" * 40, "a" * 40 + "y" + "b" * 40, "a\nb", "a b", "", "\u202e", "א"])
    assert len(set(made.values())) == len(made)
    assert max(map(len, made.values())) <= 40
    assert made["a b"] == "a b (2)"
    assert made["א"] == "\u2068א\u2069"
    assert made[""] == "(no name)"
    assert list(made.values())[:2] == [f"aaaaa…aaaaaaaa{letter}bbbbbbbbb…bbbbbbb" for letter in "xy"]
    assert made.within(f"{'a' * 40}x{'b' * 40} wins\nnow") == f"{'a' * 40}x{'b' * 40} wins now"  # a sentence wraps
    longer = Names(["a" * 90 + "b" * 90])
    assert longer.within(f"{'a' * 90}{'b' * 90} wins") == "aaaaaaaaaaaaaaaaaaa…bbbbbbbbbbbb wins"
    assert len(made.within("z" * 10_000)) == 1201
