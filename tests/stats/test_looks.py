"""Planned looks: boundaries as the literature prints them."""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from interleaf import DataError
from interleaf.stats.looks import crossing, obrien_fleming, space_evenly, spending, spent_by

Rule = Callable[[Sequence[float], float], tuple[float, ...]]


@pytest.mark.parametrize(
    ("looks", "constant"), [(1, 1.960), (2, 1.977), (3, 2.004), (4, 2.024), (5, 2.040), (10, 2.087), (20, 2.126)]
)
def test_the_constants_of_obrien_and_fleming_are_those_in_print(looks: int, constant: float) -> None:
    """As the tables for evenly spaced looks have them, alpha 0.05."""
    assert obrien_fleming(space_evenly(looks))[-1] == pytest.approx(constant, abs=6e-4)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("fractions", [(0.25, 0.5, 0.75, 1.0), (0.1, 0.4, 0.55, 1.0)])
@pytest.mark.parametrize("rule", [obrien_fleming, spending])
def test_boundaries_are_reached_with_probability_alpha(rule: Rule, fractions: list[float], confidence: float) -> None:
    """The probability of staying within, as one integral over a box."""
    times, box = np.array(fractions), np.array(rule(fractions, confidence))
    correlation = np.sqrt(np.minimum.outer(times, times) / np.maximum.outer(times, times))
    within = multivariate_normal(cov=correlation, seed=1).cdf(box, lower_limit=-box)
    assert 1 - within == pytest.approx(1 - confidence, abs=1e-4)


@pytest.mark.parametrize(("looks", "constant"), [(2, 2.178), (5, 2.413), (10, 2.555), (20, 2.672)])
def test_the_constants_of_pocock_are_reached_in_one_of_twenty(looks: int, constant: float) -> None:
    assert crossing([constant] * looks, space_evenly(looks))[-1] == pytest.approx(0.05, abs=1e-4)


def test_boundaries_of_spending_are_those_in_print() -> None:
    """Each side spends 2 - 2 Phi(z_{.0125} / sqrt t): five looks as in the tables of Lan-DeMets boundaries."""
    edge = NormalDist().inv_cdf(1 - 0.0125)
    spent = [2 * math.erfc(edge / math.sqrt(2 * fraction)) for fraction in space_evenly(5)]
    assert spent_by(spent, space_evenly(5)) == pytest.approx((4.877, 3.357, 2.680, 2.290, 2.031), abs=1e-3)


def test_spending_comes_near_obrien_and_fleming_and_spends_all_of_alpha() -> None:
    fractions = (0.1, 0.35, 0.4, 0.8, 1.0)
    assert crossing(spending(fractions), fractions)[-1] == pytest.approx(0.05, abs=1e-8)
    assert crossing(obrien_fleming(fractions), fractions)[-1] == pytest.approx(0.05, abs=1e-8)
    assert spending(space_evenly(5)) == pytest.approx(obrien_fleming(space_evenly(5)), rel=0.04)
    assert spending(fractions[:3]) == pytest.approx(spending(fractions)[:3])  # no later look is known
    assert spending([0.001, 1.0])[0] > 30


def test_crossing_agrees_with_simulated_walks() -> None:
    fractions = (0.05, 0.3, 0.32, 0.7, 1.0)
    boundaries = (2.8, 2.5, 2.0, 2.2, 1.9)
    chance, walks = np.random.default_rng(3), 400_000
    steps = np.sqrt(np.diff((0.0, *fractions)))
    reached = np.abs(np.cumsum(chance.normal(size=(walks, 5)) * steps, axis=1)) >= boundaries * np.sqrt(fractions)
    simulated = np.logical_or.accumulate(reached, axis=1).mean(axis=0)
    assert crossing(boundaries, fractions) == pytest.approx(tuple(simulated), abs=5 * 0.5 / math.sqrt(walks))


def test_impossible_looks_are_refused() -> None:
    for fractions in ([], [0.5, 0.5], [0.6, 0.3], [0.5, 1.2], [0.0, 1.0]):
        with pytest.raises(DataError, match="rise to at most 1"):
            spending(fractions)
