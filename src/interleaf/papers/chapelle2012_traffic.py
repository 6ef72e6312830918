"""Simulated traffic as C12 had it: for each pair of rankers, buckets of each ranker's own lists and interleaved ones.

All of a pair's buckets come from one population, by a hash of the user, so that A/B buckets and interleaving are
compared on the same traffic. A user's taste is for the one ranker of a pair or for the other, so a ranker's own bucket
is made anew for each pair that it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import pyarrow as pa

from interleaf import batch
from interleaf.decode import Counting, Decoded, Decoding
from interleaf.methods.arrays import Array, Impression
from interleaf.methods.table import resolve, scheme_of
from interleaf.metrics.absolute import Pages
from interleaf.schema import INTERLEAVED
from interleaf.simulate.data import Judged
from interleaf.simulate.people import People
from interleaf.simulate.world import World

METHODS = ("balanced", "team_draft")
K = 10


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
    """Record batches of the native log, whose impressions show up to k documents, as arrays in the log's order."""
    parts, places, seen = [], [], 0
    for found in batches:
        some = list(Decoding(found, Counting()))
        parts += some
        places += [seen + part.rows for part in some]
        seen += found.num_rows
    order = np.argsort(np.concatenate(places))

    def column(of: Callable[[Decoded], Array], missing: int | None = None) -> Array:
        values = [of(part) if missing is None else _wide(of(part), k, missing) for part in parts]
        return np.concatenate(values)[order]

    shown = Impression(
        column(lambda part: part.impressions.ranks, 0),
        column(lambda part: part.impressions.teams, -1),
        column(lambda part: part.impressions.lengths),
        column(lambda part: part.impressions.union),
        column(lambda part: part.impressions.choices, 0),
    )
    first, last = column(lambda part: part.clicks.first), column(lambda part: part.clicks.last)
    pages = Pages(
        column(lambda part: part.clicked, 0),
        np.where(first < 0, np.nan, first),
        np.where(last < 0, np.nan, last),
        column(lambda part: part.unit),
        column(lambda part: part.time) / 1e6,
    )
    arms = column(lambda part: np.repeat(part.design.arm, len(part.rows)))
    return Impressions(arms, pages, shown, column(lambda part: part.counts))


def _wide(values: Array, k: int, missing: int) -> Array:
    """Positions up to k, on the last axis."""
    room = [(0, 0)] * (values.ndim - 1) + [(0, k - values.shape[-1])]
    return np.pad(values, room, constant_values=missing)
