"""What holds for every list and every outcome, whatever the method: the promises that a caller builds on."""

import json
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf import Interleaving, credit, interleave
from interleaf.audit import distribution
from interleaf.interleaving.rankings import letter
from interleaf.methods.registry import METHODS, resolve
from tests.support.worlds import (
    COMPARING,
    DRAWN,
    EVERY_SPEC,
    EXACT_SPECS,
    TAUS,
    World,
    clicks_on,
    spec_and_world,
    specs_of,
    world,
    worlds_of,
)

UNMIXED = ("single", "single(ranker=B)", "one_list")
ANY = (*EVERY_SPEC, *UNMIXED)
KEYS = st.integers() | st.text(max_size=3)
CONSIDERATE = tuple(spec for spec in ANY if resolve(spec).method.claims.considerate)


@pytest.mark.parametrize("name", [*DRAWN, "single"])
@given(data=st.data())
def test_a_shorter_list_is_the_top_of_a_longer_one(name: str, data: st.DataObject) -> None:
    """So that page two agrees with page one: the same key, another cut."""
    specs = ["single", "single(ranker=B)"] if name == "single" else specs_of(name, TAUS)
    spec, small = data.draw(spec_and_world(specs, max_documents=7))
    key = data.draw(KEYS)
    longer = interleave(small.rankings, spec, small.k, key)
    for k in range(1, small.k):
        shorter = interleave(small.rankings, spec, k, key)
        assert shorter.documents == longer.documents[:k]
        assert shorter.teams == (None if longer.teams is None else longer.teams[:k])


@given(spec_and_world(ANY), KEYS)
def test_a_list_holds_each_document_once_and_as_many_as_there_are(drawn: tuple[str, World], key: str | int) -> None:
    spec, small = drawn
    shown = interleave(small.rankings, spec, small.k, key)
    available = set().union(*small.rankings)
    assert len(set(shown.documents)) == len(shown.documents) <= small.k
    assert set(shown.documents) <= available
    if spec not in UNMIXED and "fill=stop" not in spec and "fill=False" not in spec:
        assert len(shown.documents) == min(small.k, len(available))


@given(spec_and_world(ANY), KEYS)
def test_a_document_s_name_does_not_matter(drawn: tuple[str, World], key: str | int) -> None:
    spec, small = drawn
    names = dict(zip("abcdefgh", [17, "h", "7 \u00fc", -3, np.int64(5), "", 2**70, "a"], strict=True))
    renamed = [[names[document] for document in ranking] for ranking in small.rankings]
    shown = interleave(small.rankings, spec, small.k, key)
    other = interleave(renamed, spec, small.k, key)
    assert other.documents == tuple(names[str(document)] for document in shown.documents)
    assert other.teams == shown.teams
    assert other.ranks.tolist() == shown.ranks.tolist()
    assert other.log_probability == shown.log_probability


@pytest.mark.parametrize("spec", EXACT_SPECS)
def test_reordering_rankers_reorders_the_distribution(spec: str) -> None:
    for small in worlds_of(resolve(spec)):
        found = distribution(small.rankings, spec, small.k)
        for order in list(permutations(range(len(small.rankings))))[1:6]:
            reordered = distribution([small.rankings[ranker] for ranker in order], spec, small.k)
            new = {old: at for at, old in enumerate(order)} | {-1: -1}
            assert reordered == {
                (documents, None if teams is None else tuple(new[team] for team in teams)): probability
                for (documents, teams), probability in found.items()
            }


