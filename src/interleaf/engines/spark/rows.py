"""The rows of a log on Spark's executors, and sums that go from one to another, packed.

What a function on an executor raises on purpose comes back as a value: Spark would try it again three times, and bury
its sentence in a traceback of Java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.engines import parts
from interleaf.engines.packed import of_bytes, to_bytes
from interleaf.errors import DataError, InterleafError
from interleaf.kernels.arrays import Array
from interleaf.log import arrow
from interleaf.log.files import Paths
from interleaf.log.pages import Pages, rows_among
from interleaf.log.projection import Projection, is_wanted

if TYPE_CHECKING:
    from pyspark import RDD, Broadcast
    from pyspark.sql import DataFrame, SparkSession

Item = tuple[int, Any]
Packed = tuple[int, bytes]
FAN = 16  # sums that one executor adds up at a time
WEIGHT = "spark.sql.execution.arrow.maxBytesPerBatch"
OfBatches = Callable[[int, Iterator[pa.RecordBatch]], Iterable[Item]]  # from a part's number, and its rows


def packed(number: int, function: Callable[[], Iterable[Item]]) -> Iterator[Packed]:
    """The items of a function, ready to travel; or what went wrong, under the number of the part."""
    try:
        for key, value in function():
            yield key, to_bytes(value)
    except InterleafError as problem:
        yield number, to_bytes(problem)


def unpacked(items: Iterable[Packed]) -> Iterator[Item]:
    """What `packed` made; what went wrong on the way is raised again."""
    for key, data in items:
        value = of_bytes(data)
        if isinstance(value, InterleafError):
            raise value
        yield key, value


class Rows(NamedTuple):
    """The rows of Parquet files, for executors: by parts, without impressions that go on over pages; these are joined
    already, and are one more part.
    """

    parts: list[parts.Part]
    continued: pa.Array
    joined: list[pa.RecordBatch]

    def read(self, number: int, projection: Projection) -> Iterator[pa.RecordBatch]:
        """The rows of a part, in the order of the log."""
        if number == len(self.parts):
            yield from arrow.cut(self.joined, projection, parts.BATCH)
        elif not len(self.continued):
            yield from parts.read(self.parts[number], projection)
        else:
            for batch in parts.read(self.parts[number], projection.with_pages()):
                yield projection.only(rows_among(batch, self.continued, among=False))


class Files:
    """Parquet files: Spark schedules runs of row groups, and the executors read them by themselves."""

    def __init__(self, spark: SparkSession, paths: Paths, number: int = 0) -> None:
        self._context = spark.sparkContext
        found = parts.parts_of(paths, self._context.defaultParallelism, number)
        self._parts, self.may_have_pages, self.assumptions = found
        self.pages = Pages(pa.array([], pa.string()))
        self.notes: RDD[Packed] | None = None  # of repeats, once they were looked for
        self._set(pa.array([], pa.string()), [])

    def _set(self, continued: pa.Array, joined: list[pa.RecordBatch]) -> None:
        self._rows = self._context.broadcast(Rows(self._parts, continued, joined))
        self.bins = self._number = len(self._parts) + bool(joined)

    def with_joined(self, continued: pa.Array, joined: list[pa.RecordBatch]) -> Files:
        """The same rows, but for those of continued impressions, which are joined."""
        self._set(continued, joined)
        return self

    def each(self, projection: Projection, function: OfBatches) -> RDD[Packed]:
        """What a function makes of every part."""
        numbers = self._context.parallelize(range(self._number), self._number)
        return numbers.flatMap(partial(_of_part, self._rows, projection, function))

    def with_notes(self, notes: RDD[Packed], projection: Projection, function: OfNotes) -> RDD[Packed]:
        """The same, with notes, which are where the part is."""
        return notes.mapPartitionsWithIndex(partial(_with_notes, self._rows, projection, function))


OfNotes = Callable[[int, Iterator[pa.RecordBatch], list[Any]], Iterable[Item]]


def _of_part(rows: Broadcast[Rows], projection: Projection, function: OfBatches, number: int) -> Any:
    return packed(number, lambda: function(number, rows.value.read(number, projection)))


def _with_notes(
    rows: Broadcast[Rows], projection: Projection, function: OfNotes, number: int, notes: Iterator[Packed]
) -> Iterator[Packed]:
    def items() -> Iterable[Item]:
        known = [value for _, value in unpacked(notes)]
        return function(number, rows.value.read(number, projection), known)

    return packed(number, items)


class Frame:
    """A data frame of Spark: its partitions come to the same functions as streams of Arrow. Rows that are joined
    already are one more.
    """

    def __init__(self, frame: DataFrame, joined: Sequence[pa.RecordBatch] = ()) -> None:
        if ".connect." in type(frame).__module__:
            raise DataError("a data frame of Spark Connect has no partitions to count on; use a classic session")
        self.frame, self._joined = frame, list(joined)
        self.bins = frame.sparkSession.sparkContext.defaultParallelism
        self.may_have_pages = "page" in frame.columns
        self.assumptions: list[str] = []
        self.pages = Pages(pa.array([], pa.string()))
        self.has_repeats: bool | None = None  # until they were looked for

    def with_joined(self, continued: pa.Array, joined: list[pa.RecordBatch]) -> Frame:
        """The same rows, but for those of continued impressions, which are joined."""
        ids = self.frame.sparkSession.createDataFrame(pa.table({"impression": continued}))
        return Frame(self.frame.join(ids, "impression", "left_anti").select(self.frame.columns), joined)

    def each(self, projection: Projection, function: OfBatches) -> RDD[Packed]:
        """What a function makes of every partition."""
        chosen = self.frame.select(*self._names(projection))
        answers = chosen.mapInArrow(partial(_of_partition, projection, function), "key long, data binary")
        with _unweighed(chosen.sparkSession):
            items = answers.rdd.map(_as_item)
            if not self._joined:
                return items
            context, number = chosen.sparkSession.sparkContext, items.getNumPartitions()
            rows = context.broadcast(Rows([()] * number, pa.array([], pa.string()), self._joined))
            return items.union(context.parallelize([number], 1).flatMap(partial(_of_part, rows, projection, function)))

    def _names(self, projection: Projection) -> list[str]:
        """The columns to ask for: spare ones only where some row lacks what they stand in for."""
        if projection.names is None:
            return list(self.frame.columns)
        lacking = {others: self._lacks(others) for others in set(projection.spare.values())}
        spare = [name for name, others in projection.spare.items() if lacking[others]]
        return [name for name in self.frame.columns if is_wanted(name, (*projection.names, *spare))]

    def _lacks(self, names: Sequence[str]) -> bool:
        """Whether one of these is missing in some row."""
        if not set(names) <= set(self.frame.columns):
            return True
        return not self.frame.filter(" OR ".join(f"`{name}` IS NULL" for name in names)).isEmpty()

    def gathered_by(self, column: str, order: str) -> Frame:
        """The same rows, those with the same value of a column together, in an order."""
        return Frame(self.frame.repartition(column).sortWithinPartitions(order), self._joined)


@contextmanager
def _unweighed(spark: SparkSession) -> Iterator[None]:
    """Batches by rows alone: Spark would weigh a batch after each of its rows, which takes minutes for nested ones."""
    before = spark.conf.get(WEIGHT, None)
    spark.conf.set(WEIGHT, 2**31 - 1)
    try:
        yield
    finally:
        spark.conf.unset(WEIGHT) if before is None else spark.conf.set(WEIGHT, before)


def _of_partition(projection: Projection, function: OfBatches, batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    """In an executor: small batches of Spark as large ones of ours, and items as rows of Spark."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = context.partitionId() if context is not None else 0
    found = arrow.gathered(map(_in_utc, batches), parts.BATCH)
    for key, data in packed(number, lambda: function(number, arrow.cut(found, projection, parts.BATCH))):
        yield pa.RecordBatch.from_pydict({"key": pa.array([key], pa.int64()), "data": pa.array([data], pa.binary())})


