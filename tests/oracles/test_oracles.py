"""The oracles themselves, against published numbers and against a second, different enumeration.

"METHODS" is the project's specification of the methods; papers are called by letter as in tests.oracles.
"""

import random
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations, product
from math import log2
from types import ModuleType

import pytest

from tests.oracles import (
    balanced,
    clicks,
    document_constraint,
    optimized,
    pairwise_preference,
    probabilistic,
    sample_scored_only,
    team_draft,
)
from tests.oracles.clicks import Patterns
from tests.oracles.expectation import expectation
from tests.oracles.forms import NOBODY, Distribution, Doc, Preference, Ranking, Rankings, apply_form, sign, union

Parameters = dict[str, object]
LISTED: list[ModuleType] = [
    balanced,
    document_constraint,
    team_draft,
    probabilistic,
    sample_scored_only,
    pairwise_preference,
]
TWO_ONLY = (balanced, document_constraint)
UNBIASED: list[tuple[ModuleType, Parameters]] = [
    (team_draft, {"fill": "fair"}),
    (team_draft, {"fill": "fair", "prefix": True}),
    (probabilistic, {}),
    (pairwise_preference, {"pairs": "global"}),
    (pairwise_preference, {"pairs": "per_click"}),
    (pairwise_preference, {"pairs": "next_unclicked"}),
]

# The example of a shift by one: C12, end of section 3.1; H11, Figures 1 to 3 with d1 = a, d2 = b, ...
SHIFTED: Rankings = (tuple("abcd"), tuple("bcda"))


def half(shown: Ranking) -> Patterns:
    return clicks.independent([Fraction(1, 2)] * len(shown))


def single(shown: Ranking) -> Patterns:
    return clicks.single_uniform(len(shown))


def by_position(shown: Ranking) -> Patterns:
    return clicks.independent([Fraction(2, 3 * position) for position in range(1, len(shown) + 1)])


def scan_with_bias(shown: Ranking) -> Patterns:
    """A cascade whose chances do not depend on the documents: dependent clicks, still rank-only."""
    return clicks.cascade([0] * len(shown), [Fraction(1, 3)], [Fraction(2, 5)], stop_needs_click=True)


RANK_ONLY = [half, single, by_position, scan_with_bias]


def expected(
    method: ModuleType,
    rankings: Rankings,
    k: int,
    scheme: str,
    click_model: Callable[[Ranking], Patterns],
    **parameters: object,
) -> Fraction:
    """Expected preference of the first ranker over the second."""
    whole = expected_matrix(method, rankings, k, scheme, click_model, **parameters)
    return whole[0][1]


def expected_matrix(
    method: ModuleType,
    rankings: Rankings,
    k: int,
    scheme: str,
    click_model: Callable[[Ranking], Patterns],
    **parameters: object,
) -> Preference:
    def preference_of(shown: Ranking, teams: tuple[int, ...] | None, clicked: frozenset[int]) -> Preference:
        outcome: Preference = method.preference(rankings, shown, teams, clicked, scheme, **parameters)
        return outcome

    return expectation(method.distribution(rankings, k, **parameters), preference_of, click_model)


def wanting(*shares: tuple[int, str]) -> Callable[[Ranking], Patterns]:
    """Click model of intents: per cent of the users, and the documents that satisfy them."""
    return lambda shown: clicks.intents(shown, [(Fraction(percent, 100), wanted) for percent, wanted in shares])


def worlds(count: int, seed: int, rankers: int | None = None, most: int = 4) -> list[tuple[Rankings, int]]:
    """Random (rankings, k): unequal lengths, partial overlap, perhaps an empty ranking, k below and above the union."""
    source = random.Random(seed)
    found: list[tuple[Rankings, int]] = []
    while len(found) < count:
        size = source.randint(2, most)
        documents = list(range(size))
        rankings = tuple(
            tuple(source.sample(documents, source.randint(0, size))) for _ in range(rankers or source.randint(2, 3))
        )
        if union(rankings):
            found.append((rankings, source.randint(1, size + 1)))
    return found


def shown_lists(distribution: Distribution) -> dict[Ranking, Fraction]:
    lists: dict[Ranking, Fraction] = {}
    for (shown, _), chance in distribution.items():
        lists[shown] = lists.get(shown, Fraction(0)) + chance
    return lists


