"""Sums that only health checks need, in a size that does not grow with the log.

They are: clicks by owner, clicks by rank, and impossible lists, which test whether lists were drawn correctly;
impressions over time, with and without an event; a sample of units by day; a sample of impressions with an event by
content; owners of the first position by segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from interleaf.decode import Decoded
from interleaf.kernels.arrays import Array, Impression
from interleaf.kernels.buckets import BUCKETS
from interleaf.kernels.jit import inline_kernel, kernel, mix
from interleaf.methods.registry import DRAFTED, METHODS, ResolvedMethod, resolve
from interleaf.tally.bucket_sums import POSITIONS
from interleaf.tally.tally_file import check_shape, fill_units
from interleaf.tally.units import UnitSums, pack

SLOTS, CLICKS, COIN_SLOTS, COIN_CLICKS = range(4)
SHOWN, CLICKED = range(2)
DECIDED, IMPOSSIBLE = range(2)
TEXTS, LENGTH = range(2)
# Which lists a method can draw. ANY: all lists. CONSIDERATE: no document is above its best rank. NEXT: each document
# is the best remaining one of some ranker. DRAFT: it is the best remaining one of its owner, and each ranker picks once
# per round.
ANY, CONSIDERATE, NEXT, DRAFT = range(4)
_WORD = 64
MAX_DRAFTERS = 62  # rankers that fit into a word of bits
_ONE = np.uint64(1)
HOUR = 3_600_000_000  # in microseconds
MAX_STRETCHES = 512
GROUPS = 64  # groups of units
MAX_VISITS, MAX_CONTENTS = 2**14, 2**13  # rows of the samples
DAY = 86_400_000_000  # in microseconds
VISIT_EVENTS, VISIT_CLICKS = range(2)  # sums in `visits`, besides impressions
_UNIT_BITS = np.uint64(2**24 - 1)
_PRIME = np.uint64(0x100000001B3)


class Draws(NamedTuple):
    """`owners[bucket, ranker]`: owned slots, clicks on them, and both again for slots that a coin flip assigned.
    `ranks[position]`: documents shown there, and clicked. `lists`: number of lists that were checked, and of impossible
    ones. `characters[bucket, ranker]`: owned documents whose text has a known length, and their characters.

    A coin flip assigns a slot if its document is the best remaining one of every ranker. Then neither the document nor
    the documents above depend on the coin.
    """

    owners: Array
    ranks: Array
    lists: Array
    characters: Array

    @classmethod
    def empty(cls, rankers: int) -> Draws:
        return cls(
            np.zeros((BUCKETS, rankers, 4), np.int64),
            np.zeros((POSITIONS, 2), np.int64),
            np.zeros(2, np.int64),
            np.zeros((BUCKETS, rankers, 2), np.int64),
        )

    def add_ranks(self, decoded: Decoded) -> None:
        """Count the clicks of any lists by rank."""
        _add_ranks(decoded.counts, decoded.is_clicked, self.ranks)

    def add_lists(self, buckets: Array, decoded: Decoded, characters: Array) -> None:
        """Add interleaved lists; `characters[row, position]` is -1 for an unknown length, and may have no positions."""
        has = decoded.has
        logged = np.stack([has["ranks"], has["teams"], has["lengths"]])
        rule = rule_of(resolve(decoded.design.method))
        if rule == DRAFT and len(decoded.design.rankers) > MAX_DRAFTERS:
            rule = NEXT
        _add_lists(buckets, decoded.impressions, decoded.counts, decoded.is_clicked, logged, rule, characters, self)

    def reorder(self, order: list[int]) -> Draws:
        return self._replace(owners=self.owners[:, order], characters=self.characters[:, order])


def rule_of(chosen: ResolvedMethod) -> int:
    """Which lists a method can draw, judged by ranks and owners."""
    method = METHODS[chosen.method.same_lists_as] if chosen.method.same_lists_as else chosen.method
    if method.owners_given_list == DRAFTED:
        return DRAFT
    if method.takes_best:
        return NEXT
    return CONSIDERATE if method.claims.considerate and method.schemes else ANY


@kernel
def _add_ranks(counts: Array, clicked: Array, ranks: Array) -> None:
    for row in range(len(counts)):
        for position in range(min(counts[row], POSITIONS)):
            ranks[position, SHOWN] += 1
            ranks[position, CLICKED] += clicked[row, position]


@kernel
def _add_lists(
    buckets: Array,
    impressions: Impression,
    counts: Array,
    clicked: Array,
    logged: Array,
    rule: int,
    characters: Array,
    into: Draws,
) -> None:
    ranks, teams, owners = impressions.ranks, impressions.teams, into.owners
    rankers = ranks.shape[1]
    shown, depths = np.zeros(rankers, np.uint64), np.zeros(rankers, np.int64)
    for row in range(len(buckets)):
        bucket, count = buckets[row], counts[row]
        has_ranks, has_teams = logged[0, row], logged[1, row]
        is_told = has_ranks or has_teams
        if not has_ranks:  # the owners may be known for clicked documents only
            for position in range(count):
                is_told &= teams[row, position] >= 0
        for position in range(count if is_told else 0):
            owner = teams[row, position] if has_teams else _better(ranks, row, position)
            if owner >= 0:
                owners[bucket, owner, SLOTS] += 1
                owners[bucket, owner, CLICKS] += clicked[row, position]
                if position < characters.shape[1] and characters[row, position] >= 0:
                    into.characters[bucket, owner, TEXTS] += 1
                    into.characters[bucket, owner, LENGTH] += characters[row, position]
        if rule == ANY or not has_ranks:
            continue
        into.lists[DECIDED] += 1
        if rule == DRAFT and has_teams:
            can_be = _walk(row, bucket, impressions, count, clicked, logged[2, row], shown, depths, owners)
        else:
            can_be = _can_be(row, ranks, count, rule, shown)
        into.lists[IMPOSSIBLE] += not can_be


@inline_kernel
def _better(ranks: Array, row: int, position: int) -> int:
    """The ranker with the best rank of a document, -1 for a tie."""
    best, owner = 0, -1
    for ranker in range(ranks.shape[1]):
        rank = ranks[row, ranker, position]
        if rank > 0 and (best == 0 or rank < best):
            best, owner = rank, ranker
        elif rank > 0 and rank == best:
            owner = -1
    return owner


@inline_kernel
def _is_best(rank: int, shown: Any) -> bool:
    """Whether all better documents of a ranker are shown above; `shown` has a bit for each rank shown above."""
    if rank < 1 or rank > _WORD:
        return False
    better = (_ONE << np.uint64(rank - 1)) - _ONE
    return bool(shown & better == better)


@inline_kernel
def _bit(rank: int) -> Any:
    """The bit of a rank in a word; 0 for a rank that does not fit, which no best document has."""
    return _ONE << np.uint64(rank - 1) if 0 < rank <= _WORD else np.uint64(0)


@inline_kernel
def _can_be(row: int, ranks: Array, count: int, rule: int, shown: Array) -> bool:
    """Whether the rule allows the list: each document is the next one of some ranker, or not above its best rank."""
    shown[:] = 0
    for position in range(min(count, _WORD)):
        is_some = False
        for ranker in range(ranks.shape[1]):
            rank = ranks[row, ranker, position]
            is_some |= _is_best(rank, shown[ranker]) if rule != CONSIDERATE else 0 < rank <= position + 1
        if not is_some:
            return False
        for ranker in range(ranks.shape[1]):
            shown[ranker] |= _bit(ranks[row, ranker, position])
    return True


@inline_kernel
def _walk(
    row: int,
    bucket: int,
    impressions: Impression,
    count: int,
    clicked: Array,
    has_lengths: bool,
    shown: Array,
    depths: Array,
    owners: Array,
) -> bool:
    """Whether a draft can produce this list with these owners; counts the slots that a coin flip assigned."""
    ranks, teams, lengths = impressions.ranks, impressions.teams, impressions.lengths
    rankers = ranks.shape[1]
    everyone = (1 << rankers) - 1
    shown[:], depths[:] = 0, 0
    picked, has_rounds, is_fair, in_prefix = 0, has_lengths, True, True
    for position in range(min(count, _WORD)):
        best = able = 0
        for ranker in range(rankers):
            rank = ranks[row, ranker, position]
            in_prefix &= rank == position + 1
            best |= _is_best(rank, shown[ranker]) << ranker
            able |= (depths[ranker] < lengths[row, ranker]) << ranker
        owner = teams[row, position]
        if best == 0 or (owner >= 0 and best >> owner & 1 == 0):
            return False
        if owner < 0:
            has_rounds &= in_prefix  # in a shared prefix, nobody owns the slot; elsewhere it is unknown who picked
        elif has_rounds:
            if able & ~picked == 0:
                picked = 0
            if (able & ~picked) >> owner & 1 == 0:
                return False
            is_fair = (is_fair or picked == 0) and best == everyone
            if is_fair:
                owners[bucket, owner, COIN_SLOTS] += 1
                owners[bucket, owner, COIN_CLICKS] += clicked[row, position]
            picked |= 1 << owner
        for ranker in range(rankers):
            shown[ranker] |= _bit(ranks[row, ranker, position])
            depths[ranker] += ranks[row, ranker, position] > 0
    return True


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


Segment = tuple[str, str]


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
        columns = np.stack([has_event, decoded.is_clicked.sum(axis=1)], axis=1).astype(np.float64)
        self.visits.add(pack(decoded.unit, decoded.time // DAY), 0, decoded.time, every, columns)
        rows = np.flatnonzero(has_event & (decoded.unit & np.uint64((1 << self.contents.level) - 1) == 0))
        contents, clicks = np.zeros(len(rows), np.uint64), decoded.clicks
        first, last = ((1000 * seconds[rows]).astype(np.int64) for seconds in (clicks.first, clicks.last))
        moments = np.stack([decoded.time[rows], first, last], axis=1).view(np.uint64)
        _hash(rows, decoded.unit, moments, decoded.impressions, decoded.counts, decoded.is_clicked, contents)
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
            self._samples[name].merge(units.level, *units.entries)
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
