"""Checks of what came and when: shares of arms, the same rows twice, times without events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import numpy as np

from interleaf.log.schema import FALLBACK, HOLDOUT, INTERLEAVED
from interleaf.report.model import FAILED, OK, SKIPPED, Check, graded, tested
from interleaf.stats.compare import jackknife
from interleaf.stats.multiplicity import holm
from interleaf.stats.shares import share_tests
from interleaf.tally import Tally
from interleaf.tally.evidence import CLICKED, HOUR, SHOWN
from interleaf.tally.page_sums import CLICKED as ARM_CLICKED
from interleaf.tally.page_sums import QUERIES, Arm
from interleaf.tally.units import ARMS
from interleaf.tally.units import CLICKED as VISITS

MIN_RATE, MAX_CHANCE = 0.1, 1e-6  # events are missing: of the usual rate, and how likely that is by chance
WINDOWS = (1, 6, 24)  # hours that are looked at together
MIN_GROUPS = 10  # of 64: people who must have been there, so that it is not one of them who did not click


def ab_split(tally: Tally, split: Mapping[str, float] | None) -> Iterator[Check]:
    """Whether A/B buckets hold their planned shares of units, equal ones where no `split` is given."""
    buckets = sorted(split or tally.arms.keys() - {INTERLEAVED, HOLDOUT, FALLBACK})
    if len(buckets) < 2:
        return
    seen, places = tally.units.rows[:, ARMS], [list(tally.arms).index(name) for name in buckets]
    inside = np.stack([seen >> place & 1 for place in places], axis=1)
    inside = inside[inside.sum(axis=1) == 1]
    planned = np.array([split[name] if split else 1.0 for name in buckets])
    planned /= planned.sum()
    found = share_tests(inside, np.ones_like(inside), planned) if len(inside) else ()
    known = [(p_value, at) for at, p_value in enumerate(holm([one.p_value for one in found])) if p_value is not None]
    if not known:
        yield Check("A/B split", SKIPPED, found[0].reason if found else "no unit is in one bucket only")
        return
    p_value, at = min(known)
    status = tested(p_value)
    yield Check(
        "A/B split",
        status,
        f"{found[at].share:.2%} of all units in buckets are in {buckets[at]} ({planned[at]:.2%} planned), "
        f"adjusted p = {p_value:.2g}",
        "units are lost or added in one bucket: look for redirects, bots, late joins; or give planned shares (split)"
        if status != OK
        else "",
    )


def repeated_content(tally: Tally) -> Check:
    """Whether impressions with an event agree in unit, time, list and clicks, under different ids."""
    contents = tally.evidence.contents
    rows, distinct = int(contents.rows[:, VISITS].sum()), contents.size
    name, share = "Repeated content", 1 - distinct / max(rows, 1)
    if not rows:
        return Check(name, SKIPPED, "no impression has an event")
    return Check(
        name,
        graded(share if rows > distinct else 0.0, 0.001, 0.01),
        f"{rows - distinct:,} of {rows:,} impressions with an event repeat another in unit, time, list and clicks"
        + ("" if contents.level == 0 else " (in a sample)"),
        "the same rows are in the log again under other ids: write and read every row once" if rows > distinct else "",
    )


def events_over_time(tally: Tally) -> Check:
    """Whether there was a time with impressions and hardly an event, as when a click tracker is down."""
    from scipy.special import bdtr

    name, timeline = "Events over time", tally.evidence.timeline
    places, counts = timeline.places[:-1], timeline.counts[:-1]  # events of the last stretch may still come
    if len(places) < 3:
        return Check(name, SKIPPED, "the log is too short to compare hours")
    measures = sum((arm.measures for arm in tally.arms.values()), Arm.empty().measures)
    found = jackknife(measures[:, ARM_CLICKED], measures[:, QUERIES])
    rate, total = float(found.values[0]), int(measures[:, QUERIES].sum())
    if not 0 < rate < 1:
        return Check(name, SKIPPED, "no list, or every list, has an event")
    spread = max(1.0, float(found.errors[0]) ** 2 / (rate * (1 - rate) / total))  # by people who come back
    sums = np.cumsum(np.concatenate([np.zeros_like(counts[:1]), counts]), axis=0)
    worst: tuple[float, int, int, int, int] | None = None
    for hours in WINDOWS:
        width = max(1, hours * HOUR // timeline.width)
        ends = np.searchsorted(places, places + width)
        windows = sums[ends] - sums[:-1]
        shown, events = windows[:, :, SHOWN].sum(axis=1), windows[:, :, CLICKED].sum(axis=1)
        groups = shown**2 / np.maximum((windows[:, :, SHOWN] ** 2).sum(axis=1), 1)
        for at in np.flatnonzero((events < MIN_RATE * rate * shown) & (groups >= MIN_GROUPS)).tolist():
            chance = float(bdtr(events[at] / spread, int(shown[at] / spread), rate))
            row = chance, int(places[at]), int(places[ends[at] - 1]) + 1, int(shown[at]), int(events[at])
            worst = row if worst is None or row < worst else worst
    if worst is None or worst[0] >= MAX_CHANCE:
        return Check(name, OK, f"{rate:.1%} of lists have an event, and at no time far fewer")
    since, until = (moment(place * timeline.width) for place in worst[1:3])
    return Check(
        name,
        FAILED,
        f"{worst[4]:,} of {worst[3]:,} lists have an event from {since} to {until} (UTC), {rate:.1%} of all",
        "events of that time are lost: look for an outage, and leave the time out if they cannot be recovered",
    )


def moment(time: int) -> str:
    """A time in words, to the minute."""
    return f"{datetime.fromtimestamp(time / 1e6, UTC):%Y-%m-%d %H:%M}"
