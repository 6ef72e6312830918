"""Level and coverage by simulation: people with tastes of their own and heavy-tailed visits, among whom nobody wins.

A column is a run. Bounds are binomial: a correct test fails here once in a million.
"""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from interleaf.kernels.arrays import Array
from interleaf.stats import bootstrap, compare, looks, multiplicity, sequence, signs
from interleaf.stats.compare import Estimate

RARELY = 1e-6
MOST = 0.065  # a nominal 5 %, and one and a half points
SIZES = (30, 100, 1_000)


@cache
def world(units: int, runs: int, tail: float = 1.5, mean: float = 0.0) -> tuple[Array, Array]:
    """Sums and counts, `[unit, run]`: a unit's taste is a normal number, its visits are Pareto, 3 of 10 are ties."""
    chance = np.random.default_rng([units, runs, int(10 * tail)])
    counts = np.minimum(np.floor(chance.pareto(tail, (units, runs)) + 1), 1_000).astype(np.int64)
    preferred = ndtr(chance.normal(size=(units, runs)) + mean)
    decided = chance.binomial(counts, 0.7)
    return (2 * chance.binomial(decided, preferred) - decided).astype(np.float64), counts.astype(np.float64)


def rejected(estimates: tuple[Estimate, ...]) -> int:
    return sum(found.p_value is not None and found.p_value <= 0.05 for found in estimates)


def at_most(share: float, runs: int) -> int:
    """A count that a test of this level exceeds once in a million."""
    return int(binom.isf(RARELY, runs, share))


@pytest.mark.parametrize("tail", [1.2, 1.5, 2.5])
@pytest.mark.parametrize("units", SIZES)
def test_the_clustered_test_keeps_its_level(units: int, tail: float) -> None:
    runs = 2_000
    assert rejected(compare.estimates(*world(units, runs, tail))) <= at_most(MOST, runs)


@pytest.mark.parametrize("units", SIZES)
def test_the_impression_level_z_does_not(units: int) -> None:
    runs = 2_000
    sums, counts = world(units, runs, 1.2)
    squares = 0.7 * counts.sum(axis=0)  # ties score 0, all else 1 or -1
    scores = zip(sums.sum(axis=0), squares, counts.sum(axis=0), strict=True)
    wrong = sum(abs(signs.z_score(*figures).value or 0) > 1.96 for figures in scores)
    assert wrong > 0.2 * runs


@pytest.mark.parametrize("buckets", [16, 64, 1024])
def test_buckets_instead_of_units_keep_the_level(buckets: int) -> None:
    runs, units = 2_000, 1_000
    sums, counts = world(units, runs)
    home = np.random.default_rng(buckets).integers(0, buckets, units)
    member = (np.arange(buckets)[:, None] == home).astype(float)
    assert rejected(compare.estimates(member @ sums, member @ counts)) <= at_most(MOST, runs)


@pytest.mark.parametrize("units", SIZES)
def test_intervals_cover_the_truth_where_there_is_a_preference(units: int) -> None:
    runs, mean = 2_000, 0.5
    truth = 0.7 * (2 * float(ndtr(mean / np.sqrt(2))) - 1)  # tastes and visits are independent
    found = compare.estimates(*world(units, runs, 2.5, mean))
    missed = sum(not (one.interval and one.interval[0] <= truth <= one.interval[1]) for one in found)
    assert missed <= at_most(MOST, runs)


@pytest.mark.parametrize("units", SIZES)
def test_sign_flips_keep_their_level(units: int) -> None:
    runs = 1_000
    found = signs.sign_flips(world(units, runs, 1.2)[0], flips=999, seed=units)
    assert sum(one.value is not None and one.value <= 0.05 for one in found) <= at_most(MOST, runs)


def test_bootstrap_intervals_cover_with_many_units() -> None:
    runs, units = 400, 300
    sums, counts = world(units, runs, 2.5)
    bounds = [bootstrap.percentiles(sums[:, run], counts[:, run], resamples=400).interval for run in range(runs)]
    assert sum(not (one and one[0] <= 0 <= one[1]) for one in bounds) <= at_most(MOST, runs)


