"""Which of two clicked results people prefer for its content, as a model tells it, against judges (H12c, Table 8).

Of each query, the two results that were clicked most: the one whose clicks weigh less was clicked for its looks, so the
other one is preferred. Judges prefer the higher grade.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from interleaf.engines.groups import Groups
from interleaf.methods.arrays import Array
from interleaf.refine.caption.model import Model
from interleaf.refine.caption.results import Results


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
