"""Which rows of a batch can be used: for each other row the first reason is counted, with an example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from reprlib import repr as short

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.importers.two_tables.cell_values import Cells
from interleaf.kernels.arrays import Array
from interleaf.log.event_join import ReadCounts


@dataclass
class RowChecks:
    """Marks the rows of one batch after another; `wrong` gives the reason for a cell that cannot be converted."""

    where: str
    counts: ReadCounts
    wrong: Callable[[str], str]
    rankers: Sequence[str] = ()
    _is_used: Array = field(default_factory=lambda: np.zeros(0, np.bool_))
    _before: int = 0

    def start(self, size: int) -> None:
        """Begin with a batch of this many rows."""
        self._before += len(self._is_used)
        self._is_used = np.ones(size, np.bool_)

    def take(self, name: str, source: pa.Array, cells: Cells) -> pa.Array:
        """The converted cells of a column; rows with a wrong one are not used."""
        self.counts.assumptions |= dict.fromkeys(sorted(cells.assumptions))
        if cells.wrong.any():
            self._drop(self.wrong(name), cells.wrong, source, f"{name} ")
        return cells.values

    def refuse(self, reason: str, rows: pa.Array) -> None:
        """Do not use these rows."""
        marks = np.asarray(pc.fill_null(rows, False))
        if marks.any():
            self._drop(reason, marks)

    def _drop(self, reason: str, marks: Array, source: pa.Array | None = None, name: str = "") -> None:
        out = np.flatnonzero(self._is_used & marks)
        if len(out):
            value = "" if source is None else f": {name}is {short(source[int(out[0])].as_py())}"
            self.counts.dropped[reason] += len(out)
            self.counts.examples.setdefault(reason, f"{self.where}, row {self._before + int(out[0]) + 1:,}{value}")
            self._is_used[out] = False

    def used(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that can be used."""
        return batch if self._is_used.all() else batch.filter(pa.array(self._is_used))
