"""Worlds whose truth about captions is known: the diagnosis is right, and the study holds together."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from interleaf.caption_bias import caption
from interleaf.caption_bias.diagnosis_report import CAUSES, EXPLAINED, verdict
from interleaf.caption_bias.logistic_model import ODDS, PROBABILITY
from interleaf.simulate.data import synthetic
from interleaf.studies import caption2012, reproduce
from interleaf.studies.caption2012 import CASES, CaptionScale, Case, mirror

PRETTIER, UNHEEDED, ALIKE, NOTHING, PLAINER = CASES
IMPRESSIONS = 4000
SEEDS = range(1000, 1100)


def test_a_mirrored_world_has_rankers_that_are_exactly_as_good() -> None:
    truth = PRETTIER.world(1).truth
    relevance = [appeal - effect for appeal, effect in zip(truth.appeal, truth.caption_effect, strict=True)]
    relevance = [appeal - effect for appeal, effect in zip(relevance, truth.taste_effect, strict=True)]
    assert relevance[0] == pytest.approx(relevance[1], rel=0.01)  # ties are broken by chance
    assert truth.caption_effect[0] - truth.caption_effect[1] > 0.1
    data = synthetic(queries=3, documents=4, features=2, seed=1)
    twice = mirror(data)
    assert len(twice) == 6
    assert (twice.features[12:] == data.features[:, ::-1]).all()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_diagnosis_is_right(case: Case, seed: int) -> None:
    report = caption(case.log(seed, IMPRESSIONS))
    assert report.verdicts[0].kind in case.right


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_diagnosis_is_right_in_95_of_100_worlds(case: Case) -> None:
    kinds = [caption(case.log(seed, IMPRESSIONS)).verdicts[0].kind for seed in SEEDS]
    assert sum(kind in case.right for kind in kinds) >= 95, kinds


def test_a_ranker_that_only_finds_prettier_captions_wins_before_and_not_after() -> None:
    """Of five worlds, A wins every one as clicked, and none by more than the level once captions are alike."""
    found = [caption(PRETTIER.log(seed, IMPRESSIONS)).rescored[0] for seed in range(50, 55)]
    assert all(one.plain.value > 0 and one.plain.p_value < 1e-6 for one in found)  # type: ignore[operator]
    after = [one.weighted[PROBABILITY] for one in found]
    assert sum(one.value > 0 and one.p_value <= 0.05 for one in after) <= 2  # type: ignore[operator]
    assert abs(np.mean([one.value for one in after])) < 0.03


def test_weights_by_odds_take_too_much_away_where_clicks_are_likely() -> None:
    """The paper's weights prefer B in worlds where both are as good: the reason for the other kind."""
    found = [caption(PRETTIER.log(seed, IMPRESSIONS, "navigational")).rescored[0] for seed in range(2)]
    assert all(one.weighted[ODDS].value < -0.03 for one in found)  # type: ignore[operator]
    assert all(verdict(one, PROBABILITY).kind == EXPLAINED for one in found)


def test_without_judgments_planted_bias_is_still_found() -> None:
    report = caption(PRETTIER.log(5, IMPRESSIONS, judged=False))
    assert report.verdicts[0].kind == EXPLAINED
    assert not report.model.is_judged


WORSE = replace(UNHEEDED, strengths=UNHEEDED.strengths[::-1])


@pytest.mark.parametrize("case", [UNHEEDED, NOTHING, WORSE], ids=["better", "as good", "worse"])
@pytest.mark.parametrize("seed", [2009, 2019])
def test_without_judgments_captions_that_nobody_heeds_are_not_named(case: Case, seed: int) -> None:
    """A better ranker was called partly explained at both seeds."""
    assert caption(case.log(seed, IMPRESSIONS, judged=False)).verdicts[0].kind not in CAUSES


@pytest.mark.slow
def test_without_judgments_a_cause_is_named_where_it_is_planted_and_else_in_less_than_5_of_100_worlds() -> None:
    named = {
        case.name: sum(caption(case.log(seed, IMPRESSIONS, judged=False)).verdicts[0].kind in CAUSES for seed in SEEDS)
        for case in (UNHEEDED, NOTHING, PRETTIER)
    }
    assert named[UNHEEDED.name] < 5
    assert named[NOTHING.name] < 5
    assert named[PRETTIER.name] == len(SEEDS)


def test_planted_weights_are_found() -> None:
    """Each level of a caption adds half a unit to the logit where it is read; unread results make it less."""
    model = caption(PRETTIER.log(3, 8000)).model
    weights = {one.name: one.weight for one in model.weights}
    wanted = {"short title": -0.5, "long title": 0.5, "short snippet": -0.5, "long snippet": 0.5}
    for name, weight in wanted.items():
        assert 0.5 < weights[name] / weight < 1.15, name


@pytest.mark.slow
def test_the_study_holds_the_published_numbers_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(caption2012.SCALES, "quick", CaptionScale(1, 1500, 2000))
    seen: list[tuple[int, int]] = []
    study = reproduce("caption2012", None, "quick", 1, lambda done, total: seen.append((done, total)))
    tables = {table.name: table for table in study.tables}
    assert seen[-1] == (10, 10)
    assert [row[0] for row in tables["diagnoses"].rows[::2]] == [case.name for case in CASES]
    assert all(row[-2] in ("0 of 1", "1 of 1") for row in tables["diagnoses"].rows)
    assert tables["scores"].rows[0][-1] == caption2012.E4
    assert tables["world-preferences"].rows[-1][-1] == "47 / 0 / 39"
    written = study.write(tmp_path)
    assert {path.suffix for path in written} == {".md", ".csv", ".svg", ".png", ".json"}
