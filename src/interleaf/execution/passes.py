"""Reads a log several times, each time for different sums, on this machine or on Spark; groups rows by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from interleaf import log
from interleaf.execution import local, spark
from interleaf.execution.options import LogOptions
from interleaf.execution.task import Task, find_repeats
from interleaf.kernels.arrays import Array
from interleaf.log.reader import is_paths
from interleaf.tally.units import Sample, Seen


class Groups:
    """Groups rows by their keys while a log is read, and combines each value by its rule.

    To save memory, rows are grouped whenever their number has doubled.
    """

    def __init__(self, keys: int, rules: Sequence[str]) -> None:
        self._keys, self._rules = keys, tuple(rules)
        self._parts: list[list[Array]] = []
        self._least, self._waiting = 0, 0

    def add(self, columns: list[Array]) -> None:
        """Add rows: columns of keys first, then of values."""
        self._parts.append(self._group(columns))
        self._waiting += len(columns[0])
        if self._waiting > 2 * self._least:
            self._parts = [self.columns]
            self._least = self._waiting = len(self._parts[0][0])

    def merge(self, other: Groups) -> None:
        for columns in other._parts:
            self.add(columns)

    @property
    def columns(self) -> list[Array]:
        """The columns of keys, then of values, sorted by key."""
        columns = self._group([np.concatenate(parts) for parts in zip(*self._parts, strict=True)])
        order = np.lexsort(columns[: self._keys])
        return [column[order] for column in columns]

    def _group(self, columns: list[Array]) -> list[Array]:
        return group_rows(columns[: self._keys], list(zip(columns[self._keys :], self._rules, strict=True)))


def group_rows(keys: Sequence[Array], values: Sequence[tuple[Array, str]]) -> list[Array]:
    """Combine rows with the same keys, each value by its rule (`sum`, `min`, `max`); the result is not sorted."""
    names = [f"key {place}" for place in range(len(keys))]
    columns = dict(zip(names, keys, strict=True)) | {f"{place}": array for place, (array, _) in enumerate(values)}
    rules = [(f"{place}", rule) for place, (_, rule) in enumerate(values)]
    groups = pa.table(columns).group_by(names, use_threads=False).aggregate(rules)
    return [groups.column(name).to_numpy() for name in [*names, *(f"{place}_{rule}" for place, rule in rules)]]


class PassSums(Protocol):
    """The sums of a pass, and the number of rows that could not be used, by reason."""

    dropped: Counter[str]

    def merge(self, other: Self) -> None:
        """Add the sums of the next part of the log."""
        ...


class MergeableSums:
    """Sums whose attributes named in `merged` can be added: arrays, numbers, lists, counters, and other such sums.

    >>> class Pages(MergeableSums):
    ...     merged = ("count",)
    ...
    ...     def __init__(self, count):
    ...         self.count = count
    >>> one = Pages(2)
    >>> one.merge(Pages(3))
    >>> one.count
    5
    """

    merged: ClassVar[tuple[str, ...]]

    def merge(self, other: Self) -> None:
        """Add the sums of the next part of the log."""
        for name in self.merged:
            mine, theirs = getattr(self, name), getattr(other, name)
            for one, another in [(mine[key], theirs[key]) for key in mine] if type(mine) is dict else [(mine, theirs)]:
                if isinstance(one, Counter):
                    one.update(another)
                elif hasattr(one, "merge"):
                    one.merge(another)
                elif one is not None:
                    setattr(self, name, one + another)


S = TypeVar("S", bound=PassSums)
T = TypeVar("T", bound=Task)


class Passes(Generic[T]):
    """A log and what to read from it. A stream can be read only once, so it is held in memory, unless `once` is set."""

    def __init__(self, source: Any, task: T, options: LogOptions, once: bool = False) -> None:
        self._task, self._progress = task, options.progress
        self.on_spark = options.uses_spark(source)
        if self.on_spark:
            self._source = spark.open_log(source)
        else:
            reads_source = once or isinstance(source, pa.Table | pa.RecordBatch) or is_paths(source)
            self._source = source if reads_source else pa.Table.from_batches(list(log.read(source, task.columns)))

    def add_up(self, empty: S, count: Callable[[S, pa.RecordBatch, T, Array], None]) -> S:
        """The sums of the whole log: `count` adds a batch, except rows that are marked as repeated."""
        if self.on_spark:
            sums: S = spark.sum_parts(self._source, self._task, partial(_count_part, empty, count))
            sums.dropped += self._source.pages.dropped
            return sums
        task, reading, batches = local.open_log(self._source, self._task, Sample(), self._progress)
        for batch, repeated in batches:
            count(empty, batch, task, repeated)
        empty.dropped += reading.dropped
        return empty


def _count_part(empty: Any, count: Any, task: Task, batches: Iterator[pa.RecordBatch], earlier: Seen) -> Any:
    """The sums of a part, on an executor."""
    sums = deepcopy(empty)
    for batch in batches:
        count(sums, batch, task, find_repeats(batch, earlier))
    return sums
