"""Lists of many requests that are drawn together are those of each alone, and so is all that is stored of them."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interleaf.errors import MethodError, RankingError
from interleaf.experiment import Experiment, Request, show
from interleaf.experiment.showing import Noted
from interleaf.methods.table import METHODS
from interleaf.serve.mixing import Draft, is_plain, mix, warm
from interleaf.serve.writing import Writing
from interleaf.store import opened
from interleaf.store.contract import Impression
from interleaf.store.encoding import decoded, encoded_note

MIXING = [name for name, method in METHODS.items() if method.schemes and method.kernels.prepare is None]
ranking = st.lists(st.sampled_from("abcdefghijkl"), unique=True, min_size=1, max_size=12)
request = st.tuples(
    st.lists(ranking, min_size=3, max_size=3),
    st.none() | st.text(max_size=3),
    st.none() | st.text(max_size=3),
    st.none() | st.integers(1, 15),
)


def experiment(method: str, rankers: int = 3, **more: Any) -> Experiment:
    names = ["old", "new", "newest"][:rankers]
    return Experiment.of({"name": "shop", "rankers": names, "method": method, "k": 4} | more)


def draft(shop: Experiment, wanted: Request, version: int = 2, **kept: Any) -> Draft:
    return Draft(shop, wanted, kept, Impression(wanted.impression, shop.name, version, wanted.unit, 5, 6, {}))


def same_as_alone(one: Draft) -> None:
    alone = show(one.settings, one.impression.version, one.wanted)
    assert isinstance(alone.noted, Noted)
    assert (one.documents, one.arm, one.problem) == (alone.documents, alone.arm, None)
    assert one.impression.parts is not None
    assert decoded(one.impression.parts) == decoded(encoded_note(alone.noted, **one.kept))


@pytest.mark.parametrize("method", MIXING)
@settings(max_examples=30, deadline=None)
@given(asked=st.lists(request, min_size=1, max_size=6))
def test_each_list_is_the_one_that_it_would_be_alone(method: str, asked: list[Any]) -> None:
    shop = experiment(method, METHODS[method].rankers[1] or 3)
    drafts = []
    for number, (rankings, unit, query, k) in enumerate(asked):
        given = dict(zip(shop.rankers, rankings, strict=False))
        wanted = Request(f"i-{number}", unit, query, given, k)
        assert is_plain(shop, wanted)
        drafts.append(draft(shop, wanted, attributes={"device": "phone"}, latency=[0.25, None], session="s"))
    mix(drafts)
    for one in drafts:
        same_as_alone(one)


def test_requests_of_several_experiments_and_versions_are_kept_apart() -> None:
    shops = [experiment("team_draft", 2), experiment("pairwise_preference", 2, name="other", k=3)]
    rankings = {"old": list("abcdef"), "new": list("fedcba")}
    drafts = [draft(shops[n % 2], Request(f"i-{n}", f"u-{n}", "q", rankings), 1 + n % 3) for n in range(12)]
    mix(drafts)
    for one in drafts:
        same_as_alone(one)


def test_one_bad_request_says_what_is_wrong_and_spoils_no_other() -> None:
    shop = experiment("team_draft", 2)
    good = draft(shop, Request("i-1", "u", "q", {"old": ["a", "b"], "new": ["b", "c"]}))
    bad = draft(shop, Request("i-2", "u", "q", {"old": ["a", "b", "a"], "new": ["b", "c"]}))
    mix([bad, good])
    same_as_alone(good)
    assert isinstance(bad.problem, RankingError)
    assert "holds document 'a' twice, at ranks 1 and 3" in str(bad.problem)
    assert bad.impression.parts is None


def test_rankings_too_long_for_the_method_are_refused_and_the_others_are_not() -> None:
    shop = experiment("probabilistic(tau=100)", 2)
    good = draft(shop, Request("i-1", "u", "q", {"old": ["a", "b"], "new": ["b", "c"]}))
    long = [f"d{number}" for number in range(1000)]
    bad = draft(shop, Request("i-2", "u", "q", {"old": long, "new": long}))
    mix([bad, good])
    same_as_alone(good)
    assert isinstance(bad.problem, MethodError)
    assert "too steep for rankings of 1000 documents" in str(bad.problem)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"mode": "aa"}, {}),
        ({"holdout": 0.9}, {"unit": "user-1"}),
        ({"share": 0.0001}, {}),
        ({"method": "optimized"}, {}),
        ({}, {"page": 2}),
        ({}, {"fixed": {1: "z"}}),
        ({}, {"rankings": {"old": ["a"], "new": None}}),
        ({}, {"rankings": {"old": ["a"], "new": []}}),
        ({}, {"rankings": {"old": ["a"]}}),
        ({}, {"rankings": {"old": ["a"], "new": ["b"], "unknown": ["c"]}}),
    ],
)
def test_what_is_out_of_the_ordinary_is_left_to_the_long_way(change: dict[str, Any], wanted: dict[str, Any]) -> None:
    given = {"impression": "i", "unit": "user-7", "query": "q", "rankings": {"old": ["a"], "new": ["b"]}} | wanted
    shop = experiment(**{"method": "team_draft"} | change, rankers=2)
    assert not is_plain(shop, Request(**given))


def test_warming_mixes_whatever_part_of_people_takes_part() -> None:
    warm(experiment("team_draft", 2, share=0.01, holdout=0.5))
    warm(experiment("team_draft", 2, share=0.5, lane="shop", offset=0.5))
    warm(experiment("optimized", 2))
    shop, long = experiment("team_draft", 2), list("abcdefgh")
    forms = len(shop.chosen.method.kernels.compose_batch.signatures)  # type: ignore[attr-defined]
    mix([draft(shop, Request("i-1", "u", "q", {"old": long, "new": long[::-1]}))])
    assert len(shop.chosen.method.kernels.compose_batch.signatures) == forms > 0  # type: ignore[attr-defined]


def test_a_refused_request_is_freed_at_once(tmp_path: Path) -> None:
    shop = experiment("team_draft", 2)
    store = opened(tmp_path / "store.sqlite")
    bad = {"old": ["a", "b", "a"], "new": ["b", "c"]}

    async def refused() -> int:
        writing, count = Writing(store), 0
        for number in range(5):
            try:
                await writing.put(draft(shop, Request(f"i-{number}", "u", "q", bad)))
            except RankingError:
                count += 1
        await writing.close()
        return count

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(refused()) == 5
        assert not [one for one in gc.get_objects() if type(one) is Draft]  # and ask no proxy
    finally:
        gc.enable()
        store.close()
