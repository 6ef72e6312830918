"""A log to its tally, on Spark; and to other sums that add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.engines.book import Book
from interleaf.engines.choice import is_frame
from interleaf.engines.crawlers import frequent, together, visits
from interleaf.engines.packed import of_bytes, to_bytes
from interleaf.engines.spark import repeats as of_log
from interleaf.engines.spark import sessions
from interleaf.engines.spark.pages import join_pages
from interleaf.engines.spark.rows import Files, Frame, Item, Packed, added, in_bins, packed, schema_in_utc, unpacked
from interleaf.engines.spark.session import session
from interleaf.engines.work import Task, repeats, work
from interleaf.kernels.arrays import Array
from interleaf.log.arrow import checked
from interleaf.log.projection import Projection
from interleaf.schema import assumptions_of
from interleaf.tally import Tally
from interleaf.tally.merge import absorb
from interleaf.tally.seen import Sample, Seen

if TYPE_CHECKING:
    from pyspark import RDD

MOST = 2**40  # impressions of one partition that are told apart: all of them
Count = Callable[[Task, Iterator[pa.RecordBatch], Seen], Any]
Make = Callable[[Task, int, Iterator[pa.RecordBatch], Seen], Iterable[Item]]
Add = Callable[[Any, Any], Any]


class Sums(NamedTuple):
    """A part's book, and the sample of its impressions."""

    book: Book
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
    if task.exclusion.most_impressions is not None:
        task = replace(task, crawlers=_crawlers(rows, task.exclusion.most_impressions))
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
    waiting = _items(rows, task, partial(sessions.by_unit, total.about)).partitionBy(rows.bins)
    timeout = task.scoring.sessions or 0.0
    tallies = waiting.mapPartitionsWithIndex(partial(sessions.tallied, total.about, list(total.arms), timeout))
    found = added(tallies, sessions.added)
    if found is not None:
        absorb(total, of_bytes(_sound(found)))


def counted(task: Task, batches: Iterator[pa.RecordBatch], seen: Seen) -> Sums:
    """Rows in a book, but for those that came before."""
    book, sample = Book(task, waits=False), Sample()
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
