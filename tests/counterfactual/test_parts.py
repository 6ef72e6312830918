"""The parts of reuse: new rankings, the click model, weighted sums and the jackknife, each against a plain loop."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf import DataError, RankingError
from interleaf.counterfactual.click_model import ATTENDED, ATTRACTED, STATES, ClickCells, cells, fit, regress_attraction
from interleaf.counterfactual.estimators import WeightedSums, features, jackknife
from interleaf.counterfactual.new_rankings import by_query, encode_rankings
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array
from interleaf.log.trec_runs import read_run
from tests.oracles.forms import union

NOTHING = np.zeros((7, 0))  # is known of seven documents
RUN = "1 Q0 b 1 2.5 t\n1 Q0 a 2 2.5 t\n2 Q0 c 1 -1 t\n1 Q0 c 3 9 t\n"


def test_runs_are_sorted_by_score_and_ties_by_line(tmp_path: Path) -> None:
    path = tmp_path / "new.run"
    path.write_text(RUN)
    assert read_run(path) == {"1": ["c", "b", "a"], "2": ["c"]}
    assert by_query(path, ["1", "3"], "new") == {"1": ["c", "b", "a"]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1 Q0 a 1 2 t\n1 Q0 a 2 1 t\n", "line 2: document 'a' of query '1' is there twice"),
        ("1 Q0 a 1\n", "is not 'qid Q0 docid rank score tag'"),
        ("1 a x\n", "'x' is not a finite number"),
        ("\n", "ranks nothing"),
    ],
)
def test_a_broken_run_is_named_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "broken.run"
    path.write_text(text)
    with pytest.raises(DataError, match=problem):
        read_run(path)


def test_rankings_come_from_mappings_and_functions() -> None:
    assert by_query({"1": ["a"], "9": ["b"]}, ["1", "2"], "new") == {"1": ["a"]}
    assert by_query(lambda query: ["x"] if query == "2" else None, ["1", "2"], "new") == {"2": ["x"]}
    with pytest.raises(RankingError, match="'new' ranks document 'a' twice for query '1'"):
        by_query({"1": ["a", "b", "a"]}, ["1"], "new")
    wrong: Any = {"1": "abc"}
    with pytest.raises(DataError, match="give a list of documents"):
        by_query(wrong, ["1"], "new")
    nothing: Any = 7
    with pytest.raises(DataError, match="rankings of 'new' are 7"):
        by_query(nothing, ["1"], "new")


LISTS = st.lists(st.lists(st.sampled_from("abcdefg"), unique=True, max_size=6), min_size=2, max_size=3)


@given(st.lists(LISTS.filter(any), min_size=1, max_size=4).filter(lambda q: len({len(rows) for rows in q}) == 1))
def test_every_document_is_found_where_its_rankers_have_it(queries: list[list[list[str]]]) -> None:
    rankers = range(len(queries[0]))
    made = encode_rankings({f"r{n}": {str(q): rows[n] for q, rows in enumerate(queries)} for n in rankers}, 5)
    documents = np.array([[buckets.hash_of(buckets.DOCUMENT, letter) for letter in "abcdefg"]], np.uint64)
    for query, rows in enumerate(queries):
        entries = made.find(np.array([query]), documents)[0]
        for letter, entry in zip("abcdefg", entries.tolist(), strict=True):
            assert (entry >= 0) == any(letter in row for row in rows)
            if entry >= 0:
                assert made.ranks[entry].tolist() == [row.index(letter) + 1 if letter in row else 0 for row in rows]
                assert made.starts[query] <= entry < made.starts[query + 1]
        assert made.union[query] == len(union([tuple(row) for row in rows]))
        assert made.lengths[query].tolist() == [len(row) for row in rows]
        tops = [len({d for row in rows for d in row[:depth]}) for depth in range(1, 6)]
        assert made.choices[query].tolist() == tops
        for ranker, row in enumerate(rows):
            numbers = made.encoded.rankings[query, ranker, : len(row)]
            assert made.ranks[made.starts[query] + numbers, ranker].tolist() == list(range(1, len(row) + 1))


def test_queries_that_a_ranker_lacks_are_left_out() -> None:
    made = encode_rankings({"x": {"1": ["a"], "2": ["a"], "3": []}, "y": {"2": ["b"], "3": []}}, 3)
    assert list(made.queries) == ["2"]


def old_lists(rows: int = 400, seed: int = 1) -> tuple[Array, Array, Array]:
    """Lists of three of six documents; clicks by attraction, rank, and fewer after a click."""
    chance = np.random.default_rng(seed)
    entries = np.array([chance.permutation(6)[:3] for _ in range(rows)])
    entries[: rows // 10, 2] = -1
    clicks = np.zeros(entries.shape, np.bool_)
    for row, position in np.ndindex(entries.shape):
        rate = 0.15 * (entries[row, position] + 1) * (1, 0.8, 0.5)[position] * (0.5 if clicks[row].any() else 1)
        clicks[row, position] = chance.random() < rate and entries[row, position] >= 0
    return entries, clicks, chance.integers(0, 4, rows)


def test_cells_count_what_was_shown_and_clicked() -> None:
    entries, clicks, groups = old_lists(60)
    found = cells(entries, clicks, groups, 4)
    counted: dict[tuple[int, int, int], list[int]] = {}
    for row, position in np.ndindex(entries.shape):
        if entries[row, position] >= 0:
            place = position * STATES + min(int(clicks[row, :position].sum()), STATES - 1)
            cell = counted.setdefault((int(entries[row, position]), place, int(groups[row])), [0, 0])
            cell[0] += 1
            cell[1] += int(clicks[row, position])
    columns = zip(found.entry, found.place, found.group, found.shown, found.clicked, strict=True)
    assert {(int(e), int(p), int(g)): [int(s), int(c)] for e, p, g, s, c in columns} == counted


def test_a_fitted_model_expects_as_many_clicks_as_there_were() -> None:
    """At every document and every place, but for what the priors add."""
    found = cells(*old_lists(), 4)
    models = fit(found, NOTHING, 3, 4)
    attraction, attention = models.attraction[:, 0], models.attention[:, 0]
    expected = found.shown * attraction[found.entry] * attention[found.place]
    mean = (found.clicked.sum() + 0.5) / (found.shown.sum() + 1)
    by_entry = [np.bincount(found.entry, values, 7) for values in (found.clicked, expected)]
    prior = attraction[6]  # of a document that was never shown
    assert by_entry[0] + ATTRACTED * prior == pytest.approx(by_entry[1] + ATTRACTED * attraction, rel=1e-4)
    assert (found.shown @ attention[found.place]) == pytest.approx(found.shown.sum())
    seen = np.bincount(found.place, found.shown, 9) > 0
    by_place = [np.bincount(found.place, values, 9) for values in (found.clicked, expected)]
    scale = (by_place[0] + ATTENDED * mean)[seen] / (by_place[1] + ATTENDED * mean * attention)[seen]
    assert scale == pytest.approx(np.full(seen.sum(), scale[0]), rel=1e-3)
    assert prior == pytest.approx(mean, rel=0.1)
    assert np.isfinite(models.attraction).all()


def test_the_model_without_a_group_is_the_model_of_the_others() -> None:
    entries, clicks, groups = old_lists()
    models = fit(cells(entries, clicks, groups, 4), NOTHING, 3, 4)
    for group in range(4):
        others = groups != group
        alone = fit(cells(entries[others], clicks[others], np.zeros(others.sum(), np.int64), 1), NOTHING, 3, 1)
        assert models.attraction[:, group + 1] == pytest.approx(alone.attraction[:, 0], rel=1e-3)


def test_attraction_is_found_whatever_the_rank_it_was_shown_at() -> None:
    models = fit(cells(*old_lists(20_000), 4), NOTHING, 3, 4)
    ratio = models.attraction[:6, 0] / models.attraction[5, 0]
    assert ratio == pytest.approx(np.arange(1, 7) / 6, abs=0.03)


def test_documents_that_were_never_shown_are_taken_for_what_others_so_ranked_are() -> None:
    """Three hundred queries whose first document is clicked and whose second is not; of some, neither was shown."""
    made = encode_rankings({name: {str(q): ["a", "b"] for q in range(300)} for name in ("x", "y")}, 2)
    shown = np.arange(400).reshape(200, 2).repeat(20, axis=0)
    shown[::2] = shown[::2, ::-1]
    clicks = shown % 2 == 0
    about = features(made, np.bincount(shown.ravel(), minlength=600))
    assert about.mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-12)
    models = fit(cells(shown, clicks, np.zeros(len(shown), np.int64), 1), about, 2, 1)
    first, second = models.attraction[400:, 0].reshape(100, 2).mean(axis=0)
    assert first > 0.6
    assert second < 0.1
    few = fit(cells(shown[:20], clicks[:20], np.zeros(20, np.int64), 1), about, 2, 1)
    assert few.attraction[400:, 0] == pytest.approx(np.full(200, 0.5), abs=0.2)


def test_a_regression_on_nothing_stays_in_bounds() -> None:
    about = np.random.default_rng(1).normal(size=(5, 2))
    for clicks in (0.0, 7.0):
        found = regress_attraction(about, np.full((5, 1), clicks), np.full((5, 1), clicks), 1.0)
        assert ((found > 0) & (found <= 1)).all()


def test_a_group_that_is_all_there_is_leaves_a_model_of_nothing() -> None:
    nothing = np.zeros(0, np.int64)
    models = fit(ClickCells(nothing, nothing, nothing, np.zeros(0), np.zeros(0)), NOTHING, 2, 2)
    assert np.isfinite(models.attraction).all()
    assert np.isfinite(models.attention).all()


def test_extreme_weights_lose_nothing_and_overflow_nothing() -> None:
    weights = np.array([1e17, 3.0, 1e17, 1e-9, 1e130])
    outcomes = np.array([[1.0], [0.25], [-1.0], [1.0], [0.0]])
    sums = WeightedSums(1)
    sums.add(np.zeros(5, np.int64), weights, outcomes)
    exact = sum(Fraction(w) * Fraction(o) for w, o in zip(weights.tolist(), outcomes[:, 0].tolist(), strict=True))
    assert Fraction(float(sums.outcomes.sum())) == pytest.approx(exact, rel=1e-15)
    assert float(sums.outcomes.sum()) == 0.75 + 1e-9
    told = sums.statistics
    assert told.effective == pytest.approx(1)
    assert told.largest == 1e130
    assert told.largest_share == pytest.approx(1)
    assert math.isfinite(told.mean or math.nan)
    with pytest.raises(DataError, match="would never show"):
        sums.add(np.zeros(1, np.int64), np.array([np.inf]), np.zeros((1, 1)))


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1e6), st.floats(-1, 1)), min_size=1, max_size=30))
def test_sums_by_bucket_are_those_of_fractions(rows: list[tuple[int, float, float]]) -> None:
    sums = WeightedSums(1)
    half = len(rows) // 2
    for part in (rows[:half], rows[half:]):
        made = np.array(part).reshape(-1, 3)
        sums.add(made[:, 0].astype(np.int64), made[:, 1], made[:, 2:])
    for bucket in range(4):
        mine = [(w, o) for b, w, o in rows if b == bucket]
        exact = sum((Fraction(w * o) for w, o in mine), Fraction(0))
        assert sums.outcomes[bucket, 0] == pytest.approx(float(exact), rel=1e-15, abs=1e-300)
        assert sums.weights[bucket] == pytest.approx(float(sum(Fraction(w) for w, _ in mine)), rel=1e-15)
        assert sums.impressions[bucket] == len(mine)


def test_what_is_to_be_known_of_weights() -> None:
    sums = WeightedSums(1)
    sums.add(np.zeros(4, np.int64), np.array([1.0, 2, 0, 5]), np.zeros((4, 1)), clip=2)
    told = sums.statistics
    assert (told.impressions, told.usable, told.mean, told.largest) == (4, 0.75, 1.25, 2)
    assert told.effective == pytest.approx(25 / 9)
    assert (told.largest_share, told.clipped) == (0.4, 3 / 8)
    nothing = WeightedSums(1).statistics
    assert (nothing.usable, nothing.mean, nothing.largest_share, nothing.effective) == (None, None, None, 0)


def test_the_jackknife_is_the_formula() -> None:
    """A mean of independent groups: its jackknife error is that of the mean of group means, weights alike."""
    values = np.array([0.2, 0.5, 0.1, 0.7])
    sums = np.broadcast_to(values[None, :, None] * 10, (5, 4, 1))
    (found,) = jackknife(sums, np.full(4, 10.0), 0.95)
    assert found.value == pytest.approx(values.mean())
    assert found.error == pytest.approx(values.std(ddof=1) / 2)
    assert found.interval is not None
    assert found.value is not None
    assert found.error is not None
    assert found.interval[1] - found.value == pytest.approx(3.182446 * found.error, rel=1e-6)  # t, 3 degrees


def test_a_jackknife_without_variance_has_no_interval_but_a_reason() -> None:
    (alike,) = jackknife(np.ones((3, 2, 1)), np.ones(2), 0.95)
    (alone,) = jackknife(np.ones((1, 1, 1)), np.ones(1), 0.95)
    for found in (alike, alone):
        assert found.value == 1
        assert (found.error, found.interval, found.p_value) == (None, None, None)
        assert found.reason
