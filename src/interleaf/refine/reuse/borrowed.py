"""Rankings of the log's own rankers, as its impressions have them: whole, and one for each query.

A ranker that changed has the same name and other rankings: which of them is meant, only the one who asks can say.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.decode import Design
from interleaf.decode.columns import lists
from interleaf.errors import DataError
from interleaf.methods.arrays import Array

BROKEN = "a logged ranking of {!r} that is missing, or has a null or a document twice"


class Borrowed:
    """`rankings[ranker][query]`, and `changed[ranker]`: queries whose ranking was not always that, its first one."""

    def __init__(self, rankers: Collection[str]) -> None:
        self.rankings: dict[str, dict[str, list[str]]] = {name: {} for name in rankers}
        self.changed: dict[str, set[str]] = {name: set() for name in rankers}
        self._first: dict[tuple[str, str], tuple[str, int]] = {}

    def add(self, array: pa.Array | None, design: Design, rows: Array, queries: Sequence[str]) -> dict[str, Array]:
        """Keep the rankings of rows that have them, each of a query; by reason, which rows have broken ones."""
        if array is None:
            return {}
        places = {name: place for place, name in enumerate(design.rankers) if name in self.rankings}
        return {
            BROKEN.format(name): self._add(name, place, array, design, rows, queries) for name, place in places.items()
        }

    def _add(
        self, name: str, place: int, array: pa.Array, design: Design, rows: Array, queries: Sequence[str]
    ) -> Array:
        rankings, is_there = _rankings(array, place, rows)
        broken = np.zeros(len(rows), np.bool_)
        alike: dict[tuple[str, str | None], list[int]] = {}
        for number, joined in enumerate(pc.binary_join(rankings, "\0").to_pylist()):
            if is_there[number]:
                alike.setdefault((queries[number], joined), []).append(number)
        for (query, joined), numbers in alike.items():
            ranking = rankings[numbers[0]].as_py()
            if joined is None or len(set(ranking)) < len(ranking):
                broken[numbers] = True
            else:
                self._keep(name, query, ranking, (design.experiment, design.version))
        return broken

    def merge(self, other: Borrowed) -> None:
        """Keep the rankings of later rows, too."""
        for name, by_query in other.rankings.items():
            for query, ranking in by_query.items():
                self._keep(name, query, ranking, other._first[name, query], query in other.changed[name])

    def _keep(self, name: str, query: str, ranking: list[str], here: tuple[str, int], changed: bool = False) -> None:
        kept = self.rankings[name].setdefault(query, ranking)
        there = self._first.setdefault((name, query), here)
        if kept == ranking and not changed:
            return
        if there != here:
            raise DataError(
                f"ranker {name!r} ranks query {query!r} in one way in {_named(there)}, in another in {_named(here)}; "
                "name the version (--version) or experiment that is meant, or give its rankings"
            )
        self.changed[name].add(query)


def _named(design: tuple[str, int]) -> str:
    return f"version {design[1]} of {design[0]!r}"


def _rankings(array: pa.Array, place: int, rows: Array) -> tuple[pa.Array, Array]:
    """The ranking at a place of each row, null where it has fewer; and whether the row has any."""
    found = lists(array)
    has = np.diff(found.offsets)[rows] > place
    places = pa.array(found.offsets[rows].astype(np.int64) + place, mask=~has)
    return found.values.take(places).cast(pa.list_(pa.string())), found.there[rows]
