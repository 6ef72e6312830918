"""Tallies a log on Spark; other sums that add up are computed in the same way."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from interleaf.environment import require
from interleaf.errors import DataError
from interleaf.execution.collector import SessionRows, TallyCollector, tally_key
from interleaf.execution.spark.partitions import (
    Files,
    Frame,
    Item,
    Packed,
    SharedHashes,
    has_repeats,
    in_bins,
    join_pages,
    map_values,
    notes_of,
    schema_in_utc,
    sum_items,
    unpack_items,
)
from interleaf.execution.task import Task, Visits, count_visits, find_repeats, is_frame, merge_visits, process_batch
from interleaf.kernels.arrays import Array
from interleaf.log.arrow import check_schema
from interleaf.log.schema import Projection, assumptions_of
from interleaf.tally import About, Tally
from interleaf.tally.tally import absorb
from interleaf.tally.units import Seen

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

CACHE = "NUMBA_CACHE_DIR"
ALL = 2**40  # room for all impressions of a partition


def session() -> SparkSession:
    """The active session, as in a notebook or `spark-submit`; else a new one with the configured master.

    Python workers of a new session use this Python, unless PYSPARK_PYTHON is set, and the same folder for compiled
    kernels as this process.
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
            f"Spark does not start: {problem}; it needs Java 17 or later, and JAVA_HOME must be set to its folder"
        ) from None


def by_unit(about: About, task: Task, number: int, batches: Iterator[pa.RecordBatch], earlier: Seen) -> Iterator[Item]:
    """The rows of a part that belong to a tally, in parts that share no unit, with the number of the part."""
    session_rows = SessionRows(sorted(about.rankers) if task.scoring.sessions is not None else ())
    group = about.experiment, about.version, frozenset(about.rankers)
    for batch in batches:
        for processed in process_batch(batch, task, find_repeats(batch, earlier)):
            part = processed.part
            if part is not None and tally_key(part.decoded.design, part.epochs is not None).group == group:
                session_rows.add(part)
    for place, (names, rows) in enumerate(session_rows.parts()):
        if len(rows):
            yield place, (number, names, rows)


def tally_sessions(
    about: About, arms: Sequence[str], timeout: float, number: int, parts: list[tuple[int, list[str], Array]]
) -> Iterator[Item]:
    """Tally the sessions of some units; their rows are in the order of the log."""
    session_rows = SessionRows(sorted(about.rankers) if about.sessions is not None else ())
    tally = Tally.empty(about)
    for name in arms:
        tally.number_of(name)
    for _, names, rows in sorted(parts, key=lambda part: part[0]):
        session_rows.take(names, rows)
    session_rows.count([tally], timeout)
    yield number, tally


Count = Callable[[Task, Iterator[pa.RecordBatch], Seen], Any]
Make = Callable[[Task, int, Iterator[pa.RecordBatch], Seen], Iterable[Item]]


def tally_log(source: Any, task: Task, parts: int = 0) -> Tally:
    """The tally of one experiment of a log, equal to that of the local engine.

    `parts` is the number of parts into which the files are split, if their row groups allow it. By default, it is the
    number of cores, or a multiple of it, so that a part has at most about two million rows.
    """
    rows = open_log(source, parts)
    collector = sum_parts(rows, task, count_part)
    if collector.lacks_ranks and task.scoring.scheme is None:
        task = replace(task, scoring=replace(task.scoring, lacking=frozenset({"ranks"})))
        collector = sum_parts(rows, task, count_part)
    collector.assume(rows.counts.assumptions)
    collector.examples |= rows.counts.examples
    collector.dropped += rows.pages.dropped + rows.counts.dropped
    collector.events += rows.pages.events + rows.counts.events
    tally: Tally = collector.finish()
    if task.scoring.gap is not None:
        _add_sessions(rows, task, tally)
    return tally


def open_log(source: Any, parts: int = 0) -> Files | Frame:
    """Check a log (Parquet files, or a data frame of Spark), and prepare its rows for executors."""
    if not is_frame(source):
        return join_pages(Files(session(), source, parts))
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = schema_in_utc(to_arrow_schema(source.schema, timezone="UTC"))
    check_schema(schema, "the given data frame")
    rows = join_pages(Frame(source))
    rows.counts.assumptions |= dict.fromkeys(assumptions_of(schema))
    return rows


def sum_parts(rows: Files | Frame, task: Task, count: Count) -> Any:
    """The results of `count` for every part, added up on the executors by their method `merge`."""

    def count_numbered(task: Task, number: int, batches: Iterator[pa.RecordBatch], earlier: Seen) -> Iterable[Item]:
        return [(number, count(task, batches, earlier))]

    def add(one: Any, other: Any) -> Any:
        one.merge(other)
        return one

    total = sum_items(_items(rows, task, count_numbered), add)
    return count(task, iter(()), Seen()) if total is None else total


def _items(rows: Files | Frame, task: Task, make: Make) -> RDD[Packed]:
    """The results of `make` for every part, without repeated impressions.

    The partitions of a data frame have no order and may change when it is computed again. So if impressions are
    repeated, it is shuffled by impression, and only the earliest row of each is used.
    """
    if task.exclusion.max_impressions is not None:
        task = replace(task, crawlers=_crawlers(rows, task.exclusion.max_impressions))
    projection = Projection(task.columns, task.spare_columns)
    if isinstance(rows, Files):
        return rows.with_notes(
            notes_of(rows), projection, lambda number, batches, notes: make(task, number, batches, SharedHashes(notes))
        )
    if has_repeats(rows):
        rows = rows.gathered_by("impression", "time")
        return rows.each(projection, lambda number, batches: make(task, number, batches, Seen(ALL)))
    return rows.each(projection, lambda number, batches: make(task, number, batches, SharedHashes([])))


def _add_sessions(rows: Files | Frame, task: Task, total: Tally) -> None:
    """Add sessions to the tally of a log. Rows are shuffled by unit, and the driver gets only sums."""
    rows_by_unit = _items(rows, task, partial(by_unit, total.about)).partitionBy(rows.bins)
    count = partial(tally_sessions, total.about, list(total.arms), task.scoring.gap or 0.0)
    sessions = sum_items(map_values(rows_by_unit, count), absorb)
    if sessions is not None:
        absorb(total, sessions)


def count_part(task: Task, batches: Iterator[pa.RecordBatch], earlier: Seen) -> TallyCollector:
    """The tallies of a part, without repeated rows."""
    collector = TallyCollector(task, joins_sessions=False)
    for batch in batches:
        for processed in process_batch(batch, task, find_repeats(batch, earlier, collector.sample)):
            collector.add(processed)
    return collector


def _crawlers(rows: Files | Frame, most: int) -> Array:
    """The sorted hashes of units with more than `most` impressions."""
    units = rows.each(Projection(("unit",), {}), partial(_units, rows.bins)).partitionBy(rows.bins)
    frequent = unpack_items(map_values(units, partial(_frequent, most)).collect())
    return np.sort(np.concatenate([np.zeros(0, np.uint64), *(value for _, value in frequent)]))


def _units(bins: int, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Item]:
    units, counts = count_visits(batches)
    for place, some in in_bins(units, bins):
        yield place, (units[some], counts[some])


def _frequent(most: int, number: int, visits: list[Visits]) -> Iterator[Item]:
    units, counts = merge_visits(visits)
    yield number, units[counts > most]
