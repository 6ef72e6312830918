"""Learning from logs: who is taken for better, what is left out and why, files that come back, and never a nan."""

import json
import math
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from interleaf import DataError, SchemeError, analyze
from interleaf.cli.log_commands import learn_options, run_learn
from interleaf.click_value import FEATURES, ClickFeature, LearnedCredit, TrainingSums, gather, learn
from interleaf.click_value.click_features import PUBLISHED
from interleaf.click_value.credit_fitting import LearningNote
from interleaf.report.codes import NoteCode
from interleaf.simulate import People, World, synthetic
from tests.support.log_rows import made_row, made_rows, notes_of, table_of

DATA = synthetic(queries=60, seed=1)


def world(name: str, rankers: Sequence[int] = (1, 12), seed: int = 0, units: int = 300, **more: Any) -> Any:
    people = People(units=units, clicks="informational", taste_spread=0.0)
    named = {"good": rankers[0], "weak": rankers[1]}
    made = World(DATA, named, people, "team_draft", seed=seed, experiment=name, **more)
    return pa.Table.from_batches(list(made.batches(threads=1)))


@pytest.fixture(scope="module")
def training() -> TrainingSums:
    tables = [world("one", seed=1), world("two", seed=2), world("three", (2, 14), seed=3)]
    return gather(pa.concat_tables(tables))


def figures(found: Any) -> list[float]:
    """All numbers in plain data."""
    if isinstance(found, dict):
        return [number for value in found.values() for number in figures(value)]
    if isinstance(found, list | tuple):
        return [number for value in found for number in figures(value)]
    return [found] if isinstance(found, float) else []


def check(lesson: Any) -> None:
    """Whatever was learned, no figure is nan or infinite, and it can be shown."""
    assert all(map(math.isfinite, figures(lesson.to_dict())))
    text = str(lesson) + lesson.to_markdown() + json.dumps(lesson.to_dict(), allow_nan=False)
    assert "nan" not in text.lower().replace("navigational", "")
    again = LearnedCredit.from_dict(json.loads(json.dumps(lesson.credit.to_dict())))
    assert again.to_dict() == lesson.credit.to_dict()
    assert again.digest == lesson.credit.digest


def test_what_is_learned_from_several_experiments_helps_on_each_that_was_left_out(training: TrainingSums) -> None:
    lesson = learn(training)
    check(lesson)
    assert [one.experiment for one in lesson.held_out] == ["one", "three", "two"]
    assert all(one.better == "good" and one.decided for one in lesson.held_out)
    assert lesson.median_relative is not None
    assert lesson.median_relative > 1
    assert lesson.flips == 0
    assert f"{lesson.median_relative:.2f} times the z-score" in lesson.sentence
    worths = {worth.click: worth for worth in lesson.worths}
    long, short = worths["the only click, at rank 1, for 150 s"], worths["the only click, at rank 1, for 10 s"]
    assert long.interval[0] > short.interval[1]
    assert all(low <= high for low, high in (worth.interval for worth in lesson.worths))
    assert set(lesson.charts()) == {"worth", "weights"}


def test_every_reason_of_dropped_rows_is_told_also_if_two_have_the_same_number(training: TrainingSums) -> None:
    dropped = Counter({"no_id": 5, "wrong_value:teams": 5, "not_two_rankers:'wide' compares 3": 5})
    lesson = learn(replace(training, dropped=dropped))
    assert [note.code for note in lesson.left_out] == ["no_id", "wrong_value", LearningNote.NOT_TWO_RANKERS]
    assert lesson.left_out[-1].text == "5 rows: experiment 'wide' compares 3 rankers; learning takes two"


def test_the_better_ranker_is_the_named_one_else_the_one_that_equal_credit_decides_for(training: TrainingSums) -> None:
    named = learn(training, {"one": "weak", "two": "good"}, folds=0)
    assert {(one.experiment, one.better) for one in named.credit.trained_on} == {
        ("one", "weak"),
        ("two", "good"),
        ("three", "good"),
    }
    only = gather(world("one", seed=1))
    one, other = (learn(only, {"one": who}, ridge=0.01, folds=0).credit for who in ("good", "weak"))
    assert one.weights == pytest.approx([-weight for weight in other.weights])
    for better, message in (
        ({"one": "best"}, "compares 'good' and 'weak'"),
        ({"four": "good"}, "'four'; the log holds"),
    ):
        with pytest.raises(DataError, match=message):
            learn(training, better)


