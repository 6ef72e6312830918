"""Old impressions for new rankers: every estimator's expectation by full enumeration, in fractions."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from interleaf import DataError
from interleaf.counterfactual.estimators import WeightedSums
from interleaf.counterfactual.list_outcomes import CLIP, draft_sign, log_chances, write_chances
from interleaf.interleaving import kernel_calls
from interleaf.kernels.arrays import Array, Impression, exactly
from interleaf.kernels.jit import plain
from interleaf.methods import probabilistic
from interleaf.methods.registry import resolve
from interleaf.simulate.data import Judged
from interleaf.studies import historical2012
from interleaf.studies.datasets import StudyData
from interleaf.studies.historical2012 import Weighing, add_weighing, estimate_of, reweight, weigh_drafts
from interleaf.studies.study import StudyRun
from tests.oracles import probabilistic as oracle, team_draft as draft_oracle
from tests.oracles.clicks import Patterns, cascade, independent
from tests.oracles.expectation import expectation
from tests.oracles.forms import Preference, Ranking, Rankings, sign, union
from tests.support.worlds import click_sets

PI = resolve("probabilistic(tau=3)")
People = Callable[[Ranking], Patterns]


def rankings_of(text: str) -> Rankings:
    return [tuple(word) for word in text.split()]


class World(NamedTuple):
    """Source and target rankings, written as words, how many documents are shown, and who clicks."""

    source: str
    target: str
    k: int
    people: People


def perfect(relevant: str) -> People:
    """All that is relevant is clicked, and nothing else."""
    return lambda shown: independent([Fraction(document in relevant) for document in shown])


def impatient(shown: Ranking) -> Patterns:
    """Reads down the list, clicks by grade, and often leaves after a click."""
    grades = {"a": 2, "b": 0, "c": 1, "d": 1}
    click = (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))
    return cascade([grades[document] for document in shown], click, (Fraction(0), Fraction(1, 2), Fraction(3, 4)))


def by_rank(shown: Ranking) -> Patterns:
    """Clicks that know no documents."""
    return independent([Fraction(1, rank + 2) for rank in range(len(shown))])


WORLDS = (
    World("abc bca", "abc cba", 2, perfect("ac")),
    World("abcd bcda", "dcba acbd", 3, impatient),
    World("abc acb", "cab bca", 3, impatient),
    World("abc acb", "cab bca", 3, by_rank),
    World("abcd bcda", "abcd bcda", 2, impatient),  # the old pair itself
    World("ab bc", "ca b", 2, perfect("bc")),  # rankers that lack documents
    World("abc acb bca", "cab bca abc", 2, impatient),  # three rankers, of which the first two are looked at
)
UNEQUAL = (World("abc bca cab", "acb cba", 2, impatient), World("abc bca", "acb cba bac", 2, impatient))


def impression_of(rankings: Rankings, shown: Ranking, teams: Any, exact: bool = True) -> Impression:
    ranks = [[ranking.index(d) + 1 if d in ranking else 0 for d in shown] for ranking in rankings]
    lengths = np.array([len(ranking) for ranking in rankings], np.int64)
    owners, choices = np.array(teams, np.int64), np.zeros(len(shown), np.int64)
    made = Impression.of(np.array(ranks, np.int64), owners, lengths, len(union(rankings)), choices)
    return exactly(made) if exact else made


def exact_weights(source: Impression, target: Impression) -> Array:
    """P_T / P_S at each rank, of the document and of document and owner, by our own kernel in fractions."""
    rankers, count = max(len(source.ranks), len(target.ranks)), source.ranks.shape[1]
    settings, chances = probabilistic.settings((128,), PI.parameters, True), np.zeros((2, 2, count), object)
    for side, impression in enumerate((source, target)):
        of_list, of_owned = chances[side]
        plain(write_chances)(exactly(impression), of_list, of_owned, np.zeros((rankers, count), object), settings)
    return np.asarray(chances[1] / chances[0])


class Row(NamedTuple):
    """One thing that can happen for the source: how likely it is, and what each estimator makes of it."""

    chance: Fraction
    list_weight: Fraction
    cut_weight: Fraction  # the list weight down to the lowest click only
    owned_weight: Fraction
    observed: int
    marginal: Fraction


def rows_of(world: World) -> Iterator[Row]:
    """Every list, assignment and click pattern of the source; weights and outcomes by our own kernels, exactly."""
    source, target = rankings_of(world.source), rankings_of(world.target)
    for (shown, teams), of_list in oracle.distribution(source, world.k).items():
        assert teams is not None
        old, new = impression_of(source, shown, teams), impression_of(target, shown, teams)
        by_list, by_owned = exact_weights(old, new)
        for pattern, of_clicks in world.people(shown).items():
            _, marginal = kernel_calls.credit(
                PI, PI.scheme("binary", len(target)), new, [bool(c) for c in pattern], exact=True
            )
            lead = sum((1, -1, 0)[owner] for owner, clicked in zip(teams, pattern, strict=True) if clicked)
            lowest = max((position + 1 for position, clicked in enumerate(pattern) if clicked), default=0)
            cut = math.prod(by_list[:lowest].tolist(), start=Fraction(1))
            whole, owned = math.prod(by_list.tolist()), math.prod(by_owned.tolist())
            yield Row(of_list * of_clicks, whole, cut, owned, sign(Fraction(lead)), marginal[0, 1])


def truth_of(world: World) -> Fraction:
    """The expected outcome of the first two target rankers with live people, from the oracle alone."""

    def outcome(shown: Ranking, teams: Any, clicked: frozenset[int]) -> Preference:
        return oracle.preference(target, shown, teams, clicked, "binary")

    target = rankings_of(world.target)
    return expectation(oracle.distribution(target, world.k), outcome, world.people)[0][1]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: f"{world.source} for {world.target}")
def test_both_weighted_estimators_are_exactly_unbiased(world: World) -> None:
    rows, truth = list(rows_of(world)), truth_of(world)
    assert sum(row.chance for row in rows) == 1
    assert sum(row.chance * row.list_weight for row in rows) == 1
    assert sum(row.chance * row.owned_weight for row in rows) == 1
    assert sum(row.chance * row.owned_weight * row.observed for row in rows) == truth
    assert sum(row.chance * row.list_weight * row.marginal for row in rows) == truth


@pytest.mark.parametrize("world", UNEQUAL, ids=lambda world: f"{world.source} for {world.target}")
def test_the_list_weight_needs_no_equal_numbers_of_rankers(world: World) -> None:
    rows = list(rows_of(world))
    assert sum(row.chance * row.list_weight for row in rows) == 1
    assert sum(row.chance * row.list_weight * row.marginal for row in rows) == truth_of(world)


def test_marginal_outcomes_vary_less_under_the_same_target() -> None:
    """Given list and clicks, PI+IS+MA is the expectation of PI+IS: its second moment is never larger."""
    for world in WORLDS:
        rows = list(rows_of(world))
        with_owners = sum(row.chance * (row.owned_weight * row.observed) ** 2 for row in rows)
        without = sum(row.chance * (row.list_weight * row.marginal) ** 2 for row in rows)
        assert without <= with_owners


def test_without_weights_the_outcome_can_be_reversed() -> None:
    """The paper's own argument: a source ranker that reverses a target ranker hides what that one finds."""
    world = World("bca cba", "abc bca", 2, perfect("ac"))
    unweighted = sum(row.chance * row.marginal for row in rows_of(world))
    assert truth_of(world) == Fraction(3321, 8785)  # +.378
    assert float(unweighted) == pytest.approx(-0.53442, abs=1e-5)


