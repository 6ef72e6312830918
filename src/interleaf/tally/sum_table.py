"""A table of integer keys and integer sums, to which rows are added in any order with the same result."""

from __future__ import annotations

import numpy as np

from interleaf.kernels.arrays import Array

WAITING = 2**16  # added rows that are not summed yet


class SumTable:
    """Rows of `keys` integers that identify them, and `values` integers that are added up.

    >>> table = SumTable(1, 1)
    >>> table.add(np.array([[7, 1], [3, 2], [7, 5]]))
    >>> table.rows.tolist()
    [[3, 2], [7, 6]]
    """

    def __init__(self, keys: int, values: int) -> None:
        self.keys, self.width = keys, keys + values
        self._rows = np.zeros((0, self.width), np.int64)
        self._waiting: list[Array] = []
        self._number = 0

    def add(self, rows: Array) -> None:
        """Add rows; the same key may be in several of them."""
        if len(rows):
            self._waiting.append(np.asarray(rows, np.int64))
            self._number += len(rows)
        if self._number > WAITING + len(self._rows):
            self._add_up()

    @property
    def rows(self) -> Array:
        """One row for each key, in the order of the keys."""
        self._add_up()
        return self._rows

    @property
    def max_size(self) -> int:
        """At least the number of keys."""
        return len(self._rows) + self._number

    def _add_up(self) -> None:
        if not self._waiting:
            return
        rows = np.concatenate([self._rows, *self._waiting])
        rows = rows[np.lexsort(rows[:, : self.keys].T[::-1])]
        is_first = np.ones(len(rows), np.bool_)
        is_first[1:] = (rows[1:, : self.keys] != rows[:-1, : self.keys]).any(axis=1)
        starts = np.flatnonzero(is_first)
        self._rows = rows[starts]
        self._rows[:, self.keys :] = np.add.reduceat(rows[:, self.keys :], starts, axis=0)
        self._waiting, self._number = [], 0

    def replace(self, rows: Array) -> None:
        """Replace all rows by others, which are added up."""
        self._rows, self._waiting, self._number = np.zeros((0, self.width), np.int64), [], 0
        self.add(rows)
