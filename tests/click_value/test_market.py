"""A market of twelve experiments with known truth: learned credit decides more clearly, and nothing the other way."""

import pyarrow as pa
import pytest

from interleaf.click_value import LearningResult, learn
from interleaf.studies import STUDIES, chapelle2012_learning as study, reproduce
from interleaf.studies.datasets import find
from interleaf.studies.study import StudyRun

SIZE = study.LearningScale(markets=4, experiments=12, units=1500, relabelled=20)


def lesson_of(seed: int) -> LearningResult:
    """People whose first clicks are noisy, and whose dwell follows the grade."""
    found = study.experiments(find(None, seed, 400).whole, SIZE, seed)
    method, scheme, _, _ = study.SETTINGS[0]
    training = study.gather_all(StudyRun(seed=seed), found, method, scheme, SIZE.units)
    return learn(training, folds=0, resamples=1)


@pytest.mark.parametrize("seed", [1, 2])
def test_learned_credit_raises_the_median_z_score_by_15_percent_and_flips_no_decision(seed: int) -> None:
    lesson = lesson_of(seed)
    assert len(lesson.held_out) == 12
    assert sum(one.decided for one in lesson.held_out) >= 10
    assert lesson.median_relative is not None
    assert lesson.median_relative >= 1.15
    assert lesson.flips == 0


def test_the_study_runs_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(study.SCALES, "quick", study.LearningScale(2, 4, 300, 20))
    monkeypatch.setattr(study, "QUERIES", 100)
    assert study.NAME in STUDIES
    found = reproduce(study.NAME)
    summary, held_out, worth, honest, findings = found.tables
    assert findings.rows
    assert len(summary.rows) == len(study.SETTINGS) * (1 + len(study.WAYS))
    assert [row[6] for row in summary.rows if row[2] in ("arXiv", "Yahoo")] == ["0.53", "0.84", "0.64"]
    assert len(held_out.rows) == 4
    assert len(worth.rows) == 9
    assert [row[0] for row in honest.rows][1::2] == ["learned from the same users", "from users before"]
    assert set(found.charts) == {"relative", "worth"}


def test_people_of_another_market_differ_and_those_of_the_same_do_not() -> None:
    data = find(None, 1, 60).whole
    one, again, other = (study.people(data, market, 10) for market in (0, 0, 1))
    assert one == again
    assert one != other
    assert one.dwell[0] < one.dwell[1]


def test_every_experiment_has_people_of_its_own() -> None:
    found = study.experiments(find(None, 1, 100).whole, study.LearningScale(2, 4, 5, 1), 1)
    assert [one.name for one in found] == [
        "market 1/E_A > D_A",
        "market 2/E_A > D_A",
        "market 1/D_Y > A_Y",
        "market 2/D_Y > A_Y",
    ]
    tables = [pa.Table.from_batches(one.world("team_draft", 5, seed).batches()) for seed, one in enumerate(found)]
    assert len({table.num_rows for table in tables}) > 1
