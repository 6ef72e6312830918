"""Helpers of all statistics: numbers with reasons, sums of columns, normal deviates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array

Interval = tuple[float, float]


@dataclass(frozen=True)
class Figure:
    """A computed number; if `value` is None, `reason` says why."""

    value: float | None
    reason: str = ""


ROUNDING = 1e-12  # sums that should be zero may differ from it by rounding
ROWS = 128  # rows at a time; with 1,024 buckets they take a megabyte, which fits into the CPU's cache


def columns(sums: Array, counts: Array) -> tuple[Array, Array]:
    """Sums and counts as floats `[bucket, column]`; rounding errors become 0.

    >>> columns(np.array([1, -2]), np.array([2, 3]))[0].shape
    (2, 1)
    """
    sums, counts = np.asarray(sums, np.float64), np.asarray(counts, np.float64)
    table = sums[:, None] if sums.ndim == 1 else sums
    wide = counts[:, None] if counts.ndim == 1 else counts
    if table.ndim != 2 or wide.ndim != 2 or len(wide) != len(table) or wide.shape[1] not in (1, table.shape[1]):
        raise DataError(
            f"sums of shape {sums.shape} do not fit counts of shape {counts.shape}; "
            "give sums[bucket] or sums[bucket, column], and counts for the same buckets"
        )
    if not (np.isfinite(table).all() and np.isfinite(wide).all() and (wide >= 0).all()):
        raise DataError("sums and counts must be finite numbers, and counts at least 0")
    wide = np.broadcast_to(wide, table.shape)
    cleaned = np.where(np.abs(table) <= ROUNDING * wide, 0.0, table)
    uncounted = np.flatnonzero(((wide == 0) & (cleaned != 0)).any(axis=1))
    if len(uncounted):
        raise DataError(f"bucket {uncounted[0]} has a sum but counts no impression; give its count")
    return cleaned, wide


def product(small: Array, table: Array) -> Array:
    """`small @ table`, where `small` is a large matrix of small integers; only a few rows are floats at a time."""
    products = np.empty((len(small), table.shape[1]))
    for start in range(0, len(small), ROWS):
        products[start : start + ROWS] = small[start : start + ROWS].astype(np.float64) @ table
    return products


def quotient(above: Array, below: Array) -> Array:
    """The quotient, or 0 if the denominator is 0."""
    shape = np.broadcast_shapes(np.shape(above), np.shape(below))
    return np.divide(above, below, out=np.zeros(shape), where=np.broadcast_to(below, shape) != 0)


def significance(confidence: float) -> float:
    """alpha = 1 - confidence.

    >>> significance(0.95)
    0.05
    """
    if not 0 < confidence < 1:
        raise DataError(f"confidence is {confidence!r}; give a number between 0 and 1, such as 0.95")
    return round(1 - confidence, 15)  # 1 - 0.95 is slightly more than 0.05, and ranks are rounded up


MOST = 700.0  # the largest exponent that a float can hold


def deviate(statistic: Array | float, degrees: Array | float) -> Array:
    """The normal deviate with the same p-value as this t-statistic, with its sign.

    >>> round(float(deviate(2.262, 9)), 2)  # the 97.5 % point of t with 9 degrees of freedom
    1.96
    """
    shrunk = np.sqrt(degrees * np.log1p(np.square(statistic) / degrees))
    deviates: Array = np.sign(statistic) * shrunk * (8 * np.asarray(degrees) + 1) / (8 * np.asarray(degrees) + 3)
    return deviates


def statistic(deviates: Array | float, degrees: Array | float) -> Array:
    """The inverse of `deviate`, for normal deviates of at least 0; infinite if the result is too large for a float.

    >>> round(float(statistic(1.96, 9)), 2)
    2.26
    """
    stretched = deviates * (8 * np.asarray(degrees) + 3) / (8 * np.asarray(degrees) + 1)
    exponent = np.square(stretched) / degrees
    root: Array = np.sqrt(degrees * np.expm1(np.minimum(exponent, MOST)))
    return np.where(exponent < MOST, root, np.inf)
