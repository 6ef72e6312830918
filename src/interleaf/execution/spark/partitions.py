"""Reads the rows of a log on Spark's executors: Parquet row groups, or the partitions of a data frame.

Our errors on an executor are returned as values, because Spark would retry the function three times and hide the
message in a Java traceback.

Impressions may have several rows: repeats in any part, and further pages. Every part sends the hashes of its
impressions, 8 bytes each, to executors by range. If a hash comes more than once, all parts that have it are notified:
the first part keeps its first row, and all others drop their rows. The local engine does the same in the order of the
log; above 16 million impressions, it checks a sample.
"""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.decode import identities
from interleaf.errors import DataError, InterleafError
from interleaf.kernels.arrays import Array
from interleaf.log import arrow, parquet
from interleaf.log.event_join import ReadCounts
from interleaf.log.files import LogFile, Paths, files_of
from interleaf.log.page_join import PageJoiner, find_continued, ids_among, paged_ids, rows_among
from interleaf.log.schema import Projection, is_wanted
from interleaf.tally.units import Seen, UnitSums

if TYPE_CHECKING:
    from pyspark import RDD, Broadcast
    from pyspark.sql import DataFrame, SparkSession
BATCH = 32_768  # rows read at a time, the same as the local engine
ROWS = 2_000_000  # about the size of a part; large compared to its sums
LOOKING = 16  # files inspected in parallel, because each file in a remote store takes time
FAN = 16  # sums that one executor adds up at a time
WEIGHT = "spark.sql.execution.arrow.maxBytesPerBatch"
IDENTITY = Projection(("experiment", "impression"), {})


def to_bytes(value: Any) -> bytes:
    """Pickle and compress any sums, such as a collector and a sample."""
    file = io.BytesIO()
    _Pickler(file, protocol=5).dump(value)
    compressed: bytes = pa.compress(file.getvalue(), "zstd", asbytes=True)
    return compressed + file.tell().to_bytes(8, "little")


def of_bytes(data: bytes) -> Any:
    """Read the result of `to_bytes`. Only use it within a job, because unpickling can run any code."""
    size = int.from_bytes(data[-8:], "little")
    return pickle.loads(pa.decompress(data[:-8], size, "zstd", asbytes=True))


class _Pickler(pickle.Pickler):
    """Pickles sums of units sorted by their hashes, without the empty places of the hash table."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is UnitSums:
            by_column = np.ascontiguousarray(value.values.T)  # compresses better
            return _units, (value.columns, value.room, value.level, value.hashes, by_column)
        return NotImplemented


def _units(columns: int, room: int, level: int, hashes: Array, by_column: Array) -> UnitSums:
    units = UnitSums(columns, room)
    units.merge(level, hashes, by_column.T.copy())
    return units


FilePart = list[tuple[LogFile, list[int]]]  # files, each with the numbers of its row groups


def parts_of(paths: Paths, least: int = 1, number: int = 0) -> tuple[list[FilePart], bool, ReadCounts]:
    """The parts of a log in its order: at most `number`, or, if that is 0, a multiple of `least`.

    Also whether an impression may have several pages, and the assumptions made to read the log, with the counts of its
    conversion from another log. All files are inspected before the first is read, so that an error in the last one is
    found at once.
    """
    files = files_of(paths)
    for file in files:
        if not file.is_parquet:
            raise DataError(
                f"{file.path} is not a Parquet file, and Spark reads only Parquet; convert it (interleaf.log.convert)"
            )
    with ThreadPoolExecutor(LOOKING) as pool:
        contents = list(pool.map(parquet.inspect, files))
    # Executors may have another working directory.
    files = [file._replace(path=file.path.absolute()) if isinstance(file.path, Path) else file for file in files]
    rows = [one.rows for one in contents]
    wanted = number or least * max(1, -(-sum(map(sum, rows)) // (ROWS * least)))
    parts = [[(files[file], groups) for file, groups in part.items()] for part in _split_groups(rows, wanted)]
    counts = ReadCounts()
    for one in contents:
        counts.add(one.counts)
    return parts or [[]], any(one.paged for one in contents), counts


def _split_groups(rows: Sequence[Sequence[int]], wanted: int) -> list[dict[int, list[int]]]:
    """At most `wanted` parts of about the same size: row groups by file, divided by the middle row of each group.

    >>> _split_groups([[10, 10, 30], [10]], 2)
    [{0: [0, 1]}, {0: [2], 1: [0]}]
    """
    total, before = sum(map(sum, rows)) or 1, 0
    parts: defaultdict[int, dict[int, list[int]]] = defaultdict(dict)
    for file, counts in enumerate(rows):
        for group, count in enumerate(counts):
            part = (2 * before + count) * wanted // (2 * total)
            parts[part].setdefault(file, []).append(group)
            before += count
    return list(parts.values())


Item = tuple[int, Any]
Packed = tuple[int, bytes]
OfBatches = Callable[[int, Iterator[pa.RecordBatch]], Iterable[Item]]  # takes a part's number and its rows


def pack_items(number: int, function: Callable[[], Iterable[Item]]) -> Iterator[Packed]:
    """The items of a function as bytes; an error becomes an item with the number of the part."""
    try:
        for key, value in function():
            yield key, to_bytes(value)
    except InterleafError as problem:
        yield number, to_bytes(problem)


def unpack_items(items: Iterable[Packed]) -> Iterator[Item]:
    """Unpack the items of `pack_items`; a packed error is raised."""
    for key, data in items:
        value = of_bytes(data)
        if isinstance(value, InterleafError):
            raise value
        yield key, value


def map_values(items: RDD[Packed], function: Callable[[int, list[Any]], Iterable[Item]]) -> RDD[Packed]:
    """The items that a function makes of each partition's number and values, on executors."""

    def pack_partition(number: int, items: Iterable[Packed]) -> Iterator[Packed]:
        return pack_items(number, lambda: function(number, [value for _, value in unpack_items(items)]))

    return items.mapPartitionsWithIndex(pack_partition)


