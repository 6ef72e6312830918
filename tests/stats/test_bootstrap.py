"""Resampled buckets and impressions: against plain loops over the same draws, and against what theory says of them."""

import math

import numpy as np
import pytest

from interleaf import DataError
from interleaf.stats.bootstrap import (
    POISSON,
    intervals,
    percentiles,
    poisson_weights,
    resample,
)
from interleaf.stats.compare import EMPTY, ONE_BUCKET, estimate

CHANCE = np.random.default_rng(7)
COUNTS = CHANCE.integers(0, 9, 200)
SUMS = np.stack([CHANCE.binomial(COUNTS, 0.6) - CHANCE.binomial(COUNTS, 0.4) for _ in range(3)], axis=1)


def test_the_table_is_that_of_poisson_numbers() -> None:
    times, found = np.unique(POISSON, return_counts=True)
    expected = np.array([math.exp(-1) / math.factorial(int(time)) for time in times])
    assert np.abs(found / len(POISSON) - expected).max() <= 1 / len(POISSON)
    assert POISSON.mean() == pytest.approx(1, abs=1e-4)
    assert POISSON.var() == pytest.approx(1, abs=1e-4)


def test_no_resample_is_empty() -> None:
    weights = poisson_weights(1, 5_000, np.random.default_rng(1))
    assert weights.min() == 1
    assert (weights == 1).mean() == pytest.approx(math.exp(-1) / (1 - math.exp(-1)), abs=0.035)
    assert poisson_weights(2, 5_000, np.random.default_rng(1)).sum(axis=1).min() >= 1


def test_resampled_means_are_weighted_sums_over_weighted_counts() -> None:
    means = resample(SUMS, COUNTS, resamples=1_500, seed=5)
    there, generator = COUNTS > 0, np.random.default_rng(5)
    weights = np.vstack([poisson_weights(int(there.sum()), rows, generator) for rows in (1_024, 476)])
    for row in (0, 700, 1_499):
        for pair in range(3):
            above = sum(w * s for w, s in zip(weights[row], SUMS[there, pair], strict=True))
            below = sum(w * c for w, c in zip(weights[row], COUNTS[there], strict=True))
            assert means[row, pair] == pytest.approx(above / below)


def test_all_pairs_are_resampled_alike_and_again_the_same() -> None:
    together = resample(SUMS, COUNTS, resamples=50, seed=2)
    assert (resample(SUMS, COUNTS, resamples=50, seed=2) == together).all()
    for pair in range(3):
        assert resample(SUMS[:, pair], COUNTS, resamples=50, seed=2)[:, 0] == pytest.approx(together[:, pair])
    assert (resample(SUMS, COUNTS, resamples=50, seed=3) != together).any()


def test_the_bootstrap_agrees_with_the_jackknife_where_buckets_are_many() -> None:
    found = estimate(SUMS[:, 0], COUNTS)
    means = resample(SUMS[:, 0], COUNTS)[:, 0]
    assert found.error is not None
    assert means.std() == pytest.approx(found.error, rel=0.05)
    assert percentiles(SUMS[:, 0], COUNTS).interval == pytest.approx(found.interval, abs=0.15 * found.error)


@pytest.mark.parametrize(
    ("confidence", "resamples", "low", "high"),
    [(0.95, 10_000, 250, 9_751), (0.95, 1_000, 25, 976), (0.95, 30, 1, 30), (0.9, 50, 2, 48), (0.99, 10, 1, 10)],
)
def test_the_percentile_rule_is_that_of_the_paper(confidence: float, resamples: int, low: int, high: int) -> None:
    """floor(alpha K / 2)-th smallest, index at least 1; ceil(alpha K / 2)-th largest."""
    values = np.random.default_rng(1).permutation(np.arange(1, resamples + 1)).astype(float)
    assert intervals(values[:, None], confidence) == ((low, high),)


def test_nothing_to_resample_gives_a_reason() -> None:
    nothing = np.zeros(4)
    assert percentiles(nothing, nothing) == percentiles(np.array([]), np.array([]))
    assert percentiles(nothing, nothing).reason == EMPTY
    assert percentiles(np.array([1, 0]), np.array([3, 0])).reason == ONE_BUCKET
    assert resample(nothing, nothing).shape == (0, 1)


def test_what_cannot_be_resampled_is_refused() -> None:
    with pytest.raises(DataError, match="shared by all pairs"):
        resample(SUMS, np.ones(SUMS.shape))
    with pytest.raises(DataError, match="0 resamples"):
        resample(SUMS, COUNTS, resamples=0)
