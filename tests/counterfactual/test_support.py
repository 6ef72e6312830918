"""Logs that could not show all lists of the new rankers: intervals hold the enumerated truth, and no sign is wrong."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binom

from interleaf import interleave
from interleaf.counterfactual import estimators as robust_module, reuse
from interleaf.counterfactual.estimators import WeightedSums, bound_estimates
from interleaf.counterfactual.reuse_result import ReuseWarning
from interleaf.stats import compare
from tests.support.log_rows import START, Row, made_event, table_of
from tests.support.reuse_logs import clean, of, warned
from tests.support.reuse_queries import Part, World, answered, coins, readers, truth_of

RUNS = 100
WORLDS = {
    "a document that was never drafted": World(
        "team_draft",
        2,
        (
            Part(0.45, "abcd bacd", "abcd dabc", coins(a=0.1, d=0.9)),
            Part(0.55, "abcd bacd", "abcd bacd", coins(a=0.6, b=0.3)),
        ),
    ),
    "known documents in an order that was never drafted": World(
        "team_draft",
        3,
        (
            Part(0.5, "abcde bacde", "abcde cabde", readers(c=2, a=1)),
            Part(0.5, "abcde bacde", "abcde bacde", readers(a=2)),
        ),
    ),
    "lists of pairwise preference": World(
        "pairwise_preference",
        2,
        (
            Part(0.4, "abcd bacd", "abcd dcab", coins(d=0.9, c=0.7, a=0.2)),
            Part(0.6, "abcd dabc", "abcd adbc", coins(a=0.5, b=0.4, d=0.1)),
        ),
    ),
}


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("rows", [100, 1000])
def test_the_interval_allows_for_lists_that_the_log_could_not_show(name: str, rows: int) -> None:
    world = WORLDS[name]
    truth, held, wrong = truth_of(world), 0, 0
    for seed in range(RUNS):
        found = answered(world, rows, seed)
        (one,) = found.answers
        assert one.interval is not None
        assert found.supported is not None
        held += one.interval[0] <= truth <= one.interval[1]
        wrong += one.winner(0.95) == ("second" if truth > 0 else "first")
    assert held >= binom.ppf(0.001, RUNS, 0.95)
    assert wrong == 0


def test_preferences_that_lists_out_of_reach_cannot_turn_are_told() -> None:
    """A tenth of the lists are out of reach, and the others prefer the first by .8."""
    world = World(
        "team_draft",
        2,
        (
            Part(0.1, "abcd bacd", "abcd dabc", coins(a=0.1, d=0.9)),
            Part(0.9, "abcd bacd", "abcd bacd", coins(a=0.9, b=0.1)),
        ),
    )
    found = answered(world, 3000, 1)
    assert found.supported == pytest.approx(0.9, abs=0.03)
    assert found.answers[0].winner(0.95) == "first"
    assert "People would prefer first to second" in found.answer[0]


def test_with_full_support_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    world = World("team_draft", 2, (Part(1.0, "abcd bacd", "bacd abdc", coins(a=0.5, b=0.4)),))
    truth = truth_of(world)
    spans = [one.interval for seed in range(RUNS) for one in answered(world, 1000, seed).answers]
    held = sum(span is not None and span[0] <= truth <= span[1] for span in spans)
    assert held >= binom.ppf(0.001, RUNS, 0.95)
    assert np.mean([span[1] - span[0] for span in spans if span is not None]) < 0.2


@pytest.mark.parametrize("method", ["pairwise_preference", "probabilistic"])
def test_methods_without_a_bound_and_click_models_give_no_confident_answer(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robust_module, "MIN_DRAWN", 500)
    for name, world in WORLDS.items():
        found = answered(world, 1000, 3, method)
        assert "This log does not show which of" in found.answer[0], name
        assert found.answers[0].winner(0.95) is None
        for one in found.estimates:
            assert one.winner(0.95) is None, (name, one)
        if all(one.interval is None for one in found.answers):
            assert "the interval allows" not in str(found), name
        assert "has an interval" not in str(found)
        clean(found)


def drafted_row(number: int, chance: np.random.Generator) -> Row:
    """The example: rankers abcd and bacd are drafted, two documents a page."""
    first = bool(chance.random() < 0.45)
    shown = interleave({"A": list("abcd"), "B": list("bacd")}, "team_draft", k=2, key=("old", number))
    rates = {"d": 0.9, "a": 0.1} if first else {"a": 0.6, "b": 0.3}
    clicks = [rank for rank, document in enumerate(shown.documents, 1) if chance.random() < rates.get(str(document), 0)]
    time = START
    row = {"experiment": "old", "version": 1, "impression": f"i-{number}", "time": time, "unit": f"u-{number}"}
    row |= {"arm": "interleaved", "query": "1" if first else "2", "attributes": {}}
    return shown.to_dict(rankings=True) | row | {"events": [made_event(rank, time) for rank in clicks]}


def test_a_log_of_drafts_is_read_with_what_it_could_not_show() -> None:
    """The truth is -.195; of the lists that could be shown, the mean is +.3."""
    chance = np.random.default_rng(1)
    table = table_of([drafted_row(number, chance) for number in range(3000)])
    found = reuse(table, {"A": None, "new": {"1": list("dabc"), "2": list("bacd")}}, scheme="binary")
    (one,) = found.answers
    assert one.interval is not None
    assert one.interval[0] < -0.195 < one.interval[1]
    assert found.supported == pytest.approx(0.55, abs=0.05)
    assert found.answer[0].startswith("This log does not show which of A and new people would prefer")
    (told,) = warned(found, ReuseWarning.PARTLY_SUPPORTED)
    assert told.startswith("The log could have shown about 5")
    assert of(found, "TD+IS, self-normalised").interval is None
    assert isinstance(found.plans["A", "new"], str)
    data = clean(found)
    assert data["supported"] == found.supported
    assert "could have shown about" in found.to_markdown()


ROWS = st.lists(st.tuples(st.floats(0, 5), st.floats(-1, 1)), min_size=3, max_size=40)


@given(ROWS)
def test_bounds_lie_inside_the_interval_whatever_the_weights(rows: list[tuple[float, float]]) -> None:
    weights, outcomes = np.array(rows).T
    sums = WeightedSums(1)
    sums.add(np.arange(len(rows)), weights, outcomes[:, None])
    (found,) = bound_estimates(sums.outcomes, sums, 1.0, 0.95)
    if found.interval is None:
        assert found.reason
        return
    low, high = float(np.mean(weights * (1 + outcomes)) - 1), float(1 - np.mean(weights * (1 - outcomes)))
    assert found.interval[0] <= low + 1e-9
    assert found.interval[1] >= high - 1e-9
    assert found.value is not None
    assert found.interval[0] <= found.value <= found.interval[1]
    assert found.p_value is not None
    excludes = found.interval[0] > 0 or found.interval[1] < 0
    assert excludes == (found.p_value < 0.05) or found.p_value == pytest.approx(0.05)


def test_weights_of_one_give_the_plain_interval_whatever_the_bound() -> None:
    sums = WeightedSums(1)
    sums.add(np.arange(6), np.ones(6), np.array([[1.0], [0.5], [-1.0], [1.0], [0.0], [0.5]]))
    plain = compare.estimates(sums.outcomes, sums.impressions[:, None])
    assert bound_estimates(sums.outcomes, sums, None, 0.95) == bound_estimates(sums.outcomes, sums, 1.0, 0.95) == plain


def test_weights_that_average_more_than_one_are_refused() -> None:
    sums = WeightedSums(1)
    sums.add(np.arange(100), np.full(100, 3.0) + 0.01 * np.arange(100), np.linspace(-0.1, 0.1, 100)[:, None])
    (found,) = bound_estimates(sums.outcomes, sums, 1.0, 0.95)
    assert found.interval is None
    assert "average more than 1" in found.reason
