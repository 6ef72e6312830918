"""An estimate from what each bucket does to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from interleaf.methods.arrays import Array
from interleaf.stats.compare import Estimate, estimate


def concluded(value: float, influence: Array, counts: Array, extra: float = 0.0, confidence: float = 0.95) -> Estimate:
    """An estimate whose buckets move it by these influences, which sum to 0; `extra` is a variance from elsewhere.

    A bucket without clicks goes with the one before it.

    >>> found = concluded(0.3125, np.array([2, -0.25, -2.25, 0.5]) / 16, np.array([4, 4, 4, 0]))
    >>> found.value, found.buckets
    (0.3125, 3)
    """
    there = counts > 0
    if not there.any():
        return estimate(np.zeros(1), np.zeros(1), confidence)
    place = np.maximum(np.cumsum(there) - 1, 0)
    counts, influence = counts[there], np.bincount(place, influence)
    found = estimate(value * counts + counts.sum() * influence, counts, confidence)
    return _widened(found, extra) if extra > 0 else found


def _widened(found: Estimate, extra: float) -> Estimate:
    """The same with a variance added that has nothing to do with the buckets."""
    from scipy.special import stdtr

    if found.value is None or found.error is None or found.interval is None or found.effective_units is None:
        return found
    error = float(np.hypot(found.error, np.sqrt(extra)))
    radius = (found.interval[1] - found.value) * error / found.error
    p_value = float(2 * stdtr(found.effective_units - 1, -abs(found.value) / error))
    return replace(found, error=error, interval=(found.value - radius, found.value + radius), p_value=p_value)
