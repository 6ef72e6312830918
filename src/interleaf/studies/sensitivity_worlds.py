"""The worlds of the study `sensitivity`: its rankers, its people, and what they do.

Groups of rankers are of one kind. Single features of the set are unlike each other, linear rankers trained on half of
the queries are alike, and a good ranking with some documents moved can be as like the good one as needed. The other
half of the queries is for the impressions, so that the trained rankers have not seen them.

What people do is computed exactly if a ranker is shown alone, else simulated. The traffic that a score needs is
var / mean^2 of its mean per unit: for a verdict at 95 % times a constant that is the same for all scores. A unit is an
impression, or a person who comes several times and keeps a taste.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, product, zip_longest
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from interleaf.clicks import find_cascade, scale_of
from interleaf.interleaving import batch
from interleaf.kernels.arrays import Array, pairs
from interleaf.methods.registry import resolve
from interleaf.simulate.data import Judged, shuffle
from interleaf.simulate.people import side, streams, words_of
from interleaf.simulate.rankers import generator_of, rank, scores_of
from interleaf.simulate.run import Stage, ndcg

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
NODES = 15  # of the Gauss-Hermite quadrature over tastes


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
        kinds = (self._choose("features", self._features, size), self._choose("trained", self._trained, size))
        groups = chain.from_iterable(zip_longest(*kinds, self._move(size, repeats)))
        return (group for group in groups if group is not None)

    def _choose(self, kind: str, rankers: Mapping[str, Array], size: int) -> Iterator[RankedGroup]:
        chosen = list(combinations(rankers, size)) if size == 2 else self._draw(kind, list(rankers), size)
        for number in shuffle(len(chosen), (self._seed, kind, size)):
            names = chosen[number]
            yield RankedGroup(" / ".join(names), kind, np.stack([rankers[name] for name in names], axis=1))

    def _draw(self, kind: str, names: list[str], size: int) -> list[tuple[str, ...]]:
        generator = generator_of((self._seed, kind, size, "draw"))
        groups = [tuple(generator.permutation(names)[:size].tolist()) for _ in names]
        return groups if len(names) >= size else []

    def _move(self, size: int, repeats: int) -> Iterator[RankedGroup]:
        for repeat, share, moves in product(range(repeats), CHANGED_QUERIES, MOVES):
            key = (self._seed, size, repeat, f"{share:g}", moves)
            others = [move(self._good, moves, share, (key, number)) for number in range(1, size)]
            name = f"{moves} moved on {share:.0%} of queries, {repeat + 1}"
            yield RankedGroup(name, "moves", np.stack([self._good, *others], axis=1))


@dataclass(frozen=True)
class StudyUsers:
    """People: a click table by grade, whether they read from the top and stop or look at rank r with probability 1/r.

    Each person has a taste for the first ranker against the second, normal with mean 0 and this spread, in the logit of
    a click, and comes `visits` times.
    """

    table: str
    is_cascade: bool = True
    taste_spread: float = 0.0
    visits: int = 1

    def chances(self, grades: Array, sides: Array, tastes: Array, scale: int) -> tuple[Array, Array]:
        """P(click | reached) and P(stop | clicked) of documents `[row, position]`; 0 where there is none."""
        model = find_cascade(self.table, scale)
        click, stop = (np.array([float(share) for share in table]) for table in (model.click, model.stop))
        if self.taste_spread:
            leaning = expit(logit(click[np.maximum(grades, 0)]) + tastes[:, None] * sides)
        else:
            leaning = click[np.maximum(grades, 0)]
        if not self.is_cascade:
            return np.where(grades < 0, 0, leaning / np.arange(1, grades.shape[1] + 1)), np.zeros(grades.shape)
        return np.where(grades < 0, 0, leaning), stop[np.maximum(grades, 0)]


USERS = {
    "perfect": StudyUsers("perfect"),
    "navigational": StudyUsers("navigational"),
    "informational": StudyUsers("informational"),
    "position-based": StudyUsers("navigational", is_cascade=False),
    "lasting tastes": StudyUsers("navigational", taste_spread=1.0, visits=6),
}
MAX_VISITS = max(users.visits for users in USERS.values())


def draw_clicks(chances: Array, stops: Array, generator: np.random.Generator) -> Array:
    """Clicks `[row, position]` of people who read from the top, until they stop after a click."""
    clicks, reads = np.zeros(chances.shape, np.bool_), np.ones(len(chances), np.bool_)
    for position in range(chances.shape[1]):
        clicks[:, position] = reads & (generator.random(len(chances)) < chances[:, position])
        reads &= ~(clicks[:, position] & (generator.random(len(chances)) < stops[:, position]))
    return clicks


def click_moments(chances: Array, stops: Array) -> tuple[Array, Array]:
    """The exact mean of the number of clicks on each list, and that of its square."""
    reads, first, second = np.ones(len(chances)), np.zeros(len(chances)), np.zeros(len(chances))
    ended = np.zeros((2, len(chances)))  # the moments of those who have stopped
    for click, stop in zip(chances.T, stops.T, strict=True):
        one_more = reads * click, (first + reads) * click, (second + 2 * first + reads) * click
        ended += np.array(one_more[1:]) * stop
        reads, first, second = (
            old * (1 - click) + new * (1 - stop) for old, new in zip((reads, first, second), one_more, strict=True)
        )
    return first + ended[0], second + ended[1]


class Alone(NamedTuple):
    """A ranker shown alone: mean clicks per impression, and the variance of a unit's mean."""

    mean: float
    variance: float


