"""All estimators' sums over old lists, in one pass."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from interleaf import buckets
from interleaf.methods.arrays import Array, Impression
from interleaf.refine.reuse.foresee import Lists
from interleaf.refine.reuse.held import Held
from interleaf.refine.reuse.looks import GROUPS
from interleaf.refine.reuse.outcomes import Scorer
from interleaf.refine.reuse.rankings import Ranked
from interleaf.refine.reuse.robust import Foreseen, Robust, impressions_of
from interleaf.refine.reuse.sums import Weighted

UNWEIGHTED, WEIGHTED, CLIPPED, JOINT = WEIGHTINGS = ("unweighted", "weighted", "clipped", "joint")


class Weighings:
    """Sums of each weighting by name, and of the doubly robust estimate, if there is one."""

    def __init__(self, columns: int, foreseen: Foreseen | None) -> None:
        self.sums = {name: Weighted(columns) for name in WEIGHTINGS}
        self.foreseen = foreseen
        self.dropped: Counter[str] = Counter()

    def merge(self, other: Weighings) -> None:
        """Add those of other lists."""
        for name, sums in self.sums.items():
            sums.merge(other.sums[name])
        if self.foreseen is not None and other.foreseen is not None:
            self.foreseen.merge(other.foreseen)
        self.dropped += other.dropped


@dataclass(frozen=True, eq=False)
class Weigher:
    """What the sums need to know; `group_of` numbers the groups of units, `key` draws the new rankers' lists."""

    new: Ranked
    scorer: Scorer
    robust: Robust | None
    has_joint: bool
    group_of: Array
    clip: float
    key: Any

    def empty(self) -> Weighings:
        """Sums of nothing yet."""
        return Weighings(self.scorer.columns, self.robust.empty() if self.robust is not None else None)

    def add(self, found: Weighings, held: Held) -> None:
        """Add old lists."""
        rows, some, bucket = held.rows, held.possible, buckets.buckets(held.rows.unit)
        entries, weights = np.maximum(held.entries, 0), np.exp(held.log_weight)
        lists = impressions_of(self.new, rows.query, entries, rows.teams)
        outcomes = np.zeros((len(bucket), self.scorer.columns))
        possible = Impression(*(values[some] for values in lists))
        outcomes[some] = self.scorer(possible, rows.counts[some], rows.clicks[some])
        kept = np.minimum(weights, self.clip)
        found.sums[UNWEIGHTED].add(bucket, held.usable.astype(np.float64), outcomes)
        found.sums[WEIGHTED].add(bucket, weights, outcomes)
        found.sums[CLIPPED].add(bucket, kept, outcomes, weights - kept)
        if self.has_joint:
            found.sums[JOINT].add(bucket, np.exp(held.log_joint), self.scorer.observed(lists, rows.clicks))
        if self.robust is not None and found.foreseen is not None:
            groups = self.group_of[bucket % GROUPS]
            self.robust.mend(found.foreseen, Lists(lists, entries, rows.counts, groups), weights, outcomes)
            self.robust.foresee(found.foreseen, rows, held.pages, groups, self.key)
