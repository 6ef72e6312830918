"""The traffic of an experiment that is planned: rankings, visits, clicked ranks and tastes, from a log or two rankings.

A log has the documents of both rankings down to the length of each shown list, since it has the ranks of documents that
are not shown. Tastes follow from the clicks of people who come several times. With T_i the sum of the leans of the
clicks of impression i above its expectation, and I_i what a tilt of 1 adds to it, tastes of spread s give

    E[T_i T_j] = s^2 I_i I_j   for two impressions of one person

People read from the top and may stop after a click. While they read, they click a document at a rank with a chance that
depends on the rank, and stop after it with another. A document has a lean from -1 to 1: towards 1 the second ranker has
it higher. A tilt multiplies the chance of a click by exp(tilt * lean). If people look at a rank with some probability,
and then the document appeals to them or not, it is the appeal that is multiplied.

This is not a model of `clicks.fit`: its chances depend on the rank alone, because only the tilt may tell the documents
of the two rankers apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.analysis.analyze import read_tally
from interleaf.analysis.plan import pareto_visits
from interleaf.decode import LARGE, Decoded, Decoding, Design
from interleaf.decode.columns import excluded_rows
from interleaf.errors import DataError
from interleaf.execution.options import LogOptions
from interleaf.execution.passes import Passes
from interleaf.execution.task import Task
from interleaf.kernels.arrays import Array
from interleaf.log.schema import INTERLEAVED
from interleaf.simulate.people import side
from interleaf.simulate.rankers import generator_of
from interleaf.tally import Tally

MIN_CHANCE, MAX_CHANCE = 1e-9, 0.99  # chance of a click
ROUNDS = 50  # of EM
MAX_PAGES = 20_000  # different pages of rankings
MIN_PAGES = 100
MIN_USERS = 20
STEPS = 5
NO_RANKINGS = (
    "no list in the log has both the ranks of its documents and those of the documents that are not shown; log the "
    "rankings (LogWriter's rankings=True), or give the two rankings of each query as files (--rankings)"
)


def leans_of(ranks: Array, counts: Array) -> Array:
    """The leans `[row, position]` of shown documents, from their ranks `[row, ranker, position]` in both rankings.

    A rank below the end of the list counts as the next one; below the end of the list, leans are 0.

    >>> leans_of(np.array([[[1, 3, 2], [2, 1, 0]]]), np.array([3]))
    array([[-0.33333333,  0.5       , -0.33333333]])
    """
    ends = counts[:, None, None]
    both = np.where((ranks > 0) & (ranks <= ends), ranks, ends + 1).astype(np.float64)
    return np.where(np.arange(ranks.shape[2]) < counts[:, None], side(both[:, 1], both[:, 0]), 0.0)


@dataclass(frozen=True, eq=False)
class RankedClicks:
    """For each rank, the chance of a click on a document that neither ranker puts higher, and of stopping after it."""

    chances: Array
    stops: Array

    @classmethod
    def of_pages(cls, clicks: Array, counts: Array) -> RankedClicks:
        """The most likely chances by these pages, `clicks[page, rank]`, which show so many documents each (EM).

        >>> people = RankedClicks.of_pages(np.array([[True, True], [False, True], [False, False]]), np.array([2, 2, 2]))
        >>> people.chances.round(2), people.stops.round(2)
        (array([0.33, 0.67]), array([0. , 0.5]))
        """
        longest = clicks.shape[1]
        there = np.arange(longest) < counts[:, None]
        last = np.where(clicks.any(axis=1), longest - 1 - clicks[:, ::-1].argmax(axis=1), -1)
        below = there & (np.arange(longest) > last[:, None])
        clicked, final = clicks.sum(axis=0), np.bincount(last + 1, minlength=longest + 1)[1:]
        chances, stops = clicked / np.maximum(there.sum(axis=0), 1), np.full(longest, 0.5)
        for _ in range(ROUNDS):
            none = np.where(below, 1 - np.minimum(chances, MAX_CHANCE), 1.0).prod(axis=1)  # no click below the last one
            stop = np.append(stops, 0.0)[last]  # nobody has stopped without a click
            stopped = stop / np.maximum(stop + (1 - stop) * none, MIN_CHANCE)
            read = np.where(below, 1 - stopped[:, None], there).sum(axis=0)
            chances = clicked / np.maximum(read, MIN_CHANCE)
            stops = np.bincount(last + 1, stopped, longest + 1)[1:] / np.maximum(clicked, 1)
        return cls(np.clip(chances, MIN_CHANCE, MAX_CHANCE), np.where(final > 0, stops, 0.0))

    @classmethod
    def of_rates(cls, rates: Sequence[float], k: int) -> RankedClicks:
        """Independent clicks at these rates; below the last given rank, they fall as 1 / rank.

        >>> RankedClicks.of_rates([0.4], 2).chances
        array([0.4, 0.2])
        """
        if not rates or not all(0 < rate < 1 for rate in rates):
            raise DataError(
                f"click rates are {list(rates)}; give a share between 0 and 1 for each rank, such as 0.3 0.2"
            )
        falling = [rates[-1] * len(rates) / rank for rank in range(len(rates) + 1, k + 1)]
        return cls(np.array([*rates, *falling])[:k], np.zeros(k))

    def draw(self, leans: Array, counts: Array, tilts: Array, chance: np.random.Generator) -> tuple[Array, Array]:
        """Clicks `[row, position]`, and how likely they are without a tilt, as a multiple; `tilts[row]` differ."""
        clicks, ratios, read = np.zeros(leans.shape, np.bool_), np.ones(len(leans)), np.ones(len(leans), np.bool_)
        for rank, plain in enumerate(self.chances):
            tilted = tilt(plain, tilts * leans[:, rank])
            read &= counts > rank
            clicked = read & (chance.random(len(leans)) < tilted)
            ratios *= np.where(clicked, plain / tilted, np.where(read, (1 - plain) / (1 - tilted), 1.0))
            clicks[:, rank] = clicked
            read &= ~(clicked & (chance.random(len(leans)) < self.stops[rank]))
        return clicks, ratios

    def compute_mean_clicks(self, leans: Array, counts: Array, tilts: Array) -> Array:
        """The mean number of clicks on each list."""
        means, read = np.zeros(len(leans)), np.ones(len(leans))
        for rank, plain in enumerate(self.chances):
            clicked = np.where(counts > rank, read * tilt(plain, tilts * leans[:, rank]), 0.0)
            means += clicked
            read -= clicked * self.stops[rank]
        return means

    def surplus(self, clicks: Array, leans: Array, counts: Array, tilts: Array) -> tuple[Array, Array]:
        """The sum of the leans of clicks on each list above its expectation, and about what a tilt of 1 adds to it."""
        above, changes, read = np.zeros(len(leans)), np.zeros(len(leans)), np.ones(len(leans))
        for rank, plain in enumerate(self.chances):
            lean = leans[:, rank]
            tilted = tilt(plain, tilts * lean)
            above += np.where(counts > rank, (clicks[:, rank] - read * tilted) * lean, 0.0)
            changes += np.where(counts > rank, read * tilted * lean**2, 0.0)
            after = read * (1 - tilted) / (1 - read * tilted)  # who clicks nothing here may have stopped before
            read = np.where(clicks[:, rank], 1 - self.stops[rank], after)
        return above, changes


def tilt(chances: Array, logarithms: Array) -> Array:
    """Chances of clicks that are multiplied by the exponentials of these numbers, and stay below 1."""
    return np.asarray(np.minimum(chances * np.exp(logarithms), MAX_CHANCE))


Rankings = Mapping[str, Sequence[str]]  # of one ranker, by query
Setting = tuple[str, str]  # a method and a scheme


class PlannedTraffic(NamedTuple):
    """What people will see and how they click.

    `rankings[page, ranker, rank]` are documents as numbers, -1 for none, and `counts[page]` how many are shown.
    `are_whole` says that they have no documents below. `visits(round)` are the page and the person of each impression
    of a round of simulation; in a log, all rounds have the same. `users` of a log are people, None without one.
    """

    rankers: tuple[str, ...]
    rankings: Array
    counts: Array
    are_whole: bool
    clicks: RankedClicks
    taste_spread: float
    visits: Callable[[int], tuple[Array, Array]]
    users: int | None
    current: Setting | None
    source: str

    @property
    def depth(self) -> int:
        """The length of the longest list."""
        return len(self.clicks.chances)


def traffic_of_rankings(
    rankings: Mapping[str, Rankings], k: int, rates: Sequence[float], taste_spread: float, each: float, is_even: bool
) -> PlannedTraffic:
    """Traffic in which all queries that both rankers rank are equally frequent.

    People come `each` times on average: all equally often if `is_even`, else by a Pareto law.
    """
    if len(rankings) != 2:
        raise DataError(f"a plan compares two rankers; rankings of {len(rankings)} are given: {', '.join(rankings)}")
    if not each >= 1:
        raise DataError(f"impressions_per_unit is {each!r}; give a number from 1 up")
    first, second = rankings.values()
    queries = [query for query in first if first[query] and second.get(query)]
    if len(queries) < MIN_PAGES:
        problem = f"{len(queries)} queries are ranked by both {' and '.join(rankings)}"
        raise DataError(f"{problem}, too few for a plan; give rankings of at least {MIN_PAGES} queries")
    if len(queries) > MAX_PAGES:
        chosen = generator_of("queries of a plan").permutation(len(queries))[:MAX_PAGES]
        queries = [queries[number] for number in np.sort(chosen).tolist()]
    pairs = [(first[query], second[query]) for query in queries]
    numbers = [{name: number for number, name in enumerate(dict.fromkeys([*one, *other]))} for one, other in pairs]
    longest = max(k, *(len(ranking) for both in pairs for ranking in both))
    pages = np.full((len(pairs), 2, longest), -1, np.int32)
    for page, (number_of, both) in enumerate(zip(numbers, pairs, strict=True)):
        for place, ranking in enumerate(both):
            pages[page, place, : len(ranking)] = [number_of[name] for name in ranking]
    visits, chances = (np.array([int(each), int(each) + 1]), np.array([1 - each % 1, each % 1]))
    if not is_even:
        visits, chances = pareto_visits(each)

    def draw_visits(number: int) -> tuple[Array, Array]:
        chance = generator_of(("visits", number))
        counts = chance.choice(visits, round(MAX_PAGES / each), p=chances / chances.sum()).astype(np.int64)
        return chance.integers(0, len(pages), counts.sum()), np.repeat(np.arange(len(counts)), counts)

    source = f"{len(queries):,} queries that both rank, all equally frequent"
    counts = np.minimum([len(one) for one in numbers], k)
    clicks = RankedClicks.of_rates(rates, k)
    return PlannedTraffic(
        *(tuple(rankings), pages, counts, True, clicks, taste_spread, draw_visits, None, None, source)
    )


def traffic_of_log(log: Any, options: LogOptions, taste_spread: float | None) -> PlannedTraffic:
    """The people of a log, what they saw, and how they clicked."""
    if isinstance(log, pa.RecordBatchReader) or hasattr(log, "__next__"):
        raise DataError("the log is read twice; give paths or a table, not a stream")
    tally = log if isinstance(log, Tally) else read_tally(log, options)
    about = tally.about
    if len(about.rankers) != 2:
        raise DataError(f"a plan is made for two rankers; the log compares {len(about.rankers)}")
    if log is tally or not about.composed:
        raise DataError("a plan of methods needs rankings, which a tally does not have; give the log")
    task = options.task(TrafficTask)
    pages = Passes(log, task, options).add_up(LoggedPages(about.experiment, about.version, about.rankers), count_batch)
    units, rankings, counts, leans, clicks = pages.columns()
    if len(units) < MIN_PAGES or len(np.unique(units)) < MIN_USERS or not clicks.any():
        problem = f"{len(units):,} impressions of {len(np.unique(units)):,} people with {clicks.sum():,} clicks"
        reason = "" if pages.usable else f" ({NO_RANKINGS})"
        raise DataError(
            f"the log has {problem} whose rankings are known, too few for a plan{reason}; at least {MIN_PAGES} "
            f"impressions of {MIN_USERS} people are needed"
        )
    model = RankedClicks.of_pages(clicks, counts)
    people, visits = np.unique(units, return_inverse=True)
    if taste_spread is None:
        taste_spread = taste_spread_of(model, clicks, leans, counts, visits)
    source = f"{len(units):,} impressions of {len(people):,} people in the log"
    if pages.usable < pages.rows:
        source += f"; {pages.rows - pages.usable:,} others do not have the ranks of all documents"
    rows = np.arange(len(units))
    return PlannedTraffic(
        *(about.rankers, rankings, counts, False, model, taste_spread, lambda number: (rows, visits)),
        *(len(people), (about.composed, about.scheme), source),
    )


def taste_spread_of(model: RankedClicks, clicks: Array, leans: Array, counts: Array, people: Array) -> float:
    """The standard deviation of people's tastes, on the scale of a tilt; 0 if nobody comes twice."""
    tilts = np.zeros(len(clicks))
    for _ in range(STEPS):  # Newton's method for the tilt of the log itself
        above, changes = model.surplus(clicks, leans, counts, tilts)
        tilts += np.clip(above.sum() / max(changes.sum(), 1e-12), -1, 1)

    visits = np.maximum(np.bincount(people), 1)  # with one voice per visit, and not per pair, heavy users count less

    def over_pairs(values: Array) -> float:
        """The sum of the products of all pairs of impressions of one person."""
        return float(((np.bincount(people, values) ** 2 - np.bincount(people, values**2)) / visits).sum())

    among = over_pairs(changes)
    return float(np.sqrt(max(over_pairs(above) / among, 0.0))) if among > 0 else 0.0


