"""From a tally's sums to comparisons: every pair with its estimate, intervals and p-values, or reasons."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import numpy as np

from interleaf.methods.arrays import Array
from interleaf.methods.table import resolve
from interleaf.refine.learn.learned import LEARNED
from interleaf.report import people
from interleaf.report.record import Comparison, Point
from interleaf.stats import bootstrap, compare, figure, looks, multiplicity, sequence, signs
from interleaf.stats.compare import Estimate
from interleaf.stats.figure import Interval
from interleaf.stats.pairs import pair_sums, pairs
from interleaf.tally import About, Tally
from interleaf.tally.scores import ONE, Scores
from interleaf.tally.units import CLICKED, SINCE, SUMS

HOLM, MAX_T = "holm", "max_t"
MOST_OVER_TIME = 12  # pairs whose history is kept
Bounded = TypeVar("Bounded", Estimate, sequence.Anytime)


@dataclass(frozen=True)
class Settings:
    """How a tally is read: whose candidates are compared with a control, how sure, for how many units, and when.

    `look` is (which, of how many) where looks were planned. `aa` says that there should be nothing to see, and
    `holdout` which share of units should see the control unchanged.
    """

    control: str | None = None
    confidence: float = 0.95
    planned_units: int = 2000
    correction: str = HOLM
    look: tuple[int, int] | None = None
    aa: bool = False
    holdout: float | None = None
    resamples: int = bootstrap.RESAMPLES
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Pairs:
    """All pairs as the report names them: `first[pair]` over `second[pair]`, with sums turned to match."""

    rankers: tuple[str, ...]
    first: Array
    second: Array
    turn: Array
    order: Array

    @classmethod
    def of(cls, rankers: tuple[str, ...], control: str | None) -> Pairs:
        """Each ranker over those after it, but a control always under its candidates; pairs with it come first."""
        first, second = pairs(len(rankers))
        place = rankers.index(control) if control is not None else -1
        turn = np.where(first == place, -1, 1)
        one, other = np.where(turn < 0, second, first), np.where(turn < 0, first, second)
        order = np.argsort(other != place, kind="stable") if control is not None else np.arange(len(first))
        return cls(rankers, one[order], other[order], turn[order], order)

    def columns(self, sums: Array, linear: bool) -> Array:
        """Sums of pairs `[..., pair]` as numbers, from a tally's columns."""
        numbers = sums / ONE
        flat = numbers.reshape(-1, numbers.shape[-1])
        found = pair_sums(flat) if linear else flat
        turned: Array = (found[:, self.order] * self.turn).reshape(*sums.shape[:-1], len(self.order))
        return turned

    def voices(self, sums: Array, weights: Array, linear: bool) -> Array:
        """Weighted sums of pairs `[bucket, pair]` as numbers; what is only rounding is 0."""
        found = self.columns(sums, linear)
        found[np.abs(found) * ONE <= 2 * weights[:, None]] = 0.0
        return found

    def sides(self, scores: Scores) -> tuple[Array, Array]:
        """Wins and losses of the first."""
        wins, losses = scores.wins[self.order], scores.losses[self.order]
        return np.where(self.turn > 0, wins, losses), np.where(self.turn > 0, losses, wins)

    def names(self, pair: int) -> tuple[str, str]:
        """The first and the second ranker."""
        return self.rankers[self.first[pair]], self.rankers[self.second[pair]]


@dataclass(frozen=True, eq=False)
class Compared:
    """All pairs of a tally, and what they were made of, for those who go on from there."""

    pairs: Pairs
    comparisons: tuple[Comparison, ...]
    sums: Array
    weights: Array
    means: Array


def compared(tally: Tally, settings: Settings) -> Compared:
    """Compare all pairs."""
    found = Pairs.of(tally.about.rankers, settings.control)
    linear, clicked = tally.about.linear, int(tally.scores.clicked.sum())
    voices, weights = people.voices(tally)
    sums = found.voices(voices, weights, linear)
    most = max_score(tally.about)
    estimates = estimates_of(sums, weights, settings.confidence, most)
    means = bootstrap.resample(sums, weights, settings.resamples, settings.seed)
    per_search = found.columns(tally.scores.sums, linear)
    units = tally.units.count(tally.units.rows[:, CLICKED] > 0)
    anytimes = sequence.anytimes(estimates, max(units, 1), settings.planned_units, settings.confidence)
    parts = zip(
        estimates,
        adjust(estimates, means, settings.correction),
        anytimes,
        bootstrap.intervals(means, settings.confidence) if len(means) else [None] * len(estimates),
        signs.sign_flips(sums, seed=settings.seed),
        _sides(tally, found),
        _unit_sides(tally, found),
        _z_scores(tally, found, per_search),
        _other_voices(tally, found, estimates, settings, units),
        strict=True,
    )
    totals = {"impressions": int(tally.scores.impressions.sum()), "clicked": clicked, "units": units}
    made = []
    for pair, (estimate, adjusted, anytime, resampled, flips, sides, unit_sides, z_score, others) in enumerate(parts):
        figures = [
            *others,
            *_clustered(estimate, adjusted, _possible(anytime, most), None if estimate.reason else resampled, flips),
            *_looked(settings, estimate),
            *sides,
            *unit_sides,
            *z_score,
        ]
        made.append(_comparison(found.names(pair), totals, figures))
    return Compared(found, tuple(made), voices, weights, means)


