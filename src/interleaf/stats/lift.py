"""How many more clicks one ranker's own list would get than another's, and the examination of ranks that it rests on.

    theta_{r+1} / theta_r = [clicks at r + 1, weighted] / [clicks at r, weighted],   lift = V_first / V_second - 1

over documents that chance puts at either rank. V is known for some curves of examination, r^-power, with derivatives.
Between them it is interpolated along the power, and the rest of the curve is added to first order. Everything is
computed again without each group of users, so the error of the examination is part of the interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.stable_codes import Code
from interleaf.stats.compare import Interval, significance

MIN_CLICKS = 20  # at each of two neighbouring ranks; with fewer, their ratio follows from other ranks
MIN_GROUPS = 8
MAX_UNSEEN = 0.05  # share of a ranker's examination; above it, bounds say what the unseen documents may change
MAX_WIDTH = 1.0  # of bounds that are of use


class NoLift(Code):
    """Why there is no lift."""

    METHOD = "method", "the probability that {} puts a document at a rank is not known"
    NO_RANKS = "no_ranks", "the log lacks ranks of unshown documents (column unshown_ranks) or rankings"
    TOO_LONG = "too_long", "lists are longer than {}"
    IMPOSSIBLE = "impossible", "for most lists, the probability that the method puts a document at a rank is not known"
    FEW_USERS = "few_users", "the clicks come from too few users"
    FEW_CLICKS = (
        "few_clicks",
        "to learn how often people look at each rank, documents that chance puts at either of two neighbouring ranks "
        "need at least 20 clicks at both; {} pairs of ranks have them, and half are needed",
    )
    NO_CLICKS = "no_clicks", "documents of {} got no clicks"
    UNSEEN = (
        "unseen",
        "interleaved lists never show some documents of {}'s own list, and clicks on them may change the lift too much",
    )


class ExposureData(NamedTuple):
    """Sums of `tally.exposure_sums`, as numbers; the first axis of `values`, `slopes` and `moves` is the user group."""

    curves: Array
    powers: tuple[float, ...]
    lists: Array
    values: Array
    slopes: Array
    moves: Array
    clicks: Array
    tops: Array
    ranked: Array

    @property
    def depth(self) -> int:
        """The length of the longest list."""
        return int(np.flatnonzero(self.tops[:, :, 0].any(axis=0)).max(initial=-1)) + 1


@dataclass(frozen=True)
class Examination:
    """How often people look at a rank, as a share of rank 1.

    `clicks` at this rank and the one above are on documents that can stand at both. `is_measured`: they are enough to
    compare the two ranks; if not, the decline is that of the ranks nearby.
    """

    rank: int
    value: float
    interval: Interval | None
    clicks: int
    is_measured: bool


@dataclass(frozen=True)
class LiftEstimate:
    """The lift of the first ranker over the second, -0.1 for 10 % fewer clicks; None if `reason` says why.

    `clicks` per list if each were shown alone; `unseen`: the share of what people would look at in its own list that is
    never shown. `bounds`: the interval, widened by what the unseen documents can change, if they are many.
    """

    lift: float | None
    interval: Interval | None
    clicks: tuple[float | None, float | None]
    unseen: tuple[float, float]
    bounds: Interval | None = None
    reason: str = ""  # a code of `NoLift`, with its detail


class ExposureEstimates:
    """Examination and lift from the same sums, each also without each group of users."""

    def __init__(self, data: ExposureData, confidence: float) -> None:
        self._data, self._confidence = data, confidence
        self._there = np.flatnonzero(data.lists)
        self._depth = data.depth
        self.is_given = len(data.curves) == 1
        links = max(self._depth - 1, 0)
        moves = _leave_out(data.moves[:, :links], self._there)
        enough = np.asarray((data.clicks[:links] >= MIN_CLICKS).all(axis=1) & (moves > 0).all(axis=(0, 2)))
        self._is_measured: Array = np.ones(links, np.bool_) if self.is_given else enough
        self.reason: str = ""
        if not self._depth:
            self.reason = NoLift.NO_CLICKS.of("all rankers")
        elif len(self._there) < MIN_GROUPS:
            self.reason = NoLift.FEW_USERS
        elif self._is_measured.sum() < links / 2:
            self.reason = NoLift.FEW_CLICKS.of(f"{self._is_measured.sum()} of {links}")
        if not self.reason:
            self._logs = self._measure(moves)
            self._values = self._value()

    def _measure(self, moves: Array) -> Array:
        """The logarithm of the examination, `[without which group, rank]`; the first row has all groups."""
        if self.is_given:
            curve = np.log(self._data.curves[0, : self._depth])
            return np.asarray(np.tile(curve, (len(moves), 1)))
        ranks = np.arange(1, self._depth)
        steps, middles, is_measured = np.log((ranks + 1) / ranks), np.log(ranks + 0.5), self._is_measured
        logs = np.zeros((len(moves), self._depth))
        if len(ranks):
            ratios = np.log(moves[:, is_measured, 1] / moves[:, is_measured, 0]) / steps[is_measured]
            declines = np.array([np.interp(middles, middles[is_measured], row) for row in ratios])
            logs[:, 1:] = np.cumsum(declines * steps, axis=1)
        return logs

    def _value(self) -> Array:
        """The value of all clicks for each ranker, `[without which group, ranker]`, with the measured examination."""
        data = self._data
        values = _leave_out(data.values, self._there)
        slopes = _leave_out(data.slopes[..., : self._depth], self._there)
        self._ranked = data.ranked[0]
        if self.is_given:
            return values[:, 0]
        logs, ranks = self._logs, np.log(np.arange(1, self._depth + 1))
        powers = np.clip(-(logs @ ranks) / max(ranks @ ranks, 1e-9), data.powers[0], data.powers[-1])
        lower = int(np.clip(np.searchsorted(data.powers, powers[0]) - 1, 0, len(data.powers) - 2))
        step = data.powers[lower + 1] - data.powers[lower]
        t = ((powers - data.powers[lower]) / step)[:, None]
        self._ranked = data.ranked[lower] * (1 - t[0]) + data.ranked[lower + 1] * t[0]
        ends, rises = values[:, lower : lower + 2], -(slopes[:, lower : lower + 2] @ ranks) * step
        along = (
            ends[:, 0] * (2 * t**3 - 3 * t**2 + 1)
            + ends[:, 1] * (3 * t**2 - 2 * t**3)
            + rises[:, 0] * (t**3 - 2 * t**2 + t)
            + rises[:, 1] * (t**3 - t**2)
        )
        others = logs + powers[:, None] * ranks
        slope = slopes[:, lower] * (1 - t[..., None]) + slopes[:, lower + 1] * t[..., None]
        change = np.einsum("gir,gr->gi", slope, others)
        return np.asarray(along * np.exp(change / np.where(along > 0, along, 1.0)))

    def _interval(self, logarithms: Array) -> Interval:
        """The interval of a number from its logarithm, with and without each group."""
        from scipy.special import stdtrit

        some, lists = logarithms[1:], self._data.lists[self._there]
        groups, effective = len(some), lists.sum() ** 2 / (lists**2).sum()
        error = np.sqrt((groups - 1) / groups * ((some - some.mean()) ** 2).sum())
        reach = stdtrit(effective - 1, 1 - significance(self._confidence) / 2) * error
        return float(np.exp(logarithms[0] - reach)), float(np.exp(logarithms[0] + reach))

    def examination(self) -> tuple[Examination, ...]:
        """The examination of each rank; nothing if it could not be measured."""
        if self.reason:
            return ()
        curve = []
        for rank in range(1, self._depth + 1):
            logs, measured = self._logs[:, rank - 1], rank == 1 or bool(self._is_measured[rank - 2])
            interval = None if rank == 1 or self.is_given else self._interval(logs)
            clicks = 0 if rank == 1 else int(self._data.clicks[rank - 2].sum())
            curve.append(Examination(rank, float(np.exp(logs[0])), interval, clicks, measured))
        return tuple(curve)

    def lift(self, first: int, second: int, names: tuple[str, str]) -> LiftEstimate:
        """The lift of one ranker over another."""
        if self.reason:
            return LiftEstimate(None, None, (None, None), (0.0, 0.0), reason=self.reason)
        both = [first, second]
        theta = np.exp(self._logs[0])
        every, some = (self._data.tops[both, : self._depth, which] for which in range(2))
        unseen = 1 - some @ theta / np.maximum(every @ theta, theta[-1])
        seen_values = self._values[:, both]
        # Unseen documents are taken to appeal as much as the seen ones at the same rank of the ranker.
        ranked = self._ranked[both, : self._depth]
        values = seen_values * (ranked * every / np.maximum(some, 1)).sum(axis=1) / np.maximum(ranked.sum(axis=1), 1e-9)
        mean = values[0] / self._data.lists.sum()
        clicks, shares = (float(mean[0]), float(mean[1])), (float(unseen[0]), float(unseen[1]))
        for name, column in zip(names, values.T, strict=True):
            if (column <= 0).any():
                return LiftEstimate(None, None, clicks, shares, reason=NoLift.NO_CLICKS.of(name))
        logarithms = np.log(values[:, 0]) - np.log(values[:, 1])
        low, high = self._interval(logarithms)
        lift, interval = float(np.exp(logarithms[0])) - 1, (low - 1, high - 1)
        if max(shares) <= MAX_UNSEEN:
            return LiftEstimate(lift, interval, clicks, shares)
        # They appeal at least to nobody, and at most as much as the seen ones of the better ranker at all ranks.
        appeal = (seen_values[0] / (some @ theta)).max()
        most = np.maximum(seen_values[0] + appeal * ((every - some) @ theta), values[0])
        bounds = (
            float(low * seen_values[0, 0] / values[0, 0] * values[0, 1] / most[1]) - 1,
            float(high * most[0] / values[0, 0] * values[0, 1] / seen_values[0, 1]) - 1,
        )
        if bounds[1] - bounds[0] > MAX_WIDTH:
            worst = int(unseen.argmax())
            return LiftEstimate(None, None, clicks, shares, bounds, NoLift.UNSEEN.of(names[worst]))
        return LiftEstimate(lift, interval, clicks, shares, bounds)


def _leave_out(sums: Array, there: Array) -> Array:
    """The sum over groups, then the sum without each group that has data."""
    total = sums.sum(axis=0)
    return np.asarray(np.concatenate([total[None], total - sums[there]]))