def test_without_weights_rank_only_clicks_still_prefer_somebody() -> None:
    world = WORLDS[3]
    assert truth_of(world) == 0
    assert sum(row.chance * row.marginal for row in rows_of(world)) != 0


def test_for_the_old_pair_itself_nothing_is_weighted_and_nothing_is_biased() -> None:
    rows = list(rows_of(WORLDS[4]))
    assert {row.list_weight for row in rows} == {row.owned_weight for row in rows} == {Fraction(1)}
    assert sum(row.chance * row.marginal for row in rows) == truth_of(WORLDS[4])


def test_weights_cut_at_the_lowest_click_are_biased() -> None:
    """Four documents, three shown: whether a click is the lowest depends on what is shown below it."""
    rows, truth = list(rows_of(WORLDS[1])), truth_of(WORLDS[1])
    cut = sum(row.chance * row.cut_weight * row.marginal for row in rows)
    assert float(truth) == pytest.approx(-0.27543, abs=1e-5)
    assert float(cut) == pytest.approx(-0.28545, abs=1e-5)


DRAFTS = ("abcd bcda", "abc cba", "abcd ca", "ab bc c", "abc bca cab", "abc abc", "ab cd")


@pytest.mark.parametrize("text", DRAFTS)
def test_owners_of_a_draft_have_their_exact_distribution(text: str) -> None:
    """For every list that some draft shows, and every click pattern: the posterior mean of the sign."""
    rankings = rankings_of(text)
    for k in (2, 3, 4):
        by_list: dict[Ranking, dict[Any, Fraction]] = {}
        for (shown, teams), chance in draft_oracle.distribution(rankings, k).items():
            by_list.setdefault(shown, {})[teams] = chance
        for shown, owners in by_list.items():
            for ranks in click_sets(len(shown)):
                clicked = frozenset(rank - 1 for rank in ranks)
                assert _advance_draft(rankings, shown, clicked) == _posterior_sign(rankings, shown, owners, clicked)


