"""Units that come more often than people do: how many impressions each unit has, in a pass over the units alone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from interleaf.decode.columns import column, texts
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array

Visits = tuple[Array, Array]  # units by hash, in order, and how many impressions each has
NONE: Visits = (np.zeros(0, np.uint64), np.zeros(0, np.int64))


def visits(batches: Iterable[pa.RecordBatch]) -> Visits:
    """The impressions of every unit."""
    held: list[Visits] = []
    waiting = 0
    for batch in batches:
        array = column(batch, "unit")
        if array is None:
            continue
        names = texts(array)
        found = buckets.hashes(buckets.UNIT, names.offsets, names.data)[names.there]
        held.append(np.unique(found, return_counts=True))
        waiting += len(held[-1][0])
        if waiting > 2 * len(held[0][0]):  # as rarely as units double: each is sorted a few times, however many
            held, waiting = [together(held)], 0
    return together(held)


def together(held: Iterable[Visits]) -> Visits:
    """Counts by unit, of all parts together."""
    names, amounts = (np.concatenate(values) for values in zip(NONE, *held, strict=True))
    units, places = np.unique(names, return_inverse=True)
    return units, np.bincount(places, weights=amounts, minlength=len(units)).astype(np.int64)


def frequent(found: Visits, most: int) -> Array:
    """The units with more impressions than that, in order."""
    units, counts = found
    return units[counts > most]
