"""Who comes, when, what they ask, and which arm they see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from interleaf.chance import bytes_of, key_of, pick, toss
from interleaf.compiled import kernel, seat
from interleaf.errors import DataError, listed
from interleaf.methods import single
from interleaf.methods.arrays import Array
from interleaf.methods.table import Chosen, unchanged
from interleaf.schema import FALLBACK, HOLDOUT, INTERLEAVED
from interleaf.simulate.people import MOST_PAGES, People, around, normal, page_numbers, streams, uniform


class Arm(NamedTuple):
    """A share of the units, and how their lists are composed."""

    name: str
    share: float
    chosen: Chosen
    settings: Any


def arms_of(shares: Mapping[str, float], rankers: Sequence[str], chosen: Chosen, settings: Any) -> tuple[Arm, ...]:
    """The arms, the interleaved one first: it has what the others leave. The holdout shows the first ranker's list."""
    for ranker in rankers:
        if ranker in (INTERLEAVED, HOLDOUT, FALLBACK):
            raise DataError(f"a ranker cannot be named {ranker!r}: that is the name of an arm; give it another name")
    for name, share in shares.items():
        if name != HOLDOUT and name not in rankers:
            raise DataError(f"there can be no arm {name!r}; an arm is {listed([HOLDOUT, *rankers])}")
        if not 0 <= share <= 1:
            raise DataError(f"arm {name!r} has the share {share!r}; give a number from 0 to 1")
    left = 1 - sum(shares.values())
    if left < -1e-9:
        raise DataError(f"the arms {dict(shares)!r} take more than all units; give shares that sum to at most 1")
    others = [_single(name, share, rankers) for name, share in shares.items()]
    return Arm(INTERLEAVED, max(left, 0.0), chosen, settings), *others


def _single(name: str, share: float, rankers: Sequence[str]) -> Arm:
    ranker = rankers[0] if name == HOLDOUT else name
    return Arm(name, share, unchanged(ranker), single.Settings(rankers.index(ranker)))


def assign(arms: Sequence[Arm], salt: str, units: Sequence[str]) -> Array:
    """The number of each unit's arm, by a hash of its name with a salt of its own."""
    if len(arms) == 1:
        return np.zeros(len(units), np.int64)
    digests = b"".join([bytes_of(key_of((salt, "arm", unit))) for unit in units])
    places = np.frombuffer(digests, "<u8")[::2] / 2.0**64
    edges = np.cumsum([arm.share for arm in arms])[:-1]
    found: Array = np.searchsorted(edges, places, side="right")
    return found


DEVICES = ("desktop", "mobile", "tablet")
COUNTRIES = ("BR", "DE", "FR", "IN", "JP", "US")
CRAWLING = 30  # times as many visits
ROOM = 3_600_000_000  # microseconds that a session has to itself before the unit's next one, where days allow
THINKING = 8.0  # median seconds between the end of a page and the next query


class Units(NamedTuple):
    """People by row: `intent` is -1 for those who want all, `swapped` the coin of a relabelled comparison."""

    number: Array
    crawler: Array
    visits: Array
    taste: Array
    intent: Array
    favourite: Array
    swapped: Array
    device: Array
    country: Array


class Pages(NamedTuple):
    """Pages by row: whose they are (`unit`, a row of `Units`), which of the visit, for what query, when (us)."""

    unit: Array
    visit: Array
    step: Array
    query: Array
    time: Array


class Population(NamedTuple):
    """What the kernel needs to know of people."""

    fewest: int
    most: int
    tail: float
    taste: float
    spread: float
    intents: int
    narrow: float
    crawlers: float
    queries: int


def draw_units(people: People, words: Array, numbers: Array, queries: int) -> Units:
    """The units with these numbers: a unit is a function of its number and the world's key."""
    rows = len(numbers)
    small, whole = np.zeros((4, rows), np.int8), np.zeros((2, rows), np.int64)
    units = Units(
        numbers.astype(np.int64), np.zeros(rows, np.bool_), whole[0], np.zeros(rows), small[0], whole[1],
        np.zeros(rows, np.bool_), small[1], small[2],
    )  # fmt: skip
    population = Population(
        people.fewest_visits, people.most_visits, float(people.visits_tail), float(people.taste),
        float(people.taste_spread), people.intents, float(people.narrow), float(people.crawlers), queries,
    )  # fmt: skip
    _draw_units(streams(words, numbers), population, units)
    return units


