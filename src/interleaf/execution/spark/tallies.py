"""Tallies a log on Spark; other sums that add up are computed in the same way."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.environment import require
from interleaf.errors import DataError
from interleaf.execution.collector import Group, TallyCollector, entry_of
from interleaf.execution.session_rows import Waiting
from interleaf.execution.spark import repeats as of_log
from interleaf.execution.spark.partitions import (
    Files,
    Frame,
    Item,
    Packed,
    added,
    in_bins,
    of_bytes,
    packed,
    schema_in_utc,
    to_bytes,
    unpacked,
)
from interleaf.execution.spark.repeats import join_pages
from interleaf.execution.task import Task, frequent, is_frame, repeats, together, visits, work
from interleaf.kernels.arrays import Array
from interleaf.log.arrow import checked
from interleaf.log.projection import Projection
from interleaf.log.schema import assumptions_of
from interleaf.tally import About, Tally
from interleaf.tally.tally import absorb
from interleaf.tally.units import Sample, Seen

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

CACHE = "NUMBA_CACHE_DIR"


def session() -> SparkSession:
    """The active session, as a notebook or `spark-submit` has one; else a new one, of the master that Spark is set to.

    Python workers of a new one are this Python, unless PYSPARK_PYTHON says otherwise, and keep compiled kernels where
    this process does.
    """
    require("spark", "the engine 'spark' needs", "pyspark")
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    building = SparkSession.builder.appName("interleaf")
    if CACHE in os.environ:
        building = building.config(f"spark.executorEnv.{CACHE}", os.environ[CACHE])
    try:
        return building.getOrCreate()
    except PySparkRuntimeError as problem:
        raise DataError(
            f"Spark does not start: {problem}; it needs Java 17 or later, and JAVA_HOME to say where"
        ) from None


def by_unit(about: About, task: Task, number: int, batches: Iterator[pa.RecordBatch], seen: Seen) -> Iterator[Item]:
    """The rows of a part that belong to a tally, in parts that share no unit, with the number of the part."""
    waiting = _waiting(about)
    for batch in batches:
        for worked in work(batch, task, repeats(batch, seen)):
            if worked.part is not None and entry_of(worked.part.decoded.design).group == _group(about):
                waiting.add(worked.part)
    for place, (names, rows) in enumerate(waiting.parts()):
        if len(rows):
            yield place, (number, names, rows)


def tallied(
    about: About, arms: Sequence[str], timeout: float, number: int, items: Iterable[Packed]
) -> Iterator[Packed]:
    """The sessions of some units in a tally of their own, rows in the order of the log."""

    def tallies() -> Iterator[Item]:
        waiting, tally = _waiting(about), Tally.empty(about)
        for name in arms:
            tally.number_of(name)
        for _, names, rows in sorted((value for _, value in unpacked(items)), key=lambda value: value[0]):
            waiting.take(names, rows)
        waiting.count(tally, timeout)
        yield number, tally

    return packed(number, tallies)


def add_tallies(one: Tally, other: Tally) -> Tally:
    """Both together, in the first."""
    absorb(one, other)
    return one


def _group(about: About) -> Group:
    return about.experiment, about.version, frozenset(about.rankers)


def _waiting(about: About) -> Waiting:
    return Waiting(sorted(about.rankers))


MOST = 2**40  # impressions of one partition that are told apart: all of them
Count = Callable[[Task, Iterator[pa.RecordBatch], Seen], Any]
Make = Callable[[Task, int, Iterator[pa.RecordBatch], Seen], Iterable[Item]]
Add = Callable[[Any, Any], Any]


class Sums(NamedTuple):
    """A part's book, and the sample of its impressions."""

    book: TallyCollector
    sample: Sample


def tally_log(source: Any, task: Task, parts: int = 0) -> Tally:
    """The tally of one experiment of a log: the one that the local engine gives.

    `parts`: into how many the files are cut, where row groups allow; by default as many as there are cores, and more
    where they would hold more than two million rows each.
    """
    rows = opened(source, parts)
    sums: Sums = of_bytes(summed(rows, task, counted, added_sums))
    if sums.book.lacks_ranks and task.scoring.scheme is None:
        task = replace(task, scoring=replace(task.scoring, rankless=True))
        sums = of_bytes(summed(rows, task, counted, added_sums))
    sums.book.assume(rows.assumptions)
    sums.book.dropped += rows.pages.dropped
    sums.book.events += rows.pages.events
    tally = sums.book.finish()
    tally.sample = sums.sample
    if task.scoring.sessions is not None:
        _add_sessions(rows, task, tally)
    return tally


