"""A log that is read again and again, each time for other sums: on this machine, or on Spark's executors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from os import PathLike
from typing import Any, Generic, Protocol, Self, TypeVar

import pyarrow as pa

from interleaf import log
from interleaf.engines import local, spark
from interleaf.engines.choice import SPARK, chosen
from interleaf.engines.packed import of_bytes
from interleaf.engines.work import Task, repeats
from interleaf.kernels.arrays import Array
from interleaf.tally.seen import Sample, Seen


class Sums(Protocol):
    """What a pass adds up, and how many rows could not be used, by reason."""

    dropped: Counter[str]

    def merge(self, other: Self) -> None:
        """Count those of the next part of the log in."""
        ...


S = TypeVar("S", bound=Sums)
T = TypeVar("T", bound=Task)


class Passes(Generic[T]):
    """A log and what to read of it; a stream is held in memory, since it comes only once."""

    def __init__(self, source: Any, task: T, engine: str | None = None, progress: log.Progress | None = None) -> None:
        self._task, self._progress = task, progress
        self.on_spark = chosen(engine, source) == SPARK
        if self.on_spark:
            self._source = spark.opened(source)
        else:
            self._source = source if _is_lasting(source) else _held(source, task)

    def summed(self, empty: S, count: Callable[[S, pa.RecordBatch, T, Array], None]) -> S:
        """The sums of the whole log: `count` adds a batch, but for the rows that are marked, which came before."""
        if self.on_spark:
            found: S = of_bytes(spark.summed(self._source, self._task, partial(_counted, empty, count), _merged))
            found.dropped += self._source.pages.dropped
            return found
        task, reading, batches = local.opened(self._source, self._task, Sample(), self._progress)
        for batch, repeated in batches:
            count(empty, batch, task, repeated)
        empty.dropped += reading.dropped
        return empty


def _counted(empty: Any, count: Any, task: Task, batches: Iterator[pa.RecordBatch], seen: Seen) -> Any:
    """The sums of a part, on an executor."""
    sums = deepcopy(empty)
    for batch in batches:
        count(sums, batch, task, repeats(batch, seen))
    return sums


def _merged(one: Any, other: Any) -> Any:
    one.merge(other)
    return one


def _is_lasting(source: Any) -> bool:
    """Whether it can be read twice; a stream cannot."""
    if isinstance(source, (str, PathLike, pa.Table, pa.RecordBatch)):
        return True
    return isinstance(source, Sequence) and all(isinstance(one, (str, PathLike)) for one in source)


def _held(source: Any, task: Task) -> pa.Table:
    """A stream in memory."""
    return pa.Table.from_batches(list(log.read(source, task.columns)))
