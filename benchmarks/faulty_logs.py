"""Logs in the documented format, sound or with a fault, for `benchmarks.checks`.

Nothing here uses interleaf: lists are drafted, and clicks are drawn, by this file alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

Array = np.ndarray[Any, Any]
DAY = 86_400_000_000
START = 1_767_571_200_000_000  # 2026-01-05, a Monday
RANKERS = ("production", "candidate")


@dataclass(frozen=True)
class People:
    """Who comes: units, how they come back, how often they click, and how the rankers differ.

    `tail`: visits of a unit are Pareto with this index, or one each where it is 0. `edge`: by how much less noise the
    second ranker orders documents. `taste`: the deviation of people's own preference for one ranker's documents.
    `heavy_taste`: how much those who come back prefer the second ranker, and others the first. `again`: which share of
    people who click nothing ask something else a minute later.
    """

    units: int = 1000
    tail: float = 1.5
    most: int = 100
    documents: int = 15
    shown: int = 8
    queries: int = 60
    days: int = 14
    clicks: float = 0.5
    decay: float = 0.8
    noise: float = 0.5
    edge: float = 0.0
    taste: float = 0.0
    heavy_taste: float = 0.0
    again: float = 0.0


@dataclass
class Log:
    """A log as arrays, a row an impression; `ranks[row, ranker, position]`."""

    unit: Array
    time: Array
    query: Array
    arm: Array
    documents: Array
    ranks: Array
    teams: Array
    clicked: Array
    delay: Array
    segment: Array
    characters: Array

    def only(self, rows: Array) -> Log:
        return Log(*(values[rows] for values in vars(self).values()))

    def with_rows(self, other: Log) -> Log:
        return Log(*(np.concatenate(both) for both in zip(vars(self).values(), vars(other).values(), strict=True)))


def sound(people: People, chance: np.random.Generator) -> Log:
    """A log without a fault: team draft, a position-based reader, visits by day with nights."""
    visits = np.ones(people.units, np.int64)
    if people.tail:
        visits = np.minimum(np.floor(chance.pareto(people.tail, people.units) + 1), people.most).astype(np.int64)
    unit = np.repeat(np.arange(people.units), visits)
    relevance = chance.normal(size=(people.queries, people.documents))
    noises = people.noise, people.noise * (1 - people.edge)
    scores = [relevance + noise * chance.normal(size=relevance.shape) for noise in noises]
    orders = [np.argsort(-one, axis=1, kind="stable") for one in scores]
    taste = people.heavy_taste * np.where(visits > 1, 1, -1) + people.taste * chance.normal(size=people.units)
    habit, segment = chance.normal(0, 0.3, people.units), chance.integers(2, size=people.units)
    examined = people.clicks * np.arange(1, people.shown + 1) ** -people.decay

    def shown(unit: Array, time: Array) -> Log:
        size = len(unit)
        query = np.minimum(chance.zipf(1.3, size) - 1, people.queries - 1)
        documents, teams = draft([order[query] for order in orders], people.shown, chance)
        ranks = np.stack([ranks_of(order[query], documents) for order in orders], axis=1)
        preference = np.sign(ranks[:, 0] - ranks[:, 1]) * taste[unit, None]  # above 0: the second has it higher
        appeal = np.take_along_axis(relevance[query], documents, axis=1) + preference + habit[unit, None]
        clicked = chance.random(appeal.shape) < examined / (1 + np.exp(-appeal))
        arm, delay = np.zeros(size, np.int64), chance.exponential(20, size)
        lengths = 400 + (37 * documents + 11 * query[:, None]) % 400
        return Log(unit, time, query, arm, documents, ranks, teams, clicked, delay, segment[unit], lengths)

    size = len(unit)
    hours = chance.choice(24, size, p=(1.2 - np.cos(np.arange(24) / 24 * 2 * np.pi)) / 28.8)
    hours += 24 * chance.integers(people.days, size=size)
    log = shown(unit, START + hours * (DAY // 24) + chance.integers(DAY // 24, size=size))
    unhappy = np.flatnonzero(~log.clicked.any(axis=1) & (chance.random(size) < people.again))
    return log.with_rows(shown(unit[unhappy], log.time[unhappy] + 60_000_000)) if len(unhappy) else log


def draft(orders: Sequence[Array], shown: int, chance: np.random.Generator) -> tuple[Array, Array]:
    """Team draft for two rankers: in each round a coin says who picks first its best document that is left."""
    size = len(orders[0])
    rows, taken = np.arange(size), np.zeros(orders[0].shape, np.bool_)
    documents, teams = np.zeros((size, shown), np.int64), np.zeros((size, shown), np.int64)
    for position in range(shown):
        first = chance.integers(2, size=size) if position % 2 == 0 else 1 - teams[:, position - 1]
        order = np.where(first[:, None] == 0, orders[0], orders[1])
        place = np.argmax(~np.take_along_axis(taken, order, axis=1), axis=1)
        documents[:, position], teams[:, position] = order[rows, place], first
        taken[rows, documents[:, position]] = True
    return documents, teams


def ranks_of(order: Array, documents: Array) -> Array:
    """Where each shown document stands in an order."""
    places = np.argsort(order, axis=1)
    return np.take_along_axis(places, documents, axis=1) + 1


ARMS = ("interleaved", "holdout", *RANKERS)


def table(log: Log, people: People) -> pa.Table:
    """The log in the documented format."""
    size, shown = log.documents.shape
    documents = pa.array([f"d{number}" for number in range(people.documents)]).take(pa.array(log.documents.reshape(-1)))
    lists = np.arange(0, size * shown + 1, shown, dtype=np.int32)
    ranks = pa.ListArray.from_arrays(
        pa.array(np.arange(0, 2 * size + 1, 2, dtype=np.int32)),
        pa.ListArray.from_arrays(
            pa.array(np.arange(0, 2 * size * shown + 1, shown, dtype=np.int32)),
            pa.array(log.ranks.reshape(-1).astype(np.int32)),
        ),
    )
    rows, positions = np.nonzero(log.clicked)
    moments = log.time[rows] + ((log.delay[rows] + positions) * 1e6).astype(np.int64)
    stamp = pa.timestamp("us", "UTC")
    fields = [pa.array(["click"] * len(rows)), pa.array((positions + 1).astype(np.int32)), pa.array(moments, stamp)]
    ends = np.concatenate([[0], np.cumsum(log.clicked.sum(axis=1))]).astype(np.int32)
    methods = np.array(["team_draft", *(f"single(ranker={RANKERS[ranker]})" for ranker in (0, 0, 1))])[log.arm]
    return pa.table(
        {
            "experiment": ["own"] * size,
            "version": pa.array(np.ones(size, np.int32)),
            "impression": [f"i{number}" for number in range(size)],
            "time": pa.array(log.time, stamp),
            "unit": pa.array(log.unit).cast(pa.string()),
            "query": pa.array(log.query).cast(pa.string()),
            "arm": pa.array(np.array(ARMS)[log.arm]),
            "method": pa.array(methods),
            "rankers": [list(RANKERS)] * size,
            "documents": pa.ListArray.from_arrays(pa.array(lists), documents),
            "ranks": ranks,
            "lengths": [[people.documents] * 2] * size,
            "union": pa.array(np.full(size, people.documents, np.int32)),
            "teams": pa.ListArray.from_arrays(pa.array(lists), pa.array(log.teams.reshape(-1).astype(np.int8))),
            "characters": pa.ListArray.from_arrays(
                pa.array(lists), pa.array(log.characters.reshape(-1).astype(np.int32))
            ),
            "events": pa.ListArray.from_arrays(
                pa.array(ends), pa.StructArray.from_arrays(fields, ["kind", "rank", "time"])
            ),
            "attributes": pa.array(
                [[("device", f"device {kind}")] for kind in log.segment], pa.map_(pa.string(), pa.string())
            ),
        }
    )


Fault = Callable[[Log, np.random.Generator], Log]


def lost_clicks(share: float, query: int | None = None) -> Fault:
    """Clicks on documents of the second ranker are lost, for all queries or for one."""

    def lose(log: Log, chance: np.random.Generator) -> Log:
        lost = (log.teams == 1) & (chance.random(log.teams.shape) < share)
        if query is not None:
            lost &= log.query[:, None] == query
        return replace(log, clicked=log.clicked & ~lost)

    return lose


def too_deep(log: Log, chance: np.random.Generator) -> Log:
    """Clicks are logged one rank too deep; those of the last rank are not logged."""
    clicked = np.zeros_like(log.clicked)
    clicked[:, 1:] = log.clicked[:, :-1]
    return replace(log, clicked=clicked)


def shuffled(share: float) -> Fault:
    """A share of lists is logged in another order, with ranks, teams and clicks."""

    def shuffle(log: Log, chance: np.random.Generator) -> Log:
        order = np.argsort(chance.random(log.teams.shape), axis=1)
        order = np.where(chance.random(len(order))[:, None] < share, order, np.arange(order.shape[1]))
        moved = {
            name: np.take_along_axis(getattr(log, name), order, axis=1)
            for name in ("documents", "teams", "clicked", "characters")
        }
        return replace(log, ranks=np.take_along_axis(log.ranks, order[:, None], axis=2), **moved)

    return shuffle


def swapped_teams(share: float) -> Fault:
    """A share of lists has its teams the other way round."""

    def swap(log: Log, chance: np.random.Generator) -> Log:
        return replace(log, teams=np.where(chance.random(len(log.teams))[:, None] < share, 1 - log.teams, log.teams))

    return swap


def dead_tracker(hours: int) -> Fault:
    """No click is logged for some hours of the seventh day."""

    def stop(log: Log, chance: np.random.Generator) -> Log:
        since = START + 6 * DAY + 6 * DAY // 24
        dead = (log.time >= since) & (log.time < since + hours * DAY // 24)
        return replace(log, clicked=log.clicked & ~dead[:, None])

    return stop


def flipped(log: Log, chance: np.random.Generator) -> Log:
    """From the eighth day on, teams are logged the other way round, with the ranks of the rankers."""
    late = log.time >= START + 7 * DAY
    teams = np.where(late[:, None], 1 - log.teams, log.teams)
    return replace(log, teams=teams, ranks=np.where(late[:, None, None], log.ranks[:, ::-1], log.ranks))


def ab_arms(second: float) -> Fault:
    """Half of the units are in A/B arms, of which the second holds this share."""

    def assign(log: Log, chance: np.random.Generator) -> Log:
        units = log.unit.max() + 1
        arm = np.where(chance.random(units) < 0.5, 0, np.where(chance.random(units) < second, 3, 2))[log.unit]
        return replace(log, arm=arm)

    return assign


def fresh_ids(log: Log, chance: np.random.Generator) -> Log:
    """Every visit has a unit of its own."""
    return replace(log, unit=np.arange(len(log.unit)))


def bots(share: float, clicks: float = 1.0) -> Fault:
    """So many more impressions are of bots with a new id each, that click what the second ranker has higher."""

    def add(log: Log, chance: np.random.Generator) -> Log:
        rows = chance.integers(len(log.unit), size=int(share * len(log.unit)))
        copy = log.only(rows)
        target = np.argmax(copy.ranks[:, 0] - copy.ranks[:, 1], axis=1)
        clicked = (np.arange(copy.teams.shape[1]) == target[:, None]) & (chance.random(len(rows)) < clicks)[:, None]
        return log.with_rows(
            replace(
                copy,
                unit=log.unit.max() + 1 + np.arange(len(rows)),
                clicked=clicked,
                time=copy.time + chance.integers(DAY // 24, size=len(rows)),
            )
        )

    return add


def copied(share: float) -> Fault:
    """A share of rows is in the log again, under other ids of impressions."""

    def copy(log: Log, chance: np.random.Generator) -> Log:
        return log.with_rows(log.only(np.flatnonzero(chance.random(len(log.unit)) < share)))

    return copy


def unfair_segment(share: float) -> Fault:
    """In one of two segments, a share of lists where the second ranker picked first is lost."""

    def lose(log: Log, chance: np.random.Generator) -> Log:
        lost = (log.segment == 1) & (log.teams[:, 0] == 1) & (chance.random(len(log.unit)) < share)
        return log.only(np.flatnonzero(~lost))

    return lose


def longer_texts(factor: float) -> Fault:
    """Texts that the second ranker owns are longer by this factor."""

    def lengthen(log: Log, chance: np.random.Generator) -> Log:
        return replace(log, characters=np.where(log.teams == 1, np.round(factor * log.characters), log.characters))

    return lengthen


def none(log: Log, chance: np.random.Generator) -> Log:
    return log
