"""`People` describes a population; the functions draw its units, their arms, visits and queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from interleaf.clicks import Cascade, find_cascade, scale_of
from interleaf.clicks.click_models import check_probabilities
from interleaf.errors import ClickError, DataError, join_names
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import inline_kernel, kernel, reseed
from interleaf.kernels.randomness import MAX_CHOICES, Randomness, bytes_of, key_of, pick, toss
from interleaf.log.schema import FALLBACK, HOLDOUT, INTERLEAVED
from interleaf.methods import single
from interleaf.methods.registry import ResolvedMethod, show_unchanged

MAX_PAGES = 16  # pages per session
MAX_VISITS = 2**20  # visits per unit


def words_of(key: Any) -> Array:
    """The two words of a key; `streams` derives numbered streams from them."""
    return np.frombuffer(bytes_of(key_of(key)), "<u8")


def streams(words: Array, numbers: Array) -> Array:
    """`[row, 2]`: the keys of numbered random streams; the number changes one of the two words."""
    keys = np.empty((len(numbers), 2), np.uint64)
    keys[:, 0], keys[:, 1] = words[0], words[1] + numbers.astype(np.uint64)
    return keys


def page_numbers(units: Array, visits: Array, steps: Array) -> Array:
    """A unique number for each page of each visit of each unit."""
    return (units * MAX_VISITS + visits) * MAX_PAGES + steps


@inline_kernel
def draw_uniform(chance: Randomness) -> float:
    """Between 0 and 1, never either."""
    return (pick(chance, MAX_CHOICES) + 0.5) / MAX_CHOICES


@inline_kernel
def normal(chance: Randomness) -> float:
    """Standard normal, by Box and Muller."""
    radius = math.sqrt(-2 * math.log(draw_uniform(chance)))
    return radius * math.cos(2 * math.pi * draw_uniform(chance))


@inline_kernel
def around(chance: Randomness, median: float, spread: float) -> float:
    """Log-normal about a median."""
    return median * math.exp(spread * normal(chance))


@dataclass(frozen=True)
class People:
    """A population. Fields by grade may be two numbers, for the lowest and the highest grade.

    **Visits.** `units` people; P(a unit makes at least n visits) = (min_visits / n)^visits_tail, at most
    `max_visits`; a smaller `visits_tail` means more heavy users. Visits fall into `days` from `start` on. A visit is a
    session: it begins with the unit's usual query (with probability `returning`) or any other. Another query follows
    with probability `again_after_click` after a page with a click, and `again_without_click` after one without.

    **Taste.** Each unit has a constant taste, normal with mean `taste` and deviation `taste_spread`. It adds
    taste * side to the logit of a click, where side = (rank by the second ranker - rank by the first) / (their sum): 1
    for documents that only the first ranker puts high. With mean 0 there is no preference on average, although every
    unit has one.

    **Clicks.** `clicks` is a named table or a `Cascade`, read from the top. Clicks come in the order of reading; in a
    share `regressions` of the pages with several clicks, people return to a higher rank for the last one.
    `dwell` is the median of the seconds on a document, by grade; `purchases` the probability that a click ends in a
    purchase, by grade.

    **Intents.** Each document serves one of `intents`. A share `narrow` of the units wants a single one of them; for
    these units, relevant documents of other intents are irrelevant.

    **Captions.** The caption of a document adds -`caption_strength` to `caption_strength` to the logit of a click,
    through highlights, length of URL and length of snippet. `caption_lean` is from -1 to 1: above 0, attractive
    captions are more frequent on documents that the first ranker puts higher; below 0, on those that the second does.

    **Crawlers.** A share `crawlers` of the units visits thirty times as often, and clicks everything at once.

    >>> People(units=100, taste=0.4).taste_spread
    0.5
    """

    units: int = 10_000
    min_visits: int = 1
    visits_tail: float = 1.5
    max_visits: int = 1_000
    start: datetime = datetime(2026, 1, 5, tzinfo=UTC)
    days: float = 14.0
    returning: float = 0.2
    again_after_click: float = 0.15
    again_without_click: float = 0.5
    taste: float = 0.0
    taste_spread: float = 0.5
    clicks: str | Cascade = "navigational"
    regressions: float = 0.1
    dwell: Sequence[float] = (15.0, 90.0)
    purchases: Sequence[float] = (0.0, 0.0)
    intents: int = 3
    narrow: float = 0.0
    caption_strength: float = 0.0
    caption_lean: float = 0.0
    crawlers: float = 0.0

    def __post_init__(self) -> None:
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not least <= value <= most:
                kind = "a share" if name in _SHARES else "a number"
                raise ClickError(f"people: {name} is {value!r}; give {kind} from {least:g} to {most:g}")
        for name in ("units", "min_visits", "max_visits", "intents"):
            if not isinstance(getattr(self, name), (int, np.integer)):
                raise ClickError(f"people: {name} is {getattr(self, name)!r}; give a whole number")
        if self.max_visits < self.min_visits:
            raise ClickError(f"people: max_visits {self.max_visits} is below min_visits {self.min_visits}")
        if self.start.tzinfo is None:
            raise ClickError(f"people: start {self.start} does not say its time zone; give it one, such as UTC")
        if not all(seconds > 0 for seconds in self.dwell):
            raise ClickError(f"people: dwell is {tuple(self.dwell)!r}; give seconds above 0")
        check_probabilities(self.purchases, "people: purchases")
        if not isinstance(self.clicks, (str, Cascade)):
            raise ClickError(f"people: clicks is {self.clicks!r}; give the name of a click table, or a Cascade")

    def cascade(self, grades: int) -> Cascade:
        """The click model, for data with this many grades; a sample may lack the upper grades of a named table."""
        model = find_cascade(self.clicks, scale_of(grades - 1)) if isinstance(self.clicks, str) else self.clicks
        if len(model.click) < grades:
            grade_range = f"grades 0 to {len(model.click) - 1}"
            raise ClickError(f"people: clicks knows {grade_range}, but the data goes up to {grades - 1}")
        return model

    def dwell_by(self, grades: int) -> Array:
        """Median seconds on a document of each grade; two given numbers are spread evenly on the log scale."""
        return np.exp(_by_grade("dwell", [math.log(seconds) for seconds in self.dwell], grades))

    def purchases_by(self, grades: int) -> Array:
        """The probability of a purchase after a click on a document of each grade."""
        return _by_grade("purchases", self.purchases, grades)


_SHARES = ("returning", "again_after_click", "again_without_click", "regressions", "narrow", "crawlers")
_BOUNDS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(_SHARES, (0, 1)),
    "units": (1, 2**31),
    "min_visits": (1, MAX_VISITS - 1),
    "max_visits": (1, MAX_VISITS - 1),
    "visits_tail": (0.1, 100),
    "days": (1e-3, 36_500),
    "taste": (-50, 50),
    "taste_spread": (0, 50),
    "intents": (1, 127),
    "caption_strength": (0, 50),
    "caption_lean": (-1, 1),
}


def side(first: Any, second: Any) -> Any:
    """Which ranker ranks a document higher: towards 1 the first, towards -1 the second, 0 if both rank it alike.

    >>> side(1, 3), side(3, 1), side(2, 2)
    (0.5, -0.5, 0.0)
    """
    return (second - first) / (first + second)


def _by_grade(name: str, values: Sequence[float], grades: int) -> Array:
    if len(values) == 2:
        return np.linspace(values[0], values[1], grades)
    if len(values) < grades:
        problem = f"people: {name} knows grades 0 to {len(values) - 1}, but the data goes up to {grades - 1}"
        raise ClickError(f"{problem}; give one number per grade, or two for the lowest and the highest")
    return np.array(values[:grades], np.float64)


class SimulatedArm(NamedTuple):
    """A share of the units, and how their lists are composed."""

    name: str
    share: float
    chosen: ResolvedMethod
    settings: Any


def arms_of(
    shares: Mapping[str, float], rankers: Sequence[str], chosen: ResolvedMethod, settings: Any
) -> tuple[SimulatedArm, ...]:
    """The arms; the interleaved one is first and has the remaining share. The holdout shows the first ranker's list."""
    for ranker in rankers:
        if ranker in (INTERLEAVED, HOLDOUT, FALLBACK):
            raise DataError(f"a ranker cannot be named {ranker!r}: that is the name of an arm; give it another name")
    for name, share in shares.items():
        if name != HOLDOUT and name not in rankers:
            raise DataError(f"there is no arm {name!r}; an arm is {join_names([HOLDOUT, *rankers])}")
        if not 0 <= share <= 1:
            raise DataError(f"arm {name!r} has the share {share!r}; give a number from 0 to 1")
    left = 1 - sum(shares.values())
    if left < -1e-9:
        raise DataError(f"the arms {dict(shares)!r} take more than all units; give shares that sum to at most 1")
    arms = [SimulatedArm(INTERLEAVED, max(left, 0.0), chosen, settings)]
    for name, share in shares.items():
        ranker = rankers[0] if name == HOLDOUT else name
        arms.append(SimulatedArm(name, share, show_unchanged(ranker), single.SingleSettings(rankers.index(ranker))))
    return tuple(arms)


