"""What is said of new rankers: extreme weights, many rankers, plans, mistakes, and the command."""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from interleaf import DataError, MethodError, RankingError, interleave
from interleaf.cli.log_commands import reuse_options, run_reuse
from interleaf.counterfactual import estimators as robust_module, reuse
from interleaf.counterfactual.reuse_result import ReuseWarning
from interleaf.simulate import People, World, synthetic
from tests.support.log_rows import Row, table_of
from tests.support.reuse_logs import NEW, clean, of, old_log, old_row, warned


@pytest.fixture(autouse=True)
def _few_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robust_module, "MIN_DRAWN", 500)


def test_weights_of_ten_to_the_seventeen_and_more_are_told_and_warned_of() -> None:
    """The new rankers reverse a hundred documents; a list by chance of theirs is nearly impossible for the old."""
    names = [f"d{number}" for number in range(100)]
    old = {"A": names, "B": [*names[1:], names[0]]}
    rows = old_log(30, of=old, k=10)
    reversed_shown = interleave({"A": names[::-1], "B": names[::-1]}, "probabilistic", k=10, key="new")
    documents = [str(document) for document in reversed_shown.documents]
    ranks = [[list(ranking).index(document) + 1 for document in documents] for ranking in old.values()]
    rows[0] |= {"documents": documents, "ranks": ranks, "teams": [0] * 10, "log_probability": None}
    new = {name: {"q": list(reversed(names))} for name in ("x", "y")}
    found = reuse(table_of(rows), new)
    weights = found.weights["PI+IS+MA"]
    assert weights.largest > 1e17
    assert weights.effective == pytest.approx(1)
    (few,) = warned(found, ReuseWarning.FEW_IMPRESSIONS)
    assert few.startswith(
        "Weighted estimates rest on a handful of impressions: 30 impressions carry as much information as 1.0 equally "
        "weighted ones, so do not use them"
    )
    assert warned(found, ReuseWarning.ONE_IMPRESSION) == ["One impression has 100 % of all weight."]
    clean(found)


def test_several_rankers_are_compared_pair_by_pair() -> None:
    new = NEW | {"z": {"q": ["e", "d", "c", "b", "a"]}}
    found = reuse(table_of(old_log()), new)
    assert [(one.first, one.second) for one in found.answers] == [("x", "y"), ("x", "z"), ("y", "z")]
    assert found.scheme == "click"
    assert of(found, "PI+IS").value is None
    values = [one.value or 0 for one in found.answers]
    assert values[0] + values[2] == pytest.approx(values[1])
    for one in found.answers:
        assert one.adjusted_p_value is not None
        assert one.p_value is not None
        assert one.adjusted_p_value >= one.p_value
    binary = reuse(table_of(old_log()), new, scheme="binary")
    assert len(binary.answers) == 3
    clean(binary)


def test_the_plan_of_a_live_experiment_stands_beside_the_answer() -> None:
    world = World(synthetic(queries=20, seed=1), [1, 12], People(units=400), "probabilistic", seed=1)
    found = reuse(pa.Table.from_batches(list(world.batches(1500, rankings=True))), {"A": None, "B": None})
    plan = found.plans["A", "B"]
    assert not isinstance(plan, str)
    assert plan.fixed.effect == pytest.approx(abs(found.answers[0].value or 0) * found.impressions / found.clicked)
    assert f"need {plan.fixed.units:,} people" in str(found)
    assert found.to_markdown().startswith("# Old impressions for new rankers")
    assert "uncertain" not in str(found)


def test_a_plan_for_an_estimate_that_shows_nobody_better_says_so() -> None:
    found = reuse(table_of(old_log()), NEW)
    assert found.answers[0].winner(found.confidence) is None
    assert "no significant difference between x and y" in found.answer[0]
    assert not isinstance(found.plans["x", "y"], str)
    assert "In a live experiment, x against y, if the preference is as large as this uncertain estimate: " in str(found)


