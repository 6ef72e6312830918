"""Logs of position-based or cascade people, and the clicks on each ranker's own list; nothing of the simulator.

They measure the lift of a report: how often its interval has the truth in it, and how far cascade people mislead it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from interleaf.analysis.analyze import analyze
from interleaf.interleaving.batch import InterleavedBatch, interleave_batch, unshown_ranks
from interleaf.kernels.arrays import Array
from interleaf.methods.registry import ONE_LIST
from interleaf.tables import Table

CURVES = {
    "1 / rank": 1 / np.arange(1, 21.0),
    "logarithmic": 1 / np.log2(1 + np.arange(1, 21.0)),
    "uneven": np.array([1, 0.8, 0.7, 0.35, 0.3, 0.28, 0.25, 0.2, 0.1, 0.1] + [0.1] * 10),
}
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
        """The expected clicks on the first k documents of each ranker; tastes for documents are independent."""
        points, weights = np.polynomial.hermite_e.hermegauss(60)
        odds = (self.appeal / (1 - self.appeal))[..., None] * np.exp(self.tastes * points)
        appeal = odds / (1 + odds) @ weights / weights.sum()
        clicks = np.take_along_axis(appeal[:, None, :], self.rankings[:, :, :k], axis=2) * self.examination[:k]
        goes_on = np.cumprod(1 - self.stops * clicks, axis=2)[:, :, :-1]
        clicks[:, :, 1:] *= goes_on
        return np.asarray(clicks.sum(axis=2).mean(axis=0))

    def log(self, rng: np.random.Generator, people: int, method: str, k: int = 10, tail: float = 0.0) -> pa.Table:
        """A log of lists of this method; with a `tail`, few people make most visits (Pareto with this shape).

        With `one_list`, each person sees the list of one ranker, and that is the arm.
        """
        visits = np.ones(people, np.int64)
        if tail:
            visits = np.minimum(np.floor((1 - rng.random(people)) ** (-1 / tail)), 200).astype(np.int64)
        unit = np.repeat(np.arange(people), visits)
        rows = len(unit)
        queries = rng.integers(0, len(self.rankings), rows)
        keys = [f"{number}-{rng.integers(2**31)}" for number in range(rows)]
        if method == ONE_LIST:
            keys = [keys[number] for number in unit]
        shown = interleave_batch(self.rankings, method, k, keys, queries=queries)
        clicked = self._click(rng, shown.documents, queries, unit)
        return log_of(shown, clicked, unit)

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


def log_of(shown: InterleavedBatch, clicked: Array, unit: Array) -> pa.Table:
    """A log of these lists, with clicks and people by row."""
    rows = len(unit)
    hidden = unshown_ranks(shown.rankings, shown.queries, shown.documents, shown.counts, shown.choices)
    teams = shown.teams if shown.teams is not None else np.full(shown.documents.shape, -1)
    rank, number = (np.nonzero(clicked)[axis] for axis in (1, 0))
    offsets = np.concatenate([[0], np.cumsum(clicked.sum(axis=1))])
    event = [
        pa.array(rank).cast(pa.string()),
        pa.array(["click"] * len(rank)),
        pa.array(rank + 1, pa.int32()),
        pa.array(START + number + 1000, pa.timestamp("us", "UTC")),
    ]
    events = pa.StructArray.from_arrays(event, ["event", "kind", "rank", "time"])
    documents = _nested(shown.documents)
    return pa.table(
        {
            "experiment": ["world"] * rows,
            "version": [1] * rows,
            "impression": [f"i{number}" for number in range(rows)],
            "time": pa.array(START + np.arange(rows), pa.timestamp("us", "UTC")),
            "unit": [f"u{number}" for number in unit],
            "query": [f"q{number}" for number in shown.queries],
            "arm": ["AB"[team] for team in teams[:, 0]] if shown.method == ONE_LIST else ["interleaved"] * rows,
            "method": [shown.method] * rows,
            "rankers": [["A", "B"]] * rows,
            "documents": documents.cast(pa.list_(pa.string())),
            "ranks": _nested(shown.ranks),
            "unshown_ranks": _nested(hidden),
            "lengths": _nested(shown.lengths),
            "union": shown.union,
            "teams": _nested(teams),
            "choices": _nested(shown.choices),
            "events": pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), events),
        }
    )


class Kind(NamedTuple):
    """A kind of world, whose rankings and appeals are drawn again for every experiment."""

    method: str
    moves: int
    curve: str
    tastes: float = 0.0
    stops: float = 0.0
    documents: int = 10  # with as many as are shown, nothing is unseen

    @property
    def name(self) -> str:
        """In words."""
        words = [self.method, f"{self.moves} moves" if self.moves > 1 else "1 move", f"examination {self.curve}"]
        words += ["tastes"] if self.tastes else []
        words += [f"{100 * self.stops:.0f} % stop after a click"] if self.stops else []
        return ", ".join([*words, *([f"{self.documents} documents"] if self.documents != 10 else [])])


KINDS = [
    Kind(method, moves, curve, tastes=1.0)
    for method in ("competitive_pairs", "team_draft")
    for moves in (1, 4, 16)
    for curve in CURVES
]
CASCADES = [
    Kind("competitive_pairs", moves, "1 / rank", 1.0, stops) for moves in (1, 4, 16) for stops in (0.0, 0.3, 0.6, 0.9)
]


class LiftRun(NamedTuple):
    """The true lift of an experiment, and what a report says of it; no estimate if it is withheld."""

    truth: float
    estimate: float | None
    interval: tuple[float, float] | None
    unseen: float

    @property
    def is_covered(self) -> bool:
        """Whether the truth lies in the interval."""
        return self.interval is not None and self.interval[0] <= self.truth <= self.interval[1]

    @property
    def direction(self) -> int:
        """1 or -1 if the interval leaves out 0."""
        low, high = self.interval or (0.0, 0.0)
        return int(low > 0) - int(high < 0)


def lifts(kind: Kind, people: int, runs: int, seed: int) -> list[LiftRun]:
    """Experiments of such worlds; few people make most visits."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(runs):
        world = ExposureWorld.draw(rng, 100, kind.moves, CURVES[kind.curve], kind.documents)
        world = replace(world, tastes=kind.tastes, stops=kind.stops)
        clicks = world.clicks_alone(10)
        (lift,) = analyze(world.log(rng, people, kind.method, tail=1.5), control="B", threads=1).lifts
        unseen = max(lift.unseen_first or 0.0, lift.unseen_second or 0.0)
        found.append(LiftRun(float(clicks[0] / clicks[1]) - 1, lift.lift, lift.interval, unseen))
    return found


