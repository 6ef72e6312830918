"""The study of sensitivity: exact clicks, moved documents, ratios of traffic, and a small run of the whole study."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from interleaf.clicks import Cascade
from interleaf.kernels.arrays import Array
from interleaf.simulate.data import Judged, synthetic
from interleaf.studies import sensitivity, study
from interleaf.studies.sensitivity_worlds import (
    GROUPS,
    USERS,
    Alone,
    GroupOutcome,
    RankedGroup,
    RankerPool,
    ScoreMoments,
    click_moments,
    draw_clicks,
    move,
    simulate,
    train,
)
from interleaf.studies.study import MissingNumberError, PrintedTables
from interleaf.tables import Table

CLICK, STOP = (0.05, 0.5, 0.95), (0.2, 0.5, 0.9)


@pytest.mark.parametrize("grades", list(product(range(3), repeat=3)))
def test_moments_of_clicks_are_those_of_all_patterns(grades: tuple[int, ...]) -> None:
    names = ["a", "b", "c"]
    patterns = Cascade(CLICK, STOP, grades=dict(zip(names, grades, strict=True))).distribution(names)
    first, second = click_moments(np.array(CLICK)[[grades]], np.array(STOP)[[grades]])
    assert first[0] == pytest.approx(float(sum(share * len(ranks) for ranks, share in patterns.items())))
    assert second[0] == pytest.approx(float(sum(share * len(ranks) ** 2 for ranks, share in patterns.items())))


def test_drawn_clicks_have_the_exact_mean() -> None:
    grades = np.tile([0, 2, 1, 0, 1], (40_000, 1))
    chances, stops = USERS["navigational"].chances(grades, np.zeros(grades.shape), np.zeros(len(grades)), 3)
    counts = draw_clicks(chances, stops, np.random.default_rng(1)).sum(axis=1)
    first, second = click_moments(chances[:1], stops[:1])
    assert abs(counts.mean() - first[0]) < 4 * np.sqrt((second[0] - first[0] ** 2) / len(counts))


def test_people_look_at_lower_ranks_less_and_lean_to_their_taste() -> None:
    grades, sides = np.array([[1, 1, -1]]), np.array([[0.5, -0.5, 0.0]])
    looked, _ = USERS["position-based"].chances(grades, sides, np.zeros(1), 3)
    assert looked.tolist() == [[0.5, 0.25, 0.0]]
    leaning, _ = USERS["lasting tastes"].chances(grades, sides, np.ones(1), 3)
    assert leaning[0, 0] > 0.5 > leaning[0, 1]
    assert leaning[0, 2] == 0


def test_moved_documents_stay_in_the_ranking() -> None:
    rankings = np.array([[3, 1, 0, 2, -1], [0, 1, 2, 3, 4]], np.int32)
    assert (move(rankings, 4, 0.0, 1) == rankings).all()
    moved = move(rankings, 4, 1.0, 1)
    assert (moved != rankings).any()
    assert np.sort(moved[0]).tolist() == [-1, 0, 1, 2, 3]
    assert moved[0, 4] == -1
    assert sorted(moved[1].tolist()) == [0, 1, 2, 3, 4]


def test_similarity_is_the_share_of_places_with_the_same_document() -> None:
    rankings = np.array([[[0, 1, 2], [0, 2, 1]], [[0, -1, -1], [0, -1, -1]]], np.int32)
    pair = RankedGroup("a / b", "features", rankings)
    assert pair.agreement == 0.5
    assert pair.similarity == "50 to 70 %"


def test_a_trained_ranker_takes_the_feature_that_tells_the_grade() -> None:
    data = synthetic(queries=60, features=3, seed=2, strengths=[0.0, 0.8, 0.0])
    weights = train(data, data.feature_ids, 1.0)
    assert weights[2] > 3 * max(abs(weights[1]), abs(weights[3]))


@pytest.fixture(scope="module")
def data() -> Judged:
    return synthetic(queries=40, documents=(5, 20), features=6, grades=3, seed=3)


@pytest.fixture(scope="module")
def pair(data: Judged) -> RankedGroup:
    training = synthetic(queries=40, documents=(5, 20), features=6, grades=3, seed=4)
    return next(group for group in RankerPool(training, data, 1).groups(2, 1) if group.kind == "features")


def test_averaged_credit_expects_the_same_and_varies_less(data: Judged, pair: RankedGroup) -> None:
    people = ("position-based", "lasting tastes")
    for outcome in simulate(data, pair, {"team_draft": ("click", "click_list", "click_place")}, people, 300, 1):
        plain = outcome.scores["team_draft", "click"]
        error = np.sqrt(plain.variance / (300 * len(data) / USERS[outcome.users].visits))
        for scheme in ("click_list", "click_place"):
            mean, variance = outcome.scores["team_draft", scheme]
            assert abs(mean - plain.mean) < 4 * error
            assert variance < plain.variance


def test_rankers_that_agree_have_no_score(data: Judged, pair: RankedGroup) -> None:
    same = replace(pair, rankings=pair.rankings[:, [0, 0]])
    schemes = {"team_draft": ("binary_deduped", "click_place"), "competitive_pairs": ("click",)}
    (outcome,) = simulate(data, same, schemes, ("perfect",), 5, 1)
    assert same.similarity == "85 % and more"
    assert outcome.truth == outcome.clicks == 0
    for mean, variance in outcome.scores.values():
        assert mean == pytest.approx(0)
        assert variance == pytest.approx(0)


PLACE, LIST = ("team_draft", "click_place"), ("team_draft", "click_list")


def outcome_of(pair: RankedGroup, ndcg: tuple[float, float], **means: float) -> GroupOutcome:
    """Scores of variance 1 with these means: today's default, then by place."""
    scores = dict(zip((sensitivity.TODAY, PLACE), means.values(), strict=True))
    scored = {score: ScoreMoments(np.array([mean]), np.ones(1)) for score, mean in scores.items()}
    return GroupOutcome(pair, "perfect", (Alone(2.0, 1.0), Alone(1.0, 1.0)), np.array(ndcg), scored)


