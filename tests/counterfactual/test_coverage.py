"""Intervals from old impressions hold the enumerated truth about as often as they say."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from interleaf.counterfactual import ReuseResult, estimators as robust_module
from interleaf.counterfactual.list_outcomes import scorer_of
from interleaf.counterfactual.new_rankings import ListsInMemory, RankersView
from interleaf.counterfactual.old_log import LoggedRankings, OldImpressions, OldRows
from interleaf.counterfactual.reuse import reuse_lists
from interleaf.kernels import buckets
from tests.oracles import probabilistic as oracle
from tests.oracles.clicks import Patterns
from tests.oracles.expectation import expectation
from tests.oracles.forms import Distribution, Ranking
from tests.support.reuse_worlds import (
    QUERY,
    attracted,
    clicks_of,
    happenings,
    impatient,
    list_chances,
    new_rankings,
    rankings_of,
)

People = Callable[[Ranking], Patterns]
BEFORE, AFTER, K = rankings_of("abcd bcda"), rankings_of("acbd badc"), 3
SCORER, NEW = scorer_of("probabilistic", "binary", 2), new_rankings(AFTER, K)
HASHES = {letter: np.uint64(buckets.hash_of(buckets.DOCUMENT, letter)) for letter in "abcd"}
RUNS, ROWS = 100, 400
FEWEST = 82  # of 100 intervals at 95 %: fewer by chance in one of a million


def old_of(people: People, seed: int) -> OldImpressions:
    """Old impressions by chance, two of each unit."""
    all_rows, source = happenings("probabilistic", BEFORE, K, people), list_chances("probabilistic", BEFORE, K)
    chance = np.random.default_rng(seed)
    chances = np.array([float(row.chance) for row in all_rows])
    rows = [all_rows[number] for number in chance.choice(len(chances), ROWS, p=chances / chances.sum())]
    made = OldRows(
        identity=np.arange(ROWS, dtype=np.uint64),
        query=np.zeros(ROWS, np.int64),
        documents=np.array([[HASHES[str(document)] for document in row.shown] for row in rows]),
        counts=np.full(ROWS, K),
        clicks=clicks_of(rows, K),
        teams=np.full((ROWS, K), -1, np.int8),
        unit=chance.integers(0, 2**64, ROWS // 2, np.uint64).repeat(2),
        union=np.full(ROWS, 4),
        rankers=np.full(ROWS, 2),
        log_chance=np.log([float(source[row.shown]) for row in rows]),
        log_joint=np.full(ROWS, np.nan),
    )
    return OldImpressions(made, [QUERY], "probabilistic")


def truth_of(people: People) -> float:
    lists: Distribution = {(shown, None): chance for shown, chance in list_chances("probabilistic", AFTER, K).items()}
    live = expectation(lists, lambda shown, _, clicks: oracle.preference(AFTER, shown, None, clicks, "binary"), people)
    return float(live[0][1])


@pytest.mark.parametrize("people", [impatient, attracted])
def test_intervals_hold_the_truth(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robust_module, "MIN_DRAWN", 2 * ROWS)
    truth, held, printed = truth_of(people), Counter[str](), Counter[str]()
    values: dict[str, list[float]] = {}
    for seed in range(RUNS):
        view = RankersView(NEW, SCORER, K)
        found: ReuseResult = reuse_lists(
            ListsInMemory([old_of(people, seed)], view, Counter()), view, LoggedRankings(()), seed=seed
        )
        for one in found.estimates:
            if one.value is not None:
                values.setdefault(one.estimator, []).append(one.value)
            if one.interval is not None:
                printed[one.estimator] += 1
                held[one.estimator] += one.interval[0] <= truth <= one.interval[1]
    for name in ("PI+IS+MA", "PI+DR"):
        assert held[name] >= FEWEST, (name, held)
    for name in ("PI+MA", "PI+IS+MA, self-normalised", "PI+IS+MA, clipped"):
        assert printed[name] == 0
    spread = {name: float(np.std(found)) for name, found in values.items()}
    error = {name: float(np.sqrt(np.mean((np.array(found) - truth) ** 2))) for name, found in values.items()}
    assert abs(np.mean(values["PI+IS+MA"]) - truth) < 5 * spread["PI+IS+MA"] / np.sqrt(RUNS)
    assert error["PI+DR"] < min(error[name] for name in ("PI+MA", "PI+IS+MA"))
