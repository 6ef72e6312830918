"""Gradients of a model's log-likelihood by bucket of units and of queries: what each has a part in its weights.

Results of one query have the same documents and captions on every page, so they are no independent witnesses: a
feature of few documents may follow their clicks by chance. With g_q the gradient in the results of query bucket q, and
C the inverse information, the covariance of the weights between queries is C (sum_q g_q g_q') C.
"""

from __future__ import annotations

import numpy as np

from interleaf.buckets import BUCKETS, buckets
from interleaf.compiled import kernel
from interleaf.methods.arrays import Array
from interleaf.refine.caption.model import Model
from interleaf.refine.caption.results import Results

FEWEST = 10  # queries


class Gradients:
    """Sums over the results that taught a model, while a log is read: `units[bucket]` and `queries[bucket]`."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.units, self.queries = np.zeros((2, BUCKETS, len(model.parameters)))

    def add(self, results: Results, codes: Array, training: Array) -> None:
        """Count results in, those of the training mask."""
        rows = np.flatnonzero(training)
        residuals = results.clicked[rows] - self._model.chances(codes[rows])
        columns, query = self._model.columns(codes[rows]), buckets(results.queries)[results.page[rows]]
        _spread(columns, residuals, results.bucket[rows], self.units)
        _spread(columns, residuals, query, self.queries)

    def merge(self, other: Gradients) -> None:
        """Count those of other results in."""
        self.units += other.units
        self.queries += other.queries

    def covariance(self) -> Array | None:
        """That of the weights between queries; None where those are too few to tell."""
        number = int((self.queries != 0).any(axis=1).sum())
        if number < FEWEST:
            return None
        shifts = self.queries @ np.array(self._model.covariance)
        found: Array = shifts.T @ shifts * (number / (number - 1))
        return found


@kernel
def _spread(columns: Array, residuals: Array, bucket: Array, gradients: Array) -> None:
    for row in range(len(columns)):
        for column in range(columns.shape[1]):
            gradients[bucket[row], column] += columns[row, column] * residuals[row]