class FileRows(NamedTuple):
    """The rows of Parquet files by part, for executors. Impressions with several pages, already joined, are one more
    part.
    """

    parts: list[FilePart]
    continued: pa.Array
    joined: list[pa.RecordBatch]

    def read(self, number: int, projection: Projection) -> Iterator[pa.RecordBatch]:
        if number == len(self.parts):
            yield from arrow.cut_batches(self.joined, projection, BATCH)
            return
        wanted = projection.with_pages() if len(self.continued) else projection
        for file, groups in self.parts[number]:
            for batch in parquet.batches(file, wanted, BATCH, groups):
                if len(self.continued):
                    batch = projection.only(rows_among(batch, self.continued, among=False))
                yield batch


class Files:
    """Parquet files: Spark schedules runs of row groups, and the executors read the files directly."""

    def __init__(self, spark: SparkSession, paths: Paths, number: int = 0) -> None:
        self._context = spark.sparkContext
        parts = parts_of(paths, self._context.defaultParallelism, number)
        self._parts, self.may_have_pages, self.counts = parts
        self.pages = PageJoiner(pa.array([], pa.string()))
        self.notes: RDD[Packed] | None = None  # shared hashes, once repeats were searched for
        self.with_joined(pa.array([], pa.string()), [])

    def with_joined(self, continued: pa.Array, joined: list[pa.RecordBatch]) -> Files:
        """The same rows, with those of continued impressions replaced by the joined ones."""
        self._rows = self._context.broadcast(FileRows(self._parts, continued, joined))
        self.bins = len(self._parts) + bool(joined)
        return self

    def each(self, projection: Projection, function: OfBatches) -> RDD[Packed]:
        numbers = self._context.parallelize(range(self.bins), self.bins)
        return numbers.flatMap(partial(_of_part, self._rows, projection, function))

    def with_notes(self, notes: RDD[Packed], projection: Projection, function: OfNotes) -> RDD[Packed]:
        rows = self._rows
        return map_values(notes, lambda number, notes: function(number, rows.value.read(number, projection), notes))


OfNotes = Callable[[int, Iterator[pa.RecordBatch], list[Any]], Iterable[Item]]


def _of_part(rows: Broadcast[FileRows], projection: Projection, function: OfBatches, number: int) -> Any:
    return pack_items(number, lambda: function(number, rows.value.read(number, projection)))


