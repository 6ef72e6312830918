"""Simulated traffic as C12 had it: for each pair of rankers, buckets of each ranker's own lists and interleaved ones.

All of a pair's buckets come from one population, by a hash of the user, so that A/B buckets and interleaving are
compared on the same traffic. A user's taste is for the one ranker of a pair or for the other, so a ranker's own bucket
is made anew for each pair that it is in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf import batch
from interleaf.methods.arrays import Array, Impression
from interleaf.methods.table import resolve, scheme_of
from interleaf.metrics.absolute import Pages
from interleaf.simulate.arms import INTERLEAVED
from interleaf.simulate.data import Judged
from interleaf.simulate.people import People
from interleaf.simulate.world import World

METHODS = ("balanced", "team_draft")
K = 10
CLICK = "click"
COLUMNS = ("arm", "unit", "time", "ranks", "lengths", "union", "teams", "choices", "events")


@dataclass(frozen=True, eq=False)
class Impressions:
    """Logged impressions by row: their arms, who did what with them, and what was shown, as credit takes it."""

    arms: Array
    pages: Pages
    shown: Impression
    counts: Array

    def of(self, arm: str) -> Impressions:
        """Those of one arm."""
        some = np.flatnonzero(self.arms == arm)
        pages = Pages(*(getattr(self.pages, column.name)[some] for column in fields(Pages)))
        shown = Impression(*(values[some] for values in self.shown))
        return Impressions(self.arms[some], pages, shown, self.counts[some])


@dataclass(frozen=True, eq=False)
class Interleaved:
    """The interleaved bucket of a pair; scores are positive for the better ranker."""

    method: str
    impressions: Impressions

    @property
    def pages(self) -> Pages:
        """Who saw the lists, and what they did."""
        return self.impressions.pages

    @cached_property
    def binary(self) -> Array:
        """The binary score of every impression, 0 without a click."""
        return self._preferences("binary")

    def scores(self, scheme: str) -> Array:
        """The scores of impressions with a click, which alone carry a preference."""
        return self._preferences(scheme)[self.pages.any_click]

    def credit(self, scheme: str) -> Array:
        """`[impression, 3]`: the clicks of the better ranker, of the worse one, and of either."""
        seen, chosen = self.impressions, resolve(self.method)
        credits, credited = batch.credit(chosen, scheme_of(scheme), seen.shown, seen.counts, seen.pages.clicked, 1)
        return np.column_stack([credits, credited])

    def _preferences(self, scheme: str) -> Array:
        seen, chosen = self.impressions, resolve(self.method)
        found = batch.preferences(chosen, scheme_of(scheme), seen.shown, seen.counts, seen.pages.clicked, 1)
        return np.asarray(found[:, 0, 1])


@dataclass(frozen=True, eq=False)
class Traffic:
    """A pair of rankers, the better one first: what interleaved lists got, and what each ranker's own did."""

    pair: tuple[str, str]
    interleaved: Mapping[str, Interleaved]
    better: Pages
    worse: Pages

    def __str__(self) -> str:
        return " > ".join(self.pair)


def traffic_of(data: Judged, rankers: Mapping[str, Array], pair: tuple[str, str], people: People, seed: int) -> Traffic:
    """A third of the people for each ranker's own lists, a third for interleaved ones; the same people a method."""
    both, third = {name: rankers[name] for name in pair}, dict.fromkeys(pair, 1 / 3)
    seen = {}
    for method in METHODS:
        world = World(data, both, people, method, K, seed, arms=third, experiment=" > ".join(pair))
        seen[method] = impressions_of(world.batches(threads=1), K)
    interleaved = {method: Interleaved(method, found.of(INTERLEAVED)) for method, found in seen.items()}
    better, worse = (seen[METHODS[0]].of(ranker).pages for ranker in pair)
    return Traffic(pair, interleaved, better, worse)


def impressions_of(batches: Iterable[pa.RecordBatch], k: int) -> Impressions:
    """Record batches of the native log, whose impressions show up to k documents, as arrays."""
    table = pa.Table.from_batches([found.select(COLUMNS) for found in batches])
    column = {name: table[name].combine_chunks() for name in COLUMNS}
    lengths = column["lengths"].flatten().to_numpy().reshape(table.num_rows, -1)
    by_ranker = column["ranks"].flatten()
    counts = pc.list_value_length(by_ranker).to_numpy().reshape(lengths.shape)[:, 0].astype(np.int64)
    inside = np.arange(k) < counts[:, None]
    ranks = np.zeros((*lengths.shape, k), np.int16)
    ranks[np.broadcast_to(inside[:, None], ranks.shape)] = by_ranker.flatten().to_numpy()
    teams, choices = _filled(column["teams"], inside, -1), _filled(column["choices"], inside, 0)
    shown = Impression(ranks, teams, lengths, column["union"].to_numpy().astype(np.int64), choices)
    return Impressions(column["arm"].to_numpy(zero_copy_only=False), _pages(column, k), shown, counts)


def _filled(lists: pa.Array, inside: Array, missing: int) -> Array:
    """Lists by position as a matrix, where some may be null."""
    values = np.full(inside.shape, missing, lists.type.value_type.to_pandas_dtype())
    values[inside & ~lists.is_null().to_numpy(zero_copy_only=False)[:, None]] = lists.flatten().to_numpy()
    return values


def _pages(column: Mapping[str, pa.Array], k: int) -> Pages:
    asked = column["time"].cast(pa.int64()).to_numpy()
    events = column["events"].flatten()
    rows = np.repeat(np.arange(len(asked)), pc.list_value_length(column["events"]).to_numpy())
    clicks = pc.equal(events.field("kind"), CLICK).to_numpy(zero_copy_only=False)
    rows, ranks = rows[clicks], events.field("rank").to_numpy()[clicks]
    delays = (events.field("time").cast(pa.int64()).to_numpy()[clicks] - asked[rows]) / 1e6
    clicked, first, last = np.zeros((len(asked), k), bool), np.full(len(asked), np.inf), np.full(len(asked), -np.inf)
    clicked[rows, ranks - 1] = True
    np.minimum.at(first, rows, delays)
    np.maximum.at(last, rows, delays)
    first, last = (np.where(np.isinf(seconds), np.nan, seconds) for seconds in (first, last))
    return Pages(clicked, first, last, column["unit"].dictionary_encode().indices.to_numpy(), asked / 1e6)
