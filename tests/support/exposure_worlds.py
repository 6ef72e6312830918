"""Logs of position-based or cascade people, and the clicks on each ranker's own list; nothing of the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from interleaf.interleaving.batch import interleave_batch, unshown_ranks
from interleaf.kernels.arrays import Array

START = 1_767_571_200_000_000  # 2026-01-05, in microseconds


@dataclass(frozen=True, eq=False)
class ExposureWorld:
    """`rankings[query, ranker, rank]`, `appeal[query, document]`, `examination[rank]`; people come as often as they do.

    `tastes`: how much the appeal of a document differs between people. `stops`: the probability that people stop after
    a click; 0 for people who examine each rank independently.
    """

    rankings: Array
    appeal: Array
    examination: Array
    tastes: float = 0.0
    stops: float = 0.0

    @classmethod
    def draw(
        cls, rng: np.random.Generator, queries: int, moves: int, examination: Sequence[float], documents: int = 20
    ) -> ExposureWorld:
        """Two rankers, the second with some of the first 12 documents of the first moved to random places."""
        rankings = np.zeros((queries, 2, documents), np.int64)
        for query in range(queries):
            first = rng.permutation(documents)
            second = first.copy()
            for _ in range(moves):
                source, target = rng.integers(0, min(12, documents), 2)
                second = np.insert(np.delete(second, source), target, second[source])
            rankings[query] = first, second
        return cls(rankings, rng.beta(1, 3, (queries, documents)), np.asarray(examination))

    def clicks_alone(self, k: int) -> Array:
        """The expected clicks on the first k documents of each ranker, for people who do not stop."""
        shown = np.take_along_axis(self.appeal[:, None, :], self.rankings[:, :, :k], axis=2)
        return np.asarray((shown * self.examination[:k]).sum(axis=2).mean(axis=0))

    def log(self, rng: np.random.Generator, people: int, method: str, k: int = 10, tail: float = 0.0) -> pa.Table:
        """A log of interleaved lists; with a `tail`, few people make most visits (Pareto with this shape)."""
        visits = np.ones(people, np.int64)
        if tail:
            visits = np.minimum(np.floor((1 - rng.random(people)) ** (-1 / tail)), 200).astype(np.int64)
        unit = np.repeat(np.arange(people), visits)
        rows = len(unit)
        queries = rng.integers(0, len(self.rankings), rows)
        keys = [f"{number}-{rng.integers(2**31)}" for number in range(rows)]
        shown = interleave_batch(self.rankings, method, k, keys, queries=queries)
        clicked = self._click(rng, shown.documents, queries, unit)
        hidden = unshown_ranks(shown.rankings, shown.queries, shown.documents, shown.counts, shown.choices)
        teams = shown.teams if shown.teams is not None else np.full(shown.documents.shape, -1)
        events = [
            [{"event": str(at), "kind": "click", "rank": int(at) + 1, "time": START + number + 1000} for at in places]
            for number, places in enumerate(map(np.flatnonzero, clicked))
        ]
        ids = [f"i{number}" for number in range(rows)]
        return pa.table(
            {
                "experiment": ["world"] * rows,
                "version": [1] * rows,
                "impression": ids,
                "time": pa.array(START + np.arange(rows), pa.timestamp("us", "UTC")),
                "unit": [f"u{number}" for number in unit],
                "query": [f"q{number}" for number in queries],
                "arm": ["interleaved"] * rows,
                "method": [shown.method] * rows,
                "rankers": [["A", "B"]] * rows,
                "documents": [list(map(str, row)) for row in shown.documents.tolist()],
                "ranks": shown.ranks.tolist(),
                "unshown_ranks": hidden.tolist(),
                "lengths": shown.lengths.tolist(),
                "union": shown.union,
                "teams": teams.tolist(),
                "choices": shown.choices.tolist(),
                "events": pa.array(events, _EVENTS),
            }
        )

    def _click(self, rng: np.random.Generator, documents: Array, queries: Array, unit: Array) -> Array:
        appeal = np.take_along_axis(self.appeal[queries], documents, axis=1)
        if self.tastes:
            lean = rng.normal(0, self.tastes, (unit.max() + 1, self.appeal.shape[1]))
            odds = appeal / (1 - appeal) * np.exp(np.take_along_axis(lean[unit], documents, axis=1))
            appeal = odds / (1 + odds)
        clicked = rng.random(documents.shape) < appeal * self.examination[: documents.shape[1]]
        gone = np.zeros(len(documents), np.bool_)
        for position in range(documents.shape[1] if self.stops else 0):
            clicked[:, position] &= ~gone
            gone |= clicked[:, position] & (rng.random(len(documents)) < self.stops)
        return np.asarray(clicked)


_EVENTS = pa.list_(
    pa.struct(
        [("event", pa.string()), ("kind", pa.string()), ("rank", pa.int32()), ("time", pa.timestamp("us", "UTC"))]
    )
)