def assign(arms: Sequence[SimulatedArm], salt: str, units: Sequence[str]) -> Array:
    """The number of each unit's arm, by a hash of its name with its own salt."""
    if len(arms) == 1:
        return np.zeros(len(units), np.int64)
    digests = b"".join([bytes_of(key_of((salt, "arm", unit))) for unit in units])
    places = np.frombuffer(digests, "<u8")[::2] / 2.0**64
    return np.asarray(np.searchsorted(np.cumsum([arm.share for arm in arms])[:-1], places, side="right"))


DEVICES = ("desktop", "mobile", "tablet")
COUNTRIES = ("BR", "DE", "FR", "IN", "JP", "US")
CRAWLING = 30  # times as many visits
ROOM = 3_600_000_000  # min microseconds between the starts of two sessions of a unit, if there are enough days
THINKING = 8.0  # median seconds between the end of a page and the next query


class SimulatedUnits(NamedTuple):
    """People by row: `intent` is -1 for people who want all; `swapped`: the rankers' names are exchanged."""

    number: Array
    crawler: Array
    visits: Array
    taste: Array
    intent: Array
    favourite: Array
    swapped: Array
    device: Array
    country: Array


class PageRequests(NamedTuple):
    """Requests by row: unit (a row of `SimulatedUnits`), visit, step in the visit, query, and time in microseconds."""

    unit: Array
    visit: Array
    step: Array
    query: Array
    time: Array


