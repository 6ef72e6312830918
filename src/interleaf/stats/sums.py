"""What every statistic is given: sums and counts by bucket, checked.

`sums[b]` is the sum of scores of bucket b, `counts[b]` the number of impressions they were summed over. A second axis
holds pairs, metrics or points in time; counts without one hold for all of them.
"""

from __future__ import annotations

import numpy as np

from interleaf.errors import DataError
from interleaf.methods.arrays import Array

ROUNDING = 1e-12  # scores that are zero on paper come out as a few last digits
ROWS = 128  # of 1,024 buckets: a megabyte, which stays in the caches


def columns(sums: Array, counts: Array) -> tuple[Array, Array]:
    """Both as floats `[bucket, column]`; what is only rounding becomes 0.

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
    if (cleaned[wide == 0] != 0).any():
        bucket = int(np.flatnonzero(((wide == 0) & (cleaned != 0)).any(axis=1))[0])
        raise DataError(f"bucket {bucket} has a sum but counts no impression; give its count")
    return cleaned, wide


def product(small: Array, table: Array) -> Array:
    """`small @ table`, where the first is a large matrix of small integers: a few rows at a time are made floats."""
    found = np.empty((len(small), table.shape[1]))
    for start in range(0, len(small), ROWS):
        found[start : start + ROWS] = small[start : start + ROWS].astype(np.float64) @ table
    return found


def quotient(above: Array, below: Array) -> Array:
    """The quotient, and 0 where nothing is below."""
    shape = np.broadcast_shapes(np.shape(above), np.shape(below))
    return np.divide(above, below, out=np.zeros(shape), where=np.broadcast_to(below, shape) != 0)


def significance(confidence: float) -> float:
    """alpha = 1 - confidence.

    >>> significance(0.95)
    0.05
    """
    if not 0 < confidence < 1:
        raise DataError(f"a confidence of {confidence!r} cannot be; give a number between 0 and 1, such as 0.95")
    return round(1 - confidence, 15)  # 1 - 0.95 is a last digit more than 0.05, and ranks are rounded up