def max_score(about: About) -> float:
    """The largest score that an impression can have, as far as the scheme limits it: a sign is at most 1."""
    return math.inf if about.linear or about.scheme.startswith(LEARNED) else 1.0


def _possible(found: Bounded, most: float) -> Bounded:
    """The same with its interval cut to scores that can be: no mean lies outside of them, so the confidence holds."""
    if found.interval is None:
        return found
    low, high = (min(max(end, -most), most) for end in found.interval)
    return replace(found, interval=(low, high))


def estimates_of(sums: Array, counts: Array, confidence: float, most: float = math.inf) -> tuple[Estimate, ...]:
    """The estimate of each column; all share the counts; `most` is the largest score that can be."""
    found = compare.estimates(sums, np.repeat(counts[:, None], sums.shape[1], axis=1), confidence)
    return tuple(_possible(estimate, most) for estimate in found)


def adjust(estimates: Sequence[Estimate], means: Array, correction: str) -> tuple[float | None, ...]:
    """P-values that hold for all of them together."""
    if correction == MAX_T and len(means):
        return multiplicity.max_t(estimates, means)
    return multiplicity.holm([estimate.p_value for estimate in estimates])


def sign_reason(tally: Tally) -> str:
    """Why wins are not counted, if so."""
    method = resolve(tally.about.method).method
    if any(scheme.startswith("binary") for scheme in method.schemes):
        return ""
    return f"the sign of one impression's credit is biased under {method.name}, so wins are not counted"


_ESTIMATED = ("error", "interval", "p_value", "effective_units")
Figure = tuple[str, Any, str]  # a field of Comparison, its value, and the reason if that is None


def _comparison(names: tuple[str, str], totals: dict[str, int], figures: Sequence[Figure]) -> Comparison:
    values: dict[str, Any] = totals | {name: value for name, value, _ in figures}
    reasons = {name: reason for name, value, reason in figures if value is None}
    return Comparison(first=names[0], second=names[1], reasons=reasons, **values)


def segment_comparison(
    names: tuple[str, str], estimate: Estimate, adjusted: float | None, impressions: int, clicked: int
) -> Comparison:
    """A comparison of a part of the log: what one look at it says."""
    figures: list[Figure] = [(name, getattr(estimate, name), estimate.reason) for name in _ESTIMATED]
    figures += [("estimate", estimate.value, estimate.reason), ("adjusted_p_value", adjusted, estimate.reason)]
    figures += [(name, None, "segments are for one look") for name in ("anytime_interval", "anytime_p_value")]
    figures += [(name, None, "not counted by segment") for name in ("units", "wins", "losses", "ties")]
    return _comparison(names, {"impressions": impressions, "clicked": clicked}, figures)


def _clustered(
    estimate: Estimate,
    adjusted: float | None,
    anytime: sequence.Anytime,
    resampled: Interval | None,
    flips: figure.Figure,
) -> Iterator[Figure]:
    for name in _ESTIMATED:
        yield name, getattr(estimate, name), estimate.reason
    yield "estimate", estimate.value, estimate.reason
    yield "adjusted_p_value", adjusted, estimate.reason
    yield "anytime_interval", anytime.interval, anytime.reason
    yield "anytime_p_value", anytime.p_value, anytime.reason
    yield "bootstrap_interval", resampled, estimate.reason
    yield "sign_flip_p_value", flips.value, flips.reason


def _other_voices(
    tally: Tally, found: Pairs, estimates: Sequence[Estimate], settings: Settings, units: int
) -> Iterator[list[Figure]]:
    """One voice per person and per search, and whether people contradict visits."""
    voices, weights = people.voices(tally, people.PER_PERSON)
    per_person = estimates_of(found.voices(voices, weights, tally.about.linear), weights, settings.confidence)
    per_search = found.columns(tally.scores.sums, tally.about.linear)
    searches = estimates_of(per_search, tally.scores.clicked, settings.confidence)
    for person, search, bounded in zip(per_person, searches, estimates, strict=True):
        figures: list[Figure] = []
        for name, voice in (("per_person", person), ("per_search", search)):
            interval = sequence.anytime(voice, max(units, 1), settings.planned_units, settings.confidence)
            interval = _possible(interval, max_score(tally.about))
            figures.append((f"{name}_estimate", voice.value, voice.reason))
            figures.append((f"{name}_interval", interval.interval, interval.reason))
        side, *others = (_side(one, settings.confidence) for one in (person, search, bounded))
        yield [*figures, ("people_and_visits_disagree", side != 0 and -side in others, "")]