def draw_units(people: People, words: Array, numbers: Array, queries: int) -> SimulatedUnits:
    """The units with these numbers; a unit depends on its number and on the world's key only."""
    rows = len(numbers)
    small, whole = np.zeros((4, rows), np.int8), np.zeros((2, rows), np.int64)
    units = SimulatedUnits(
        numbers.astype(np.int64), np.zeros(rows, np.bool_), whole[0], np.zeros(rows), small[0], whole[1],
        np.zeros(rows, np.bool_), small[1], small[2],
    )  # fmt: skip
    visits = float(people.min_visits), float(people.max_visits), float(people.visits_tail)
    taste, narrow = (float(people.taste), float(people.taste_spread)), (float(people.narrow), people.intents)
    _draw_units(streams(words, numbers), visits, taste, narrow, float(people.crawlers), queries, units)
    return units


@kernel
def _draw_units(
    keys: Array, visits: Any, taste: Any, narrow: Any, crawlers: float, queries: int, units: SimulatedUnits
) -> None:
    """`visits`: least, largest, tail; `taste`: mean, deviation; `narrow`: share of units, number of intents."""
    min_visits, max_visits, tail = visits
    chance: Any = np.zeros(3, np.uint64)
    for row in range(len(keys)):
        reseed(chance, keys, row)
        units.crawler[row] = toss(chance, crawlers)
        count = min_visits * draw_uniform(chance) ** (-1 / tail)
        count = count * CRAWLING if units.crawler[row] else count
        units.visits[row] = int(min(count, max_visits))
        units.taste[row] = taste[0] + taste[1] * normal(chance)
        is_narrow = toss(chance, narrow[0])
        intent = pick(chance, narrow[1])
        units.intent[row] = intent if is_narrow else -1
        units.favourite[row] = pick(chance, queries)
        units.swapped[row] = pick(chance, 2) == 1
        units.device[row] = pick(chance, len(DEVICES))
        units.country[row] = pick(chance, len(COUNTRIES))


