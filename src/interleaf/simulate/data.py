"""Judged queries: documents with features and grades, and how to part them into what is learnt on and tested on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, pairwise

import numpy as np

from interleaf.chance import Key, Keyed, key_of
from interleaf.errors import DataError
from interleaf.methods.arrays import Array

MOST_GRADE = 127  # grades are 8-bit integers
_BLOCK = 65_536  # rows looked at together, so that a set larger than memory is no trouble


@dataclass(frozen=True, eq=False, repr=False)
class Judged:
    """Queries whose documents have features and grades; no array of it can be changed.

    Row `r` is a document: `features[r, f - 1]` is its feature with id f, `grades[r]` how good it is, from 0. The rows
    of query `q` are `offsets[q]` up to `offsets[q + 1]`. `name` is what a result prints.

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
        object.__setattr__(self, "offsets", frozen(np.asarray(self.offsets, np.int64)))
        object.__setattr__(self, "queries", tuple(map(str, self.queries)))
        self._check()

    def _check(self) -> None:
        rows, ends = len(self.features), self.offsets
        if len(self.grades) != rows:
            raise DataError(f"{self.name}: {rows} rows of features, but {len(self.grades)} grades; give one a row")
        if len(ends) != len(self.queries) + 1:
            counts = f"{len(ends)} offsets for {len(self.queries)} queries"
            raise DataError(f"{self.name}: {counts}; give where each query starts, and the end of the last")
        if len(ends) < 2 or ends[0] != 0 or ends[-1] != rows or (np.diff(ends) < 1).any():
            raise DataError(
                f"{self.name}: offsets must rise from 0 to the number of rows, {rows}; every query has a document"
            )
        if len(set(self.queries)) < len(self.queries):
            twice = Counter(self.queries).most_common(1)[0][0]
            raise DataError(f"{self.name}: query {twice!r} is there twice; give each query its own id")

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        rows, columns = self.features.shape
        counts = f"{len(self):,} queries, {rows:,} documents, {columns:,} features"
        return f"{self.name}: {counts}, grades 0 to {self.most_grade}"

    @property
    def most_grade(self) -> int:
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
        """A row of the set in words: its query and its number there."""
        query = int(np.searchsorted(self.offsets, row, side="right")) - 1
        return f"{self.name}, query {self.queries[query]!r}, document {row - int(self.offsets[query]) + 1}"

    def rows(self, query: int) -> slice:
        """Where the documents of a query are, by its number from 0."""
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
        return Judged(
            frozen(self.features[rows]),
            self.grades[rows],
            offsets,
            tuple([self.queries[query] for query in chosen]),
            name or f"{self.name}, {len(chosen)} of {len(self)} queries",
        )

    def split(self, shares: Sequence[float], seed: Key) -> list[Judged]:
        """Parts with these shares of the queries, at random, in the order of the set: `split((0.8, 0.2), seed=1)`."""
        if not shares or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-9:
            raise DataError(f"shares are {shares!r}; give positive numbers that sum to 1")
        order = shuffled(len(self), ("split", seed))
        ends = [0, *(round(share * len(self)) for share in accumulate(shares))]
        if any(start == end for start, end in pairwise(ends)):
            raise DataError(f"{self.name} has {len(self)} queries, too few to split by {shares!r}; ask for fewer parts")
        return [self.select(sorted(order[start:end])) for start, end in pairwise(ends)]

    def folds(self, count: int, seed: Key) -> Folds:
        """Cross-validation by query: pairs (train, test), every query in one test set."""
        if not 2 <= count <= len(self):
            raise DataError(
                f"cannot make {count} folds of the {len(self)} queries of {self.name}; "
                "ask for at least 2, at most one a query"
            )
        order = shuffled(len(self), ("folds", seed))
        return Folds(self, tuple(tuple(sorted(order[fold::count])) for fold in range(count)))


@dataclass(frozen=True, eq=False)
class Folds:
    """Pairs (train, test), each made when it is asked for: together they would take a copy of the set a fold."""

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
    """Several sets as one; where some have fewer features, the missing ones are 0, as in sparse files."""
    if not parts:
        raise DataError("there is nothing to concatenate; give at least one set")
    features = np.zeros((sum(len(part.grades) for part in parts), max(part.features.shape[1] for part in parts)), "f4")
    starts = [0, *accumulate(len(part.grades) for part in parts)]
    for part, start in zip(parts, starts, strict=False):
        features[start : start + len(part.grades), : part.features.shape[1]] = part.features
    return Judged(
        frozen(features),
        np.concatenate([part.grades for part in parts]),
        np.concatenate([[0], *(part.offsets[1:] + start for part, start in zip(parts, starts, strict=False))]),
        tuple(chain.from_iterable(part.queries for part in parts)),
        name or " + ".join(part.name for part in parts),
    )


def letor_folds(parts: Sequence[Judged]) -> Iterator[tuple[Judged, Judged]]:
    """The folds of a set that comes in parts S1, S2, ..., as LETOR pairs them: (train and validation, test).

    Fold 1 tests on the last part, fold 2 on S1, fold 3 on S2 and so on, and takes all others, from the one after it.
    """
    if len(parts) < 2:
        raise DataError(f"folds need the parts S1, S2, ... of a set, at least two; there are {len(parts)}")
    for test in range(-1, len(parts) - 1):
        others = [parts[(test + step) % len(parts)] for step in range(1, len(parts))]
        yield concatenate(others), parts[test]


def shuffled(count: int, key: Key) -> list[int]:
    """The numbers 0 .. count-1 in the order that belongs to a key (Fisher and Yates)."""
    chance, order = Keyed(key_of(key)), list(range(count))
    for last in range(count - 1, 0, -1):
        other = chance.pick(last + 1)
        order[last], order[other] = order[other], order[last]
    return order


def frozen(array: Array) -> Array:
    """The same array, plain and read-only: kernels then see one type, wherever it came from."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _frozen_features(features: Array) -> Array:
    given = np.asarray(features)
    matrix = np.ascontiguousarray(given, np.float32)
    if matrix.ndim != 2:
        raise DataError(f"features have {matrix.ndim} axes; give a matrix with a row a document and a column a feature")
    # What is frozen was checked when it was made; looking again would page in all of a mapped file.
    if given.flags.writeable and not np.isfinite(matrix.sum(dtype=np.float64)):
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise DataError(f"feature {column + 1} of row {row} is {matrix[row, column]}; features are finite numbers")
    return frozen(matrix)


def _frozen_grades(grades: Array) -> Array:
    given = np.asarray(grades)
    wrong = given[(given < 0) | (given > MOST_GRADE) | (given != np.floor(given))]
    if len(wrong):
        raise DataError(f"a grade is {wrong[0]}; grades are whole numbers from 0 to {MOST_GRADE}")
    return frozen(given.astype(np.int8))