def opened(source: Any, parts: int = 0) -> Files | Frame:
    """The rows of a log, checked, as executors will read them: of Parquet files, or of a data frame of Spark."""
    if not is_frame(source):
        return join_pages(Files(session(), source, parts))
    from pyspark.sql.pandas.types import to_arrow_schema

    found = schema_in_utc(to_arrow_schema(source.schema, timezone="UTC"))
    checked(found, "the given data frame")
    rows = join_pages(Frame(source))
    rows.assumptions = assumptions_of(found)
    return rows


def summed(rows: Files | Frame, task: Task, count: Count, add: Add) -> bytes:
    """What `count` makes of every part, added up on the executors: packed, as the driver gets it."""
    found = added(_items(rows, task, partial(_counted, count)), add)
    return to_bytes(count(task, iter(()), Seen())) if found is None else _sound(found)


def _sound(found: bytes) -> bytes:
    list(unpacked([(0, found)]))  # raises what went wrong
    return found


def _counted(count: Count, task: Task, number: int, batches: Iterator[pa.RecordBatch], seen: Seen) -> Iterable[Item]:
    return [(number, count(task, batches, seen))]


def _items(rows: Files | Frame, task: Task, make: Make) -> RDD[Packed]:
    """What is made of every part, with repeats left out.

    The partitions of a data frame have no order and may be other ones when it is computed again: so where impressions
    came twice, it is shuffled by impression, and of each the earliest is kept.
    """
    if task.exclusion.max_impressions is not None:
        task = replace(task, crawlers=_crawlers(rows, task.exclusion.max_impressions))
    projection = Projection(task.columns, task.spare_columns)
    if isinstance(rows, Files):
        return rows.with_notes(of_log.notes_of(rows), projection, partial(_of_part, make, task))
    if of_log.has_repeats(rows):
        return rows.gathered_by("impression", "time").each(projection, partial(_of_partition, make, task, MOST))
    return rows.each(projection, partial(_of_partition, make, task, 0))


def _of_part(
    make: Make, task: Task, number: int, batches: Iterator[pa.RecordBatch], notes: list[Any]
) -> Iterable[Item]:
    return make(task, number, batches, of_log.Shared(notes))


def _of_partition(make: Make, task: Task, room: int, number: int, batches: Iterator[pa.RecordBatch]) -> Iterable[Item]:
    return make(task, number, batches, Seen(room) if room else of_log.Shared([]))


def _add_sessions(rows: Files | Frame, task: Task, total: Tally) -> None:
    """Count sessions into the tally of a log: its rows meet by unit, on executors, and what comes here are sums."""
    waiting = _items(rows, task, partial(by_unit, total.about)).partitionBy(rows.bins)
    timeout = task.scoring.sessions or 0.0
    tallies = waiting.mapPartitionsWithIndex(partial(tallied, total.about, list(total.arms), timeout))
    found = added(tallies, add_tallies)
    if found is not None:
        absorb(total, of_bytes(_sound(found)))


def counted(task: Task, batches: Iterator[pa.RecordBatch], seen: Seen) -> Sums:
    """Rows in a book, but for those that came before."""
    book, sample = TallyCollector(task, waits=False), Sample()
    for batch in batches:
        for worked in work(batch, task, repeats(batch, seen, sample)):
            book.add(worked)
    return Sums(book, sample)


def added_sums(one: Sums, other: Sums) -> Sums:
    """Both together, in the first."""
    one.book.merge(other.book)
    one.sample.merge(other.sample)
    return one


def _crawlers(rows: Files | Frame, most: int) -> Array:
    """The hashes of units with more impressions than that, in order."""
    units = rows.each(Projection(("unit",), {}), partial(_units, rows.bins)).partitionBy(rows.bins)
    found = unpacked(units.mapPartitionsWithIndex(partial(_frequent, most)).collect())
    return np.sort(np.concatenate([np.zeros(0, np.uint64), *(value for _, value in found)]))


def _units(bins: int, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Item]:
    units, counts = visits(batches)
    for place, some in in_bins(units, bins):
        yield place, (units[some], counts[some])


def _frequent(most: int, number: int, items: Iterable[Packed]) -> Iterator[Packed]:
    return packed(number, lambda: [(number, frequent(together(value for _, value in unpacked(items)), most))])
