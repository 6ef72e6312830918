"""Queries with their events become impressions: what was shown, by whom, to whom, and what they did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf import schema
from interleaf.adapters.evidence import UNITS, Evidence
from interleaf.adapters.imported import Imported
from interleaf.adapters.own_columns import columns_of
from interleaf.adapters.parts import Part
from interleaf.adapters.placing import LEFT_OUT, ranks_of
from interleaf.adapters.ubi_records import Query
from interleaf.errors import DataError, listed
from interleaf.methods.arrays import Array

ENGINE = "engine"  # the one ranker of a log that compares nothing
_ROWS = [column for column in schema.COLUMNS if column.name != "events"]


@dataclass(frozen=True)
class Options:
    """What a caller may set: how foreign lists are named, and what cannot be told from the log."""

    experiment: str = "imported"
    method: str = field(default="team_draft")  # of lists whose hits have owners
    single: str = field(default="single")  # of lists that one ranker made
    ordinals: int | None = None
    unit: str | None = None
    only_interleaved: bool = False  # answers without owners are left out

    def __post_init__(self) -> None:
        if self.ordinals not in (None, 0, 1):
            raise DataError(f"ordinals start at {self.ordinals!r}; give 0 or 1, or nothing, to guess from the log")
        if self.unit not in (None, *UNITS):
            raise DataError(f"the unit is {self.unit!r}; give {listed(UNITS)}")


class Joiner:
    """Turns parts of a log into record batches, by the evidence of all parts; counts as it goes."""

    def __init__(self, evidence: Evidence, options: Options, imported: Imported) -> None:
        self._evidence, self._options, self._imported = evidence, options, imported
        first = options.unit or evidence.unit
        self._units = [first, *(unit for unit in UNITS if unit != first)]
        self._rankers = evidence.rankers

    def batch(self, part: Part) -> pa.RecordBatch:
        """The impressions of a part."""
        counts = self._imported.counts
        counts.update(part.counts)
        known = {name: _first_known(part, name) for name in UNITS}
        owners = self._owners(part)
        rows = [self._row(part, place, known, owners.get(place, {})) for place in range(len(part.queries))]
        usable = np.array([row is not None for row in rows], np.bool_)
        ranks = ranks_of(part, self._evidence, self._options.ordinals, usable, counts)
        found = [row for row in rows if row is not None]
        present = set().union(*found)
        arrays = {
            column.name: pa.array([row.get(column.name) for row in found], column.type)
            if column.name in present
            else pa.nulls(len(found), column.type)
            for column in _ROWS
        }
        arrays["events"] = _events(part, ranks, usable)
        self._imported.impressions += len(found)
        self._imported.events += int((ranks != LEFT_OUT).sum())
        return pa.RecordBatch.from_arrays([arrays[name] for name in schema.SCHEMA.names], schema=schema.SCHEMA)

    def _row(
        self, part: Part, place: int, known: dict[str, list[str | None]], owners: dict[int, str]
    ) -> dict[str, Any] | None:
        query, hits, is_ours = part.queries[place], part.hits[place], bool(part.is_ours[place])
        if hits is None and not is_ours:
            gaps = "query with impression events that leave gaps"
            return self._drop(gaps if place in part.gaps else "query with nothing shown", query)
        if query.time is None:
            return self._drop("query without a time that can be read", query)
        if self._evidence.ours and not is_ours:
            return self._drop("query of another system", query)
        if query.owners is None and self._options.only_interleaved and not is_ours:
            return self._drop("answer without owners", query)
        shown = hits or []
        try:
            row = columns_of(query.attributes) if is_ours else self._foreign(query, shown, owners)
        except ValueError as problem:
            return self._drop("query whose columns cannot be read", query, f": {problem}")
        if not is_ours:
            row["unit"], row["session"] = self._unit_of(place, known), known["session"][place]
        if len(set(shown)) < len(shown):
            self._imported.counts["list that shows a document twice"] += 1
        row.setdefault("version", 1)
        row.setdefault("impression", query.query_id)
        row.setdefault("arm", schema.INTERLEAVED)
        row["time"], row["query"], row["documents"] = query.time, query.text or None, shown
        row["attributes"] = list(row["attributes"].items())
        return row

    def _drop(self, reason: str, query: Query, more: str = "") -> dict[str, Any] | None:
        self._imported.drop(reason, f"query_id {query.query_id!r}{more}")
        return None

    def _foreign(self, query: Query, hits: list[str], owners: dict[int, str]) -> dict[str, Any]:
        options, about = self._options, query.attributes
        if query.application is not None:
            about = {"application": query.application} | about
        row = {"experiment": options.experiment, "attributes": about}
        if not self._rankers:
            return row | {"arm": ENGINE, "method": options.single, "rankers": [ENGINE]}
        said = query.owners or [None] * len(hits)
        teams = [owners.get(place) if owner is None else owner for place, owner in enumerate(said)]
        numbers = [-1 if owner is None else self._rankers.index(owner) for owner in teams]
        return row | {"method": options.method, "rankers": self._rankers, "teams": numbers}

    def _owners(self, part: Part) -> dict[int, dict[int, str]]:
        """By query and place: the owners that events name; of two, the first counts."""
        found: dict[int, dict[int, str]] = {}
        some = np.flatnonzero(np.asarray(pc.is_valid(part.events["owner"])) & (part.by_object >= 0))
        names = part.events["owner"].take(pa.array(some)).to_pylist()
        for query, place, name in zip(part.query[some].tolist(), part.by_object[some].tolist(), names, strict=True):
            if found.setdefault(query, {}).setdefault(place, name) != name:
                self._imported.counts["hit with two owners"] += 1
        return found

    def _unit_of(self, place: int, known: dict[str, list[str | None]]) -> str | None:
        for number, unit in enumerate(self._units):
            if known[unit][place] is not None:
                self._imported.counts["unit of another kind"] += number > 0
                return known[unit][place]
        self._imported.counts["unit that is not known"] += 1
        return None


def _first_known(part: Part, name: str) -> list[str | None]:
    """Who it was, by the query, else by the first event that knows."""
    said = [getattr(query, name) for query in part.queries]
    some = np.flatnonzero(np.asarray(pc.is_valid(part.events[name])))
    first = np.full(len(said), -1, np.int64)
    first[part.query[some][::-1]] = some[::-1]
    lacking = [place for place, value in enumerate(said) if value is None and first[place] >= 0]
    for place, value in zip(lacking, part.events[name].take(pa.array(first[lacking])).to_pylist(), strict=True):
        said[place] = value
    return said


def _events(part: Part, ranks: Array, usable: Array) -> pa.Array:
    """The events of usable lists, as the schema has them: they are sorted by query and time already."""
    some = np.flatnonzero(ranks != LEFT_OUT)
    counts = np.bincount(part.query[some], minlength=len(usable))[usable]
    taken = part.events.take(pa.array(some)).combine_chunks()
    values = {name: _array(taken[name]) for name in taken.column_names} | {"rank": pa.array(ranks[some])}
    arrays = [values[column.name].cast(column.type) for column in schema.EVENT]
    inner = pa.StructArray.from_arrays(arrays, fields=[column.field for column in schema.EVENT])
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, inner)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
