"""`interleave_batch` and `credit_batch`: the same lists, credit and preferences as one by one, and checked inputs."""

from typing import Any

import numpy as np
import pytest

import interleaf
from interleaf import ClickError, ListError, MethodError, RandomnessError, RankingError, credit_batch, interleave_batch
from interleaf.interleaving import batch
from interleaf.methods.registry import METHODS

COMPARING = [name for name, method in METHODS.items() if method.schemes]
SPECS = [*COMPARING, "team_draft(fill=owned)", "probabilistic(tau=1)"]
CASES = [(spec, of) for spec in SPECS for of in (2, 3) if of == 2 or METHODS[spec.partition("(")[0]].rankers[1] is None]


def ragged_rankings(queries: int, rankers: int, depth: int, seed: int = 1) -> Any:
    """Rankings of different lengths, filled up with -1; each query has some document."""
    chance = np.random.default_rng(seed)
    rankings = np.full((queries, rankers, depth), -1)
    for query in range(queries):
        for ranker in range(rankers):
            length = chance.integers(1 if ranker == 0 else 0, depth + 1)
            rankings[query, ranker, :length] = chance.permutation(50 + depth + 2)[:length]
    return rankings


@pytest.mark.parametrize(("spec", "rankers"), CASES)
def test_rows_are_the_lists_and_outcomes_of_single_calls(spec: str, rankers: int) -> None:
    rankings, k = ragged_rankings(6, rankers, 6), 4
    queries = np.arange(30) % 6
    keys = [("exp", int(row)) for row in range(30)]
    shown = interleave_batch(rankings, spec, k, keys, queries=queries, threads=2)
    clicks = (np.random.default_rng(2).random(shown.documents.shape) < 0.4) & (shown.documents >= 0)
    schemes = METHODS[spec.partition("(")[0]].schemes_for(rankers)
    outcomes = {scheme: credit_batch(shown, clicks, scheme) for scheme in schemes}
    for row, query in enumerate(queries):
        given = [[int(document) for document in ranking if document >= 0] for ranking in rankings[query]]
        one = interleaf.interleave(given, spec, k, keys[row])
        count = shown.counts[row]
        assert tuple(shown.documents[row, :count].tolist()) == one.documents
        assert (shown.documents[row, count:] == -1).all()
        assert shown.keys[row] == one.key
        assert (shown.teams is None) == (one.teams is None)
        assert shown.teams is None or tuple(shown.teams[row, :count].tolist()) == one.teams
        assert shown.ranks[row, :, :count].tolist() == one.ranks.tolist()
        assert (tuple(shown.lengths[row].tolist()), shown.union[row]) == (one.lengths, one.union)
        assert one.choices is None or tuple(shown.choices[row, :count].tolist()) == one.choices
        for scheme, outcome in outcomes.items():
            single = interleaf.credit(one, (np.flatnonzero(clicks[row]) + 1).tolist(), scheme)
            assert outcome.credit[row].tolist() == pytest.approx(list(single.credit.values()))
            assert outcome.preference[row] == pytest.approx(single.preference)
            assert (outcome.score is None) == (rankers != 2)


def test_a_list_for_each_query_and_random_keys_are_the_defaults() -> None:
    shown = interleave_batch(ragged_rankings(20, 2, 8))
    assert shown.documents.shape == (20, 10)
    assert len(set(shown.keys)) == 20


