"""Judged metrics: against plain formulas, against the simulator's truth, and files that are not what they should be."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from interleaf.errors import DataError, MissingExtraError
from interleaf.metrics.judged import average_precision, dcg, gain, ndcg, read_qrels
from interleaf.simulate.data import synthetic
from interleaf.simulate.rankers import rank, scores_of
from interleaf.simulate.run import ndcg_by_query

DOCUMENTS = [f"d{number}" for number in range(12)]
GRADES = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(0, 4), min_size=1)


def plain_dcg(grades: Sequence[int], cut: int) -> float:
    return math.fsum((2**grade - 1) / math.log2(rank + 1) for rank, grade in enumerate(grades[:cut], 1))


@settings(max_examples=60, deadline=None)
@given(GRADES, st.permutations(DOCUMENTS), st.integers(1, 12))
def test_every_metric_is_its_plain_formula(judged: dict[str, int], order: list[str], cut: int) -> None:
    ranked = [judged.get(document, 0) for document in order]
    best = plain_dcg(sorted(judged.values(), reverse=True), cut)
    qrels, rankings = {"q": judged}, {"q": order}
    assert dcg(qrels, rankings, cut)["q"] == pytest.approx(plain_dcg(ranked, cut))
    assert ndcg(qrels, rankings, cut)["q"] == pytest.approx(plain_dcg(ranked, cut) / best if best else 0)
    hits = [grade >= 3 for grade in ranked]
    precisions = [sum(hits[: place + 1]) / (place + 1) for place in range(cut) if hits[place]]
    assert average_precision(qrels, rankings, cut)["q"] == pytest.approx(sum(precisions) / max(sum(hits), 1))


def test_ndcg_is_the_simulator_s_truth_on_every_query() -> None:
    data = synthetic(queries=40, documents=(3, 30), features=3, seed=5)
    rankings = rank(data, [scores_of(data, feature) for feature in (1, 3)], "ties")
    qrels = {
        query: {f"d{place}": int(grade) for place, grade in enumerate(data.grades[data.rows(number)])}
        for number, query in enumerate(data.queries)
    }
    for cut in (5, 10):
        wanted = ndcg_by_query(data, rankings, cut)
        for ranker in range(2):
            run = {
                query: [f"d{place}" for place in rankings[number, ranker] if place >= 0]
                for number, query in enumerate(data.queries)
            }
            assert list(ndcg(qrels, run, cut).values()) == pytest.approx(wanted[:, ranker])


def test_the_upper_two_of_five_grades_are_relevant_as_in_c12_unless_told() -> None:
    qrels, rankings = {"q": {"a": 2, "b": 3, "c": 4}}, {"q": ["a", "b", "c"]}
    assert average_precision(qrels, rankings)["q"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert average_precision(qrels, rankings, relevant=1)["q"] == 1


def test_what_is_not_in_the_top_ten_counts_as_not_found() -> None:
    order = [*(f"bad{number}" for number in range(10)), "good"]
    assert average_precision({"q": {"good": 4}}, {"q": order}) == {"q": 0.0}
    assert average_precision({"q": {"good": 4}}, {"q": order}, cut=11)["q"] == pytest.approx(1 / 11)


def test_judged_queries_count_and_no_others() -> None:
    qrels = {"asked": {"a": 1}, "unanswered": {"a": 4}, "hopeless": {"a": 0}}
    found = ndcg(qrels, {"asked": ["a"], "unjudged": ["a"], "hopeless": ["a"]})
    assert found == {"asked": 1.0, "unanswered": 0.0, "hopeless": 0.0}


def test_a_trec_file_is_read_as_it_is_and_grades_below_zero_are_zero(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text("7 0 doc-1 2\n\n7\t0\tdoc-2\t-1\n8 Q0 doc-1 0\n")
    assert read_qrels(path) == {"7": {"doc-1": 2, "doc-2": 0}, "8": {"doc-1": 0}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("7 0 a 1\n7 0 b\n", "line 2: '7 0 b' is not 'qid 0 docid grade'"),
        ("7 0 a good\n", "line 1: the grade 'good' is not a whole number"),
        ("7 0 a 99\n", "line 1: the grade 99 is above 30"),
        ("7 0 a 1\n8 0 a 1\n7 0 a 2\n", "line 3: document 'a' of query '7' is judged twice"),
        ("\n", "judges nothing"),
    ],
)
def test_a_bad_line_is_named_with_its_number(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text(text)
    with pytest.raises(DataError, match=said):
        read_qrels(tmp_path / "qrels.txt")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing\.txt"):
        read_qrels(tmp_path / "missing.txt")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="is not text"):
        read_qrels(tmp_path / "bytes")


def test_impossible_grades_and_rankings_are_refused() -> None:
    with pytest.raises(DataError, match="grade -1"):
        gain(-1)
    with pytest.raises(DataError, match="document 'a' twice"):
        ndcg({"q": {"a": 1}}, {"q": ["a", "b", "a"]})


def test_without_the_extra_the_error_is_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingExtraError, match=r"need ir_measures; run: .*\[judged\]"):
        ndcg({"q": {"a": 1}}, {"q": ["a"]})
