"""What to do with a log, and how one record batch becomes scored parts on any thread or machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.decode import COLUMNS, LARGE, Decoded, Decoding, Design, identities
from interleaf.decode.columns import (
    Exclusion,
    attribute,
    attribute_names,
    by_position,
    codes,
    column,
    excluded_rows,
    milliseconds,
    numbers,
    query_numbers,
    text_column,
)
from interleaf.decode.scoring import Scored, Scoring, score, sum_events
from interleaf.errors import MethodError
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array
from interleaf.log.drop_reasons import DropReason
from interleaf.log.schema import ALONE, INTERLEAVED
from interleaf.methods.registry import resolve
from interleaf.tally import Coded, Fact
from interleaf.tally.units import Seen


def is_frame(log: Any) -> bool:
    """Whether this is a data frame of Spark, without importing Spark."""
    return any(kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame" for kind in type(log).__mro__)


Visits = tuple[Array, Array]  # sorted hashes of units, and the number of impressions of each


def count_visits(batches: Iterable[pa.RecordBatch]) -> Visits:
    """The number of impressions of every unit."""
    parts: list[Visits] = []
    waiting = 0
    for batch in batches:
        array = column(batch, "unit")
        if array is None:
            continue
        names = text_column(array)
        units = buckets.hashes(buckets.UNIT, names.offsets, names.data)[names.there]
        parts.append(np.unique(units, return_counts=True))
        waiting += len(parts[-1][0])
        if waiting > 2 * len(parts[0][0]):  # only when rows have doubled, so that each row is sorted a few times
            parts, waiting = [merge_visits(parts)], 0
    return merge_visits(parts)


def merge_visits(parts: Iterable[Visits]) -> Visits:
    """Add up the counts of all parts by unit."""
    none = np.zeros(0, np.uint64), np.zeros(0, np.int64)
    names, amounts = (np.concatenate(values) for values in zip(none, *parts, strict=True))
    units, places = np.unique(names, return_inverse=True)
    return units, np.bincount(places, weights=amounts, minlength=len(units)).astype(np.int64)


@dataclass(frozen=True)
class Task:
    """How to tally a log: scoring, attributes to split by, exclusions; None: all experiments and versions."""

    scoring: Scoring = field(default_factory=Scoring)
    by: tuple[str, ...] = ()
    exclusion: Exclusion = field(default_factory=Exclusion)
    experiment: str | None = None
    version: int | None = None
    crawlers: Array = field(default_factory=lambda: np.zeros(0, np.uint64))

    def wants(self, design: Design) -> bool:
        return self.experiment in (None, design.experiment) and self.version in (None, design.version)

    @property
    def columns(self) -> tuple[str, ...]:
        dwell = ("events.dwell",) if self.scoring.counting.dwell is not None else ()
        needs = self.scoring.credit.needs if self.scoring.credit is not None else ()
        needs = (*needs, "events.value") if self.scoring.counting.values else needs
        attributes = ("attributes",) if self.by or self.exclusion.attributes else ()
        return tuple(dict.fromkeys((*COLUMNS, *dwell, *needs, *attributes)))

    @property
    def spare_columns(self) -> dict[str, tuple[str, ...]]:
        """Large columns, each with the columns that make it unnecessary."""
        needs = resolve(self.scoring.method).method.needs if self.scoring.method else ()
        unshown = ("unshown_ranks",) if (self.scoring.scheme or "").endswith("_place") else ()
        return dict.fromkeys(LARGE, ("ranks", "lengths", "union", *needs, *unshown))


def find_repeats(batch: pa.RecordBatch, *sets: Seen) -> Array:
    """Which rows hold an impression that is in the first of these sets; all sets get the impressions of the batch."""
    rows, hashes = identities(batch)
    marks = np.zeros(batch.num_rows, np.bool_)
    marks[rows], *_ = [one.repeats(hashes) for one in sets]
    return marks


class ScoredPart(NamedTuple):
    """Rows of one design: scored if they were interleaved; their segments by attribute; facts that a report counts.

    `epochs`: the number of the epoch of each row, if all of them have one.
    """

    decoded: Decoded
    scored: Scored | None
    segments: dict[str, Coded]
    remarks: list[Coded]
    queries: Array
    latency: Array
    characters: Array
    epochs: Array | None = None

    @property
    def arm(self) -> str:
        """The arm in whose sums the rows count. A unit may see one ranker's list in one epoch, and mixed lists in
        another, so that both are one arm where the best of many rankers is chosen.
        """
        arm = self.decoded.design.arm
        return INTERLEAVED if arm == ALONE and self.epochs is not None else arm


class BatchPart(NamedTuple):
    """A part of a batch; or counts that belong to no part: rows `dropped` by reason, and rows of `others`, which are
    experiments and versions that the task does not ask for.

    `attributes`: the names of the batch's attributes, if the task uses any. `examples`: an example value by reason.
    `kinds`: the kinds of the batch's events.
    """

    part: ScoredPart | None
    dropped: Counter[str]
    others: Mapping[tuple[str, int], int] = MappingProxyType({})
    attributes: frozenset[str] = frozenset()
    examples: Mapping[str, str] = MappingProxyType({})
    kinds: frozenset[str] = frozenset()


def process_batch(batch: pa.RecordBatch, task: Task, repeated: Array | None = None) -> Iterator[BatchPart]:
    """Decode and score a batch in parts, without the rows that are marked as repeated."""
    if task.scoring.credit is not None:
        task = replace(task, scoring=replace(task.scoring, credit=task.scoring.credit.on(batch)))
    decoding = Decoding(batch, task.scoring.counting, task.wants, repeated, task.scoring.credit is not None)
    for rule, rows in excluded_rows(batch, decoding.unit, task.exclusion, task.crawlers).items():
        decoding.leave_out(rule, rows)
    segments = {name: attribute(batch, name) for name in task.by}
    remarks = list(_remarks(batch))
    queries = query_numbers(batch)
    latencies, characters = column(batch, "latency"), column(batch, "characters")
    epoch = column(batch, "epoch")
    epochs = None if epoch is None else numbers(epoch, -1)
    for decoded in decoding:
        scored = None
        if decoded.design.arm == INTERLEAVED:
            if problem := _why_unscorable(decoded.design, task):
                yield BatchPart(None, Counter({problem: len(decoded.rows)}) + decoded.dropped)
                continue
            scored = score(decoded, task.scoring)
        elif decoded.design.is_one_list:
            scored = sum_events(decoded, task.scoring.counting.weights)
        decoded = decoded if scored is None else scored.decoded
        rows = decoded.rows
        own = {name: (numbers[rows], values) for name, (numbers, values) in segments.items()}
        own_remarks = [(numbers[rows], values) for numbers, values in remarks]
        latency = milliseconds(latencies, rows, len(decoded.design.rankers))
        lengths = by_position(characters, rows, decoded.counts)
        of_rows = None if epochs is None or (epochs[rows] < 0).any() else epochs[rows].astype(np.int64)
        scored_part = ScoredPart(decoded, scored, own, own_remarks, queries[rows], latency, lengths, of_rows)
        yield BatchPart(scored_part, Counter())
    names = attribute_names(batch) if task.by or task.exclusion.attributes else frozenset()
    yield BatchPart(None, decoding.dropped, decoding.others, names, decoding.examples, decoding.kinds)


def _remarks(batch: pa.RecordBatch) -> Iterator[Coded]:
    """Facts that a report counts: relaxed lists, and why the control was served."""
    relaxed = column(batch, "relaxed")
    if relaxed is not None:
        yield numbers(relaxed.cast(pa.int8()), 0).astype(np.int32) - 1, [Fact.RELAXED]
    causes = column(batch, "fallback_reason")
    if causes is not None:
        places, values = codes(causes)
        yield places, [Fact.FALLBACK.of(value) for value in values]


def _why_unscorable(design: Design, task: Task) -> str:
    """The reason why rows of the interleaved arm cannot be scored; '' if they can."""
    try:
        composed = resolve(design.method)
    except MethodError as error:
        return DropReason.UNKNOWN_METHOD.of(error)
    if not composed.method.schemes and not task.scoring.method:
        return DropReason.NOT_INTERLEAVED.of(design.method)
    return DropReason.ONE_RANKER if len(design.rankers) < 2 else ""