def test_the_order_of_rankers_in_a_log_changes_nothing() -> None:
    rows = made_rows(40)
    turned = [
        row
        | {
            "rankers": row["rankers"][::-1],
            "ranks": row["ranks"][::-1],
            "lengths": row["lengths"][::-1],
            "rankings": row["rankings"][::-1],
            "teams": [1 - team if team >= 0 else team for team in row["teams"]],
        }
        for row in rows
    ]
    (one,), (other,) = (gather(table_of(some)).pairs.values() for some in (rows, turned))
    both = gather(table_of([*rows[:20], *turned[20:]])).pairs
    assert np.abs(one.sums).sum() > 0
    for found in (other, *both.values()):
        assert found.sums == pytest.approx(one.sums, abs=1e-12)
        assert found.products == pytest.approx(one.products, abs=1e-12)


def test_one_experiment_alone_is_learned_from_and_nothing_is_said_of_others() -> None:
    lesson = learn(world("one", seed=1))
    check(lesson)
    assert lesson.median_relative is None
    assert lesson.sentence == "Whether learned credit helps is unknown: no other experiment to learn from."
    assert lesson.ridges  # cross-validated over parts of its users


def test_an_undecided_experiment_is_left_out_of_learning_but_not_of_the_check(training: TrainingSums) -> None:
    even = world("even", (5, 5), seed=4)
    lesson = learn(training + gather(even))
    check(lesson)
    assert "even" not in {trained.experiment for trained in lesson.credit.trained_on}
    (left_out,) = lesson.left_out
    assert left_out.code == LearningNote.UNDECIDED
    assert left_out.text.startswith("experiment 'even', version 1: undecided by equal credit (p = ")
    assert "even" in {one.experiment for one in lesson.held_out}
    with pytest.raises(DataError, match=r"nothing to learn from: experiment 'even'.* undecided"):
        learn(even)


def test_logs_that_cannot_be_learned_from_say_why() -> None:
    silent = [made_row(number, ()) for number in range(30)]
    with pytest.raises(DataError, match=r"nothing to learn from.*no page with a click"):
        learn(table_of(silent))
    many = [made_row(number, of=3) for number in range(30)]
    with pytest.raises(DataError, match=r"compares 3 rankers; learning takes two \(30 rows\)"):
        learn(table_of(many))
    with pytest.raises(SchemeError, match="takes a normalized scheme, not 'binary'"):
        learn(table_of(made_rows()), scheme="binary")
    for options, message in (
        ({"ridge": -1}, "ridge is -1"),
        ({"folds": 65}, "folds is 65"),
        ({"ridge_on": ["x"]}, "'x'"),
    ):
        with pytest.raises(DataError, match=message):
            learn(table_of(made_rows()), {"shop": "A"}, **options)


def test_perfect_separation_gives_finite_weights_and_features_that_never_vary_a_reason() -> None:
    rows = []
    for number in range(60):
        row = made_row(number, ())
        rows.append(made_row(number, (row["teams"].index(0) + 1,), unit=f"u-{number}"))
    lesson = learn(table_of(rows), {"shop": "A"}, scheme="normalized")
    check(lesson)
    weights = {weight.feature: weight for weight in lesson.weights}
    for name in ("dwell_30", "regression", "several_rank_1", "single_rank_10"):
        assert weights[name].weight is None
        assert weights[name].reason.startswith("never varies")
    assert weights["click"].weight is not None


def test_groups_are_left_out_together(training: TrainingSums) -> None:
    alone = learn(training, folds=0, ridge=0.1)
    together = learn(training, folds=0, ridge=0.1, groups={"one": "market", "two": "market"})
    named = learn(training, folds=0, ridge=0.1, groups=lambda name: "market" if name != "three" else name)
    assert together.held_out == named.held_out
    assert [one.group for one in together.held_out] == ["market", "market", "three"]
    by_name = {one.experiment: one for one in alone.held_out}
    for one in together.held_out:
        assert (one.learned == by_name[one.experiment].learned) == (one.experiment == "three")


def test_a_ridge_on_some_features_leaves_the_others_free(training: TrainingSums) -> None:
    names = training.features
    found = learn(training, ridge=1e9, ridge_on=[name for name in names if not name.startswith("dwell")], folds=0)
    weights = dict(zip(names, found.credit.weights, strict=True))
    assert abs(weights["dwell_30"]) > 0.01
    assert max(abs(weights[name]) for name in names if not name.startswith("dwell")) < 1e-6


