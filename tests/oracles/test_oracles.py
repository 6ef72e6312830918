"""The oracles themselves, against published numbers and against a second, different enumeration.

"METHODS" is the project's specification of the methods, "SENSITIVITY" its page on credit with less variance; papers
are called by letter as in tests.oracles.
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
    competitive_pairs,
    document_constraint,
    exposure,
    optimized,
    pairwise_preference,
    probabilistic,
    sample_scored_only,
    team_draft,
)
from tests.oracles.clicks import Patterns
from tests.oracles.expectation import PreferenceOf, expectation
from tests.oracles.forms import (
    NOBODY,
    Distribution,
    Doc,
    Preference,
    Ranking,
    Rankings,
    Teams,
    apply_form,
    pairwise,
    sign,
    union,
)

Parameters = dict[str, object]
LISTED: list[ModuleType] = [
    balanced,
    document_constraint,
    team_draft,
    probabilistic,
    sample_scored_only,
    pairwise_preference,
    competitive_pairs,
]
TWO_ONLY = (balanced, document_constraint)
UNBIASED: list[tuple[ModuleType, Parameters]] = [
    (team_draft, {"fill": "fair"}),
    (team_draft, {"fill": "fair", "prefix": True}),
    (probabilistic, {}),
    (pairwise_preference, {"pairs": "global"}),
    (pairwise_preference, {"pairs": "per_click"}),
    (pairwise_preference, {"pairs": "next_unclicked"}),
    (competitive_pairs, {}),
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
        # The list tells that B picked a and A picked b; the place of a alone does not tell who picked it.
        "click_list": 0,
        "normalized_list": 0,
        "click_place": 1,
        "normalized_place": Fraction(1, 2),
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


# Team draft credit averaged over the owners


def same_documents(sizes: range, rankers: int, min_k: int = 1) -> list[tuple[Rankings, int]]:
    """All (rankings, k) in which every ranker ranks the same documents; the first ranking is in order."""
    return [
        ((tuple(range(size)), *others), k)
        for size in sizes
        for others in product(permutations(range(size)), repeat=rankers - 1)
        for k in range(min_k, size + 1)
    ]


def always(*positions: int) -> Callable[[Ranking], Patterns]:
    """Click model of one pattern: these positions are clicked whatever stands there."""
    return lambda shown: {tuple(int(position in positions) for position in range(len(shown))): Fraction(1)}


def unfair_patterns(distribution: Distribution, preference_of: PreferenceOf) -> list[tuple[int, ...]]:
    """The sets of positions whose clicks prefer somebody in expectation."""
    length = len(min(distribution)[0])
    subsets = [[p for p, value in enumerate(pattern) if value] for pattern in product((0, 1), repeat=length)]
    return [
        tuple(positions)
        for positions in subsets
        if any(any(row) for row in expectation(distribution, preference_of, always(*positions)))
    ]


def unfair_schemes(method: ModuleType, rankings: Rankings, k: int, **parameters: object) -> list[str]:
    """The schemes that some set of clicked positions makes prefer somebody in expectation."""

    def preference_in(scheme: str) -> PreferenceOf:
        return lambda shown, teams, clicked: method.preference(rankings, shown, teams, clicked, scheme, **parameters)

    distribution = method.distribution(rankings, k, **parameters)
    return [scheme for scheme in method.SCHEMES if unfair_patterns(distribution, preference_in(scheme))]


def by_rank(appeal: dict[Doc, Fraction]) -> Callable[[Ranking], Patterns]:
    """Position-based clicks with examination 1/rank."""
    return lambda shown: clicks.position_based(
        [Fraction(1, rank) for rank in range(1, len(shown) + 1)], [appeal[document] for document in shown]
    )


THETA = [Fraction(1, rank) for rank in range(1, 6)]


@pytest.mark.parametrize(
    ("rankings", "k", "appeal", "credit", "truth"),
    [
        (((0, 1, 2, 3, 4), (1, 2, 0, 4, 3)), 5, (0, 0, 1, 1, 0), Fraction(1, 8), Fraction(-7, 60)),
        (((0, 1, 2, 3, 4), (0, 2, 1, 4, 3)), 4, (0, 0, 1, 1, 0), Fraction(-1, 8), Fraction(1, 12)),
        (((0, 1, 2), (1, 2, 0)), 3, (Fraction(9, 10), 1, 0), Fraction(-3, 40), Fraction(1, 10)),
    ],
)
def test_team_draft_credit_can_have_the_wrong_sign(
    rankings: Rankings, k: int, appeal: tuple[Fraction, ...], credit: Fraction, truth: Fraction
) -> None:
    """SENSITIVITY, section 1: fair is not faithful; with graded appeal three documents are enough."""
    appeals = {document: Fraction(value) for document, value in enumerate(appeal)}
    first, second = exposure.clicks_alone(rankings, THETA, appeals, k)
    assert first - second == truth
    for scheme in ("click", "click_list", "click_place"):
        assert expected(team_draft, rankings, k, scheme, by_rank(appeals)) == credit


def test_averaging_over_owners_given_the_list_keeps_the_mean_and_adds_no_variance() -> None:
    """SENSITIVITY, section 2: on every list, for every set of clicks, so for users of any behaviour."""
    less = 0
    for rankings, k in [*same_documents(range(3, 5), 2), *same_documents(range(3, 4), 3), *worlds(20, seed=10)]:
        distribution = team_draft.distribution(rankings, k)
        for (shown, chance), form in product(shown_lists(distribution).items(), ("click", "normalized")):
            for pattern in product((0, 1), repeat=len(shown)):
                clicked = {position for position, value in enumerate(pattern) if value}
                averaged = team_draft.preference(rankings, shown, None, clicked, f"{form}_list")[0][1]
                plain = [
                    (team_draft.preference(rankings, shown, teams, clicked, form)[0][1], part / chance)
                    for (documents, teams), part in distribution.items()
                    if documents == shown
                ]
                assert sum(value * part for value, part in plain) == averaged
                second_moment = sum(value**2 * part for value, part in plain)
                assert second_moment >= averaged**2
                less += second_moment > averaged**2
    assert less


def test_averaging_over_owners_given_the_place_keeps_the_mean_where_clicks_depend_on_document_and_rank() -> None:
    """SENSITIVITY, section 2: it does so for a click on any one document at any one rank, so for all such users."""
    for rankings, k in [*same_documents(range(3, 5), 2), *same_documents(range(3, 4), 3), *worlds(20, seed=11)]:
        distribution = team_draft.distribution(rankings, k)
        totals: dict[tuple[str, Doc, int], Fraction] = {}
        for ((shown, teams), chance), scheme in product(distribution.items(), ("click", "click_place")):
            for position, document in enumerate(shown):
                value = team_draft.preference(rankings, shown, teams, {position}, scheme)[0][1]
                place = scheme, document, position
                totals[place] = totals.get(place, Fraction(0)) + chance * value
        assert all(value == totals["click", document, position] for (_, document, position), value in totals.items())


def test_averaging_by_place_differs_where_a_click_depends_on_what_stands_above() -> None:
    """SENSITIVITY, section 2: a click on rank 3 if document 1 stands above; averaging by list keeps the mean."""
    rankings: Rankings = ((0, 1, 2, 3), (0, 3, 2, 1))

    def below_one(shown: Ranking) -> Patterns:
        return always(2)(shown) if 1 in shown[:2] else always()(shown)

    schemes = ("click", "click_list", "click_place")
    values = [expected(team_draft, rankings, 3, scheme, below_one) for scheme in schemes]
    assert values == [0, 0, Fraction(-1, 4)]


@pytest.mark.parametrize("prefix", [False, True])
def test_averaged_credit_is_fair_for_every_set_of_clicks(prefix: bool) -> None:
    """SENSITIVITY, section 2: the 84 worlds of 3 and 4 documents that show at least two, and rankings that run out."""
    same = same_documents(range(3, 5), 2, min_k=2)
    assert len(same) == 84
    for rankings, k in [*same, *worlds(20, seed=12, most=3)]:
        unfair = unfair_schemes(team_draft, rankings, k, prefix=prefix)
        assert not [scheme for scheme in unfair if scheme.endswith(("_list", "_place"))]


def test_the_sign_of_averaged_credit_is_not_fair() -> None:
    """SENSITIVITY, section 2: 0123 against 0231, three shown, clicks on ranks 2 and 3 of every list."""
    rankings: Rankings = ((0, 1, 2, 3), (0, 2, 3, 1))
    for scheme in ("click_list", "click_place"):
        mean_sign = sum(
            chance * sign(team_draft.preference(rankings, shown, teams, {1, 2}, scheme)[0][1])
            for (shown, teams), chance in team_draft.distribution(rankings, 3).items()
        )
        assert mean_sign == Fraction(1, 4)
        assert expected(team_draft, rankings, 3, scheme, always(1, 2)) == 0


@pytest.mark.parametrize(
    ("condition", "positions", "value"), [("list", (0, 2), Fraction(-1, 4)), ("place", (1, 2), Fraction(1, 4))]
)
@pytest.mark.parametrize("divisor", [abs, bool])
def test_averaged_credit_must_be_divided_by_all_clicks(
    divisor: Callable[[Fraction], Fraction], condition: str, positions: tuple[int, ...], value: Fraction
) -> None:
    """SENSITIVITY, section 2: dividing by the credit, or by the clicks with a weight, prefers somebody."""
    rankings: Rankings = ((0, 1, 2, 3), (0, 2, 3, 1))

    def divided(shown: Ranking, teams: Teams, clicked: frozenset[int]) -> Preference:
        weights = team_draft.weights(rankings, shown, condition)
        gaps = [weights[position][0] - weights[position][1] for position in clicked]
        return apply_form("click", [sum(gaps) / (sum(map(divisor, gaps)) or Fraction(1)), Fraction(0)], 0)

    distribution = team_draft.distribution(rankings, 3)
    assert expectation(distribution, divided, always(*positions))[0][1] == value


def test_flagging_shared_documents_is_not_fair() -> None:
    """SENSITIVITY, section 2: 012 against 120, two shown, with both rules for which document is shared.

    By the top two, document 1 is shared in both lists. By the next pick, it is shared only where it stands second:
    after 0 both rankers would pick it.
    """
    rankings: Rankings = ((0, 1, 2), (1, 2, 0))

    def in_both_tops(shown: Ranking, position: int) -> bool:
        return all(shown[position] in ranking[:2] for ranking in rankings)

    def next_of_both(shown: Ranking, position: int) -> bool:
        return len(competitive_pairs.propose(rankings, shown[:position])) == 1

    def credit_unless(shared: Callable[[Ranking, int], bool]) -> PreferenceOf:
        def preference_of(shown: Ranking, teams: Teams, clicked: frozenset[int]) -> Preference:
            counted = {position for position in clicked if not shared(shown, position)}
            return team_draft.preference(rankings, shown, teams, counted, "click")

        return preference_of

    distribution = team_draft.distribution(rankings, 2)
    for shared, position in ((in_both_tops, 0), (in_both_tops, 1), (next_of_both, 1)):
        assert expectation(distribution, credit_unless(shared), always(position))[0][1] == Fraction(1, 2)


def test_weights_of_a_document_that_both_rankers_could_have_put_there() -> None:
    """SENSITIVITY, section 2: nobody's by place, somebody's by list; the same rank in both rankings is not enough."""
    half_each = (Fraction(1, 2), Fraction(1, 2))
    all_of_a, all_of_b = (Fraction(1), Fraction(0)), (Fraction(0), Fraction(1))
    rankings = ((0, 1, 2), (0, 2, 1))
    assert team_draft.weights(rankings, (0, 1, 2), "place") == (half_each, all_of_a, half_each)
    assert team_draft.weights(rankings, (0, 1, 2), "list") == (all_of_b, all_of_a, half_each)
    # Document 2 has rank 3 in both rankings, but B would put 3 there.
    assert team_draft.weights(((0, 1, 2, 3), (1, 3, 2, 0)), (0, 1, 2), "place")[2] == all_of_a


# Competitive pairs


def test_what_meets_in_a_round_does_not_depend_on_coins() -> None:
    """SENSITIVITY, section 3: the owners on every path are those of one replay, also where rankings run out."""
    for rankings, k in worlds(80, seed=13):
        owners = competitive_pairs.all_owners(rankings)
        for shown, teams in competitive_pairs.distribution(rankings, k):
            single = [owners[document] for document in shown]
            assert teams == tuple(some[0] if len(some) == 1 else NOBODY for some in single)


@pytest.mark.parametrize("coins", competitive_pairs.COINS)
def test_competitive_pairs_of_two_rankers_are_fair_for_every_set_of_clicks(coins: str) -> None:
    """SENSITIVITY, section 3: the sign too; all rankings of 2 to 4 documents, and rankings that run out."""
    for rankings, k in [*same_documents(range(2, 5), 2), *worlds(60, seed=14, rankers=2)]:
        assert not unfair_schemes(competitive_pairs, rankings, k, coins=coins)


def test_competitive_pairs_of_three_rankers_are_fair_for_every_set_of_clicks() -> None:
    """SENSITIVITY, section 3: the sign too; all rankings of 3 documents, and rankings that run out."""
    for rankings, k in [*same_documents(range(3, 4), 3), *worlds(40, seed=15, rankers=3)]:
        assert not unfair_schemes(competitive_pairs, rankings, k)


def test_one_coin_a_list_puts_documents_in_the_same_places_as_one_a_pair() -> None:
    """SENSITIVITY, section 3: the two forms differ only in what stands together."""
    for rankings, k in [*same_documents(range(2, 5), 2), *worlds(40, seed=16, rankers=2)]:
        by_coins = [competitive_pairs.distribution(rankings, k, coins=coins) for coins in competitive_pairs.COINS]
        assert exposure.placement(by_coins[0]) == exposure.placement(by_coins[1])
    swapped = ((0, 1, 2, 3), (1, 0, 3, 2))
    lists = [len(competitive_pairs.distribution(swapped, 4, coins=coins)) for coins in competitive_pairs.COINS]
    assert lists == [4, 2]


def test_one_order_a_list_is_not_fair_to_three_rankers() -> None:
    """SENSITIVITY, section 3: a document of two rankers leads too often; 1,050 of 1,728 worlds of four documents.

    `click` is linear, so it is fair to all sets of clicks if it is fair to every single one.
    """
    agreeing: Rankings = ((0, 1), (0, 1), (1, 0))
    with pytest.raises(ValueError, match="two rankings"):
        competitive_pairs.distribution(agreeing, 1, coins="list")

    def preference_in(rankings: Rankings) -> PreferenceOf:
        return lambda shown, teams, clicked: competitive_pairs.preference(rankings, shown, teams, clicked, "click")

    def bias(rankings: Rankings, k: int, position: int) -> Preference:
        one_order = competitive_pairs.distribution_of_one_order(rankings, k)
        return expectation(one_order, preference_in(rankings), always(position))

    assert bias(agreeing, 1, 0)[0] == [0, 0, Fraction(1, 3)]
    every = same_documents(range(4, 5), 3, min_k=2)
    unfair = [1 for rankings, k in every if any(any(map(any, bias(rankings, k, p))) for p in range(k))]
    assert (len(unfair), len(every)) == (1050, 1728)


def test_a_click_with_several_owners_counts_once_in_the_divisor() -> None:
    """SENSITIVITY, section 3: dividing by the credit of all rankers prefers the one that proposed alone."""
    rankings: Rankings = ((0, 1), (0, 1), (1, 0))
    assert competitive_pairs.all_owners(rankings) == {0: (0, 1), 1: (2,)}
    assert expected_matrix(competitive_pairs, rankings, 2, "normalized", always(0))[0] == [0, 0, 0]

    def by_credit(shown: Ranking, teams: Teams, clicked: frozenset[int]) -> Preference:
        gaps = competitive_pairs.preference(rankings, shown, teams, clicked, "click")
        owners = competitive_pairs.all_owners(rankings)
        credit = sum(len(owners[shown[position]]) for position in clicked)
        return pairwise(3, lambda i, j: gaps[i][j] / credit)

    distribution = competitive_pairs.distribution(rankings, 2)
    assert expectation(distribution, by_credit, always(0))[0] == [0, 0, Fraction(-1, 4)]


def test_competitive_pairs_can_miss_a_better_ranker() -> None:
    """SENSITIVITY, section 3: B has the only wanted document c higher, but both rankers propose it together."""
    for scheme, coins in product(competitive_pairs.SCHEMES, competitive_pairs.COINS):
        assert expected(competitive_pairs, SHIFTED, 4, scheme, wanting((100, "c")), coins=coins) == 0


def test_nobody_owns_a_round_in_which_a_ranking_is_used_up() -> None:
    """SENSITIVITY, section 3: the others go on, but without credit, also where two of them still differ."""
    rankings: Rankings = (tuple("a"), tuple("bcd"), tuple("bef"))
    owners = competitive_pairs.all_owners(rankings)
    assert owners == {"a": (0,), "b": (1, 2), "c": (), "e": (), "d": (), "f": ()}
    assert {teams for _, teams in competitive_pairs.distribution(rankings, 4)} == {(0, -1, -1, -1), (-1, 0, -1, -1)}


# Exposure-corrected credit


def expected_values(
    distribution: Distribution, rankings: Rankings, click_model: Callable[[Ranking], Patterns], k: int
) -> tuple[Fraction, ...]:
    """E[V_i] of every ranker."""
    places = exposure.placement(distribution)
    totals = [Fraction(0) for _ in rankings]
    for shown, of_list in shown_lists(distribution).items():
        for pattern, of_clicks in click_model(shown).items():
            clicked = {position for position, value in enumerate(pattern) if value}
            values = exposure.value(rankings, shown, clicked, THETA, places, k)
            totals = [total + of_list * of_clicks * value for total, value in zip(totals, values, strict=True)]
    return tuple(totals)


@pytest.mark.parametrize("method", [team_draft, competitive_pairs])
@pytest.mark.parametrize(("rankers", "k"), [(2, 3), (2, 2), (3, 3), (3, 2)])
def test_exposure_corrected_values_are_the_clicks_of_each_ranker_alone(
    method: ModuleType, rankers: int, k: int
) -> None:
    """SENSITIVITY, section 4: exactly, where the lists cover a ranker's documents; less where they do not."""
    appeal = {0: Fraction(1, 2), 1: Fraction(1, 3), 2: Fraction(1, 5)}
    covered = []
    for rankings, length in same_documents(range(3, 4), rankers, min_k=2):
        if length != k:
            continue
        distribution = method.distribution(rankings, k)
        values = expected_values(distribution, rankings, by_rank(appeal), k)
        shares = exposure.coverage(rankings, THETA, exposure.placement(distribution), k)
        for value, share, truth in zip(values, shares, exposure.clicks_alone(rankings, THETA, appeal, k), strict=True):
            assert value == truth if share == 1 else value < truth
            covered.append(share == 1)
    assert all(covered) if k == 3 else {True, False} == set(covered)


