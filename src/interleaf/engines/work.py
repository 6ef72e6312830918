"""One record batch to scored parts: the piece of the flow that every engine runs, on whatever thread or machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.decode import COLUMNS, INTERLEAVED, LARGE, RELAXED, Decoded, Decoding, Design
from interleaf.decode.attributes import Exclusion, attribute, excluded
from interleaf.decode.columns import codes, column, milliseconds, numbers
from interleaf.errors import MethodError
from interleaf.methods.arrays import Array
from interleaf.methods.table import resolve
from interleaf.score import Scored, Scoring, score
from interleaf.tally import Coded


@dataclass(frozen=True)
class Task:
    """What to make of a log: how to score, what to split by, what to leave out; None: all experiments and versions."""

    scoring: Scoring = field(default_factory=Scoring)
    by: tuple[str, ...] = ()
    exclusion: Exclusion = field(default_factory=Exclusion)
    experiment: str | None = None
    version: int | None = None
    crawlers: Array = field(default_factory=lambda: np.zeros(0, np.uint64))

    def wants(self, design: Design) -> bool:
        """Whether rows of this design were asked for."""
        return self.experiment in (None, design.experiment) and self.version in (None, design.version)

    @property
    def asked(self) -> dict[str, str | int]:
        """What was asked for by name."""
        named = {"experiment": self.experiment, "version": self.version}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are always read."""
        dwell = ("events.dwell",) if self.scoring.counting.dwell is not None else ()
        return (*COLUMNS, *dwell, *(("attributes",) if self.by or self.exclusion.attributes else ()))

    @property
    def spare_columns(self) -> dict[str, tuple[str, ...]]:
        """Large columns, read only where one of these is missing."""
        needs = resolve(self.scoring.method).method.needs if self.scoring.method else ()
        return dict.fromkeys(LARGE, ("ranks", *needs))


class Part(NamedTuple):
    """Rows of one design: scored if they were interleaved; their segments by attribute; what is remarkable of them."""

    decoded: Decoded
    scored: Scored | None
    segments: dict[str, Coded]
    remarks: list[Coded]
    latency: Array

    def only(self, keep: Array) -> Part:
        """The rows that a mask keeps."""
        if keep.all():
            return self
        scored = self.scored and self.scored._replace(
            decoded=self.decoded.only(keep), columns=self.scored.columns[keep], credited=self.scored.credited[keep]
        )
        segments = {name: (numbers[keep], values) for name, (numbers, values) in self.segments.items()}
        remarks = [(numbers[keep], values) for numbers, values in self.remarks]
        return Part(self.decoded.only(keep), scored, segments, remarks, self.latency[keep])


class Worked(NamedTuple):
    """The parts of a batch, and rows that belong to none, by reason."""

    parts: list[Part]
    dropped: Counter[str]


def work(batch: pa.RecordBatch, task: Task, repeated: Array | None = None) -> Iterator[Worked]:
    """Decode and score a batch, part by part, but for rows that are marked as repeated."""
    decoding = Decoding(batch, task.scoring.counting, task.wants, repeated)
    left_out = excluded(batch, decoding.unit, task.exclusion, task.crawlers) if task.exclusion else {}
    segments = {name: attribute(batch, name) for name in task.by}
    remarks = list(_remarks(batch))
    latencies = column(batch, "latency")
    for decoded in decoding:
        for rule, rows in left_out.items():
            marked = rows[decoded.rows]
            if marked.any():
                decoded.dropped[rule] += int(marked.sum())
                decoded = decoded.only(~marked)
        scored, problem = _scored(decoded, task)
        if problem:
            yield Worked([], Counter({problem: len(decoded.rows)}) + decoded.dropped)
            continue
        decoded = scored.decoded if scored else decoded
        rows = decoded.rows
        own = {name: (numbers[rows], values) for name, (numbers, values) in segments.items()}
        noted = [(numbers[rows], values) for numbers, values in remarks]
        latency = milliseconds(latencies, rows, len(decoded.design.rankers))
        yield Worked([Part(decoded, scored, own, noted, latency)], Counter())
    yield Worked([], decoding.dropped)


def _scored(decoded: Decoded, task: Task) -> tuple[Scored | None, str]:
    """Scores where lists were interleaved; or why they cannot be scored."""
    if decoded.design.arm != INTERLEAVED:
        return None, ""
    problem = _unscorable(decoded.design, task)
    return (None, problem) if problem else (score(decoded, task.scoring), "")


def _remarks(batch: pa.RecordBatch) -> Iterator[Coded]:
    """What a report counts besides: lists that were relaxed, and why the control was served."""
    relaxed = column(batch, "relaxed")
    if relaxed is not None:
        yield numbers(relaxed.cast(pa.int8()), 0).astype(np.int32) - 1, [RELAXED]
    causes = column(batch, "fallback_reason")
    if causes is not None:
        found, values = codes(causes)
        yield found, [f"fallback: {value}" for value in values]


def _unscorable(design: Design, task: Task) -> str:
    """Why rows that say they are interleaved cannot be scored, if so."""
    try:
        composed = resolve(design.method)
    except MethodError as error:
        return f"unknown method: {error}"
    if not composed.method.schemes and not task.scoring.method:
        return f"arm {INTERLEAVED!r} with method {design.method}, which compares nothing"
    return ""
