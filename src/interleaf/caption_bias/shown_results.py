"""The shown results of a log, page by page, and kinds of queries (H12c, section 4.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.caption_bias.features import measure
from interleaf.decode import Decoded, Decoding
from interleaf.decode.attributes import attribute, excluded_rows
from interleaf.decode.columns import ListColumn, column, list_column, numbers, text_column
from interleaf.execution.passes import Groups, MergeableSums
from interleaf.execution.task import Task
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array
from interleaf.log.schema import SCHEMA

QUERY = "interleaf-query"  # the salt of its hash
NO_CAPTIONS = "no captions"
UNEVEN = "more or fewer captions than documents"


@dataclass(frozen=True)
class CaptionTask(Task):
    """The options for reading a log with captions."""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*super().columns, "captions", "grades", "query", "documents", "attributes"]))


class ShownResults:
    """The results of some impressions, page after page; `counts` are the results of each page.

    By result: `page` is its row of `decoded`, `place` its position from 0, `measures` the numbers of its caption,
    `clicked` whether it was clicked, `bucket` the bucket of the unit.
    """

    def __init__(self, batch: pa.RecordBatch, decoded: Decoded, captions: ListColumn, measures: Array) -> None:
        self._batch, self.decoded, self.counts = batch, decoded, decoded.counts
        self.page = np.repeat(np.arange(len(decoded.rows)), self.counts)
        self.place = np.arange(len(self.page)) - np.repeat(np.cumsum(self.counts) - self.counts, self.counts)
        self.measures = measures[self._inside(captions) - int(captions.offsets[0])]
        self.clicked = decoded.clicked[self.page, self.place]
        self.bucket = buckets.buckets(decoded.unit)[self.page]

    def _inside(self, lists: ListColumn) -> Array:
        """The indices of these results in a column that has one list per page."""
        return np.asarray(lists.offsets[self.decoded.rows].astype(np.int64)[self.page] + self.place)

    @cached_property
    def grades(self) -> Array:
        """Judged relevance, -1 if not judged."""
        grades = np.full(len(self.page), -1, np.int16)
        array = column(self._batch, "grades")
        if array is not None:
            judged = list_column(array)
            whole = (np.diff(judged.offsets)[self.decoded.rows] == self.counts)[self.page]
            grades[whole] = numbers(judged.values, -1, pa.int16())[self._inside(judged)[whole]]
        return grades

    @cached_property
    def queries(self) -> Array:
        """The hash of each page's query; pages without a query share one hash."""
        array = column(self._batch, "query")
        if array is None:
            return np.zeros(len(self.decoded.rows), np.uint64)
        names = text_column(array)
        return np.asarray(buckets.hashes(QUERY, names.offsets, names.data)[self.decoded.rows])

    @cached_property
    def documents(self) -> Array:
        shown = list_column(self._batch.column("documents"))
        names = text_column(shown.values)
        return np.asarray(buckets.hashes(buckets.DOCUMENT, names.offsets, names.data)[self._inside(shown)])

    def has(self, name: str, value: str) -> Array:
        """Which pages have this attribute with this value."""
        codes, values = attribute(self._batch, name)
        return np.asarray(codes[self.decoded.rows] == (values.index(value) if value in values else -1))

    def pages(self, impression: str) -> Iterator[tuple[int, list[Any]]]:
        """The pages with this impression id, and their captions."""
        names = self._batch.column("impression")
        for page, row in enumerate(self.decoded.rows.tolist()):
            if names[row].as_py() == impression:
                yield page, self._batch.column("captions")[row].as_py()


def results_of(batch: pa.RecordBatch, task: Task, repeated: Array, dropped: Counter[str]) -> Iterator[ShownResults]:
    """The results of a batch's impressions that have captions; the others are counted as dropped, by reason."""
    decoding = Decoding(batch, task.scoring.counting, task.wants, repeated)
    left_out = excluded_rows(batch, decoding.unit, task.exclusion, task.crawlers) if task.exclusion else {}
    array = column(batch, "captions")
    captions = list_column(pa.nulls(batch.num_rows, SCHEMA.field("captions").type) if array is None else array)
    measures = measure(captions.values[int(captions.offsets[0]) : int(captions.offsets[-1])])
    left_out |= {NO_CAPTIONS: ~captions.there}
    for decoded in decoding:
        dropped.update(decoded.dropped)
        marked = {rule: rows[decoded.rows] for rule, rows in left_out.items()}
        marked[UNEVEN] = np.diff(captions.offsets)[decoded.rows] != decoded.counts
        keep = np.ones(len(decoded.rows), np.bool_)
        for reason, rows in marked.items():
            dropped[reason] += int((rows & keep).sum())
            keep &= ~rows
        if keep.any():
            yield ShownResults(batch, decoded.only(keep), captions, measures)
    dropped.update(decoding.dropped)


ALL = "all queries"
HEAD, BODY, TAIL = FREQUENCIES = ("head", "body", "tail")
ENHANCED, NAVIGATIONAL, REST = TYPES = ("enhanced navigational", "navigational", "non-navigational")
SEGMENTS = (ALL, *FREQUENCIES, *TYPES)
SHARE = 0.2
BITS = 1.0  # the largest entropy of the clicks of a navigational query
MIN_CLICKS = 5  # a query with fewer clicks counts as non-navigational, because their entropy is unreliable


class QueryCounts(MergeableSums):
    """How often each query was issued, and each of its documents clicked."""

    merged = ("_queries", "_clicked")

    def __init__(self) -> None:
        self._queries, self._clicked = Groups(1, ["sum"]), Groups(2, ["sum"])

    def add(self, results: ShownResults) -> None:
        queries = results.queries
        self._queries.add([queries, np.ones(len(queries), np.int64)])
        clicked = np.flatnonzero(results.clicked)
        self._clicked.add([queries[results.page[clicked]], results.documents[clicked], np.ones(len(clicked), np.int64)])

    def kinds(self) -> QueryKinds:
        queries, counts = self._queries.columns
        order = np.lexsort((queries, counts))  # ties in frequency are ordered by the hash
        share = np.empty(len(order))
        share[order] = (np.arange(len(order)) + 0.5) / max(1, len(order))
        frequency = np.where(share > 1 - SHARE, HEAD, np.where(share < SHARE, TAIL, BODY))
        clicked, _, clicks = self._clicked.columns
        names, whose = np.unique(clicked, return_inverse=True)
        total = np.bincount(whose, clicks, len(names))
        shares = clicks / total[whose] if len(clicks) else np.zeros(0)
        entropy = np.bincount(whose, -shares * np.log2(shares), len(names))
        return QueryKinds(queries, frequency, names[(entropy <= BITS) & (total >= MIN_CLICKS)])


class QueryKinds(NamedTuple):
    """The sorted hashes of all queries, how frequent each is, and the hashes of navigational ones."""

    queries: Array
    frequency: Array
    navigational: Array

    def of(self, results: ShownResults, flag: tuple[str, str] | None = None) -> dict[str, Array]:
        """Which pages belong to each segment; `flag` is the attribute and value of enhanced navigational pages."""
        queries = results.queries
        frequency = self.frequency[np.searchsorted(self.queries, queries)]
        enhanced = results.has(*flag) if flag else np.zeros(len(queries), np.bool_)
        navigational = np.isin(queries, self.navigational) & ~enhanced
        return {
            ALL: np.ones(len(queries), np.bool_),
            **{name: frequency == name for name in FREQUENCIES},
            **{ENHANCED: enhanced, NAVIGATIONAL: navigational, REST: ~enhanced & ~navigational},
        }
