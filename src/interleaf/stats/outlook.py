"""What to expect of an experiment that is undecided: whether it will be decided by the planned end, and when.

An estimate is decided if its interval leaves out 0, which shows a preference, or if it is inside the margin d, which
shows that two rankers are alike. If the true preference is today's estimate D, with standard error s after a share t
of the planned units, the estimate at the end is normal with mean D and variance s^2 t (1 - t), and its interval has
the half-width w = c s sqrt(t), where c is the boundary of the report's rule. It is not decided if its absolute value
is between max(0, d - w) and w.

Without a margin this is the conditional power under the current trend. It is advice: it does not change the level of
the report.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from interleaf.kernels.arrays import Array

MARGIN = 0.01  # default; about the preferences between rankers of Yahoo! in C12, table IV: Delta of 0.5 %
NORMAL = NormalDist()
PATHS = 2_000  # simulated continuations of an experiment
LOOKS = 150  # of each path
MAX_FACTOR = 20  # times the units so far: how far paths go
QUANTILES = (0.1, 0.5, 0.9)


def chance_at_end(value: float, error: float, share: float, width: float, margin: float) -> float:
    """The probability that an estimate is decided at the planned end, if today's estimate is the truth.

    `share` of the planned units have come. The interval at the end is `width` standard errors to each side.

    >>> chance_at_end(0.01, 0.01, share=0.5, width=1.96, margin=0.001)
    0.22
    """
    half = width * error * math.sqrt(share)
    spread = error * math.sqrt(share * (1 - share))
    inner = max(0.0, margin - half)
    if inner >= half:
        return 1.0

    def below(end: float) -> float:
        return NORMAL.cdf((end - value) / spread)

    return 1 - (below(half) - below(inner) + below(-inner) - below(-half))


def units_until_decision(
    value: float, error: float, units: int, width: Callable[[Array], Array], margin: float, seed: int = 0
) -> tuple[float, float, float]:
    """How many units it takes until the estimate is decided: the quantiles 0.1, 0.5 and 0.9; infinite if unknown.

    The true preference is drawn from what today's estimate allows, normal with its error. `width` gives the half-width
    of the interval in standard errors after so many units. A path that is not decided by 20 times the units so far
    counts as infinite; with the boundaries of a report, more than a third are decided by then.
    """
    chance = np.random.default_rng(seed)
    sizes = np.append(units, units * np.geomspace(1 + 1 / LOOKS, MAX_FACTOR, LOOKS))
    steps = np.diff(sizes)
    truth = chance.normal(value, error, (PATHS, 1))
    moves = truth * steps + error * math.sqrt(units) * np.sqrt(steps) * chance.normal(size=(PATHS, LOOKS))
    estimates = np.abs(value * units + np.cumsum(moves, axis=1)) / sizes[1:]
    half = error * np.sqrt(units / sizes[1:]) * width(sizes[1:])
    decided = (estimates > half) | (estimates + half < margin)
    when = np.where(decided.any(axis=1), sizes[1:][np.argmax(decided, axis=1)], np.inf)
    low, middle, high = np.sort(when)[[math.ceil(quantile * PATHS) - 1 for quantile in QUANTILES]].tolist()
    return low, middle, high
