"""Simulated runs: rankings with ties, NDCG, batches of clicks, and results that depend on the seed alone."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from interleaf import ClickError, DataError, RankingError, clicks
from interleaf.clicks import Cascade, ClickModel, Independent, Intents, OneClick, PositionBased, find_cascade
from interleaf.kernels.randomness import bytes_of, key_of
from interleaf.methods.registry import METHODS
from interleaf.simulate import Judged, run, sweep, synthetic
from interleaf.simulate.rankers import (
    Ranker,
    at_random,
    rank,
    read_run_scores,
    read_scores,
    scores_of,
    shuffle_top,
    swap_top,
)
from interleaf.simulate.run import ndcg, ndcg_by_query

DATA = synthetic(queries=60, documents=(4, 30), features=6, grades=3, seed=4)
PROBABILITIES = st.lists(st.floats(0, 1), min_size=1, max_size=10)
COMPARING = [row.name for row in METHODS.values() if row.schemes and row.rankers[1] is None]


def judged(grades: list[list[int]], scores: list[list[float]]) -> Judged:
    """Queries with one feature, as written down."""
    flat = [grade for query in grades for grade in query]
    values = np.array([[value] for query in scores for value in query], np.float32)
    offsets = np.cumsum([0, *map(len, grades)])
    return Judged(values, np.array(flat, np.int8), offsets, tuple(map(str, range(len(grades)))), "made by hand")


def test_a_ranking_sorts_by_score_and_pads_short_queries() -> None:
    data = judged([[0, 1, 2], [1]], [[0.1, 0.3, 0.2], [5.0]])
    assert rank(data, [scores_of(data, 1)], "key")[:, 0].tolist() == [[1, 2, 0], [0, -1, -1]]


@pytest.mark.parametrize("documents", [6, 100])
def test_ties_are_broken_by_chance_and_never_by_the_order_of_the_file(documents: int) -> None:
    data = judged([[0] * documents] * 400, [[1.0] * documents] * 400)
    first = rank(data, [scores_of(data, 1)], "key")[:, 0, 0]
    counts = np.bincount(first, minlength=documents)
    assert (np.sort(rank(data, [scores_of(data, 1)], "key")[:, 0]) == np.arange(documents)).all()
    assert ((counts - 400 / documents) ** 2 / (400 / documents)).sum() < documents + 8 * np.sqrt(2 * documents)


def test_rankers_share_an_order_of_ties_only_where_asked() -> None:
    data = judged([[0] * 8] * 30, [[1.0] * 8] * 30)
    scores = [scores_of(data, 1)] * 2
    own, shared = rank(data, scores, "key", "own"), rank(data, scores, "key", "shared")
    assert (shared[:, 0] == shared[:, 1]).all()
    assert (own[:, 0] != own[:, 1]).any()


def test_ndcg_is_what_its_formula_says() -> None:
    data = judged([[0, 2, 1], [0, 0]], [[3.0, 2.0, 1.0], [1.0, 2.0]])
    rankings = rank(data, [scores_of(data, 1)], "key")
    gained = 3 / np.log2(3) + 1 / np.log2(4)
    ideal = 3 / np.log2(2) + 1 / np.log2(3)
    assert ndcg_by_query(data, rankings, None)[:, 0] == pytest.approx([gained / ideal, 0.0])
    assert ndcg_by_query(data, rankings, 2)[0, 0] == pytest.approx((3 / np.log2(3)) / ideal)
    assert ndcg(data, rankings, None)[0] == pytest.approx(gained / ideal / 2)


@pytest.mark.parametrize("stop_needs_click", [True, False])
def test_a_batch_of_clicks_is_what_each_person_alone_would_click(stop_needs_click: bool) -> None:
    grades = np.array([[2, 0, 1, -1], [0, 1, 2, 2], [1, -1, -1, -1]], np.int8)
    counts = np.array([3, 4, 1])
    names = [key_of(("person", number)) for number in range(3)]
    keys = np.array([np.frombuffer(bytes_of(name), "<u8") for name in names])
    model = find_cascade("informational", 3, stop_needs_click)
    clicks = model.sample_batch(grades, counts, keys)
    for row, (name, count) in enumerate(zip(names, counts.tolist(), strict=True)):
        documents = list(range(count))
        alone = Cascade(model.click, model.stop, stop_needs_click, dict(enumerate(grades[row, :count].tolist())))
        assert tuple((np.flatnonzero(clicks[row]) + 1).tolist()) == alone.sample(documents, name)


def test_a_batch_of_position_based_clicks_is_what_each_person_alone_would_click() -> None:
    grades = np.array([[2, 0, 1], [0, 1, -1]], np.int8)
    names = [key_of(("person", number)) for number in range(2)]
    keys = np.array([np.frombuffer(bytes_of(name), "<u8") for name in names])
    model = PositionBased(examination=(0.9, 0.5), attraction=(0.2, 0.5, 0.9))
    clicks = model.sample_batch(grades, np.array([3, 2]), keys)
    for row, (name, count) in enumerate(zip(names, (3, 2), strict=True)):
        alone = PositionBased(model.examination, model.attraction, dict(enumerate(grades[row, :count].tolist())))
        assert tuple((np.flatnonzero(clicks[row]) + 1).tolist()) == alone.sample(list(range(count)), name)
    assert run(DATA, [1, 6], "team_draft", model, 3000, 1).binary_error[3000][0] == 0.0


@pytest.mark.parametrize("method", COMPARING)
def test_results_depend_on_the_seed_and_not_on_threads(method: str) -> None:
    one, two = (run(DATA, [1, 3, 6], method, "perfect", 300, 3, seed=5, threads=threads) for threads in (1, 3))
    assert (one.errors == two.errors).all()
    assert (one.preferences == two.preferences).all()
    other = run(DATA, [1, 3, 6], method, "perfect", 300, 3, seed=6)
    assert (one.preferences != other.preferences).any()


@pytest.mark.parametrize("method", COMPARING)
def test_a_clear_difference_is_found(method: str) -> None:
    result = run(DATA, [1, 6], method, "perfect", 4000, 2, seed=1)
    assert result.binary_error[4000][0] == 0.0
    assert (result.truths[:, 0] > result.truths[:, 1]).all()
    assert (result.preferences[:, 0, 1] == -result.preferences[:, 1, 0]).all()


def test_a_zero_preference_is_an_error_unless_the_truth_is_zero() -> None:
    same = run(DATA, [{1: 1.0}, {1: 2.0}], "pairwise_preference", "perfect", 50, 2, ties="shared")
    assert (same.errors == 0.0).all()
    nobody_clicks = Cascade(click=(0, 0, 0), stop=(0, 0, 0))
    assert (run(DATA, [1, 6], "team_draft", nobody_clicks, 50, 2).errors == 1.0).all()


def test_rankers_may_differ_from_run_to_run_and_truth_may_be_elsewhere() -> None:
    train, test = DATA.split((0.7, 0.3), "split")
    result = run(train, lambda number: [1 + number, 6], "team_draft", "navigational", 100, 2, truth=test)
    assert result.truths.shape == (2, 2)
    assert (result.truths[0] != result.truths[1]).any()
    assert result.settings["truth"] == test.name


def test_a_sweep_is_every_combination_and_each_is_what_a_run_alone_gives() -> None:
    sets = {"strong": [1, 2], "far apart": [1, 6]}
    found = sweep(DATA, sets, ["team_draft", "pairwise_preference"], ["perfect", "random"], 200, 2, seed=3)
    told = [(result.settings["rankers"], result.method, result.clicks) for result in found]
    assert told == list(product(sets, ("team_draft", "pairwise_preference"), ("perfect", "random")))
    alone = run(DATA, [1, 6], "pairwise_preference", "random", 200, 2, seed=3)
    assert (found[-1].preferences_at == alone.preferences_at).all()


def test_preferences_are_kept_at_every_checkpoint() -> None:
    short = run(DATA, [1, 3], "team_draft", "perfect", 50, 2, seed=3)
    long = run(DATA, [1, 3], "team_draft", "perfect", 200, 2, seed=3, checkpoints=[50])
    assert long.checkpoints == (50, 200)
    assert long.preferences_at.shape == (2, 2, 2, 2)
    assert (long.preferences_at[:, -1] == long.preferences).all()
    assert short.preferences.shape == (2, 2, 2)


def test_impossible_studies_are_refused() -> None:
    with pytest.raises(DataError, match="features 1 to 6, not 7"):
        run(DATA, [1, 7], runs=1)
    with pytest.raises(DataError, match="at least 1"):
        run(DATA, [1, 2], runs=0)
    with pytest.raises(DataError, match="'own' or 'shared'"):
        run(DATA, [1, 2], runs=1, ties="file")
    with pytest.raises(ClickError, match=r"query '\d+', document \d+ has grade 2, but the click model knows 0 to 1"):
        run(DATA, [1, 2], clicks=Cascade(click=(0, 1), stop=(0, 0)), runs=1, impressions=100)
    with pytest.raises(RankingError, match="balanced compares exactly 2 rankers, not 3"):
        run(DATA, [1, 2, 3], "balanced", runs=1)
    with pytest.raises(RankingError, match="not 1"):
        run(DATA, [1], runs=1)
    with pytest.raises(RankingError, match="k is 0"):
        run(DATA, [1, 2], runs=1, k=0)
    with pytest.raises(DataError, match="cut at 0"):
        run(DATA, [1, 2], runs=1, cut=0)
    with pytest.raises(ClickError, match="the name of a table or a model"):
        run(DATA, [1, 2], clicks=3, runs=1)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="one per row"):
        run(DATA, [1, np.zeros(3)], runs=1)


@given(examination=PROBABILITIES, attraction=st.lists(st.floats(0, 1), min_size=3, max_size=3), seed=st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_an_independent_model_clicks_as_the_position_based_one_with_the_same_chances(
    examination: list[float], attraction: list[float], seed: int
) -> None:
    grades = dict(zip(DATA.documents, DATA.grades.tolist(), strict=True))
    same = Independent(
        lambda rank, document: examination[min(rank, len(examination)) - 1] * attraction[grades[document]]
    )
    ran = [
        run(DATA, [1, 2, 3], clicks=model, impressions=60, runs=2, seed=seed)
        for model in (PositionBased(examination, attraction), same)
    ]
    assert (ran[0].preferences_at == ran[1].preferences_at).all()


def test_every_click_model_can_be_run() -> None:
    """One click at rank 1 only, which one of two equal rankers owns each time; and people who want one document."""
    top = run(DATA, [1, 2], clicks=OneClick((1, 0)), impressions=50, runs=1, scheme="click")
    assert np.abs(top.preferences[0, 0, 1]) <= 1
    best = {
        f"q{query}-d{1 + int(np.argmax(DATA.grades[DATA.rows(place)]))}" for place, query in enumerate(DATA.queries)
    }
    wanted = run(DATA, [1, 6], clicks=Intents([(1, best)]), impressions=300, runs=1)
    assert wanted.preferences[0, 0, 1] > 0
    assert {model for model in vars(clicks).values() if isinstance(model, type) and issubclass(model, ClickModel)} == {
        *(Cascade, ClickModel, Independent, Intents, OneClick, PositionBased),
    }


def test_degraded_rankers_are_worse_by_construction() -> None:
    """C12 section 4.2: E before D before C, and B before A."""
    data = synthetic(queries=200, documents=(15, 30), features=2, seed=1)
    rankers: list[Ranker] = [1, swap_top(1, 2), swap_top(1, 4), shuffle_top(1), at_random()]
    values = ndcg(data, rank(data, [scores_of(data, ranker) for ranker in rankers], "key"))
    assert values[0] > values[1] > values[2] > values[4]
    assert values[0] > values[3] > values[4]


def test_swaps_exchange_the_top_with_lower_ranks_on_every_page() -> None:
    data = judged([[0] * 25], [[float(-number) for number in range(25)]])
    order = np.argsort(-swap_top(1, 2)(data))
    moved = np.flatnonzero(order != np.arange(25))
    first_page = moved[moved < 11]
    assert len(first_page) == 4
    assert (first_page < 5).sum() == 2
    assert set(moved) == {*first_page, *(first_page + 11)}
    with pytest.raises(DataError, match="cannot swap 6"):
        swap_top(1, 6)


def test_scores_and_runs_are_read_from_files(tmp_path: Path) -> None:
    data = judged([[0, 1], [2]], [[1.0, 2.0], [3.0]])
    (tmp_path / "scores").write_text("0.5\n1e3\n-2\n")
    assert read_scores(tmp_path / "scores", data).tolist() == [0.5, 1000.0, -2.0]
    (tmp_path / "run").write_text("0 Q0 q0-d2 1 7.5 mine\n1 Q0 1 1 3 mine\n")
    scores = read_run_scores(tmp_path / "run", data)
    assert scores[1:].tolist() == [7.5, 3.0]
    assert scores[0] < 3.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 Q0 1 1 x t", "line 1: 'x' is not a finite number"),
        ("0 Q0 1 1 2", "line 1: .* is not 'qid Q0 docid rank score tag'"),
        ("9 Q0 1 1 2 t", "line 1: .* no query '9'"),
        ("0 Q0 3 1 2 t", "documents 1 to 2, not '3'"),
        ("", "ranks nothing"),
        ("0 Q0 1 1 2 t\n\n0 Q0 q0-d1 2 1 t", "line 3: document 'q0-d1' of query '0' is there twice"),
        ("0 Q0 clueweb09-en0000-00-00001 1 2 t", "documents 1 to 2, not 'clueweb09"),
    ],
)
def test_a_broken_run_is_refused_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "run").write_text(text)
    with pytest.raises(DataError, match=message):
        read_run_scores(tmp_path / "run", judged([[0, 1], [2]], [[1.0, 2.0], [3.0]]))
