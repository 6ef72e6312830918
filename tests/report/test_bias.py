"""`bias` says which methods may score which lists: held against every pair of methods, enumerated in small worlds.

Clicks that depend on the rank only are mixtures of click patterns. So credit is unbiased if, for each pattern on its
own and each length of list, the expected preference of every pair of rankers is zero.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import lcm

import numpy as np
import pytest

from interleaf import ListError
from interleaf.audit.worlds import Enumeration, Shown
from interleaf.interleaving.rankings import CheckedRankings
from interleaf.kernels.arrays import Array
from interleaf.methods.registry import METHODS, resolve
from interleaf.methods.schemes import scheme_of
from interleaf.report.list_checks import bias
from tests.support.worlds import World, specs_of, world

SPECS = (
    *(spec for name, row in METHODS.items() if row.schemes for spec in specs_of(name, (1, 3))),
    "optimized(samples=10)",
)
WORLDS = (
    world("ab ba", 1),
    world("ab ba", 2),
    world("ab b", 2),
    world("a bc", 2),
    world("a abc", 1),  # a prefix that one of them is as likely to own as all it has
    world("ab cd", 3),
    world("abc cab", 2),
    world("abc bca", 3),
    world("ab abc", 3),  # a shared prefix, and one that is used up first
    world("abc acb", 3),
    world("abcd cdba", 3),
    world("abcd bdac", 3),  # what meets in competitive pairs is not what other methods show next to each other
    world("abcd acdb", 3),
    world("abcd bdca", 3),
    world("ab ba ab", 2),
    world("ab ac b", 2),
    world("abc bca cab", 2),
)


@cache
def enumeration(spec: str, small: World) -> Enumeration:
    return Enumeration(resolve(spec), CheckedRankings.of(small.rankings, resolve(spec)), small.k)


def worlds_of(*specs: str) -> Iterator[World]:
    """The worlds that all of these can work in, with constraints that can be met."""
    most = min(resolve(spec).rankers[1] or 9 for spec in specs)
    yield from (one for one in WORLDS if len(one.rankings) <= most and not enumeration(specs[0], one).relaxed)


@cache
def lists_of(spec: str, small: World, with_teams: bool) -> Mapping[int, Mapping[Shown, int]]:
    """What is shown, by its length, with probabilities times a number that makes them whole.

    Lists are told apart by teams only where they matter.
    """
    found: defaultdict[int, defaultdict[Shown, int]] = defaultdict(lambda: defaultdict(int))
    lists = enumeration(spec, small).shown
    whole = lcm(*(probability.denominator for probability in lists.values()))
    for (documents, teams), probability in lists.items():
        found[len(documents)][documents, teams if with_teams else None] += int(probability * whole)
    return found


def prefers_somebody(composed: str, scored: str, scheme: str, small: World) -> bool:
    """Whether some pattern of clicks prefers a ranker, whatever is shown at the clicked ranks."""
    scoring = enumeration(scored, small)
    lists = lists_of(composed, small, "teams" in scoring.chosen.method.needs)
    for length, some in lists.items():
        for size in range(1, length + 1):
            for clicks in combinations(range(1, length + 1), size):
                said = [(chance, scores_of(scoring, one, clicks, scheme)) for one, chance in some.items()]
                for pair in combinations(range(len(small.rankings)), 2):
                    chances = Counter[Fraction]()
                    for chance, scores in said:
                        chances[scores[pair]] += chance
                    if sum(score * chance for score, chance in chances.items()) != 0:
                        return True
    return False


def scores_of(scoring: Enumeration, shown: Shown, clicks: tuple[int, ...], scheme: str) -> Array:
    """The preferences after these clicks; zero for a list that the scorer could not have drafted, which is dropped."""
    try:
        return scoring.preference(shown, clicks, scheme_of(scheme))
    except ListError:
        return np.zeros((len(scoring.problem.rankers),) * 2, object)


def can_score(scored: str, composed: str) -> bool:
    """Whether lists of one method hold what the other needs."""
    return "teams" not in resolve(scored).method.needs or resolve(composed).method.has_teams


def is_cautious(composed: str, scored: str, scheme: str) -> bool:
    """Whether a warning may be given though no small world shows a bias.

    Of two rankers, lists that one method drafts and the other pairs: worlds of three rankers show the bias. And
    averages over drafts of other parameters: `fill=owned` shows the documents of `fill=fair`, but others own the last.
    """
    owners = {resolve(spec).method.same_lists_as or resolve(spec).method.name for spec in (composed, scored)}
    averages = owners == {"team_draft"} and scheme.endswith(("_list", "_place"))
    return averages or owners == {"competitive_pairs", "team_draft"}


@pytest.mark.parametrize("composed", SPECS)
def test_a_pair_of_methods_is_called_biased_exactly_where_some_world_shows_it(composed: str) -> None:
    wrong = []
    for scored in SPECS:
        for scheme in resolve(scored).method.schemes if can_score(scored, composed) else ():
            shown = any(
                prefers_somebody(composed, scored, scheme, small)
                for small in worlds_of(composed, scored)
                if scheme in resolve(scored).method.schemes_for(len(small.rankings))
            )
            warned = bias(composed, scored, scheme) != ""
            if shown != warned and not (warned and is_cautious(composed, scored, scheme)):
                wrong.append(f"{scored} by {scheme}: {'no world' if warned else 'a world'} shows a bias")
    assert not wrong, f"lists of {composed} scored as " + "; ".join(wrong)


@pytest.mark.parametrize(
    ("spec", "small"),
    [
        ("optimized", world("a bc", 3)),
        ("optimized(credit=linear)", world("a bc", 3)),
        ("optimized(credit=binary)", world("abc bca", 3)),
    ],
)
def test_lists_whose_constraints_could_not_be_met_are_called_biased(spec: str, small: World) -> None:
    assert enumeration(spec, small).relaxed
    assert prefers_somebody(spec, spec, "click", small)
    assert bias(spec, spec, "click", relaxed=True) != ""
    assert bias(spec, spec, "click", relaxed=False) == ""


def test_lists_of_one_ranker_cannot_be_scored_fairly() -> None:
    assert bias("single(ranker=A)", "team_draft", "click").startswith("lists of single(ranker=A) scored as team_draft")


def test_a_warning_names_both_methods_or_the_one() -> None:
    assert "lists of balanced scored as pairwise_preference are not scored fairly" in bias(
        "balanced", "pairwise_preference", "click"
    )
    assert bias("balanced", "balanced", "click").startswith("balanced is not fair")
