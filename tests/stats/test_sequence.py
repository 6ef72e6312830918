"""The interval that may be watched: its boundary against closed forms and numerical integration, level and cost."""

import math
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binom

from benchmarks import watching
from interleaf import DataError
from interleaf.kernels.arrays import Array
from interleaf.stats import sequence
from interleaf.stats.compare import Estimate, estimate, estimates, statistic
from interleaf.stats.sequence import EARLY, anytime, anytime_p_value, anytimes, multiplier

UNITS = st.integers(1, 10**7)
PLANS = st.none() | UNITS
CONFIDENCES = st.floats(0.5, 0.9999)
RARELY = 1e-6


def at_z(z: float, effective: float = 1e9) -> Estimate:
    """An estimate z standard errors from zero."""
    return Estimate(z, 1.0, (z - 2, z + 2), 0.5, effective, 100)


@pytest.mark.parametrize("level", [0.8, 1.0, 1.5, 2.2414, 3.0, 4.0])
def test_the_supremum_of_the_motion_agrees_with_the_other_series(level: float) -> None:
    """P(sup |B| < c) = 4 / pi sum (-1)^k / (2k+1) exp(-(2k+1)^2 pi^2 / (8 c^2)) (Erdos and Kac 1946)."""
    odd = 2 * np.arange(200) + 1
    signs = np.where(odd % 4 == 1, 1, -1)
    below = 4 / math.pi * float((signs / odd * np.exp(-((odd * math.pi / level) ** 2) / 8)).sum())
    assert float(sequence.supremum_p_value(level)) == pytest.approx(1 - below, abs=1e-11)


def test_the_supremum_has_the_values_in_print() -> None:
    assert float(sequence.supremum_p_value(2.2414)) == pytest.approx(0.05, abs=1e-5)
    assert float(sequence.supremum_p_value(2.8070)) == pytest.approx(0.01, abs=1e-5)


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.99])
def test_at_the_planned_size_the_boundary_is_that_of_the_supremum(confidence: float) -> None:
    reached = float(sequence.supremum_p_value(multiplier(1_000, 1_000, confidence)))
    assert reached == pytest.approx(sequence.PLAN_SHARE * (1 - confidence))
    early = multiplier(np.array([500.0, 1_000.0]), 1_000, confidence)
    assert early[0] == pytest.approx(math.sqrt(2) * early[1])


@pytest.mark.parametrize("planned", [None, 1_000])
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.999])
def test_a_motion_ever_reaches_the_boundary_with_at_most_alpha(confidence: float, planned: float | None) -> None:
    share = watching.reached_probability(confidence, planned) / (1 - confidence)
    assert 0.7 < share < 1


def test_the_numerical_integration_has_the_values_in_print(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence, "multiplier", lambda units, planned, _: 2.2414 / np.sqrt(units / planned))
    assert watching.reached_probability(0.95, 1.0, last=1.0) == pytest.approx(0.05, abs=2e-4)


def test_without_a_plan_alpha_is_spread_over_all_sizes_below_a_concave_boundary() -> None:
    """What the proof needs: the rates add up to alpha, and z'' <= z / 4 in log n."""
    logs = np.linspace(-100, 100, 200_001)
    rates = sequence._rate(sequence._edge(0.05 * sequence._density(np.exp(logs))))
    assert float(rates.sum() * 1e-3) == pytest.approx(0.05, rel=2e-3)
    for confidence in (0.5, 0.95, 0.999):
        edges = multiplier(np.exp(logs), None, confidence)
        assert (np.diff(edges, 2) / 1e-6 <= edges[1:-1] / 4 + 1e-5).all()


@given(UNITS, PLANS, CONFIDENCES)
def test_the_p_value_inverts_the_boundary(units: int, planned: int | None, confidence: float) -> None:
    edge = multiplier(units, planned, confidence)
    assert float(anytime_p_value(edge, units, planned)) == pytest.approx(1 - confidence, rel=1e-6)
    assert float(anytime_p_value(-edge, units, planned)) == pytest.approx(1 - confidence, rel=1e-6)


@given(UNITS, PLANS, st.floats(0, 12), st.floats(3, 1e6), CONFIDENCES)
def test_the_p_value_is_below_alpha_where_the_interval_leaves_out_zero(
    units: int, planned: int | None, z: float, effective: float, confidence: float
) -> None:
    result = anytime(at_z(z, effective), units, planned, confidence)
    alpha = 1 - confidence
    if result.interval is not None and result.p_value is not None and abs(result.p_value - alpha) > 1e-9:
        assert (result.interval[0] > 0) == (result.p_value < alpha)


@given(UNITS, PLANS, st.lists(st.floats(0, 30), min_size=2, max_size=8))
def test_the_p_value_falls_as_the_deviate_grows(units: int, planned: int | None, sizes: list[float]) -> None:
    p_values = anytime_p_value(np.array([0.0, *sorted(sizes)]), units, planned)
    assert p_values[0] == 1
    assert (np.diff(p_values) <= 0).all()
    assert ((p_values >= 0) & (p_values <= 1)).all()