def _posterior_sign(
    rankings: Rankings, shown: Ranking, owners: dict[Any, Fraction], clicked: frozenset[int]
) -> Preference:
    rankers = range(len(rankings))
    total = [[Fraction(0) for _ in rankers] for _ in rankers]
    for teams, chance in owners.items():
        outcome = draft_oracle.preference(rankings, shown, teams, clicked, "binary")
        total = [[total[i][j] + chance * outcome[i][j] for j in rankers] for i in rankers]
    return [[value / sum(owners.values()) for value in row] for row in total]


def _advance_draft(rankings: Rankings, shown: Ranking, clicked: frozenset[int]) -> Any:
    impression = impression_of(rankings, shown, [-1] * len(shown))
    preference = np.full((len(rankings), len(rankings)), Fraction(0), object)
    clicks = np.array([position in clicked for position in range(len(shown))])
    return preference.tolist() if plain(draft_sign)(impression, clicks, preference, Fraction(1)) else None


@pytest.mark.parametrize("text", DRAFTS)
def test_exactly_the_lists_that_could_be_drafted_are_used(text: str) -> None:
    rankings = rankings_of(text)
    documents = union(rankings)
    for k in (1, 2, 3):
        possible = {shown for shown, _ in draft_oracle.distribution(rankings, k)}
        length = min(k, len(documents))
        for shown in product(documents, repeat=length):
            if len(set(shown)) == length:
                assert (_advance_draft(rankings, shown, frozenset()) is not None) == (shown in possible)


class Batch(NamedTuple):
    """Many old impressions as arrays, with the rankings they come from."""

    source: Impression
    target: Impression
    counts: Array
    clicks: Array


def batch_of(rows: int, rankers: tuple[int, int] = (2, 2), documents: int = 12, k: int = 5, seed: int = 1) -> Batch:
    """Lists of the source by a plain loop, some of them cut short; any clicks."""
    chance = np.random.default_rng(seed)
    orders = [[tuple(chance.permutation(documents).tolist()) for _ in range(n)] for n in rankers]
    counts, clicks = np.full(rows, k), chance.random((rows, k)) < 0.4
    counts[:3] = (0, 1, 2)
    clicks &= np.arange(k) < counts[:, None]
    lists = [_shown(orders[0], k, chance) for _ in range(rows)]
    source, target = (stacked(side, lists) for side in orders)
    return Batch(source, target, counts, clicks)


def stacked(rankings: Rankings, lists: list[tuple[Ranking, list[int]]]) -> Impression:
    made = [impression_of(rankings, shown, teams, exact=False) for shown, teams in lists]
    return Impression(*(np.array(column) for column in zip(*made, strict=True)))


def _shown(rankings: Rankings, k: int, chance: np.random.Generator) -> tuple[Ranking, list[int]]:
    shown: list[int] = []
    teams = chance.integers(0, len(rankings), k).tolist()
    for owner in teams:
        left = [document for document in rankings[owner] if document not in shown]
        weights = np.array([(rankings[owner].index(document) + 1.0) ** -3 for document in left])
        shown.append(left[chance.choice(len(left), p=weights / weights.sum())])
    return tuple(shown), teams


def row_of(impressions: Impression, row: int, count: int) -> Impression:
    ranks, teams, lengths, size, choices, *_ = impressions
    return Impression.of(ranks[row, :, :count], teams[row, :count], lengths[row], size[row], choices[row, :count])


def summed(weights: Array, outcomes: Array, clip: float = math.inf) -> WeightedSums:
    sums = WeightedSums(2, buckets=1)
    add_weighing(sums, weights, outcomes, clip)
    return sums


def by_name(weighings: Iterator[Weighing]) -> dict[str, WeightedSums]:
    return {name: summed(weights, outcomes, clip) for name, weights, outcomes, clip in weighings}


