"""Attributes that split a report, rules that exclude rows, and the query of each row as a number."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from interleaf.decode.columns import codes, column, text_column
from interleaf.errors import DataError, did_you_mean, join_names
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import kernel
from interleaf.log.drop_reasons import DropReason

ABSENT = "(none)"


@dataclass(frozen=True)
class Exclusion:
    """Rows to exclude: by attribute values, by unit, or because their unit has too many impressions.

    `max_impressions` is the limit for a unit in the whole log, over all experiments; above it, the unit is a crawler.
    """

    attributes: Mapping[str, Collection[str]] = field(default_factory=dict)
    units: Collection[str] = ()
    max_impressions: int | None = None

    def __post_init__(self) -> None:
        for name, values in self.attributes.items():
            if isinstance(values, str):
                raise DataError(f"exclude {name!r} by a collection of values, such as [{values!r}], not by one text")
        if self.max_impressions is not None and self.max_impressions < 1:
            raise DataError(f"max_impressions is {self.max_impressions!r}; give a whole number from 1 up")

    def __bool__(self) -> bool:
        return bool(self.attributes or self.units or self.max_impressions is not None)


def attribute(batch: pa.RecordBatch, name: str) -> tuple[Array, list[str]]:
    """A number for each row's value of an attribute, and the values; rows without the attribute share a number."""
    array = column(batch, "attributes")
    if array is None:
        return np.zeros(batch.num_rows, np.int32), [ABSENT]
    keys, names = codes(array.keys)
    numbers, values = codes(array.items)
    found = np.full(batch.num_rows, len(values), np.int32)
    if name in names:
        _find(np.asarray(array.offsets), keys, numbers, names.index(name), found)
    found[found < 0] = len(values)
    return found, [*values, ABSENT]


def attribute_names(batch: pa.RecordBatch) -> frozenset[str]:
    """The names of all attributes that some row of the batch has."""
    array = column(batch, "attributes")
    return frozenset() if array is None else frozenset(codes(array.keys)[1])


def check_attributes(asked: Iterable[str], there: Collection[str]) -> None:
    """Raise an error for attributes that no row of a log has."""
    unknown = [name for name in dict.fromkeys(asked) if name not in there]
    if unknown:
        known = f"the log has {join_names(sorted(there)[:20])}" if there else "the log has none"
        hints = [f"no row has the attribute {name!r}{did_you_mean(name, there)}" for name in unknown]
        raise DataError(f"{' '.join(hints)} ({known})")


@kernel
def _find(offsets: Array, keys: Array, numbers: Array, wanted: int, found: Array) -> None:
    for row in range(len(found)):
        for place in range(offsets[row], offsets[row + 1]):
            if keys[place] == wanted:
                found[row] = numbers[place]


def excluded_rows(batch: pa.RecordBatch, unit: Array, exclusion: Exclusion, crawlers: Array) -> dict[str, Array]:
    """Which rows each rule excludes; `crawlers` are the sorted hashes of units with too many impressions."""
    found: dict[str, Array] = {}
    marked = column(batch, "excluded")
    if marked is not None and marked.null_count < len(marked):
        numbers, values = codes(marked)
        found |= {DropReason.EXCLUDED.of(value): numbers == number for number, value in enumerate(values)}
    for name, unwanted in exclusion.attributes.items():
        numbers, values = attribute(batch, name)
        for value in sorted(unwanted):
            if value in values:
                found[DropReason.EXCLUDED.of(f"{name} = {value}")] = numbers == values.index(value)
    units: list[Any] = [buckets.hash_of(buckets.UNIT, name) for name in exclusion.units]
    if units:
        found[DropReason.EXCLUDED.of("listed units")] = np.isin(unit, np.array(units, np.uint64))
    if len(crawlers):
        rule = f"units of more than {exclusion.max_impressions:,} impressions"
        found[DropReason.EXCLUDED.of(rule)] = np.isin(unit, crawlers)
    return found


MAX_LENGTH = 100  # characters of a query that are shown
NO_QUERY = -1
_SHIFT = np.uint64(44)


def query_numbers(batch: pa.RecordBatch) -> Array:
    """The number of each row's query, -1 if it has none. One in a million pairs of queries share a number."""
    found = column(batch, "query")
    if found is None:
        return np.full(batch.num_rows, NO_QUERY, np.int64)
    names = text_column(found)
    hashes = buckets.hashes(buckets.QUERY, names.offsets, names.data)
    return np.where(names.there, (hashes >> _SHIFT).astype(np.int64), NO_QUERY)


def query_text(batches: Iterable[pa.RecordBatch], number: int) -> str | None:
    """The text of the first query with this number, if there is one."""
    for batch in batches:
        rows = np.flatnonzero(query_numbers(batch) == number)
        if len(rows):
            text = batch.column("query").slice(int(rows[0]), 1).cast(pa.string()).cast(pa.binary())[0].as_py()
            return str(text.decode(errors="replace"))[:MAX_LENGTH]
    return None
