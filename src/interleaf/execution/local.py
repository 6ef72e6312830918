"""Tallies a log on this machine: one thread reads, others decode, score and add up, each in its own collector.

Addition is exact, so the result does not depend on which thread got which batch. The reading thread marks impressions
that came before, in the order of the log.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from queue import Full, Queue
from typing import Any, TypeVar

import pyarrow as pa

from interleaf import log
from interleaf.decode.attributes import attribute_names, check_attributes
from interleaf.errors import DataError
from interleaf.execution.collector import TallyCollector
from interleaf.execution.task import Task, frequent, repeats, visits, work
from interleaf.kernels.arrays import Array
from interleaf.tally import Tally
from interleaf.tally.units import Sample, Seen

BATCH = 32_768  # rows read at a time: of forty rankers, they hold thirteen million ranks
T = TypeVar("T", bound=Task)
Batch = tuple[pa.RecordBatch, Array]  # with a mark for each row that came before


def tally_log(source: Any, task: Task, *, threads: int = 0, progress: log.Progress | None = None) -> Tally:
    """The tally of one experiment of a log, in memory that does not grow with it."""
    book, sample = _read(source, task, threads, progress)
    if book.lacks_ranks and task.scoring.scheme is None and not isinstance(source, Iterator | pa.RecordBatchReader):
        task = replace(task, scoring=replace(task.scoring, rankless=True))
        book, sample = _read(source, task, threads, progress)
    tally = book.finish()
    tally.sample = sample
    return tally


def _read(source: Any, task: Task, threads: int, progress: log.Progress | None) -> tuple[TallyCollector, Sample]:
    """The whole log in a book, and a sample of its impressions."""
    sample = Sample()
    task, reading, batches = opened(source, task, sample, progress)
    workers = 1 if task.scoring.sessions is not None else threads or os.cpu_count() or 1
    book = _counted(batches, task, workers)
    book.dropped += reading.dropped
    book.events += reading.events
    book.examples |= reading.examples
    book.assume(reading.assumptions)
    return book, sample


def opened(
    source: Any, task: T, sample: Sample, progress: log.Progress | None = None
) -> tuple[T, log.Reading, Iterator[Batch]]:
    """The task with what only the log can tell, the reading, and its batches, whose impressions the sample counts."""
    if task.exclusion.max_impressions is not None:
        task = replace(task, crawlers=_crawlers(source, task.exclusion.max_impressions))
    reading = log.read(source, task.columns, spare=task.spare_columns, batch_size=BATCH, progress=progress)
    return task, reading, _marked(reading, sample, task.exclusion.attributes)


def _marked(reading: log.Reading, sample: Sample, excluded: Collection[str]) -> Iterator[Batch]:
    """Batches with their repeats marked; at the end, attributes to exclude by must have come."""
    seen = Seen(expected=reading.rows or 0)
    names: set[str] = set()
    for batch in reading:
        yield batch, repeats(batch, seen, sample)
        names |= attribute_names(batch) if excluded else frozenset()
    if reading.rows:
        check_attributes(excluded, names)


def _counted(batches: Iterator[Batch], task: Task, workers: int) -> TallyCollector:
    """All batches in one book."""
    books = [TallyCollector(task) for _ in range(workers)]
    if workers == 1:
        for batch in batches:
            _count(books[0], task, batch)
        return books[0]
    queue: Queue[Batch | None] = Queue(workers)
    with ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(_serve, book, task, queue) for book in books]
        try:
            for batch in batches:
                _put(queue, batch, running)
        finally:
            for _ in running:
                _put(queue, None, running)
        wait(running)
    for future in running:
        future.result()
    for book in books[1:]:
        books[0].merge(book)
    return books[0]


def _serve(book: TallyCollector, task: Task, queue: Queue[Batch | None]) -> None:
    for batch in iter(queue.get, None):
        _count(book, task, batch)


def _count(book: TallyCollector, task: Task, batch: Batch) -> None:
    for worked in work(batch[0], task, batch[1]):
        book.add(worked)


def _put(queue: Queue[Batch | None], item: Batch | None, running: list[Future[None]]) -> None:
    """Hand a batch over; if a thread has failed, say so instead of waiting for it for ever."""
    while True:
        for future in running:
            if future.done() and item is not None:
                future.result()
        if all(future.done() for future in running):
            return
        try:
            return queue.put(item, timeout=0.2)
        except Full:
            continue


def _crawlers(source: Any, most: int) -> Array:
    """The hashes of units with more impressions than that, in order: a pass over the units alone."""
    if isinstance(source, Iterator | pa.RecordBatchReader):
        raise DataError("max_impressions reads the log twice; give paths or a table, not a stream")
    return frequent(visits(log.read(source, ("unit",))), most)
