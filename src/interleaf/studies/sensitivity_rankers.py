"""The rankers of the study `sensitivity`: groups of rankers of one kind, and how alike the rankings of a group are.

Single features of the set are unlike each other, linear rankers trained on half of the queries are alike, and a good
ranking with some documents moved can be as like the good one as needed. The other half of the queries is for the
impressions, so that the trained rankers have not seen them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, product, zip_longest
from typing import Any

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.simulate.data import Judged, shuffle
from interleaf.simulate.rankers import generator_of, rank, scores_of

K = 10
# Shares of the places in the top 10 where both rankings have the same document: from here, up to the next.
GROUPS = {
    "under 10 %": 0.0,
    "10 to 30 %": 0.1,
    "30 to 50 %": 0.3,
    "50 to 70 %": 0.5,
    "70 to 85 %": 0.7,
    "85 % and more": 0.85,
}
MOVES = (1, 2, 4, 8, 16)
CHANGED_QUERIES = (1.0, 0.5, 0.2)  # shares of the queries on which documents are moved
PENALTIES = (1.0, 10.0, 100.0, 1000.0)
FEATURE_SHARES = (1.0, 0.8, 0.5)
TOP, DEEP = 12, 20  # a document is moved from one of the first 12 places to one of the first 20


@dataclass(frozen=True)
class RankedGroup:
    """Rankers of one kind, and their rankings `[query, ranker, rank]` of the queries of the impressions."""

    name: str
    kind: str
    rankings: Array

    @cached_property
    def agreement(self) -> float:
        """The share of places in the top 10 where all rankings have the same document."""
        tops = self.rankings[:, :, :K]
        there = tops[:, 0] >= 0
        return float(((tops == tops[:, :1]).all(axis=1) & there).sum() / there.sum())

    @property
    def similarity(self) -> str:
        """The name of the group of similar pairs."""
        return [name for name, least in GROUPS.items() if self.agreement >= least][-1]


def train(data: Judged, features: Array, penalty: float) -> Mapping[int, float]:
    """Weights of features by least squares on the grades, with a penalty on the squares of the weights."""
    values, grades = data.features[:, features - 1].astype(np.float64), data.grades.astype(np.float64)
    means, deviations = values.mean(axis=0), np.maximum(values.std(axis=0), 1e-9)
    scaled = (values - means) / deviations
    normal = scaled.T @ scaled + penalty * np.eye(len(features))
    weights = np.linalg.solve(normal, scaled.T @ (grades - grades.mean())) / deviations
    return dict(zip(features.tolist(), weights.tolist(), strict=True))


def move(rankings: Array, moves: int, share: float, key: Any) -> Array:
    """The rankings `[query, rank]` with documents moved to other places, on a share of the queries."""
    generator, moved = generator_of(("moves", key)), rankings.copy()
    for query in np.flatnonzero(generator.random(len(rankings)) < share):
        size = int((rankings[query] >= 0).sum())
        order = rankings[query, :size].tolist()
        for _ in range(moves):
            document = order.pop(int(generator.integers(min(size, TOP))))
            order.insert(int(generator.integers(min(size, DEEP))), document)
        moved[query, :size] = order
    return moved


class RankerPool:
    """All rankers by kind, each with its name and its rankings `[query, rank]`."""

    def __init__(self, training: Judged, data: Judged, seed: int) -> None:
        self.data, self._seed = data, seed
        varying = training.varying_features()
        self._features = {f"feature {feature}": self._rank(int(feature)) for feature in varying}
        self._trained = {}
        for penalty, share, half in product(PENALTIES, FEATURE_SHARES, (0, 1)):
            key = (seed, "trained", f"{share:g}", half)
            features = np.sort(generator_of(key).permutation(varying)[: max(2, round(share * len(varying)))])
            part = training.split((0.5, 0.5), ("halves", seed))[half]
            name = f"{share:.0%} of features, penalty {penalty:g}, half {half + 1}"
            self._trained[name] = self._rank(train(part, features, penalty))
        self._good = self._rank(train(training, varying, PENALTIES[1]))

    def _rank(self, ranker: Any) -> Array:
        rankings: Array = rank(self.data, [scores_of(self.data, ranker)], ("sensitivity", self._seed), "shared")[:, 0]
        return rankings

    def groups(self, size: int, repeats: int) -> Iterator[RankedGroup]:
        """Groups of `size` rankers, in turn of each kind, in random order; `repeats`: of each number of moves."""
        kinds = (self._chosen("features", self._features, size), self._chosen("trained", self._trained, size))
        groups = chain.from_iterable(zip_longest(*kinds, self._moved(size, repeats)))
        return (group for group in groups if group is not None)

    def _chosen(self, kind: str, rankers: Mapping[str, Array], size: int) -> Iterator[RankedGroup]:
        chosen = list(combinations(rankers, size)) if size == 2 else self._draw(kind, list(rankers), size)
        for number in shuffle(len(chosen), (self._seed, kind, size)):
            names = chosen[number]
            yield RankedGroup(" / ".join(names), kind, np.stack([rankers[name] for name in names], axis=1))

    def _draw(self, kind: str, names: list[str], size: int) -> list[tuple[str, ...]]:
        generator = generator_of((self._seed, kind, size, "draw"))
        drawn = [tuple(generator.permutation(names)[:size].tolist()) for _ in names]
        return drawn if len(names) >= size else []

    def _moved(self, size: int, repeats: int) -> Iterator[RankedGroup]:
        for repeat, share, moves in product(range(repeats), CHANGED_QUERIES, MOVES):
            key = (self._seed, size, repeat, f"{share:g}", moves)
            others = [move(self._good, moves, share, (key, number)) for number in range(1, size)]
            name = f"{moves} moved on {share:.0%} of queries, {repeat + 1}"
            yield RankedGroup(name, "moves", np.stack([self._good, *others], axis=1))
