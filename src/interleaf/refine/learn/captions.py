"""What the caption of a clicked result says of the click: its weight in a caption model (H12c)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from interleaf.decode import Decoded
from interleaf.decode.columns import Lists, column, lists
from interleaf.methods.arrays import Array
from interleaf.refine.caption.measures import measure
from interleaf.refine.caption.model import Model

COLUMN = "captions"


@dataclass(frozen=True)
class CaptionWeights:
    """Click weights by a model, of the captions of a batch."""

    model: Model
    batch: pa.RecordBatch | None = None

    def on(self, batch: pa.RecordBatch) -> CaptionWeights:
        """The same, ready for the rows of a batch."""
        return replace(self, batch=batch)

    def of(self, decoded: Decoded) -> Array:
        """`[row, position]`; 1 where a row has no captions, or not one for each document."""
        found = np.ones(decoded.clicked.shape)
        if self._captions is None:
            return found
        offsets = self._captions.offsets.astype(np.int64)
        whole = np.flatnonzero(np.diff(offsets)[decoded.rows] == decoded.counts)
        counts = decoded.counts[whole]
        rows = np.repeat(whole, counts)
        places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        measures = self._measures[offsets[decoded.rows[rows]] - offsets[0] + places]
        codes = self.model.encoder.encode(measures, counts, np.full(len(rows), -1))
        found[rows, places] = self.model.click_weights(codes)
        return found

    @cached_property
    def _captions(self) -> Lists | None:
        array = None if self.batch is None else column(self.batch, COLUMN)
        return None if array is None else lists(array)

    @cached_property
    def _measures(self) -> Array:
        assert self._captions is not None
        first, last = int(self._captions.offsets[0]), int(self._captions.offsets[-1])
        return measure(self._captions.values.slice(first, last - first))
