"""Every method and every parameter against the oracles: equal in fractions, and in floats to the last digits.

The oracles (tests/oracles) were written from the papers alone, by enumeration; `optimized` has
tests/methods/test_linear_program.py.
"""

import math
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf import Interleaving, credit
from interleaf.audit import distribution
from interleaf.interleaving import kernel_calls
from interleaf.methods import drafts
from interleaf.methods.registry import resolve
from tests.support.worlds import (
    DRAWN,
    EXACT_SPECS,
    LISTED,
    Clicks,
    Distribution,
    Ranking,
    Rankings,
    Teams,
    World,
    click_sets,
    oracle_of,
    shown_of,
    spec_and_world,
    specs_of,
    world,
    worlds_of,
)

CLOSE = 1e-9


def exact_preference(shown: Interleaving, clicks: Clicks, scheme: str) -> list[list[Fraction]]:
    chosen = resolve(shown.method)
    named = chosen.scheme(scheme, len(shown.rankers))
    clicked = [position + 1 in clicks for position in range(len(shown.documents))]
    _, preference = kernel_calls.credit(chosen, named, shown.impression(), clicked, exact=True)
    found: list[list[Fraction]] = preference.tolist()
    return found


def exact_probability(shown: Interleaving) -> Fraction | None:
    factors = kernel_calls.probability(resolve(shown.method), shown.impression(), exact=True)
    return None if factors is None else math.prod(factors.tolist(), start=Fraction(1))


def check_credit(rankings: Rankings, outcome: tuple[Ranking, Teams], spec: str) -> None:
    """Every scheme on every set of clicks: fractions equal, compiled floats close."""
    oracle = oracle_of(spec)
    shown = shown_of(rankings, outcome, spec)
    for scheme in oracle.chosen.method.schemes_for(len(rankings)):
        for clicks in click_sets(len(shown.documents)):
            truth = oracle.preference(rankings, *outcome, clicks, scheme)
            assert exact_preference(shown, clicks, scheme) == truth, (rankings, outcome, spec, scheme, clicks)
            served = credit(shown, clicks, scheme).preference
            assert np.abs(served - np.array(truth, float)).max() <= CLOSE, (rankings, outcome, spec, scheme, clicks)


def lists_of(outcomes: Distribution) -> dict[Ranking, Fraction]:
    """The probability of each list, whoever owns its documents; a list of nothing is no impression."""
    lists = dict.fromkeys((documents for documents, _ in outcomes if documents), Fraction(0))
    for (documents, _), probability in outcomes.items():
        if documents:
            lists[documents] += probability
    return lists


def check_probability(shown: Interleaving, truth: Fraction) -> None:
    assert exact_probability(shown) == truth, (shown.rankings, shown.documents, shown.method)
    assert shown.log_probability == pytest.approx(math.log(truth) if truth else -math.inf, rel=0, abs=CLOSE)


def untold(documents: Ranking, spec: str) -> Teams:
    """Owners for a list that nobody drafted; the probability of a list asks for none."""
    return (-1,) * len(documents) if resolve(spec).method.has_teams else None


@pytest.mark.parametrize("spec", [*EXACT_SPECS, "one_list"])
def test_lists_and_teams_come_with_the_oracle_s_probabilities(spec: str) -> None:
    for small in worlds_of(resolve(spec)):
        found = distribution(small.rankings, spec, small.k)
        assert found == oracle_of(spec).distribution(small), small
        assert sum(found.values()) == 1


@pytest.mark.parametrize("name", DRAWN)
@given(data=st.data())
def test_lists_and_teams_of_any_world_come_with_the_oracle_s_probabilities(name: str, data: st.DataObject) -> None:
    spec, small = data.draw(spec_and_world(specs_of(name), 3, 4))
    assert distribution(small.rankings, spec, small.k) == oracle_of(spec).distribution(small)


