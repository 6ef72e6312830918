"""All that a report needs of a log, in a size that does not grow with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from interleaf.decode import Decoded
from interleaf.errors import DataError
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array
from interleaf.schema import INTERLEAVED
from interleaf.score import Scored
from interleaf.tally import merge, stored
from interleaf.tally.about import About
from interleaf.tally.cells import pack
from interleaf.tally.evidence import Evidence
from interleaf.tally.pages import QUERIES, Arm, Lists
from interleaf.tally.scores import Scores
from interleaf.tally.seen import Sample
from interleaf.tally.segments import Segments
from interleaf.tally.slices import Slices
from interleaf.tally.units import SUMS, Units

Coded = tuple[Array, list[str]]  # a number for each row, and what the numbers stand for; -1 stands for nothing
ALONE = "impressions that are their own unit"
MOST_ARMS = 60
QUERY_ROOM = 2**18  # sums held, all units and queries together


@dataclass(eq=False)
class Tally:
    """All that a report needs of a log, in a size that does not grow with it.

    `queries` has the sums of each unit in each query, of a sample of units.
    """

    about: About
    scores: Scores
    units: Units
    slices: Slices
    lists: Lists
    sample: Sample
    segments: Segments
    queries: Units
    evidence: Evidence
    arms: dict[str, Arm] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    facts: Counter[str] = field(default_factory=Counter)
    since: int | None = None
    until: int | None = None

    @classmethod
    def empty(cls, about: About) -> Tally:
        """Nothing seen yet."""
        rankers = len(about.rankers)
        scores = Scores.empty(rankers, about.linear)
        columns = scores.sums.shape[1]
        lists = Lists.empty(rankers)
        tables = Segments(columns), Units(columns, max(1024, QUERY_ROOM // (columns + SUMS - 1))), Evidence(rankers)
        return cls(about, scores, Units(columns), Slices(columns), lists, Sample(), *tables)

    @property
    def impressions(self) -> int:
        """All that were counted, of every arm."""
        return sum(int(arm.measures[:, QUERIES].sum()) for arm in self.arms.values())

    def add(
        self, decoded: Decoded, scored: Scored | None, segments: Mapping[str, Coded], queries: Array, latency: Array
    ) -> None:
        """Count rows of one design in: with scores where they were interleaved; `segments` by attribute.

        `queries` are the numbers of their queries.
        """
        if not len(decoded.rows):
            return
        found = buckets.buckets(decoded.unit)
        self._arm(decoded.design.arm).add(found, decoded)
        self.evidence.add(found, decoded)
        self.facts[ALONE] += int(decoded.alone.sum())
        low, high = int(decoded.time.min()), int(decoded.time.max())
        self.since = low if self.since is None else min(low, self.since)
        self.until = high if self.until is None else max(high, self.until)
        if scored is None:
            none = np.zeros(len(decoded.rows), np.bool_)
            columns = np.zeros((1, self.units.columns))
            self.units.add(decoded.unit, self.number_of(decoded.design.arm), decoded.time, none, columns)
            return
        self.lists.add(found, decoded, latency)
        self.evidence.add_lists(found, decoded, segments)
        if self.about.sessions is None:
            clicked = decoded.has_event
            self.add_scores(decoded.unit, decoded.time, clicked, scored.columns)
            self._add_queries(queries, decoded, scored.columns)
            for attribute, (codes, values) in segments.items():
                self.segments.add(attribute, codes, values, decoded.unit, clicked, scored.columns)

    def _add_queries(self, queries: Array, decoded: Decoded, columns: Array) -> None:
        """Count the sums of each unit in each query."""
        rows = np.flatnonzero(decoded.has_event & (queries >= 0))
        cells, always = pack(decoded.unit[rows], queries[rows]), np.ones(len(rows), np.bool_)
        self.queries.add(cells, 0, decoded.time[rows], always, columns[rows])

    def add_scores(self, unit: Array, time: Array, clicked: Array, columns: Array) -> None:
        """Count scores in: of impressions, or of sessions."""
        found = buckets.buckets(unit)
        self.scores.add(found, clicked, columns, self.about.linear)
        self.slices.add(time, unit, clicked, columns)
        self.units.add(unit, self.number_of(INTERLEAVED), time, clicked, columns)

    def _arm(self, name: str) -> Arm:
        self.number_of(name)
        return self.arms[name]

    def remark(self, remarks: Iterable[Coded]) -> None:
        """Count what is remarkable of rows, by name."""
        for codes, names in remarks:
            for code, number in zip(*np.unique(codes[codes >= 0], return_counts=True), strict=True):
                self.facts[names[code]] += int(number)

    def number_of(self, name: str) -> int:
        """The number of an arm, by which units remember it."""
        if name not in self.arms:
            if len(self.arms) >= MOST_ARMS:
                raise DataError(
                    f"the log has more than {MOST_ARMS} arms, {name!r} among them; arms are few and lasting"
                )
            self.arms[name] = Arm.empty()
        return list(self.arms).index(name)

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        return merge.merged(self, other)

    def save(self, path: str | Path) -> None:
        """Keep it in a file (.tally): `Tally.load` reads it back, by this or a later interleaf."""
        stored.save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Tally:
        """A tally that was kept."""
        return stored.load(path, cls)