# Every method


@pytest.mark.parametrize("method", LISTED)
def test_distribution_preference_and_list_probability_agree(method: ModuleType) -> None:
    """Probabilities sum to one; preferences are antisymmetric, zero without a click (METHODS, sections 0 and 14)."""
    for rankings, k in worlds(25, seed=1, rankers=2 if method in TWO_ONLY else None):
        distribution = method.distribution(rankings, k)
        assert sum(distribution.values()) == 1
        for shown, chance in shown_lists(distribution).items():
            assert len(set(shown)) == len(shown) == min(k, len(union(rankings)))
            assert method.list_probability(rankings, shown, k) == chance
        shown, teams = min(distribution)
        for scheme, pattern in product(method.SCHEMES, product((0, 1), repeat=len(shown))):
            clicked = {position for position, value in enumerate(pattern) if value}
            outcome = method.preference(rankings, shown, teams, clicked, scheme)
            for i, j in product(range(len(rankings)), repeat=2):
                assert outcome[i][j] == -outcome[j][i]
                assert clicked or outcome[i][j] == 0


@pytest.mark.parametrize("method", [method for method in LISTED if method is not probabilistic])
def test_lists_are_considerate(method: ModuleType) -> None:
    """Nothing is shown above the best rank that any ranking gives it (O17, Eq. 1)."""
    for rankings, k in worlds(40, seed=2, rankers=2 if method in TWO_ONLY else None):
        for shown, _ in method.distribution(rankings, k):
            for position, document in enumerate(shown, 1):
                assert pairwise_preference.first_possible(rankings, document) <= position


def test_probabilistic_lists_are_not_considerate() -> None:
    """Every order of the documents can be shown (O17, section 4.3)."""
    assert len(shown_lists(probabilistic.distribution(SHIFTED, 4))) == 24


@pytest.mark.parametrize(("method", "parameters"), UNBIASED)
def test_unbiased_under_rank_only_clicks(method: ModuleType, parameters: Parameters) -> None:
    """E[P_ij] = 0 in every scheme on worlds with unequal rankings (O17, Eq. 5; METHODS, sections 13 and 14)."""
    for rankings, k in worlds(12, seed=3, most=3):
        for scheme, click_model in product(method.SCHEMES, RANK_ONLY):
            whole = expected_matrix(method, rankings, k, scheme, click_model, **parameters)
            assert all(value == 0 for row in whole for value in row)


# Balanced interleaving and document constraints

FIGURE_ONE: tuple[Ranking, Ranking] = (tuple("abcdgh"), tuple("beafgh"))


def test_balanced_lists_and_credit_of_figure_one() -> None:
    """C12, Figure 1 and section 3.1: the two lists; clicks on b and e give k = 2 and credits 1 : 2 on both."""
    assert balanced.interleave(*FIGURE_ONE, first_leads=True, k=6, fill=True) == tuple("abecdf")
    assert balanced.interleave(*FIGURE_ONE, first_leads=False, k=6, fill=True) == tuple("baecfd")
    for shown, _ in balanced.distribution(FIGURE_ONE, 6):
        clicked = {shown.index("b"), shown.index("e")}
        assert balanced.credit_depth(FIGURE_ONE, shown, clicked, "lowest") == 2
        credited = balanced.credited_positions(FIGURE_ONE, shown, clicked, "lowest", direct=False)
        assert [len(positions) for positions in credited] == [1, 2]
        assert balanced.preference(FIGURE_ONE, shown, None, clicked, "binary")[0][1] == -1


@pytest.mark.parametrize(("depth", "value"), [("lowest", Fraction(-3, 8)), ("clicked", Fraction(-3, 16))])
def test_balanced_is_biased_on_shifted_rankings(depth: str, value: Fraction) -> None:
    """C12, section 3.1: lists abcd and bacd, B wins under a uniform click (-1/2); H11, section 3.1: all patterns."""
    assert set(shown_lists(balanced.distribution(SHIFTED, 4))) == {tuple("abcd"), tuple("bacd")}
    for shown, _ in balanced.distribution(SHIFTED, 4):
        outcomes = [balanced.preference(SHIFTED, shown, None, {p}, "binary", depth=depth)[0][1] for p in range(4)]
        assert sum(outcomes) / 4 == Fraction(-1, 2)
    assert expected(balanced, SHIFTED, 4, "binary", half, depth=depth) == value


