"""A part of a log, joined: every query once, its events by time, and where in the list each event's document stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.adapters.own_columns import is_ours
from interleaf.adapters.ubi_records import SHOWN, Query
from interleaf.methods.arrays import Array


class Part:
    """Queries, each once; `events`, sorted by query and time, with `query[event]` the place of its query.

    `hits[query]` is the shown list, from impression events where the query lacks it, None where nothing tells it.
    """

    def __init__(self, records: Iterable[Any], events: pa.Table) -> None:
        self.counts: Counter[str] = Counter()
        self.queries = self._merged(records)
        ids = pa.array([query.query_id for query in self.queries], pa.string())
        query = _integers(pc.index_in(events["query_id"], ids))
        self.counts["event of a query that is not there"] += int((query < 0).sum())
        order = np.lexsort((_integers(events["time"]), query))
        order = order[np.searchsorted(query[order], 0) :]
        self.events = events.take(pa.array(order)).combine_chunks()
        self.query = query[order]
        self.is_shown = _flags(pc.equal(self.events["kind"], SHOWN))
        self.is_ours = np.array([is_ours(query.attributes) for query in self.queries], np.bool_)
        self.hits: list[list[str] | None] = [query.hits for query in self.queries]
        self._rebuild()

    def _merged(self, records: Iterable[Any]) -> list[Query]:
        """A query that comes again fills what the first one left open; the first that tells most of the list counts."""
        found: dict[str, Query] = {}
        for record in records:
            query = Query(*record)
            known = found.setdefault(query.query_id, query)
            if known is not query:
                found[query.query_id] = self._whole(known, query)
        return list(found.values())

    def _whole(self, known: Query, query: Query) -> Query:
        first, other = (query, known) if _told(query) > _told(known) else (known, query)
        merged = (one if one is not None else two for one, two in zip(first, other, strict=True))
        whole = Query._make(merged)._replace(attributes=other.attributes | first.attributes)
        is_changed = None not in (known.hits, query.hits) and known.hits != query.hits
        self.counts["query that came again with other hits"] += is_changed
        self.counts["query that came again"] += whole == known and not is_changed
        return whole

    def _rebuild(self) -> None:
        """Lists that only impression events tell: a place each, from 0 or 1, without gaps."""
        lacking = np.array([hits is None for hits in self.hits], np.bool_)
        lacking &= ~self.is_ours
        some = np.flatnonzero(self.is_shown & lacking[self.query]) if len(self.query) else self.query
        columns = [self.events[name].take(pa.array(some)).to_pylist() for name in ("ordinal", "document")]
        places: dict[int, dict[int, str]] = {}
        for query, ordinal, document in zip(self.query[some].tolist(), *columns, strict=True):
            if ordinal is not None and document is not None:
                places.setdefault(query, {}).setdefault(ordinal, document)
        self.gaps = set()
        for query, shown in places.items():
            start = min(shown)
            if start in (0, 1) and max(shown) - start + 1 == len(shown):
                self.hits[query] = [shown[ordinal] for ordinal in sorted(shown)]
                self.counts["shown list made from impression events"] += 1
            else:
                self.gaps.add(query)

    @cached_property
    def sizes(self) -> Array:
        """How many documents each list shows."""
        return np.array([len(hits or ()) for hits in self.hits], np.int64)

    @cached_property
    def by_object(self) -> Array:
        """The place of each event's object in its list, from 0; -1 where it is not there."""
        return self._places("document")

    @cached_property
    def by_internal(self) -> Array:
        """The same by the internal id, of events that the object does not place."""
        return np.where(self.by_object < 0, self._places("internal"), -1)

    def _places(self, name: str) -> Array:
        """A sorted table of (query, document) is looked into for all events at once; of two places, the first."""
        wanted = self.events[name].combine_chunks()
        wanted = wanted.chunk(0) if isinstance(wanted, pa.ChunkedArray) and wanted.num_chunks else wanted
        if not len(self.query) or wanted.null_count == len(wanted) or not self.sizes.any():
            return np.full(len(self.query), -1, np.int64)
        shown = self._shown
        codes, asked = self._codes, _integers(pc.index_in(wanted, self._documents))
        keys = self._owners * len(self._documents) + codes
        order = np.argsort(keys, kind="stable")
        key = self.query * len(self._documents) + asked
        near = np.minimum(np.searchsorted(keys[order], key), len(order) - 1)
        found = order[near]
        starts = np.cumsum(self.sizes) - self.sizes
        is_there = (keys[found] == key) & (asked >= 0)
        return np.where(is_there, np.arange(len(shown))[found] - starts[self.query], -1)

    @cached_property
    def _shown(self) -> pa.Array:
        return pa.array([hit for hits in self.hits for hit in hits or ()], pa.string())

    @cached_property
    def _encoded(self) -> pa.DictionaryArray:
        return self._shown.dictionary_encode()

    @property
    def _documents(self) -> pa.Array:
        return self._encoded.dictionary

    @property
    def _codes(self) -> Array:
        return np.asarray(self._encoded.indices).astype(np.int64)

    @cached_property
    def _owners(self) -> Array:
        return np.repeat(np.arange(len(self.hits)), self.sizes)


def _told(query: Query) -> tuple[bool, bool]:
    """How much a record says of the list: owners belong to the hits that they came with."""
    return query.owners is not None, query.hits is not None


def _integers(found: Any) -> Array:
    """Whole numbers, -1 for null."""
    return np.asarray(pc.fill_null(pc.cast(found, pa.int64()), -1)).astype(np.int64)


def _flags(found: Any) -> Array:
    return np.asarray(pc.fill_null(found, False)).astype(np.bool_)
