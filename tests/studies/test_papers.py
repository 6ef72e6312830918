"""Studies of pairs of rankers and of all methods: bookkeeping on cases with a known answer, and whole small runs."""

import csv
import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interleaf.clicks import find_cascade
from interleaf.errors import DataError
from interleaf.interleaving import batch
from interleaf.kernels.arrays import Array, Impression
from interleaf.methods.registry import methods, resolve
from interleaf.simulate.data import Judged, synthetic
from interleaf.simulate.people import streams, words_of
from interleaf.simulate.rankers import rank, scores_of
from interleaf.simulate.run import Result, Stage, ndcg_by_query
from interleaf.studies import fidelity, hofmann2011
from interleaf.studies.datasets import find
from interleaf.studies.hofmann2011 import PairVerdicts, choose, judge
from interleaf.studies.hofmann2011_pairs import (
    CHUNK,
    RULES,
    RULES_BY_LISTS,
    SCHEME,
    Converged,
    FeatureRankings,
    Meeting,
    Stream,
    StudyPair,
    converge,
    pair_table,
    perfect,
    realistic,
    settled_at,
    wilson,
)
from interleaf.studies.study import Study, StudyRun, Table

LABELS = [rule.label for rule in RULES]


def one_good_document(queries: int = 40) -> Judged:
    """Features 1 and 3 put the one good document of three first, feature 2 puts it last; nothing ties."""
    features = np.tile([[3.0, 1.0, 9.0], [2.0, 2.0, 8.0], [1.0, 3.0, 7.0]], (queries, 1))
    offsets = np.arange(0, 3 * queries + 1, 3)
    return Judged(features, np.tile([2, 0, 0], queries), offsets, tuple(map(str, range(queries))), "one good")


def small() -> Judged:
    return synthetic(queries=60, documents=(4, 30), features=5, grades=3, seed=3)


def by_label(verdicts: PairVerdicts) -> dict[str, Array]:
    """The sums of the first pass, a row a pair."""
    return dict(zip(LABELS, verdicts.sums[:, :, 0], strict=True))


def handmade(sums: Array) -> PairVerdicts:
    """Verdicts of three rankers with made-up sums for every rule but the first, which is always right."""
    rankings = FeatureRankings(small(), [1, 3, 5], 10, "ties")
    pairs = [(0, 1), (0, 2), (1, 2)]
    every = np.broadcast_to(sums, (len(RULES), *sums.shape)).copy()
    every[0] = 1.0
    return PairVerdicts(rankings, pairs, np.array([0.1, 0.15, 0.05]), every)


@pytest.mark.parametrize(("successes", "trials"), [(0, 7), (1, 10), (8, 10), (500, 1000), (999, 1000), (7, 7)])
def test_the_bounds_of_wilson_are_the_shares_that_the_score_test_just_keeps(successes: int, trials: int) -> None:
    share, z = successes / trials, 1.959963984540054
    a, b, c = 1 + z * z / trials, -(2 * share + z * z / trials), share * share
    root = math.sqrt(b * b - 4 * a * c)
    assert wilson(successes, trials) == pytest.approx(((-b - root) / (2 * a), (-b + root) / (2 * a)), abs=1e-12)


def test_rankings_are_those_of_rank() -> None:
    data = small()
    rankings = FeatureRankings(data, [2, 5], 10, "ties")
    for number, feature in enumerate(rankings.features):
        ranking = rank(data, [scores_of(data, feature)], ("ties", feature))
        assert (rankings.ndcg[:, number] == ndcg_by_query(data, ranking, None)[:, 0]).all()
        for query in range(len(data)):
            rows = data.rows(query)
            assert (rankings.orders[number, rows] == ranking[query, 0, : rows.stop - rows.start]).all()
    both = np.concatenate([rank(data, [scores_of(data, f)], ("ties", f)) for f in (5, 2)], axis=1)
    assert (rankings.of_pair((1, 0)) == both).all()


@pytest.mark.parametrize("rules", RULES_BY_LISTS, ids=lambda rules: str(rules[0].label))
def test_a_meeting_gives_what_the_stage_of_a_simulation_gives(rules: Any) -> None:
    data, key = small(), "meeting"
    rankings = FeatureRankings(data, [1, 4], 10, "ties")
    both = np.concatenate([rank(data, [scores_of(data, f)], ("ties", f)) for f in (1, 4)], axis=1)
    queries = np.arange(2 * len(data)) % len(data)
    numbers = np.arange(len(queries))
    found, clicked = Meeting(rankings, (0, 1), rules, perfect(3)).outcomes(queries, numbers, key)
    stage = Stage(data, both, resolve(rules[0].lists), 10)
    lists = stage.compose(queries, streams(words_of((key, "lists")), numbers), stage.settings(queries))
    shown, grades = stage.look_up(queries, lists)
    clicks = perfect(3).sample_batch(grades, lists.counts, streams(words_of((key, "clicks")), numbers))
    assert (clicked == clicks.any(axis=1)).all()
    for rule, outcomes in zip(rules, found, strict=True):
        if not rule.cut:
            wanted = batch.preferences(resolve(rule.judge), SCHEME, shown, lists.counts, clicks, 1)[:, 0, 1]
            assert (outcomes == wanted).all()
            assert outcomes.any()


