"""People who click so much more on the second ranker's own lists, in front of the lists of any method.

A mean score is simulated with a control variate. If clicks have the probability P with a tilt and p without one, then
score * p / P has the mean 0, because clicks that depend on the rank only prefer nobody under the methods used here. If
the tilt is small, it is nearly the score itself, so the mean needs far fewer impressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from interleaf.analysis.plan import MIN_DEGREES, pilot_of_units
from interleaf.analysis.planned_traffic import PlannedTraffic, leans_of
from interleaf.errors import DataError
from interleaf.interleaving import batch
from interleaf.interleaving.batch import InterleavedBatch, interleave_batch
from interleaf.kernels.arrays import Array
from interleaf.kernels.randomness import key_names
from interleaf.methods.registry import ResolvedMethod
from interleaf.methods.schemes import scheme_of
from interleaf.simulate.rankers import generator_of
from interleaf.stats.power import Pilot, units_needed
from interleaf.tables import percent

MAX_TILT, STEPS = 8.0, 12
NODES = 7  # of the Gauss-Hermite quadrature over tastes
PRECISION = 0.015  # relative standard error of the mean score at which rounds end
MIN_ROUNDS, MAX_ROUNDS = 2, 10
FEW_PEOPLE = "scores differ so much that the log has too few people for a plan"


@dataclass(frozen=True)
class SchemeScores:
    """Simulated scores of a scheme: their mean over shown impressions and its standard error, and sums by person.

    `clicked` and `sums` are by person. `rounds` says how often the people of a log were simulated, 0 without a log.
    """

    mean: float
    error: float
    clicked: Array
    sums: Array
    impressions: int
    are_signs: bool
    rounds: int

    @property
    def units(self) -> int:
        """The number of simulated people."""
        return len(self.clicked)

    @property
    def effect(self) -> float:
        """The mean score over impressions with a click, as a report has it."""
        return float(self.mean * self.impressions / self.clicked.sum())

    def pilot_at(self, limit: int) -> Pilot:
        """The pilot if the weight of each person is at most `limit`.

        Where people are those of a log, its variance is as uncertain as in a log of that size.
        """
        pilot = pilot_of_units(self.clicked, self.sums, self.are_signs, limit)
        if not self.rounds or pilot.variance is None:
            return replace(pilot, degrees=np.inf)
        if pilot.degrees < MIN_DEGREES * self.rounds:
            return Pilot(None, None, FEW_PEOPLE)
        return replace(pilot, degrees=pilot.degrees / self.rounds)


class TiltedWorld:
    """The people of some traffic, with the tilt at which the second ranker's own lists get the lift in clicks."""

    def __init__(self, traffic: PlannedTraffic, lift: float) -> None:
        self.traffic, self.lift = traffic, lift
        tops = traffic.rankings[:, :, : traffic.depth]
        self.identical = float((tops[:, 0] == tops[:, 1]).all(axis=1).mean())
        if self.identical == 1:
            raise DataError(
                f"{' and '.join(traffic.rankers)} have the same top {tops.shape[2]} for every query, so no method can "
                "tell them apart; give rankers that differ"
            )
        self._own = [own_lists(tops, ranker, traffic.counts) for ranker in range(2)]
        self.tilt = self._solve()

    def _solve(self) -> float:
        from scipy.optimize import brentq

        if not (self.lift and -1 < self.lift < np.inf):
            raise DataError(f"lift is {self.lift!r}; give the share of more clicks to be shown, such as 0.05 for 5 %")

        def excess(tilt: float) -> float:
            return self.clicks_alone(1, tilt) / self.clicks_alone(0, tilt) - 1 - self.lift

        # People who stop after a click click less on much better lists, so the lift has a largest value.
        ends = [0.0, *(np.sign(self.lift) * np.geomspace(0.05, MAX_TILT, STEPS))]
        most = start = excess(0.0)
        for before, after in pairwise(ends):
            value = excess(after)
            if value * start <= 0:
                return float(brentq(excess, before, after, xtol=1e-5))
            most = value if abs(value) < abs(most) else most
        raise DataError(
            f"a lift of {percent(self.lift, 1, signed=True)} cannot be planned for: however much better the "
            "documents are that the second ranker puts higher, these people click at most "
            f"{percent(most + self.lift, 1, signed=True)} more; give a smaller lift"
        )

    def clicks_alone(self, ranker: int, tilt: float) -> float:
        """The mean number of clicks on a page with a ranker's own list."""
        spread, (leans, sizes) = self.traffic.taste_spread, self._own[ranker]
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES if spread else 1)
        tilts = [np.full(len(leans), tilt + node * spread) for node in nodes]
        means = [self.traffic.clicks.compute_mean_clicks(leans, sizes, some).mean() for some in tilts]
        return float(np.array(means) @ weights / weights.sum())

    def people(self, number: int, chance: np.random.Generator) -> tuple[Array, Array, Array]:
        """The page, the person and the tilt of each impression of a round."""
        pages, people = self.traffic.visits(number)
        tastes = chance.normal(0, self.traffic.taste_spread, people.max() + 1)
        return pages, people, self.tilt + tastes[people]

    def scores(self, chosen: ResolvedMethod, threads: int) -> dict[str, SchemeScores]:
        """The scores of all schemes of a method, from as many rounds as their means need."""
        sums = {name: _Sums() for name in chosen.method.schemes_for(2)}
        rounds = 0
        while rounds < MIN_ROUNDS or (rounds < MAX_ROUNDS and any(one.is_vague for one in sums.values())):
            self._add_round(chosen, rounds, sums, threads)
            rounds += 1
        repeats = 0 if self.traffic.users is None else rounds
        return {name: one.finish(not scheme_of(name).form.linear, repeats) for name, one in sums.items()}

    def _add_round(self, chosen: ResolvedMethod, number: int, sums: Mapping[str, _Sums], threads: int) -> None:
        chance = generator_of((str(chosen), number))
        pages, people, tilts = self.people(number, chance)
        keys = key_names(chance.integers(0, 2**63, (len(pages), 2)).tobytes())
        k = self.traffic.depth
        rankings = self.traffic.rankings if chosen.method.whole_rankings else self.traffic.rankings[:, :, :k]
        shown = interleave_batch(rankings, str(chosen), k, keys, queries=pages, threads=threads)
        shown = cut(shown, self.traffic.counts[pages])
        clicks, ratios = self.traffic.clicks.draw(leans_of(shown.ranks, shown.counts), shown.counts, tilts, chance)
        impressions = batch.impressions_of(shown, map(scheme_of, sums))
        scores = batch.scores_by_scheme(chosen, tuple(sums), impressions, shown.counts, clicks)
        clicked = np.bincount(people, clicks.any(axis=1))
        for name, values in scores:
            sums[name].add(-values[:, 0], ratios, clicked, people)

    def ab_units(self, power: float, confidence: float) -> int:
        """People of an A/B test with two equal groups on clicks per page."""
        means, variances = [], []
        chance = generator_of("A/B test")
        pages, people, tilts = self.people(0, chance)
        visits = np.bincount(people)
        for ranker in range(2):
            leans, sizes = (values[pages] for values in self._own[ranker])
            clicks = self.traffic.clicks.draw(leans, sizes, tilts, chance)[0].sum(axis=1)
            residuals = np.bincount(people, clicks) - visits * clicks.mean()
            variances.append((residuals**2).mean() / visits.mean() ** 2)
            means.append(self.clicks_alone(ranker, self.tilt))
        pilot = Pilot(variance=2 * sum(variances), impressions_per_unit=float(visits.mean()))
        return units_needed(means[1] - means[0], pilot, power, confidence).units


