"""The people of the study `sensitivity`, and what they do: exactly if a ranker is shown alone, else by simulation.

The traffic that a score needs is var / mean^2 of its mean per unit: for a verdict at 95 % times a constant that is the
same for all scores. A unit is an impression, or a person who comes several times and keeps a taste.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from interleaf.clicks import named
from interleaf.interleaving import batch
from interleaf.kernels.arrays import Array, pairs
from interleaf.methods.loops import score_columns
from interleaf.methods.registry import resolve
from interleaf.methods.schemes import scheme_of
from interleaf.simulate.data import Judged
from interleaf.simulate.people import side, streams, words_of
from interleaf.simulate.rankers import generator_of
from interleaf.simulate.run import Stage, ndcg
from interleaf.studies.sensitivity_rankers import K, RankedGroup

NODES = 15  # of the Gauss-Hermite quadrature over tastes


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
        model = named(self.table, scale)
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


def show_alone(stage: Stage, rankings: Array, ranker: int, users: StudyUsers, scale: int) -> Alone:
    """The clicks on one ranker's own lists, exactly; queries are equally frequent."""
    top = rankings[:, ranker, :K].astype(np.int64)
    query = np.arange(len(top))[:, None]
    grades = np.where(top < 0, -1, stage.grades[query, top])
    sides = side(*(np.maximum(stage.places[query, number, top], 1) for number in (0, 1)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES) if users.taste_spread else (np.zeros(1), np.ones(1))
    moments = []
    for node in nodes:
        tastes = np.full(len(top), node * users.taste_spread)
        first, second = click_moments(*users.chances(grades, sides, tastes, scale))
        moments.append((first.mean(), second.mean()))
    first, second = np.array(moments).T
    shares = weights / weights.sum()
    mean = float(shares @ first)
    between, within = shares @ first**2 - mean**2, shares @ (second - first**2)
    return Alone(mean, float(between + within / users.visits))


class Scored(NamedTuple):
    """The mean of a score for each pair of rankers, and the variance of a unit's mean."""

    mean: Array
    variance: Array


@dataclass(frozen=True)
class GroupOutcome:
    """A group of rankers under one kind of people: the clicks and the NDCG of each alone, and all scores of pairs."""

    group: str
    kind: str
    similarity: str
    users: str
    alone: tuple[Alone, ...]
    ndcg: tuple[float, ...]
    scores: dict[tuple[str, str], Scored]

    def gaps(self, values: Sequence[float]) -> Array:
        """The differences of pairs of rankers."""
        first, second = pairs(len(values))
        return np.asarray(values)[first] - np.asarray(values)[second]

    @property
    def truth(self) -> Array:
        """The difference in clicks, of each pair, if each ranker were shown alone."""
        return self.gaps([one.mean for one in self.alone])

    @property
    def ab_traffic(self) -> Array:
        """Units of an A/B test with two equal groups, up to the constant, for each pair."""
        first, second = pairs(len(self.alone))
        variances = np.array([one.variance for one in self.alone])
        return np.asarray(2 * (variances[first] + variances[second]) / self.truth**2)

    def traffic(self, score: tuple[str, str]) -> Array:
        """Units until the score decides, up to the constant, for each pair; infinite if it decides wrongly."""
        mean, variance = self.scores[score]
        needed = np.divide(variance, mean**2, out=np.full(len(mean), np.inf), where=mean != 0)
        return np.asarray(np.where(np.sign(mean) == np.sign(self.truth), needed, np.inf))


def simulate(
    data: Judged,
    group: RankedGroup,
    users_name: str,
    schemes_by_method: dict[str, tuple[str, ...]],
    scale: int,
    repeats: int,
    key: Any,
) -> GroupOutcome:
    """Show each query `repeats` times with each method; all schemes of a method credit the same clicks."""
    users = USERS[users_name]
    order = generator_of((key, "order")).permutation(np.tile(np.arange(len(data)), repeats))
    queries = order[: len(order) // users.visits * users.visits]
    numbers = np.arange(len(queries), dtype=np.uint64)
    units = generator_of((key, "tastes")).normal(0, users.taste_spread, len(queries) // users.visits)
    tastes = np.repeat(units, users.visits)
    scores: dict[tuple[str, str], Scored] = {}
    for method, schemes in schemes_by_method.items():
        stage, keys = Stage(data, group.rankings, resolve(method), K), streams(words_of((key, method)), numbers)
        lists = stage.compose(queries, keys, stage.settings(queries))
        impressions, grades = stage.look_up(queries, lists, keys)
        sides = side(*(np.maximum(impressions.ranks[:, ranker], 1).astype(np.float64) for ranker in (0, 1)))
        chances = users.chances(grades, sides, tastes, scale)
        clicks = draw_clicks(*chances, generator_of((key, method, users_name, "clicks")))
        credits: dict[int, tuple[Array, Array]] = {}
        for name in schemes:
            scheme = scheme_of(name)
            arguments = stage.chosen, scheme, impressions, lists.counts, clicks, 1
            if scheme.form.takes_expected_sign and stage.chosen.method.kernels.expected_sign_batch is not None:
                first, second = pairs(len(group.rankings[0]))
                columns = batch.preferences(*arguments)[:, first, second]
            else:
                if scheme.variant not in credits:
                    credits[scheme.variant] = batch.credit(*arguments)
                columns = score_columns(scheme.form, *credits[scheme.variant])
                if scheme.form.linear:
                    first, second = pairs(columns.shape[1])
                    columns = columns[:, first] - columns[:, second]
            by_unit = columns.reshape(-1, users.visits, columns.shape[1]).mean(axis=1)
            scores[method, name] = Scored(by_unit.mean(axis=0), by_unit.var(axis=0))
    alone = [show_alone(stage, group.rankings, ranker, users, scale) for ranker in range(group.rankings.shape[1])]
    judged = ndcg(data, group.rankings, K)
    return GroupOutcome(
        group.name, group.kind, group.similarity, users_name, tuple(alone), tuple(judged.tolist()), scores
    )