@dataclass(frozen=True)
class TrafficTask(Task):
    """The columns that say how both rankers rank the documents of each list."""

    def wants(self, design: Design) -> bool:
        return super().wants(design) and design.arm == INTERLEAVED

    @property
    def spare_columns(self) -> dict[str, tuple[str, ...]]:
        return dict.fromkeys(LARGE, ("ranks", "unshown_ranks"))


class LoggedPages:
    """Impressions of a version of an experiment whose rankings are known to the end of the list.

    If they are too many, those of a part of the people, chosen by hash.
    """

    def __init__(self, experiment: str, version: int, rankers: tuple[str, ...]) -> None:
        self._about = experiment, version, rankers
        self._parts: list[tuple[Array, ...]] = []
        self._waiting, self._highest = 0, 2**64 - 1
        self.rows, self.usable, self.dropped = 0, 0, Counter[str]()

    def add(self, decoded: Decoded) -> None:
        """Add the impressions of a part of the log."""
        experiment, version, rankers = self._about
        design = decoded.design
        if (design.experiment, design.version) != (experiment, version) or set(design.rankers) != set(rankers):
            return
        order = [design.rankers.index(name) for name in rankers]
        ranks, unshown = (values[:, order] for values in (decoded.impressions.ranks, decoded.impressions.unshown_ranks))
        rankings, are_complete = rankings_of_ranks(ranks, unshown, decoded.counts)
        keep = decoded.has["ranks"] & decoded.has["unshown_ranks"] & (decoded.counts > 0) & are_complete
        self.rows, self.usable = self.rows + len(keep), self.usable + int(keep.sum())
        part = decoded.unit, rankings, decoded.counts, leans_of(ranks, decoded.counts), decoded.is_clicked
        self._append(tuple(values[keep] for values in part))

    def merge(self, other: LoggedPages) -> None:
        self.rows, self.usable = self.rows + other.rows, self.usable + other.usable
        self.dropped.update(other.dropped)
        self._highest = min(self._highest, other._highest)
        for part in other._parts:
            self._append(part)

    def _append(self, part: tuple[Array, ...]) -> None:
        self._parts.append(part)
        self._waiting += len(part[0])
        while self._waiting > 2 * MAX_PAGES and self._highest > 1:
            self._highest //= 2
            self._parts = [tuple(values[one[0] <= self._highest] for values in one) for one in self._parts]
            self._waiting = sum(len(one[0]) for one in self._parts)

    def columns(self) -> tuple[Array, ...]:
        """The person, the rankings, the length, the leans and the clicks of each impression, sorted by person."""
        longest = max((one[1].shape[2] for one in self._parts), default=1)
        fills = (0, -1, 0, 0, 0)
        empty = np.zeros(0, np.uint64), np.zeros((0, 2, longest), np.int32), np.zeros(0, np.int64)
        parts = [(*empty, np.zeros((0, longest)), np.zeros((0, longest), np.bool_)), *self._parts]
        columns = []
        for number, fill in enumerate(fills):
            arrays = [one[number] for one in parts]
            missing = [longest - array.shape[-1] if array.ndim > 1 else 0 for array in arrays]
            columns.append(
                np.concatenate(
                    [
                        np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, width)], constant_values=fill)
                        for array, width in zip(arrays, missing, strict=True)
                    ]
                )
            )
        order = np.argsort(columns[0], kind="stable")
        return tuple(column[order] for column in columns)