def test_the_two_credit_depths_disagree() -> None:
    """METHODS, section 1: clicks on a and b of abcd are a tie by C12's Eq. 1 and a win for A by H11's words."""
    by_depth = {
        depth: balanced.preference(SHIFTED, tuple("abcd"), None, {0, 1}, "binary", depth=depth)[0][1]
        for depth in ("lowest", "clicked")
    }
    assert by_depth == {"lowest": 0, "clicked": 1}


@pytest.mark.parametrize(
    ("constraints", "value"),
    [(1, Fraction(-9, 32)), (2, Fraction(-1, 8)), (3, Fraction(0)), ("lowest", Fraction(-1, 4))],
)
def test_document_constraints_are_biased_on_shifted_rankings(constraints: int | str, value: Fraction) -> None:
    """H11, section 3.1 and Figure 3: l2 wins in expectation; METHODS, section 13, for all four kinds."""
    assert expected(document_constraint, SHIFTED, 4, "binary", half, constraints=constraints) == value


def test_document_constraints_of_figure_three() -> None:
    """H11, section 3.1: clicks on ranks 2 and 3 of the first list: two violations for l1, none for l2."""
    outcome = document_constraint.preference(SHIFTED, tuple("abcd"), None, {1, 2}, "click")
    assert outcome[0][1] == -2


# Team draft


def test_team_draft_columns_of_figure_one() -> None:
    """C12, Figure 1: columns AAA, BAA and ABA; section 3.2: clicks on b and e in AAA give 0 : 2."""
    columns = {"abcedf": "ABABAB", "bacedf": "BAABAB", "abecdf": "ABBAAB"}
    distribution = team_draft.distribution(FIGURE_ONE, 6)
    for shown, owners in columns.items():
        assert distribution[tuple(shown), tuple("AB".index(owner) for owner in owners)] == Fraction(1, 8)
    aaa = team_draft.preference(FIGURE_ONE, tuple("abcedf"), (0, 1, 0, 1, 0, 1), {1, 3}, "click")
    assert aaa[0][1] == -2


def rounds(rankings: Rankings, k: int) -> Distribution:
    """Team draft the other way: a fresh uniform permutation of the rankers per round, used-up rankers passed over."""
    outcome: Distribution = {}

    def play(shown: Ranking, owners: tuple[int, ...], probability: Fraction) -> None:
        if len(shown) == min(k, len(union(rankings))):
            outcome[shown, owners] = outcome.get((shown, owners), Fraction(0)) + probability
            return
        orders = list(permutations(range(len(rankings))))
        for order in orders:
            longer, longer_owners = shown, owners
            for ranker in order:
                left = [document for document in rankings[ranker] if document not in longer]
                if left and len(longer) < k:
                    longer, longer_owners = (*longer, left[0]), (*longer_owners, ranker)
            play(longer, longer_owners, probability / len(orders))

    play((), (), Fraction(1))
    return outcome


def test_fewest_picks_is_the_same_as_rounds() -> None:
    """METHODS, section 2: drawing among the fewest picks equals a permutation per round, also with used-up rankers."""
    for rankings, k in worlds(60, seed=4):
        assert team_draft.distribution(rankings, k, fill="owned") == rounds(rankings, k)


def test_team_draft_does_not_see_figure_two_but_probabilistic_does() -> None:
    """H11, section 3.2 and Figure 2: four equally likely results with d3 always at rank 3, E = 0; PI prefers l2."""
    distribution = team_draft.distribution(SHIFTED, 4)
    assert list(distribution.values()) == [Fraction(1, 4)] * 4
    assert {shown.index("c") for shown, _ in distribution} == {2}
    assert expected(team_draft, SHIFTED, 4, "binary", wanting((100, "c"))) == 0
    assert float(expected(probabilistic, SHIFTED, 4, "binary", wanting((100, "c")))) == pytest.approx(-0.2214, abs=5e-5)


def test_owned_filling_is_biased_and_fair_filling_is_not() -> None:
    """METHODS, section 14: with unequal rankings, owning the filled positions prefers the longer ranking."""
    rankings: Rankings = (tuple("a"), tuple("bac"))
    assert expected(team_draft, rankings, 3, "click", half, fill="owned") < 0
    assert expected(team_draft, rankings, 3, "click", half, fill="fair") == 0
    # Stopping prefers the shorter ranking: it ends the list, and it can end it right after its own document.
    assert expected(team_draft, rankings, 3, "click", half, fill="stop") > 0


