"""Sessions of people, page by page, and the pages as record batches of the log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.interleaving import batch, call
from interleaf.kernels.arrays import Array, Impression
from interleaf.kernels.randomness import delimited, digest
from interleaf.log import schema
from interleaf.simulate.pages import CLICK, KINDS, PURCHASE, RankedDocuments, ReadingHabits, SimulatedEvents, read
from interleaf.simulate.people import (
    COUNTRIES,
    DEVICES,
    PageRequests,
    People,
    SimulatedArm,
    SimulatedUnits,
    assign,
    draw_units,
    first_pages,
    next_pages,
    page_numbers,
    side,
    streams,
    words_of,
)

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
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
    sizes: Array
    choices: Array
    log_probability: Array
    relaxed: Array
    events: SimulatedEvents


class BatchConstants(NamedTuple):
    """The values that all batches of a world share; `rankings` and `captions` are None if their columns are null."""

    experiment: str
    seed: int
    arms: Sequence[SimulatedArm]
    rankers: Sequence[str]
    queries: pa.Array
    documents: pa.Array
    rankings: pa.Array | None
    captions: pa.Array | None


def join_waves(waves: Sequence[ShownPages]) -> ShownPages:
    """The pages of all waves as one, session by session."""
    events = SimulatedEvents(*(np.concatenate(parts) for parts in zip(*(wave.events for wave in waves), strict=True)))
    whole = ShownPages._make(
        [*(np.concatenate(parts) for parts in zip(*(wave[:-1] for wave in waves), strict=True)), events]
    )
    order = np.lexsort((whole.step, whole.visit, whole.unit))
    return ShownPages._make(
        [*(values[order] for values in whole[:-1]), SimulatedEvents(*(values[order] for values in events))]
    )


def to_batch(
    rows: ShownPages, units: SimulatedUnits, names: Sequence[str], constants: BatchConstants
) -> pa.RecordBatch:
    """The record batch; `names` are those of the units."""
    count = len(rows.unit)
    columns: dict[str, Any] = _who(rows, names, constants) | _what(rows, constants)
    columns["events"] = _events(rows.time, rows.events, columns["impression"])
    columns["attributes"] = _attributes(units.device[rows.unit], units.country[rows.unit])
    arrays = [(columns.get(column.name), column.type) for column in schema.COLUMNS]
    filled = [pa.nulls(count, kind) if array is None else array for array, kind in arrays]
    return pa.RecordBatch.from_arrays(filled, schema=schema.SCHEMA)


def _who(rows: ShownPages, names: Sequence[str], constants: BatchConstants) -> dict[str, pa.Array]:
    """Columns of unit, query, time and arm; ids contain the seed, so that logs of different seeds can be joined."""
    count = len(rows.unit)
    unit = pa.array(names, pa.string()).take(pa.array(rows.unit))
    session = pc.binary_join_element_wise(f"seed{constants.seed}", unit, _digits(rows.visit), "-")
    return {
        "experiment": pa.repeat(constants.experiment, count),
        "version": pa.repeat(pa.scalar(1, pa.int32()), count),
        "impression": pc.binary_join_element_wise(session, _digits(rows.step), "-"),
        "time": pa.array(rows.time).view(schema.TIME),
        "unit": unit,
        "session": session,
        "query": constants.queries.take(pa.array(rows.query % len(constants.queries))),
        "arm": pa.array([arm.name for arm in constants.arms]).take(pa.array(rows.arm)),
        "method": pa.array([arm.chosen.text for arm in constants.arms]).take(pa.array(rows.arm)),
        "key": _key_names(rows.keys),
        "page": pa.repeat(pa.scalar(1, pa.int16()), count),
    }


def _what(rows: ShownPages, constants: BatchConstants) -> dict[str, pa.Array | None]:
    """Columns of the shown list: documents, ranks, teams, and the list's probability."""
    count, rankers = len(rows.unit), len(constants.rankers)
    shown = np.arange(rows.documents.shape[1]) < rows.counts[:, None]
    documents = pa.array(rows.documents[shown])
    by_ranker = np.broadcast_to(shown[:, None, :], rows.ranks.shape)
    ranks = _lists(pa.array(rows.ranks[by_ranker], pa.int32()), np.repeat(rows.counts, rankers))
    methods = [arm.chosen.method for arm in constants.arms]
    has_teams = np.array([method.has_teams for method in methods])[rows.arm]
    has_choices = np.array(["choices" in method.needs for method in methods])[rows.arm]
    return {
        "log_probability": pa.array(rows.log_probability, mask=np.isnan(rows.log_probability)),
        "relaxed": pa.array(rows.relaxed == 1, mask=rows.relaxed < 0),
        "rankers": _lists(pa.array(list(constants.rankers) * count), np.full(count, rankers)),
        "documents": _lists(constants.documents.take(documents), rows.counts),
        "ranks": _lists(ranks, np.full(count, rankers)),
        "lengths": _lists(pa.array(np.repeat(rows.sizes, rankers), pa.int32()), np.full(count, rankers)),
        "union": pa.array(rows.sizes, pa.int32()),
        "teams": _lists_where(rows.teams, shown, has_teams),
        "choices": _lists_where(rows.choices.astype(np.int32), shown, has_choices),
        "rankings": constants.rankings and constants.rankings.take(pa.array(rows.query)),
        "captions": constants.captions and _lists(constants.captions.take(documents), rows.counts),
        "grades": _lists(pa.array(rows.grades[shown]), rows.counts),
    }


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


