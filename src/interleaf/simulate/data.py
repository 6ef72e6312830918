"""Judged queries: documents with features and grades, read or synthetic, and their splits and folds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
from scipy.special import ndtri

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.kernels.randomness import GOLDEN, MIX_1, MIX_2, UNIT, Key, Keyed, bytes_of, key_of

MAX_GRADE = 127  # grades are 8-bit integers
_BLOCK = 65_536  # rows per step, so that a set may be larger than memory


@dataclass(frozen=True, eq=False, repr=False)
class Judged:
    """Queries whose documents have features and grades; all arrays are read-only.

    Row `r` is a document: `features[r, f - 1]` is its feature with id f, `grades[r]` its relevance grade from 0. The
    rows of query `q` are `offsets[q]` up to `offsets[q + 1]`. Results print `name`.

    >>> data = Judged([[0.5, 1], [0.25, 1], [0, 1]], [2, 0, 1], [0, 2, 3], ("first", "second"), "tiny")
    >>> data
    tiny: 2 queries, 3 documents, 2 features, grades 0 to 2
    >>> data.grades[data.rows(0)], data.varying_features()
    (array([2, 0], dtype=int8), array([1]))
    """

    features: Array
    grades: Array
    offsets: Array
    queries: tuple[str, ...]
    name: str = "judged queries"

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", _frozen_features(self.features))
        object.__setattr__(self, "grades", _frozen_grades(self.grades))
        object.__setattr__(self, "offsets", freeze(np.asarray(self.offsets, np.int64)))
        object.__setattr__(self, "queries", tuple(map(str, self.queries)))
        rows, ends = len(self.features), self.offsets
        if len(self.grades) != rows:
            raise DataError(f"{self.name}: {rows} rows of features, but {len(self.grades)} grades; give one per row")
        if len(ends) != len(self.queries) + 1:
            counts = f"{len(ends)} offsets for {len(self.queries)} queries"
            raise DataError(f"{self.name}: {counts}; give where each query starts, and the end of the last")
        if len(ends) < 2 or ends[0] != 0 or ends[-1] != rows or (np.diff(ends) < 1).any():
            problem = f"offsets must rise from 0 to the number of rows, {rows}; every query has a document"
            raise DataError(f"{self.name}: {problem}")
        if len(set(self.queries)) < len(self.queries):
            twice = Counter(self.queries).most_common(1)[0][0]
            raise DataError(f"{self.name}: query {twice!r} is there twice; give each query its own id")

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        rows, columns = self.features.shape
        counts = f"{len(self):,} queries, {rows:,} documents, {columns:,} features"
        return f"{self.name}: {counts}, grades 0 to {self.max_grade}"

    @property
    def max_grade(self) -> int:
        """The best grade that a document has."""
        return int(self.grades.max())

    @property
    def feature_ids(self) -> Array:
        """The ids of all features, from 1."""
        return np.arange(1, self.features.shape[1] + 1)

    @cached_property
    def documents(self) -> Array:
        """The name of the document in each row, such as q7-d2 for the second one of query 7."""
        sizes = np.diff(self.offsets)
        numbers = (np.arange(len(self.grades)) - np.repeat(self.offsets[:-1], sizes) + 1).tolist()
        queries = np.repeat(np.array(self.queries, object), sizes)
        return np.array([f"q{query}-d{number}" for query, number in zip(queries, numbers, strict=True)], object)

    def varying_features(self) -> Array:
        """The ids of the features that are not the same for all documents: O17 draws its rankers from these."""
        varies = np.zeros(self.features.shape[1], np.bool_)
        for start in range(0, len(self.features), _BLOCK):
            varies |= (self.features[start : start + _BLOCK] != self.features[0]).any(axis=0)
        return self.feature_ids[varies]

    def where(self, row: int) -> str:
        """A description of a row for messages: its query and its number there."""
        query = int(np.searchsorted(self.offsets, row, side="right")) - 1
        return f"{self.name}, query {self.queries[query]!r}, document {row - int(self.offsets[query]) + 1}"

    def rows(self, query: int) -> slice:
        """The rows of a query, given by its number from 0."""
        return slice(int(self.offsets[query]), int(self.offsets[query + 1]))

    def select(self, indices: Iterable[int], name: str | None = None) -> Judged:
        """Some queries by their numbers from 0, in this order."""
        chosen = np.array(list(indices), np.int64)
        wrong = chosen[(chosen < 0) | (chosen >= len(self))]
        if len(wrong) or not len(chosen):
            missing = f"query number {wrong[0]}" if len(wrong) else "an empty choice of queries"
            raise DataError(f"{self.name} cannot give {missing}; its queries are 0 to {len(self) - 1}")
        sizes = np.diff(self.offsets)[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], sizes)
        queries = tuple([self.queries[query] for query in chosen])
        name = name or f"{self.name}, {len(chosen)} of {len(self)} queries"
        return Judged(freeze(self.features[rows]), self.grades[rows], offsets, queries, name)

    def split(self, shares: Sequence[float], seed: Key) -> list[Judged]:
        """Parts with these shares of the queries, at random, in the order of the set: `split((0.8, 0.2), seed=1)`."""
        if not shares or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-9:
            raise DataError(f"shares are {shares!r}; give positive numbers that sum to 1")
        order = shuffle(len(self), ("split", seed))
        ends = [0, *(round(share * len(self)) for share in accumulate(shares))]
        if any(start == end for start, end in pairwise(ends)):
            raise DataError(f"{self.name} has {len(self)} queries, too few to split by {shares!r}; ask for fewer parts")
        return [self.select(sorted(order[start:end])) for start, end in pairwise(ends)]

    def folds(self, count: int, seed: Key) -> QueryFolds:
        """Cross-validation by query: pairs (train, test); every query is in one test set."""
        if not 2 <= count <= len(self):
            problem = f"cannot make {count} folds of the {len(self)} queries of {self.name}"
            raise DataError(f"{problem}; ask for at least 2, at most one per query")
        order = shuffle(len(self), ("folds", seed))
        return QueryFolds(self, tuple(tuple(sorted(order[fold::count])) for fold in range(count)))


@dataclass(frozen=True, eq=False)
class QueryFolds:
    """Pairs (train, test), each copied from the set only when it is used, because each is as large as the set."""

    data: Judged
    tests: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.tests)

    def __getitem__(self, fold: int) -> tuple[Judged, Judged]:
        test = set(self.tests[fold])
        train = [query for query in range(len(self.data)) if query not in test]
        return self.data.select(train), self.data.select(self.tests[fold])

    def __iter__(self) -> Iterator[tuple[Judged, Judged]]:
        return map(self.__getitem__, range(len(self)))


def concatenate(parts: Sequence[Judged], name: str | None = None) -> Judged:
    """Several sets as one; missing features are 0, as in sparse files."""
    if not parts:
        raise DataError("there is nothing to concatenate; give at least one set")
    features = np.zeros((sum(len(part.grades) for part in parts), max(part.features.shape[1] for part in parts)), "f4")
    starts = [0, *accumulate(len(part.grades) for part in parts)]
    for part, start in zip(parts, starts, strict=False):
        features[start : start + len(part.grades), : part.features.shape[1]] = part.features
    return Judged(
        freeze(features),
        np.concatenate([part.grades for part in parts]),
        np.concatenate([[0], *(part.offsets[1:] + start for part, start in zip(parts, starts, strict=False))]),
        tuple(chain.from_iterable(part.queries for part in parts)),
        name or " + ".join(part.name for part in parts),
    )


def letor_folds(parts: Sequence[Judged]) -> Iterator[tuple[Judged, Judged]]:
    """The folds of a set that comes in parts S1, S2, ..., as LETOR pairs them: (train and validation, test).

    Fold 1 tests on the last part, fold 2 on S1, fold 3 on S2 and so on. Each trains on all other parts, in order
    from the one after its test part.
    """
    if len(parts) < 2:
        raise DataError(f"folds need the parts S1, S2, ... of a set, at least two; there are {len(parts)}")
    for test in range(-1, len(parts) - 1):
        others = [parts[(test + step) % len(parts)] for step in range(1, len(parts))]
        yield concatenate(others), parts[test]


def shuffle(count: int, key: Key) -> list[int]:
    """The numbers 0 .. count-1 in a random order that depends on the key only (Fisher and Yates)."""
    chance, order = Keyed(key_of(key)), list(range(count))
    for last in range(count - 1, 0, -1):
        other = chance.pick(last + 1)
        order[last], order[other] = order[other], order[last]
    return order


def freeze(array: Array) -> Array:
    """The same array as a plain read-only view, so that kernels are compiled for one type only."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _frozen_features(features: Array) -> Array:
    source = np.asarray(features)
    matrix = np.ascontiguousarray(source, np.float32)
    if matrix.ndim != 2:
        raise DataError(f"features have {matrix.ndim} axes; give a matrix [document, feature]")
    # A read-only array was checked before; another check would read a whole memory-mapped file.
    if source.flags.writeable and not np.isfinite(matrix.sum(dtype=np.float64)):
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise DataError(f"feature {column + 1} of row {row} is {matrix[row, column]}; features are finite numbers")
    return freeze(matrix)