def _side(estimate: Estimate, confidence: float) -> int:
    """Whom one look prefers: 1 the first, -1 the second, 0 nobody."""
    if estimate.value is None or estimate.p_value is None or estimate.p_value > 1 - confidence:
        return 0
    return 1 if estimate.value > 0 else -1


def _looked(settings: Settings, estimate: Estimate) -> Iterator[Figure]:
    if settings.look is None:
        yield "look_p_value", None, "no looks were planned"
    else:
        which, of = settings.look
        look = looks.planned_look(estimate, which, looks.even(of), settings.confidence)
        yield "look_p_value", look.p_value, look.reason


def _sides(tally: Tally, found: Pairs) -> Iterator[list[Figure]]:
    """Wins, losses and ties of impressions, where the sign of a score means something."""
    reason, clicked = sign_reason(tally), int(tally.scores.clicked.sum())
    names = ("wins", "losses", "ties", "delta", "sign_test_p_value")
    for wins, losses in zip(*(side.tolist() for side in found.sides(tally.scores)), strict=True):
        if reason:
            yield [(name, None, reason) for name in names]
            continue
        ties = clicked - wins - losses
        delta, test = signs.delta(wins, losses, ties), signs.sign_test(wins, losses)
        values = (wins, losses, ties, delta.value, test.value)
        yield list(zip(names, values, ("", "", "", delta.reason, test.reason), strict=True))


def _unit_sides(tally: Tally, found: Pairs) -> Iterator[list[Figure]]:
    """How many units prefer each; of buckets, where units are too many to hold."""
    exact = tally.units.is_exact
    sums = tally.units.rows[:, SUMS:] if exact else tally.scores.sums
    counts = tally.units.rows[:, CLICKED] if exact else tally.scores.clicked
    scores = found.columns(sums, tally.about.linear)
    # Rounding adds at most half of 2^-24 for each impression and ranker.
    preferred = np.where(np.abs(scores) * ONE <= counts[:, None], 0.0, np.sign(scores))
    for wins, losses in zip((preferred > 0).sum(axis=0).tolist(), (preferred < 0).sum(axis=0).tolist(), strict=True):
        test = signs.sign_test(wins, losses)
        yield [
            ("unit_wins", wins, ""),
            ("unit_losses", losses, ""),
            ("unit_sign_test_p_value", test.value, test.reason),
            ("unit_sign_test_of", "units" if exact else "buckets", ""),
        ]


def _z_scores(tally: Tally, found: Pairs, sums: Array) -> Iterator[list[Figure]]:
    clicked = int(tally.scores.clicked.sum())
    squares = tally.scores.squares[found.order] / ONE
    for total, square in zip(sums.sum(axis=0).tolist(), squares.tolist(), strict=True):
        found_z = signs.z_score(total, square, clicked)
        yield [
            ("z_score", found_z.value, found_z.reason),
            ("z_score_per_query", found_z.per_query, found_z.reason),
        ]


def over_time(tally: Tally, settings: Settings, result: Compared) -> tuple[Point, ...]:
    """Each pair as it stood at the end of every slice; the last point is the comparison itself."""
    slices, ends = tally.slices, tally.slices.ends
    if not len(ends) or tally.until is None:
        return ()
    shown = np.cumsum(slices.clicked).tolist()
    sums, weights = _history(tally, result.pairs)
    since = tally.units.rows[tally.units.rows[:, CLICKED] > 0, SINCE]
    units = np.maximum(slices.before_ends(since) << tally.units.level, 1)
    points, most = [], max_score(tally.about)
    for pair in range(sums.shape[2]):
        first, second = result.pairs.names(pair)
        estimates = compare.estimates(sums[:, :, pair].T, weights.T, settings.confidence)
        anytimes = sequence.anytimes(estimates, units, settings.planned_units, settings.confidence)
        for place in range(len(ends) - 1):
            figures = (shown[place], estimates[place].value, _possible(anytimes[place], most).interval)
            points.append(Point(moment(int(ends[place])), first, second, *figures))
        last = result.comparisons[pair]
        points.append(Point(moment(tally.until), first, second, last.clicked, last.estimate, last.anytime_interval))
    return tuple(points)


def _history(tally: Tally, pairs: Pairs) -> tuple[Array, Array]:
    """Sums `[slice, bucket, pair]` of the first pairs and weights `[slice, bucket]`, as of the end of each slice."""
    sums, weights = [], []
    for totals in tally.slices.totals():
        voices, weight = people.weigh(*totals)
        sums.append(pairs.voices(voices, weight, tally.about.linear)[:, :MOST_OVER_TIME])
        weights.append(weight)
    return np.array(sums), np.array(weights)


def moment(microseconds: int) -> datetime:
    """A time of the log."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