def _attributes(devices: Array, countries: Array) -> pa.Array:
    count = len(devices)
    values = np.stack([devices.astype(np.int64), len(DEVICES) + countries], axis=1)
    items = pa.array(DEVICES + COUNTRIES).take(pa.array(values.ravel()))
    return pa.MapArray.from_arrays(_offsets(np.full(count, 2)), pa.array(["device", "country"] * count), items)


def _lists(values: pa.Array, lengths: Array) -> pa.Array:
    return pa.ListArray.from_arrays(_offsets(lengths), values)


def _lists_where(values: Array, shown: Array, there: Array) -> pa.Array | None:
    """Lists of the shown positions in rows that have them, nulls in the others."""
    if not there.any():
        return None
    logged = shown & there[:, None]
    offsets = _offsets(logged.sum(axis=1))
    return pa.ListArray.from_arrays(offsets, pa.array(values[logged]), mask=pa.array(~there))


def _offsets(lengths: Array) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def _digits(numbers: Array) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _key_names(keys: Array) -> pa.Array:
    """`k1:` and the hexadecimal digits of each row's 16 bytes."""
    count = len(keys)
    raw = np.ascontiguousarray(keys).astype("<u8").view(np.uint8).reshape(count, 16)
    text = np.empty((count, 35), np.uint8)
    text[:, :3] = np.frombuffer(b"k1:", np.uint8)
    text[:, 3::2], text[:, 4::2] = _HEX[raw >> 4], _HEX[raw & 15]
    offsets = np.arange(count + 1, dtype=np.int32) * 35
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


class TrafficSimulator:
    """Simulates the pages that units request and their events; units are independent, in any order."""

    def __init__(
        self,
        scene: RankedDocuments,
        people: People,
        habits: ReadingHabits,
        arms: Sequence[SimulatedArm],
        seed: Any,
        salt: str,
        relabel: bool,
    ) -> None:
        self._scene, self._people, self._habits, self._arms = scene, people, habits, arms
        self._salt, self._relabel = salt, relabel
        self._units, self._asking, self._reading = (words_of((seed, part)) for part in ("units", "asking", "reading"))
        self._queries = [delimited(query) for query in scene.data.queries]

    def units(self, first: int, count: int) -> SimulatedUnits:
        """Units by their numbers."""
        return draw_units(self._people, self._units, np.arange(first, first + count), self._scene.queries)

    def rows(self, units: SimulatedUnits, names: Sequence[str], log_probability: bool = False) -> ShownPages:
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
        return join_waves(waves)

    def _show(
        self, units: SimulatedUnits, starts: Sequence[bytes], arms: Array, pages: PageRequests, log_probability: bool
    ) -> ShownPages:
        """Compose the lists of these pages, and let people read them."""
        scene = self._scene
        query = pages.query + scene.queries * units.swapped[pages.unit] if self._relabel else pages.query
        arm, keys = arms[pages.unit], self._keys(starts, pages)
        lists = self._lists(query, keys, arm)
        impressions, grades = scene.stage.look_up(query, lists)
        documents = scene.rows[query[:, None], lists.shown]
        documents[lists.shown < 0] = -1
        return ShownPages(
            *pages._replace(query=query), arm, keys, documents, lists.teams, lists.counts, impressions.ranks, grades,
            scene.stage.sizes[query], impressions.choices,
            self._log_probabilities(arm, query, lists, impressions, log_probability),
            self._relaxed(arm, query),
            self._read(units, pages, lists.counts, impressions.ranks, grades, documents),
        )  # fmt: skip

    def _keys(self, starts: Sequence[bytes], pages: PageRequests) -> Array:
        """The keys of the lists, `key_of((salt, unit, query))`, with each unit and each query encoded once."""
        queries = self._queries
        digests = [
            digest(starts[unit] + queries[query])
            for unit, query in zip(pages.unit.tolist(), pages.query.tolist(), strict=True)
        ]
        return np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)

    def _lists(self, query: Array, keys: Array, arm: Array) -> batch.DrawnLists:
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
        numbers = page_numbers(units.number[unit], pages.visit, pages.step)
        shown = documents >= 0
        sides = np.where(shown, side(np.maximum(ranks[:, 0], 1), np.maximum(ranks[:, 1], 1)), 0.0)
        shifts = units.taste[unit][:, None] * sides + scene.attractions[documents]
        intents = units.intent[unit][:, None]
        serves = (intents < 0) | (scene.intents[documents] == intents)
        grades = np.where(serves & shown, grades, np.int8(0))
        return read(streams(self._reading, numbers), counts, grades, shifts, units.crawler[unit], self._habits)

    def _relaxed(self, arm: Array, query: Array) -> Array:
        """1 or 0 if the list was drawn from a linear programme, else -1."""
        if self._scene.relaxed is None:
            return np.full(len(arm), -1, np.int8)
        return np.where(arm == 0, self._scene.relaxed[query], -1).astype(np.int8)

    def _log_probabilities(
        self, arm: Array, query: Array, lists: batch.DrawnLists, impressions: Impression, is_needed: bool
    ) -> Array:
        """The log of each list's probability, nan if it has none; slow, because it needs one call per row."""
        logs = np.full(len(arm), np.nan)
        for row in np.flatnonzero(arm == 0).tolist() if is_needed else []:
            logs[row] = self._log_probability(int(query[row]), row, lists, impressions)
        return logs

    def _log_probability(self, query: int, row: int, lists: batch.DrawnLists, impressions: Impression) -> float:
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