def test_a_plan_knows_people_by_lists_that_say_something_of_the_new_rankers() -> None:
    """Lists that they could not show have no score, which is not the same as a score of 0."""
    rows = old_log()
    others = [old_row(number, query="s") for number in range(40, 120)]
    strangers = {name: of_ranker | {"s": ["m", "n", "o"]} for name, of_ranker in NEW.items()}
    of_one = []
    for log, new in ((rows, NEW), ([*rows, *others], strangers)):
        found = reuse(table_of(log), new)
        plan = found.plans["x", "y"]
        assert not isinstance(plan, str)
        own, estimate = of(found, "PI+MA").value or 0, found.answers[0].value or 0
        apart = own * 40 / 30 - estimate * found.impressions / found.clicked  # 30 of 40 have an event
        of_one.append(plan.fixed.variance * plan.fixed.impressions_per_unit - apart**2)
    assert of_one[0] == pytest.approx(of_one[1])


def test_lists_that_say_how_likely_they_were_are_used_whatever_the_method() -> None:
    """New rankers cannot be compared by optimized lists; by the method that can show any list, they can."""
    rows = old_log(method="optimized")
    assert all(row["log_probability"] is not None for row in rows)
    found = reuse(table_of(rows), NEW)
    assert (found.method, found.old_methods) == ("probabilistic", {"optimized": 40})
    assert found.weights["PI+IS+MA"].usable == 1
    clean(found)


def test_mistakes_are_named() -> None:
    table = table_of(old_log(8))
    with pytest.raises(RankingError, match="1 new rankers"):
        reuse(table, {"x": NEW["x"]})
    with pytest.raises(DataError, match="no rankings of a ranker 'C'"):
        reuse(table, {"C": None, "A": None})
    with pytest.raises(DataError, match="rank no query of the log"):
        reuse(table, {"x": {"other": ["a"]}, "y": {"other": ["a"]}})
    with pytest.raises(MethodError, match="clipped at 0"):
        reuse(table, NEW, clip=0)
    with pytest.raises(DataError, match="no interleaved impression"):
        reuse(table, NEW, experiment="none")
    with pytest.raises(DataError, match="5 purchase"):
        reuse(table, NEW, events={"click": 1, "purchase": 5})


def ran(capsys: Any, *arguments: str) -> str:
    parser = argparse.ArgumentParser()
    reuse_options(parser)
    run_reuse(parser.parse_args(arguments))
    return str(capsys.readouterr().out)


def test_the_command_prints_writes_and_refuses(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    pa.parquet.write_table(table_of(old_log()), "old.parquet")
    Path("new.run").write_text("".join(f"q Q0 {d} 0 {-rank} t\n" for rank, d in enumerate("cbade")))
    text = ran(capsys, "old.parquet", "--rankings", "A", "new=new.run", "--out", "out.md")
    assert "A over new" in text
    assert "A over new" in Path("out.md").read_text()
    data = json.loads(ran(capsys, "old.parquet", "--rankings", "A", "new=new.run", "--format", "json", "--seed", "3"))
    assert data["rankers"] == ["A", "new"]
    for wrong in ("new.run", "=new.run", "new=", "A"):
        with pytest.raises((DataError, SystemExit), match=r"--rankings names '\w+' twice|2"):
            ran(capsys, "old.parquet", "--rankings", "A", wrong)
        assert wrong == "A" or f"--rankings: {wrong!r}" in capsys.readouterr().err


def test_nothing_depends_on_the_order_of_batches_or_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = old_log(60)
    whole = reuse(table_of(rows), NEW)
    parts = pa.Table.from_batches([batch for start in (0, 7, 30) for batch in _batches(rows, start)])
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert str(whole) == str(reuse(parts, NEW))


def _batches(rows: list[Row], start: int) -> list[pa.RecordBatch]:
    ends = {0: 7, 7: 30, 30: 60}
    found: list[pa.RecordBatch] = table_of(rows[start : ends[start]]).to_batches()
    return found


def test_the_same_seed_draws_the_same_lists() -> None:
    table = table_of(old_log())
    values = [of(reuse(table, NEW, seed=seed), "PI+DM").value for seed in (1, 1, 2)]
    assert values[0] == values[1] != values[2]
    assert values[0] == pytest.approx(values[2], abs=0.1)
    assert np.isfinite(values[0] or np.nan)