class _Sums:
    """Sums of scores y and of their control variate c: of 1, y, c, y^2, y c and c^2; and sums by person."""

    def __init__(self) -> None:
        self._moments = np.zeros(6)
        self._clicked: list[Array] = []
        self._scores: list[Array] = []

    def add(self, scores: Array, ratios: Array, clicked: Array, people: Array) -> None:
        """Add a round; `ratios` are p / P of each impression, `clicked` counts impressions with a click by person."""
        control = scores * ratios
        values = scores, control, scores**2, scores * control, control**2
        self._moments += (len(scores), *(one.sum() for one in values))
        self._clicked.append(clicked)
        self._scores.append(np.bincount(people, scores))

    @property
    def estimate(self) -> tuple[float, float]:
        """The mean score and its standard error."""
        count, *sums = self._moments
        score, control, squares, products, control_squares = np.array(sums) / count
        slope = (products - score * control) / max(control_squares - control**2, 1e-300)
        variance = squares - score**2 - slope * (products - score * control)
        return float(score - slope * control), float(np.sqrt(max(variance, 0.0) / count))

    @property
    def is_vague(self) -> bool:
        """Whether more rounds are of use."""
        mean, error = self.estimate
        return error > PRECISION * abs(mean)

    def finish(self, are_signs: bool, rounds: int) -> SchemeScores:
        people = np.concatenate(self._clicked), np.concatenate(self._scores)
        return SchemeScores(*self.estimate, *people, int(self._moments[0]), are_signs, rounds)


def own_lists(tops: Array, ranker: int, counts: Array) -> tuple[Array, Array]:
    """The leans `[page, position]` of the documents on a ranker's own list of each page, and the lengths of the lists.

    >>> own_lists(np.array([[[0, 1], [1, 2]]]), 0, np.array([2]))[0]
    array([[-0.5       ,  0.33333333]])
    """
    own = np.where(np.arange(tops.shape[2]) < counts[:, None], tops[:, ranker], -1)
    alike = (own[:, None, :, None] == tops[:, :, None]) & (own >= 0)[:, None, :, None]
    ranks = np.where(alike.any(axis=3), alike.argmax(axis=3) + 1, 0)
    return np.where(own >= 0, leans_of(ranks, counts), 0.0), (own >= 0).sum(axis=1)


def cut(shown: InterleavedBatch, counts: Array) -> InterleavedBatch:
    """The lists without the documents below these lengths."""
    if (shown.counts <= counts).all():
        return shown
    counts = np.minimum(shown.counts, counts)
    inside = np.arange(shown.documents.shape[1]) < counts[:, None]
    changed: dict[str, Any] = {"counts": counts, "documents": np.where(inside, shown.documents, -1)}
    changed["teams"] = None if shown.teams is None else np.where(inside, shown.teams, -1).astype(shown.teams.dtype)
    changed["ranks"] = np.where(inside[:, None], shown.ranks, 0)
    return replace(shown, **changed)
