"""A tally: everything that a report needs from a log, in a size that does not grow with it. Tallies can be added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from interleaf.decode import Decoded
from interleaf.decode.scoring import Scored
from interleaf.errors import DataError
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array
from interleaf.log.schema import ALONE, INTERLEAVED
from interleaf.stable_codes import Code
from interleaf.tally import tally_file
from interleaf.tally.bucket_sums import QUERIES, About, ArmSums, ListSums, ScoreSums
from interleaf.tally.choice_sums import ChoiceSums
from interleaf.tally.evidence import Evidence
from interleaf.tally.exposure_sums import ExposureSums
from interleaf.tally.slices import Segments, Slices
from interleaf.tally.units import ARMS, SUMS, Sample, UnitSums, pack

Coded = tuple[Array, list[str]]  # an index for each row, or -1 for no value; and the values
MAX_ARMS = 60
QUERY_ROOM = 2**18  # maximum number of sums, over all units and queries


class Fact(Code):
    """Codes of what a tally counts or notes besides sums."""

    OWN_UNIT = "own_unit", "impressions that are their own unit"
    SHARED = "shared_impression", "impressions that two added tallies share"
    RELAXED = "relaxed_list", "relaxed lists"
    FALLBACK = "fallback", "lists of the control, because a ranker failed: {}"
    UNMATCHED = "unmatched_event", "unmatched events: {}"
    IDLE = "idle_event", "of a kind that counts nowhere"
    OTHER_RANKERS = "other_rankers", "another set of rankers"
    OTHER_METHOD = "other_method", "another method"
    OTHER_EXPERIMENT = "other_experiment", "another experiment of nearly the same name"
    OTHER_VERSION = "other_version", "another version"
    CONCURRENT = "concurrent_version", "impressions of another version while the analysed version ran"
    ASSUMED = "assumed", "read as: {}"
    NO_MATCH = "no_match", "matches nothing in the log: {}"
    EXAMPLE = "example", "not used: {}"
    UNSPLIT = "too_many_segments", "more segments than can be reported on; none is"


@dataclass(eq=False)
class Tally:
    """Everything that a report needs from a log, in a size that does not grow with it.

    `queries` has the sums of each unit in each query, for a sample of units. `choice` has the sums by epoch, if the
    best of many rankers is chosen; then the tally has no rankers and no scores.
    """

    about: About
    scores: ScoreSums
    units: UnitSums
    slices: Slices
    lists: ListSums
    exposure: ExposureSums
    sample: Sample
    segments: Segments
    queries: UnitSums
    evidence: Evidence
    choice: ChoiceSums = field(default_factory=ChoiceSums)
    arms: dict[str, ArmSums] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    facts: Counter[str] = field(default_factory=Counter)
    since: int | None = None
    until: int | None = None

    @classmethod
    def empty(cls, about: About) -> Tally:
        rankers = len(about.rankers)
        scores = ScoreSums.empty(rankers, about.linear)
        columns = scores.sums.shape[1]
        lists, exposure = ListSums.empty(rankers), ExposureSums.empty(rankers, about.examination)
        tables = Segments(columns), UnitSums(columns, max(1024, QUERY_ROOM // (columns + SUMS - 1))), Evidence(rankers)
        return cls(about, scores, UnitSums(columns), Slices(columns), lists, exposure, Sample(), *tables)

    @property
    def impressions(self) -> int:
        return sum(int(arm.measures[:, QUERIES].sum()) for arm in self.arms.values())

    def add(
        self,
        decoded: Decoded,
        scored: Scored | None,
        segments: Mapping[str, Coded],
        queries: Array,
        latency: Array,
        characters: Array,
    ) -> None:
        """Add rows of one design, with scores if they compare rankers.

        `segments` are the rows' values by attribute, `queries` the numbers of their queries, `latency[row, ranker]` are
        milliseconds, and `characters[row, position]` the length of a text, -1 if it is not known.
        """
        if not len(decoded.rows):
            return
        unit_buckets = buckets.buckets(decoded.unit)
        arm = self.number_of(decoded.design.arm)
        self.arms[decoded.design.arm].add(unit_buckets, decoded, latency)
        self.evidence.add(unit_buckets, decoded)
        self.facts[Fact.OWN_UNIT] += int(decoded.alone.sum())
        low, high = int(decoded.time.min()), int(decoded.time.max())
        self.since = low if self.since is None else min(low, self.since)
        self.until = high if self.until is None else max(high, self.until)
        if scored is None:
            none = np.zeros(len(decoded.rows), np.bool_)
            columns = np.zeros((1, self.units.columns))
            self.units.add(decoded.unit, arm, decoded.time, none, columns)
            return
        self.lists.add(unit_buckets, decoded, latency)
        self.exposure.add(unit_buckets, decoded, self.about.examination)
        self.evidence.add_lists(unit_buckets, decoded, segments, characters)
        if self.about.sessions is None:
            clicked = decoded.has_event
            self.add_scores(decoded.unit, decoded.time, clicked, scored.columns, scored.owners, decoded.design.arm)
            rows = np.flatnonzero(clicked & (queries >= 0))
            cells, always = pack(decoded.unit[rows], queries[rows]), np.ones(len(rows), np.bool_)
            self.queries.add(cells, 0, decoded.time[rows], always, scored.columns[rows])
            for attribute, (codes, values) in segments.items():
                self.segments.add(attribute, codes, values, decoded.unit, clicked, scored.columns)

    def add_choice(self, decoded: Decoded, scored: Scored | None, epochs: Array, latency: Array) -> None:
        """Add rows of an experiment that chooses the best of many rankers, each with its epoch."""
        self.choice.add_rows(decoded.design.rankers, decoded, scored, epochs)
        if decoded.design.arm == ALONE:  # a unit may see one ranker's list in one epoch, and mixed lists in another
            decoded = decoded._replace(design=decoded.design._replace(arm=INTERLEAVED))
        none = np.zeros(len(decoded.rows))
        self.add(decoded, None, {}, none, latency, none)

    def add_scores(
        self,
        unit: Array,
        time: Array,
        clicked: Array,
        columns: Array,
        owners: Array | None = None,
        arm: str = INTERLEAVED,
    ) -> None:
        """Add scores of impressions or of sessions, and the credit of the drawn owners if wins are counted by it."""
        self.scores.add(buckets.buckets(unit), clicked, columns, self.about, owners)
        self.slices.add(time, unit, clicked, columns)
        self.units.add(unit, self.number_of(arm), time, clicked, columns)

    def remark(self, remarks: Iterable[Coded]) -> None:
        """Count facts about rows, by name."""
        for codes, names in remarks:
            for code, number in zip(*np.unique(codes[codes >= 0], return_counts=True), strict=True):
                self.facts[names[code]] += int(number)

    def number_of(self, name: str) -> int:
        """The number of an arm: the bit that marks it in the sums of a unit."""
        if name not in self.arms:
            if len(self.arms) >= MAX_ARMS:
                raise DataError(f"the log has more than {MAX_ARMS} arms, such as {name!r}; use fewer arms")
            self.arms[name] = ArmSums.empty(len(self.about.guarded))
        return list(self.arms).index(name)

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        one = as_if(self, other.about) if other.about.is_comparison and not self.about.is_comparison else self
        other = as_if(other, one.about) if one.about.is_comparison and not other.about.is_comparison else other
        _check(one.about, other.about)
        rankers = min(one.about.rankers, other.about.rankers)
        return absorb(reorder(one, rankers), reorder(other, rankers))

    def save(self, path: str | Path) -> None:
        """Write the tally to a file (.tally), which `Tally.load` reads if it has the same version of the format."""
        tally_file.save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Tally:
        """Read a tally from a file."""
        return tally_file.load(path, cls)


Sums = TypeVar("Sums", ScoreSums, ArmSums, ListSums, ExposureSums)


def absorb(total: Tally, more: Tally) -> Tally:
    """Add `more`, which has the same rankers, to `total` in place, and return `total`."""
    total.about = replace(total.about, composed=total.about.composed or more.about.composed)
    total.scores = add_sums(total.scores, more.scores)
    total.lists = add_sums(total.lists, more.lists)
    total.exposure = add_sums(total.exposure, more.exposure)
    total.slices.merge(more.slices)
    total.evidence.merge(more.evidence)
    hashes, values = more.units.entries
    numbers = [total.number_of(name) for name in more.arms]  # arms may have other numbers in `more`
    values[:, ARMS] = sum((values[:, ARMS] >> bit & 1) << number for bit, number in enumerate(numbers))
    total.units.merge(more.units.level, hashes, values)
    total.segments.merge(more.segments)
    total.queries.merge(more.queries.level, *more.queries.entries)
    total.choice.merge(more.choice)
    for name, arm in more.arms.items():
        total.arms[name] = add_sums(total.arms[name], arm) if name in total.arms else arm
    shared = total.sample.merge(more.sample)
    for name in ("dropped", "events", "facts"):
        getattr(total, name).update(getattr(more, name))
    if shared:
        total.facts[Fact.SHARED] += shared
    total.since = min((time for time in (total.since, more.since) if time is not None), default=None)
    total.until = max((time for time in (total.until, more.until) if time is not None), default=None)
    return total


def add_sums(one: Sums, other: Sums) -> Sums:
    """Add two sums of the same shape, field by field."""
    return type(one)(*(mine + theirs for mine, theirs in zip(one, other, strict=True)))


def reorder(tally: Tally, rankers: Sequence[str]) -> Tally:
    """A copy with the rankers in another order."""
    copy = deepcopy(tally)
    if tuple(rankers) == tally.about.rankers:
        return copy
    order, linear = [tally.about.rankers.index(ranker) for ranker in rankers], tally.about.linear
    copy.about = replace(tally.about, rankers=tuple(rankers))
    copy.scores = copy.scores.reorder(order, linear)
    copy.lists, copy.exposure = copy.lists.reorder(order), copy.exposure.reorder(order)
    copy.evidence.reorder(order)
    for units in (copy.units, copy.slices.cells, copy.segments.cells, copy.queries):
        units.reorder(order, linear)
    return copy


def as_if(tally: Tally, about: About) -> Tally:
    """Convert a tally without scores, such as of a holdout, so that it can be added to one with scores."""
    own = tally.about
    combined = replace(about, experiment=own.experiment, version=own.version, rankers=own.rankers, composed="")
    combined = replace(combined, guarded=own.guarded, joined=own.joined)
    total = type(tally).empty(combined)
    hashes, rows = tally.units.entries
    values = np.zeros((tally.units.size, SUMS + total.units.columns), np.int64)
    values[:, :SUMS] = rows[:, :SUMS]
    total.units.merge(tally.units.level, hashes, values)
    for name in ("arms", "sample", "evidence", "dropped", "events", "facts", "since", "until"):
        setattr(total, name, deepcopy(getattr(tally, name)))
    return total


def _check(one: About, other: About) -> None:
    for name in (one_field.name for one_field in fields(About)):
        mine, theirs = getattr(one, name), getattr(other, name)
        if name == "rankers":
            mine, theirs = sorted(mine), sorted(theirs)
        if mine != theirs and not (name == "composed" and "" in (mine, theirs)):
            problem = f"these tallies cannot be added: their {name} differ, {mine!r} and {theirs!r}"
            raise DataError(f"{problem}; tally both logs in the same way")
