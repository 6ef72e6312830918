"""How many units: the formula and its inverses, the variance of a unit from buckets, and what a plan promises."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from interleaf import DataError
from interleaf.stats.compare import ALIKE, EMPTY, ONE_BUCKET, estimates
from interleaf.stats.power import Pilot, detectable_effect, pilot, power_at, units_needed

KNOWN = Pilot(variance=3.0, impressions_per_unit=2.5)


@given(st.floats(0.001, 0.5), st.sampled_from([0.5, 0.8, 0.9, 0.99]), st.sampled_from([0.8, 0.95, 0.999]))
def test_units_follow_the_formula_and_its_inverses_lead_back(effect: float, power: float, confidence: float) -> None:
    plan = units_needed(effect, KNOWN, power, confidence)
    z = NormalDist().inv_cdf
    exact = (z(1 - (1 - confidence) / 2) + z(power)) ** 2 * 3.0 / (2.5**2 * effect**2)
    assert exact - 1e-6 <= plan.units <= exact + 1 + 1e-6
    assert plan.impressions == math.ceil(plan.units * 2.5)
    assert units_needed(-effect, KNOWN, power, confidence).units == plan.units
    assert power_at(plan.units, effect, KNOWN, confidence).power >= power - 1e-9
    if plan.units > 1:
        assert power_at(plan.units - 1, effect, KNOWN, confidence).power < power + 1e-9
    assert detectable_effect(plan.units, KNOWN, power, confidence).effect <= effect * (1 + 1e-9)
    found = detectable_effect(1_000, KNOWN, power, confidence)
    assert power_at(1_000, found.effect, KNOWN, confidence).power == pytest.approx(power)


def test_units_as_buckets_give_the_plain_variance_of_residuals() -> None:
    chance = np.random.default_rng(1)
    counts = chance.integers(1, 6, 300)
    sums = chance.binomial(counts, 0.6) * 2.0 - counts
    residuals = sums - sums.sum() / counts.sum() * counts
    found = pilot(sums, counts, units=300)
    assert found.variance == pytest.approx(residuals.var(ddof=1))
    assert found.impressions_per_unit == pytest.approx(counts.mean())


def test_buckets_tell_the_variance_of_a_unit_however_many_units_they_hold() -> None:
    """On average over many ways to fall into buckets; units without an event count where they are counted."""
    chance, units = np.random.default_rng(2), 5_000
    counts = chance.integers(0, 6, units)
    sums = chance.binomial(counts, chance.beta(2, 1, units)) * 2.0 - counts
    exact = pilot(sums, counts, units)
    for buckets in (64, 1_024):
        variances = []
        for _ in range(60):
            home = chance.integers(0, buckets, units)
            found = pilot(np.bincount(home, sums, buckets), np.bincount(home, counts, buckets), units)
            assert found.impressions_per_unit == exact.impressions_per_unit
            variances.append(found.variance)
        spread = np.std(np.array(variances, float)) / math.sqrt(60)
        assert exact.variance == pytest.approx(float(np.mean(np.array(variances, float))), abs=5 * spread)


def test_a_plan_keeps_its_promise() -> None:
    chance, runs, effect = np.random.default_rng(3), 1_000, 0.15

    def people(units: int, preferred: float) -> tuple[np.ndarray, np.ndarray]:
        counts = chance.geometric(0.4, (units, runs))
        won = chance.binomial(counts, np.clip(chance.normal(preferred, 0.15, (units, runs)), 0, 1))
        return 2.0 * won - counts, counts

    sums, counts = people(400, 0.5)
    plan = units_needed(effect, pilot(sums[:, 0], counts[:, 0], 400))
    shown = sum((one.p_value or 1) <= 0.05 for one in estimates(*people(plan.units, 0.5 + effect / 2)))
    assert binom.ppf(1e-6, runs, 0.7) <= shown <= binom.isf(1e-6, runs, 0.9)  # the pilot's variance is an estimate, too


def test_a_plan_says_what_it_is() -> None:
    assert str(units_needed(0.02, KNOWN)) == (
        "9,419 units (about 23,548 impressions with an event) show a preference of 0.02 in 80% of experiments, "
        "at a confidence of 0.95."
    )


def test_a_pilot_that_says_nothing_gives_its_reason_and_no_plan() -> None:
    assert pilot(np.zeros(3), np.zeros(3), 3) == Pilot(None, None, EMPTY)
    assert pilot(np.array([1.0, 0]), np.array([2, 0]), 3).reason == ONE_BUCKET
    alike = pilot(np.array([1.0, 2]), np.array([1, 2]), 2)
    assert alike == Pilot(None, 1.5, ALIKE)
    with pytest.raises(DataError, match="same mean"):
        units_needed(0.1, alike)
    with pytest.raises(DataError, match="cannot fill"):
        pilot(np.array([1.0, 0]), np.array([2, 2]), 1)
    for effect in (0.0, math.inf):
        with pytest.raises(DataError, match="needs no plan"):
            units_needed(effect, KNOWN)
    with pytest.raises(DataError, match=r"power of 1\.0"):
        units_needed(0.1, KNOWN, power=1.0)
    with pytest.raises(DataError, match="0 units"):
        power_at(0, 0.1, KNOWN)