def test_the_two_prefix_variants_differ_for_an_odd_prefix() -> None:
    """METHODS, section 2: one shared document, so the second pick completes a round or begins one."""
    rankings: Rankings = (tuple("abc"), tuple("acb"))
    put_first = team_draft.distribution(rankings, 3, prefix=True)
    assert {owners for _, owners in put_first} == {(NOBODY, 0, 1), (NOBODY, 1, 0)}
    assert {owners for _, owners in team_draft.distribution(rankings, 3)} == {
        (0, 1, 0),
        (0, 1, 1),
        (1, 0, 0),
        (1, 0, 1),
    }


def test_deduped_scores_keep_prefix_clicks_in_the_denominator() -> None:
    """C12, section 9.1 and Eq. 11: a click on the shared a is no credit, but it is a click."""
    rankings: Rankings = (tuple("abc"), tuple("acb"))
    scores = {
        scheme: team_draft.preference(rankings, tuple("abc"), (1, 0, 1), {0, 1}, scheme)[0][1]
        for scheme in team_draft.SCHEMES
    }
    assert scores == {
        "binary_deduped": 1,
        "click_deduped": 1,
        "normalized_deduped": Fraction(1, 2),
        "binary": 0,
        "click": 0,
        "normalized": 0,
    }


def test_intents_mislead_team_draft_and_balanced() -> None:
    """C12, section 3.2: 49, 49 and 2 per cent of users want a, b, c; R2 wins 51 per cent, by team draft and balanced.

    The paper leaves the tails open. Here they are disjoint and k = 4: every user clicks, so E = 0.49 - 0.51. With c
    third in R1, team draft is at 50 per cent. Probabilistic and pairwise preference prefer R1 (METHODS, section 13).
    """
    rankings: Rankings = (tuple("abxy"), tuple("bczw"))
    users = wanting((49, "a"), (49, "b"), (2, "c"))
    assert expected(team_draft, rankings, 4, "binary", users) == Fraction(-2, 100)
    assert expected(balanced, rankings, 4, "binary", users) == Fraction(-2, 100)
    assert expected(team_draft, (tuple("abcy"), tuple("bczw")), 4, "binary", users) == 0
    assert expected(probabilistic, rankings, 4, "binary", users) > 0
    assert expected(pairwise_preference, rankings, 4, "click", users) == Fraction(47, 75)


# Probabilistic interleaving


def test_softmax_of_four_documents() -> None:
    """H11, section 4.1, Eq. 1 with tau = 3: .8491 .1061 .0314 .0133."""
    chances = probabilistic.softmax(SHIFTED, 0, (), 3).values()
    assert [round(float(chance), 4) for chance in chances] == [0.8491, 0.1061, 0.0314, 0.0133]


def test_posterior_follows_from_the_joint_distribution() -> None:
    """H11, Eq. 5: Bayes' rule over whole assignments, summed, is the product of the posteriors of single ranks."""
    for rankings, k in worlds(15, seed=5):
        distribution = probabilistic.distribution(rankings, k)
        lists = shown_lists(distribution)
        for shown in lists:
            for assignment, chance in probabilistic.assignments(rankings, shown, list(range(len(shown))), 3):
                assert distribution[shown, assignment] / lists[shown] == chance


def test_marginalized_equals_observed_in_the_mean() -> None:
    """H11, section 4.3: marginalizing over assignments leaves the expected outcome as it is, also for biased users."""

    def observed(shown: Ranking, teams: tuple[int, ...] | None, clicked: frozenset[int]) -> Preference:
        assert teams is not None
        hits = [sum(teams[position] == ranker for position in clicked) for ranker in (0, 1)]
        return apply_form("binary", hits, 0)

    def graded(shown: Ranking) -> Patterns:
        return clicks.position_based(
            [Fraction(1, position) for position in range(1, len(shown) + 1)],
            ["abcd".index(d) * Fraction(3, 10) for d in shown],
        )

    for click_model in (half, graded):
        by_teams = expectation(probabilistic.distribution(SHIFTED, 4), observed, click_model)
        assert by_teams == expected_matrix(probabilistic, SHIFTED, 4, "binary", click_model)


