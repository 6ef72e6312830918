"""People at work: sessions unfold page by page, each page composed by the serving kernels and read by its person.

Whether a session goes on depends on what was clicked, so pages come in waves: the first page of every session, then the
second of those that go on, and so forth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from interleaf import batch
from interleaf.chance import delimited, digest
from interleaf.methods import call
from interleaf.methods.arrays import Array, Impression
from interleaf.simulate.arms import Arm, assign
from interleaf.simulate.draws import page_numbers, streams, words_of
from interleaf.simulate.people import People, side
from interleaf.simulate.reading import Habits, read
from interleaf.simulate.rows import Rows, joined
from interleaf.simulate.scene import Scene
from interleaf.simulate.visits import Pages, Units, draw_units, first_pages, next_pages


class Traffic:
    """The pages that people ask for and what they do with them, for any units, in any order."""

    def __init__(
        self, scene: Scene, people: People, habits: Habits, arms: Sequence[Arm], seed: Any, salt: str, relabel: bool
    ) -> None:
        self._scene, self._people, self._habits, self._arms = scene, people, habits, arms
        self._salt, self._relabel = salt, relabel
        self._units, self._asking, self._reading = (words_of((seed, part)) for part in ("units", "asking", "reading"))
        self._queries = [delimited(query) for query in scene.data.queries]

    def units(self, first: int, count: int) -> Units:
        """Units by their numbers."""
        return draw_units(self._people, self._units, np.arange(first, first + count), self._scene.queries)

    def names(self, units: Units) -> list[str]:
        """What the log calls these units."""
        return [f"u{number}" for number in units.number.tolist()]

    def rows(self, units: Units, names: Sequence[str], log_probability: bool = False) -> Rows:
        """Every page of every session of these units."""
        arms = assign(self._arms, self._salt, names)
        starts = [b"t3:" + delimited(self._salt) + delimited(name) for name in names]
        waves = []
        pages = first_pages(self._people, self._asking, units, self._scene.queries)
        while len(pages.unit):
            wave = self._show(units, starts, arms, pages, log_probability)
            waves.append(wave)
            ends = wave.time + np.round(wave.events.ends * 1e6).astype(np.int64)
            clicked = wave.events.counts > 0
            pages = next_pages(self._people, self._asking, units, pages, clicked, ends, self._scene.queries)
        return joined(waves)

    def _show(self, units: Units, starts: Sequence[bytes], arms: Array, pages: Pages, log_probability: bool) -> Rows:
        """Compose the lists of these pages, and let people read them."""
        scene = self._scene
        query = pages.query + scene.queries * units.swapped[pages.unit] if self._relabel else pages.query
        arm, keys = arms[pages.unit], self._keys(starts, pages)
        lists = self._lists(query, keys, arm)
        impressions, grades = scene.stage.look_up(query, lists)
        documents = scene.rows[query[:, None], lists.shown]
        documents[lists.shown < 0] = -1
        return Rows(
            *pages._replace(query=query), arm, keys, documents, lists.teams, lists.counts, impressions.ranks, grades,
            scene.stage.sizes[query], impressions.choices,
            self._log_probabilities(arm, query, lists, impressions, log_probability),
            self._relaxed(arm, query),
            self._read(units, pages, lists.counts, impressions.ranks, grades, documents),
        )  # fmt: skip

    def _keys(self, starts: Sequence[bytes], pages: Pages) -> Array:
        """The chance keys of the lists, `key_of((salt, unit, query))`, with each unit and each query encoded once."""
        queries = self._queries
        digests = [
            digest(starts[unit] + queries[query])
            for unit, query in zip(pages.unit.tolist(), pages.query.tolist(), strict=True)
        ]
        return np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)

    def _lists(self, query: Array, keys: Array, arm: Array) -> batch.Lists:
        rows, stage = len(query), self._scene.stage
        lists = batch.Lists(
            np.full((rows, stage.k), -1, np.int32), np.full((rows, stage.k), -1, np.int8), np.zeros(rows, np.int64)
        )
        for number, (_, _, chosen, settings) in enumerate(self._arms):
            mine = np.flatnonzero(arm == number)
            some = batch.compose(chosen, stage.given, settings, query[mine], keys[mine], stage.k, threads=1)
            for whole, part in zip(lists, some, strict=True):
                whole[mine] = part
        return lists

    def _read(self, units: Units, pages: Pages, counts: Array, ranks: Array, grades: Array, documents: Array) -> Any:
        """Each person sees grades by intent, and leans by taste and captions."""
        scene, unit = self._scene, pages.unit
        numbers = page_numbers(units.number[unit], pages.visit, pages.step)
        shown = documents >= 0
        sides = np.where(shown, side(np.maximum(ranks[:, 0], 1), np.maximum(ranks[:, 1], 1)), 0.0)
        shifts = units.taste[unit][:, None] * sides + scene.attractions[documents]
        intents = units.intent[unit][:, None]
        wanted = (intents < 0) | (scene.intents[documents] == intents)
        seen = np.where(wanted & shown, grades, np.int8(0))
        return read(streams(self._reading, numbers), counts, seen, shifts, units.crawler[unit], self._habits)

    def _relaxed(self, arm: Array, query: Array) -> Array:
        """1 or 0 where the list was drawn from a programme, -1 elsewhere."""
        if self._scene.relaxed is None:
            return np.full(len(arm), -1, np.int8)
        return np.where(arm == 0, self._scene.relaxed[query], -1).astype(np.int8)

    def _log_probabilities(
        self, arm: Array, query: Array, lists: batch.Lists, impressions: Impression, wanted: bool
    ) -> Array:
        """The log of each list's probability, nan where it has none; one call a row, so only when asked for."""
        found = np.full(len(arm), np.nan)
        for row in np.flatnonzero(arm == 0).tolist() if wanted else []:
            found[row] = self._log_probability(int(query[row]), row, lists, impressions)
        return found

    def _log_probability(self, query: int, row: int, lists: batch.Lists, impressions: Impression) -> float:
        _, _, chosen, settings = self._arms[0]
        prepared = chosen.method.kernels.prepared_probability
        if prepared is not None:
            mine = settings._replace(lists=settings.lists[query], weights=settings.weights[query])
            return math.log(prepared(mine, lists.shown[row]))
        count = lists.counts[row]
        one = Impression(
            impressions.ranks[row, :, :count].astype(np.int32),
            impressions.teams[row, :count].astype(np.int32),
            impressions.lengths[row],
            int(impressions.union[row]),
            impressions.choices[row, :count].astype(np.int32),
        )
        factors = call.probability(chosen, one)
        return math.nan if factors is None else math.fsum(math.log(factor) for factor in factors)