def _frozen_grades(grades: Array) -> Array:
    values = np.asarray(grades)
    wrong = values[(values < 0) | (values > MAX_GRADE) | (values != np.floor(values))]
    if len(wrong):
        raise DataError(f"a grade is {wrong[0]}; grades are whole numbers from 0 to {MAX_GRADE}")
    return freeze(values.astype(np.int8))


STRONGEST, FEATURES = 0.8, 20
_NEXT_GRADE = 0.4  # frequency of each grade relative to the one below it
_STEP = 0.5  # rounding to half a standard deviation causes ties in almost every top ten


def synthetic(
    queries: int = 1000,
    documents: int | tuple[int, int] = (10, 40),
    features: int = FEATURES,
    grades: int = 5,
    seed: Key = 1,
    *,
    shares: Sequence[float] | None = None,
    strengths: Sequence[float] | None = None,
    correlation: float = 0.2,
    families: int = 1,
    shared_prefix: float = 0.0,
    prefix_length: int = 3,
    ties: float = 0.7,
) -> Judged:
    """Judged queries with features from strong to useless; the same arguments give the same set.

    A query has `documents` documents: a fixed number, or one drawn uniformly from a range. A document's grade g is
    drawn by `shares`, one weight per grade (default: each grade 0.4 times as likely as the one below it). With z the
    grade standardized, z = (g - mean) / deviation, feature j of a document is

        x_j = s_j z + sqrt(1 - s_j^2) e_j,    e_j = sqrt(c) shared + sqrt(1 - c) own_j

    where the noises `shared` (one per document and family) and `own_j` are standard normal, s_j is the strength of the
    feature (default: evenly from 0.8 for feature 1 down to 0 for the last) and c the `correlation`. So the quality of
    feature j, its correlation with the grade, is s_j; in a family, corr(x_i, x_j) is s_i s_j + c sqrt((1 - s_i^2) (1 -
    s_j^2)). Feature j (from 0) of F belongs to family j * `families` // F, like one measure on several fields.

    In a share `shared_prefix` of the queries, features 2, 4, 6, ... put the same documents first, in the same order, as
    features 1, 3, 5, ... do, down to `prefix_length`: values are exchanged, and the quality moves towards that of the
    other feature. With probability `ties`, each feature in each query is rounded to halves, which makes its top ten
    ambiguous, as 60 to 80 % of them are in MSLR and LETOR. Rounding adds noise of variance 1/48.

    >>> synthetic(queries=50, documents=10, features=5, grades=3, seed=7)
    synthetic, seed 7: 50 queries, 500 documents, 5 features, grades 0 to 2
    """
    smallest, largest = (documents, documents) if isinstance(documents, int) else documents
    _check_counts(
        queries=queries, documents=smallest, features=features, families=families, prefix_length=prefix_length
    )
    _check_shares(correlation=correlation, shared_prefix=shared_prefix, ties=ties)
    if largest < smallest:
        raise DataError(f"documents is {documents!r}; give a number, or a range from the smallest to the largest")
    sizes = smallest + (_draw_uniform(queries, seed, "documents") * (largest - smallest + 1)).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    weights, levels = _weights(shares, grades), np.arange(grades)
    grade = np.searchsorted(np.cumsum(weights)[:-1], _draw_uniform(int(offsets[-1]), seed, "grades"), side="right")
    mean = weights @ levels
    signal = (grade - mean) / np.sqrt(weights @ (levels - mean) ** 2)
    matrix, before = np.empty((len(grade), features), np.float32), np.empty(0)
    columns = _signals(signal, _checked_strengths(strengths, features), correlation, families, seed)
    for column, values in enumerate(columns):
        if column % 2 and shared_prefix:
            chosen = _draw_uniform(queries, seed, "prefix", column) < shared_prefix
            _follow(before, values, np.repeat(chosen, sizes), np.repeat(np.arange(queries), sizes), prefix_length)
        rounded = np.repeat(_draw_uniform(queries, seed, "ties", column) < ties, sizes)
        matrix[:, column] = np.where(rounded, np.round(values / _STEP) * _STEP, values)
        before = values
    names = tuple(map(str, range(1, queries + 1)))
    return Judged(freeze(matrix), grade, offsets, names, f"synthetic, seed {seed}")


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if not isinstance(count, int) or count < 1:
            raise DataError(f"{name} is {count!r}; give a whole number from 1 up")


