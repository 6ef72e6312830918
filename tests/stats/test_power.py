"""How many units: power by the t-test and its inverses, what a pilot says of units, and whether plans keep claims."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import nct, t

from benchmarks.plans import TOLERANCE, World, kept
from interleaf import DataError
from interleaf.analysis.plan import pilot_of_units, plan
from interleaf.stats.compare import ALIKE, EMPTY, ONE_BUCKET, estimates
from interleaf.stats.power import MIN_EFFECTIVE, Pilot, detectable_effect, pilot, power_at, units_needed, units_watched
from interleaf.stats.sequence import anytimes

KNOWN = Pilot(variance=0.48, impressions_per_unit=2.5, effective=0.4, with_event=0.6)


@given(st.floats(0.001, 0.8), st.sampled_from([0.5, 0.8, 0.9, 0.99]), st.sampled_from([0.8, 0.95, 0.999]))
def test_power_is_that_of_a_t_test_and_its_inverses_lead_back(effect: float, power: float, confidence: float) -> None:
    made = units_needed(effect, KNOWN, power, confidence)
    degrees = 0.4 * made.units - 1
    shift = effect * math.sqrt(made.units / 0.48 * degrees / (degrees + 1))
    exact = nct.sf(t.isf((1 - confidence) / 2, degrees), degrees, shift)
    assert made.power == pytest.approx(exact, abs=2e-3)  # critical values are Wallace's
    assert made.power >= power
    assert made.at_minimum == (made.units == MIN_EFFECTIVE / 0.4)
    if not made.at_minimum:
        assert power_at(made.units - 1, effect, KNOWN, confidence).power < power
    assert made.impressions == math.ceil(made.units * 2.5)
    assert made.units_with_event == math.ceil(round(made.units * 0.6, 9))
    assert (made.min_units, made.max_units) == (made.units, made.units)
    assert units_needed(-effect, KNOWN, power, confidence).units == made.units
    assert power_at(made.units, effect, KNOWN, confidence).power == made.power
    found = detectable_effect(1_000, KNOWN, power, confidence)
    assert power_at(1_000, found.effect, KNOWN, confidence).power == pytest.approx(power)


def test_no_plan_is_too_small_for_a_t_test() -> None:
    """The normal formula says 2 units for an effect of 0.72 with a deviation of 0.3, and 8 with the default one."""
    assert units_needed(0.72, Pilot(variance=0.09, impressions_per_unit=1.0)).units == MIN_EFFECTIVE
    assert plan(0.72).fixed.units == MIN_EFFECTIVE
    assert "Fewer people would be enough" in str(plan(0.72))
    assert "Fewer people would be enough" not in str(plan(0.1))


def test_an_uncertain_pilot_asks_for_more_units_and_gives_a_range() -> None:
    sizes = []
    for degrees in (math.inf, 1_000, 50, 10):
        made = units_needed(0.05, Pilot(0.5, 1.0, degrees=degrees))
        assert made.min_units <= made.units <= made.max_units
        sizes.append((made.units, made.max_units - made.min_units))
    assert sizes == sorted(sizes)
    with pytest.raises(DataError, match=r"5\.0 effective units, too few"):
        units_needed(0.05, pilot_of_units(np.ones(5, np.int64), np.array([1, 0, -1, 0, 1]), True, limit=10))


def test_units_as_buckets_give_the_variance_of_the_mean() -> None:
    chance = np.random.default_rng(1)
    sums = chance.integers(-1, 2, 300)
    found = pilot(sums, np.ones(300), units=300)
    assert found.variance == pytest.approx(sums.var(ddof=1))
    assert [found.effective, found.with_event] == pytest.approx([1, 1])
    absent = pilot(np.append(sums, np.zeros(200)), np.append(np.ones(300), np.zeros(200)), units=500)
    assert absent.variance == pytest.approx(sums.var(ddof=1) / 0.6)
    assert [absent.effective, absent.with_event] == pytest.approx([0.6, 0.6])


def test_the_degrees_of_freedom_are_those_of_the_variance() -> None:
    """Over many pilots, the logarithm of the variance spreads as that of a chi-square with so many degrees."""
    chance = np.random.default_rng(2)
    pilots = []
    for _ in range(2_000):
        counts = np.minimum(chance.geometric(0.4, 200), 10)
        pilots.append(pilot_of_units(counts, chance.binomial(counts, 0.6) * 2 - counts, False, limit=10))
    spread = np.var(np.log([one.variance or 0.0 for one in pilots]))
    assert 2 / spread == pytest.approx(float(np.median([one.degrees for one in pilots])), rel=0.25)


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


@pytest.mark.parametrize(
    "world",
    [
        World(0.3, 1.5, 0.3, 30),
        World(0.2, 1.05, 0.3, 100),
        World(0.3, 0.0, 0.0, 100, pilot_effect=0.0),
        World(0.5, 0.0, 0.0, 100),
        World(0.2, 1.05, 0.0, None),
        World(0.3, 0.0, 0.3, None, visits=4),
    ],
    ids=str,
)
def test_a_plan_keeps_its_claim(world: World) -> None:
    found = kept(world, runs=1_600, seed=3)
    error = max(found.error, 0.01)
    assert found.refused <= 0.1 * len(found.plans)
    assert found.shown.mean() == pytest.approx(found.claim, abs=TOLERANCE + 3 * error)


def test_a_watched_page_needs_more_units_most_of_all_if_they_are_few() -> None:
    costs = []
    for effect in (0.02, 0.1, 0.4):
        known = Pilot(0.5, 1.0)
        costs.append(units_watched(effect, known).units / units_needed(effect, known).units)
    assert costs[:2] == pytest.approx([1.225, 1.225], abs=0.01)
    assert 1.3 < costs[2] < 2


def test_a_watched_page_keeps_its_claim() -> None:
    """60 looks, evenly spaced, at people who each have an event."""
    world = World(0.2, 0.0, 0.0, None, share=1.0)
    made = plan(0.2, variance=0.9 - 0.2**2)
    visits, sums = world.people(np.random.default_rng(4), (made.watched_units, 1_000), 0.2)
    shown = np.zeros(1_000, np.bool_)
    for look in range(1, 61):
        present = made.watched_units * look // 60
        found = estimates(sums[:present], visits[:present])
        intervals = [one.interval for one in anytimes(found, present, made.watched_units_with_event)]
        shown |= np.array([interval is not None and interval[0] > 0 for interval in intervals])
    assert float(shown.mean()) == pytest.approx(made.watched_power, abs=TOLERANCE + 3 * 0.0126)


def test_a_plan_says_what_it_is() -> None:
    assert str(units_needed(0.02, KNOWN)) == (
        "You need 9,426 people (about 5,656 with an event, and about 23,565 impressions with an event) to detect a "
        "preference of 0.02 with 80 % power at 95 % confidence."
    )


def test_given_numbers_assume_that_a_few_people_come_far_more_often() -> None:
    """Visits by a Pareto law with the given mean, of which only some weigh, against people who all come 3 times."""
    few, even = (plan(0.05, impressions_per_unit=3, even_activity=flag).fixed for flag in (False, True))
    assert even.variance == pytest.approx(0.5 / 3)
    assert few.units > 1.2 * even.units
    once = [plan(0.05, even_activity=flag).fixed for flag in (False, True)]
    assert once[0] == once[1]
    half = plan(0.05, impressions_per_unit=3, share_with_event=0.5).fixed
    assert half.units == pytest.approx(2 * few.units, abs=2)
    assert half.units_with_event == pytest.approx(few.units, abs=1)


def test_a_pilot_that_says_nothing_gives_its_reason_and_no_plan() -> None:
    assert pilot(np.zeros(3), np.zeros(3), 3) == Pilot(None, None, EMPTY)
    assert pilot(np.array([1.0, 0]), np.array([2, 0]), 3).reason == ONE_BUCKET
    alike = pilot(np.array([1.0, 2]), np.array([1, 2]), 2)
    assert alike == Pilot(None, 1.5, ALIKE)
    with pytest.raises(DataError, match="same preference"):
        units_needed(0.1, alike)
    with pytest.raises(DataError, match="cannot fill"):
        pilot(np.array([1.0, 0]), np.array([2, 2]), 1)
    for effect in (0.0, math.inf):
        with pytest.raises(DataError, match="needs no plan"):
            units_needed(effect, KNOWN)
    with pytest.raises(DataError, match=r"power is 1\.0"):
        units_needed(0.1, KNOWN, power=1.0)
    with pytest.raises(DataError, match="0 units"):
        power_at(0, 0.1, KNOWN)