def cascade_table(people: int, runs: int, seed: int) -> Table:
    """How far people who stop after a click mislead the lift, which takes ranks to be examined independently."""
    rows = []
    for kind in CASCADES:
        some = [one for one in lifts(kind, people, runs, seed) if one.estimate is not None]
        truths, estimates = np.array([(one.truth, one.estimate) for one in some], np.float64).T
        large = np.abs(truths) > 0.01
        rows.append(
            (
                str(kind.moves),
                f"{100 * kind.stops:.0f} %",
                f"{100 * np.abs(truths).mean():.1f}",
                f"{100 * (estimates - truths).mean():+.2f}",
                f"{truths @ estimates / (truths @ truths):.2f}",
                f"{100 * np.mean([one.is_covered for one in some]):.0f} %",
                f"{100 * (np.sign(estimates) == np.sign(truths))[large].mean():.0f} %",
                str(len(some)),
            )
        )
    columns = (
        "moves",
        "stop after a click",
        "mean size of the lift, %",
        "bias, points",
        "estimate / truth",
        "interval covers",
        "right sign of lifts above 1 %",
        "runs",
    )
    return Table("cascade", "", columns, tuple(rows), columns)


def _nested(values: Array) -> pa.Array:
    """An array as lists in lists."""
    found = pa.array(values.ravel())
    for axis in range(values.ndim - 1, 0, -1):
        lists = math.prod(values.shape[:axis])
        found = pa.ListArray.from_arrays(pa.array(np.arange(lists + 1) * values.shape[axis], pa.int32()), found)
    return found


def main() -> None:
    """Print the table of cascade people."""
    options = argparse.ArgumentParser(description="How far people who stop after a click mislead the lift.")
    options.add_argument("--people", type=int, default=3_000, help="of an experiment")
    options.add_argument("--runs", type=int, default=100, help="experiments of each kind")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    print(cascade_table(given.people, given.runs, given.seed).to_markdown())


if __name__ == "__main__":
    main()