def show_alone(stage: Stage, rankings: Array, users: StudyUsers, scale: int) -> tuple[Alone, ...]:
    """The clicks on each ranker's own lists, exactly; queries are equally frequent."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES) if users.taste_spread else (np.zeros(1), np.ones(1))
    shares, query = weights / weights.sum(), np.arange(len(rankings))[:, None]
    alone = []
    for ranker in range(rankings.shape[1]):
        top = rankings[:, ranker, :K].astype(np.int64)
        grades = np.where(top < 0, -1, stage.grades[query, top])
        sides = side(*(np.maximum(stage.places[query, number, top], 1) for number in (0, 1)))
        tastes = [np.full(len(top), node * users.taste_spread) for node in nodes]
        moments = [click_moments(*users.chances(grades, sides, taste, scale)) for taste in tastes]
        first, second = np.array(moments).mean(axis=2).T
        mean = shares @ first
        variance = shares @ first**2 - mean**2 + shares @ (second - first**2) / users.visits
        alone.append(Alone(float(mean), float(variance)))
    return tuple(alone)


class ScoreMoments(NamedTuple):
    """The mean of a score for each pair of rankers, and the variance of a unit's mean."""

    mean: Array
    variance: Array


Score = tuple[str, str]  # a method and one of its schemes


@dataclass(frozen=True)
class GroupOutcome:
    """A group of rankers under one kind of people: the clicks and the NDCG of each alone, and all scores of pairs."""

    group: RankedGroup
    users: str
    alone: tuple[Alone, ...]
    ndcg: Array
    scores: Mapping[Score, ScoreMoments]

    @property
    def truth(self) -> Array:
        """The difference of NDCG of each pair of rankers."""
        return _differences(self.ndcg)

    @property
    def clicks(self) -> Array:
        """The difference in clicks per impression of each pair, if each ranker were shown alone."""
        return _differences(np.array([one.mean for one in self.alone]))

    @property
    def ab_traffic(self) -> Array:
        """Units of an A/B test on clicks with two equal groups, up to a constant, for each pair; whoever wins it."""
        first, second = pairs(len(self.alone))
        variances = np.array([one.variance for one in self.alone])
        return _divide(2 * (variances[first] + variances[second]), self.clicks**2)

    def traffic(self, score: Score) -> Array:
        """Units until the score decides, up to the constant, for each pair; infinite if it decides against NDCG."""
        mean, variance = self.scores[score]
        return np.where(np.sign(mean) == np.sign(self.truth), _divide(variance, mean**2), np.inf)


def _differences(values: Array) -> Array:
    first, second = pairs(len(values))
    return np.asarray(values[first] - values[second])


def _divide(values: Array, by: Array) -> Array:
    return np.asarray(np.divide(values, by, out=np.full(len(by), np.inf), where=by != 0))


def simulate(
    data: Judged,
    group: RankedGroup,
    methods: Mapping[str, Sequence[str]],
    people: Sequence[str],
    repeats: int,
    key: Any,
) -> list[GroupOutcome]:
    """Show each query `repeats` times with each method; all people see the same lists, all schemes the same clicks."""
    scale, order = scale_of(data.max_grade), np.tile(np.arange(len(data)), repeats)
    queries = generator_of((key, "order")).permutation(order)[: len(order) // MAX_VISITS * MAX_VISITS]
    scores: dict[str, dict[Score, ScoreMoments]] = {name: {} for name in people}
    for method, schemes in methods.items():
        stage = Stage(data, group.rankings, resolve(method), K)
        keys = streams(words_of((key, method)), np.arange(len(queries), dtype=np.uint64))
        lists = stage.compose(queries, keys, stage.settings(queries), 1)
        shown, grades = stage.look_up(queries, lists, keys)
        sides = side(*(np.maximum(shown.ranks[:, ranker], 1).astype(np.float64) for ranker in (0, 1)))
        for name in people:
            users = USERS[name]
            generator = generator_of((key, method, name))
            tastes = generator.normal(0, users.taste_spread, len(queries) // users.visits).repeat(users.visits)
            clicks = draw_clicks(*users.chances(grades, sides, tastes, scale), generator)
            for scheme, values in batch.scores_by_scheme(stage.chosen, schemes, shown, lists.counts, clicks):
                by_unit = values.reshape(-1, users.visits, values.shape[1]).mean(axis=1)
                scores[name][method, scheme] = ScoreMoments(by_unit.mean(axis=0), by_unit.var(axis=0))
    judged = ndcg(data, group.rankings, K)
    return [
        GroupOutcome(group, name, show_alone(stage, group.rankings, USERS[name], scale), judged, scores[name])
        for name in people
    ]
