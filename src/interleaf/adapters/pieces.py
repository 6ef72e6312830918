"""Columns put together: of chunks, and of values in a row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from interleaf.methods.arrays import Array


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def batch_of(table: pa.Table) -> pa.RecordBatch:
    """A table in one piece, also where it is empty."""
    return pa.RecordBatch.from_arrays([whole(column) for column in table.columns], schema=table.schema)


def lists_of(sizes: Array, values: pa.Array) -> pa.ListArray:
    """Lists of these sizes, of values in a row.

    >>> lists_of(np.array([2, 0, 1]), pa.array(["a", "b", "c"])).to_pylist()
    [['a', 'b'], [], ['c']]
    """
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)), values)