@pytest.mark.parametrize("spec", EXACT_SPECS)
def test_all_clicks_on_a_list_are_credited_as_the_oracle_does(spec: str) -> None:
    for small in worlds_of(resolve(spec)):
        outcomes = [outcome for outcome in oracle_of(spec).distribution(small) if outcome[0]]
        for outcome in outcomes[:: max(1, len(outcomes) // 3)]:
            check_credit(small.rankings, outcome, spec)


@pytest.mark.parametrize("compared", [0, 1])
def test_drafts_that_are_compared_with_few_others_are_credited_as_the_oracle_does(
    compared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a ranker is used up in the middle of a round, there are more drafts than rounds alone allow."""
    monkeypatch.setattr(drafts, "MAX_COMPARED", compared)
    spec, small = "team_draft(fill=owned)", world("ade bdf a", 3)
    for outcome in oracle_of(spec).distribution(small):
        shown = shown_of(small.rankings, outcome, spec)
        for clicks in click_sets(3):
            truth = oracle_of(spec).preference(small.rankings, *outcome, clicks, "click_place")
            assert exact_preference(shown, clicks, "click_place") == truth, (outcome, clicks)


@pytest.mark.parametrize("name", [*LISTED, "optimized"])
@given(data=st.data())
def test_clicks_on_any_list_at_all_are_credited_as_the_oracle_does(name: str, data: st.DataObject) -> None:
    """Also lists that the method would never show: another system may have, and told us who owns what.

    Not so where the oracle's formula has no meaning on them: a propensity of zero, a shared prefix further down, rounds
    that no rankings have.
    """
    spec, small = data.draw(spec_and_world(specs_of(name), 3, 4))
    anything = st.permutations(sorted(set().union(*small.rankings))).map(lambda order: tuple(order[: small.k]))
    if name in ("pairwise_preference", "team_draft", "competitive_pairs"):
        anything = st.sampled_from(sorted(documents for documents, _ in oracle_of(spec).distribution(small)))
    documents = data.draw(anything)
    owners = st.lists(st.integers(-1, len(small.rankings) - 1), min_size=len(documents), max_size=len(documents))
    teams = tuple(data.draw(owners)) if resolve(spec).method.has_teams else None
    check_credit(small.rankings, (documents, teams), spec)


@pytest.mark.parametrize("spec", EXACT_SPECS)
def test_lists_possible_or_not_have_the_oracle_s_probability(spec: str) -> None:
    for small in worlds_of(resolve(spec)):
        union = sorted(set().union(*small.rankings))
        size = min(small.k, len(union))
        truth = lists_of(oracle_of(spec).distribution(small))
        listed = set(truth) | set(permutations(union, size))
        for documents in sorted(listed):
            shown = shown_of(small.rankings, (documents, untold(documents, spec)), spec)
            check_probability(shown, truth.get(documents, Fraction(0)))


@pytest.mark.parametrize("name", LISTED)
@given(data=st.data())
def test_any_list_of_any_world_has_the_oracle_s_probability(name: str, data: st.DataObject) -> None:
    spec, small = data.draw(spec_and_world(specs_of(name), 4 if name == "team_draft" else 3, 4))
    truth = lists_of(oracle_of(spec).distribution(small))
    union = sorted(set().union(*small.rankings))
    anything = st.permutations(union).map(lambda order: tuple(order[: small.k]))
    documents = data.draw((st.sampled_from(sorted(truth)) if truth else st.nothing()) | anything)
    shown = shown_of(small.rankings, (documents, untold(documents, spec)), spec)
    check_probability(shown, truth.get(documents, Fraction(0)))


MANY = "abcd"
THIRTEEN = [
    world(" ".join(MANY[at % 4 :] + MANY[: at % 4] for at in range(13)), 3),
    world(" ".join("abc" if at < 5 else "abd" for at in range(13)), 3),  # with a shared prefix of two
    world(" ".join("ab" if at else "cd" for at in range(13)), 2),
]


@pytest.mark.parametrize("spec", ["sample_scored_only", *specs_of("team_draft")])
@pytest.mark.parametrize("many", THIRTEEN, ids=["rotated", "prefix", "short"])
def test_lists_of_thirteen_rankers_have_the_oracle_s_probability(spec: str, many: World) -> None:
    truth = lists_of(oracle_of(spec).distribution(many))
    for documents in permutations(sorted(set().union(*many.rankings)), many.k):
        shown = shown_of(many.rankings, (documents, untold(documents, spec)), spec)
        check_probability(shown, truth.get(documents, Fraction(0)))


def test_where_one_of_thirteen_rankers_is_used_up_the_probability_is_not_told() -> None:
    used_up = [("a",), *[("b", "c", "d")] * 12]
    shown = Interleaving.of(used_up, ("a", "b", "c"), teams=(0, -1, -1))
    assert exact_probability(shown) is None
    assert shown.log_probability is None
    assert shown.to_dict()["log_probability"] is None


@pytest.mark.parametrize("rankers", [12, 13])
def test_probabilities_of_all_lists_of_many_rankers_sum_to_one(rankers: int) -> None:
    rankings: Any = [tuple("abcd"[at % 4 :] + "abcd"[: at % 4]) for at in range(rankers)]
    probabilities = [
        exact_probability(Interleaving.of(rankings, documents, teams=(-1,) * 4)) for documents in permutations("abcd")
    ]
    assert sum(filter(None, probabilities)) == 1


def test_exact_credit_of_a_long_list_is_exact() -> None:
    """Numbers beyond 64 bits: no fraction may be made of an array's integers."""
    rankings = tuple(tuple(f"{ranker}{rank}" for rank in range(12)) for ranker in "abc")
    documents = tuple(document for row in zip(*rankings, strict=True) for document in reversed(row))
    clicks = (3, 17, 30, 36)
    for spec in ("pairwise_preference", "sample_scored_only(tau=10)", "probabilistic(tau=10)"):
        outcome = documents, (-1,) * 36 if resolve(spec).method.has_teams else None
        truth = oracle_of(spec).preference(rankings, *outcome, clicks, "click")
        assert exact_preference(shown_of(rankings, outcome, spec), clicks, "click") == truth
