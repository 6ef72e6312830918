"""The study of dueling bandits: worlds and runs with a known answer, and a small run of the whole study."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from interleaf.clicks import find_cascade
from interleaf.dueling_bandits import ALGORITHMS, DuelingBandit
from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.simulate.data import Judged, synthetic
from interleaf.simulate.rankers import rank, scores_of
from interleaf.studies import bandits, bandits_runs, study
from interleaf.studies.bandits_runs import (
    COIN,
    HALF,
    NOT_COUNTED,
    BanditRun,
    PreferenceWorld,
    Schedule,
    compare_with_later,
    draw_outcomes,
    judged_world,
    matrix_of,
    simulate,
    synthetic_world,
)
from interleaf.studies.study import PrintedTables
from interleaf.tables import Table
from tests.oracles import clicks, competitive_pairs

# Ranker 0 beats both others, ranker 1 beats ranker 2.
ORDERED = np.array([[0.0, 0.5, 0.3], [0.2, 0.0, 0.8], [0.1, 0.1, 0.0]])


def world_of(*matrices: Array) -> PreferenceWorld:
    return PreferenceWorld(np.array(matrices))


def test_a_world_has_ties_winners_and_gaps() -> None:
    world = world_of(ORDERED, ORDERED[::-1, ::-1])
    assert world.ties[0] == pytest.approx(np.array([[1, 0.3, 0.6], [0.3, 1, 0.1], [0.6, 0.1, 1]]))
    assert world.preferences[0] == pytest.approx(np.array([[0.5, 0.65, 0.6], [0.35, 0.5, 0.85], [0.4, 0.15, 0.5]]))
    assert world.winners.tolist() == [[True, False, False], [False, False, True]]
    assert world.has_condorcet_winner
    assert world.borda_winners.tolist() == [0, 2]
    assert world.gaps == pytest.approx(np.array([[0, 0.15, 0.1], [0.1, 0.15, 0]]))
    assert (world.first(1).wins == [ORDERED]).all()


def test_without_a_condorcet_winner_a_gap_is_one_of_copeland_scores() -> None:
    world = synthetic_world(winners=3, rankers=6, repeats=2)
    assert not world.has_condorcet_winner
    assert world.winners.tolist() == [[True, True, True, False, False, False]] * 2
    assert world.gaps[0] == pytest.approx(np.array([0, 0, 0, 2, 3, 4]) / 5)
    assert world.borda_winners.tolist() == [3, 3]


def test_the_synthetic_condorcet_winner_is_not_the_borda_winner() -> None:
    world = synthetic_world(winners=1, rankers=20, repeats=3)
    assert world.has_condorcet_winner
    assert world.winners.argmax(axis=1).tolist() == [0, 0, 0]
    assert world.borda_winners.tolist() == [1, 1, 1]
    assert world.gaps[0] == pytest.approx(np.array([0.0, *[0.05] * 19]))
    assert world.ties[:, ~np.eye(20, dtype=bool)] == pytest.approx(0)


def three_documents() -> Judged:
    """Two queries; the three features rank the documents differently."""
    features = np.array([[3, 1, 2], [2, 3, 1], [1, 2, 3], [1, 3, 2], [2, 2, 3], [3, 1, 1]], np.float64)
    return Judged(features, np.array([2, 1, 0, 0, 2, 1]), np.array([0, 3, 6]), ("one", "two"))


def exact_shares(data: Judged, rankings: Array, first: int, later: int, people: str) -> tuple[Fraction, Fraction]:
    """P(the first ranker wins) and P(it loses), over all queries, lists and clicks."""
    shares, model = [Fraction(0), Fraction(0)], find_cascade(people, 3)
    click, stop = ([Fraction(str(share)) for share in table] for table in (model.click, model.stop))
    for query in range(len(data)):
        two, grades = rankings[query, [first, later]].tolist(), data.grades[data.rows(query)]
        for (shown, teams), of_list in competitive_pairs.distribution(two, 10).items():
            patterns = clicks.cascade([int(grades[document]) for document in shown], click, stop)
            for pattern, of_clicks in patterns.items():
                clicked = frozenset(np.flatnonzero(pattern).tolist())
                outcome = competitive_pairs.preference(two, shown, teams, clicked, "binary")[0][1]
                shares[0] += of_list * of_clicks * (outcome > 0) / len(data)
                shares[1] += of_list * of_clicks * (outcome < 0) / len(data)
    return shares[0], shares[1]


def test_shares_of_comparisons_are_those_of_all_lists_and_clicks() -> None:
    data, repeats, people = three_documents(), 20_000, ("navigational", "informational")
    rankings = rank(data, [scores_of(data, feature) for feature in (1, 2, 3)], "ties")
    for first in (0, 1):
        shares = compare_with_later(data, rankings, first, people, repeats, 1)
        assert shares.shape == (2, 2 - first, 2)
        for number, name in enumerate(people):
            for later in range(first + 1, 3):
                exact = exact_shares(data, rankings, first, later, name)
                for ours, share in zip(shares[number, later - first - 1], map(float, exact), strict=True):
                    assert 0 < share < 1
                    assert abs(ours - share) < 4.5 * np.sqrt(share * (1 - share) / (2 * repeats))


def test_shares_become_a_matrix_of_wins() -> None:
    matrix = matrix_of([np.array([[0.5, 0.2], [0.3, 0.1]]), np.array([[0.8, 0.1]])])
    assert (matrix == ORDERED).all()


def test_each_repeat_has_rankers_of_which_one_beats_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rankers 0 to 2 beat each other in a cycle, and nobody else beats anybody, so a pair of the cycle is drawn."""
    matrix = np.zeros((5, 5))
    matrix[[0, 1, 2], [1, 2, 0]] = 0.25
    world = judged_world(matrix, 2, 30, np.random.default_rng(1))
    assert world.has_condorcet_winner
    assert np.sort(world.wins.reshape(30, 4), axis=1).tolist() == [[0, 0, 0, 0.25]] * 30
    assert len({str(wins) for wins in world.wins}) == 2
    assert (judged_world(matrix, 5, 2, np.random.default_rng(1)).wins == matrix).all()
    monkeypatch.setattr(bandits_runs, "MAX_TRIES", 50)
    with pytest.raises(DataError, match="of 50 sets of 4 rankers, 0 have a ranker that beats all others"):
        judged_world(matrix, 4, 2, np.random.default_rng(1))


