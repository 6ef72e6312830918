"""The shown results of a log, page by page, kinds of queries (H12c, section 4.2), and counts of equal results.

Results with the same features are counted together, for the design matrix of the logistic regression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.caption_bias.features import FIRST, GRADE, POSITION, measure
from interleaf.caption_bias.logistic_model import Fit, design_matrix, fit, gram
from interleaf.decode import Decoded, Decoding
from interleaf.decode.columns import ListColumn, attribute, column, excluded_rows, list_column, numbers, text_column
from interleaf.execution.passes import Groups, MergeableSums, group_rows
from interleaf.execution.task import Task
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array
from interleaf.log.schema import SCHEMA

QUERY = "interleaf-query"  # the salt of its hash
NO_CAPTIONS = "no captions"
UNEVEN = "more or fewer captions than documents"
ALL = "all queries"
HEAD, BODY, TAIL = FREQUENCIES = ("head", "body", "tail")
ENHANCED, NAVIGATIONAL, REST = TYPES = ("enhanced navigational", "navigational", "non-navigational")
SEGMENTS = (ALL, *FREQUENCIES, *TYPES)
SHARE = 0.2
BITS = 1.0  # the largest entropy of the clicks of a navigational query
MIN_CLICKS = 5  # a query with fewer clicks counts as non-navigational, because their entropy is unreliable
_BITS, _PER_WORD, _MASK = 2, 32, np.uint64(3)
NEVER, ALWAYS = "no result has it", "all results have it"
NO_CLICK = "none of the few results that have it was clicked"
ALL_CLICKED = "all of the few results that have it were clicked"
FOLLOWS = "follows from the features before it"
P_VALUE = 0.001  # features with a larger one are left out
_ALIASED = 1e-9  # the share of a column's sum of squares that earlier columns do not explain


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
        self.clicked = decoded.is_clicked[self.page, self.place]
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


@dataclass(frozen=True, eq=False)
class Patterns:
    """`codes[pattern]` (position, grade, features) of `rows[pattern]` results, `clicks[pattern]` of them clicked."""

    codes: Array
    rows: Array
    clicks: Array

    @classmethod
    def of(cls, codes: Array, clicked: Array) -> Patterns:
        """The patterns of results, given the codes of each result."""
        return cls.group(codes, np.ones(len(codes), np.int64), clicked.astype(np.int64))

    @classmethod
    def group(cls, codes: Array, rows: Array, clicks: Array) -> Patterns:
        """The patterns of counts, some of which may have the same codes."""
        *keys, rows, clicks = group_rows(_pack(codes), [(rows, "sum"), (clicks, "sum")])
        return cls(_unpack(keys, codes.shape[1]), rows, clicks)

    def __add__(self, other: Patterns) -> Patterns:
        return self.group(*(np.concatenate(parts) for parts in zip(self._parts, other._parts, strict=True)))

    @property
    def _parts(self) -> tuple[Array, Array, Array]:
        return self.codes, self.rows, self.clicks

    def only(self, features: Sequence[int]) -> Patterns:
        return self.group(self.codes[:, [*range(FIRST), *(FIRST + one for one in features)]], *self._parts[1:])

    def sort(self) -> Patterns:
        """Sorted, so that fits do not depend on the order in which results were read."""
        order = np.lexsort(_pack(self.codes))
        return Patterns(*(part[order] for part in self._parts))


def _pack(codes: Array) -> list[Array]:
    """Pack codes into words: one for position and grade, then one per 32 features."""
    words = [codes[:, 0].astype(np.uint64) | codes[:, 1].astype(np.uint64) << np.uint64(8)]
    for start in range(FIRST, codes.shape[1], _PER_WORD):
        word = np.zeros(len(codes), np.uint64)
        for place in range(min(_PER_WORD, codes.shape[1] - start)):
            word |= (codes[:, start + place] + 1).astype(np.uint64) << np.uint64(_BITS * place)
        words.append(word)
    return words


def _unpack(words: Sequence[Array], columns: int) -> Array:
    codes = np.zeros((len(words[0]), columns), np.int8)
    codes[:, 0], codes[:, 1] = words[0] & np.uint64(0xFF), words[0] >> np.uint64(8)
    for feature in range(FIRST, columns):
        word, place = divmod(feature - FIRST, _PER_WORD)
        codes[:, feature] = (words[1 + word] >> np.uint64(_BITS * place) & _MASK).astype(np.int8) - 1
    return codes


@dataclass(frozen=True, eq=False)
class DesignMatrix:
    """Patterns and the names of their features.

    Indicators of positions and of grades both sum to 1, so the first grade has none.
    """

    patterns: Patterns
    names: tuple[str, ...]

    def only(self, names: Sequence[str]) -> DesignMatrix:
        if tuple(names) == self.names:
            return self
        return DesignMatrix(self.patterns.only([self.names.index(name) for name in names]), tuple(names))

    @cached_property
    def positions(self) -> list[tuple[int, ...]]:
        """Groups of positions that share a column."""
        return _levels(self.patterns, POSITION)

    @cached_property
    def grades(self) -> list[tuple[int, ...]]:
        """Groups of grades that share a column; the first group has none."""
        return _levels(self.patterns, GRADE)

    @property
    def start(self) -> int:
        return len(self.positions) + len(self.grades) - 1

    @cached_property
    def matrix(self) -> Array:
        """One row per pattern; all values are -1, 0 or 1."""
        return design_matrix(self.patterns.codes, self.positions, self.grades, slice(FIRST, None))

    def fit(self, start: Array | None = None) -> Fit:
        return fit(self.matrix, self.patterns.rows, self.patterns.clicks, start)

    def useless(self) -> dict[str, str]:
        """Features that cannot have a weight, and why."""
        reasons = {name: reason for name in self.names if (reason := self._uselessness(name))}
        others = self.only([name for name in self.names if name not in reasons])
        return reasons | dict.fromkeys(others.followers(), FOLLOWS)

    def _uselessness(self, name: str) -> str:
        values = self.patterns.codes[:, FIRST + self.names.index(name)]
        has = values != 0
        rows, clicks = (counts[has].sum() for counts in (self.patterns.rows, self.patterns.clicks))
        if rows == 0:
            return NEVER
        if (values == values[0]).all():
            return ALWAYS
        if 0 < clicks < rows:
            return ""
        # The probability that all results with this feature are clicked, or none, by position and relevance.
        scores = self.matrix[has, : self.start] @ self.only([]).fit().weights
        chance = np.exp(-self.patterns.rows[has] @ np.logaddexp(0, -scores if clicks else scores))
        return "" if chance < P_VALUE else ALL_CLICKED if clicks else NO_CLICK

    def followers(self) -> list[str]:
        """Features that are linear combinations of earlier columns."""
        squares = gram(self.matrix, self.patterns.rows)
        independent, followers = list(range(self.start)), []
        for place in range(self.start, len(squares)):
            among, along = squares[np.ix_(independent, independent)], squares[independent, place]
            rest = squares[place, place] - along @ np.linalg.lstsq(among, along, rcond=None)[0]
            if rest > _ALIASED * squares[place, place]:
                independent.append(place)
            else:
                followers.append(self.names[place - self.start])
        return followers


def _levels(patterns: Patterns, block: int) -> list[tuple[int, ...]]:
    """Groups of the codes that occur; one that was never clicked, or always, joins the one before it.

    Otherwise its best weight would be infinite.
    """
    rows = np.bincount(patterns.codes[:, block], patterns.rows)
    clicks = np.bincount(patterns.codes[:, block], patterns.clicks)

    def is_mixed(level: Sequence[int]) -> bool:
        return bool(0 < clicks[list(level)].sum() < rows[list(level)].sum())

    levels: list[tuple[int, ...]] = []
    for code in np.flatnonzero(rows).tolist():
        if levels and not (is_mixed(levels[-1]) and is_mixed([code])):
            levels[-1] = (*levels[-1], code)
        else:
            levels.append((code,))
    return levels