@pytest.mark.parametrize(
    ("means", "ratio"),
    [((0.1, 0.2), 0.25), ((0.1, -0.2), np.inf), ((-0.1, 0.2), 0.0), ((-0.1, -0.2), np.nan), ((0.1, 0.0), np.inf)],
)
def test_a_ratio_counts_the_traffic_to_a_right_decision(
    pair: RankedGroup, means: tuple[float, float], ratio: float
) -> None:
    outcome = outcome_of(pair, (0.5, 0.4), today=means[0], place=means[1])
    assert sensitivity.ratios(outcome, PLACE) == pytest.approx(np.array([ratio]), nan_ok=True)
    assert np.isnan(sensitivity.ratios(outcome_of(pair, (0.5, 0.499), today=0.1, place=0.2), PLACE)).all()


def test_an_ab_test_has_two_groups(pair: RankedGroup) -> None:
    outcome = outcome_of(pair, (0.5, 0.4), today=0.1, place=0.5)
    assert outcome.ab_traffic.tolist() == [4.0]  # 2 (1 + 1) / (2 - 1)^2
    assert sensitivity.ab_ratios(outcome, PLACE).tolist() == [pytest.approx(1.0)]
    assert np.isnan(sensitivity.ab_ratios(outcome_of(pair, (0.4, 0.5), today=0.1, place=0.5), PLACE)).all()


def test_the_interval_of_a_median_is_over_pairs(pair: RankedGroup) -> None:
    some = [[outcome_of(pair, (0.5, 0.4), today=0.1, place=0.1 * factor)] for factor in (1, 1.25, 1.5, 1.75, 2)]
    ratio = sensitivity.median_of(sensitivity.ratios, some, PLACE, "key")
    assert ratio is not None
    assert ratio[0] == pytest.approx(1 / 1.5**2)
    assert 0.25 - 1e-9 <= ratio[1] < ratio[0] < ratio[2] <= 1
    assert sensitivity.median_of(sensitivity.ratios, [], PLACE, "key") is None


def printed(**cells: str) -> PrintedTables:
    """Tables of all people and of each kind: the cell of a group, 80 % if it is not given."""
    tables = []
    for users in (None, *USERS):
        columns = ("score", *GROUPS, sensitivity.MIDDLE)
        values = [cells.get(users or "everybody", "80 % [70, 90]") for _ in columns[1:]]
        tables.append(Table("", sensitivity._title(users), columns, (("team_draft click_list", *values),)))
    return PrintedTables(tables)


def test_goals_are_read_from_the_printed_tables() -> None:
    score = "team_draft click_list"
    assert sensitivity.at_most(printed(everybody="65 % [60, 70]"), score, sensitivity.ALIKE, 65)[1]
    assert not sensitivity.at_most(printed(everybody="66 % [60, 70]"), score, sensitivity.MIDDLE, 65)[1]
    assert not sensitivity.at_most(printed(everybody="never % [60, never]"), score, sensitivity.MIDDLE, 90)[1]
    assert sensitivity.never_more(printed(perfect="120 % [99, never]"), score)[1]
    text, holds = sensitivity.never_more(printed(perfect="120 % [101, 140]", informational="-"), score)
    assert not holds
    assert text.startswith("6 of 24 intervals are above; the largest median: 120 % [101, 140] (perfect")
    with pytest.raises(MissingNumberError):
        sensitivity.at_most(printed(), "team_draft click", sensitivity.MIDDLE, 90)


def test_a_small_run_prints_all_tables(monkeypatch: pytest.MonkeyPatch, data: Judged) -> None:
    class Folds:
        def draw_queries(self, count: int, seed: int) -> Judged:
            return data

        def describe(self, part: Judged) -> str:
            return part.name

    def find(folder: Any, seed: int) -> Any:
        return Folds()

    monkeypatch.setattr(sensitivity, "find", find)
    monkeypatch.setitem(sensitivity.SCALES, "quick", sensitivity.SensitivityScale(3, 1, 12, 2))
    result = sensitivity.study(study.StudyRun())
    tables = {table.name: table for table in result.tables}
    assert {f"traffic-{name}" for name in ("all", "perfect", "lasting-tastes")} < set(tables)
    today = tables["traffic-all"].rows[0]
    assert today[0] == "team_draft binary_deduped"
    assert {cell for cell in today[1:] if cell is not None} == {"100 % [100, 100]"}
    assert tables["signs"].rows[0][0] == "A/B on clicks"
    assert sum(int(str(row[1])) for row in tables["pairs"].rows) >= 3
    again: Array = np.array([table.lines() for table in sensitivity.study(study.StudyRun()).tables], object)
    assert again.tolist() == [table.lines() for table in result.tables]
