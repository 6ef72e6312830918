"""Sessions of people, page by page, and the pages as record batches of the log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.interleaving import batch, kernel_calls
from interleaf.kernels.arrays import Array, Impression
from interleaf.kernels.randomness import delimit, digest, key_names
from interleaf.log import schema
from interleaf.methods.registry import Method
from interleaf.simulate import people
from interleaf.simulate.pages import CLICK, KINDS, PURCHASE, RankedDocuments, SimulatedEvents, read
from interleaf.simulate.people import PageRequests, SimulatedArm, SimulatedUnits

_EVENT = [column.field for column in schema.EVENT]


class ShownPages(NamedTuple):
    """Pages by row; `unit` is a row of `SimulatedUnits`, `documents` are rows of the data, -1 below the list's end."""

    unit: Array
    visit: Array
    step: Array
    query: Array
    time: Array
    arm: Array
    keys: Array
    documents: Array
    teams: Array
    counts: Array
    ranks: Array
    grades: Array
    log_probability: Array
    events: SimulatedEvents


def join_waves(waves: Sequence[ShownPages]) -> ShownPages:
    """The pages of all waves as one, session by session."""
    order = np.lexsort([np.concatenate([getattr(wave, name) for wave in waves]) for name in ("step", "visit", "unit")])

    def join(parts: Sequence[tuple[Any, ...]]) -> list[Array]:
        return [np.concatenate(values)[order] for values in zip(*parts, strict=True)]

    events = SimulatedEvents(*join([wave.events for wave in waves]))
    return ShownPages._make([*join([wave[:-1] for wave in waves]), events])


def _events(shown_at: Array, events: SimulatedEvents, impressions: pa.Array) -> pa.Array:
    number = np.arange(events.kinds.shape[1])
    there = number < events.counts[:, None]
    kinds = events.kinds[there]
    owners = impressions.take(pa.array(np.repeat(np.arange(len(shown_at)), events.counts)))
    times = shown_at[:, None] + np.round(events.seconds * 1e6).astype(np.int64)
    columns = [
        pc.binary_join_element_wise(owners, _digits(np.broadcast_to(number, there.shape)[there]), "-"),
        pa.array(KINDS).take(pa.array(kinds)),
        pa.array(events.ranks[there], pa.int32()),
        pa.array(times[there]).view(schema.TIME),
        pa.array(events.dwells[there], mask=kinds != CLICK),
        pa.array(events.values[there], mask=kinds != PURCHASE),
    ]
    return _lists(pa.StructArray.from_arrays(columns, fields=_EVENT), events.counts)


def _lists(values: pa.Array, lengths: Array, mask: pa.Array | None = None) -> pa.Array:
    return pa.ListArray.from_arrays(_offsets(lengths), values, mask=mask)


def _lists_where(values: Array, shown: Array, there: Array) -> pa.Array | None:
    """Lists of the shown positions in rows that have them, nulls in the others."""
    if not there.any():
        return None
    logged = shown & there[:, None]
    return _lists(pa.array(values[logged]), logged.sum(axis=1), pa.array(~there))


def _offsets(lengths: Array) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def _digits(numbers: Array) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