def _check_shares(**shares: float) -> None:
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise DataError(f"{name} is {share!r}; give a number from 0 to 1")


def with_features(max_feature: int, seed: Key = 1) -> Judged:
    """The default set of a seed, with features up to this id: those after the 20 of `synthetic` are noise.

    A feature does not depend on the other ids, so a ranker does not depend on what it is compared with.

    >>> bool((with_features(30).features[:, :20] == synthetic().features).all())
    True
    """
    extra = max(0, max_feature - FEATURES)
    strengths = [*np.linspace(STRONGEST, 0, FEATURES), *[0.0] * extra]
    return synthetic(features=FEATURES + extra, strengths=strengths, seed=seed)


def _signals(signal: Array, strengths: Array, correlation: float, families: int, seed: Key) -> Iterator[Array]:
    """The features one after the other, each with its own random stream."""
    for column, strength in enumerate(strengths):
        family = column * families // len(strengths)
        shared = np.sqrt(correlation) * ndtri(_draw_uniform(len(signal), seed, "shared", family))
        own = np.sqrt(1 - correlation) * ndtri(_draw_uniform(len(signal), seed, "own", column))
        yield strength * signal + np.sqrt(1 - strength**2) * (shared + own)


def _follow(first: Array, second: Array, chosen: Array, query: Array, length: int) -> None:
    """In chosen rows, give the top documents of the first feature the top values of the second, in the same order."""
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return
    values, groups = second[rows], query[rows]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    sizes = np.diff(starts, append=len(rows))
    places = np.empty(len(rows), np.int64)  # by the first feature, from 0 in each query
    places[np.lexsort((-first[rows], groups))] = np.arange(len(rows)) - np.repeat(starts, sizes)
    order = np.lexsort((-values, np.minimum(places, length), groups))
    second[rows[order]] = values[np.lexsort((-values, groups))]


