"""The query of each row as a number: 20 bits of its hash. Tallies keep the number, and no text that a person typed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from interleaf.decode.columns import column, texts
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array

MAX_LENGTH = 100  # characters of a query that are shown
NO_QUERY = -1
_SHIFT = np.uint64(44)


def query_numbers(batch: pa.RecordBatch) -> Array:
    """The number of each row's query, -1 where it has none. One in a million pairs of queries share a number."""
    found = column(batch, "query")
    if found is None:
        return np.full(batch.num_rows, NO_QUERY, np.int64)
    names = texts(found)
    hashes = buckets.hashes(buckets.QUERY, names.offsets, names.data)
    return np.where(names.there, (hashes >> _SHIFT).astype(np.int64), NO_QUERY)


def query_text(batches: Iterable[pa.RecordBatch], number: int) -> str | None:
    """The text of the first query with this number, if there is one."""
    for batch in batches:
        rows = np.flatnonzero(query_numbers(batch) == number)
        if len(rows):
            text = batch.column("query").slice(int(rows[0]), 1).cast(pa.string()).cast(pa.binary())[0].as_py()
            return str(text.decode(errors="replace"))[:MAX_LENGTH]
    return None