@pytest.mark.parametrize("units", SIZES)
def test_a_watched_page_keeps_its_level_over_twenty_looks(units: int) -> None:
    runs = 2_000
    sums, counts = world(units, runs, 1.2)
    wrong, planned = np.zeros(runs, bool), np.zeros(runs, bool)
    fractions = looks.space_evenly(20)
    boundaries = looks.obrien_fleming(fractions)
    for fraction, boundary in zip(fractions, boundaries, strict=True):
        so_far = round(units * fraction)
        found = compare.estimates(sums[:so_far], counts[:so_far])
        anytime = sequence.anytimes(found, so_far, units)
        wrong |= [one.p_value is not None and one.p_value <= 0.05 for one in anytime]
        planned |= [abs(one.deviate or 0) >= boundary for one in found]
    assert wrong.sum() <= at_most(0.05, runs)
    assert planned.sum() <= at_most(MOST, runs)


def test_the_sequence_without_t_does_not_keep_its_level_with_few_units() -> None:
    runs, units = 2_000, 30
    sums, counts = world(units, runs, 1.2)
    wrong = np.zeros(runs, bool)
    for so_far in range(2, units + 1):
        width = float(sequence.multiplier(so_far, units))
        found = compare.estimates(sums[:so_far], counts[:so_far])
        wrong |= [one.error is not None and abs(one.value or 0) > width * one.error for one in found]
    assert wrong.mean() > 0.12


def test_the_fixed_horizon_does_not_survive_twenty_looks() -> None:
    runs, units = 1_000, 1_000
    sums, counts = world(units, 2_000)
    wrong = np.zeros(runs, bool)
    for so_far in range(50, units + 1, 50):
        found = compare.estimates(sums[:so_far, :runs], counts[:so_far, :runs])
        wrong |= [one.p_value is not None and one.p_value <= 0.05 for one in found]
    assert wrong.mean() > 0.15


@pytest.mark.parametrize("units", [60, 1_000])
def test_differences_of_two_arms_keep_their_level(units: int) -> None:
    """One in six units is in the second arm; buckets hold units of both."""
    runs = 1_000
    sums, counts = world(units, runs, 1.5)
    chance = np.random.default_rng(units)
    home, second = chance.integers(0, 256, units), chance.random(units) < 1 / 6
    wrong = 0
    for run in range(runs):
        here = [[np.bincount(home, part[:, run] * arm, 256) for part in (sums, counts)] for arm in (~second, second)]
        wrong += (compare.difference(here[0][0], here[0][1], here[1][0], here[1][1]).p_value or 1) <= 0.05
    assert wrong <= at_most(MOST, runs)


@pytest.mark.parametrize("units", [30, 300])
def test_many_pairs_keep_the_level_of_the_family(units: int) -> None:
    """Five rankers, of which people prefer different ones, and nobody on average."""
    runs, chance = 400, np.random.default_rng(units)
    wrong = np.zeros(3)
    for run in range(runs):
        counts = np.minimum(np.floor(chance.pareto(1.5, units) + 1), 1_000).astype(np.int64)
        tastes = np.exp(chance.normal(size=(units, 5)))
        clicks = chance.multinomial(counts, tastes / tastes.sum(axis=1, keepdims=True))
        sums = np.stack([clicks[:, i] - clicks[:, j] for i, j in combinations(range(5), 2)], axis=1)
        found = compare.estimates(sums, counts)
        plain = [one.p_value for one in found]
        max_t = multiplicity.max_t(found, bootstrap.resample(sums, counts, 400, seed=run))
        wrong += [min(p or 1 for p in family) <= 0.05 for family in (plain, multiplicity.holm(plain), max_t)]
    assert wrong[0] > 0.15 * runs
    assert wrong[1] <= at_most(0.05, runs)
    assert wrong[2] <= at_most(MOST, runs)


@pytest.mark.parametrize(("expected", "tail"), [(0.5, 1.2), (0.5, 2.5), (0.2, 3.0), (0.025, 3.0)])
def test_shares_keep_their_level_where_people_repeat_their_coins(expected: float, tail: float) -> None:
    """Each unit repeats one list; counted one by one, healthy experiments fail."""
    runs, units = 3_000, 600
    chance = np.random.default_rng(int(1_000 * expected))
    totals = np.minimum(np.floor(chance.pareto(tail, (units, runs)) + 1), 1_000)
    hits = totals * (chance.random((units, runs)) < expected)
    found = compare.share_tests(hits, totals, expected)
    made = sum(one.p_value is not None for one in found)
    assert made > 0.8 * runs
    for level in (0.001, 0.01, 0.05):
        assert sum(one.p_value is not None and one.p_value <= level for one in found) <= at_most(1.3 * level, made)
    plain = np.abs(hits.sum(0) - expected * totals.sum(0)) / np.sqrt(expected * (1 - expected) * totals.sum(0))
    assert (plain > 3.29).mean() > (0.2 if tail < 2 else 0.01)  # nominal one in a thousand
