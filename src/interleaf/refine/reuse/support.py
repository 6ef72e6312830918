"""Lists that the log could not show: what they may add to a weighted estimate, whatever people would do with them.

Weights w = P_new(L) / P_old(L) average to s, the share of the new rankers' lists that the old design could show. Of the
other lists the log says nothing, but a score o of a list lies between -B and B. So the preference lies between

    E[w o] - (1 - s) B = E[w (B + o)] - B   and   E[w o] + (1 - s) B = B - E[w (B - o)]

Both are means over impressions. The interval reaches from the lower confidence limit of the first to the upper limit of
the second, and holds the preference at least as often as it says, with full support or without (Manski 1990). Both
means are of numbers from 0 up, and only their lower limits are used: large weights that never came widen the interval.
"""

from __future__ import annotations

from dataclasses import replace

from interleaf.methods.arrays import Array
from interleaf.refine.reuse.sums import Weighted
from interleaf.stats import compare
from interleaf.stats.compare import Estimate

SAME = 1e-9  # weights that differ from 1 by less are those of the old lists themselves
NO_BOUND = (
    "the old lists cover only a part of the new rankers' lists, and a score by this method has no useful bound for the "
    "rest; give a method with bounded scores, such as team_draft"
)
ABOVE_ONE = "weights average more than 1, which they cannot: check the logged probabilities of the old lists"


def supported(sums: Weighted, confidence: float) -> Estimate:
    """The share of the new rankers' lists that the old design could show: the mean weight, which chance moves."""
    (found,) = compare.estimates(sums.weights[:, None], sums.impressions[:, None], confidence)
    if found.value is not None and abs(found.value - 1) < SAME:
        found = replace(found, interval=(1.0, 1.0), reason="")
    return found


def is_same(sums: Weighted) -> bool:
    """Whether every weight is 1, as for the old rankers themselves: then no list is out of reach."""
    mean = sums.described.mean
    return mean is not None and abs(mean - 1) < SAME and abs(sums.largest - 1) < SAME


def bounded(outcomes: Array, sums: Weighted, bound: float | None, confidence: float) -> tuple[Estimate, ...]:
    """The mean of w o for each column of `outcomes[bucket, pair]`, in an interval for whatever other lists would do.

    `bound` is the largest score of a list; None where there is none.
    """
    counts, weights = sums.impressions[:, None], sums.weights[:, None]
    plain = compare.estimates(outcomes, counts, confidence)
    if is_same(sums):
        return plain
    if bound is None:
        return tuple(without_interval(one, NO_BOUND) for one in plain)
    above, below = (compare.estimates(bound * weights + sign * outcomes, counts, confidence) for sign in (1, -1))
    return tuple(_joined(*sides, bound) for sides in zip(plain, above, below, strict=True))


def without_interval(found: Estimate, reason: str) -> Estimate:
    """The value alone."""
    return replace(found, error=None, interval=None, p_value=None, reason=found.reason or reason)


def _joined(plain: Estimate, above: Estimate, below: Estimate, bound: float) -> Estimate:
    """From one-sided limits to an interval, and to the p-value of the side that is further from 0."""
    for side in (above, below):
        if side.interval is None and side.value:  # without any value the limit is 0, and needs no error
            return without_interval(plain, side.reason)
    low, high = _limit(above) - bound, bound - _limit(below)
    if low > high:
        return without_interval(plain, ABOVE_ONE)
    p_value = min(1.0, 2 * min(_tail(above, bound), _tail(below, bound)))
    value = min(max(low, plain.value or 0.0), high)  # outside only where weights happen to average far above 1
    return replace(plain, value=value, interval=(low, high), p_value=p_value, reason="")


def _limit(side: Estimate) -> float:
    return 0.0 if side.interval is None else max(0.0, side.interval[0])


def _tail(side: Estimate, bound: float) -> float:
    """How likely a mean is so far above the bound by chance, if it is not above it."""
    from scipy.special import stdtr

    if side.value is None or side.error is None or side.effective_units is None:
        return 1.0
    return float(stdtr(side.effective_units - 1, (bound - side.value) / side.error))