def first_pages(people: People, words: Array, units: SimulatedUnits, queries: int) -> PageRequests:
    """The first page of every visit of these units, unit by unit."""
    unit = np.repeat(np.arange(len(units.number)), units.visits)
    visit = np.arange(len(unit)) - np.repeat(np.cumsum(units.visits) - units.visits, units.visits)
    pages = PageRequests(unit, visit, np.zeros_like(unit), np.zeros_like(unit), np.zeros_like(unit))
    start, span = round(people.start.timestamp() * 1e6), round(people.days * 86_400e6)
    keys = streams(words, page_numbers(units.number[unit], visit, pages.step))
    _first_pages(keys, units, start, span, float(people.returning), queries, pages)
    return pages


@kernel
def _first_pages(
    keys: Array, units: SimulatedUnits, start: int, span: int, returning: float, queries: int, pages: PageRequests
) -> None:
    """Each visit falls anywhere into its own part of the days, but for some room at the end of it."""
    chance: Any = np.zeros(3, np.uint64)
    for row in range(len(keys)):
        reseed(chance, keys, row)
        unit = pages.unit[row]
        share = span // units.visits[unit]
        pages.time[row] = start + pages.visit[row] * share + int(draw_uniform(chance) * max(share - ROOM, share // 2))
        other = pick(chance, queries)
        pages.query[row] = units.favourite[unit] if toss(chance, returning) else other


def next_pages(
    people: People, words: Array, units: SimulatedUnits, pages: PageRequests, clicked: Array, ends: Array, queries: int
) -> PageRequests:
    """The next pages of the sessions that go on; `ends` is when people finished the previous page."""
    rows = np.flatnonzero(~units.crawler[pages.unit] & (pages.step + 1 < MAX_PAGES))
    following = PageRequests(*(values[rows] for values in pages))
    following = following._replace(step=following.step + 1)
    keys = streams(words, page_numbers(units.number[following.unit], following.visit, following.step))
    again = np.where(clicked[rows], float(people.again_after_click), float(people.again_without_click))
    goes_on = np.zeros(len(rows), np.bool_)
    _next_pages(keys, again, ends[rows], queries, following, goes_on)
    return PageRequests(*(values[goes_on] for values in following))


@kernel
def _next_pages(keys: Array, again: Array, ends: Array, queries: int, pages: PageRequests, goes_on: Array) -> None:
    """Another query than the last one, if there is another."""
    chance: Any = np.zeros(3, np.uint64)
    for row in range(len(keys)):
        reseed(chance, keys, row)
        goes_on[row] = toss(chance, again[row])
        if goes_on[row]:
            pages.time[row] = ends[row] + int(1e6 * around(chance, THINKING, 0.7))
            if queries > 1:
                pages.query[row] = (pages.query[row] + 1 + pick(chance, queries - 1)) % queries
