"""H11, Figures 6 to 11: how many queries with clicks a method needs to see which of two rankers is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from interleaf import plots
from interleaf.errors import DataError
from interleaf.methods.arrays import Array
from interleaf.methods.forms import TOLERANCE
from interleaf.papers.hofmann2011_pairs import (
    RULES,
    Meeting,
    Rankings,
    perfect,
    realistic,
    sharing_lists,
)
from interleaf.papers.study import Cell, Table
from interleaf.simulate.rankers import generator_of

CLICKS = {"perfect": perfect, "realistic": realistic}
CHUNK = 16_384
RARE = 1_000  # impressions for a click: where it takes more, there is nothing to follow
SETTLED = 0.95
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Pair:
    """Two rankers by their numbers, the better one first, and why they were chosen."""

    number: int
    rankers: tuple[int, int]
    why: tuple[str, ...]


@dataclass(frozen=True)
class Converged:
    """`right[rule, point]`: of so many repeats, those that prefer the better ranker after so many clicked queries."""

    pair: Pair
    clicks: str
    points: tuple[int, ...]
    repeats: int
    right: Array


def converge(rankings: Rankings, pair: Pair, clicks: str, repeats: int, samples: int, key: Any) -> Converged:
    """Follow one pair under all rules."""
    points = tuple(step * 10**power for power in range(9) for step in (1, 2, 5) if step * 10**power <= samples)
    names = tuple(rankings.features[ranker] for ranker in pair.rankers)
    model = CLICKS[clicks](rankings.scale)
    right = []
    for rules in sharing_lists():
        meeting = Meeting(rankings, pair.rankers, rules, model)
        stream = Stream(meeting, rankings.clickable(model), (key, clicks, *names, rules[0].lists))
        counts = np.zeros((len(rules), len(points)), np.int64)
        for _ in range(repeats):
            counts += np.cumsum(stream.take(samples), axis=1)[:, np.array(points) - 1] > TOLERANCE
        right.append(counts)
    return Converged(pair, clicks, points, repeats, np.concatenate(right))


class Stream:
    """Outcomes of endless impressions of queries drawn at random, those without a click left out.

    Impressions are independent, so that the next n of them are as good a repeat as any.
    """

    def __init__(self, meeting: Meeting, queries: Array, key: Any) -> None:
        self._meeting, self._queries, self._key = meeting, queries, key
        self._chunks = 0
        self._waiting: list[Array] = []
        self._count = 0

    def take(self, samples: int) -> Array:
        """The next outcomes, `[rule, sample]`."""
        patience = self._chunks + RARE * (samples // CHUNK + 1)
        while self._count < samples:
            if not len(self._queries) or self._chunks > patience:
                raise DataError("hardly a list gets a click, so no comparison can converge; give queries with grades")
            self._draw()
        outcomes = np.concatenate(self._waiting, axis=1)
        self._waiting, self._count = [outcomes[:, samples:]], outcomes.shape[1] - samples
        return outcomes[:, :samples]

    def _draw(self) -> None:
        drawn = generator_of((self._key, "queries", self._chunks)).integers(0, len(self._queries), CHUNK)
        numbers = np.arange(self._chunks * CHUNK, (self._chunks + 1) * CHUNK)
        outcomes, clicked = self._meeting.outcomes(self._queries[drawn], numbers, self._key)
        self._waiting.append(outcomes[:, clicked])
        self._count += int(clicked.sum())
        self._chunks += 1


def wilson(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a share.

    >>> wilson(8, 10)
    (0.4901..., 0.9433...)
    """
    z = float(ndtri((1 + level) / 2))
    share, spread = successes / trials, z * z / trials
    centre = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * float(np.sqrt(share * (1 - share) / trials + spread / (4 * trials)))
    return max(0.0, centre - half), min(1.0, centre + half)


def settled(found: Converged, row: int) -> int | None:
    """The first point from which on the share of right repeats stays at 95 % or above; None where it does not."""
    enough = found.right[row] >= SETTLED * found.repeats
    below = np.flatnonzero(~enough)
    after = 0 if not len(below) else int(below[-1]) + 1
    return found.points[after] if after < len(found.points) else None


def tables(results: Sequence[Converged]) -> list[Table]:
    """For each kind of people: clicked queries that each method needs, and the share it ends at where it never does."""
    made = []
    for clicks in CLICKS:
        some = [found for found in results if found.clicks == clicks]
        rows: list[tuple[Cell, ...]] = [
            (found.pair.number, *[_reached(found, row) for row in range(len(RULES))]) for found in some
        ]
        title = (
            f"Clicked queries until {SETTLED:.0%} of repeats are right, for good ({clicks} clicks); where that is "
            "never, the share at the end with Wilson's 95 % interval"
        )
        made.append(Table(clicks, title, ("pair", *[rule.label for rule in RULES]), tuple(rows)))
    return made


def _reached(found: Converged, row: int) -> str:
    point = settled(found, row)
    if point is not None:
        return f"{point:,}"
    low, high = wilson(int(found.right[row, -1]), found.repeats)
    return f"never: {found.right[row, -1] / found.repeats:.0%} [{low:.0%}, {high:.0%}]"


def pair_table(rankings: Rankings, pairs: Sequence[Pair]) -> Table:
    """Table 4, and how the NDCG differences of each pair spread over the queries."""
    rows: list[tuple[Cell, ...]] = []
    for pair in pairs:
        one, other = pair.rankers
        means, by_query = rankings.ndcg.mean(axis=0), rankings.ndcg[:, one] - rankings.ndcg[:, other]
        shares = [f"{(by_query > TOLERANCE).mean():.0%}", f"{(by_query < -TOLERANCE).mean():.0%}"]
        quantiles = [f"{value:+.2f}" for value in np.quantile(by_query, QUANTILES)]
        features = f"{rankings.features[one]} over {rankings.features[other]}"
        ndcg = f"{means[one]:.3f} / {means[other]:.3f}"
        rows.append((pair.number, features, ndcg, f"{means[one] - means[other]:.3f}", *shares, *quantiles,
                     "; ".join(pair.why)))  # fmt: skip
    quantile_columns = [f"{quantile:.0%} quantile" for quantile in QUANTILES]
    columns = ("pair", "features", "NDCG", "gap", "queries better", "worse", *quantile_columns, "chosen as")
    title = "Table 4: the pairs that are followed, and the differences of their NDCG over queries"
    return Table("pairs", title, columns, tuple(rows))


def charts(results: Sequence[Converged]) -> dict[str, Any]:
    """Figures 6 to 11: a chart a pair, a panel a kind of people."""
    made = {}
    for number in dict.fromkeys(found.pair.number for found in results):
        rows = [row for found in results if found.pair.number == number for row in _points(found)]
        title = f"Pair {number}: share of repeats that prefer the better ranker, with Wilson's 95 % interval"
        made[f"pair-{number}"] = plots.lines(
            rows, "queries with a click", "share right", "method", title, facet="clicks", band=("low", "high")
        )
    return made


def _points(found: Converged) -> list[dict[str, Any]]:
    rows = []
    for row, rule in enumerate(RULES):
        for point, right in zip(found.points, found.right[row].tolist(), strict=True):
            low, high = wilson(right, found.repeats)
            line = {"queries with a click": point, "share right": right / found.repeats, "low": low, "high": high}
            rows.append({**line, "method": rule.label, "clicks": found.clicks})
    return rows