@kernel
def _draw_units(keys: Array, population: Population, units: Units) -> None:
    chance: Any = np.zeros(3, np.uint64)
    for row in range(len(keys)):
        seat(chance, keys, row)
        units.crawler[row] = toss(chance, population.crawlers)
        visits = population.fewest * uniform(chance) ** (-1 / population.tail)
        visits = visits * CRAWLING if units.crawler[row] else visits
        units.visits[row] = int(min(visits, float(population.most)))
        units.taste[row] = population.taste + population.spread * normal(chance)
        is_narrow = toss(chance, population.narrow)
        intent = pick(chance, population.intents)
        units.intent[row] = intent if is_narrow else -1
        units.favourite[row] = pick(chance, population.queries)
        units.swapped[row] = pick(chance, 2) == 1
        units.device[row] = pick(chance, len(DEVICES))
        units.country[row] = pick(chance, len(COUNTRIES))


def first_pages(people: People, words: Array, units: Units, queries: int) -> Pages:
    """The first page of every visit of these units, unit by unit."""
    unit = np.repeat(np.arange(len(units.number)), units.visits)
    before = np.cumsum(units.visits) - units.visits
    visit = np.arange(len(unit)) - np.repeat(before, units.visits)
    pages = Pages(unit, visit, np.zeros_like(unit), np.zeros_like(unit), np.zeros_like(unit))
    start, span = round(people.start.timestamp() * 1e6), round(people.days * 86_400e6)
    keys = streams(words, page_numbers(units.number[unit], visit, pages.step))
    _first_pages(keys, units, start, span, float(people.returning), queries, pages)
    return pages


@kernel
def _first_pages(
    keys: Array, units: Units, start: int, span: int, returning: float, queries: int, pages: Pages
) -> None:
    """Each visit falls anywhere into its own part of the days, but for some room at the end of it."""
    chance: Any = np.zeros(3, np.uint64)
    for row in range(len(keys)):
        seat(chance, keys, row)
        unit = pages.unit[row]
        part = span // units.visits[unit]
        pages.time[row] = start + pages.visit[row] * part + int(uniform(chance) * max(part - ROOM, part // 2))
        asked = pick(chance, queries)
        pages.query[row] = units.favourite[unit] if toss(chance, returning) else asked


def next_pages(
    people: People, words: Array, units: Units, pages: Pages, clicked: Array, ends: Array, queries: int
) -> Pages:
    """The pages that follow, for the sessions that go on; `ends` is when people were done with the last page."""
    rows = np.flatnonzero(~units.crawler[pages.unit] & (pages.step + 1 < MOST_PAGES))
    following = Pages(*(values[rows] for values in pages))
    following = following._replace(step=following.step + 1)
    keys = streams(words, page_numbers(units.number[following.unit], following.visit, following.step))
    again = np.where(clicked[rows], float(people.again_after_click), float(people.again_without_click))
    goes_on = np.zeros(len(rows), np.bool_)
    _next_pages(keys, again, ends[rows], queries, following, goes_on)
    return Pages(*(values[goes_on] for values in following))


@kernel
def _next_pages(keys: Array, again: Array, ends: Array, queries: int, pages: Pages, goes_on: Array) -> None:
    """Another query than the last one, if there is another."""
    chance: Any = np.zeros(3, np.uint64)
    for row in range(len(keys)):
        seat(chance, keys, row)
        goes_on[row] = toss(chance, again[row])
        if goes_on[row]:
            pages.time[row] = ends[row] + int(1e6 * around(chance, THINKING, 0.7))
            if queries > 1:
                pages.query[row] = (pages.query[row] + 1 + pick(chance, queries - 1)) % queries
