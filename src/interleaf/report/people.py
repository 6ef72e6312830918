"""What people say, not visits: the mean score of each unit, weighed by its impressions up to a limit.

    D = sum_u w_u m_u / sum_u w_u,   m_u = S_u / N_u,   w_u = min(N_u, c),   c = sqrt(n), from 5 to 40

over n units u with N_u impressions with an event and the sum S_u of their scores. With w_u = N_u (one voice per
search), a few heavy users decide. With w_u = 1 (one voice per person), an experiment needs up to twice the people. Both
stand beside D in a report. docs/statistics.md has the measurements behind the limit c.
"""

from __future__ import annotations

import math

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.kernels.buckets import BUCKETS
from interleaf.report.record import Activity
from interleaf.tally import Tally
from interleaf.tally.score_sums import ONE
from interleaf.tally.units import CLICKED, SUMS

MIN_LIMIT, MAX_LIMIT = 5, 40  # on the weight of a unit, with few units and with many
PER_PERSON = 1  # the limit that gives each unit one voice
_BUCKET_SHIFT, _BUCKET_MASK = np.uint64(34), np.uint64(BUCKETS - 1)  # bits that cells of units keep, too


def max_weight(units: int) -> int:
    """The largest weight of a unit: the square root of the number of units with an event, from 5 to 40.

    It depends on nothing but that number, so it favours no ranker.

    >>> [max_weight(units) for units in (20, 300, 1_000, 1_000_000)]
    [5, 17, 31, 40]
    """
    return min(max(math.isqrt(units), MIN_LIMIT), MAX_LIMIT)


def units_with_event(tally: Tally) -> int:
    """How many units have an event; estimated where only a sample of units is held."""
    return tally.units.count(tally.units.rows[:, CLICKED] > 0)


def voices(tally: Tally, limit: int | None = None) -> tuple[Array, Array]:
    """Weighted sums `[bucket, column]`, in units of 2^-24, and weights `[bucket]` of all units.

    A unit weighs at most `limit`, or `max_weight` of the units of the tally.
    """
    units, rows = tally.units.unordered
    limit = max_weight(units_with_event(tally)) if limit is None else limit
    return weigh(units, rows[:, CLICKED], rows[:, SUMS:], limit)


def weigh(units: Array, clicked: Array, sums: Array, limit: int) -> tuple[Array, Array]:
    """The sums of units, each weighed by its impressions with an event, but at most by `limit`.

    Each unit is rounded once to whole numbers, so the order of units does not matter.

    >>> sums, weights = weigh(np.zeros(2, np.uint64), np.array([2, 40]), np.array([[2], [-40]]), 10)
    >>> sums[0], int(weights[0])
    (array([-8]), 12)
    """
    buckets = (units >> _BUCKET_SHIFT & _BUCKET_MASK).astype(np.int64)
    weights = np.minimum(clicked, limit)
    visits = np.maximum(clicked, 1)
    total = np.empty((BUCKETS, sums.shape[1]), np.int64)
    for column in range(sums.shape[1]):
        total[:, column] = np.bincount(buckets, np.rint(sums[:, column] * weights / visits), BUCKETS)
    return total, np.bincount(buckets, weights, BUCKETS).astype(np.int64)


def activity(tally: Tally, sign: int = 1) -> tuple[Activity, ...]:
    """Who comes how often: units with one impression with an event, with a few, and with more than the limit.

    The mean score is that of two rankers, turned by `sign`; of many rankers there is none.
    """
    rows = tally.units.rows
    rows = rows[rows[:, CLICKED] > 0]
    clicked, sums = rows[:, CLICKED], rows[:, SUMS:]
    scores = sums[:, 0] - sums[:, 1] if tally.about.linear else sums[:, 0]
    limit = max_weight(units_with_event(tally))
    classes = {
        "1": clicked == 1,
        f"2 to {limit}": (clicked > 1) & (clicked <= limit),
        f"more than {limit}": clicked > limit,
    }
    found = []
    for name, some in classes.items():
        if some.any():
            # Whole numbers: their sum does not depend on the order of units.
            mean = sign * float(np.rint(scores[some] / clicked[some]).sum()) / int(some.sum()) / ONE
            share, searches = float(some.mean()), float(clicked[some].sum() / clicked.sum())
            estimate = mean if len(tally.about.rankers) == 2 else None
            found.append(Activity(name, tally.units.count(some), share, searches, estimate))
    return tuple(found)
