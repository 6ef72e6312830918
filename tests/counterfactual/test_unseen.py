"""Documents that the log never shows: what they could change is in the interval, and no sign is wrong."""

from collections import Counter
from collections.abc import Iterator
from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import binom, t

from interleaf.counterfactual import estimators as robust_module
from interleaf.counterfactual.click_model import STATES, ClickModels, RankedLists, add_slack
from interleaf.counterfactual.estimators import widen
from interleaf.counterfactual.list_outcomes import scorer_of
from interleaf.counterfactual.reuse_result import ReuseWarning
from interleaf.kernels.arrays import Array
from interleaf.stats.compare import Estimate
from tests.oracles import probabilistic as oracle
from tests.oracles.forms import Ranking, Rankings
from tests.support.reuse_logs import warned
from tests.support.reuse_queries import Part, World, answered, coins, readers, truth_of
from tests.support.reuse_worlds import rankings_of, seen

RUNS, ROWS = 60, 600
PI = "probabilistic"
OLD = "abcd bacd"
WORLDS = {
    "an unseen document is liked by all": World(
        PI,
        3,
        (
            Part(0.8, OLD, "abcd badc", coins(a=0.5, b=0.2, c=0.1, d=0.1)),
            Part(0.2, OLD, "abcd xbac", coins(a=0.1, b=0.1, c=0.1, d=0.1, x=0.95)),
        ),
    ),
    "people leave after an unseen document": World(
        PI,
        3,
        (
            Part(0.75, OLD, "abcd badc", readers(a=2, c=1)),
            Part(0.25, OLD, "abcd xabc", readers(x=2, d=1)),
        ),
    ),
    "unseen documents of both": World(
        PI,
        3,
        (
            Part(0.8, OLD, "abcd bacd", coins(a=0.4, b=0.3, c=0.1, d=0.1)),
            Part(0.1, OLD, "abcd xabc", coins(x=0.9, a=0.2, b=0.1)),
            Part(0.1, OLD, "ybcd abcd", coins(y=0.1, a=0.3, b=0.2)),
        ),
    ),
    "unseen documents on half of the pages": World(
        PI,
        3,
        (
            Part(0.5, OLD, "abcd badc", coins(a=0.5, b=0.2, c=0.1, d=0.1)),
            Part(0.5, OLD, "abcd xbac", coins(a=0.3, b=0.1, c=0.1, d=0.1, x=0.6)),
        ),
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_interval_allows_for_documents_that_the_log_never_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robust_module, "MIN_DRAWN", 4 * ROWS)
    world, counts = WORLDS[name], Counter[str]()
    truth = truth_of(world, PI)
    for seed in range(RUNS):
        found = answered(world, ROWS, seed, PI)
        (one,) = found.answers
        assert one.interval is not None
        assert not found.doubt
        assert warned(found, ReuseWarning.UNSEEN_DOCUMENTS)
        counts["held"] += one.interval[0] <= truth <= one.interval[1]
        counts["wrong"] += one.winner(0.95) == ("second" if truth > 0 else "first")
    assert counts["held"] >= binom.ppf(0.001, RUNS, 0.95)
    assert counts["wrong"] == 0


def all_chances(lists: RankedLists, unseen: Array, guess: Array, attention: Array) -> Iterator[Array]:
    """Chances of a click by state and position, for each way to click the unseen documents always or never."""
    entries = lists.entries[0]
    hidden = [place for place, entry in enumerate(entries) if unseen[entry]]
    for liked in product([False, True], repeat=len(hidden)):
        attraction = guess[entries].copy()
        attraction[hidden] = [1 / attention[0] if like else 0.0 for like in liked]
        looked = attention.reshape(-1, STATES)[: len(entries)]
        yield np.minimum(1.0, attraction[:, None] * looked)


def preference_of(rankings: Rankings, shown: Ranking, chances: Array, scheme: str) -> float:
    """The sum over all click patterns."""
    total = 0.0
    for clicks in product([False, True], repeat=len(shown)):
        rates = [chances[place, min(sum(clicks[:place]), STATES - 1)] for place in range(len(shown))]
        chance = np.prod([rate if clicked else 1 - rate for rate, clicked in zip(rates, clicks, strict=True)])
        clicked_at = frozenset(np.flatnonzero(clicks).tolist())
        total += float(chance) * float(oracle.preference(rankings, shown, None, clicked_at, scheme)[0][1])
    return total


@pytest.mark.parametrize("scheme", ["binary", "click"])
def test_what_unseen_documents_could_change_is_the_best_and_the_worst_of_all_ways(scheme: str) -> None:
    """People who look at every rank alike, whatever they clicked: nothing is lost by a click above."""
    rankings, attention = rankings_of("abxy yxba"), np.ones(4 * STATES)
    scorer, guess, unseen = scorer_of(PI, scheme, 2), np.array([0.3, 0.6, 0.2, 0.5]), np.array([0, 0, 1, 1], np.bool_)
    for shown in permutations("abxy", 3):
        lists = seen(rankings, [shown], 3)
        slack = np.zeros((1, 2))
        add_slack(scorer, lists, unseen, 1.0, ClickModels(guess[:, None], attention[:, None]), slack)
        base = preference_of(rankings, shown, guess[lists.entries[0]][:, None] * np.ones(STATES), scheme)
        ways = [preference_of(rankings, shown, c, scheme) for c in all_chances(lists, unseen, guess, attention)]
        assert slack[0] == pytest.approx([max(ways) - base, base - min(ways)], abs=1e-12)


def test_a_widened_estimate_is_significant_only_if_its_nearest_value_is() -> None:
    found = Estimate(0.3, 0.1, (0.1, 0.5), 0.01, 20.0, 20)
    same = widen(found, 0, 0)
    assert same.interval == found.interval
    assert same.p_value == pytest.approx(2 * t.sf(3, 19))
    wide = widen(found, 0.2, 0.1)
    assert wide.interval == pytest.approx((0.0, 0.7))
    assert wide.p_value == pytest.approx(2 * t.sf(2, 19))
    assert widen(found, 0, 0.4).p_value == 1
