"""A tally's report: comparisons, health, and a verdict that says no more than they do."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from interleaf.click_value.learned_credit import CROSS_FITTED, LEARNED
from interleaf.errors import DataError, suggest
from interleaf.execution.collector import OTHER, notes_on_reading
from interleaf.methods.registry import resolve
from interleaf.report.arms import arms, baseline
from interleaf.report.comparisons import Compared, Pairs, compared, estimates_of, moment, over_time
from interleaf.report.effect_checks import FindText
from interleaf.report.health import health, neutrality, slots
from interleaf.report.model import Standing, Strength, Totals
from interleaf.report.report import Report
from interleaf.report.rule import HOLM, MAX_T, ONE_LOOK, UNIT, UNIT_AND_QUERY, Settings, without_stalled_plan
from interleaf.report.segments import segments
from interleaf.report.verdict import verdict
from interleaf.report.weights import activity
from interleaf.stats import ranking
from interleaf.stats.looks import MAX_LOOKS
from interleaf.tally import Tally
from interleaf.tally.page_sums import CLICKED

STALLED = (
    "New units have nearly stopped coming, so intervals are those without a plan: a plan counts units, and an interval "
    "that is planned in units would be too narrow for people who only come again."
)
POPULATIONS = {UNIT: "holds for these queries", UNIT_AND_QUERY: "holds for queries like these"}
BY_QUERY = (
    "Errors are clustered by unit and by query, so that the result holds for queries like these. Segments, the history "
    "and tests for one look are computed by unit only, and are left out."
)


def report(tally: Tally, settings: Settings, find_text: FindText | None = None) -> Report:
    """All that a tally tells; `find_text` gives the text of the query with a number."""
    _check(tally, settings)
    about, used = tally.about, without_stalled_plan(tally, settings)
    result = compared(tally, used) if about.method else None
    comparisons = result.comparisons if result else ()
    active = activity(tally, int(result.pairs.turn[0])) if result else ()
    measured, totals = arms(tally, used), _totals(tally)
    tested = slots(tally)
    checks = health(tally, used, result, tested, find_text)
    is_by_unit = used.cluster == UNIT
    return Report(
        experiment=about.experiment,
        version=about.version,
        method=about.composed,
        scored_as=about.method,
        scheme=about.scheme,
        events=about.events,
        rankers=about.rankers,
        control=settings.control,
        confidence=settings.confidence,
        planned_units=settings.planned_units,
        correction=settings.correction,
        rule=settings.rule,
        look=settings.look,
        verdict=verdict(comparisons, checks, settings, totals, active),
        totals=totals,
        health=checks,
        comparisons=comparisons,
        standing=_standing(tally, result, settings) if result else None,
        arms=measured,
        baseline=baseline(tally, settings),
        slots=tested,
        neutrality=neutrality(tally),
        over_time=over_time(tally, used, result) if result and is_by_unit else (),
        segments=segments(tally, used, result) if result and is_by_unit else (),
        activity=active,
        notes=_notes(tally, settings, used),
        cluster=settings.cluster,
        population=POPULATIONS[settings.cluster] if result and tally.queries.size else "",
    )


def _check(tally: Tally, settings: Settings) -> None:
    if settings.control is not None and settings.control not in tally.about.rankers:
        known = suggest(settings.control, tally.about.rankers)
        raise DataError(f"there is no ranker {settings.control!r} to be the control; there are {known}")
    if settings.correction not in (HOLM, MAX_T):
        raise DataError(
            f"unknown correction {settings.correction!r}; known are {suggest(settings.correction, (HOLM, MAX_T))}"
        )
    if settings.correction == MAX_T and settings.look != ONE_LOOK:
        raise DataError(
            "the correction max_t holds for one look at a planned time; give look=(1, 1), or use the correction holm"
        )
    clusters = UNIT, UNIT_AND_QUERY
    if settings.cluster not in clusters:
        raise DataError(f"unknown cluster {settings.cluster!r}; known are {suggest(settings.cluster, clusters)}")
    if settings.correction == MAX_T and settings.cluster == UNIT_AND_QUERY:
        raise DataError(f"the correction max_t resamples units alone; use holm with cluster={UNIT_AND_QUERY!r}")
    if not 0.5 <= settings.confidence < 1:
        raise DataError(f"confidence is {settings.confidence!r}; give a share from 0.5 to below 1, such as 0.95")
    if settings.look is not None and not 1 <= settings.look[0] <= settings.look[1] <= MAX_LOOKS:
        which, of = settings.look
        raise DataError(
            f"there is no look {which} of {of}; give which look of how many, such as 2 of 5. At most {MAX_LOOKS:,} can "
            "be planned; without a look, the verdict rests on intervals that may be checked at any time"
        )
    if settings.holdout is not None and not 0 < settings.holdout < 1:
        raise DataError(f"holdout is {settings.holdout!r}; give the planned share of units, such as 0.05")
    _check_split(tally, settings.split or {})
    if settings.planned_units is not None and settings.planned_units < 1:
        raise DataError(
            f"planned_units is {settings.planned_units!r}; give a whole number from 1 up, or None without a plan"
        )


def _check_split(tally: Tally, split: Mapping[str, float]) -> None:
    for arm, share in split.items():
        if arm not in tally.arms:
            raise DataError(
                f"split names the bucket {arm!r}, which the log does not have; there are {suggest(arm, tally.arms)}"
            )
        if not 0 < share < math.inf:
            raise DataError(f"the planned share of {arm!r} is {share!r}; give a number above 0, such as 0.5")


def _totals(tally: Tally) -> Totals:
    return Totals(
        impressions=tally.impressions,
        clicked=sum(int(arm.measures[:, CLICKED].sum()) for arm in tally.arms.values()),
        units=tally.units.count(),
        units_are_exact=tally.units.is_exact,
        since=None if tally.since is None else moment(tally.since),
        until=None if tally.until is None else moment(tally.until),
        dropped=dict(sorted(tally.dropped.items())),
        events=dict(sorted(tally.events.items())),
    )


def _standing(tally: Tally, result: Compared, settings: Settings) -> Standing | None:
    """Where each of many rankers stands; pairs in the order that `stats` takes them."""
    rankers = tally.about.rankers
    if len(rankers) < 3:
        return None
    natural = Pairs.of(rankers, None)
    back = np.argsort(result.pairs.order)
    sums = natural.weighted_scores(result.sums, result.weights, tally.about.linear)
    estimates = estimates_of(sums, result.weights, settings.confidence)
    adjusted = [result.comparisons[place].adjusted_p_value for place in back]
    places = ranking.standing(rankers, estimates, adjusted, settings.confidence)
    values = np.array([estimate.value or 0.0 for estimate in estimates])
    means = result.means[:, back] * result.pairs.turn[back]
    signed, clicked = not tally.about.linear, int(tally.scores.clicked.sum())
    fitted = ranking.strengths(rankers, values, clicked, means, signed, settings.confidence)
    strong = [None] * len(rankers) if fitted.values is None else fitted.values
    ranges = [None] * len(rankers) if fitted.intervals is None else fitted.intervals
    reasons = {"condorcet": places.reason, "strength": fitted.reason}
    return Standing(
        condorcet=places.condorcet,
        strengths=tuple(sorted(map(Strength, rankers, places.copeland, strong, ranges), key=_strongest_first)),
        cycles=places.cycles,
        reasons={name: reason for name, reason in reasons.items() if reason},
    )


def _strongest_first(place: Strength) -> tuple[float, int]:
    return -(place.strength or 0.0), -place.copeland  # without strengths, all have none


def _notes(tally: Tally, settings: Settings, used: Settings) -> tuple[str, ...]:
    """What a reader should know, and would not see."""
    about = tally.about
    notes = [
        f"{name[0].upper()}{name[1:]}, left out: {number:,}."
        for name, number in sorted(tally.facts.items())
        if name.startswith(OTHER)
    ]
    notes += notes_on_reading(tally)
    if about.scheme.startswith(LEARNED):
        honest = "each user was scored by weights from users before" if about.scheme.endswith(CROSS_FITTED) else ""
        notes.append(
            "Clicks earn what was learned of such clicks (C12, section 10), not one credit each; "
            + (f"this experiment had a part in it, so {honest}." if honest else "this experiment had no part in it.")
        )
    if about.sessions is not None:
        notes.append(
            f"Impressions of a unit less than {about.sessions:g} s apart were scored as one (C12, section 9): counts "
            "of impressions in comparisons are sessions. Such tallies add up if logs are split by unit."
        )
    if about.method and about.scheme in resolve(about.method).method.rankless_schemes and not tally.lists.seen.any():
        notes.append(
            f"The log has no ranks, so lists were scored by {about.scheme}: clicks on what all rankers show alike "
            "count, and add noise. Log ranks or rankings to leave them out."
        )
    if tally.segments and settings.cluster == UNIT:
        notes.append(
            f"{len(tally.segments)} segments were looked at. Their intervals and adjusted p-values hold for all of "
            "them together, by the rule of the report."
        )
    if not about.method:
        notes.append("The log has no interleaved lists: arms are compared, rankers are not.")
    notes += [STALLED] if used != settings else []
    notes += [BY_QUERY] if settings.cluster == UNIT_AND_QUERY else []
    return tuple(notes)
