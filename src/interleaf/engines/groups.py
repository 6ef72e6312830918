"""Rows with the same keys as one, while a log is read, and when sums of its parts meet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from interleaf.kernels.arrays import Array


class Groups:
    """Rows by their keys while a log is read, each value by its rule; alike rows become one whenever rows doubled."""

    def __init__(self, keys: int, rules: Sequence[str]) -> None:
        self._keys, self._rules = keys, tuple(rules)
        self._parts: list[list[Array]] = []
        self._least, self._waiting = 0, 0

    def add(self, columns: list[Array]) -> None:
        """Count rows in: keys first, then values."""
        self._parts.append(self._grouped(columns))
        self._waiting += len(columns[0])
        if self._waiting > 2 * self._least:
            self._parts = [self.columns]
            self._least = self._waiting = len(self._parts[0][0])

    def merge(self, other: Groups) -> None:
        """Count another one's rows in."""
        for columns in other._parts:
            self.add(columns)

    @property
    def columns(self) -> list[Array]:
        """All rows, in the order of their keys: those, then the values."""
        found = self._grouped([np.concatenate(parts) for parts in zip(*self._parts, strict=True)])
        order = np.lexsort(found[: self._keys])
        return [column[order] for column in found]

    def _grouped(self, columns: list[Array]) -> list[Array]:
        return grouped(columns[: self._keys], list(zip(columns[self._keys :], self._rules, strict=True)))


def grouped(keys: Sequence[Array], values: Sequence[tuple[Array, str]]) -> list[Array]:
    """Rows with the same keys as one: the keys, and each value by its rule (`sum`, `min`, `max`); in no order."""
    names = [f"key {place}" for place in range(len(keys))]
    columns = dict(zip(names, keys, strict=True)) | {f"{place}": array for place, (array, _) in enumerate(values)}
    rules = [(f"{place}", rule) for place, (_, rule) in enumerate(values)]
    found = pa.table(columns).group_by(names, use_threads=False).aggregate(rules)
    return [found.column(name).to_numpy() for name in [*names, *(f"{place}_{rule}" for place, rule in rules)]]