def test_the_compiled_batch_is_the_plain_loop_in_fractions() -> None:
    old = batch_of(40)
    found = by_name(reweight(*old, clip=2))
    sums: dict[str, list[Fraction]] = {}
    for row, count in enumerate(old.counts.tolist()):
        source, target = (exactly(row_of(side, row, count)) for side in (old.source, old.target))
        by_list, by_owned = exact_weights(source, target)
        clicks = old.clicks[row, :count]
        _, marginal = kernel_calls.credit(PI, PI.scheme("binary", 2), target, clicks.tolist(), exact=True)
        owned = source.teams[clicks]
        observed = sign(Fraction(int((owned == 0).sum() - (owned == 1).sum())))
        whole, joint = math.prod(by_list.tolist(), start=Fraction(1)), math.prod(by_owned.tolist(), start=Fraction(1))
        for name, weight, outcome in (
            ("PI+MA", Fraction(1), marginal[0, 1]),
            ("PI+IS", joint, observed),
            ("PI+IS+MA", whole, marginal[0, 1]),
            ("PI+IS clipped", min(joint, Fraction(2)), observed),
            ("PI+IS+MA clipped", min(whole, Fraction(2)), marginal[0, 1]),
        ):
            parts = (weight, weight**2, weight * outcome, weight * abs(outcome))
            sums[name] = [a + b for a, b in zip(sums.get(name, [Fraction(0)] * 4), parts, strict=True)]
    assert found.keys() == sums.keys()
    for name, exact in sums.items():
        ours = found[name]
        weight = ours.weights.sum()
        floats = [weight, weight**2 / ours.statistics.effective, *ours.outcomes[0]]
        assert floats == pytest.approx([float(value) for value in exact], rel=1e-9)


def test_the_compiled_draft_is_the_plain_one() -> None:
    old = batch_of(60, documents=3, k=3)
    found = by_name(weigh_drafts(*old))["TD"]
    usable, outcome = 0, Fraction(0)
    for row, count in enumerate(old.counts.tolist()):
        preference = np.full((2, 2), Fraction(0), object)
        impression = exactly(row_of(old.target, row, count))
        usable += plain(draft_sign)(impression, old.clicks[row, :count], preference, Fraction(1))
        outcome += preference[0, 1]
    assert 3 < found.usable < 60
    assert (found.usable, found.weights.sum(), found.statistics.effective) == (usable, usable, usable)
    assert found.outcomes[0, 0] == pytest.approx(float(outcome))
    assert found.impressions.sum() == 60


def one_list(source: Rankings, target: Rankings, shown: Ranking, clicked: int) -> Batch:
    lists = [(shown, [0] * len(shown))]
    clicks = np.arange(len(shown))[None] == clicked
    return Batch(stacked(source, lists), stacked(target, lists), np.array([len(shown)]), clicks)


def test_weights_beyond_ten_to_the_ten_do_not_overflow() -> None:
    """The target's first ten, which the source has last: the weight in logs, its square, and all that follows."""
    up, down = tuple(range(100)), tuple(reversed(range(100)))
    old = one_list([down, down], [up, up[::-1]], up[:10], 0)
    before, after = (log_chances(PI, side, old.counts)[0][0] for side in (old.source, old.target))
    of_list = after - before
    by_list, _ = exact_weights(*(row_of(side, 0, 10) for side in (old.source, old.target)))
    assert of_list > math.log(1e40)
    assert of_list == pytest.approx(sum(math.log(factor) for factor in by_list), rel=1e-12)
    found = by_name(reweight(*old))
    sums = found["PI+IS+MA"]
    assert np.isfinite(sums.outcomes).all()
    assert np.isfinite(sums.weights).all()
    assert sums.statistics.effective == pytest.approx(1)
    assert 0.5 < estimate_of(sums).normalized <= 1
    clipped = found["PI+IS+MA clipped"].statistics
    assert (clipped.mean, clipped.largest) == (CLIP, CLIP)
    assert clipped.clipped == pytest.approx(1)


def outcomes_of(values: list[float]) -> Array:
    return np.array(values, np.float64).reshape(-1, 1)


def test_effective_sample_size_and_clipped_mass_are_what_their_formulas_say() -> None:
    outcomes = outcomes_of([1, -0.5, 1, 0.25])
    sums = summed(np.array([1.0, 2, 0, 5]), outcomes)
    weights = sums.statistics
    assert weights.effective == pytest.approx(64 / 30)
    assert (weights.impressions, weights.usable, weights.largest, weights.clipped) == (4, 0.75, 5, 0)
    assert estimate_of(sums)[:2] == pytest.approx((1.25 / 4, 1.25 / 8))
    clipped = summed(np.array([1.0, 2, 0, 5]), outcomes, clip=2)
    assert (clipped.lost, clipped.statistics.clipped, clipped.largest) == (3, 3 / 8, 2)
    assert clipped.statistics.effective == pytest.approx(25 / 9)


