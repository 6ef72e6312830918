"""Old impressions for new rankers: list probabilities, outcomes and expectations against full enumeration."""

import math
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from interleaf import MethodError, SchemeError
from interleaf.counterfactual.click_model import STATES, ClickModels, RankedLists, add_foreseen
from interleaf.counterfactual.list_outcomes import log_chances, scorer_of
from interleaf.kernels.arrays import Impression, pairs
from interleaf.methods.registry import resolve
from tests.oracles import probabilistic as oracle
from tests.oracles.expectation import expectation
from tests.oracles.forms import Preference, Ranking, Rankings
from tests.support.reuse_worlds import (
    ORACLES,
    attracted,
    clicks_of,
    happenings,
    impatient,
    list_chances,
    new_rankings,
    rankings_of,
    seen,
)

PAIRS = ("abc bca", "abcd dcab", "ab bc", "abc bca cab", "abcd acbd bd")


@pytest.mark.parametrize("method", ORACLES)
@pytest.mark.parametrize("text", PAIRS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_list_probabilities_are_those_of_all_that_can_be_drawn(method: str, text: str, k: int) -> None:
    rankings = rankings_of(text)
    chances = list_chances(method, rankings, k)
    length = len(next(iter(chances)))
    lists = list(permutations(sorted({d for ranking in rankings for d in ranking}), length))
    view = seen(rankings, lists, length)
    found = np.exp(log_chances(resolve(method), view.impressions, view.counts)[0])
    assert found == pytest.approx([float(chances.get(shown, 0)) for shown in lists], rel=1e-12, abs=0)


def test_the_chance_of_list_and_owners_is_that_of_the_draws() -> None:
    rankings = rankings_of("abc cab")
    drawn = oracle.distribution(rankings, 2)
    view = seen(rankings, [shown for shown, _ in drawn], 2)
    teams = np.array([teams for _, teams in drawn], np.int8)
    joint = log_chances(resolve("probabilistic"), view.impressions._replace(teams=teams), view.counts)[1]
    assert np.exp(joint) == pytest.approx([float(chance) for chance in drawn.values()], rel=1e-12)
    unowned = log_chances(resolve("probabilistic"), view.impressions, view.counts)[1]
    assert np.isnan(unowned).all()


def marginal(method: str, rankings: Rankings, shown: Ranking, clicked: frozenset[int], scheme: str) -> Preference:
    """The outcome given list and clicks, by the oracle; summed over all ways to draft the list where it has owners."""
    module = ORACLES[method]
    if method != "team_draft":
        found: Preference = module.preference(rankings, shown, None, clicked, scheme)
        return found
    drafts = module.distribution(rankings, len(shown)).items()
    ways = {teams: chance for (drafted, teams), chance in drafts if drafted == shown}
    total = sum(ways.values())
    outcomes = {teams: module.preference(rankings, shown, teams, clicked, scheme) for teams in ways}
    size = range(len(rankings))
    return [[sum(ways[t] * outcomes[t][i][j] for t in ways) / total for j in size] for i in size]


TARGETS = (
    *(("probabilistic", "binary"), ("probabilistic", "click"), ("probabilistic", "normalized")),
    *(("team_draft", "binary"), ("pairwise_preference", "click"), ("pairwise_preference", "normalized")),
)


@pytest.mark.parametrize(("method", "scheme"), TARGETS)
@pytest.mark.parametrize("text", ["abc bca", "abcd dcab", "abc bca cab"])
def test_outcomes_are_the_oracles(method: str, scheme: str, text: str) -> None:
    rankings = rankings_of(text)
    lists = list(list_chances(method, rankings, 3))
    rows = [(shown, clicks) for shown in lists for clicks in product([False, True], repeat=3)]
    scorer = scorer_of(method, scheme, len(rankings))
    view = seen(rankings, [shown for shown, _ in rows], 3)
    found = scorer.by_pair(scorer(view.impressions, view.counts, np.array([clicks for _, clicks in rows])))
    first, second = pairs(len(rankings))
    for outcome, (shown, clicks) in zip(found, rows, strict=True):
        expected = marginal(method, rankings, shown, frozenset(np.flatnonzero(clicks).tolist()), scheme)
        wanted = [float(expected[i][j]) for i, j in zip(first, second, strict=True)]
        assert outcome == pytest.approx(wanted, abs=1e-12)


UNBIASED = (
    ("probabilistic", "abcd bcda", "probabilistic", "dcba acbd", "binary"),
    ("probabilistic", "abcd bcda", "probabilistic", "dcba acbd", "click"),
    ("probabilistic", "abcd bcda", "probabilistic", "dcba acbd bdac", "click"),
    ("probabilistic", "abcd bcda", "team_draft", "dcba acbd", "binary"),
    ("probabilistic", "abcd bcda", "pairwise_preference", "dcba acbd", "click"),
    ("pairwise_preference", "abcd dcba", "pairwise_preference", "abcd dbca", "click"),
    ("team_draft", "abcd bacd", "team_draft", "bacd abdc", "binary"),
)


@pytest.mark.parametrize(("source", "old", "target", "new", "scheme"), UNBIASED)
@pytest.mark.parametrize("people", [impatient, attracted])
def test_weighted_outcomes_have_the_expectation_of_the_live_comparison(
    source: str, old: str, target: str, new: str, scheme: str, people: Any
) -> None:
    """Wherever the old method shows all lists that the new one would, and exactly so; and weights average 1."""
    before, after, k = rankings_of(old), rankings_of(new), 2 if target == "team_draft" else 3
    rows = happenings(source, before, k, people)
    missing = list_chances(target, after, k).keys() - list_chances(source, before, k).keys()
    assert not missing
    scorer, view = scorer_of(target, scheme, len(after)), seen(after, [row.shown for row in rows], k)
    old_view = seen(before, [row.shown for row in rows], k)
    logs = log_chances(scorer.chosen, view.impressions, view.counts)[0]
    weights = np.exp(logs - log_chances(resolve(source), old_view.impressions, old_view.counts)[0])
    outcomes = np.zeros((len(rows), scorer.columns))
    some = weights > 0
    lists = Impression(*(values[some] for values in view.impressions))
    outcomes[some] = scorer(lists, view.counts[some], clicks_of(rows, k)[some])
    chances = np.array([float(row.chance) for row in rows])
    live = expectation(
        {(shown, None): chance for shown, chance in list_chances(target, after, k).items()},
        lambda shown, _, clicked: marginal(target, after, shown, clicked, scheme),
        people,
    )
    first, second = pairs(len(after))
    wanted = [float(live[i][j]) for i, j in zip(first, second, strict=True)]
    assert scorer.by_pair((chances * weights) @ outcomes) == pytest.approx(wanted, abs=1e-12)
    assert chances @ weights == pytest.approx(1, rel=1e-12)


def test_without_support_the_mean_weight_is_the_share_of_new_lists_that_old_ones_cover() -> None:
    before, after = rankings_of("abcd abcd"), rankings_of("abcd dcba")
    old, new = (list_chances("pairwise_preference", rankings, 2) for rankings in (before, after))
    covered = sum(chance for shown, chance in new.items() if shown in old)
    assert 0 < covered < 1
    lists = list(old)
    views = [seen(rankings, lists, 2) for rankings in (before, after)]
    logs = [log_chances(resolve("pairwise_preference"), view.impressions, view.counts)[0] for view in views]
    mean = np.array([float(old[shown]) for shown in lists]) @ np.exp(logs[1] - logs[0])
    assert mean == pytest.approx(float(covered), rel=1e-12)


def any_models(entries: int, k: int, seed: int = 1) -> ClickModels:
    chance = np.random.default_rng(seed)
    return ClickModels(chance.random((entries, 2)), 1.6 * chance.random((k * STATES, 2)))


def foreseen_by_hand(models: ClickModels, model: int, rankings: Rankings, shown: Ranking, row: Any, scheme: str) -> Any:
    """The sum over all click patterns, each with its chance given the clicks above."""
    total = np.zeros((len(rankings), len(rankings)))
    for clicks in product([False, True], repeat=len(shown)):
        chance = 1.0
        for position, clicked in enumerate(clicks):
            place = position * STATES + min(sum(clicks[:position]), STATES - 1)
            rate = min(1.0, models.attraction[row[position], model] * models.attention[place, model])
            chance *= rate if clicked else 1 - rate
        clicked_at = frozenset(np.flatnonzero(clicks).tolist())
        outcome = oracle.preference(rankings, shown, None, clicked_at, scheme)
        total += chance * np.array([[float(value) for value in line] for line in outcome])
    return total[pairs(len(rankings))]


@pytest.mark.parametrize("scheme", ["binary", "click"])
@pytest.mark.parametrize("text", ["abcd bcda", "abcd bcda dacb"])
def test_what_a_model_foresees_is_the_sum_over_all_clicks(scheme: str, text: str) -> None:
    rankings = rankings_of(text)
    lists = [shown for k in (1, 2, 4) for shown in list(permutations("abcd", k))[:: 2 * k - 1]]
    view, models = seen(rankings, lists, 4), any_models(4, 4)
    scorer = scorer_of("probabilistic", scheme, len(rankings))
    sums = np.zeros((2, len(lists), scorer.columns))
    nothing = np.zeros((len(lists), scorer.columns))
    add_foreseen(scorer, view, np.full(len(lists), -1.0), nothing, models, sums)
    for model, row in product(range(2), range(len(lists))):
        wanted = foreseen_by_hand(models, model, rankings, lists[row], view.entries[row], scheme)
        assert scorer.by_pair(sums[model, row]) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("scheme", ["binary", "click"])
def test_whatever_the_model_the_doubly_robust_estimate_is_unbiased(scheme: str) -> None:
    """Over all new lists, old lists and clicks, with weights that are not truncated."""
    before, after, k = rankings_of("abcd bcda"), rankings_of("dcba acbd"), 3
    scorer, models = scorer_of("probabilistic", scheme, 2), any_models(4, k, seed=3)
    new = list_chances("probabilistic", after, k)
    view = seen(after, list(new), k)
    sums = np.zeros((2, 1, scorer.columns))
    chances = np.array([float(chance) for chance in new.values()])
    together = RankedLists(*view[:3], np.zeros(len(new), np.int64))
    nothing = np.zeros((len(new), scorer.columns))
    add_foreseen(scorer, together, -chances, nothing, models, sums)
    rows = happenings("probabilistic", before, k, impatient)
    old, source = (seen(rankings, [row.shown for row in rows], k) for rankings in (after, before))
    logs = [log_chances(scorer.chosen, side.impressions, side.counts)[0] for side in (old, source)]
    weights = np.array([float(row.chance) for row in rows]) * np.exp(logs[0] - logs[1])
    outcomes = scorer(old.impressions, old.counts, clicks_of(rows, k))
    add_foreseen(
        scorer,
        RankedLists(*old[:3], np.zeros(len(rows), np.int64)),
        weights,
        outcomes,
        models,
        sums,
    )
    live = expectation(
        {(shown, None): chance for shown, chance in new.items()},
        lambda shown, _, clicked: oracle.preference(after, shown, None, clicked, scheme),
        impatient,
    )
    for model in range(2):
        assert scorer.by_pair(sums[model, 0]) == pytest.approx([float(live[0][1])], abs=1e-12)


def test_methods_that_old_lists_cannot_be_scored_by_are_refused() -> None:
    with pytest.raises(MethodError, match=r"cannot be compared by optimized.*'probabilistic'"):
        scorer_of("optimized", None, 2)
    with pytest.raises(SchemeError, match="binary_deduped"):
        scorer_of("team_draft", "binary_deduped", 2)
    with pytest.raises(SchemeError, match="prefix=True"):
        scorer_of("team_draft(prefix=True)", None, 2)
    with pytest.raises(SchemeError, match="13"):
        scorer_of("team_draft", None, 13)


def test_probabilities_too_small_for_a_product_are_there_in_logs() -> None:
    """A hundred documents of four hundred, which both rankers have last: far below what a float can hold."""
    names = [f"d{number}" for number in range(400)]
    made = new_rankings([tuple(names), tuple(names)], 100)
    entries = np.arange(399, 299, -1)[None]
    impressions = Impression.of(
        made.ranks[entries].swapaxes(1, 2), np.full((1, 100), -1), made.lengths, made.union, made.choices
    )
    (found,), _ = log_chances(resolve("probabilistic"), impressions, np.array([100]))
    weights = {rank: Fraction(1, rank**3) for rank in range(1, 401)}
    left, wanted = sum(weights.values()), 0.0
    for rank in range(400, 300, -1):
        wanted += math.log(weights[rank]) - math.log(left)
        left -= weights[rank]
    assert wanted < -1000
    assert found == pytest.approx(wanted, rel=1e-12)
