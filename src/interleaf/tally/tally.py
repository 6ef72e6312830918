"""All that a report needs of a log, in a size that does not grow with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from interleaf import buckets
from interleaf.decode import Decoded
from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.schema import INTERLEAVED
from interleaf.score import Scored
from interleaf.tally import merge, stored
from interleaf.tally.about import About
from interleaf.tally.pages import QUERIES, Arm, Lists
from interleaf.tally.scores import Scores
from interleaf.tally.seen import Sample
from interleaf.tally.slices import Slices
from interleaf.tally.units import Units

Coded = tuple[Array, list[str]]  # a number for each row, and what the numbers stand for; -1 stands for nothing
ALONE = "impressions that are their own unit"
MOST_ARMS = 60
MOST_SEGMENTS = 256


@dataclass(eq=False)
class Tally:
    """All that a report needs of a log, in a size that does not grow with it."""

    about: About
    scores: Scores
    units: Units
    slices: Slices
    lists: Lists
    sample: Sample
    arms: dict[str, Arm] = field(default_factory=dict)
    segments: dict[tuple[str, str], Scores] = field(default_factory=dict)
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
        return cls(about, scores, Units(columns), Slices(columns), Lists.empty(rankers), Sample())

    @property
    def impressions(self) -> int:
        """All that were counted, of every arm."""
        return sum(int(arm.measures[:, QUERIES].sum()) for arm in self.arms.values())

    def add(self, decoded: Decoded, scored: Scored | None, segments: Mapping[str, Coded], latency: Array) -> None:
        """Count rows of one design in: with scores where they were interleaved; `segments` by attribute."""
        if not len(decoded.rows):
            return
        found = buckets.buckets(decoded.unit)
        self._arm(decoded.design.arm).add(found, decoded)
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
        if self.about.sessions is None:
            clicked = decoded.has_event
            self.add_scores(decoded.unit, decoded.time, clicked, scored.columns)
            for attribute, (codes, values) in segments.items():
                self._add_segments(attribute, codes, values, found, clicked, scored.columns)

    def add_scores(self, unit: Array, time: Array, clicked: Array, columns: Array) -> None:
        """Count scores in: of impressions, or of sessions."""
        found = buckets.buckets(unit)
        self.scores.add(found, clicked, columns, self.about.linear)
        self.slices.add(time, found, clicked, columns)
        self.units.add(unit, self.number_of(INTERLEAVED), time, clicked, columns)

    def _add_segments(
        self, attribute: str, codes: Array, values: list[str], found: Array, clicked: Array, columns: Array
    ) -> None:
        for number, value in enumerate(values):
            rows = np.flatnonzero(codes == number)
            if len(rows):
                self._segment(attribute, value).add(found[rows], clicked[rows], columns[rows], self.about.linear)

    def _segment(self, attribute: str, value: str) -> Scores:
        if (attribute, value) not in self.segments:
            self.segments[attribute, value] = Scores.empty(len(self.about.rankers), self.about.linear)
            self.check_segments()
        return self.segments[attribute, value]

    def check_segments(self) -> None:
        """Whether a report can tell all segments apart."""
        if len(self.segments) > MOST_SEGMENTS:
            worst = Counter(attribute for attribute, _ in self.segments).most_common(1)[0][0]
            raise DataError(
                f"attribute {worst!r} has too many values to report on: more than {MOST_SEGMENTS} segments in all; "
                "group its values in the log, or leave it out of by="
            )

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