def _draw_uniform(count: int, *key: Any) -> Array:
    """The stream of `randomness.Keyed` for a key, as numbers in (0, 1)."""
    first, second = np.frombuffer(bytes_of(key_of(("synthetic", *key))), "<u8")
    words = first + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    bits = _mix(_mix(words) ^ second)
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * UNIT


def _mix(words: Array) -> Array:
    words = (words ^ (words >> np.uint64(30))) * np.uint64(MIX_1)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(MIX_2)
    return np.asarray(words ^ (words >> np.uint64(31)))


def _weights(shares: Sequence[float] | None, grades: int) -> Array:
    if not 2 <= grades <= MAX_GRADE + 1:
        raise DataError(f"grades is {grades!r}; give how many grades there are, 2 to {MAX_GRADE + 1}")
    weights = np.array([_NEXT_GRADE**grade for grade in range(grades)] if shares is None else shares, np.float64)
    if len(weights) != grades or not (weights >= 0).all() or np.count_nonzero(weights) < 2:
        raise DataError(f"shares is {shares!r}; give a weight for each of the {grades} grades, at least two above 0")
    return np.asarray(weights / weights.sum())


def _checked_strengths(strengths: Sequence[float] | None, features: int) -> Array:
    if strengths is None:
        return np.linspace(STRONGEST, 0, features)
    values = np.array(strengths, np.float64)
    if len(values) != features or not (np.abs(values) <= 1).all():
        raise DataError(f"strengths is {strengths!r}; give a number from -1 to 1 for each of the {features} features")
    return values