@pytest.mark.parametrize(
    ("rule", "means", "counted"),
    [(COIN, (0.65, 0.35), 1.0), (HALF, (0.65, 0.35), 1.0), (NOT_COUNTED, (0.5, 0.2), 0.7)],
)
def test_ties_count_by_their_rule(rule: str, means: tuple[float, float], counted: float) -> None:
    row, size, pairs = np.zeros((1, 1), np.int64), 7, 40_000
    first, second = np.zeros((1, pairs), np.int64), np.ones((1, pairs), np.int64)
    won, lost = draw_outcomes(world_of(ORDERED), row, first, second, size, rule, np.random.default_rng(1))
    assert (won.mean() / size, lost.mean() / size) == pytest.approx(means, abs=0.005)
    assert (won + lost).mean() / size == pytest.approx(counted, abs=0.005)
    assert ((won + lost).var() > 0) == (rule == NOT_COUNTED)
    assert bool((won % 1 == 0.5).any()) == (rule == HALF)
    alone = draw_outcomes(world_of(ORDERED), row, second, second, size, rule, np.random.default_rng(1))
    assert {*alone[0].ravel().tolist(), *alone[1].ravel().tolist()} == {3.5}


class Listed:
    """An algorithm that shows the pairs of a list in turn, and notes the sums of wins that it sees."""

    def __init__(self, *pairs: tuple[int, int]) -> None:
        self._pairs, self.sums, self.wins = pairs, list[float](), np.zeros(0)
        self.bandit = DuelingBandit(lambda rows, rankers, generator: 0, self._choose)

    def _choose(self, state: int, wins: Array, generator: np.random.Generator) -> tuple[Array, int]:
        self.sums.append(float(wins[0].sum()))
        self.wins = wins.copy()
        return np.tile(self._pairs[state % len(self._pairs)], (len(wins), 1)), state + 1


def run_listed(monkeypatch: pytest.MonkeyPatch, listed: Listed, schedule: Schedule, points: list[int]) -> BanditRun:
    monkeypatch.setitem(ALGORITHMS, "listed", listed.bandit)
    world = world_of(ORDERED, ORDERED)
    return simulate(world, "listed", schedule, COIN, np.array(points), np.random.default_rng(1))


def test_wins_count_after_the_end_of_their_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = Listed((0, 1), (2, 2))
    run_listed(monkeypatch, listed, Schedule(impressions=30, epoch=10, draws=2), [30])
    assert listed.sums == [0, 0, 10, 10, 20, 20]
    assert listed.wins[0, 2, 2] == 10
    assert listed.wins[0, 0, 1] + listed.wins[0, 1, 0] == 10