class Frame:
    """A data frame of Spark, whose partitions are read as Arrow streams. Impressions with several pages, already
    joined, are one more partition.
    """

    def __init__(self, frame: DataFrame, joined: Sequence[pa.RecordBatch] = ()) -> None:
        if ".connect." in type(frame).__module__:
            raise DataError("data frames of Spark Connect are not supported; use a classic Spark session")
        self.frame, self._joined = frame, list(joined)
        self.bins = frame.sparkSession.sparkContext.defaultParallelism
        self.may_have_pages = "page" in frame.columns
        self.counts = ReadCounts()
        self.pages = PageJoiner(pa.array([], pa.string()))
        self.has_repeats: bool | None = None  # None until repeats were searched for

    def with_joined(self, continued: pa.Array, joined: list[pa.RecordBatch]) -> Frame:
        """The same rows, with those of continued impressions replaced by the joined ones."""
        ids = self.frame.sparkSession.createDataFrame(pa.table({"impression": continued}))
        return Frame(self.frame.join(ids, "impression", "left_anti").select(self.frame.columns), joined)

    def each(self, projection: Projection, function: OfBatches) -> RDD[Packed]:
        chosen = self.frame.select(*self._names(projection))
        answers = chosen.mapInArrow(partial(_of_partition, projection, function), "key long, data binary")
        with _limit_by_rows(chosen.sparkSession):
            items = answers.rdd.map(lambda row: (row.key, bytes(row.data)))
            if not self._joined:
                return items
            context, number = chosen.sparkSession.sparkContext, items.getNumPartitions()
            rows = context.broadcast(FileRows([[]] * number, pa.array([], pa.string()), self._joined))
            return items.union(context.parallelize([number], 1).flatMap(partial(_of_part, rows, projection, function)))

    def _names(self, projection: Projection) -> list[str]:
        """The columns to read; spare columns only if some row lacks one of the columns that replace them."""
        if projection.names is None:
            return list(self.frame.columns)
        lacking = {others: self._lacks(others) for others in set(projection.spare.values())}
        spare = [name for name, others in projection.spare.items() if lacking[others]]
        return [name for name in self.frame.columns if is_wanted(name, (*projection.names, *spare))]

    def _lacks(self, names: Sequence[str]) -> bool:
        if not set(names) <= set(self.frame.columns):
            return True
        return not self.frame.filter(" OR ".join(f"`{name}` IS NULL" for name in names)).isEmpty()

    def gathered_by(self, column: str, order: str) -> Frame:
        """The same rows, partitioned by a column, and sorted by another one."""
        return Frame(self.frame.repartition(column).sortWithinPartitions(order), self._joined)


@contextmanager
def _limit_by_rows(spark: SparkSession) -> Iterator[None]:
    """Limit batches by rows only: Spark would compute their size after each row, which is slow for nested data."""
    before = spark.conf.get(WEIGHT, None)
    spark.conf.set(WEIGHT, 2**31 - 1)
    try:
        yield
    finally:
        spark.conf.unset(WEIGHT) if before is None else spark.conf.set(WEIGHT, before)