def test_team_draft_lists_scored_as_probabilistic_are_biased() -> None:
    """METHODS, sections 10 and 13: H12c's scoring has a bias of +.096, +.365, -.046, 0 by rank on abcd and bcda."""
    bias = [Fraction(0)] * 4
    for (shown, _), chance in team_draft.distribution(SHIFTED, 4).items():
        for position in range(4):
            first, second = probabilistic.posterior(SHIFTED, shown, position, 3)
            bias[position] += chance * (first - second)
    assert [round(float(value), 3) for value in bias] == [0.096, 0.365, -0.046, 0.0]


# Optimized


def permutation_pairs() -> list[Rankings]:
    return [(tuple(range(n)), order) for n in (2, 3, 4) for order in permutations(range(n))]


@pytest.mark.parametrize(("credit", "infeasible"), [("inverse", 0), ("linear", 0), ("binary", 12)])
def test_feasibility_of_optimized_interleaving(credit: str, infeasible: int) -> None:
    """METHODS, section 5: of the 32 permutation pairs of 2 to 4 documents, 12 have no unbiased binary credit."""
    violations = [optimized.objective_and_violation(pair, len(pair[0]), credit)[0] for pair in permutation_pairs()]
    assert len(violations) == 32
    assert sum(violation > 1e-6 for violation in violations) == infeasible


def test_optimum_of_small_problems_worked_out_by_hand() -> None:
    """METHODS, section 5: sensitivity of two rankers, variance of three, and the relaxed optimum of 012 against 120.

    For the last, each list has two documents for B and one for A, so the total violation is at least 1, and is 1
    where no list has more than half of the probability: half each on the two lists of the largest value.
    """

    def entropy(share: float) -> float:
        return -share * log2(share) - (1 - share) * log2(1 - share)

    swapped: Rankings = (tuple("ab"), tuple("ba"))
    assert optimized.objective_and_violation(swapped, 2) == pytest.approx((0, entropy(1 / 3)), abs=1e-6)
    three: Rankings = (tuple("ab"), tuple("ba"), tuple("ab"))
    assert {optimized.list_value(three, shown) for shown in swapped} == {Fraction(1, 24)}
    assert optimized.objective_and_violation(three, 2) == pytest.approx((0, 1 / 24), abs=1e-6)
    relaxed = optimized.objective_and_violation(((0, 1, 2), (1, 2, 0)), 3, "binary")
    assert relaxed == pytest.approx((1, (entropy(6 / 11) + entropy(3 / 11)) / 2), abs=1e-6)


def test_allowed_lists_are_those_whose_prefixes_are_unions_of_prefixes() -> None:
    """METHODS, section 5: the two definitions of an allowed list agree."""
    for rankings, k in worlds(40, seed=6):
        unions = [
            set().union(*(ranking[:depth] for ranking, depth in zip(rankings, depths, strict=True)))
            for depths in product(*(range(len(ranking) + 1) for ranking in rankings))
        ]
        every = permutations(union(rankings), min(k, len(union(rankings))))
        kept = [shown for shown in every if all(set(shown[:size]) in unions for size in range(len(shown) + 1))]
        assert optimized.allowed(rankings, k) == sorted(kept)


def test_most_problems_of_four_rankers_are_infeasible() -> None:
    """METHODS, section 5: five documents, k = 4; 83 of 100 random problems, so most of any other draw, too."""
    source = random.Random(7)
    problems = [tuple(tuple(source.sample(range(5), 5)) for _ in range(4)) for _ in range(20)]
    violations = [optimized.objective_and_violation(rankings, 4)[0] for rankings in problems]
    assert sum(violation > 1e-6 for violation in violations) > 10


# Sample-scored-only


@pytest.mark.parametrize(("first", "second"), [(Fraction(1, 2), Fraction(1, 3)), (Fraction(9, 10), Fraction(1, 10))])
def test_sample_scored_only_is_biased_by_position(first: Fraction, second: Fraction) -> None:
    """O17, section 4.4: AB, BA, BA; P(BA) is twice P(AB), and E[P12] = -(p1 - p2) / 3."""
    rankings: Rankings = (tuple("AB"), tuple("BA"), tuple("BA"))
    assert sample_scored_only.list_probability(rankings, tuple("BA"), 2) == Fraction(2, 3)
    value = expected(sample_scored_only, rankings, 2, "binary", lambda shown: clicks.independent([first, second]))
    assert value == -(first - second) / 3


