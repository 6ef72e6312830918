"""Simulated impressions a second on all cores, and how long the whole protocol of O17 would take."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from interleaf.simulate import Judged, run, synthetic
from interleaf.studies.oosterhuis2017 import METHODS

RANKERS = (2, 5, 15, 40)
# O17 without OM: ten sets x three click models x 125 runs of 10,000 impressions for 5 and 15 rankers, one set for 40.
IMPRESSIONS = {5: 10 * 3 * 125 * 10_000, 15: 10 * 3 * 125 * 10_000, 40: 3 * 125 * 10_000}


def tables(impressions: int) -> Iterator[str]:
    """Rates by method and rankers; the extrapolation."""
    data = synthetic(queries=600, documents=(5, 30), features=max(RANKERS), grades=3, seed=1)
    yield "\nsimulation: impressions a second, queries like MQ2008's, informational clicks, k = 10, a run on each core"
    yield f"{'':22}{'scheme':>8}" + "".join(f"{f'{rankers} rankers':>14}" for rankers in RANKERS)
    rates: dict[tuple[str, int], float] = {}
    for label, (method, scheme) in METHODS.items():
        if label != "OM":
            for rankers in RANKERS:
                rates[label, rankers] = rate(data, method, scheme, rankers, impressions)
            yield f"{method:22}{scheme:>8}" + "".join(f"{rates[label, rankers]:>14,.0f}" for rankers in RANKERS)
    total = sum(IMPRESSIONS.values()) * (len(METHODS) - 1)
    seconds = sum(count / rates[label, n] for n, count in IMPRESSIONS.items() for label in METHODS if label != "OM")
    minutes = f"about {seconds / 60:.0f} minutes at these rates"
    yield f"the protocol of O17 without OM: {total / 1e6:,.0f} million impressions, {minutes}"


def rate(data: Judged, method: str, scheme: str, rankers: int, impressions: int) -> float:
    """Impressions a second, one run a core, after one that compiles."""
    features, cores = list(range(1, rankers + 1)), os.cpu_count() or 1
    run(data, features, method, "informational", 100, 1, scheme=scheme)
    start = time.perf_counter()
    run(data, features, method, "informational", impressions, cores, scheme=scheme, checkpoints=[])
    return impressions * cores / (time.perf_counter() - start)