def test_coverage_is_the_examination_on_documents_that_can_be_shown() -> None:
    """SENSITIVITY, section 4: 012 against 120, two shown: 0 and 1 in any order, never the 2 that B puts second."""
    rankings: Rankings = ((0, 1, 2), (1, 2, 0))
    for method in (team_draft, competitive_pairs):
        places = exposure.placement(method.distribution(rankings, 2))
        assert places == {document: {1: Fraction(1, 2), 2: Fraction(1, 2)} for document in (0, 1)}
        assert exposure.coverage(rankings, THETA, places, 2) == (Fraction(1), Fraction(2, 3))


def test_exposure_correction_of_one_shown_list_is_faithful_and_not_fair() -> None:
    """SENSITIVITY, section 4: 012 or 120 is shown, by a coin; a click on rank 1 of every list expects +1/6."""
    rankings: Rankings = ((0, 1, 2), (1, 2, 0))
    one_list: Distribution = {(ranking, None): Fraction(1, 2) for ranking in rankings}
    first, second = expected_values(one_list, rankings, always(0), 3)
    assert first - second == Fraction(1, 6)
    appeal = {0: Fraction(1, 2), 1: Fraction(1, 3), 2: Fraction(1, 5)}
    truth = exposure.clicks_alone(rankings, THETA, appeal, 3)
    assert expected_values(one_list, rankings, by_rank(appeal), 3) == truth


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