def _as_item(row: Any) -> Packed:
    return row.key, bytes(row.data)


def _in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Spark's timestamps are instants, and only their type names the zone of the session."""
    return batch.cast(schema_in_utc(batch.schema))


def schema_in_utc(found: pa.Schema) -> pa.Schema:
    """The same columns, with times that say UTC."""
    return pa.schema([field.with_type(_type_in_utc(field.type)) for field in found])


def _type_in_utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_type_in_utc(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_type_in_utc(field.type)) for field in kind])
    return kind


def added(items: RDD[Packed], add: Callable[[Any, Any], Any]) -> bytes | None:
    """All values added up on executors, in the order of their numbers, some at a time; only the sum comes here.

    None where there are none: Spark calls no function for a partition without rows, or has no partition at all.
    """
    number = items.getNumPartitions()
    while number > 1:
        number = -(-number // FAN)
        items = items.map(_under).partitionBy(number).mapPartitionsWithIndex(partial(_together, add))
    return next(iter(items.values().collect()), None)


def _under(item: Packed) -> tuple[int, Packed]:
    return item[0] // FAN, item


def _together(add: Callable[[Any, Any], Any], number: int, items: Iterator[tuple[int, Packed]]) -> Iterator[Packed]:
    found = sorted((item for _, item in items), key=lambda item: item[0])

    def sums() -> Iterator[Item]:
        total = None
        for _, value in unpacked(found):
            total = value if total is None else add(total, value)
        if total is not None:
            yield number, total

    return packed(number, sums)


def in_bins(hashes: Array, bins: int) -> Iterator[tuple[int, Array]]:
    """Where the hashes of each bin are: as many in each, whatever their lowest bits, which samples are drawn by."""
    places = (hashes >> np.uint64(32)) % np.uint64(bins)
    for place in range(bins):
        yield place, np.flatnonzero(places == place)
