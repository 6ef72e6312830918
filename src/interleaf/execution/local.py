"""Tallies a log on this machine: one thread reads, others decode, score and add up, each in its own collector.

Addition is exact, so the result does not depend on which thread got which batch. The reading thread marks repeated
impressions, in the order of the log.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from interleaf import log
from interleaf.decode.columns import attribute_names, check_attributes
from interleaf.errors import DataError
from interleaf.execution.collector import TallyCollector
from interleaf.execution.task import Task, count_visits, find_repeats, process_batch
from interleaf.kernels.arrays import Array
from interleaf.tally import Tally
from interleaf.tally.units import Sample, Seen

BATCH = 32_768  # rows read at a time; with forty rankers, they hold thirteen million ranks
T = TypeVar("T", bound=Task)
Batch = tuple[pa.RecordBatch, Array]  # with a mark for each row that came before


def tally_log(source: Any, task: Task, *, threads: int = 0, progress: log.Progress | None = None) -> Tally:
    """The tally of one experiment of a log, in memory that does not grow with the log."""
    collector = _read(source, task, threads, progress)
    is_stream = isinstance(source, Iterator | pa.RecordBatchReader)
    if collector.lacks_ranks and task.scoring.scheme is None and not is_stream:
        task = replace(task, scoring=replace(task.scoring, lacking=frozenset({"ranks"})))
        collector = _read(source, task, threads, progress)
    return collector.finish()


def _read(source: Any, task: Task, threads: int, progress: log.Progress | None) -> TallyCollector:
    """A collector with the tallies of the whole log."""
    sample = Sample()
    task, reading, batches = open_log(source, task, sample, progress)
    workers = 1 if task.scoring.gap is not None else threads or os.cpu_count() or 1
    collector = _count_all(batches, task, workers)
    collector.dropped += reading.dropped
    collector.events += reading.events
    collector.examples |= reading.examples
    collector.assume(reading.assumptions)
    collector.sample = sample
    return collector


def open_log(
    source: Any, task: T, sample: Sample, progress: log.Progress | None = None
) -> tuple[T, log.LogReading, Iterator[Batch]]:
    """The task with the crawlers of the log, the reading, and its batches, whose impressions `sample` collects."""
    max_impressions = task.exclusion.max_impressions
    if max_impressions is not None:
        if isinstance(source, Iterator | pa.RecordBatchReader):
            raise DataError("max_impressions reads the log twice; give paths or a table, not a stream")
        units, impressions = count_visits(log.read(source, ("unit",)))
        task = replace(task, crawlers=units[impressions > max_impressions])
    reading = log.read(source, task.columns, spare=task.spare_columns, batch_size=BATCH, progress=progress)
    return task, reading, _mark_repeats(reading, sample, task.exclusion.attributes)


def _mark_repeats(reading: log.LogReading, sample: Sample, excluded: Collection[str]) -> Iterator[Batch]:
    """Batches with a mark for repeated impressions; at the end, an error if no row had an attribute to exclude by."""
    earlier = Seen(expected=reading.rows or 0)
    names: set[str] = set()
    for batch in reading:
        yield batch, find_repeats(batch, earlier, sample)
        names |= attribute_names(batch) if excluded else frozenset()
    if reading.rows:
        check_attributes(excluded, names)


def _count_all(batches: Iterator[Batch], task: Task, workers: int) -> TallyCollector:
    """Add all batches to one collector."""
    collectors = [TallyCollector(task) for _ in range(workers)]
    free = collectors.copy()  # those that no thread is using

    def count(batch: pa.RecordBatch, repeated: Array) -> None:
        collector = free.pop()
        try:
            for processed in process_batch(batch, task, repeated):
                collector.add(processed)
        finally:
            free.append(collector)

    if workers == 1:
        for batch in batches:
            count(*batch)
        return collectors[0]
    running: set[Future[None]] = set()
    with ThreadPoolExecutor(workers) as pool:
        for batch in batches:
            if len(running) == 2 * workers:  # one that is counted and one that waits, for each thread
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
            running.add(pool.submit(count, *batch))
    for future in running:
        future.result()
    for collector in collectors[1:]:
        collectors[0].merge(collector)
    return collectors[0]
