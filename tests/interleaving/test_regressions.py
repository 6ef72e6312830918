"""What a review found in the heart, and what must not come back."""

import json
import math

import numpy as np
import pytest

from interleaf import ClickError, Interleaving, ListError, RandomnessError, credit, interleave, warm
from interleaf.clicks import Cascade
from interleaf.interleaving import batch
from interleaf.interleaving.kernel_calls import Composing
from interleaf.interleaving.rankings import CheckedRankings
from interleaf.kernels.arrays import EncodedRankings
from interleaf.kernels.randomness import bytes_of, key_of
from interleaf.methods.linear_program import INVERSE, solution_of
from interleaf.methods.registry import METHODS, resolve
from tests.oracles import sample_scored_only as oracle


@pytest.mark.parametrize("tau", [3, 10])
def test_a_small_difference_of_credit_is_not_a_tie(tau: int) -> None:
    """The sign's tolerance is a share of the credit: subrank^-tau of the tenth document is tiny, and still decides."""
    rankings = [tuple("abcdefghij"), tuple("abcdefghji")]
    shown = Interleaving.of(rankings, list("abcdefghij"), f"sample_scored_only(tau={tau})")
    for position in range(10):
        truth = oracle.preference(rankings, tuple("abcdefghij"), None, {position}, "binary", tau=tau)[0][1]
        assert credit(shown, [position + 1]).score == truth


def test_many_clicks_are_credited_like_few() -> None:
    """Above a few clicks the shown documents are sorted once; both ways must agree with the oracle."""
    rankings = [tuple("abcdefghijkl"), tuple("lkajbicz"), tuple("zyxwv")]
    shown = tuple("abzlkycdefgh")
    made = Interleaving.of(rankings, list(shown), "sample_scored_only")
    for count in range(1, 13):
        truth = oracle.preference(rankings, shown, None, set(range(count)), "click", tau=3)
        assert credit(made, range(1, count + 1), "click").preference == pytest.approx(np.array(truth, float))


def test_two_rankers_are_weighed_over_all_lists_as_far_as_there_is_room() -> None:
    order = np.random.default_rng(3)
    for _ in range(3):
        rankings = np.argsort(np.arange(15) + order.normal(0, 3, (2, 15))).tolist()
        problem = CheckedRankings.of(rankings, resolve("optimized"))
        names, given = problem.encode(15)
        _, weights, relaxed = solution_of(given, problem.ranks_or_next(names), 15, INVERSE, 50, exact=False)
        assert not relaxed
        assert weights.sum() == pytest.approx(1)


def test_the_probability_of_a_draft_of_many_rankers_is_the_same_both_ways() -> None:
    """13 rankers go over positions, 12 over rankers; a copy of the last one must change what the formula says."""
    rankings = [["a", "b", "c"], ["b", "a", "c"], ["c", "a", "b"]] * 4
    for count in (12, 13):
        shown = Interleaving.of([*rankings, ["a", "c", "b"]][:count], ["a", "b"], "team_draft", (0, 1))
        first = [ranking[0] for ranking in [*rankings, ["a", "c", "b"]][:count]]
        after = [next(d for d in ranking if d != "a") for ranking in [*rankings, ["a", "c", "b"]][:count]]
        ways = sum(1 for i in range(count) for j in range(count) if i != j and first[i] == "a" and after[j] == "b")
        assert shown.log_probability == pytest.approx(math.log(ways / (count * (count - 1))))


def test_rankings_by_name_are_taken_in_the_order_of_the_rankers() -> None:
    data = {
        "rankings": {"A": ["a", "b"], "B": ["b", "a"]},
        "rankers": ["B", "A"],
        "documents": ["b", "a"],
        "teams": [0, 1],
    }
    assert credit(Interleaving.from_dict(data), [1]).credit == {"B": 1.0, "A": 0.0}
    for rankers in (["B", "x"], ["A", "B", "C"], ["A", "A"], [1, 2]):
        with pytest.raises(ValueError, match=r"rank"):
            Interleaving.from_dict({**data, "rankers": rankers})


def test_stored_rankings_come_back() -> None:
    shown = interleave([["a", "b"], ["b", "a"]], key="x")
    again = Interleaving.from_dict(json.loads(json.dumps(shown.to_dict(rankings=True))))
    assert again.rankings == shown.rankings


def test_a_list_without_choices_has_no_probability() -> None:
    data = interleave([["a", "b"], ["b", "a"]], "pairwise_preference", key="x").to_dict()
    bare = Interleaving.from_dict({**data, "choices": None, "log_probability": None})
    assert bare.log_probability is None
    with pytest.raises(ListError, match="choices"):
        credit(bare, [1])


def test_what_is_nested_too_deeply_is_refused() -> None:
    key: tuple[object, ...] = ()
    for _ in range(10_000):
        key = (key,)
    with pytest.raises(RandomnessError, match="nested"):
        key_of(key)


def test_a_batch_of_clicks_looks_at_its_grades_first() -> None:
    keys = np.zeros((1, 2), np.uint64)
    model = Cascade(click=(0, 1), stop=(0, 0))
    for grades in ([[-100, 0]], [[0, 2]], [[0.5, 0]]):
        with pytest.raises(ClickError, match="grade"):
            model.sample_batch(np.array(grades), np.array([2]), keys)


def test_a_long_list_is_checked_in_no_time_and_its_duplicate_found() -> None:
    documents = [str(number) for number in range(50_000)]
    assert len(Interleaving.of([documents, documents[::-1]], documents, "single").documents) == 50_000
    with pytest.raises(ListError, match="'7' is shown twice"):
        Interleaving.of([documents, documents[::-1]], [*documents, "7"], "single")


@pytest.mark.parametrize("method", [*METHODS, "single(ranker=production)"])
def test_every_method_can_be_warmed(method: str) -> None:
    warm(method)
    assert resolve(method).method.kernels.compose.signatures  # type: ignore[attr-defined]


def test_batches_do_not_depend_on_threads_or_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = resolve("probabilistic")
    work = Composing(chosen, CheckedRankings.of([list("abcdef"), list("fedcba")], chosen), 5, exact=False)
    given = EncodedRankings(work.encoded.rankings[None], work.encoded.depths[None], np.array([work.encoded.documents]))
    words = [np.frombuffer(bytes_of(key_of(("row", row))), "<u8") for row in range(3000)]
    queries, keys = np.zeros(3000, np.int64), np.array(words)
    whole = batch.compose(chosen, given, work.settings, queries, keys, 5, threads=1)
    monkeypatch.setattr(batch, "CHUNK", 64)
    for threads in (1, 2, 8):
        split = batch.compose(chosen, given, work.settings, queries, keys, 5, threads=threads)
        for one, other in zip(whole, split, strict=True):
            assert (one == other).all()
