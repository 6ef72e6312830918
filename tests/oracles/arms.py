"""Metrics of arms, search by search in fractions: what a guardrail compares, and the error of the difference."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

Row = dict[str, Any]
Sums = dict[int, tuple[Fraction, int]]  # by bucket: the sum over searches, and the number of searches
LONGEST = 60_000


def fraction_of(row: Row, metric: str, window: float | None = None) -> Fraction | None:
    """What one search adds to the numerator; None if it does not count."""
    if metric == "zero_results":
        return Fraction(not row["documents"])
    if metric == "latency":
        return _latency(row)
    if metric == "abandonment":
        return 1 - _has(row, "click", window)
    return _has(row, metric.partition(":")[2], window)


def _has(row: Row, kind: str, window: float | None) -> Fraction:
    """1 if the search has such an event, after the list was shown and within the window."""
    delays = [event["time"] - row["time"] for event in row["events"] if event["kind"] == kind]
    last = timedelta.max if window is None else timedelta(seconds=window)
    return Fraction(any(timedelta(0) <= delay <= last for delay in delays))


def _latency(row: Row) -> Fraction | None:
    """Of a mixed list, the slowest ranker's; of another list, that of the ranker whose list it is."""
    each = row.get("latency") or [None] * len(row["rankers"])
    if row["arm"] == "interleaved":
        known = None if None in each else max(each)
    elif row.get("teams"):
        known = each[row["teams"][0]]
    else:
        known = each[row["rankers"].index(row["arm"])] if row["arm"] in row["rankers"] else None
    return None if known is None else min(Fraction(round(Fraction(known) * 2**24), 2**24), Fraction(LONGEST))


def follow_ups_of(rows: Iterable[Row], gap: float = 1800) -> dict[tuple[str, str], tuple[int, int]]:
    """By arm and unit: the searches that a later one follows, less than the gap after their last event; and all."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        found[row["arm"], row["unit"]].append(row)
    counts = {}
    for key, own in found.items():
        own.sort(key=lambda row: (row["time"], _end_of(row)))
        followed = [then["time"] - _end_of(row) < timedelta(seconds=gap) for row, then in pairwise(own)]
        counts[key] = sum(followed), len(own)
    return counts


def _end_of(row: Row) -> Any:
    return max([row["time"], *(event["time"] for event in row["events"])])


def sums_of(
    rows: Iterable[Row], metric: str, bucket_of: Mapping[str, int], window: float | None = None
) -> dict[str, Sums]:
    """The sums of each arm."""
    found: dict[str, Sums] = defaultdict(lambda: defaultdict(lambda: (Fraction(0), 0)))
    for row in rows:
        value = fraction_of(row, metric, window)
        if value is not None:
            total, count = found[row["arm"]][bucket_of[row["unit"]]]
            found[row["arm"]][bucket_of[row["unit"]]] = total + value, count + 1
    return found


def difference_of(arm: Sums, base: Sums) -> tuple[Fraction, float]:
    """The difference of the means, and its error: the larger of leaving out buckets and of pooling both arms."""
    deviations: dict[int, Fraction] = defaultdict(Fraction)
    squares, sizes, inverse, means = Fraction(0), 0, Fraction(0), []
    for sign, sums in ((1, arm), (-1, base)):
        count = sum(n for _, n in sums.values())
        mean = sum((total for total, _ in sums.values()), Fraction(0)) / count
        means.append(mean)
        for bucket, (total, n) in sums.items():
            residual = total - mean * n
            deviations[bucket] += sign * residual / (count - n)
            squares += residual**2
        sizes += count
        inverse += Fraction(1, count)
    return means[0] - means[1], math.sqrt(max(_sum_squares(deviations.values()), squares / sizes * inverse))


def _sum_squares(numbers: Iterable[Fraction]) -> Fraction:
    return sum((number**2 for number in numbers), Fraction(0))
