"""Lengths of texts: the sums are exact and add up, the report shows means, and a check warns if they differ."""

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from interleaf import LogWriter, analyze, interleave
from interleaf.analysis.analyze import tally_log
from interleaf.report.model import Check
from interleaf.report.report import Report
from interleaf.tally import Tally
from interleaf.tally.tally import reorder
from tests.support.log_rows import Row, loose_table_of, made_row, made_rows, table_of


def expected(rows: Iterable[Row]) -> list[tuple[int, int]]:
    """For each ranker, the owned texts of known length, and their characters."""
    sums = [(0, 0), (0, 0)]
    for row in rows:
        lengths = row.get("characters") or []
        if len(lengths) == len(row["documents"]):
            for owner, length in zip(row["teams"], lengths, strict=True):
                if owner >= 0 and length is not None and length >= 0:
                    texts, characters = sums[owner]
                    sums[owner] = texts + 1, characters + length
    return sums


def found(tally: Tally) -> list[tuple[int, ...]]:
    return [tuple(one) for one in tally.evidence.draws.characters.sum(axis=0).tolist()]


lengths = st.none() | st.lists(st.none() | st.integers(-1, 2**31 - 1), max_size=5)


@given(st.lists(lengths, min_size=2, max_size=8))
def test_the_sums_are_those_of_owned_texts_and_add_up(some: list[Any]) -> None:
    rows = [made_row(number) | {"characters": one} for number, one in enumerate(some)]
    whole = tally_log(loose_table_of(rows))
    assert found(whole) == expected(rows)
    parts = [tally_log(loose_table_of(part)) for part in (rows[:1], rows[1:])]
    total = parts[0] + parts[1]
    assert (total.evidence.draws.characters == whole.evidence.draws.characters).all()
    assert found(reorder(whole, ["B", "A"])) == expected(rows)[::-1]


def test_a_saved_tally_has_the_lengths(tmp_path: Path) -> None:
    tally = tally_log(table_of([row | {"characters": [3, 1, 4, 1]} for row in made_rows(20)]))
    tally.save(tmp_path / "a.tally")
    assert (
        found(Tally.load(tmp_path / "a.tally"))
        == found(tally)
        == expected(row | {"characters": [3, 1, 4, 1]} for row in made_rows(20))
    )


def report_of(factor: float, spread: float, units: int = 300, rows: int = 900) -> Report:
    """A log in which the texts of the second ranker are longer by a factor."""
    draw = Random(3)
    made = []
    for number in range(rows):
        row = made_row(number, (1,), unit=f"u-{number % units}")
        row["characters"] = [
            round(500 * (factor if one else 1) * draw.uniform(1 - spread, 1 + spread)) for one in row["teams"]
        ]
        made.append(row)
    return analyze(table_of(made))


def check_of(report: Report) -> Check | None:
    return next((check for check in report.health if check.code == "passage_lengths"), None)


@pytest.mark.parametrize(
    ("factor", "spread", "units", "status"),
    [
        (1.0, 0.5, 300, "ok"),
        (1.05, 0.1, 300, "ok"),  # significant, but small
        (1.5, 0.5, 300, "warning"),
        (0.6, 0.5, 300, "warning"),
        (1.5, 0.0, 300, "warning"),  # passages cut at exactly 500 and 750 characters
        (1.0, 0.0, 300, "ok"),
        (1.5, 0.5, 5, "skipped"),
    ],
)
def test_the_check_warns_if_lengths_differ(factor: float, spread: float, units: int, status: str) -> None:
    report = report_of(factor, spread, units)
    check = check_of(report)
    assert check is not None
    assert (check.status, bool(check.remedy)) == (status, status == "warning")
    first, second = (row.mean_characters for row in report.neutrality)
    assert first is not None
    assert second == pytest.approx(factor * first, rel=0.05)
    assert "mean characters" in report.to_markdown()


def test_chance_does_not_warn() -> None:
    """Lengths that vary a lot in few lists: means differ by more than 10 %, and chance explains it."""
    made, draw = [], Random(5)
    for number in range(60):
        row = made_row(number, (1,), unit=f"u-{number}")
        made.append(row | {"characters": [round(draw.lognormvariate(6, 2)) for _ in row["teams"]]})
    report = analyze(table_of(made))
    first, second = (row.mean_characters or 0.0 for row in report.neutrality)
    assert max(first, second) > 1.1 * min(first, second)
    check = check_of(report)
    assert check is not None
    assert check.status == "ok"


def test_a_log_without_lengths_has_neither_check_nor_column() -> None:
    report = analyze(table_of(made_rows(60)))
    assert check_of(report) is None
    assert {row.mean_characters for row in report.neutrality} == {None}
    assert "mean characters" not in report.to_markdown()


def test_the_lengths_of_a_further_page_count(tmp_path: Path) -> None:
    rankings = {"A": list("abcdef"), "B": list("badcfe")}
    with LogWriter(tmp_path, experiment="pages") as writer:
        shown, longer = (interleave(rankings, "team_draft", k=k, key="user-7") for k in (2, 4))
        name = writer.impression(shown, characters=[1, 1], page=1)
        writer.next_page(name, longer, characters=[1, 1, 2, 2])
    texts, characters = (sum(column) for column in zip(*found(tally_log(tmp_path)), strict=True))
    assert (texts, characters) == (4, 6)
