"""Sums that only health checks need, in a size that does not grow with the log.

They are: impressions over time, with and without an event; a sample of units by day; a sample of impressions with an
event by content; owners of the first position by segment. `draws.py` has clicks by owner and by rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from interleaf.decode import Decoded
from interleaf.kernels.arrays import Array, Impression
from interleaf.kernels.buckets import BUCKETS
from interleaf.kernels.jit import kernel, mix
from interleaf.tally.draws import Draws
from interleaf.tally.tally_file import check_shape, fill_units
from interleaf.tally.units import UnitSums, pack

HOUR = 3_600_000_000  # in microseconds
MAX_STRETCHES = 512
GROUPS = 64  # groups of units
SHOWN, CLICKED = range(2)


class Timeline:
    """Counts over time: sorted `places[stretch]`; `counts[stretch, group]` of impressions and of those with an event.

    A stretch of time is 2^`step` hours: the smallest `step` for which there are at most MAX_STRETCHES.
    """

    def __init__(self) -> None:
        self.step = 0
        self.places = np.zeros(0, np.int64)
        self.counts = np.zeros((0, GROUPS, 2), np.int64)

    @property
    def width(self) -> int:
        """The length of a stretch, in microseconds."""
        return HOUR << self.step

    def add(self, times: Array, buckets: Array, has_event: Array) -> None:
        places = times // self.width
        first = int(places.min(initial=0))
        size = int(places.max(initial=0)) - first + 1
        if size > 4 * MAX_STRETCHES:
            stretches, numbers = np.unique(places, return_inverse=True)
        else:
            stretches, numbers = first + np.arange(size), places - first
        cells = numbers * GROUPS + buckets // (BUCKETS // GROUPS)
        counts = [np.bincount(some, minlength=len(stretches) * GROUPS) for some in (cells, cells[has_event])]
        table = np.stack(counts, axis=1).reshape(len(stretches), GROUPS, 2)
        used = table.any(axis=(1, 2))
        self._put(stretches[used], table[used])

    def merge(self, step: int, places: Array, counts: Array) -> None:
        self._widen(step)
        self._put(places >> max(self.step - step, 0), counts)

    def _put(self, places: Array, counts: Array) -> None:
        if len(self.places) and np.array_equal(places, self.places):
            self.counts += counts
            return
        self.places, numbers = np.unique(np.concatenate([self.places, places]), return_inverse=True)
        old, self.counts = self.counts, np.zeros((len(self.places), GROUPS, 2), np.int64)
        np.add.at(self.counts, numbers, np.concatenate([old, counts]))
        while len(self.places) > MAX_STRETCHES:
            self._widen(self.step + 1)

    def _widen(self, step: int) -> None:
        if step > self.step:
            places, counts = self.places >> (step - self.step), self.counts
            self.step, self.places, self.counts = step, np.zeros(0, np.int64), np.zeros((0, GROUPS, 2), np.int64)
            self._put(places, counts)


MAX_VISITS, MAX_CONTENTS = 2**14, 2**13  # rows of the samples
DAY = 86_400_000_000  # in microseconds
EVENTS, CLICKS = range(2)  # sums in `visits`, besides impressions
Segment = tuple[str, str]
_UNIT_BITS = np.uint64(2**24 - 1)
_PRIME = np.uint64(0x100000001B3)


class Evidence:
    """Sums for health checks. `visits` has a row for each day of each sampled unit: impressions, impressions with an
    event, clicks. `contents` counts impressions with an event that have the same unit, time, list and clicks.
    `firsts[segment][bucket, ranker]` counts how often a ranker owns the first position.
    """

    def __init__(self, rankers: int) -> None:
        self.draws = Draws.empty(rankers)
        self.timeline = Timeline()
        self.visits = UnitSums(2, MAX_VISITS)
        self.contents = UnitSums(0, MAX_CONTENTS)
        self.firsts: dict[Segment, Array] = {}

    def add(self, buckets: Array, decoded: Decoded) -> None:
        has_event = decoded.has_event
        self.draws.add_ranks(decoded)
        self.timeline.add(decoded.time, buckets, has_event)
        every = np.ones(len(buckets), np.bool_)
        columns = np.stack([has_event, decoded.clicked.sum(axis=1)], axis=1).astype(np.float64)
        self.visits.add(pack(decoded.unit, decoded.time // DAY), 0, decoded.time, every, columns)
        rows = np.flatnonzero(has_event & (decoded.unit & np.uint64((1 << self.contents.level) - 1) == 0))
        contents, clicks = np.zeros(len(rows), np.uint64), decoded.clicks
        first, last = ((1000 * seconds[rows]).astype(np.int64) for seconds in (clicks.first, clicks.last))
        moments = np.stack([decoded.time[rows], first, last], axis=1).view(np.uint64)
        _hash(rows, decoded.unit, moments, decoded.impressions, decoded.counts, decoded.clicked, contents)
        self.contents.add(contents, 0, decoded.time[rows], every[rows], np.zeros((len(rows), 0)))

    def add_lists(
        self, buckets: Array, decoded: Decoded, segments: Mapping[str, tuple[Array, list[str]]], characters: Array
    ) -> None:
        """Add sums of interleaved rows; `segments` are a number for each row, and the values of the numbers."""
        self.draws.add_lists(buckets, decoded, characters)
        if not decoded.impressions.teams.shape[1]:
            return
        owner = decoded.impressions.teams[:, 0].astype(np.int64)
        for attribute, (codes, values) in segments.items():
            for number in np.unique(codes[codes >= 0]):
                rows = np.flatnonzero((codes == number) & (owner >= 0))
                cells = buckets[rows].astype(np.int64) * self._rankers + owner[rows]
                counted = np.bincount(cells, minlength=BUCKETS * self._rankers).reshape(BUCKETS, self._rankers)
                segment = attribute, values[number]
                self.firsts[segment] = self.firsts.get(segment, 0) + counted

    @property
    def _rankers(self) -> int:
        return int(self.draws.owners.shape[1])

    @property
    def _samples(self) -> dict[str, UnitSums]:
        return {"visits": self.visits, "contents": self.contents}

    def merge(self, other: Evidence) -> None:
        self.draws = Draws(*(mine + theirs for mine, theirs in zip(self.draws, other.draws, strict=True)))
        self.timeline.merge(other.timeline.step, other.timeline.places, other.timeline.counts)
        for name, units in other._samples.items():
            self._samples[name].merge(units.level, *units.unordered)
        for segment, counted in other.firsts.items():
            self.firsts[segment] = self.firsts.get(segment, 0) + counted

    def reorder(self, order: list[int]) -> None:
        self.draws = self.draws.reorder(order)
        self.firsts = {segment: counted[:, order] for segment, counted in self.firsts.items()}

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """All arrays by name; `rest` has everything else."""
        yield from self.draws._asdict().items()
        yield "places", self.timeline.places
        yield "counts", self.timeline.counts
        for name, units in self._samples.items():
            yield name, units.hashes
            yield f"{name}_values", units.values
        for number, counted in enumerate(self.firsts.values()):
            yield f"first{number}", counted

    @property
    def rest(self) -> dict[str, Any]:
        levels = [units.level for units in self._samples.values()]
        return {"step": self.timeline.step, "levels": levels, "segments": list(self.firsts)}

    def fill(self, arrays: Mapping[str, Array], rest: Mapping[str, Any]) -> None:
        """Set empty sums from the `arrays` and the `rest` of others."""
        self.draws = Draws(*(check_shape(values, arrays[name]) for name, values in self.draws._asdict().items()))
        places = check_shape(self.timeline.places, arrays["places"], 1)
        counts = check_shape(self.timeline.counts, arrays["counts"], 1)[: len(places)]
        self.timeline.merge(rest["step"], places, counts)
        for (name, units), level in zip(self._samples.items(), rest["levels"], strict=True):
            fill_units(units, level, arrays[name], arrays[f"{name}_values"])
        empty = np.zeros((BUCKETS, self._rankers), np.int64)
        for number, (attribute, value) in enumerate(rest["segments"]):
            self.firsts[attribute, value] = check_shape(empty, arrays[f"first{number}"])


@kernel
def _hash(
    rows: Array, unit: Array, moments: Array, impressions: Impression, counts: Array, clicked: Array, contents: Array
) -> None:
    """The content of each row as a hash with the lowest bits of its unit, so that a sample takes all rows of a unit."""
    ranks, teams = impressions.ranks, impressions.teams
    for place in range(len(rows)):
        row = rows[place]
        word = unit[row]
        for moment in range(moments.shape[1]):
            word = mix(word ^ moments[place, moment]) * _PRIME
        for position in range(counts[row]):
            document = np.uint64(clicked[row, position])
            for ranker in range(ranks.shape[1]):  # a sum, because rankers may be in any order
                is_owner = teams[row, position] == ranker
                document += mix(np.uint64(2 * ranks[row, ranker, position] + is_owner + 2))
            word = (word ^ document) * _PRIME
        contents[place] = mix(word) & ~_UNIT_BITS | unit[row] & _UNIT_BITS