def test_sums_come_back_from_a_file_add_up_and_are_learned_from(training: TrainingSums, tmp_path: Path) -> None:
    tables = [world("one", seed=1), world("two", seed=2), world("three", (2, 14), seed=3)]
    paths = [tmp_path / f"{number}.sums" for number in range(3)]
    for table, path in zip(tables, paths, strict=True):
        gather(table).save(path)
    added = learn(paths, ridge=0.1, folds=0).credit
    whole = learn(training, ridge=0.1, folds=0).credit
    assert added.weights == pytest.approx(whole.weights, rel=1e-6, abs=1e-9)
    assert added.trained_on == whole.trained_on
    halves = gather(tables[0].slice(0, 200)) + gather(tables[0].slice(200))
    (pair,) = halves.pairs
    assert halves.pairs[pair].products == pytest.approx(training.pairs[pair].products, rel=1e-12)
    other = gather(tables[0], ["rank"])
    with pytest.raises(DataError, match="their features differ"):
        other + training
    with pytest.raises(DataError, match="sums and logs cannot be mixed"):
        learn([paths[0], tmp_path / "log.parquet"])
    with pytest.raises(DataError, match="counted already; leave out 'scheme'"):
        learn(paths, scheme="normalized")
    (tmp_path / "bad.sums").write_bytes(b"nothing")
    with pytest.raises(DataError, match="holds no sums of clicks"):
        learn(tmp_path / "bad.sums")


def test_own_features_are_learned_and_a_file_with_them_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ClickFeature("quick", "own", "within ten seconds", lambda clicks: clicks.seconds < 10)
    monkeypatch.setitem(FEATURES, own.name, own)
    credit = learn(world("one", seed=1), features=[*PUBLISHED, "quick"]).credit
    assert credit.features == ("click", *PUBLISHED, "quick")
    stored = credit.to_dict()
    monkeypatch.delitem(FEATURES, own.name)
    with pytest.raises(DataError, match="unknown feature 'quick'"):
        LearnedCredit.from_dict(stored)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "caption model"}, "is not a learned credit"),
        ({"version": 99}, "version 99; this interleaf reads 1"),
        ({"weights": [1.0]}, "need as many finite weights"),
        ({"ridge": "much"}, "something missing or wrong"),
        ({"counting": {"kinds": "click", "unknown": 1}}, "something missing or wrong"),
    ],
)
def test_a_file_that_is_not_right_says_what_is_wrong(training: TrainingSums, change: Any, message: str) -> None:
    data = learn(training, folds=0, resamples=1).credit.to_dict()
    with pytest.raises(DataError, match=message):
        LearnedCredit.from_dict(data | change, "credit.json")


def test_the_command_learns_and_analyze_uses_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, seed in (("us/a", 1), ("us/b", 2), ("de/a", 3), ("fr/a", 5)):
        World(
            DATA, {"good": 1, "weak": 12}, People(units=300, clicks="informational"), seed=seed, experiment=name
        ).write(f"{name.replace('/', '-')}.parquet")
    parser = ArgumentParser()
    learn_options(parser)
    files = ["us-a.parquet", "us-b.parquet", "de-a.parquet"]
    options = "--groups / --better us/a=good --out credit.json --out all.sums --out learned.md --out worth.svg"
    run_learn(parser.parse_args([*files, *options.split()]))
    assert "times the z-score of equal credit" in capsys.readouterr().out
    assert Path("learned.md").read_text().startswith("On experiments")
    assert "<svg" in Path("worth.svg").read_text()
    report = analyze("fr-a.parquet", credit="credit.json")
    assert report.scheme.startswith("learned ")
    assert report.scheme.endswith(" on normalized")
    (note,) = notes_of(report, NoteCode.LEARNED_CREDIT)
    assert "was not used to learn that" in note
    assert report.comparisons[0].estimate == pytest.approx(
        analyze("fr-a.parquet", credit=LearnedCredit.load("credit.json")).comparisons[0].estimate
    )
    run_learn(parser.parse_args(["all.sums", "--format", "json", "--ridge", "0.1"]))
    assert json.loads(capsys.readouterr().out)["credit"]["ridge"] == 0.1
    with pytest.raises(SystemExit):
        parser.parse_args(["all.sums", "--better", "good"])
    assert "--better: 'good' has another form than EXPERIMENT=RANKER" in capsys.readouterr().err