def test_one_good_document_is_judged_as_the_papers_say() -> None:
    """Credit for it goes to the ranker that has it first; DC only learns from lists where it is skipped over."""
    data = one_good_document()
    verdicts = judge(FeatureRankings(data, [1, 2], 10, "ties"), 2, "key")
    assert verdicts.pairs == [(0, 1)]
    assert verdicts.gaps == pytest.approx([1 - 1 / math.log2(4)])
    sums = {label: float(found[0]) for label, found in by_label(verdicts).items()}
    for label in ("TD", "BI (lowest)", "BI (clicked)", "BI (clicked), cut"):
        assert sums[label] == len(data)
    assert 0 < sums["DC"] == sums["DC, cut"] < len(data)
    assert 0 < sums["PI-MA"] < len(data)
    assert verdicts.right.all()
    assert verdicts.right_together.all()


def test_pairs_of_equal_ndcg_have_no_better_ranker() -> None:
    verdicts = judge(FeatureRankings(one_good_document(), [1, 2, 3], 10, "ties"), 1, "key")
    assert sorted(verdicts.pairs) == [(0, 1), (2, 1)]
    with pytest.raises(DataError, match="no two rankers differ"):
        judge(FeatureRankings(one_good_document(), [1, 3], 10, "ties"), 1, "key")


def test_a_document_below_the_cut_has_no_rank_for_rules_that_cut() -> None:
    """The good one is second for one ranker and last of twelve for the other, which then breaks fewer constraints."""
    order = np.arange(12)
    features = np.stack([np.where(order == 0, 9.5, 11 - order), order.astype(float)], axis=1)
    grades = np.where(order == 0, 2, 0)
    data = Judged(np.tile(features, (30, 1)), np.tile(grades, 30), np.arange(0, 361, 12), tuple(map(str, range(30))))
    sums = {
        label: float(found[0])
        for label, found in by_label(judge(FeatureRankings(data, [1, 2], 10, "t"), 1, "k")).items()
    }
    assert sums["DC"] == 30
    assert 0 < sums["DC, cut"] < 30  # a tie where the better ranker led the list
    assert sums["BI (lowest)"] == sums["BI (clicked)"] == sums["BI (clicked), cut"] == 30


def test_h11_s_depth_on_whole_rankings_compares_nothing_but_the_worst_clicked_ranks() -> None:
    """The ranker with the better worst one has all clicks inside the depth, and the other one has not."""
    generator = np.random.default_rng(1)
    ranks = np.array([[generator.permutation(30)[:10] + 1 for _ in range(2)] for _ in range(300)], np.int16)
    clicks = generator.random((300, 10)) < 0.4
    lengths, teams = np.full((300, 2), 30, np.int32), np.zeros((300, 10), np.int8)
    shown = Impression.of(ranks, teams, lengths, np.full(300, 30), np.zeros((300, 10), np.int16))
    outcomes = batch.preferences(resolve("balanced(depth=clicked)"), SCHEME, shown, np.full(300, 10), clicks, 1)
    worst = np.where(clicks[:, None], ranks, 0).max(axis=2).astype(int)
    assert (outcomes[:, 0, 1] == np.sign(worst[:, 1] - worst[:, 0])).all()


def test_accuracy_counts_right_pairs_and_a_tie_is_not_right() -> None:
    """Three pairs in two passes: the first is wrong once, the second tied once, the third always right."""
    table = hofmann2011._accuracy([handmade(np.array([[-1.0, 3.0], [2.0, 0.0], [1.0, 1.0]]))])
    assert [row[0] for row in table.rows] == LABELS
    assert table.rows[0][4:] == ("100.0", "0.0", "100.0", None, None)
    assert table.rows[1][4:] == ("66.7", "0.0", "100.0", "0.100", None)


def test_systematic_errors_are_counted_for_each_ranker() -> None:
    table = hofmann2011._systematic(handmade(np.array([[-1.0], [1.0], [-1.0]])))
    assert table.rows[0][:3] == ("PI-MA", "0.0", 0)
    assert table.rows[1][3:5] == (3, "2 of 2")  # the second ranker is feature 3, and in both wrong pairs
    assert table.rows[1][6] == pytest.approx((2 / 3) ** 2)


