"""Queries with their events become impressions: what was shown, by whom, to whom, and what they did."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf import schema
from interleaf.adapters.evidence import Evidence
from interleaf.adapters.foreign_lists import Foreign, Options
from interleaf.adapters.imported import Imported
from interleaf.adapters.own_columns import OWN, columns_of
from interleaf.adapters.parts import Part, lists_of
from interleaf.adapters.placing import LEFT_OUT, Placed, place_events
from interleaf.adapters.ubi_records import batch_of
from interleaf.kernels.arrays import Array

AT_ONCE = 1024  # queries of ours that are Python objects at a time


class Joiner:
    """Turns parts of a log into record batches, by the evidence of all parts; counts as it goes."""

    def __init__(self, evidence: Evidence, options: Options, imported: Imported) -> None:
        self._evidence, self._options, self._imported = evidence, options, imported
        self._foreign = Foreign(evidence, options, imported.counts)

    def batch(self, part: Part) -> pa.RecordBatch:
        """The impressions of a part. If a log has lists of ours, it is their log, and the others stay out."""
        counts = self._imported.counts
        counts.update(part.counts)
        usable = self._usable(part)
        columns = self._own(part, usable) if self._evidence.ours else self._foreign.columns(part, usable)
        counts["list that shows a document twice"] += int((part.shows_twice & usable).sum())
        placed = place_events(part, self._evidence, self._options.ordinals, usable, counts)
        some = pa.array(usable)
        columns |= {
            "time": part.queries["time"].filter(some).cast(schema.TIME),
            "query": pc.if_else(pc.equal(part.queries["text"], ""), None, part.queries["text"]).filter(some),
            "documents": lists_of(part.sizes[usable], part.hits.filter(pa.array(np.repeat(usable, part.sizes)))),
            "events": _events(part, placed, usable),
        }
        self._imported.impressions += int(usable.sum())
        self._imported.events += int((placed.rank != LEFT_OUT).sum())
        size = int(usable.sum())
        arrays = [columns.get(column.name, pa.nulls(size, column.type)) for column in schema.COLUMNS]
        return pa.RecordBatch.from_arrays(arrays, schema=schema.SCHEMA)

    def _usable(self, part: Part) -> Array:
        """Which queries become impressions; the first reason against one is counted."""
        left = np.ones(len(part.is_ours), np.bool_)
        for reason, holds in self._reasons(part):
            out = np.flatnonzero(left & holds)
            if len(out):
                name = part.queries["query_id"][int(out[0])].as_py()
                self._imported.drop(reason, f"query_id {name!r}", len(out))
            left[out] = False
        return left

    def _reasons(self, part: Part) -> Iterator[tuple[str, Array]]:
        is_foreign = ~part.is_ours
        yield "query with impression events that leave gaps", part.has_gaps
        yield "query with nothing shown", ~part.is_told & is_foreign
        yield "query without a time that can be read", np.asarray(pc.is_null(part.queries["time"]))
        if self._evidence.ours:
            yield "query of another system", is_foreign
            return
        if self._options.only_interleaved:
            yield "answer without owners", np.asarray(pc.is_null(part.queries["owners"]))
        if self._evidence.is_one_by_one:
            yield "list of an unknown configuration", np.asarray(pc.is_null(self._foreign.configurations(part)))

    def _own(self, part: Part, usable: Array) -> dict[str, pa.Array]:
        """The columns of lists that we wrote; those that cannot be read are taken out of the usable ones."""
        batches = [pa.RecordBatch.from_pylist([], OWN)]
        for start in range(0, len(usable), AT_ONCE):
            places = start + np.flatnonzero(usable[start : start + AT_ONCE])
            some = part.queries.take(pa.array(places))
            batch, problems = columns_of(some["attributes"].to_pylist())
            for place, problem in sorted(problems.items()):
                name = some["query_id"][place].as_py()
                self._imported.drop("query whose columns cannot be read", f"query_id {name!r}: {problem}")
            usable[places[list(problems)]] = False
            batches.append(batch.filter(pa.array(usable[places])))
        own = batch_of(pa.Table.from_batches(batches))
        names = part.queries["query_id"].filter(pa.array(usable))
        defaults = {"version": 1, "arm": schema.INTERLEAVED, "impression": names}
        columns = {name: own[name] for name in OWN.names}
        return columns | {name: pc.coalesce(own[name], default) for name, default in defaults.items()}


def _events(part: Part, placed: Placed, usable: Array) -> pa.ListArray:
    """The events of usable lists, as the schema has them: they are sorted by query and time already."""
    some = np.flatnonzero(placed.rank != LEFT_OUT)
    taken = part.events.take(pa.array(some))
    values = {name: taken[name] for name in taken.schema.names}
    values |= {name: pa.array(column[some], from_pandas=True) for name, column in placed._asdict().items()}
    arrays = [values[column.name].cast(column.type) for column in schema.EVENT]
    inner = pa.StructArray.from_arrays(arrays, fields=[column.field for column in schema.EVENT])
    return lists_of(np.bincount(part.query[some], minlength=len(usable))[usable], inner)