@given(UNITS, PLANS)
def test_more_confidence_is_a_wider_interval(units: int, planned: int | None) -> None:
    widths = [float(multiplier(units, planned, confidence)) for confidence in (0.5, 0.8, 0.9, 0.95, 0.99, 0.999999)]
    assert (np.diff(widths) > 0).all()


def test_the_boundary_hardly_jumps_at_the_planned_size() -> None:
    before, after = multiplier(np.array([1_000, 1_001]), 1_000)
    assert 0 < after - before < 0.25


def test_few_units_widen_the_interval_by_t() -> None:
    width = float(multiplier(500, 1_000))
    for effective in (15.0, 30.0, 1e9):
        low, high = anytime(at_z(1.0, effective), 500, 1_000).interval or (0, 0)
        degrees = (effective - 1) ** 2 / (effective - 1 + sequence.MISSING_DEGREES)
        assert (high - low) / 2 == pytest.approx(float(statistic(width, degrees)))
    low, high = anytime(at_z(1.0, 1e9), 500, 1_000).interval or (0, 0)
    assert (high - low) / 2 == pytest.approx(width, rel=1e-6)


@pytest.mark.parametrize("planned", [60, None])
def test_all_times_at_once_are_each_time_alone(planned: int | None) -> None:
    chance = np.random.default_rng(1)
    counts = np.cumsum(chance.integers(0, 3, (50, 6)), axis=1)
    several = estimates(np.cumsum(chance.integers(0, 2, (50, 6)), axis=1) * (counts > 0), counts)
    units = np.arange(10, 70, 10)
    assert anytimes(several, units, planned) == tuple(
        anytime(one, float(unit), planned) for one, unit in zip(several, units, strict=True)
    )


def test_without_an_estimate_or_too_early_there_is_no_interval() -> None:
    nothing = estimate(np.zeros(3), np.zeros(3))
    assert anytime(nothing, 0, 100).reason == nothing.reason
    early = anytime(at_z(3.0, 2.1), 1, 1e9)
    assert (early.interval, early.reason) == (None, EARLY)
    with pytest.raises(DataError, match="planned units 0"):
        multiplier(10, 0)
    with pytest.raises(DataError, match="planned units None"):
        multiplier(0, None)


PLANNED = (30, 100, 400)
WITHOUT_PLAN = 2_000  # users


@cache
def first_shown(name: str, runs: int) -> dict[int | None, Array]:
    """By plan, the users after whom each run first shows a winner; all plans watch the same users."""
    rules: dict[str, watching.Rule] = {
        str(planned): partial(watching.interleaf_rule, planned) for planned in (*PLANNED, None)
    }
    shown = watching.first_shown(rules, watching.WORLDS[name], WITHOUT_PLAN, runs, seed=2)
    return {planned: shown[str(planned)] for planned in (*PLANNED, None)}


@pytest.mark.parametrize("planned", PLANNED)
@pytest.mark.parametrize("name", watching.WORLDS)
def test_watching_after_every_user_keeps_the_level(name: str, planned: int) -> None:
    runs = 400
    assert (first_shown(name, runs)[planned] <= 3 * planned).sum() <= binom.isf(RARELY, runs, 0.05)


@pytest.mark.parametrize("name", watching.WORLDS)
def test_watching_without_a_plan_keeps_the_level(name: str) -> None:
    runs = 400
    assert np.isfinite(first_shown(name, runs)[None]).sum() <= binom.isf(RARELY, runs, 0.05)


@pytest.mark.parametrize(
    ("size", "planned", "most"), [(400, 1.3, 1.3), (2_000, 1.2, 1.3), (100, None, 2.2), (2_000, None, 2.2)]
)
def test_watching_needs_few_more_users_than_one_look(size: int, planned: float | None, most: float) -> None:
    """A preference that one look shows with 80 % is shown with as much by `most` times the users."""
    runs = 1_000
    rules: dict[str, watching.Rule] = {
        "": partial(watching.interleaf_rule, None if planned is None else planned * size)
    }
    shown = watching.first_shown(rules, watching.preferring(size), round(most * size), runs, seed=3)[""]
    assert np.isfinite(shown).sum() >= binom.ppf(1e-3, runs, 0.8)


@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_the_cost_of_watching_is_that_of_a_motion_with_drift(power: float) -> None:
    cost = sequence.cost_of_watching(power)
    assert 1.05 < cost < 1.35
    drift = math.sqrt(cost) * (1.959964 + float(-sequence.NORMAL.inv_cdf(1 - power)))
    steps, runs = 20_000, 1_000
    chance, edge = np.random.default_rng(5), float(multiplier(1.0, 1.0))
    reached = sum(
        float((np.cumsum(chance.standard_normal(steps)) / math.sqrt(steps) + drift * np.arange(steps) / steps).max())
        >= edge
        for _ in range(runs)
    )
    assert reached / runs == pytest.approx(power, abs=5 * math.sqrt(0.25 / runs))
