"""How well models predict: perplexity of clicks, and which of two clicked results people prefer (H12c, Table 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from interleaf.buckets import BUCKETS
from interleaf.caption_bias.model import Model
from interleaf.caption_bias.results import SEGMENTS, Results
from interleaf.engines.groups import Groups
from interleaf.methods.arrays import Array
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


@dataclass(frozen=True)
class Preference:
    """How often a model's preference is that of the judges; `p_value` of a two-sided sign test against a coin."""

    model: str
    correct: int
    none: int
    incorrect: int
    p_value: float | None


class Preferences:
    """Clicks by query and document while a log is read: how many, whose, the grade, and the mean weights."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = models
        self._clicks = Groups(2, ["sum", "min", "max", "max", *["sum"] * len(models)])

    def add(self, results: Results, codes: Array) -> None:
        """Count clicks in."""
        rows = np.flatnonzero(results.clicked & (results.grades >= 0))
        unit = results.decoded.unit[results.page[rows]]
        columns = [
            results.queries[results.page[rows]], results.documents[rows], np.ones(len(rows)), unit, unit,
            results.grades[rows].astype(np.int64), *(model.attraction(codes[rows]) for model in self._models.values()),
        ]  # fmt: skip
        self._clicks.add(columns)

    def merge(self, other: Preferences) -> None:
        """Count other clicks in."""
        self._clicks.merge(other._clicks)

    def found(self) -> tuple[Preference, ...]:
        """What the models say of every pair that judges tell apart."""
        whole = self._clicks.columns
        better, worse = _pairs(*whole[:6])
        found = []
        for number, name in enumerate(self._models):
            attraction = whole[6 + number] / whole[2]
            gap = attraction[worse] - attraction[better]  # above 0: the worse one was clicked for its looks
            gap[np.abs(gap) < 1e-9] = 0
            correct, incorrect = int((gap > 0).sum()), int((gap < 0).sum())
            found.append(Preference(name, correct, int((gap == 0).sum()), incorrect, _sign_test(correct, incorrect)))
        return tuple(found)


def _pairs(
    query: Array, document: Array, clicks: Array, least_unit: Array, most_unit: Array, grade: Array
) -> tuple[Array, Array]:
    """The places of the better and the worse judged of each query's two most clicked, clicked by different people."""
    order = np.lexsort((document, -clicks, query))
    starts = np.flatnonzero(np.r_[True, np.diff(query[order].astype(np.uint64)) != 0]) if len(order) else order
    starts = starts[np.diff(np.r_[starts, len(order)]) > 1]
    one, other = order[starts], order[starts + 1]
    same_person = (least_unit[one] == most_unit[other]) & (most_unit[one] == least_unit[other])
    told = (grade[one] != grade[other]) & ~same_person
    one, other = one[told], other[told]
    is_better = grade[one] > grade[other]
    return np.where(is_better, one, other), np.where(is_better, other, one)


def _sign_test(correct: int, incorrect: int) -> float | None:
    from scipy.special import bdtr

    total = correct + incorrect
    return min(1.0, 2 * float(bdtr(min(correct, incorrect), total, 0.5))) if total else None
