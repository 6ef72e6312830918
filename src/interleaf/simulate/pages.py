"""The documents of a simulated world with their captions, and the events of people who read a page."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.kernels.arrays import Array, EncodedRankings
from interleaf.kernels.jit import inline_kernel, kernel, reseed
from interleaf.kernels.randomness import Randomness, pick, toss
from interleaf.log import schema
from interleaf.methods.registry import ResolvedMethod
from interleaf.simulate.data import Judged
from interleaf.simulate.people import People, around, side
from interleaf.simulate.rankers import generator_of
from interleaf.simulate.run import Stage

TITLES = (
    "Notes and facts, part {number}",
    "{word}: notes and facts, part {number}",
    "{word}: notes on {word}, facts on {word}, part {number}",
)
URLS = (
    "https://example.org/archive/of/all/pages/by/topic/{word}/part/{number}/index.html",
    "https://example.org/topics/{word}/{number}",
    "https://example.org/{word}-{number}",
)
SNIPPETS = (
    "All of part {number}.",
    "All of part {number}, with what is known so far and where it was found.",
    "All of part {number}, with what is known so far and where it was found, who found it, what others made of it, "
    "and a list of what is still open, by date and by place.",
)


def draw_levels(generator: np.random.Generator, sides: Array, lean: float) -> Array:
    """`[document, feature]`: -1, 0 or 1; a positive `lean` makes 1 likelier for documents of the first ranker."""
    draws = generator.random((len(sides), 3))
    lowest = (1 - lean * sides[:, None]) / 3
    return (draws >= lowest).astype(np.int8) + (draws >= lowest + 1 / 3) - np.int8(1)


def caption_texts(data: Judged, levels: Array) -> pa.Array:
    """The captions of all documents, as the log holds them."""
    titles, urls, snippets, highlights = [], [], [], []
    queries = np.repeat(np.arange(len(data)), np.diff(data.offsets))
    for row, (query, (title, url, snippet)) in enumerate(zip(queries.tolist(), (levels + 1).tolist(), strict=True)):
        word, number = f"q{data.queries[query]}", row - int(data.offsets[query]) + 1
        titles.append(TITLES[title].format(word=word, number=number))
        urls.append(URLS[url].format(word=word, number=number))
        snippets.append(SNIPPETS[snippet].format(number=number))
        matches = re.finditer(re.escape(word), titles[-1])
        highlights.append([{"field": "title", "start": match.start(), "end": match.end()} for match in matches])
    fields = [column.field for column in schema.CAPTION]
    (marks,) = (field.type for field in fields if field.name == "highlights")
    links = pa.array(np.zeros(len(titles), np.int16))
    columns = [pa.array(titles), pa.array(urls), pa.array(snippets), pa.array(highlights, marks), links]
    return pa.StructArray.from_arrays(columns, fields=fields)


class RankedDocuments:
    """The documents of a world as its rankers rank them: `rows[query, document]` is the document's row in the data.

    In a relabelled world each query occurs twice, the second time with the names of the first two rankers exchanged.
    """

    def __init__(
        self, data: Judged, rankings: Array, chosen: ResolvedMethod, k: int, people: People, key: Any, relabel: bool
    ) -> None:
        self.data, self.queries, self.people, self.relabel = data, len(data), people, relabel
        self.habits = habits_of(people, data.max_grade + 1)
        self.names = pa.array(data.documents)
        sizes = np.diff(data.offsets).astype(np.int32)
        if relabel:
            swapped = rankings[:, [1, 0, *range(2, rankings.shape[1])]]
            rankings, sizes = np.concatenate([rankings, swapped]), np.concatenate([sizes, sizes])
        depth = rankings.shape[2] if chosen.method.whole_rankings else k
        self.rankings, order, tops = renumber(np.ascontiguousarray(rankings), sizes, depth)
        self.rows = np.where(order < 0, -1, np.resize(data.offsets[:-1], len(sizes))[:, None] + order)
        offsets, grades = np.concatenate([[0], np.cumsum(sizes)]), data.grades[self.rows[self.rows >= 0]]
        names, features = tuple(map(str, range(len(sizes)))), np.zeros((int(offsets[-1]), 0), np.float32)
        self.staged = replace(data, features=features, grades=grades, offsets=offsets, queries=names)
        self.stage = Stage(self.staged, self.rankings, chosen, k)
        self.stage.given = self.stage.given._replace(documents=tops)
        self.settings, self.relaxed = _settings(self.stage)
        self.levels = draw_levels(generator_of((*key, "captions")), self._sides(), people.caption_lean)
        self.attractions = people.caption_strength * self.levels.mean(
            axis=1
        )  # what captions add to the logit of a click
        self.intents = generator_of((*key, "intents")).integers(0, people.intents, len(data.grades)).astype(np.int8)

    def named_rankings(self) -> pa.Array:
        """The rankings of every query, by ranker, as the log holds them."""
        queries, rankers, longest = self.rankings.shape
        sizes = self.stage.sizes.astype(np.int64)
        inside = np.broadcast_to(np.arange(longest) < sizes[:, None, None], self.rankings.shape)
        rows = self.rows[np.arange(queries)[:, None, None], self.rankings]
        inner = np.concatenate([[0], np.cumsum(np.repeat(sizes, rankers))]).astype(np.int32)
        documents = pa.ListArray.from_arrays(pa.array(inner), self.names.take(pa.array(rows[inside])))
        outer = np.arange(queries + 1, dtype=np.int32) * np.int32(rankers)
        return pa.ListArray.from_arrays(pa.array(outer), documents)

    def _sides(self) -> Array:
        """The `side` of each row of the data, by its ranks in the first two rankings, without relabelling."""
        rows, places = self.rows[: self.queries], self.stage.places[: self.queries]
        inside = rows >= 0
        sides = np.zeros(len(self.data.grades))
        sides[rows[inside]] = side(places[:, 0][inside], places[:, 1][inside])
        return sides


def _settings(stage: Stage) -> tuple[Any, Array]:
    """The settings to compose lists; and for each query 1 or 0: its programme was relaxed or not, -1 without one."""
    method, parameters = stage.chosen.method, stage.chosen.parameters
    if method.kernels.prepare_batch is None:
        return stage.settings(np.arange(len(stage.sizes))), np.full(len(stage.sizes), -1)
    solved = []
    for query in range(len(stage.sizes)):
        alone = EncodedRankings(*(values[query : query + 1] for values in stage.given))
        width = alone.depths.max()  # padding or another integer type would give another programme
        alone = alone._replace(rankings=alone.rankings[:, :, :width], documents=alone.documents.tolist())
        solved.append(method.kernels.prepare_batch(alone, stage.places[query : query + 1], [0], stage.k, parameters))
    lists, weights = ([getattr(one, name)[0] for one in solved] for name in ("lists", "weights"))
    stacked = solved[0]._replace(lists=_stack(lists, -1), weights=_stack(weights, 0))
    return stacked, np.array([one.relaxed for one in solved])


def _stack(arrays: list[Array], padding: int) -> Array:
    stacked = np.full((len(arrays), max(map(len, arrays)), *arrays[0].shape[1:]), padding, arrays[0].dtype)
    for row, values in zip(stacked, arrays, strict=True):
        row[: len(values)] = values
    return stacked


@kernel
def renumber(rankings: Array, sizes: Array, depth: int) -> tuple[Array, Array, Array]:
    """Documents numbered by first appearance in the tops of the rankings, down to a depth, and then below it.

    The rankings in new numbers, the old number of each document, and how many documents the tops hold.
    """
    queries, rankers, longest = rankings.shape
    renumbered, order = np.full_like(rankings, -1), np.full((queries, longest), -1, np.int64)
    tops, number = np.zeros(queries, np.int64), np.empty(longest, np.int64)
    for query in range(queries):
        size, count = sizes[query], 0
        for document in range(size):
            number[document] = -1
        for whole in range(2):
            for ranker in range(rankers):
                for place in range(size if whole else min(depth, size)):
                    document = rankings[query, ranker, place]
                    if number[document] < 0:
                        number[document], order[query, count] = count, document
                        count += 1
            if not whole:
                tops[query] = count
        for ranker in range(rankers):
            for place in range(size):
                renumbered[query, ranker, place] = number[rankings[query, ranker, place]]
    return renumbered, order, tops


KINDS = ("click", "purchase")
CLICK, PURCHASE = range(2)
READING = 1.5  # median seconds per result
CRAWLING = 0.05  # seconds per result
PRICE = 20.0  # median value of a purchase


class ReadingHabits(NamedTuple):
    """Tables by grade, and how often people go back to a higher rank."""

    click: Array
    stop: Array
    stop_needs_click: bool
    dwell: Array
    purchases: Array
    regressions: float


class SimulatedEvents(NamedTuple):
    """Events `[row, number]` in the order of time; a page has `counts[row]` of them, and ends at `ends[row]`.

    Seconds are since the page was shown.
    """

    kinds: Array
    ranks: Array
    seconds: Array
    dwells: Array
    values: Array
    counts: Array
    ends: Array


def habits_of(people: People, grades: int) -> ReadingHabits:
    """The reading habits of these people, for documents with this number of grades."""
    model = people.cascade(grades)
    click, stop = (np.array([float(value) for value in table]) for table in (model.click, model.stop))
    dwell, purchases = people.dwell_by(grades), people.purchases_by(grades)
    return ReadingHabits(click, stop, model.stop_needs_click, dwell, purchases, float(people.regressions))


@kernel
def read(
    keys: Array, counts: Array, grades: Array, shifts: Array, crawlers: Array, habits: ReadingHabits
) -> SimulatedEvents:
    """One person per row reads documents whose grades `[row, position]` are those in the eyes of that person."""
    rows, width = len(counts), grades.shape[1] * (2 if habits.purchases.any() else 1)
    kinds, ranks = np.zeros((rows, width), np.int8), np.zeros((rows, width), np.int16)
    seconds, dwells, values = np.zeros((rows, width)), np.zeros((rows, width), np.float32), np.zeros((rows, width))
    events = SimulatedEvents(kinds, ranks, seconds, dwells, values, np.zeros(rows, np.int64), np.zeros(rows))
    chance: Any = np.zeros(3, np.uint64)
    clicked, order = np.zeros(grades.shape[1], np.bool_), np.zeros(grades.shape[1], np.int64)
    for row in range(len(keys)):
        reseed(chance, keys, row)
        count = counts[row]
        if crawlers[row]:  # clicks everything at once
            for position in range(count):
                _note(events, row, CLICK, position + 1, CRAWLING * (position + 1), CRAWLING, 0.0)
            events.ends[row] = CRAWLING * (count + 1)
            continue
        last = _scan(grades[row, :count], shifts[row], habits, chance, clicked)
        clicks = _in_order(clicked, last, habits.regressions, chance, order)
        _act(order[:clicks], grades[row], habits, chance, row, events)
        if clicks == 0:
            events.ends[row] = last * around(chance, READING, 0.5)
    return events


@inline_kernel
def _scan(grades: Array, shifts: Array, habits: ReadingHabits, chance: Randomness, clicked: Array) -> int:
    """The cascade; returns how many results were read."""
    for position in range(len(grades)):
        grade = grades[position]
        clicked[position] = toss(chance, shift_logit(habits.click[grade], shifts[position]))
        if (clicked[position] or not habits.stop_needs_click) and toss(chance, habits.stop[grade]):
            return position + 1
    return len(grades)


@inline_kernel
def shift_logit(probability: Any, shift: Any) -> Any:
    """A probability moved on the logit scale; what is certain stays so."""
    odds = probability * np.exp(shift)
    return odds / (1 - probability + odds)


@inline_kernel
def _in_order(clicked: Array, last: int, regressions: float, chance: Randomness, order: Array) -> int:
    """The clicked positions from the top down; now and then one of the upper ones is returned to at the end."""
    clicks = 0
    for position in range(last):
        if clicked[position]:
            order[clicks] = position
            clicks += 1
    if clicks > 1 and toss(chance, regressions):
        returned = pick(chance, clicks - 1)
        position = order[returned]
        for at in range(returned, clicks - 1):
            order[at] = order[at + 1]
        order[clicks - 1] = position
    return clicks


@inline_kernel
def _act(
    order: Array, grades: Array, habits: ReadingHabits, chance: Randomness, row: int, events: SimulatedEvents
) -> None:
    """Read on to the next click, stay there, perhaps buy, come back to the page."""
    seconds, at = 0.0, -1
    for position in order:
        seconds += abs(position - at) * around(chance, READING, 0.5)
        at = position
        dwell = around(chance, habits.dwell[grades[position]], 0.8)
        _note(events, row, CLICK, position + 1, seconds, dwell, 0.0)
        if toss(chance, habits.purchases[grades[position]]):
            _note(events, row, PURCHASE, position + 1, seconds + dwell / 2, 0.0, around(chance, PRICE, 0.5))
        seconds += dwell
    events.ends[row] = seconds


@inline_kernel
def _note(events: SimulatedEvents, row: int, kind: int, rank: int, seconds: float, dwell: float, value: float) -> None:
    number = events.counts[row]
    events.kinds[row, number] = kind
    events.ranks[row, number] = rank
    events.seconds[row, number] = seconds
    events.dwells[row, number] = dwell
    events.values[row, number] = value
    events.counts[row] = number + 1