def rankings_of_ranks(ranks: Array, unshown: Array, counts: Array) -> tuple[Array, Array]:
    """Rankings `[row, ranker, rank]` down to the length of each list, and whether they have no gap.

    Documents are numbers: shown ones by position, then the others in the order of `unshown`.

    >>> ranks, unshown = np.array([[[1, 2], [0, 1]]]), np.array([[[0], [2]]])
    >>> rankings_of_ranks(ranks, unshown, np.array([2]))[0].tolist()
    [[[0, 1], [1, 2]]]
    """
    rankings = np.full(ranks.shape, -1, np.int32)
    every = np.concatenate([ranks, unshown], axis=2)
    rows, rankers, documents = np.nonzero((every > 0) & (every <= counts[:, None, None]))
    rankings[rows, rankers, every[rows, rankers, documents] - 1] = documents
    is_there = rankings >= 0
    gaps = is_there[:, :, 1:] & ~is_there[:, :, :-1]
    return rankings, np.asarray(~gaps.any(axis=(1, 2)))


def count_batch(pages: LoggedPages, batch: pa.RecordBatch, task: TrafficTask, repeated: Array) -> None:
    """Add the impressions of a batch, without those that were read before."""
    decoding = Decoding(batch, task.scoring.counting, task.wants, repeated)
    for rule, rows in excluded_rows(batch, decoding.unit, task.exclusion, task.crawlers).items():
        decoding.leave_out(rule, rows)
    for decoded in decoding:
        pages.add(decoded)
