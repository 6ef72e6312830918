"""The rows of a log on Spark's executors, and sums that go from one to another, packed.

What a function on an executor raises on purpose comes back as a value: Spark would try it again three times, and bury
its sentence in a traceback of Java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from interleaf.engines import parts
from interleaf.engines.packed import of_bytes, to_bytes
from interleaf.errors import DataError, InterleafError
from interleaf.log import arrow
from interleaf.log.files import Paths
from interleaf.log.projection import Projection, is_wanted
from interleaf.methods.arrays import Array

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


class Files:
    """Parquet files: Spark schedules runs of row groups, and the executors read them by themselves."""

    def __init__(self, spark: SparkSession, paths: Paths, number: int = 0) -> None:
        self._context = spark.sparkContext
        found = parts.parts_of(paths, self._context.defaultParallelism, number)
        self._parts = self._context.broadcast(found)
        self.bins = self._number = len(found)
        self.notes: RDD[Packed] | None = None  # of repeats, once they were looked for

    def each(self, projection: Projection, function: OfBatches) -> RDD[Packed]:
        """What a function makes of every part."""
        numbers = self._context.parallelize(range(self._number), self._number)
        return numbers.flatMap(partial(_of_part, self._parts, projection, function))

    def with_notes(self, notes: RDD[Packed], projection: Projection, function: OfNotes) -> RDD[Packed]:
        """The same, with notes, which are where the part is."""
        return notes.mapPartitionsWithIndex(partial(_with_notes, self._parts, projection, function))


OfNotes = Callable[[int, Iterator[pa.RecordBatch], list[Any]], Iterable[Item]]


def _of_part(found: Broadcast[list[parts.Part]], projection: Projection, function: OfBatches, number: int) -> Any:
    return packed(number, lambda: function(number, parts.read(found.value[number], projection)))


def _with_notes(
    found: Broadcast[list[parts.Part]], projection: Projection, function: OfNotes, number: int, notes: Iterator[Packed]
) -> Iterator[Packed]:
    def items() -> Iterable[Item]:
        known = [value for _, value in unpacked(notes)]
        return function(number, parts.read(found.value[number], projection), known)

    return packed(number, items)


class Frame:
    """A data frame of Spark: its partitions come to the same functions as streams of Arrow."""

    def __init__(self, frame: DataFrame) -> None:
        if ".connect." in type(frame).__module__:
            raise DataError("a data frame of Spark Connect has no partitions to count on; use a classic session")
        self.frame = frame
        self.bins = frame.sparkSession.sparkContext.defaultParallelism
        self.has_repeats: bool | None = None  # until they were looked for

    def each(self, projection: Projection, function: OfBatches) -> RDD[Packed]:
        """What a function makes of every partition."""
        chosen = self.frame.select(*self._names(projection))
        answers = chosen.mapInArrow(partial(_of_partition, projection, function), "key long, data binary")
        with _unweighed(chosen.sparkSession):
            return answers.rdd.map(_as_item)

    def _names(self, projection: Projection) -> list[str]:
        """The columns to ask for: spare ones only where some row lacks what they stand in for."""
        lacking = {others: self._lacks(others) for others in set(projection.spare.values())}
        spare = [name for name, others in projection.spare.items() if lacking[others]]
        return [name for name in self.frame.columns if is_wanted(name, (*(projection.names or ()), *spare))]

    def _lacks(self, names: Sequence[str]) -> bool:
        """Whether one of these is missing in some row."""
        if not set(names) <= set(self.frame.columns):
            return True
        return not self.frame.filter(" OR ".join(f"`{name}` IS NULL" for name in names)).isEmpty()

    def gathered_by(self, column: str, order: str) -> Frame:
        """The same rows, those with the same value of a column together, in an order."""
        return Frame(self.frame.repartition(column).sortWithinPartitions(order))


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
