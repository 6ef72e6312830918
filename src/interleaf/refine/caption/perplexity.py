"""How well models foretell the clicks of other people: perplexity, overall and by kind of query (H12c, section 4.2).

    2^(-(1/N) sum of log2 q),    q the probability given to what was observed: 1 is perfect, 2 is a coin

Differences are tested between units: losses of results are summed by bucket, as scores are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from interleaf.buckets import BUCKETS
from interleaf.methods.arrays import Array
from interleaf.refine.caption.model import Model
from interleaf.refine.caption.results import Results
from interleaf.refine.caption.segments import SEGMENTS
from interleaf.stats.compare import estimate


@dataclass(frozen=True)
class Perplexity:
    """The perplexity of a model on the held-out results of a segment; None: there are none.

    `p_value`: how often chance alone would tell it as far from the baseline, `from_best` from the best model.
    """

    segment: str
    model: str
    results: int
    perplexity: float | None
    p_value: float | None
    from_best: float | None


class Losses:
    """Losses in bits of held-out results, `sums[segment, model, bucket]`."""

    def __init__(self, models: Mapping[str, Model], relevance: bool) -> None:
        self._models, self._relevance = models, relevance
        self._sums = np.zeros((len(SEGMENTS), len(models), BUCKETS))
        self._counts = np.zeros((len(SEGMENTS), BUCKETS), np.int64)

    def add(self, results: Results, codes: Array, held_out: Array, segments: Mapping[str, Array]) -> None:
        """Count results in, those that a mask holds out."""
        rows = np.flatnonzero(held_out)
        clicked, bucket = results.clicked[rows], results.bucket[rows]
        members = [segments[name][results.page[rows]] for name in SEGMENTS]
        for segment, member in enumerate(members):
            self._counts[segment] += np.bincount(bucket[member], minlength=BUCKETS)
        for number, model in enumerate(self._models.values()):
            chances = model.chances(codes[rows], self._relevance)
            losses = -np.log2(np.maximum(np.where(clicked, chances, 1 - chances), 1e-300))
            for segment, member in enumerate(members):
                self._sums[segment, number] += np.bincount(bucket[member], losses[member], BUCKETS)

    def merge(self, other: Losses) -> None:
        """Count the losses of other results in."""
        self._sums += other._sums
        self._counts += other._counts

    def perplexities(self) -> tuple[Perplexity, ...]:
        """By segment and model, in their order."""
        found = []
        for segment, name in enumerate(SEGMENTS):
            counts, sums = self._counts[segment], self._sums[segment]
            total = int(counts.sum())
            best = int(np.argmin(sums.sum(axis=1)))
            for number, model in enumerate(self._models):
                value = float(2 ** (sums[number].sum() / total)) if total else None
                tests = [_p_value(sums[number] - sums[other], counts, number == other) for other in (0, best)]
                found.append(Perplexity(name, model, total, value, *tests))
        return tuple(found)


def _p_value(difference: Array, counts: Array, same: bool) -> float | None:
    return None if same else estimate(difference, counts).p_value