@pytest.mark.parametrize("name", COMPARING)
@given(data=st.data())
def test_reordering_rankers_reorders_the_preferences(name: str, data: st.DataObject) -> None:
    spec, small = data.draw(spec_and_world(specs_of(name, TAUS)))
    shown = interleave(small.rankings, spec, small.k, data.draw(KEYS))
    order = data.draw(st.permutations(range(len(small.rankings))))
    new = {old: at for at, old in enumerate(order)} | {-1: -1}
    teams = None if shown.teams is None else [new[team] for team in shown.teams]
    reordered = Interleaving.of([small.rankings[ranker] for ranker in order], shown.documents, spec, teams)
    clicks = data.draw(clicks_on(len(shown.documents)))
    for scheme in resolve(spec).method.schemes_for(len(order)):
        before, after = credit(shown, clicks, scheme), credit(reordered, clicks, scheme)
        np.testing.assert_allclose(after.preference, before.preference[np.ix_(order, order)], rtol=0, atol=1e-9)
        old_credit = list(before.credit.values())
        np.testing.assert_allclose(list(after.credit.values()), [old_credit[old] for old in order], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", COMPARING)
@given(data=st.data())
def test_a_preference_is_the_opposite_of_its_opposite(name: str, data: st.DataObject) -> None:
    spec, small = data.draw(spec_and_world(specs_of(name, TAUS)))
    shown = interleave(small.rankings, spec, small.k, data.draw(KEYS))
    clicks = data.draw(clicks_on(len(shown.documents)))
    for scheme in resolve(spec).method.schemes_for(len(small.rankings)):
        outcome = credit(shown, clicks, scheme)
        assert (outcome.preference == -outcome.preference.T).all()
        assert not np.diag(outcome.preference).any()
        assert np.isfinite(outcome.preference).all()
        assert outcome.score == (outcome.preference[0, 1] if len(small.rankings) == 2 else None)
        assert list(outcome.credit) == list(shown.rankers)
        once = credit(shown, sorted(set(clicks)), scheme)
        assert (once.preference == outcome.preference).all()


@given(spec_and_world(EVERY_SPEC), KEYS)
def test_without_a_click_nobody_is_preferred(drawn: tuple[str, World], key: str | int) -> None:
    spec, small = drawn
    shown = interleave(small.rankings, spec, small.k, key)
    for scheme in resolve(spec).method.schemes_for(len(small.rankings)):
        outcome = credit(shown, [], scheme)
        assert not outcome.preference.any()
        assert set(outcome.credit.values()) == {0.0}
        assert outcome.scheme == scheme


@given(spec_and_world(CONSIDERATE, max_documents=7), KEYS)
def test_a_considerate_method_shows_nothing_above_its_best_rank(drawn: tuple[str, World], key: str | int) -> None:
    spec, small = drawn
    shown = interleave(small.rankings, spec, small.k, key)
    best = np.where(shown.ranks > 0, shown.ranks, np.iinfo(np.int32).max).min(axis=0, initial=np.iinfo(np.int32).max)
    assert (best <= np.arange(1, len(shown.documents) + 1)).all()


def test_only_probabilistic_lists_are_not_considerate() -> None:
    assert [name for name, method in METHODS.items() if not method.claims.considerate] == ["probabilistic"]


@given(spec_and_world(ANY), KEYS)
def test_the_same_key_gives_the_same_list(drawn: tuple[str, World], key: str | int) -> None:
    spec, small = drawn
    shown = interleave(small.rankings, spec, small.k, key)
    assert interleave(small.rankings, spec, small.k, key) == shown
    assert interleave(small.rankings, spec, small.k, shown.key) == shown
    assert hash(interleave(small.rankings, spec, small.k, shown.key)) == hash(shown)


@pytest.mark.parametrize("spec", EVERY_SPEC)
def test_different_keys_give_different_lists(spec: str) -> None:
    rankings = world("abcdef fedcba", 6).rankings
    lists = [interleave(rankings, spec, 6, ("user", number)).documents for number in range(40)]
    assert len(set(lists)) > 1
    fresh = [interleave(rankings, spec, 6).key for _ in range(40)]
    assert len(set(fresh)) == 40


def test_a_list_shared_by_two_rankers_under_names_is_the_one_under_letters() -> None:
    named = interleave({"production": ["d4", "d1", "d7"], "candidate": ["d1", "d9", "d4"]}, key="user-7")
    lettered = interleave([["d4", "d1", "d7"], ["d1", "d9", "d4"]], key="user-7")
    assert named.documents == lettered.documents
    assert (named.rankers, lettered.rankers) == (("production", "candidate"), ("A", "B"))
    many = interleave([["a"]] * 30, key="user-7")
    assert many.rankers[24:] == tuple(letter(number) for number in range(24, 30)) == ("Y", "Z", "AA", "AB", "AC", "AD")


@pytest.mark.parametrize("name", [*COMPARING, "single", "one_list"])
@given(data=st.data())
def test_a_list_comes_back_from_its_log_with_all_that_credit_needs(name: str, data: st.DataObject) -> None:
    spec, small = data.draw(spec_and_world(["single"] if name == "single" else specs_of(name, TAUS)))
    shown = interleave(small.rankings, spec, small.k, data.draw(KEYS))
    logged = json.loads(json.dumps(shown.to_dict()))
    back = Interleaving.from_dict(logged)
    assert back == shown
    assert back.to_dict() == logged
    assert back.log_probability == shown.log_probability
    clicks = data.draw(clicks_on(len(shown.documents)))
    for scheme in resolve(spec).method.schemes_for(len(small.rankings)):
        here, there = credit(shown, clicks, scheme), credit(back, clicks, scheme)
        assert json.dumps(there.to_dict()) == json.dumps(here.to_dict())


@given(spec_and_world(ANY), KEYS)
def test_a_log_may_hold_the_rankings_too_or_in_place_of_ranks(drawn: tuple[str, World], key: str | int) -> None:
    spec, small = drawn
    shown = interleave(small.rankings, spec, small.k, key)
    logged = json.loads(json.dumps(shown.to_dict(rankings=True)))
    assert logged["rankings"] == [list(ranking) for ranking in small.rankings]
    assert Interleaving.from_dict(logged) == shown
    del logged["ranks"]
    assert Interleaving.from_dict(logged) == shown


def test_rankings_may_be_numpy_s_and_are_still_logged_as_plain_data() -> None:
    shown = interleave([np.arange(4), np.arange(4)[::-1]], k=3, key="user-7")  # type: ignore[list-item]
    assert json.loads(json.dumps(shown.to_dict()))["documents"] == list(shown.documents)
