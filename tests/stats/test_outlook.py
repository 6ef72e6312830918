"""The outlook of undecided experiments, compared with simulated continuations, person by person."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf.kernels.arrays import Array
from interleaf.stats.power import MAX_FACTOR, chance_at_end, units_until_decision
from interleaf.stats.sequence import multiplier

shares = st.floats(0.01, 0.99)
values = st.floats(-1, 1)
errors = st.floats(1e-3, 1)
widths = st.floats(1.5, 5)


@pytest.mark.parametrize("value", [0.0, 0.02, -0.05])
@pytest.mark.parametrize("margin", [1e-9, 0.05, 0.12])
def test_the_chance_at_the_end_is_that_of_people_who_still_come(value: float, margin: float) -> None:
    people, planned, spread, width, runs = 400, 1_000, 0.7, 2.2, 20_000
    chance = np.random.default_rng(7)
    rest = chance.normal(value, spread / math.sqrt(planned - people), runs)  # the mean of those who still come
    last = (people * value + (planned - people) * rest) / planned
    half = width * spread / math.sqrt(planned)
    decided = (np.abs(last) > half) | (np.abs(last) + half < margin)
    found = chance_at_end(value, spread / math.sqrt(people), people / planned, width, margin)
    assert found == pytest.approx(decided.mean(), abs=4.5 * math.sqrt(0.25 / runs))


@given(values, errors, shares, widths, st.floats(1e-6, 2))
def test_a_chance_is_a_probability_alike_for_both_signs_and_grows_with_the_margin(
    value: float, error: float, share: float, width: float, margin: float
) -> None:
    found = chance_at_end(value, error, share, width, margin)
    assert -1e-12 <= found <= 1 + 1e-12
    assert found == pytest.approx(chance_at_end(-value, error, share, width, margin))
    assert found <= chance_at_end(value, error, share, width, 2 * margin) + 1e-12


def test_an_even_wider_margin_is_sure_to_decide() -> None:
    assert chance_at_end(0.0, 0.1, 0.5, 2.0, margin=0.3) == 1.0


def without_plan(units: Array) -> Array:
    return multiplier(units, None)


def test_the_time_to_a_decision_is_that_of_people_who_come_one_by_one() -> None:
    units, value, spread, margin = 200, 0.05, 0.7, 0.02
    error = spread / math.sqrt(units)
    chance = np.random.default_rng(3)
    runs, last = 2_000, units * MAX_FACTOR
    when = np.full(runs, np.inf)
    sizes = np.arange(units + 1, last + 1)
    half = spread / np.sqrt(sizes) * without_plan(sizes)
    for run in range(runs):
        people = chance.normal(chance.normal(value, error), spread, last - units)
        means = np.abs(value * units + np.cumsum(people)) / sizes
        decided = (means > half) | (means + half < margin)
        when[run] = sizes[np.argmax(decided)] if decided.any() else np.inf
    for found, quantile in zip(
        units_until_decision(value, error, units, without_plan, margin), (0.1, 0.5, 0.9), strict=True
    ):
        # Looks are less frequent than people, so a decision comes a little later; the quantile has a sampling error.
        low, high = np.quantile(when, [quantile - 0.05, min(quantile + 0.05, 1)], method="nearest")
        assert low <= found <= high * 1.05


def test_a_clear_preference_is_decided_soon_and_the_same_seed_gives_the_same_times() -> None:
    clear = units_until_decision(0.5, 0.16, 100, without_plan, 0.01)
    assert clear == units_until_decision(0.5, 0.16, 100, without_plan, 0.01)
    assert clear[0] < clear[1] < 200
    open_end = units_until_decision(0.0, 0.05, 100, without_plan, 1e-6)
    assert math.isfinite(open_end[0])
    assert open_end[2] == math.inf
