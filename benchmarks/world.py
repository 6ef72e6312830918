"""Rankings to measure on: rankers that order the same documents, each with some noise, as on a learning-to-rank set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from interleaf.interleaving import batch
from interleaf.interleaving.kernel_calls import Composing
from interleaf.interleaving.rankings import CheckedRankings
from interleaf.kernels.arrays import Array, EncodedRankings, Impression
from interleaf.methods.registry import ResolvedMethod, resolve

QUERIES = 64
CLICK = 0.3  # the probability of a click at each rank


@dataclass
class World:
    """One method, some queries with their rankings encoded, and rows of impressions with keys and clicks."""

    chosen: ResolvedMethod
    problems: list[CheckedRankings]
    given: EncodedRankings
    settings: Any
    queries: Array
    keys: Array
    clicks: Array
    k: int


def world(method: str, rankers: int, documents: int, rows: int, k: int = 10, queries: int = QUERIES) -> World:
    """The same world for the same numbers."""
    generator = np.random.default_rng((rankers, documents, k))
    orders = noisy_orders(generator, queries, rankers, documents)
    asked, keys = generator.integers(0, queries, rows), generator.integers(0, 2**63, (rows, 2)).astype(np.uint64)
    return world_of(method, orders, asked, keys, generator.random((rows, k)) < CLICK, k)


def noisy_orders(generator: np.random.Generator, queries: int, rankers: int, documents: int) -> Array:
    """Rankings `[query, ranker, rank]`: the order 0, 1, 2, ... with noise."""
    noise = generator.normal(0, documents / 4, (queries, rankers, documents))
    return np.argsort(np.arange(documents) + noise)


def world_of(method: str, orders: Array, queries: Array, keys: Array, clicks: Array, k: int) -> World:
    """A world of these rankings; `queries`, `keys` and `clicks` are those of each row."""
    chosen = resolve(method)
    problems = [CheckedRankings.of(order.tolist(), chosen) for order in orders]
    works = [Composing(chosen, problem, k, exact=False) for problem in problems]
    return World(
        chosen,
        problems,
        EncodedRankings(
            np.stack([work.encoded.rankings for work in works]),
            np.stack([work.encoded.depths for work in works]),
            np.array([work.encoded.documents for work in works]),
        ),
        _stacked([work.settings for work in works]),
        queries,
        keys,
        clicks,
        k,
    )


def _stacked(settings: list[Any]) -> Any:
    """The settings of all queries: the same for each, but for optimized, whose solutions are padded and stacked."""
    if not hasattr(settings[0], "lists"):
        return settings[0]
    most = max(len(one.weights) for one in settings)
    lists = np.stack([np.pad(one.lists, ((0, most - len(one.lists)), (0, 0))) for one in settings])
    weights = np.stack([np.pad(one.weights, (0, most - len(one.weights))) for one in settings])
    return settings[0]._replace(lists=lists, weights=weights)


def impressions(world: World, lists: batch.DrawnLists, unshown: bool = False) -> Impression:
    """The rank matrices and the rest of what credit needs, by looking documents up in a table."""
    places = np.stack([problem.ranks_of(range(world.problems[0].union)) for problem in world.problems])
    depth = None if world.chosen.method.whole_rankings else world.k
    named = [problem.encode(depth)[0] for problem in world.problems]
    names = np.array([name + [0] * (world.problems[0].union - len(name)) for name in named])
    documents = names[world.queries[:, None], lists.shown]
    ranks = places[world.queries[:, None], :, documents].transpose(0, 2, 1)
    lengths = np.array([problem.lengths for problem in world.problems], np.int32)
    choices = np.array([problem.choices(world.k) for problem in world.problems], np.int16)
    unions = np.array([problem.union for problem in world.problems])
    known = np.ascontiguousarray(ranks, np.int16), lists.teams, lengths[world.queries], unions[world.queries]
    of_row = choices[world.queries]
    if not unshown:
        return Impression.of(*known, of_row)
    hidden = batch.unshown_ranks(world.given.rankings, world.queries, lists.shown, lists.counts, of_row)
    return Impression.of(*known, of_row, hidden, world.keys)
