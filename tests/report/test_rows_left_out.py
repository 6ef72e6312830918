"""Rows that a report leaves out are a health check in every output, with their share, the cause and a remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interleaf import log
from interleaf.analysis.analyze import analyze
from interleaf.cli import main
from interleaf.decode.columns import Exclusion
from interleaf.execution.collector import MAX_OTHERS
from interleaf.report.codes import NoteCode
from interleaf.report.model import Check
from interleaf.report.report import Report
from tests.support.log_rows import Row, made_rows, notes_of, table_of

NAMES = {"rankers": ["r0", "r1"]}


def make_rows(count: int = 200) -> list[Row]:
    """Rows of rankers r0 and r1, each of a unit of its own."""
    return [row | NAMES | {"unit": f"u-{number}"} for number, row in enumerate(made_rows(count))]


def spread(rows: list[Row], share: float, change: Row) -> list[Row]:
    """A share of the rows changed, evenly spread."""
    return [
        row | (change if int((number + 1) * share) > int(number * share) else {}) for number, row in enumerate(rows)
    ]


def find_check(report: Report, code: str) -> Check:
    (check,) = [check for check in report.health if check.code == code]
    return check


CAUSES: dict[str, tuple[Row, str, str]] = {
    "rankers": ({"rankers": ["R0", "r1"]}, "rows_other_rankers", "('R0', 'r1')"),
    "method": ({"method": "team_draft(fill=owned)"}, "rows_other_method", "(team_draft(fill=owned))"),
    "version": ({"version": 0}, "rows_other_version", "(0)"),
    "experiment": ({"experiment": "Shop "}, "rows_other_experiment", "('Shop ')"),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_rows_left_out_warn_and_then_fail(cause: str) -> None:
    change, name, which = CAUSES[cause]
    rows = [row | {"experiment": "shop"} for row in make_rows()]
    for share, status in ((0.005, "ok"), (0.03, "warning"), (0.3, "failed")):
        report = analyze(table_of(spread(rows, share, change)), experiment="shop")
        check, number = find_check(report, name), int(200 * share)
        assert (check.status, bool(check.remedy)) == (status, status != "ok")
        assert check.figure.startswith(f"{number} of 200 rows ({100 * share:.2f} %) are left out: {which}: {number}")
        assert report.verdict.trusted == (status != "failed")
        (note,) = notes_of(report, NoteCode.ROWS_LEFT_OUT)
        assert note.endswith(f"{which}, left out: {number}.")


def test_a_version_that_ended_before_the_next_one_warns_and_does_not_fail() -> None:
    """An edit of a running experiment is no fault, and a few late rows of the old version are none."""
    rows = make_rows(400)
    for number, row in enumerate(rows):
        row["version"] = 1 if number < 300 else 2
    rows[350]["version"] = 1
    report = analyze(table_of(rows))
    check = find_check(report, "rows_other_version")
    assert (check.status, report.version, report.verdict.trusted) == ("warning", 2, True)
    assert check.figure.startswith("301 of 400 rows (75.25 %) are left out: (1): 301")
    assert find_check(analyze(table_of(rows[:300])), "rows_used").status == "ok"


def test_every_output_names_the_rows_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.parquet"
    log.write_batches(path, table_of(spread(make_rows(197), 60 / 197, {"rankers": ["R0", "r1"]})).to_batches())
    figure = "60 of 197 rows (30.46 %) are left out: ('R0', 'r1'): 60"
    remedy = "write ranker names the same way in all rows; this report compares r0, r1"
    report = analyze(path)
    for text in (str(report), report.to_markdown()):
        assert figure in text
        assert remedy in text
    plain = json.loads(report.to_json())
    assert [figure, remedy] in [[check["figure"], check["remedy"]] for check in plain["health"]]
    assert not plain["verdict"]["trusted"]
    page = report.to_html().replace("&#39;", "'").replace("&#x27;", "'")
    assert figure in page.replace("\u00a0", " ")
    assert main(["analyze", str(path), "--strict"]) == 1
    assert figure in capsys.readouterr().out


def test_excluded_rows_are_a_check_that_warns_only_when_they_are_most() -> None:
    rows = make_rows(300)
    half = find_check(analyze(table_of(rows), exclude=Exclusion({"device": ["phone"]})), "rows_excluded")
    assert (half.status, half.remedy) == ("ok", "")
    assert half.figure == "150 of 300 rows (50.00 %) are excluded by rules: device = phone: 150"
    units = [f"u-{number}" for number in range(1, 300, 2)][:-1]
    most = Exclusion({"device": ["phone"]}, units=units)
    assert find_check(analyze(table_of(rows), exclude=most), "rows_excluded").status == "warning"


def test_many_causes_are_counted_and_the_largest_are_named() -> None:
    rows = make_rows(200)
    for number in range(40):
        rows[number] |= {"rankers": ["r0", f"candidate {number:02}"]}
    report = analyze(table_of(rows))
    check = find_check(report, "rows_other_rankers")
    assert check.figure.startswith("40 of 200 rows (20.00 %) are left out: others: 30, ('candidate ")
    assert check.figure.endswith(", ...")
    assert len(notes_of(report, NoteCode.ROWS_LEFT_OUT)) == MAX_OTHERS + 1