def test_equal_weights_count_fully_and_no_weights_not_at_all() -> None:
    assert summed(np.full(7, 0.3), outcomes_of([0] * 7)).statistics.effective == pytest.approx(7)
    for nothing in (summed(np.zeros(7), outcomes_of([1] * 7)), summed(np.zeros(0), outcomes_of([]))):
        assert (nothing.statistics.effective, nothing.usable) == (0, 0)
        assert estimate_of(nothing)[:3] == (0, 0, 0)


def test_what_is_zero_on_paper_is_undecided() -> None:
    """Last digits decide nothing, but a small weight does: the tolerance is that of the sum, not of the weights."""
    assert estimate_of(summed(np.ones(2), outcomes_of([1e-17, 1e-17]))).decision == 0
    assert estimate_of(summed(np.ones(3), outcomes_of([0.3, -0.1, -0.2]))).decision == 0
    assert estimate_of(summed(np.array([1e12, 1e-12]), outcomes_of([0, -0.5]))).decision == -1


def test_identical_target_rankers_are_never_told_apart() -> None:
    old = batch_of(500)
    same = old.target._replace(ranks=np.repeat(old.target.ranks[:, :1], 2, axis=1))
    found = by_name(reweight(old.source, same, *old[2:]))
    assert {name: estimate_of(sums).decision for name, sums in found.items() if "MA" in name} == {
        "PI+MA": 0,
        "PI+IS+MA": 0,
        "PI+IS+MA clipped": 0,
    }


def test_simulated_estimates_agree_with_the_enumerated_truth() -> None:
    """Lists of the source by chance, clicks on documents: all weighted forms meet the target's expected outcome."""
    source, target = rankings_of("abcd bcda"), rankings_of("dcba acbd")
    chance = np.random.default_rng(5)
    lists = [_shown(source, 3, chance) for _ in range(20_000)]
    clicks = np.array([[document in "ac" for document in shown] for shown, _ in lists])
    found = by_name(reweight(stacked(source, lists), stacked(target, lists), np.full(len(lists), 3), clicks))
    truth = float(truth_of(World("abcd bcda", "dcba acbd", 3, perfect("ac"))))
    for name in ("PI+IS", "PI+IS+MA"):
        sums = found[name]
        weights, estimate = sums.statistics, estimate_of(sums)
        error = sums.weights.sum() / math.sqrt(weights.effective) / weights.impressions
        assert estimate.value == pytest.approx(truth, abs=4 * error)
        assert estimate.normalized == pytest.approx(truth, abs=6 * error)
        assert weights.mean == pytest.approx(1, abs=4 * error)


@pytest.mark.slow
def test_the_study_runs_and_does_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("altair")
    monkeypatch.setitem(historical2012.SCALES, "quick", historical2012.HistoricalScale(8, 2000, 300, beyond=2))
    steps: list[tuple[int, int]] = []
    first = historical2012.study(StudyRun(progress=lambda done, total: steps.append((done, total))))
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert str(first) == str(historical2012.study(StudyRun()))
    assert steps == [(done, 18) for done in range(1, 19)]
    names = ["accuracy", "curve", "differences", "error", "size", "gains", "closer", "worlds"]
    assert [table.name for table in first.tables] == names
    assert [len(table.rows) for table in first.tables[-3:]] == [6, 6, 6 * 5]
    assert [row[0] for row in first.tables[0].rows] == [*historical2012.ESTIMATORS, historical2012.LIVE]
    assert first.tables[1].columns[1:] == ("10", "20", "50", "100", "200", "500", "1,000", "2,000")
    assert set(first.charts) == {"accuracy", "error"}


def judged(features: Array, grades: list[int]) -> Judged:
    return Judged(features, np.array(grades), np.array([0, 2, 4]), ("one", "two"), "tiny")


def test_a_set_that_tells_no_pair_of_rankers_apart_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(historical2012.SCALES, "quick", historical2012.HistoricalScale(2, 1000, 10))
    tiny = judged(np.array([[1.0, 2, 0], [2, 1, 3], [0, 0, 1], [1, 3, 0]]), [0, 0, 0, 0])
    monkeypatch.setattr(historical2012, "find", lambda *_: StudyData("tiny", "tiny", [(tiny, tiny)]))
    with pytest.raises(DataError, match="same NDCG"):
        historical2012.study(StudyRun())
    flat = judged(np.array([[1.0, 0], [2, 0], [3, 0], [4, 0]]), [0, 1, 0, 1])
    monkeypatch.setattr(historical2012, "find", lambda *_: StudyData("flat", "flat", [(flat, flat)]))
    with pytest.raises(DataError, match="1 features that vary"):
        historical2012.study(StudyRun())
