"""People, described: who they are, how often they come, what they like, and what they do with a page of results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from interleaf.chance import MOST_CHOICES, Chance, bytes_of, key_of, pick
from interleaf.clicks import Cascade, named, scale_of
from interleaf.clicks.model import check_probabilities
from interleaf.compiled import part
from interleaf.errors import ClickError
from interleaf.methods.arrays import Array

MOST_PAGES = 16  # a session has
MOST_VISITS = 2**20  # a unit makes


def words_of(key: Any) -> Array:
    """The two words of a key, from which numbered streams follow."""
    return np.frombuffer(bytes_of(key_of(key)), "<u8")


def streams(words: Array, numbers: Array) -> Array:
    """`[row, 2]`, the chance keys of numbered streams: one word is the key's own, the other is moved by the number."""
    keys = np.empty((len(numbers), 2), np.uint64)
    keys[:, 0], keys[:, 1] = words[0], words[1] + numbers.astype(np.uint64)
    return keys


def page_numbers(units: Array, visits: Array, steps: Array) -> Array:
    """A number of its own for each page of each visit of each unit."""
    return (units * MOST_VISITS + visits) * MOST_PAGES + steps


@part
def uniform(chance: Chance) -> float:
    """Between 0 and 1, never either."""
    return (pick(chance, MOST_CHOICES) + 0.5) / MOST_CHOICES


@part
def normal(chance: Chance) -> float:
    """Standard normal, by Box and Muller."""
    radius = math.sqrt(-2 * math.log(uniform(chance)))
    return radius * math.cos(2 * math.pi * uniform(chance))


@part
def around(chance: Chance, median: float, spread: float) -> float:
    """Log-normal about a median."""
    return median * math.exp(spread * normal(chance))


@dataclass(frozen=True)
class People:
    """A population, each field with what it means; what is by grade takes two numbers for the lowest and the highest.

    **Visits.** `units` people; P(a unit makes at least n visits) = (fewest_visits / n)^visits_tail, at most
    `most_visits`: a smaller tail, a heavier one. They fall into `days` from `start` on. A visit is a session: it begins
    with the unit's own lasting query (`returning`) or any other, and goes on with another query after a page that was
    clicked (`again_after_click`) or, a reformulation, that was not (`again_without_click`).

    **Taste.** Each unit has a lasting one, normal with mean `taste` and deviation `taste_spread`. It adds
    taste * side to the logit of a click, where side = (rank by the second ranker - rank by the first) / (their sum): 1
    for what only the first ranker puts high. Mean 0: no preference on average, although every unit has one.

    **Clicks.** `clicks` is a named table or a `Cascade`, read from the top; the order of the clicks is that of reading,
    but in a share of pages (`regressions`) with several clicks one of them comes last, as a return to a higher rank.
    `dwell` is the median of the seconds on a document, by grade; `purchases` the probability that a click ends in a
    purchase, by grade.

    **Intents.** Documents serve one of `intents` each; a share of units (`narrow`) wants a single one of them, and
    takes relevant documents of the others for irrelevant.

    **Captions.** How a document is presented adds -`captions` to `captions` to the logit of a click, and its text shows
    which: highlights, length of URL, length of snippet. `captions_lean` from -1 to 1 says where attractive captions
    stand: above 0, more often on what the first ranker puts higher; below 0, on what the second does.

    **Crawlers.** A share of units: they come thirty times as often, and click everything at once.

    >>> People(units=100, taste=0.4).taste_spread
    0.5
    """

    units: int = 10_000
    fewest_visits: int = 1
    visits_tail: float = 1.5
    most_visits: int = 1_000
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
    captions: float = 0.0
    captions_lean: float = 0.0
    crawlers: float = 0.0

    def __post_init__(self) -> None:
        shares = ("returning", "again_after_click", "again_without_click", "regressions", "narrow", "crawlers")
        for name in shares:
            self._check(name, 0, 1, "a share")
        for name, least, most in _BOUNDS:
            self._check(name, least, most, "a number")
        for name in ("units", "fewest_visits", "most_visits", "intents"):
            if not isinstance(getattr(self, name), (int, np.integer)):
                raise ClickError(f"people: {name} is {getattr(self, name)!r}; give a whole number")
        if self.most_visits < self.fewest_visits:
            raise ClickError(f"people: most_visits {self.most_visits} is below fewest_visits {self.fewest_visits}")
        if self.start.tzinfo is None:
            raise ClickError(f"people: start {self.start} does not say its time zone; give it one, such as UTC")
        if not all(seconds > 0 for seconds in self.dwell):
            raise ClickError(f"people: dwell is {tuple(self.dwell)!r}; give seconds above 0")
        check_probabilities(self.purchases, "people: purchases")
        if not isinstance(self.clicks, (str, Cascade)):
            raise ClickError(f"people: clicks is {self.clicks!r}; give the name of a click table, or a Cascade")

    def _check(self, name: str, least: float, most: float, what: str) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not least <= value <= most:
            raise ClickError(f"people: {name} is {value!r}; give {what} from {least:g} to {most:g}")

    def cascade(self, grades: int) -> Cascade:
        """The click model, for data with this many grades; a sample may lack the upper grades of a named table."""
        model = named(self.clicks, scale_of(grades - 1)) if isinstance(self.clicks, str) else self.clicks
        if len(model.click) < grades:
            raise ClickError(
                f"people: clicks knows grades 0 to {len(model.click) - 1}, but the data goes up to {grades - 1}"
            )
        return model

    def dwell_by(self, grades: int) -> Array:
        """Median seconds on a document of each grade; two given numbers are spread evenly on the log scale."""
        return np.exp(_by_grade("dwell", [math.log(seconds) for seconds in self.dwell], grades))

    def purchases_by(self, grades: int) -> Array:
        """The probability of a purchase after a click on a document of each grade."""
        return _by_grade("purchases", self.purchases, grades)


_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("units", 1, 2**31),
    ("fewest_visits", 1, MOST_VISITS - 1),
    ("most_visits", 1, MOST_VISITS - 1),
    ("visits_tail", 0.1, 100),
    ("days", 1e-3, 36_500),
    ("taste", -50, 50),
    ("taste_spread", 0, 50),
    ("intents", 1, 127),
    ("captions", 0, 50),
    ("captions_lean", -1, 1),
)


def side(first: Any, second: Any) -> Any:
    """Whose document it is, by its ranks in the two rankings: 1 the first ranker's, -1 the second's, 0 of both alike.

    >>> side(1, 3), side(3, 1), side(2, 2)
    (0.5, -0.5, 0.0)
    """
    return (second - first) / (first + second)


def _by_grade(name: str, values: Sequence[float], grades: int) -> Array:
    if len(values) == 2:
        return np.linspace(values[0], values[1], grades)
    if len(values) < grades:
        raise ClickError(
            f"people: {name} knows grades 0 to {len(values) - 1}, but the data goes up to {grades - 1}; give a number "
            "a grade, or two for the lowest and the highest"
        )
    return np.array(values[:grades], np.float64)