def test_pairs_are_chosen_by_the_papers_rule() -> None:
    """Easy ones are right by all; the problem of each method is its wrong pair with the largest gap."""
    pairs = choose(handmade(np.array([[1.0], [-1.0], [-1.0]])))
    assert [(pair.number, pair.rankers) for pair in pairs] == [(1, (0, 1)), (2, (0, 2))]
    assert pairs[0].why == ("easy, gap near 0.10", "easy, gap near 0.05")
    assert pairs[1].why == ("TD", "BI (lowest)", "DC")


def test_a_stream_is_the_same_in_whatever_pieces_and_skips_what_nobody_clicked() -> None:
    data = one_good_document()
    rankings = FeatureRankings(data, [1, 2], 10, "ties")
    (rules,) = (rules for rules in RULES_BY_LISTS if rules[0].label == "TD")

    def stream() -> Stream:
        noisy = find_cascade("informational", grades=3)
        return Stream(Meeting(rankings, (0, 1), rules, noisy), rankings.clickable(noisy), "stream")

    pieces, whole = stream(), stream().take(CHUNK + 700)
    assert (np.concatenate([pieces.take(700), pieces.take(CHUNK)], axis=1) == whole).all()
    sure = Stream(Meeting(rankings, (0, 1), rules, perfect(3)), rankings.clickable(perfect(3)), "sure")
    assert (sure.take(100) == 1).all()


def test_queries_that_cannot_be_clicked_are_not_drawn_and_none_at_all_is_an_error() -> None:
    data = Judged(np.eye(4), np.array([0, 1, 0, 0]), np.array([0, 2, 4]), ("good", "bad"))
    rankings = FeatureRankings(data, [1, 2], 10, "ties")
    assert rankings.clickable(perfect(2)).tolist() == [0]
    assert rankings.clickable(realistic(2)).tolist() == [0, 1]
    meeting = Meeting(rankings, (0, 1), RULES_BY_LISTS[0], perfect(2))
    with pytest.raises(DataError, match="no comparison can converge"):
        Stream(meeting, np.array([], np.int64), "none").take(1)


def test_convergence_of_a_sure_pair_is_sure_and_settled_at_once() -> None:
    rankings = FeatureRankings(one_good_document(), [1, 2], 10, "ties")
    found = converge(rankings, StudyPair(1, (0, 1), ("easy",)), "perfect", repeats=5, samples=20, key="key")
    assert found.points == (1, 2, 5, 10, 20)
    assert found.right[LABELS.index("TD")].tolist() == [5] * 5
    assert settled_at(found, LABELS.index("TD")) == 1
    (row,) = pair_table(rankings, [found.pair]).rows
    assert row[:6] == (1, "1 over 2", "1.000 / 0.500", "0.500", "100%", "0%")


def test_settled_is_from_where_on_the_share_stays() -> None:
    right = np.array([[100, 90, 96, 99], [95, 99, 99, 94]])
    found = Converged(StudyPair(1, (0, 1), ()), "perfect", (1, 2, 5, 10), 100, right)
    assert settled_at(found, 0) == 5
    assert settled_at(found, 1) is None


def test_the_realistic_people_of_five_grades_are_those_of_the_click_table() -> None:
    assert tuple(realistic(5).click) == find_cascade("realistic").click
    assert tuple(realistic(5).stop) == pytest.approx(find_cascade("realistic").stop)
    assert tuple(realistic(3).click) == find_cascade("realistic", 3).click
    assert realistic(4).click == pytest.approx([0.05, 0.05 * 16 ** (1 / 3), 0.05 * 16 ** (2 / 3), 0.8])


def test_fixed_queries_come_from_all_folds_alike() -> None:
    folds = find(None, seed=1)
    assert len(folds.draw_queries(1000, 1)) == 400
    some = folds.draw_queries(50, 1)
    assert len(some) == 50
    assert some.queries == folds.draw_queries(50, 1).queries


@pytest.fixture
def small_hofmann(monkeypatch: pytest.MonkeyPatch) -> Study:
    scale = hofmann2011.HofmannScale(features=4, queries=50, orders=2, passes=2, repeats=4, samples=50)
    monkeypatch.setitem(hofmann2011.SCALES, "quick", scale)
    return hofmann2011.study(StudyRun())


