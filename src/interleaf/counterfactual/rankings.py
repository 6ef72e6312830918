"""New rankings of the log's queries, from wherever they come, with documents as numbers to look up and to compose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from interleaf import buckets
from interleaf.decode.columns import texts
from interleaf.errors import DataError, RankingError
from interleaf.methods.arrays import Array, Given
from interleaf.simulate.rankers import run_lines

ByQuery = Mapping[str, Sequence[str]]
Source = str | PathLike[str] | ByQuery | Callable[[str], Sequence[str] | None]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Ranked(NamedTuple):
    """New rankings of numbered queries; a document is an entry, one for each query that it is ranked for.

    `queries[name]` is a query's number; `starts[query]` its first entry, and `ranks[entry, ranker]` where each ranker
    has it (0: nowhere). `keys` are sorted hashes of query and document, `entry_of[key's place]` what they stand for.
    `given` holds the rankings to compose from, as numbers of documents within the query.
    """

    rankers: tuple[str, ...]
    queries: dict[str, int]
    starts: Array
    ranks: Array
    keys: Array
    entry_of: Array
    given: Given
    lengths: Array
    choices: Array

    @property
    def union(self) -> Array:
        """How many documents the rankings of each query hold together."""
        return np.diff(self.starts)

    def find(self, queries: Array, documents: Array) -> Array:
        """The entry of each document, given by its hash, for its query; -1 for what no new ranker ranks."""
        if not len(self.keys):
            return np.full(documents.shape, -1, np.int64)
        keys = _keys(queries[:, None], documents)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.entry_of[places], -1)


def by_query(source: Source, names: Iterable[str], ranker: str) -> dict[str, Sequence[str]]:
    """The ranking of each named query that the source ranks: a run's file, a mapping, or a function of the query."""
    if isinstance(source, (str, PathLike)):
        source = read_run(source)
    if isinstance(source, Mapping):
        found: dict[str, Sequence[str]] = {name: source[name] for name in names if name in source}
    elif callable(source):
        found = {name: ranking for name in names if (ranking := source(name)) is not None}
    else:
        raise DataError(
            f"rankings of {ranker!r} are {source!r}; give the path of a TREC run, a mapping from queries to documents, "
            "or a function of a query"
        )
    for name, ranking in found.items():
        if isinstance(ranking, str) or not all(isinstance(document, str) for document in ranking):
            raise DataError(f"{ranker!r} ranks {ranking!r} for query {name!r}; give a list of documents' ids, as texts")
        if len(set(ranking)) < len(ranking):
            twice = next(document for place, document in enumerate(ranking) if document in ranking[:place])
            raise RankingError(f"{ranker!r} ranks document {twice!r} twice for query {name!r}; keep the first")
    return found


def read_run(path: str | PathLike[str]) -> dict[str, list[str]]:
    """A TREC run, `qid Q0 docid rank score tag`, or lines of `qid docid score`: best score first, of equals the first.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".run") as file:
    ...     written = file.write("7 d1 0.5\\n7 d2 2.5\\n9 d1 1\\n")
    ...     file.flush()
    ...     read_run(file.name)
    {'7': ['d2', 'd1'], '9': ['d1']}
    """
    scores: dict[str, dict[str, float]] = {}
    for where, query, document, score in run_lines(path):
        ranked = scores.setdefault(query, {})
        if document in ranked:
            raise DataError(f"{where}: document {document!r} of query {query!r} is there twice; keep one")
        ranked[document] = score
    if not scores:
        raise DataError(f"{path} ranks nothing; give a TREC run with at least one line")
    return {query: sorted(ranked, key=lambda document: -ranked[document]) for query, ranked in scores.items()}


def ranked(rankings: Mapping[str, ByQuery], k: int) -> Ranked:
    """The queries that every new ranker ranks something for, their documents numbered in the order of appearance."""
    rankers = tuple(rankings)
    first, *others = rankings.values()
    names = [name for name in first if all(name in other for other in others)]
    names = [name for name in names if any(of_ranker[name] for of_ranker in rankings.values())]
    queries = {name: number for number, name in enumerate(names)}
    lists = [[list(of_ranker[name]) for of_ranker in rankings.values()] for name in names]
    numbers = [_numbered(rows) for rows in lists]
    starts = np.cumsum([0, *map(len, numbers)])
    longest = max((len(row) for rows in lists for row in rows), default=1) or 1
    tops = np.full((len(names), len(rankers), longest), -1, np.int32)
    lengths = np.zeros((len(names), len(rankers)), np.int32)
    ranks = np.zeros((int(starts[-1]), len(rankers)), np.int32)
    choices = np.zeros((len(names), k), np.int32)
    for query, (rows, number_of) in enumerate(zip(lists, numbers, strict=True)):
        for ranker, row in enumerate(rows):
            places = [number_of[document] for document in row]
            tops[query, ranker, : len(row)] = places
            lengths[query, ranker] = len(row)
            ranks[starts[query] + np.array(places, np.int64), ranker] = np.arange(1, len(row) + 1)
        choices[query] = _choices(ranks[starts[query] : starts[query + 1]], k)
    keys = _keys(np.repeat(np.arange(len(names)), np.diff(starts)), _hashes(d for n in numbers for d in n))
    order = np.argsort(keys)
    given = Given(tops, lengths, np.diff(starts))
    return Ranked(rankers, queries, starts, ranks, keys[order], order, given, lengths, choices)


def _numbered(rows: Sequence[Sequence[str]]) -> dict[str, int]:
    return {document: number for number, document in enumerate(dict.fromkeys(d for row in rows for d in row))}


def _choices(ranks: Array, k: int) -> Array:
    """How many documents some ranker has at each rank or above."""
    first = np.where(ranks > 0, ranks, k + 1).min(axis=1, initial=k + 1)
    return np.cumsum(np.bincount(first, minlength=k + 2)[1 : k + 1])


def _hashes(documents: Iterable[str]) -> Array:
    found = texts(pa.array(list(documents), pa.string()))
    return buckets.hashes(buckets.DOCUMENT, found.offsets, found.data)


def _keys(queries: Array, documents: Array) -> Array:
    """A query's number, spread over all bits, with the hash of a document."""
    return np.asarray(documents ^ ((queries.astype(np.uint64) + np.uint64(1)) * _GOLDEN))