class TrafficSimulator:
    """Simulates the pages that units request and their events; units are independent, in any order."""

    def __init__(
        self, scene: RankedDocuments, arms: Sequence[SimulatedArm], rankers: Sequence[str], experiment: str, seed: int
    ) -> None:
        self._scene, self._arms, self._rankers = scene, arms, rankers
        self._experiment, self._seed, self._salt = experiment, seed, f"{experiment}-{seed}"
        keys = [(seed, part) for part in ("units", "asking", "reading")]
        self._units, self._asking, self._reading = map(people.words_of, keys)
        self._queries = [delimit(query) for query in scene.data.queries]
        self._query_names = pa.array(scene.data.queries)

    def units(self, first: int, count: int) -> SimulatedUnits:
        """Units by their numbers."""
        return people.draw_units(self._scene.people, self._units, np.arange(first, first + count), self._scene.queries)

    def record_batch(
        self, units: SimulatedUnits, rankings: pa.Array | None, captions: pa.Array | None, log_probability: bool
    ) -> pa.RecordBatch:
        """Every page of every session of these units; columns of `rankings` and `captions` are null without them."""
        names = [f"u{number}" for number in units.number.tolist()]
        rows = self._pages(units, names, log_probability)
        columns = self._describe_requests(rows, names) | self._describe_lists(rows, rankings, captions)
        columns["events"] = _events(rows.time, rows.events, columns["impression"])
        attributes = np.stack([units.device[rows.unit], len(people.DEVICES) + units.country[rows.unit]], axis=1)
        values = pa.array(people.DEVICES + people.COUNTRIES).take(pa.array(attributes.ravel()))
        names_of_values = pa.array(["device", "country"] * len(attributes))
        columns["attributes"] = pa.MapArray.from_arrays(_offsets(np.full(len(attributes), 2)), names_of_values, values)
        arrays = [(columns.get(column.name), column.type) for column in schema.COLUMNS]
        filled = [pa.nulls(len(rows.unit), kind) if array is None else array for array, kind in arrays]
        return pa.RecordBatch.from_arrays(filled, schema=schema.SCHEMA)

    def _describe_requests(self, rows: ShownPages, names: Sequence[str]) -> dict[str, Any]:
        """Columns of unit, query, time and arm; ids contain the seed, so that logs of different seeds can be joined."""
        count, arm = len(rows.unit), pa.array(rows.arm)
        unit = pa.array(names, pa.string()).take(pa.array(rows.unit))
        session = pc.binary_join_element_wise(f"seed{self._seed}", unit, _digits(rows.visit), "-")
        return {
            "experiment": pa.repeat(self._experiment, count),
            "version": pa.repeat(pa.scalar(1, pa.int32()), count),
            "impression": pc.binary_join_element_wise(session, _digits(rows.step), "-"),
            "time": pa.array(rows.time).view(schema.TIME),
            "unit": unit,
            "session": session,
            "query": self._query_names.take(pa.array(rows.query % len(self._queries))),
            "arm": pa.array([one.name for one in self._arms]).take(arm),
            "method": pa.array([one.chosen.text for one in self._arms]).take(arm),
            "key": pa.array(key_names(rows.keys.astype("<u8").tobytes()), pa.string()),
            "page": pa.repeat(pa.scalar(1, pa.int16()), count),
        }

    def _describe_lists(
        self, rows: ShownPages, rankings: pa.Array | None, captions: pa.Array | None
    ) -> dict[str, pa.Array | None]:
        """Columns of the shown list: documents, ranks, teams, and the list's probability."""
        scene, count, rankers = self._scene, len(rows.unit), len(self._rankers)
        shown, sizes = np.arange(rows.documents.shape[1]) < rows.counts[:, None], scene.stage.sizes[rows.query]
        documents = pa.array(rows.documents[shown])
        by_ranker = np.broadcast_to(shown[:, None, :], rows.ranks.shape)
        ranks = _lists(pa.array(rows.ranks[by_ranker], pa.int32()), np.repeat(rows.counts, rankers))
        methods = [arm.chosen.method for arm in self._arms]
        has_teams = np.array([method.has_teams for method in methods])[rows.arm]
        has_choices = np.array(["choices" in method.needs for method in methods])[rows.arm]
        relaxed = np.where(rows.arm == 0, scene.relaxed[rows.query], -1)
        return {
            "log_probability": pa.array(rows.log_probability, mask=np.isnan(rows.log_probability)),
            "relaxed": pa.array(relaxed == 1, mask=relaxed < 0),
            "rankers": _lists(pa.array(list(self._rankers) * count), np.full(count, rankers)),
            "documents": _lists(scene.names.take(documents), rows.counts),
            "ranks": _lists(ranks, np.full(count, rankers)),
            "unshown_ranks": self._describe_unshown(rows, methods),
            "lengths": _lists(pa.array(np.repeat(sizes, rankers), pa.int32()), np.full(count, rankers)),
            "union": pa.array(sizes, pa.int32()),
            "teams": _lists_where(rows.teams, shown, has_teams),
            "choices": _lists_where(scene.stage.choices[rows.query].astype(np.int32), shown, has_choices),
            "rankings": rankings and rankings.take(pa.array(rows.query)),
            "captions": captions and _lists(captions.take(documents), rows.counts),
            "grades": _lists(pa.array(rows.grades[shown]), rows.counts),
        }

    def _describe_unshown(self, rows: ShownPages, methods: Sequence[Method]) -> pa.Array | None:
        """The ranks of unshown documents, where the method of the arm logs them."""
        is_logged = np.array([method.logs_unshown_ranks for method in methods])[rows.arm]
        if not is_logged.any():
            return None
        stage, rankers = self._scene.stage, len(self._rankers)
        choices = stage.choices[rows.query]
        ranks = batch.unshown_ranks(self._documents, rows.query, rows.documents, rows.counts, choices)
        sizes = ranks.any(axis=1).sum(axis=1) * is_logged
        logged = np.broadcast_to((np.arange(ranks.shape[2]) < sizes[:, None])[:, None, :], ranks.shape)
        inner = _lists(pa.array(ranks[logged]), np.repeat(sizes, rankers))
        return _lists(inner, np.full(len(sizes), rankers), pa.array(~is_logged))

    @cached_property
    def _documents(self) -> Array:
        """The rankings `[query, ranker, rank]` as rows of the data, -1 below their end."""
        scene = self._scene
        rankings = scene.stage.given.rankings
        documents = np.take_along_axis(scene.rows[:, None, :], np.maximum(rankings, 0), axis=2)
        return np.where(rankings < 0, -1, documents)

    def _pages(self, units: SimulatedUnits, names: Sequence[str], log_probability: bool) -> ShownPages:
        scene, arms, waves = self._scene, people.assign(self._arms, self._salt, names), []
        starts = [b"t3:" + delimit(self._salt) + delimit(name) for name in names]
        pages = people.first_pages(scene.people, self._asking, units, scene.queries)
        while len(pages.unit):
            wave = self._show(units, starts, arms, pages, log_probability)
            waves.append(wave)
            ends = wave.time + np.round(wave.events.ends * 1e6).astype(np.int64)
            clicked = wave.events.counts > 0
            pages = people.next_pages(scene.people, self._asking, units, pages, clicked, ends, scene.queries)
        return join_waves(waves)

    def _show(
        self, units: SimulatedUnits, starts: Sequence[bytes], arms: Array, pages: PageRequests, log_probability: bool
    ) -> ShownPages:
        """Compose the lists of these pages, and let people read them."""
        scene = self._scene
        query = pages.query + scene.queries * units.swapped[pages.unit] if scene.relabel else pages.query
        arm, keys = arms[pages.unit], self._keys(starts, pages)
        lists = self._compose(query, keys, arm)
        impressions, grades = scene.stage.look_up(query, lists, keys if log_probability else None)
        documents = scene.rows[query[:, None], lists.shown]
        documents[lists.shown < 0] = -1
        logs = np.full(len(arm), np.nan)
        for row in np.flatnonzero(arm == 0).tolist() if log_probability else ():
            logs[row] = self._log_probability(int(query[row]), row, lists, impressions)
        events = self._read(units, pages, lists.counts, impressions.ranks, grades, documents)
        return ShownPages(
            *pages._replace(query=query), arm, keys, documents, lists.teams, lists.counts, impressions.ranks, grades,
            logs, events,
        )  # fmt: skip

    def _keys(self, starts: Sequence[bytes], pages: PageRequests) -> Array:
        """The keys of the lists, `key_of((salt, unit, query))`, with each unit and each query encoded once."""
        queries, places = self._queries, zip(pages.unit.tolist(), pages.query.tolist(), strict=True)
        digests = [digest(starts[unit] + queries[query]) for unit, query in places]
        return np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)

    def _compose(self, query: Array, keys: Array, arm: Array) -> batch.DrawnLists:
        rows, stage = len(query), self._scene.stage
        lists = batch.DrawnLists(
            np.full((rows, stage.k), -1, np.int32), np.full((rows, stage.k), -1, np.int8), np.zeros(rows, np.int64)
        )
        for number, (_, _, chosen, settings) in enumerate(self._arms):
            mine = np.flatnonzero(arm == number)
            some = batch.compose(chosen, stage.given, settings, query[mine], keys[mine], stage.k, threads=1)
            for whole, part in zip(lists, some, strict=True):
                whole[mine] = part
        return lists

    def _read(
        self, units: SimulatedUnits, pages: PageRequests, counts: Array, ranks: Array, grades: Array, documents: Array
    ) -> Any:
        """Simulate the events; grades depend on a person's intent, clicks also on taste and captions."""
        scene, unit = self._scene, pages.unit
        numbers = people.page_numbers(units.number[unit], pages.visit, pages.step)
        shown = documents >= 0
        sides = np.where(shown, people.side(np.maximum(ranks[:, 0], 1), np.maximum(ranks[:, 1], 1)), 0.0)
        shifts = units.taste[unit][:, None] * sides + scene.attractions[documents]
        intents = units.intent[unit][:, None]
        serves = (intents < 0) | (scene.intents[documents] == intents)
        grades = np.where(serves & shown, grades, np.int8(0))
        keys = people.streams(self._reading, numbers)
        return read(keys, counts, grades, shifts, units.crawler[unit], scene.habits)

    def _log_probability(self, query: int, row: int, lists: batch.DrawnLists, impressions: Impression) -> float:
        """The log of a list's probability, nan if it has none."""
        _, _, chosen, settings = self._arms[0]
        prepared = chosen.method.kernels.prepared_probability
        if prepared is not None:
            mine = settings._replace(lists=settings.lists[query], weights=settings.weights[query])
            return math.log(prepared(mine, lists.shown[row]))
        count = lists.counts[row]
        one = Impression.of(
            impressions.ranks[row, :, :count].astype(np.int32),
            impressions.teams[row, :count].astype(np.int32),
            impressions.lengths[row],
            int(impressions.union[row]),
            impressions.choices[row, :count].astype(np.int32),
            impressions.unshown_ranks[row],
        )
        factors = kernel_calls.probability(chosen, one)
        return math.nan if factors is None else math.fsum(math.log(factor) for factor in factors)
