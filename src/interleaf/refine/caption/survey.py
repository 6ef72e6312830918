"""Sums that models are learned from, a pass over the log each: thresholds and queries, patterns, what holds between
queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from interleaf.methods.arrays import Array
from interleaf.refine.caption.features import FIRST, Encoder, Feature
from interleaf.refine.caption.gradients import Gradients
from interleaf.refine.caption.model import Model
from interleaf.refine.caption.patterns import Patterns
from interleaf.refine.caption.results import Results
from interleaf.refine.caption.segments import Queries
from interleaf.refine.caption.settings import Settings
from interleaf.refine.caption.tuning import Table, tuned


class Survey:
    """Measures of the training units' results, from which thresholds follow, and the queries of all."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._table, self.queries, self.pages = Table(), Queries(), 0
        self.dropped: Counter[str] = Counter()

    def add(self, results: Results) -> None:
        """Count results in."""
        self.pages += len(results.counts)
        self.queries.add(results)
        rows, codes = self._settings.training(results.bucket), _codes((), results)
        self._table.add(results.measures[rows], codes[rows], results.clicked[rows])

    def merge(self, other: Survey) -> None:
        """Count other results in."""
        self.pages += other.pages
        self.queries.merge(other.queries)
        self._table.merge(other._table)
        self.dropped += other.dropped

    def features(self) -> tuple[Feature, ...]:
        """Features with their thresholds."""
        return tuned(self._settings.features, self._table, self._settings.tune)


class Alike:
    """The patterns of the training units' results."""

    def __init__(self, features: Sequence[Feature], settings: Settings) -> None:
        self._features, self._settings = features, settings
        self.patterns = Patterns.of(np.zeros((0, FIRST + len(features)), np.int8), np.zeros(0, np.bool_))
        self.dropped: Counter[str] = Counter()

    def add(self, results: Results) -> None:
        """Count results in."""
        rows = self._settings.training(results.bucket)
        self.patterns += Patterns.of(_codes(self._features, results)[rows], results.clicked[rows])

    def merge(self, other: Alike) -> None:
        """Count other results in."""
        self.patterns += other.patterns
        self.dropped += other.dropped


class Between:
    """The gradients of models, by name, in the results that taught them."""

    def __init__(self, models: Mapping[str, Model], features: Sequence[Feature], settings: Settings) -> None:
        self._features, self._settings = features, settings
        self.gradients = {name: Gradients(model) for name, model in models.items()}
        self.dropped: Counter[str] = Counter()

    def add(self, results: Results) -> None:
        """Count results in."""
        codes, training = _codes(self._features, results), self._settings.training(results.bucket)
        for one in self.gradients.values():
            one.add(results, codes, training)

    def merge(self, other: Between) -> None:
        """Count other results in."""
        for name, one in self.gradients.items():
            one.merge(other.gradients[name])
        self.dropped += other.dropped


def _codes(features: Sequence[Feature], results: Results) -> Array:
    return Encoder(features).encode(results.measures, results.counts, results.grades)