def _of_partition(projection: Projection, function: OfBatches, batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    """On an executor: gather Spark's small batches into larger ones, and return items as rows of Spark."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = context.partitionId() if context is not None else 0
    # Spark's timestamps are instants; only their type has the time zone of the session.
    large = arrow.gather_batches((batch.cast(schema_in_utc(batch.schema)) for batch in batches), BATCH)
    for key, data in pack_items(number, lambda: function(number, arrow.cut_batches(large, projection, BATCH))):
        yield pa.RecordBatch.from_pydict({"key": pa.array([key], pa.int64()), "data": pa.array([data], pa.binary())})


def schema_in_utc(schema: pa.Schema) -> pa.Schema:
    """The same columns, with the time zone UTC."""
    return pa.schema([field.with_type(_type_in_utc(field.type)) for field in schema])


def _type_in_utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_type_in_utc(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_type_in_utc(field.type)) for field in kind])
    return kind


def sum_items(items: RDD[Packed], add: Callable[[Any, Any], Any]) -> Any:
    """Add up all values on executors, in the order of their numbers; only the total is sent to the driver.

    The result is None if there are no values: Spark calls no function for a partition without rows.
    """
    number = items.getNumPartitions()
    while number > 1:
        number = -(-number // FAN)
        keyed = items.map(lambda item: (item[0] // FAN, item))
        items = keyed.partitionBy(number).mapPartitionsWithIndex(partial(_together, add))
    return next((value for _, value in unpack_items(items.collect())), None)


def _together(add: Callable[[Any, Any], Any], number: int, items: Iterator[tuple[int, Packed]]) -> Iterator[Packed]:
    in_order = sorted((item for _, item in items), key=lambda item: item[0])

    def sums() -> Iterator[Item]:
        if in_order:
            yield number, reduce(add, (value for _, value in unpack_items(in_order)))

    return pack_items(number, sums)


def in_bins(hashes: Array, bins: int) -> Iterator[tuple[int, Array]]:
    """The indices of the hashes in each bin. Bins do not depend on the lowest bits, by which samples are drawn."""
    places = (hashes >> np.uint64(32)) % np.uint64(bins)
    for place in range(bins):
        yield place, np.flatnonzero(places == place)


class SharedHashes(Seen):
    """Hashes of a part that came more than once, and whether an earlier part has them."""

    def __init__(self, notes: Iterable[tuple[Array, Array]]) -> None:
        hashes, elsewhere = map(np.concatenate, zip(*notes, strict=True)) if notes else np.zeros((2, 0), np.uint64)
        super().__init__(room=max(1, len(hashes)))
        self._shared = np.sort(hashes)
        super().repeats(hashes[elsewhere.astype(np.bool_)])

    def repeats(self, hashes: Array) -> Array:
        """Which of these hashes came before; only hashes that came more than once are looked up."""
        marks = np.zeros(len(hashes), np.bool_)
        if len(self._shared):
            shared = np.flatnonzero(np.isin(hashes, self._shared))
            marks[shared] = super().repeats(hashes[shared])
        return marks


def notes_of(files: Files) -> RDD[Packed]:
    """The shared hashes of every part, in the partition of its number; Spark reuses the shuffle in later passes."""
    if files.notes is None:
        hashes = files.each(IDENTITY, partial(_hashes, files.bins)).partitionBy(files.bins)
        files.notes = map_values(hashes, _find_shared).partitionBy(files.bins)
    return files.notes


def has_repeats(frame: Frame) -> bool:
    """Whether a data frame has an impression twice."""
    if frame.has_repeats is None:
        hashes = frame.each(IDENTITY, partial(_hashes, frame.bins)).partitionBy(frame.bins)
        repeated = map_values(hashes, lambda number, parts: [(number, len(_twice(parts)) > 0)])
        frame.has_repeats = any(value for _, value in unpack_items(repeated.collect()))
    return frame.has_repeats


def _hashes(bins: int, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Item]:
    """The hashes of a part, by bin."""
    hashes = np.sort(np.concatenate([np.zeros(0, np.uint64), *(identities(batch)[1] for batch in batches)]))
    for place, some in in_bins(hashes, bins):
        yield place, (number, hashes[some])


def _find_shared(number: int, parts: list[tuple[int, Array]]) -> Iterator[Item]:
    """For each part, its hashes that came more than once, and whether an earlier part has them."""
    twice = _twice(parts)
    before = np.zeros(0, np.uint64)
    for part, hashes in sorted(parts, key=lambda one: one[0]) if len(twice) else ():
        mine = np.intersect1d(hashes, twice)
        if len(mine):
            yield part, (mine, np.isin(mine, before))
            before = np.union1d(before, mine)


def _twice(parts: list[tuple[int, Array]]) -> Array:
    """The hashes that came more than once."""
    hashes = np.sort(np.concatenate([values for _, values in parts] or [np.zeros(0, np.uint64)]))
    return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])


def join_pages(rows: Files | Frame) -> Files | Frame:
    """The rows of a log with the pages of every impression joined; its `pages` counts dropped rows and events."""
    paged = _collect(rows, ("impression", "page"), paged_ids) if rows.may_have_pages else []
    pages = PageJoiner(
        find_continued(paged, lambda ids: _collect(rows, ("impression",), lambda batch: ids_among(batch, ids)))
    )
    if not pages:
        return rows
    continued = pages.continued
    for batch in _collect(rows, None, lambda batch: rows_among(batch, continued)):
        pages.hold(batch)
    joined = rows.with_joined(pages.continued, list(pages.join()))
    joined.pages = pages
    return joined


def _collect(
    rows: Files | Frame, names: tuple[str, ...] | None, function: Callable[[pa.RecordBatch], Any]
) -> Iterator[Any]:
    """The results of a function for the batches of every part, without empty ones."""

    def of_batches(number: int, batches: Iterator[pa.RecordBatch]) -> Iterable[Item]:
        yield number, [result for result in map(function, batches) if len(result)]

    for _, results in unpack_items(rows.each(Projection(names, {}), of_batches).collect()):
        yield from results
