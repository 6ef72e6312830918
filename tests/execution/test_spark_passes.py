"""On Spark, caption models, reused logs and learned credit come out as on this machine, but for the last digits."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from interleaf import tally_log
from interleaf.caption_bias import caption
from interleaf.click_value import learn
from interleaf.click_value.learn import gather
from interleaf.counterfactual import estimators as robust_module, reuse
from interleaf.execution.options import LogOptions
from interleaf.simulate.data import synthetic
from interleaf.simulate.people import People
from interleaf.simulate.world import World
from tests.support.spark_sessions import MARKS, written
from tests.tally.test_tally import check_same

pytestmark = MARKS
DATA = synthetic(queries=40, features=3, strengths=[0.5, 0.5, 0.2], seed=1)


def rows_of(method: str = "team_draft", **columns: bool) -> Any:
    """Some rows come twice; in the second half, the rankers are named in the other order."""
    people = People(units=300, clicks="realistic", caption_strength=1.5, caption_lean=1)
    worlds = [World(DATA, rankers, people, method, k=5, seed=3) for rankers in ([1, 2], [2, 1])]
    first, second = (pa.Table.from_batches(list(world.batches(**columns))) for world in worlds)
    turned = pa.array([["B", "A"]] * second.num_rows, second.schema.field("rankers").type)
    second = second.set_column(second.schema.get_field_index("rankers"), second.schema.field("rankers"), turned)
    ids = pa.array([f"second-{number}" for number in range(second.num_rows)])
    second = second.set_column(second.schema.get_field_index("impression"), second.schema.field("impression"), ids)
    return pa.concat_tables([first, first.slice(5, 9), second])


def check_close(there: Any, here: Any, where: str = "") -> None:
    """Texts, whole numbers and Nones are the same; floats differ in their last digits at most."""
    if isinstance(here, dict):
        assert list(there) == list(here), where
        for name in here:
            check_close(there[name], here[name], f"{where}/{name}")
    elif isinstance(here, list | tuple):
        assert len(there) == len(here), where
        for place, (one, other) in enumerate(zip(there, here, strict=True)):
            check_close(one, other, f"{where}/{place}")
    elif isinstance(here, float):
        np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-12, err_msg=where)
    else:
        assert there == here, where


def test_learned_credit_comes_from_the_same_moments_and_scores_alike(session: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "log", rows_of(), 200)
    here, there = gather(path), gather(path, options=LogOptions(engine="spark"))
    assert here.pairs.keys() == there.pairs.keys()
    assert here.dropped == there.dropped
    for pair, moments in here.pairs.items():
        for name, values in vars(moments).items():
            np.testing.assert_allclose(getattr(there.pairs[pair], name), values, rtol=1e-12, atol=1e-12)
    credit = learn(here, {next(iter(here.pairs)).experiment: "A"}, folds=2).credit
    check_same(tally_log(path, credit=credit, engine="spark"), tally_log(path, credit=credit))


def test_a_diagnosis_of_captions_is_the_one_made_here_and_its_models_to_the_bit(session: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "log", rows_of(captions=True), 200)
    here, there = caption(path), caption(path, engine="spark")
    assert here.dropped["repeated_impression"] == 9
    assert there.models == here.models
    check_close(there.to_dict(), here.to_dict())


def old_log(folder: Path, method: str = "probabilistic") -> Path:
    return written(folder / "log", rows_of(method, rankings=True), 200)


NEW = {"A": None, "C": lambda query: [f"q{query}-d{number}" for number in range(9, 0, -1)]}


def test_old_lists_say_on_spark_what_they_say_here(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robust_module, "MIN_DRAWN", 500)
    path = old_log(tmp_path)
    here = reuse(path, NEW)
    assert here.answers[0].estimator == "PI+DR"
    assert here.dropped["repeated_impression"] == 9
    check_close(reuse(path, NEW, engine="spark").to_dict(), here.to_dict())


def test_what_drafts_could_not_show_is_the_same_on_spark(session: Any, tmp_path: Path) -> None:
    path = old_log(tmp_path, "team_draft")
    here = reuse(path, NEW)
    assert here.answers[0].estimator == "TD+IS"
    assert here.supported is not None
    check_close(reuse(path, NEW, engine="spark").to_dict(), here.to_dict())


@pytest.mark.slow
def test_old_lists_of_a_data_frame_say_the_same_in_whatever_order(session: Any, tmp_path: Path) -> None:
    path = old_log(tmp_path)
    frame = session.read.parquet(str(path)).repartition(2)
    check_close(reuse(frame, NEW).to_dict(), reuse(path, NEW).to_dict())
