"""What is refused or doubted of old logs: broken rankings and probabilities, changed rankers, sparse logs."""

import argparse
from typing import Any

import pyarrow as pa
import pytest

from interleaf import DataError
from interleaf.cli.log_commands import reuse_options
from interleaf.counterfactual import estimators as robust_module, reuse
from interleaf.counterfactual.old_log import BROKEN, NO_LOGARITHM
from interleaf.counterfactual.reuse_result import ReuseWarning
from tests.support.log_rows import Row, table_of
from tests.support.reuse_logs import NEW, clean, of, old_log, old_row, warned

CHANGED = {"A": ("e", "d", "c", "b", "a"), "B": ("b", "c", "a", "e", "d")}


@pytest.fixture(autouse=True)
def _few_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robust_module, "MIN_DRAWN", 500)


def raw_table(rows: list[Row], name: str) -> pa.Table:
    """A table with a column as it is, which our own writer would refuse in part."""
    table = table_of([row | {name: None} for row in rows])
    field = table.schema.field(name)
    return table.set_column(
        table.schema.get_field_index(name), field, pa.array([row[name] for row in rows], field.type)
    )


@pytest.mark.parametrize("broken", [None, ["a", None, "b", "c", "d"], ["a", "b", "c", "d", "a"]])
def test_broken_rankings_are_not_borrowed_and_their_rows_counted(broken: Any) -> None:
    rows = old_log(20)
    whole = [list(ranking) for ranking in rows[0]["rankings"]]
    for row in rows[:3]:
        row["rankings"] = [broken, whole[1]]
    table = raw_table(rows, "rankings")
    found = reuse(table, {"A": None, "x": NEW["x"]})
    assert found.dropped == {BROKEN.format("A"): 3}
    assert found.impressions == 17
    assert str(found.answers) == str(reuse(table_of(rows[3:]), {"A": None, "x": NEW["x"]}).answers)
    assert reuse(table, {"B": None, "x": NEW["x"]}).impressions == 20
    with pytest.raises(DataError, match=r"can be used \(a logged ranking of 'A' .* twice: 3\)"):
        reuse(table.slice(0, 3), {"A": None, "x": NEW["x"]})


@pytest.mark.parametrize("wrong", [1e-6, 0.25, float("inf"), float("-inf"), float("nan")])
def test_a_logged_probability_above_one_or_not_finite_is_none(wrong: float) -> None:
    rows = old_log(20)
    rows[0]["log_probability"] = wrong
    rows[1]["log_probability"] = 1e-12  # rounding
    found = reuse(raw_table(rows, "log_probability"), NEW)
    assert found.dropped == {NO_LOGARITHM: 1}
    assert found.impressions == 19
    clean(found)


def test_a_log_without_a_usable_row_says_what_became_of_its_rows() -> None:
    rows = old_log(9)
    for number, row in enumerate(rows):
        row |= {"log_probability": 3.0} if number % 3 else {"query": None}
    with pytest.raises(DataError, match=rf"can be used \({NO_LOGARITHM}: 6; no query: 3\)"):
        reuse(table_of(rows), NEW)
    with pytest.raises(DataError, match="would never show: 4"):
        reuse(table_of([row | {"log_probability": -5000.0} for row in old_log(4)]), NEW)


def changed_log(version: int) -> list[Row]:
    rows = [old_row(number, (1,), of=CHANGED, version=version) for number in range(20, 40)]
    return [*old_log(20), *rows]


def test_a_ranker_that_differs_between_versions_is_not_guessed() -> None:
    rows = changed_log(version=2)
    for table in (table_of(rows), table_of(rows[::-1])):
        with pytest.raises(DataError, match=r"ranker 'A' ranks query 'q' .* version 2 of 'old'.*--version"):
            reuse(table, {"A": None, "x": NEW["x"]})
        assert reuse(table, {"B": None, "x": NEW["x"]}).impressions == 40
        assert reuse(table, {"A": None, "x": NEW["x"]}, version=2).impressions == 20


def test_a_ranker_that_changed_within_a_version_is_told() -> None:
    found = reuse(table_of(changed_log(version=1)), {"A": None, "B": None})
    told = "The rankings of A changed within the log for 1 of 1 queries; the first ranking of each is used."
    assert warned(found, ReuseWarning.RANKINGS_CHANGED) == [told]


def test_an_answer_from_a_small_share_of_the_log_says_so() -> None:
    rows = [*old_log(20), *[old_row(number, query="other") for number in range(20, 60)]]
    found = reuse(table_of(rows), NEW)
    (told,) = warned(found, ReuseWarning.MANY_NOT_RANKED)
    assert told.startswith("This result rests on 20 of 60 impressions. ")
    assert "From 20 old impressions (20 by probabilistic)" in str(found)
    assert not warned(reuse(table_of(rows[:30]), NEW), ReuseWarning.MANY_NOT_RANKED)


def test_documents_that_the_log_never_shows_get_no_answer() -> None:
    strangers = {"x": {"q": ["m", "n", "o"]}, "y": {"q": ["o", "n", "m"]}}
    found = reuse(table_of(old_log()), strangers)
    assert {one.value for one in found.estimates} == {None}
    assert found.answer == [
        "Nothing can be said of x and y: the log shows none of the documents that the new rankers would."
    ]
    assert not warned(found, ReuseWarning.SPARSE_QUERIES)
    assert not any("click model" in warning.text for warning in found.warnings)
    clean(found)


def test_a_sparse_log_is_not_given_confidence() -> None:
    """Two impressions a query, against all of the same query."""
    queries = {name: {f"q{number}": ranking["q"] for number in range(20)} for name, ranking in NEW.items()}
    rows = [row | {"query": f"q{number // 2}"} for number, row in enumerate(old_log(40))]
    sparse, dense = reuse(table_of(rows), queries), reuse(table_of(old_log(40)), NEW)
    assert "for random error alone: the log has too little data" in sparse.answer[0]
    assert "with 95 % confidence" not in sparse.answer[0]
    assert warned(sparse, ReuseWarning.SPARSE_QUERIES) == ["2.0 impressions per query are few to fit a click model to."]
    assert "with 95 % confidence, by PI+DR." in dense.answer[0]
    assert not dense.doubt


def test_of_many_pairs_it_says_what_interval_and_decision_are_of() -> None:
    three = NEW | {"z": {"q": ["e", "d", "c", "b", "a"]}}
    told = "(an interval of this pair alone; who wins is decided over all 3, by Holm)."
    assert all(sentence.endswith(told) for sentence in reuse(table_of(old_log()), three).answer)
    assert "Holm" not in reuse(table_of(old_log()), NEW).answer[0]


def test_a_plan_takes_old_scores_about_the_estimate_not_about_their_own_mean() -> None:
    found = reuse(table_of(old_log()), NEW)
    plan = found.plans["x", "y"]
    assert not isinstance(plan, str)
    share = found.clicked / found.impressions
    apart = (of(found, "PI+MA").value or 0) / share - (found.answers[0].value or 0) / share
    assert plan.fixed.variance * plan.fixed.impressions_per_unit > apart**2 > 0
    assert "expect up to twice as many units" in str(found)


def test_the_help_is_of_this_command() -> None:
    parser = argparse.ArgumentParser()
    reuse_options(parser)
    text = " ".join(parser.format_help().split())
    for told in (
        "--version VERSION version of the experiment to read (default: all)",
        "compare the new rankers by (default: the method that made most lists)",
        "all with the same weight",
    ):
        assert told in text
    for wrong in ("purchase=5", "the latest", "KIND[=WEIGHT]"):
        assert wrong not in text