# Pairwise preference


def test_pairwise_preference_is_uniform_over_considerate_lists() -> None:
    """O17, Algorithm 2 and Eq. 9: all considerate lists, each with the same probability."""
    for rankings, k in worlds(40, seed=8):
        lists = shown_lists(pairwise_preference.distribution(rankings, k))
        first = {document: pairwise_preference.first_possible(rankings, document) for document in union(rankings)}
        every = permutations(union(rankings), min(k, len(first)))
        assert set(lists) == {s for s in every if all(first[d] <= position for position, d in enumerate(s, 1))}
        assert set(lists.values()) == {Fraction(1, len(lists))}


def test_pair_weight_by_enumeration_equals_formula() -> None:
    """O17, Algorithm 3, line 8 has -1 where Eq. 9 demands +1 (METHODS, section 7)."""
    for rankings, _ in worlds(60, seed=9, most=5):
        for one, other in permutations(union(rankings), 2):
            by_enumeration = pairwise_preference.weight_by_enumeration(rankings, one, other)
            assert by_enumeration == pairwise_preference.weight_by_formula(rankings, one, other)


def test_inferred_pairs_in_three_readings() -> None:
    """O17, section 5: Eq. 7 as printed, and two readings of the prose; clicks on ranks 1, 2 and 5 of six."""
    shown, clicked = tuple("abcdef"), {0, 1, 4}

    def others(pairs: str) -> dict[Doc, str]:
        found = pairwise_preference.inferred(shown, clicked, pairs)
        return {clicked_one: "".join(o for c, o in found if c == clicked_one) for clicked_one in "abe"}

    assert others("global") == {"a": "cdf", "b": "cdf", "e": "cdf"}
    assert others("per_click") == {"a": "", "b": "c", "e": "cdf"}
    assert others("next_unclicked") == {"a": "c", "b": "c", "e": "cdf"}


def test_pairwise_preference_needs_one_more_document_than_clicks_reach() -> None:
    """METHODS, section 8: cut at the last clickable rank, a dominating ranker may get E = 0; one more decides."""
    rankings: Rankings = (tuple("ab"), tuple("ba"))
    top_only = wanting((100, "a"))

    def first_rank_only(shown: Ranking) -> Patterns:
        return top_only(shown[:1] + ("unseen",) * (len(shown) - 1))

    assert expected(pairwise_preference, rankings, 1, "click", first_rank_only) == 0
    assert expected(pairwise_preference, rankings, 2, "click", first_rank_only) > 0


# Clicks


def test_click_distributions_sum_to_one_and_follow_the_models() -> None:
    """H11, section 5.1: the stop coin after a click only; O17's released code: after every examined document."""
    click, stop = [Fraction(1, 2), Fraction(1)], [Fraction(1, 4), Fraction(1)]
    after_click = clicks.cascade([0, 1], click, stop, stop_needs_click=True)
    assert after_click == {(1, 0): Fraction(1, 8), (1, 1): Fraction(3, 8), (0, 1): Fraction(1, 2)}
    always = clicks.cascade([0, 1], click, stop, stop_needs_click=False)
    assert always == {(1, 0): Fraction(1, 8), (1, 1): Fraction(3, 8), (0, 0): Fraction(1, 8), (0, 1): Fraction(3, 8)}
    assert clicks.intents(tuple("xab"), [(Fraction(1, 3), "b"), (Fraction(2, 3), "z")]) == {
        (0, 0, 1): Fraction(1, 3),
        (0, 0, 0): Fraction(2, 3),
    }
    assert clicks.single_weighted([Fraction(2), Fraction(1)]) == {(1, 0): Fraction(2, 3), (0, 1): Fraction(1, 3)}
    for length in range(4):
        for click_model in RANK_ONLY:
            assert sum(click_model(("x",) * length).values()) == 1


def test_sign_of_a_tie_is_zero() -> None:
    """METHODS, section 0."""
    assert [sign(Fraction(-1, 3)), sign(0), sign(2.5)] == [-1, 0, 1]