RANKINGS = [[[4, 1, -1], [1, 9, 7]]]
WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "one ranking": ({"rankings": [[4, 1]]}, RankingError, r"shape \(1, 2\)"),
    "texts": ({"rankings": [[["a"], ["b"]]]}, RankingError, "give whole numbers"),
    "one ranker": ({"rankings": [[[1, 2]]]}, RankingError, "not 1"),
    "a gap": ({"rankings": [[[-1, 1], [1, 2]]]}, RankingError, "ranker 0 for query 0 has -1 above a document"),
    "a repeat": ({"rankings": [[[1, 2], [2, 2]]]}, RankingError, "ranker 1 for query 0 repeats a document"),
    "nothing": ({"rankings": [[[-1], [-1]]]}, RankingError, "query 0 has no document"),
    "a number below -1": ({"rankings": [[[-2], [1]]]}, RankingError, "documents are numbers from 0"),
    "a query that is not there": ({"queries": [0, 1]}, RankingError, "queries are from 0 to 1"),
    "queries in two dimensions": ({"queries": [[0]]}, RankingError, r"shape \(1, 1\)"),
    "too few keys": ({"keys": ["a"], "queries": [0, 0]}, RandomnessError, "1 keys for 2 lists"),
    "a wrong key": ({"keys": [1.5]}, RandomnessError, "1.5"),
    "nothing to show": ({"k": 0}, RankingError, "k is 0"),
    "one ranking shown": ({"method": "single(ranker=A)"}, MethodError, "does not mix rankings; use the ranking itself"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_inputs_are_refused(what: str) -> None:
    options, error, message = WRONG[what]
    with pytest.raises(error, match=message):
        interleave_batch(**({"rankings": RANKINGS} | options))


def test_all_problems_of_rankings_are_listed_at_once() -> None:
    with pytest.raises(interleaf.InterleafError) as caught:
        interleave_batch([[[1, 1], [-1, 2]], [[-1, -1], [-1, -1]]])
    assert len(caught.value.problems) == 3


def test_clicks_must_fit_the_lists() -> None:
    shown = interleave_batch(RANKINGS, k=5)
    for clicks in ([[1, 0, 0, 0, 0]], [[True]]):
        with pytest.raises(ClickError, match=r"give booleans of shape \(1, 5\)"):
            credit_batch(shown, clicks)
    with pytest.raises(ClickError, match="row 0 has a click at rank 5, but only 4 documents"):
        credit_batch(shown, [[False, False, False, False, True]])


def test_an_average_over_owners_that_cannot_be_computed_is_refused() -> None:
    """More than 12 rankers and 12 positions are too many for `list`; `place` draws more lists instead."""
    rankings = np.array([[np.roll(np.arange(26), 2 * ranker) for ranker in range(13)]])
    shown = interleave_batch(rankings, "team_draft", k=13, keys=["user-7"])
    clicks = np.ones((1, 13), np.bool_)
    with pytest.raises(ListError, match=r"cannot credit row 0 by 'click_list' \(1 such rows\)"):
        credit_batch(shown, clicks, "click_list")
    with pytest.raises(ListError, match="cannot credit this list by 'click_list'"):
        interleaf.credit(interleaf.interleave(rankings[0].tolist(), "team_draft", 13, "user-7"), [1], "click_list")
    assert credit_batch(shown, clicks, "click_place").credit.sum() == pytest.approx(13)


@pytest.mark.parametrize("rankers", [2, 5])
def test_averages_of_redrawn_lists_have_the_mean_of_the_drawn_owners(rankers: int) -> None:
    """With five rankers there are more drafts than are enumerated, so lists are drawn again (z below 5, fixed keys)."""
    rankings = np.array([[np.random.default_rng(ranker).permutation(11) for ranker in range(rankers)]])
    shown = interleave_batch(rankings, "team_draft", keys=list(range(4000)), queries=np.zeros(4000, np.int64))
    clicks = np.random.default_rng(1).random(shown.documents.shape) < 1 / (1 + shown.documents % 7)
    plain, averaged = (credit_batch(shown, clicks, scheme).credit for scheme in ("click", "click_place"))
    difference = (plain - averaged)[:, 0] - (plain - averaged)[:, 1]
    assert abs(difference.mean()) < 5 * difference.std() / 4000**0.5
    assert difference.std() > 0
    assert (averaged[:, 0] - averaged[:, 1]).var() < (plain[:, 0] - plain[:, 1]).var()


def test_there_is_room_for_unshown_documents_of_lists_from_below_the_top() -> None:
    """`probabilistic` may show documents that no ranker has at a rank of the list."""
    chance = np.random.default_rng(3)
    rankings = np.array([[chance.permutation(12) for _ in range(2)] for _ in range(50)])
    shown = interleave_batch(rankings, "probabilistic", k=3, keys=list(range(50)))
    unshown = batch.unshown_ranks(shown.rankings, shown.queries, shown.documents, shown.counts, shown.choices)
    for row in range(50):
        tops = [[d for d in ranking[:3] if d not in shown.documents[row]] for ranking in rankings[row].tolist()]
        assert sorted(unshown[row][unshown[row] > 0].tolist()) == sorted(
            rankings[row, ranker].tolist().index(d) + 1 for ranker, top in enumerate(tops) for d in top
        )
