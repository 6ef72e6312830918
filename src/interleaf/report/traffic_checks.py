"""Health checks of traffic: users, arms and their sizes, fallbacks and latency, times without events."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from interleaf.kernels.buckets import BUCKETS
from interleaf.log.schema import FALLBACK, HOLDOUT, INTERLEAVED
from interleaf.methods.registry import ONE_LIST
from interleaf.metrics.absolute import METRICS
from interleaf.report import codes
from interleaf.report.arms import ratio
from interleaf.report.codes import CheckCode, CheckInput, CheckResult, health_check
from interleaf.report.comparisons import time_of
from interleaf.report.format import format_signed, moment
from interleaf.report.model import FAILED, OK, SKIPPED, UNIT, WARNING
from interleaf.stats.compare import difference, jackknife, share_tests
from interleaf.stats.multiplicity import holm
from interleaf.tables import percent
from interleaf.tally import Fact
from interleaf.tally.bucket_sums import CLICKED as ARM_CLICKED, QUERIES, ArmSums, quantile
from interleaf.tally.evidence import CLICKED, DAY, HOUR, SHOWN
from interleaf.tally.units import ARMS

MIN_UNITS = 20  # effective units
MANY_VISITS, ONCE = 1000, 1.01  # impressions with a unit; ids may not last if a unit has fewer than this on average
MANY_IN_DAYS, DAYS = 200, 2  # this many impressions are enough if they are from this many days
MIN_RATE, MAX_CHANCE = 0.1, 1e-6  # events are missing below this share of the usual rate, if chance is less likely
WINDOWS = (1, 6, 24)  # hours that are tested together
MIN_GROUPS = 10  # groups of units (of 64) that must be present, so that a few people who do not click raise no alarm


@health_check(CheckCode.UNITS_KNOWN, "Units known")
def units_known(data: CheckInput) -> CheckResult:
    """Does the log identify users? Without a unit, intervals are too narrow: log a user, client or session id."""
    total, alone = data.tally.impressions, data.tally.facts.get(Fact.OWN_UNIT, 0)
    figure = f"{total - alone:,} of {total:,} impressions have a unit"
    remedy = "without a unit, repeat visits of one person count as many people: log a user, client or session id"
    return CheckResult(WARNING if alone else OK, figure, remedy)


@health_check(CheckCode.UNITS_COME_BACK, "Units come back")
def units_come_back(data: CheckInput) -> CheckResult | None:
    """Do user ids last? Tested from 1,000 impressions with a unit, or 200 over two days; shown only if it warns. If
    nearly every impression has a new unit, ids may change with each request. `interleaf.visitor_id` gives visitors a
    lasting id.
    """
    tally, alone = data.tally, data.tally.facts.get(Fact.OWN_UNIT, 0)
    units, visits = tally.units.count() - alone, tally.impressions - alone
    days = ((tally.until or 0) - (tally.since or 0)) / DAY
    if not units or visits < (MANY_IN_DAYS if days >= DAYS else MANY_VISITS) or visits > ONCE * units:
        return None
    return CheckResult(
        WARNING,
        f"{units:,} units made {visits:,} impressions: nearly every unit came once",
        "ids may change with each request, so that one person gets different lists and arms: give visitors who are "
        "not logged in a lasting id, as interleaf.visitor_id does",
    )


@health_check(CheckCode.ENOUGH_UNITS, "Enough units")
def enough_units(data: CheckInput) -> CheckResult | None:
    """Does the result rest on enough people? Below 20 effective units, wait, or look for one unit with most visits."""
    comparisons = data.result.comparisons if data.result else ()
    effective = next((one.effective_units for one in comparisons if one.effective_units is not None), None)
    if effective is None:
        return None
    plural, queries = "" if round(effective) == 1 else "s", "" if data.settings.cluster == UNIT else " or queries"
    return CheckResult(
        WARNING if effective < MIN_UNITS else OK,
        f"{effective:,.0f} effective unit{plural}{queries} (at most {BUCKETS:,}, because units are grouped into as "
        "many buckets)",
        f"below {MIN_UNITS}, intervals are rough: wait for more people, or look for one who makes most of the visits",
    )


@health_check(CheckCode.LIGHT_USERS_AGREE, "Light users agree")
def light_users_agree(data: CheckInput) -> CheckResult | None:
    """Does the preference hold if each person counts once? If not, a few heavy users make the difference. Shown only if
    it does not.
    """
    for one in data.result.comparisons if data.result else ():
        if one.winner and (one.estimate or 0.0) * (one.per_person_estimate or 0.0) < 0:
            return CheckResult(
                WARNING,
                f"{one.winner} is preferred, but if each person counts once, {one.first} over {one.second} is "
                f"{format_signed(one.per_person_estimate or 0.0)}: heavy users make the difference",
                "compare heavy and light users in the report's table of activity, and wait for more people",
            )
    return None


@health_check(CheckCode.FALLBACKS, "Fallbacks")
def fallbacks(data: CheckInput) -> CheckResult:
    """How often did a ranker fail, so that the control's list was shown? These requests are not compared. Look at
    latency and errors of the rankers.
    """
    impressions = {name: int(arm.measures[:, QUERIES].sum()) for name, arm in data.tally.arms.items()}
    total, number = max(sum(impressions.values()), 1), impressions.get(FALLBACK, 0)
    causes = Fact.FALLBACK.details(data.tally.facts)
    return CheckResult(
        codes.grade_share(number / total, 0.01, 0.1),
        f"{number:,} of {total:,} lists were the control's, because a ranker failed"
        + "".join(f"; {cause}: {number:,}" for cause, number in causes.items()),
        "requests in which a ranker is slow or fails are not compared: make it faster or more reliable",
    )


@health_check(CheckCode.LATENCY, "Latency of {}")
def latency(data: CheckInput) -> Iterator[CheckResult]:
    """How long does each ranker take? Shown only if the log has latencies; it never warns."""
    for ranker, bins in zip(data.tally.about.rankers, data.tally.lists.latency, strict=True):
        if bins.any():
            middle, slow = quantile(bins, 0.5), quantile(bins, 0.95)
            yield CheckResult(OK, f"median {middle:,.0f} ms, 95 % below {slow:,.0f} ms", subject=ranker)


@health_check(CheckCode.UNITS_IN_ONE_ARM, "Units in one arm")
def units_in_one_arm(data: CheckInput) -> CheckResult | None:
    """Do people stay in their arm? If not, look for ids that do not last."""
    places = [place for place, name in enumerate(data.tally.arms) if name != FALLBACK]
    if len(places) < 2:
        return None
    units = data.tally.units
    several = (units.rows[:, [ARMS]] >> np.array(places) & 1).sum(axis=1) > 1
    figure = f"{units.count(several):,} of {units.count():,} units were in several arms"
    remedy = "a hash of the unit decides its arm, so a unit should keep it: check that ids last"
    return CheckResult(codes.grade_share(float(several.mean()) if len(several) else 0.0, 0.001, 0.01), figure, remedy)


def _against_holdout(data: CheckInput, name: str) -> CheckResult | None:
    """It never fails: lists with documents of a worse ranker are worse, but the comparison is still valid."""
    names, arms = (INTERLEAVED, HOLDOUT), data.tally.arms
    if not arms.keys() >= set(names):
        return None
    first, second = (ratio(arms[arm], name) for arm in names)
    gap = difference(*first, *second, data.settings.confidence, names)
    if gap.value is None or gap.p_value is None:
        return CheckResult(SKIPPED, gap.reason or "there is nothing to compare")
    is_worse = (gap.value > 0) == METRICS[name].rises
    return CheckResult(
        WARNING if gap.p_value < codes.WARN_BELOW else OK,
        f"{format_signed(gap.value)}, p = {gap.p_value:.2g}",
        f"expected if a candidate is {'worse' if is_worse else 'better'} than the control; otherwise check latency and "
        "how lists are displayed",
    )


@health_check(CheckCode.HOLDOUT_CLICKS, "Interleaved against holdout, clicks per query")
def holdout_clicks(data: CheckInput) -> CheckResult | None:
    """With a holdout: do people click interleaved lists as often as the lists of the holdout? A much better or worse
    candidate explains a difference. Otherwise look at latency, and at how lists are displayed.
    """
    return _against_holdout(data, "clicks")


@health_check(CheckCode.HOLDOUT_ABANDONMENT, "Interleaved against holdout, abandonment rate")
def holdout_abandonment(data: CheckInput) -> CheckResult | None:
    """With a holdout: do people leave interleaved lists without a click as often as the lists of the holdout? Look at
    the same causes as for clicks.
    """
    return _against_holdout(data, "abandonment")


@health_check(CheckCode.HOLDOUT_SPLIT, "Holdout split")
def holdout_split(data: CheckInput) -> CheckResult | None:
    """With a holdout: does it have the planned size? If not, look for redirects, bots and late joins."""
    units, arms, planned = data.tally.units, list(data.tally.arms), data.settings.holdout
    if HOLDOUT not in arms or not (INTERLEAVED in arms or data.tally.about.composed == ONE_LIST):
        if planned is None:
            return None
        status = codes.grade_p_value((1 - planned) ** units.count())  # the probability that nobody is in it yet
        figure = f"no unit is in the holdout, {percent(planned, 2)} were planned"
        return CheckResult(status, figure, "switch the holdout on")
    inside = units.rows[:, ARMS] >> arms.index(HOLDOUT) & 1
    if planned is None:
        share = units.count(inside) / units.count()
        return CheckResult(SKIPPED, f"{percent(share, 2)} of units; the planned share is not given (holdout=0.05)")
    (test,) = share_tests(inside, np.ones(len(inside), np.int64), planned)
    figure = f"{percent(test.share or 0, 2)} of units, {percent(planned, 2)} planned"
    remedy = "units are lost or added on one side: look for redirects, bots and late joins"
    return CheckResult(codes.grade_p_value(test.p_value), figure, remedy)


@health_check(CheckCode.AB_SPLIT, "A/B split")
def ab_split(data: CheckInput) -> CheckResult | None:
    """With A/B arms: do they have the planned sizes (`--split`), or equal sizes? If not, look for redirects, bots
    and late joins.
    """
    tally, split = data.tally, data.settings.split
    arms = sorted(split or tally.arms.keys() - {INTERLEAVED, HOLDOUT, FALLBACK})
    if len(arms) < 2:
        return None
    places = np.array([list(tally.arms).index(name) for name in arms])
    inside = tally.units.rows[:, [ARMS]] >> places & 1
    inside = inside[inside.sum(axis=1) == 1]
    planned = np.array([split[name] if split else 1.0 for name in arms])
    planned /= planned.sum()
    tests = share_tests(inside, np.ones_like(inside), planned) if len(inside) else ()
    worst = codes.smallest(holm([test.p_value for test in tests]))
    if worst is None:
        return CheckResult(SKIPPED, tests[0].reason if tests else "no unit is in one arm only")
    p_value, place = worst
    return CheckResult(
        codes.grade_p_value(p_value),
        f"{percent(tests[place].share or 0, 2)} of all units in A/B arms are in {arms[place]} "
        f"({percent(planned[place], 2)} planned), adjusted p = {p_value:.2g}",
        "units are lost or added in one arm: look for redirects, bots, late joins; or give planned shares (split)",
    )


@health_check(CheckCode.EVENTS_OVER_TIME, "Events over time")
def events_over_time(data: CheckInput) -> CheckResult:
    """Was there an hour or a day with lists and hardly an event? If so, look for an outage of the click tracker."""
    from scipy.special import bdtr

    timeline = data.tally.evidence.timeline
    places, counts = timeline.places[:-1], timeline.counts[:-1]  # events of the last stretch may still arrive
    if len(places) < 3:
        return CheckResult(SKIPPED, "the log is too short to compare hours")
    measures = sum((arm.measures for arm in data.tally.arms.values()), ArmSums.empty().measures)
    estimate = jackknife(measures[:, ARM_CLICKED], measures[:, QUERIES])
    rate, total = float(estimate.values[0]), int(measures[:, QUERIES].sum())
    if not 0 < rate < 1:
        return CheckResult(SKIPPED, "no list, or every list, has an event")
    spread = max(1.0, float(estimate.errors[0]) ** 2 / (rate * (1 - rate) / total))  # due to repeat visits
    sums = np.cumsum(np.concatenate([np.zeros_like(counts[:1]), counts]), axis=0)
    rows = []
    for hours in WINDOWS:
        ends = np.searchsorted(places, places + max(1, hours * HOUR // timeline.width))
        windows = sums[ends] - sums[:-1]
        shown, events = windows[:, :, SHOWN].sum(axis=1), windows[:, :, CLICKED].sum(axis=1)
        groups = shown**2 / np.maximum((windows[:, :, SHOWN] ** 2).sum(axis=1), 1)
        for at in np.flatnonzero((events < MIN_RATE * rate * shown) & (groups >= MIN_GROUPS)).tolist():
            chance = float(bdtr(events[at] / spread, int(shown[at] / spread), rate))
            rows.append((chance, int(places[at]), int(places[ends[at] - 1]) + 1, int(shown[at]), int(events[at])))
    chance, since, until, lists, with_event = min(rows, default=(1.0, 0, 0, 0, 0))
    if chance >= MAX_CHANCE:
        return CheckResult(OK, f"{percent(rate, 1)} of lists have an event, and at no time far fewer")
    begin, end = (moment(time_of(place * timeline.width)) for place in (since, until))
    figure = f"{with_event:,} of {lists:,} lists have an event from {begin} to {end} (UTC), {percent(rate, 1)} of all"
    remedy = "events of that time are lost: look for an outage, and exclude the time if they cannot be recovered"
    return CheckResult(FAILED, figure, remedy)
