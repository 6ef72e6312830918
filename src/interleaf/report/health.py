"""Health, before any verdict: checks that a sound experiment passes, each with its figure and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from interleaf.decode import RELAXED
from interleaf.kernels.buckets import BUCKETS
from interleaf.log.schema import FALLBACK, HOLDOUT, INTERLEAVED
from interleaf.methods.registry import resolve
from interleaf.metrics.absolute import METRICS
from interleaf.report.arms import interleaved_against_holdout
from interleaf.report.codes import code_of
from interleaf.report.comparisons import Compared
from interleaf.report.effect_checks import FindText, effect_over_time, holds_without_query, units_once
from interleaf.report.format import signed
from interleaf.report.list_checks import bias, clicks_by_rank, list_checks
from interleaf.report.log_checks import event_checks, row_checks
from interleaf.report.model import (
    FAILED,
    OK,
    SKIPPED,
    WARN_BELOW,
    WARNING,
    Check,
    Comparison,
    Neutrality,
    Slot,
    graded,
    tested,
)
from interleaf.report.rule import UNIT, Settings
from interleaf.report.traffic_checks import ab_split, events_over_time, repeated_content
from interleaf.stats.multiplicity import holm
from interleaf.stats.shares import share_test, share_tests
from interleaf.tally import ALONE, Tally
from interleaf.tally.evidence import DAY
from interleaf.tally.page_sums import QUERIES, quantile
from interleaf.tally.score_sums import ONE
from interleaf.tally.units import ARMS

FEW_UNITS = 20
MANY_VISITS, ONCE = 1000, 1.01  # impressions with a unit, and how many for each unit are so few that ids do not last
MANY_IN_DAYS, DAYS = 200, 2  # as many are enough where they are of so many days


def health(
    tally: Tally,
    settings: Settings,
    result: Compared | None,
    slots: Sequence[Slot],
    find_text: FindText | None = None,
) -> tuple[Check, ...]:
    """All checks, in the order in which one would look."""
    comparisons = result.comparisons if result else ()
    checks = [*row_checks(tally), repeated_content(tally), *event_checks(tally), events_over_time(tally)]
    checks += [clicks_by_rank(tally), *_units(tally, settings, comparisons), units_once(tally)]
    checks += [*_arms(tally, settings), *ab_split(tally, settings.split)]
    if tally.about.method:
        checks += [*_lists(tally, slots, settings), *list_checks(tally), effect_over_time(tally), *_scoring(tally)]
        checks += [holds_without_query(tally, result, settings, find_text)] if result else []
        checks += [*_aa(comparisons)] if settings.aa else []
    return tuple(replace(check, code=code_of(check.name)) for check in checks)


def _units(tally: Tally, settings: Settings, comparisons: Sequence[Comparison]) -> Iterator[Check]:
    kept = tally.impressions
    alone = tally.facts.get(ALONE, 0)
    yield Check(
        "Units known",
        WARNING if alone else OK,
        f"{kept - alone:,} of {kept:,} impressions say whose they are",
        "without a unit, repeat visits of a person are taken for those of many: log a user, client or session"
        if alone
        else "",
    )
    units = tally.units.count() - alone
    days = ((tally.until or 0) - (tally.since or 0)) / DAY
    enough = MANY_IN_DAYS if days >= DAYS else MANY_VISITS
    if units and kept - alone >= enough and kept - alone <= ONCE * units:
        yield Check(
            "Units come back",
            WARNING,
            f"{units:,} units made {kept - alone:,} impressions: nearly every unit came once",
            "ids may be drawn anew with each request, so that a person changes lists and arms: give visitors who are "
            "not logged in a lasting id, as interleaf.visitor_id does",
        )
    effective = next((one.effective_units for one in comparisons if one.effective_units is not None), None)
    if effective is not None:
        few, by_unit = effective < FEW_UNITS, settings.cluster == UNIT
        yield Check(
            "Enough units",
            WARNING if few else OK,
            f"{effective:,.0f} effective unit{'' if round(effective) == 1 else 's'}{'' if by_unit else ' or queries'} "
            f"(at most {BUCKETS:,}: units are grouped into as many buckets)",
            f"below {FEW_UNITS} intervals are rough: wait for more people, or look for one who makes most visits"
            if few
            else "",
        )
    leaning = [
        one for one in comparisons if one.winner and (one.estimate or 0.0) * (one.per_person_estimate or 0.0) < 0
    ]
    if leaning:
        one = leaning[0]
        yield Check(
            "Light users agree",
            WARNING,
            f"{one.winner} is preferred, but with one voice per person {one.first} over {one.second} is "
            f"{signed(one.per_person_estimate or 0.0)}: heavy users make the difference",
            "look at who comes how often, in the report's table of activity, and wait for more people",
        )


def _arms(tally: Tally, settings: Settings) -> Iterator[Check]:
    impressions = {name: int(arm.measures[:, QUERIES].sum()) for name, arm in tally.arms.items()}
    total = max(sum(impressions.values()), 1)
    fallback = impressions.get(FALLBACK, 0)
    causes = [name for name in tally.facts if name.startswith("fallback: ")]
    yield Check(
        "Fallbacks",
        graded(fallback / total, 0.01, 0.1),
        f"{fallback:,} of {total:,} lists were the control's, because a ranker failed"
        + "".join(f"; {name.removeprefix('fallback: ')}: {tally.facts[name]:,}" for name in causes),
        "a slow or failing ranker is not compared where it fails" if fallback else "",
    )
    for ranker, bins in zip(tally.about.rankers, tally.lists.latency, strict=True):
        if bins.any():
            middle, slow = quantile(bins, 0.5), quantile(bins, 0.95)
            yield Check(f"Latency of {ranker}", OK, f"median {middle:,.0f} ms, 95 % below {slow:,.0f} ms")
    randomised = [place for place, name in enumerate(tally.arms) if name != FALLBACK]
    if len(randomised) > 1:
        yield _crossing(tally, randomised)
    if HOLDOUT in tally.arms and INTERLEAVED in tally.arms:
        yield from _holdout(tally, settings)
    elif settings.holdout is not None:
        chance = (1 - settings.holdout) ** tally.units.count()  # that nobody is in it yet
        status = tested(chance)
        told = f"no unit is in the holdout, {settings.holdout:.2%} were planned"
        yield Check("Holdout split", status, told, "" if status == OK else "switch it on")


def _crossing(tally: Tally, arms: list[int]) -> Check:
    seen = tally.units.rows[:, ARMS]
    several = sum((seen >> place & 1 for place in arms), start=np.zeros(len(seen), np.int64)) > 1
    share = float(several.mean()) if len(several) else 0.0
    return Check(
        "Units in one arm",
        graded(share, 0.001, 0.01),
        f"{tally.units.count(several):,} of {tally.units.count():,} units were in several arms",
        "arms are given by a hash of the unit, and a unit keeps its arm: check that the id is lasting" if share else "",
    )


def _holdout(tally: Tally, settings: Settings) -> Iterator[Check]:
    """Whether people do otherwise with interleaved lists, and whether the holdout is as large as it should be.

    The first is never a failure: lists with documents of a worse ranker are worse, and the comparison is sound.
    """
    for name in ("clicks", "abandonment"):
        found = interleaved_against_holdout(tally, name, settings.confidence)
        title = f"Interleaved against holdout, {METRICS[name].title.lower()}"
        if found is None or found.difference is None or found.p_value is None:
            yield Check(title, SKIPPED, (found and found.reason) or "there is nothing to compare")
            continue
        differs, is_worse = found.p_value < WARN_BELOW, (found.difference > 0) == METRICS[name].rises
        cause = f"expected if a candidate is {'worse' if is_worse else 'better'} than the control"
        yield Check(
            title,
            WARNING if differs else OK,
            f"{signed(found.difference)}, p = {found.p_value:.2g}",
            f"{cause}; if none is, look at latency and at how lists are shown" if differs else "",
        )
    if settings.holdout is None:
        share = (
            tally.units.count(tally.units.rows[:, ARMS] >> list(tally.arms).index(HOLDOUT) & 1) / tally.units.count()
        )
        figure = f"{share:.2%} of units; the planned share is not given (holdout=0.05), so it cannot be compared"
        yield Check("Holdout split", SKIPPED, figure)
    else:
        seen, names = tally.units.rows[:, ARMS], list(tally.arms)
        inside = seen >> names.index(HOLDOUT) & 1
        found_share = share_test(inside, np.ones(len(inside), np.int64), settings.holdout)
        yield Check(
            "Holdout split",
            tested(found_share.p_value),
            f"{found_share.share or 0:.2%} of units, {settings.holdout:.2%} planned",
            "units are lost or added on one side: look for redirects, bots and late joins"
            if tested(found_share.p_value) in (WARNING, FAILED)
            else "",
        )


def _lists(tally: Tally, slots: Sequence[Slot], settings: Settings) -> Iterator[Check]:
    interleaved = max(int(tally.scores.impressions.sum()), 1)
    alone = tally.facts.get(ALONE, 0)
    if 2 * alone > interleaved:
        yield Check(
            "Fair lists", SKIPPED, "without units, a person's repeated coins cannot be told from those of many people"
        )
    elif not resolve(tally.about.composed).method.has_teams:
        yield _fair_tops(tally)
    elif tally.scores.impressions.any() and not (tally.lists.owned.any() or tally.lists.seen.any()):
        untold = "of no list are all owners known, so whether lists were mixed, and fairly, cannot be told"
        remedy = "log the owner of every shown document, not of clicked ones only, or the ranks"
        yield Check("Fair lists", WARNING, untold, remedy)
    else:
        yield _fair_slots(slots)
    with_ranks = int(tally.lists.seen[:, 0, 0].any()) and tally.about.sessions is None
    if with_ranks and settings.aa and not tally.lists.differ[0]:
        yield Check("Rankings differ", SKIPPED, "a ranking is compared with itself, so there is nothing to differ")
    elif with_ranks:
        share = int(tally.lists.differ[0]) / interleaved
        yield Check(
            "Rankings differ",
            WARNING if share < 0.05 else OK,
            f"in {share:.1%} of lists",
            "the rankers show nearly the same: most impressions cannot tell them apart" if share < 0.05 else "",
        )
    relaxed = tally.facts.get(RELAXED, 0)
    if relaxed:
        yield Check(
            "Constraints met",
            graded(relaxed / interleaved, 0.01, 0.5),
            f"{relaxed:,} of {interleaved:,} lists could not satisfy all constraints of {tally.about.composed}",
            "credit on those lists may be biased: use team_draft or pairwise_preference for rankings like these",
        )


def _fair_slots(slots: Sequence[Slot]) -> Check:
    known = [slot for slot in slots if slot.p_value is not None]
    if not known:
        return Check("Fair lists", SKIPPED, next((slot.reason for slot in slots), "no position has an owner"))
    worst = min(known, key=lambda slot: slot.p_value or 0.0)
    if worst.p_value == 1:
        return Check("Fair lists", OK, "every ranker owns its share at every position, as far as chance allows")
    return Check(
        "Fair lists",
        tested(worst.p_value),
        f"at position {worst.position}, {worst.ranker} owns {worst.share:.1%} ({worst.expected:.1%} expected), "
        f"adjusted p = {worst.p_value:.2g}: the most unusual share",
        "lists are not drawn as the method says: check the composing side, caching, and lost impressions"
        if tested(worst.p_value) in (WARNING, FAILED)
        else "",
    )


def _fair_tops(tally: Tally) -> Check:
    """Methods without teams: whose top document is shown first, where these differ, should be even."""
    method, rankers = resolve(tally.about.composed).method, len(tally.about.rankers)
    tops = tally.lists.tops
    shown_first = tops[:, 1:].sum(axis=1)
    if not method.even_tops:
        return Check("Fair lists", SKIPPED, f"{method.name} promises no even shares of positions")
    if not shown_first.any():
        return Check("Fair lists", SKIPPED, "no list has ranks, and top documents that differ")
    found = share_tests(tops[:, 1:], np.repeat(shown_first[:, None], rankers, axis=1), 1 / rankers)
    adjusted = holm([share.p_value for share in found])
    known = [(p_value, place) for place, p_value in enumerate(adjusted) if p_value is not None]
    if not known:
        return Check("Fair lists", SKIPPED, found[0].reason)
    p_value, place = min(known)
    return Check(
        "Fair lists",
        tested(p_value),
        f"where top documents differ, that of {tally.about.rankers[place]} is first in {found[place].share:.1%} "
        f"({1 / rankers:.1%} expected), adjusted p = {p_value:.2g}",
        "lists are not drawn as the method says: check the composing side, caching, and lost impressions"
        if tested(p_value) in (WARNING, FAILED)
        else "",
    )


def _scoring(tally: Tally) -> Iterator[Check]:
    relaxed = tally.facts.get(RELAXED, 0) > 0
    problem = bias(tally.about.composed, tally.about.method, tally.about.scheme, relaxed)
    yield Check(
        "Unbiased scoring",
        WARNING if problem else OK,
        problem or f"{tally.about.method} by {tally.about.scheme}",
        "compose and score by one method, and one that is proved unbiased (interleaf audit)" if problem else "",
    )


def _aa(comparisons: Sequence[Comparison]) -> Iterator[Check]:
    for one in comparisons:
        p_value = one.adjusted_p_value
        yield Check(
            f"A/A: {one.first} and {one.second}",
            tested(p_value),
            "no estimate" if one.estimate is None else signed(one.estimate),
            "rankers that should be alike are not: do not trust other comparisons of this set-up"
            if tested(p_value) in (WARNING, FAILED)
            else "",
        )


def slots(tally: Tally) -> tuple[Slot, ...]:
    """Which share of the owned slots each ranker has, by position; p-values are adjusted over all of them."""
    owned, rankers = tally.lists.owned, tally.about.rankers
    used = np.flatnonzero(owned.any(axis=(0, 2)))
    if not len(used):
        return ()
    tested_rankers = range(1) if len(rankers) == 2 else range(len(rankers))
    hits = np.stack([owned[:, place, ranker] for place in used for ranker in tested_rankers], axis=1)
    totals = np.stack([owned[:, place].sum(axis=1) for place in used for _ in tested_rankers], axis=1)
    found = share_tests(hits, totals, 1 / len(rankers))
    adjusted = holm([share.p_value for share in found])
    rows = []
    for number, place in enumerate(used.tolist()):
        total = int(owned[:, place].sum())
        for ranker, name in enumerate(rankers):
            share = int(owned[:, place, ranker].sum()) / total
            test = number * len(tested_rankers) + (ranker if len(tested_rankers) > 1 else 0)
            rows.append(Slot(place + 1, name, share, 1 / len(rankers), adjusted[test], found[test].reason))
    return tuple(rows)


def neutrality(tally: Tally) -> tuple[Neutrality, ...]:
    """How each ranker fared in the lists, a list on average."""
    seen = tally.lists.seen.sum(axis=0)
    lists = int(tally.arms[INTERLEAVED].measures[:, QUERIES].sum()) if INTERLEAVED in tally.arms else 0
    if not lists or not seen.any():
        return ()
    return tuple(
        Neutrality(name, int(shown) / lists, int(first) / lists, int(total) / ONE / int(shown) if shown else None)
        for name, (shown, first, total) in zip(tally.about.rankers, seen, strict=True)
    )