def test_regret_adds_the_mean_gap_of_two_rankers(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_listed(monkeypatch, Listed((0, 1), (2, 2)), Schedule(40, 10, 2), [10, 20, 40])
    one_epoch = 5 * (0 + 0.15) / 2 + 5 * 0.1
    assert run.regret.tolist() == [pytest.approx([times * one_epoch] * 2) for times in (1, 2, 4)]


def test_a_run_ends_at_the_ranker_of_the_last_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last two of twenty impressions show 1 three times, and 0 once."""
    run = run_listed(monkeypatch, Listed(*[(2, 2)] * 18, (1, 1), (0, 1)), Schedule(20, 1, 1), [20])
    assert run.shown.tolist() == [[0.25, 0.75, 0]] * 2
    assert run.ends.tolist() == [1, 1]


def test_uniform_pairs_have_the_mean_regret() -> None:
    world, points = world_of(*[ORDERED] * 50), np.array([200])
    run = simulate(world, "uniform_pairs", Schedule(200, 1, 1), COIN, points, np.random.default_rng(1))
    assert run.regret.mean() == pytest.approx(200 * 0.25 / 3, rel=0.02)


def test_regret_is_printed_relative_to_the_same_repeats() -> None:
    """Of three repeats of uniform pairs, a run has the first two, with a half and a quarter of their regret."""
    points = np.array([10, 20])
    uniform = BanditRun(points, np.array([[1.0, 1, 1], [40, 80, 900]]), np.ones((3, 2)) / 2)
    run = BanditRun(points, np.array([[1.0, 1], [20, 20]]), np.array([[1.0, 0], [0, 1]]))
    assert bandits._describe_regret(run, uniform, 20) == ("20 (0)", "33.3% (11.1%)")
    assert bandits._describe_regret(uniform, uniform, 20) == ("340 (280)", "100.0% (0.0%)")
    assert bandits._ends(world_of(ORDERED[:2, :2], ORDERED[:2, :2], ORDERED[:2, :2]), run, True) == (
        *("1 of 2", "0 of 2", "1 of 2"),
        "50%",
    )


def test_goals_are_read_from_the_printed_tables() -> None:
    few = ("people", "choice", "algorithm", "of uniform after 20,000")
    ends = ("choice", "algorithm", "ends at the winner")
    tables = PrintedTables(
        [
            Table("", "20 rankers: regret", few, (("navigational", bandits.EPOCHS, "self_sparring", "35.0% (9.1%)"),)),
            Table("", "ends", ends, ((bandits.EACH, "a", "10 of 10"), (bandits.EPOCHS, "a", "8 of 10"))),
        ]
    )
    row = {"people": "navigational", "choice": bandits.EPOCHS, "algorithm": "self_sparring"}
    assert bandits.at_most(tables, "20 rankers:", 35, row) == ("35.0% (9.1%)", True)
    assert not bandits.at_most(tables, "20 rankers:", 34.9, row)[1]
    text = "10 of 10 (each impression); 8 of 10 (epochs of 200)"
    assert bandits.ends_at(tables, "ends", "ends at the winner", "a", 0.8) == (text, True)
    assert bandits.ends_at(tables, "ends", "ends at the winner", "a", 0.9) == (text, False)


class Folds:
    def __init__(self, data: Judged) -> None:
        self._data = data

    def draw_queries(self, count: int, seed: int) -> Judged:
        return self._data

    def describe(self, part: Judged) -> str:
        return part.name


def test_a_small_run_prints_all_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    data = synthetic(queries=40, documents=(5, 20), features=5, grades=3, seed=3)
    monkeypatch.setattr(bandits, "find", lambda folder, seed: Folds(data))
    monkeypatch.setattr(bandits, "RANKERS", 4)
    monkeypatch.setitem(bandits.SCALES, "quick", bandits.BanditScale(5, 3, 2, (200, 400)))
    task = study.StudyRun()
    result = bandits.study(task)
    assert task.done == task.total
    tables: dict[str, Any] = {table.name: table for table in result.tables}
    assert list(tables) == ["worlds", "few", "all", "opposed", "cycle", "ties", "pairs"]
    assert [row[:3] for row in tables["few"].rows] == [
        (people, choice, algorithm)
        for people in bandits.PEOPLE
        for choice, algorithms in ((bandits.EACH, ALGORITHMS), (bandits.EPOCHS, bandits.ADAPTIVE))
        for algorithm in algorithms
    ]
    uniform = tables["few"].rows[0]
    assert uniform[4] == uniform[6] == "100.0% (0.0%)"
    assert uniform[7:10] == (None, None, None)
    assert [len(tables[name].rows) for name in ("all", "opposed", "cycle", "ties", "pairs")] == [10, 9, 9, 12, 16]
    again = bandits.study(study.StudyRun())
    assert [table.lines() for table in again.tables] == [table.lines() for table in result.tables]


def test_rankers_that_are_all_alike_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = synthetic(queries=5, documents=5, features=1, grades=3, seed=3)
    monkeypatch.setattr(bandits, "find", lambda folder, seed: Folds(data))
    with pytest.raises(DataError, match="fewer than two features that vary"):
        bandits.study(study.StudyRun())