@pytest.fixture
def small_fidelity(monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setattr(fidelity, "MAX_QUERIES", 25)
    monkeypatch.setitem(fidelity.SCALES, "quick", fidelity.FidelityScale(200, {2: 3, 5: 2}, {2: 2, 5: 1}))
    return fidelity.study(StudyRun())


def table_of(study: Study, name: str) -> Table:
    return next(table for table in study.tables if table.name == name)


def check_written(study: Study, folder: Path) -> None:
    """Every file is there, whole, and says what the study says."""
    written = study.write(folder)
    assert sorted(written) == sorted(folder.iterdir())
    assert not list(folder.glob("*.part"))
    assert (folder / f"{study.name}.md").read_text(encoding="utf-8") == study.to_markdown()
    for table in study.tables:
        with (folder / f"{study.name}-{table.name}.csv").open(newline="", encoding="utf-8") as lines:
            assert len(list(csv.reader(lines))) == len(table.rows) + 1
    for name in study.charts:
        assert json.loads((folder / f"{study.name}-{name}.json").read_bytes()) == study.charts[name]
        assert (folder / f"{study.name}-{name}.svg").read_text(encoding="utf-8").endswith("</svg>")
        assert (folder / f"{study.name}-{name}.png").read_bytes().startswith(b"\x89PNG")


def test_hofmann2011_runs_and_has_a_row_a_method(small_hofmann: Study, tmp_path: Path) -> None:
    for name in ("accuracy", "systematic"):
        assert [row[0] for row in table_of(small_hofmann, name).rows] == LABELS
    pairs = table_of(small_hofmann, "pairs").rows
    for name in ("perfect", "realistic"):
        assert [row[0] for row in table_of(small_hofmann, name).rows] == [row[0] for row in pairs]
        assert table_of(small_hofmann, name).columns[1:] == tuple(LABELS)
    assert "unverified" in str(small_hofmann)
    check_written(small_hofmann, tmp_path / "out")


def test_hofmann2011_is_the_same_again_and_says_how_far_it_is(
    small_hofmann: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[int, int]] = []
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    again = hofmann2011.study(StudyRun(progress=lambda done, total: said.append((done, total))))
    assert str(again) == str(small_hofmann)
    assert again.charts == small_hofmann.charts
    assert [done for done, _ in said] == list(range(1, len(said) + 1))
    assert said[-1][0] == said[-1][1]


def test_fidelity_has_a_row_for_every_method_that_compares(small_fidelity: Study, tmp_path: Path) -> None:
    (table,) = small_fidelity.tables
    wanted = [
        (count, clicks, row.name)
        for count in (2, 5)
        for clicks in fidelity.CLICKS
        for row in methods()
        if row.schemes and (row.rankers[1] is None or row.rankers[1] >= count)
    ]
    assert [row[:3] for row in table.rows] == wanted
    for one, other in combinations([row for row in table.rows if row[0] == 5], 2):
        assert one[-2:] == other[-2:]  # the same rankers, so the same control and the same best ranker
    assert len(small_fidelity.charts) == 2
    check_written(small_fidelity, tmp_path)


def compared(errors: Array, checkpoints: tuple[int, ...]) -> fidelity.MethodResult:
    nothing = np.zeros(len(errors))
    truths = np.array([[0.5, 0.7]] * len(errors))
    result = Result(
        "m", "s", "c", "d", "own", checkpoints, errors, errors, np.zeros((len(errors), 2, 2)), truths, nothing + 0.6
    )
    return fidelity.MethodResult(2, "m", "perfect", result)


def test_fidelity_reads_results_right() -> None:
    one = compared(np.array([[1.0, 0.3, 0.4, 0.0], [0.6, 0.0, 0.2, 0.0]]), (10, 20, 50, 200))
    assert [one.impressions_to(level) for level in (0.9, 0.3, 0.25, 0.0)] == [10, 20, 200, 200]
    assert compared(np.ones((2, 1)), (5,)).impressions_to(0.3) is None
    assert one.earlier[0] == 20
    assert fidelity._errors(one) == ("0.150 (0.150)", "0.000", "no")
    assert one.largest_wrong() == pytest.approx(0.2)  # nobody is preferred
    assert one.mean_ndcg(1) == pytest.approx({"shown": 0.6, "control": 0.5, "best": 0.7})


def test_an_interrupted_study_ends_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Result:
        result = compared(np.zeros((1, 1)), (5,)).result
        return Result(**{**vars(result), "interrupted": True})

    monkeypatch.setattr(fidelity, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fidelity.study(StudyRun())


def test_too_few_features_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "flat.txt"
    path.write_text("".join(f"1 qid:{query} 1:0.5 2:1\n0 qid:{query} 1:0.5 2:1\n" for query in range(5)))
    for study in (fidelity.study, hofmann2011.study):
        with pytest.raises(DataError, match="features that vary"):
            study(StudyRun(path))
